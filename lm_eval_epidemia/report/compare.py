"""One model asked in several ways: its scores side by side."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from lm_eval_epidemia.elicit.ways import WAYS
from lm_eval_epidemia.report.means import Mean, mean_over
from lm_eval_epidemia.report.results import Asked, Entry, Results, leaf

__all__ = ["Row", "compare"]


class Row(NamedTuple):
    """A model's mean scores over the tasks that it was asked in all of these ways.

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


def _named(entry: Entry) -> str:
    """Name a model with everything that was said about its prompts."""
    protocol = str(replace(entry.protocol, variant=entry.variant))
    said = [part for part in ("chat template" * entry.chat, protocol) if part]
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
    """
    rows = []
    for entry in results.entries:
        groups: dict[str, dict[str, set[str]]] = {}
        for asked, one in entry.scores.items():
            if not math.isnan(one.value):
                ways = groups.setdefault(leaf(asked).entry.group, {})
                ways.setdefault(asked.way, set()).add(asked.task)
        for group, by_way in groups.items():
            common = sorted(set.intersection(*by_way.values()))
            scores: dict[str, Mean] = {}
            for way in WAYS:
                if way in by_way and common:
                    scores[way] = mean_over(entry, [Asked(task, way) for task in common])
            rows.append(Row(_named(entry), group, len(common), scores))
    return rows
