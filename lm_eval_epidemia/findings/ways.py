"""One model asked in several ways or wordings: its scores side by side, and how they differ."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.findings.comparison import Comparison, compare_ways
from lm_eval_epidemia.findings.finding import Number
from lm_eval_epidemia.findings.means import mean_over
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.naming import with_settings
from lm_eval_epidemia.results.results import Results


class SideBySide(NamedTuple):
    """A model's mean scores over the tasks that it was asked in all of its ways.

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
    """The tasks of a group that a model has a score in, in each of the ways it was asked them.

    Attributes
    ----------
    entry : Entry
    group : str
        As named in the plain way.
    ways : dict of str to set of str
        In the order of `WAYS`; tasks without suffix.
    """

    entry: Entry
    group: str
    ways: dict[str, set[str]]

    @property
    def tasks(self) -> list[str]:
        """Those with a score in all ways."""
        return sorted(set.intersection(*self.ways.values()))

    @property
    def differences(self) -> list[Comparison]:
        """Two ways at a time, those that are on one scale, over the tasks of both."""
        alike = [way for way in self.ways if WAYS[way].distribution is not None]
        return [
            compare_ways(self.entry, in_way(self.group, way), sorted(tasks), way, other)
            for other, way in combinations(alike, 2)
            if (tasks := self.ways[way] & self.ways[other])
        ]


def asked_in_ways(entries: Iterable[Entry]) -> list[Ways]:
    """Find what each model was asked, by group; a task without a score (NaN) was not."""
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
    """Name a model with everything that was said about its prompts."""
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
        As `read_results` returns them.

    Returns
    -------
    list of SideBySide
        One per model and group. Only tasks that the model was asked in all of its ways count, so
        that the means are of the same questions; a task without a score (NaN) is left out too.
        Where no task is left there is no row, see `without_tasks`.
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
    """Say of which models and groups `side_by_side` has no row, and what to run."""
    return [
        (
            f"{_named(asked.entry)}: no task of {asked.group} has a score in all its ways "
            f"({', '.join(asked.ways)}): ask the same tasks in each, or give the results of one "
            "way alone"
        )
        for asked in asked_in_ways(results.entries)
        if not asked.tasks
    ]
