"""Metadata that has no effect on what is asked: on none of a run's tasks, or only on some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import in_way, leaves, members
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.elicit.heeded import asked_for


class Unheeded(NamedTuple):
    """Sentences on keys of ``--metadata``.

    Attributes
    ----------
    by_all : list of str
        On keys that none of the tasks heeds.
    by_some : list of str
        On keys that some of them heed.
    """

    by_all: list[str]
    by_some: list[str]


def unheeded(metadata: Mapping[str, Any], names: Iterable[str]) -> Unheeded:
    """Say which keys of a run's metadata have no effect on its tasks.

    Parameters
    ----------
    metadata : mapping
    names : iterable of str
        Of tasks, groups, surveys or patterns. What is not known here may heed anything.
    """
    known, found = leaves(), Unheeded([], [])
    try:
        asked = [in_way(*member) for name in names for member in members(name)]
    except EpidemiaError:
        return found
    tasks = {name: known[name] for name in asked}
    for key in asked_for(metadata):
        idle = [name for name, leaf in tasks.items() if not leaf.heeds(key)]
        groups = list(dict.fromkeys(leaf.group for leaf in known.values() if leaf.heeds(key)))
        if idle:
            (found.by_all if len(idle) == len(tasks) else found.by_some).append(
                f"--metadata {key} has no effect on {few(idle)}; it is for {few(groups)}"
            )
    return found
