"""A task in a way of asking, and its score in one file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import Leaf, in_way, leaves
from lm_eval_epidemia.score.joint import Draws

#: The score against the population, which subtracts what sampling error adds to a distance.
POPULATION = "score_population"


class Asked(NamedTuple):
    """A task in a way of asking."""

    task: str
    way: str


def leaf(asked: Asked) -> Leaf:
    """Return the details of a task in a way of asking."""
    return leaves()[in_way(*asked)]


class TaskScore(NamedTuple):
    """The result of one task in one run.

    Attributes
    ----------
    value : float
        The primary metric of the task's benchmark; NaN if lm-eval's file says so, or if the
        benchmark has no scores.
    draws : Draws or None
        Its values for other samples of the survey; None if unknown.
    metrics : dict of str to float
        All the others, by name.
    population : Draws or None
        Draws of the metric `POPULATION`.
    source : Path
        The result file.
    said : object or None
        The answer to each prompt, if the benchmark keeps it (`replicates.Keeping`); None if the
        questions were made from a truth other than the installed one.
    date : float
        Start of the result file's run, in seconds of Unix time; NaN if unknown.
    """

    value: float
    draws: Draws | None = None
    metrics: Mapping[str, float] = {}
    population: Draws | None = None
    source: Path = Path()
    said: Any = None
    date: float = math.nan

    @property
    def seen(self) -> float:
        """Share of the task that was asked."""
        return self.metrics.get("seen", 1.0)
