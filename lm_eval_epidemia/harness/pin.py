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
        installed = version("lm-eval")
    except PackageNotFoundError:
        return  # used from a checkout that is not installed
    for pin in needed:
        if pin.name == "lm-eval" and not pin.extras and not pin.specifier.contains(installed, True):
            notices.warn(
                "lm-eval",
                f"lm-eval {installed} is installed, this version was tried with {pin}: results may "
                f"be slow, wrong or missing; pip install '{pin}'",
            )
            return
