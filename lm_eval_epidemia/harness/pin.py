"""The version of lm-eval that this package is tested with."""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from lm_eval_epidemia.core import notices


def pinned() -> Any:
    """Return this package's requirement of lm-eval (a `packaging` Requirement), without extras.

    None if the package runs from a checkout that is not installed.
    """
    from packaging.requirements import Requirement

    try:
        needed = map(Requirement, requires("lm-eval-epidemia") or ())
    except PackageNotFoundError:
        return None
    return next((pin for pin in needed if pin.name == "lm-eval" and not pin.extras), None)


@functools.cache
def check_lm_eval() -> None:
    """Warn once if the installed lm-eval is not the version that this package requires.

    ``tests/test_pin.py`` checks what can differ.
    """
    try:
        pin, installed = pinned(), version("lm-eval")
    except PackageNotFoundError:
        return  # lm-eval from a checkout that is not installed
    if pin and not pin.specifier.contains(installed, True):
        notices.warn(
            "lm-eval",
            f"lm-eval {installed} is installed, but this package is tested with {pin}: results "
            f"may be slow, wrong or missing. Run: pip install '{pin}'",
        )
