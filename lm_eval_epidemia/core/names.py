"""What surveys, variables, vintages and sets of quantities may be called.

Each name becomes part of names of files, folders, tasks and groups, here and in an export.
"""

from __future__ import annotations

import re

from lm_eval_epidemia.core.errors import EpidemiaError

#: What may follow ``epidemia_`` as the name of a group.
GROUPS = (
    "low",
    "high",
    "extra",
    "fresh",
    "intervention",
    "joint",
    "marginal",
    "people",
    "prior",
    "quick",
    "world",
    "years",
)

#: A task's name that ends so would be the name of another task in one of the ways of asking.
WAYS = (
    "likelihood",
    "sampled",
    "stated",
    "closed",
    "rag",
    "written",
    "substitution",
    "retrieval",
    "knowledge",
    "choice",
    "variance",
    "quantile",
    "grid",
)

#: Names of surveys that would make ``epidemia_NAME`` the name of another group.
RESERVED = frozenset({*GROUPS, *WAYS})

#: Of each kind, what its names look like, in words too.
_FORMS = {
    "survey": (
        r"[a-z][a-z0-9]{0,39}",
        "is of small letters and digits, begins with a letter, and is no longer than 40; for "
        "example mysurvey2024",
    ),
    "set of quantities": (
        r"[a-z][a-z0-9_]{0,79}",
        "is of small letters, digits and _, begins with a letter, and is no longer than 80; for "
        "example nsduh_young",
    ),
    "variable": (r"[A-Za-z0-9_]+", "is of letters from A to Z, digits and _"),
    "vintage": (
        r"[A-Za-z0-9][A-Za-z0-9._-]*",
        "is of letters from A to Z, digits, '.', _ and -, and begins with a letter or digit",
    ),
}


def fault_of(kind: str, name: str) -> str:
    """Say why a name cannot be one of its kind; empty if it can."""
    form, words = _FORMS[kind]
    return "" if re.fullmatch(form, name) else f"{name[:60]!r}: the name of a {kind} {words}"


def check_name(kind: str, name: str, option: str = "--name") -> None:
    """Refuse a name that would not do for files and tasks, such as ``../x`` and ``a b{x}``.

    Parameters
    ----------
    kind : str
        "survey", "set of quantities", "variable" or "vintage".
    name : str
    option : str
        Where it was given.

    Raises
    ------
    EpidemiaError
    """
    if fault := fault_of(kind, name):
        raise EpidemiaError(f"{option} {fault}")
