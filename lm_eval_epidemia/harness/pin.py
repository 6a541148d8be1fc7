"""Which lm-eval this package was tried with."""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from lm_eval_epidemia.core import notices


def pinned() -> Any:
    """Return what this package asks for of lm-eval, a `packaging` Requirement, without extras.

    None where it is used from a checkout that is not installed.
    """
    from packaging.requirements import Requirement

    try:
        needed = map(Requirement, requires("lm-eval-epidemia") or ())
    except PackageNotFoundError:
        return None
    return next((pin for pin in needed if pin.name == "lm-eval" and not pin.extras), None)


@functools.cache
def check_lm_eval() -> None:
    """Warn, once, where lm-eval is another than this package asks for: somebody forced it.

    What can differ is what ``tests/test_pin.py`` looks at.
    """
    try:
        pin, installed = pinned(), version("lm-eval")
    except PackageNotFoundError:
        return  # lm-eval from a checkout that is not installed
    if pin and not pin.specifier.contains(installed, True):
        notices.warn(
            "lm-eval",
            f"lm-eval {installed} is installed, this version was tried with {pin}: results may "
            f"be slow, wrong or missing; pip install '{pin}'",
        )
