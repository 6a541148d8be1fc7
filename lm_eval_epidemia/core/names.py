"""Rules for the names of surveys, variables, vintages and sets of quantities.

A name becomes part of the names of files, folders, tasks and groups, here and in exports.
"""

from __future__ import annotations

import re

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.paths import read_yaml

_NAMES = read_yaml(__package__, "names.yaml")
GROUPS, ENDINGS = _NAMES["groups"].split(), _NAMES["endings"].split()

#: Forbidden survey names: ``epidemia_NAME`` would be the name of another group.
RESERVED = frozenset({*GROUPS, *ENDINGS})


def fault_of(kind: str, name: str) -> str:
    """Return why a name is not allowed; empty if it is allowed."""
    form = _NAMES["forms"][kind]
    fault = f"{name[:60]!r}: the name of a {kind} {form['words']}"
    return "" if re.fullmatch(form["pattern"], name) else fault


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
