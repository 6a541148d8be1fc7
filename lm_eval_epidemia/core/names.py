"""Rules for the names of surveys, variables, vintages and sets of quantities.

A name becomes part of the names of files, folders, tasks and groups, here and in exports.
"""

from __future__ import annotations

import re

from lm_eval_epidemia.core.errors import EpidemiaError

#: The parts after ``epidemia_`` that name a group.
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

#: Endings of the ways of asking: a task name with such an ending would be ambiguous.
ENDINGS = (
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

#: Forbidden survey names: ``epidemia_NAME`` would be the name of another group.
RESERVED = frozenset({*GROUPS, *ENDINGS})

#: The pattern of each kind of name, and its description.
_FORMS = {
    "survey": (
        r"[a-z][a-z0-9]{0,39}",
        "must begin with a lower-case letter and contain only lower-case letters and digits, 40 "
        "at most; for example mysurvey2024",
    ),
    "set of quantities": (
        r"[a-z][a-z0-9_]{0,79}",
        "must begin with a lower-case letter and contain only lower-case letters, digits and _, "
        "80 at most; for example nsduh_young",
    ),
    "variable": (r"[A-Za-z0-9_]+", "may contain only letters from A to Z, digits and _"),
    "vintage": (
        r"[A-Za-z0-9][A-Za-z0-9._-]*",
        "must begin with a letter or digit and contain only letters from A to Z, digits, '.', _ "
        "and -",
    ),
}


def fault_of(kind: str, name: str) -> str:
    """Return why a name is not allowed; empty if it is allowed."""
    form, words = _FORMS[kind]
    return "" if re.fullmatch(form, name) else f"{name[:60]!r}: the name of a {kind} {words}"


def check_name(kind: str, name: str, option: str = "--name") -> None:
    """Refuse a name that is unusable for files or tasks, such as ``../x`` or ``a b{x}``.

    Parameters
    ----------
    kind : str
        "survey", "set of quantities", "variable" or "vintage".
    name : str
    option : str
        The option that gave it, for the message.

    Raises
    ------
    EpidemiaError
    """
    if fault := fault_of(kind, name):
        raise EpidemiaError(f"{option} {fault}")
