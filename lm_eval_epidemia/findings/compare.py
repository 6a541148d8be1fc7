"""One model asked in several ways or wordings: its scores side by side, and how they differ."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.findings.comparison import Comparison, compare_entries, compare_ways
from lm_eval_epidemia.findings.leaderboard import columns
from lm_eval_epidemia.findings.means import Mean, mean_over
from lm_eval_epidemia.results.entry import Asked, Entry, closest, leaf
from lm_eval_epidemia.results.results import Results


class Row(NamedTuple):
    """A model's mean scores over the tasks that it was asked in all of its ways.

    Attributes
    ----------
    model : str
    group : str
    tasks : int
    scores : dict of str to Mean
        By way.
    """

    model: str
    group: str
    tasks: int
    scores: dict[str, Mean]


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
    found = []
    for entry in entries:
        groups: dict[str, dict[str, set[str]]] = {}
        for asked, one in entry.scores.items():
            if not math.isnan(one.value):
                ways = groups.setdefault(leaf(asked).entry.group, {})
                ways.setdefault(asked.way, set()).add(asked.task)
        for group, by_way in groups.items():
            found.append(Ways(entry, group, {way: by_way[way] for way in WAYS if way in by_way}))
    return found


def asked_in_wordings(entries: Iterable[Entry]) -> list[Comparison]:
    """Compare what a model scores in bare words with what it does in the usual ones.

    Everything else that was said about its prompts must be the same. By group, over the tasks that
    it was asked in both.
    """
    listed = list(entries)
    usual: dict[Any, list[Entry]] = {}
    for one in listed:
        usual.setdefault((one.weights, one.chat, one.settings, one.protocol), []).append(one)
    found = []
    for bare in listed:
        rest = tuple(said for said in bare.protocol.variant if said[0] != "wording")
        if rest == bare.protocol.variant:
            continue
        plain = replace(bare.protocol, variant=rest)
        same = usual.get((bare.weights, bare.chat, bare.settings, plain), [])
        found += [
            compared
            for one in closest(same, bare)
            for column in columns([bare])
            if (compared := compare_entries(bare, one, column)).tasks
        ]
    return found


def _named(entry: Entry) -> str:
    """Name a model with everything that was said about its prompts."""
    protocol = str(replace(entry.protocol, variant=entry.variant))
    shown = [f"{key}={value}" for key, value in entry.shown if key not in dict(entry.variant)]
    said = [part for part in ("chat template" * entry.chat, *shown, protocol) if part]
    return entry.model + (f" ({', '.join(said)})" if said else "")


def compare(results: Results) -> list[Row]:
    """Put the ways of asking side by side.

    Parameters
    ----------
    results : Results
        As `read_results` returns them.

    Returns
    -------
    list of Row
        One per model and group. Only tasks that the model was asked in all of its ways count, so
        that the means are of the same questions; a task without a score (NaN) is left out too.
        Where no task is left there is no row, see `without_tasks`.
    """
    return [
        Row(
            _named(found.entry),
            found.group,
            len(found.tasks),
            {
                way: mean_over(found.entry, [Asked(task, way) for task in found.tasks])
                for way in found.ways
            },
        )
        for found in asked_in_ways(results.entries)
        if found.tasks
    ]


def without_tasks(results: Results) -> list[str]:
    """Say of which models and groups `compare` has no row, and what to run."""
    return [
        f"{_named(found.entry)}: no task of {found.group} has a score in all of its ways "
        f"({', '.join(found.ways)}): ask the same tasks in each, or give the results of one way "
        "alone"
        for found in asked_in_ways(results.entries)
        if not found.tasks
    ]
