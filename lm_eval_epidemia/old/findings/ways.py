"""One model asked in several ways or wordings: scores side by side, and their differences."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.old.findings.comparison import Comparison, compare_ways
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.old.findings.means import mean_over
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.naming import with_settings
from lm_eval_epidemia.results.results import Results


class SideBySide(NamedTuple):
    """A model's mean scores over the tasks asked in all of its ways.

    Attributes
    ----------
    model : str
    group : str
    tasks : int
    means : dict of str to Number
        By way.
    """

    model: str
    group: str
    tasks: int
    means: dict[str, Number]


class Ways(NamedTuple):
    """The tasks of a group with a score of a model, for each way of asking.

    Attributes
    ----------
    entry : Entry
    group : str
        Its name in the plain way.
    ways : dict of str to set of str
        In the order of `WAYS`; tasks without suffix.
    """

    entry: Entry
    group: str
    ways: dict[str, set[str]]

    @property
    def tasks(self) -> list[str]:
        """The tasks with a score in all ways."""
        return sorted(set.intersection(*self.ways.values()))

    @property
    def differences(self) -> list[Comparison]:
        """All pairs of ways on the same scale, over the tasks of both."""
        alike = [way for way in self.ways if WAYS[way].distribution is not None]
        return [
            compare_ways(self.entry, in_way(self.group, way), sorted(tasks), way, other)
            for other, way in combinations(alike, 2)
            if (tasks := self.ways[way] & self.ways[other])
        ]


def asked_in_ways(entries: Iterable[Entry]) -> list[Ways]:
    """Find the tasks asked of each model, by group; tasks without a score (NaN) do not count."""
    asked_in: list[Ways] = []
    for entry in entries:
        by_group: dict[str, dict[str, set[str]]] = {}
        for asked, score in entry.scores.items():
            if not math.isnan(score.value):
                ways = by_group.setdefault(leaf(asked).entry.group, {})
                ways.setdefault(asked.way, set()).add(asked.task)
        for group, ways in by_group.items():
            asked_in.append(Ways(entry, group, {way: ways[way] for way in WAYS if way in ways}))
    return asked_in


def _named(entry: Entry) -> str:
    """Name a model with all settings of its prompts."""
    protocol = str(replace(entry.protocol, variant=entry.variant))
    shown = [f"{key}={value}" for key, value in entry.shown if key not in dict(entry.variant)]
    return with_settings(
        entry.model, filter(None, ("chat template" * entry.chat, *shown, protocol))
    )


def side_by_side(results: Results) -> list[SideBySide]:
    """Put the ways of asking side by side.

    Parameters
    ----------
    results : Results
        As from `read_results`.

    Returns
    -------
    list of SideBySide
        One per model and group. Only tasks with a score in all of the model's ways count, so that
        the means cover the same questions. Without such tasks there is no row, see `without_tasks`.
    """
    rows = []
    for asked in asked_in_ways(results.entries):
        if tasks := asked.tasks:
            means = {
                way: mean_over(asked.entry, [Asked(task, way) for task in tasks])
                for way in asked.ways
            }
            rows.append(SideBySide(_named(asked.entry), asked.group, len(tasks), means))
    return rows


def without_tasks(results: Results) -> list[str]:
    """Name the models and groups without a row in `side_by_side`, and what to run."""
    return [
        (
            f"{_named(asked.entry)}: no task of {asked.group} has a score in all its ways "
            f"({', '.join(asked.ways)}): ask the same tasks in each, or give the results of one "
            "way alone"
        )
        for asked in asked_in_ways(results.entries)
        if not asked.tasks
    ]
