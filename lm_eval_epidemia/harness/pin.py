"""Which lm-eval this package was tried with."""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError, requires, version

from lm_eval_epidemia.core import notices


@functools.cache
def check_lm_eval() -> None:
    """Warn, once, where lm-eval is another than this package asks for: somebody forced it.

    What can differ is what ``tests/test_pin.py`` looks at.
    """
    from packaging.requirements import Requirement

    try:
        needed = [Requirement(line) for line in requires("lm-eval-epidemia") or ()]
        found = version("lm-eval")
    except PackageNotFoundError:
        return  # used from a checkout that is not installed
    for one in needed:
        if one.name == "lm-eval" and not one.extras:
            if not one.specifier.contains(found, prereleases=True):
                notices.warn(
                    "lm-eval",
                    f"lm-eval {found} is installed, this version was tried with {one}: results may "
                    f"be slow, wrong or missing; pip install '{one}'",
                )
            return
