"""A model asked in one way, with its task scores: the unit of reports."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import Leaf, in_way, leaves
from lm_eval_epidemia.results.card import Tuned
from lm_eval_epidemia.results.naming import Weights, with_settings
from lm_eval_epidemia.results.protocol import Protocol, printable
from lm_eval_epidemia.score.joint import Draws, joint_error

#: The score against the population, which subtracts what sampling error adds to a distance.
POPULATION = "score_population"

#: Names longer than this are cut where they are shown.
LONGEST_NAME = 120


class Asked(NamedTuple):
    """A task in a way of asking."""

    task: str
    way: str


def leaf(asked: Asked) -> Leaf:
    """Return the details of a task in a way of asking."""
    return leaves()[in_way(*asked)]


def outcomes(tasks: Iterable[Asked]) -> list[Hashable]:
    """Return the outcome of each task: tasks with the same outcome are one observation."""
    known = leaves()
    return [known[in_way(*asked)].entry.outcome for asked in tasks]


def closest(entries: Iterable[Entry], entry: Entry) -> list[Entry]:
    """Return each model's rows that share the most run settings with an entry."""
    mine = {*entry.settings, *entry.details}
    models: dict[Weights, dict[int, list[Entry]]] = {}
    for other in entries:
        alike = len(mine & {*other.settings, *other.details})
        models.setdefault(other.weights, {}).setdefault(alike, []).append(other)
    return [other for by_alike in models.values() for other in by_alike[max(by_alike)]]


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
    def error(self) -> float:
        """Standard error of the value; NaN if unknown."""
        return joint_error([self.draws])

    @property
    def population_uncut(self) -> float:
        """The metric `POPULATION` before the cut-off, for means; NaN without it."""
        drawn, cut = self.population, self.metrics.get(POPULATION, math.nan)
        return cut if drawn is None or drawn.uncut is None else drawn.uncut

    @property
    def l1(self) -> float:
        """The distance from the truth, in [0, 2]; NaN if there is none."""
        return self.metrics.get("l1", math.nan)

    @property
    def seen(self) -> float:
        """Share of the task that was asked."""
        return self.metrics.get("seen", 1.0)


@dataclass(eq=False)
class Entry:
    """A model asked in one way; comparable with other models asked in the same way.

    Attributes
    ----------
    model : str
        The name that its user would give it.
    chat : bool
        Whether its chat template was applied, which counts as part of the model.
    variant : tuple of (str, str)
        Settings of the prompts from ``--metadata``, by key.
    protocol : Protocol
        Settings in which scores must agree to be compared.
    parameters : float or None
        Size of the model.
    scores : dict
        By task and way of asking.
    others : dict of str to float
        Other tasks in the same files: a metric for each filter, as in lm-eval.
    reference : bool
        Whether these are published scores instead of a run.
    twin : int
        Distinguishes entries whose shortened names are equal; 0 for the first.
    weights : Weights
        As given to lm-eval.
    settings : tuple of (str, str)
        How the model was run, by setting: backend, dtype, its other arguments.
    details : tuple of (str, str)
        Further settings that written answers depend on; they do not limit comparisons.
    shown : tuple of (str, str)
        The settings and details in which this model's rows differ.
    date : float
        Start of its newest result file's run, in seconds of Unix time; NaN if unknown.
    older : tuple of (Asked, TaskScore)
        Scores of its tasks in older files with the same settings; they do not count.
    parts : tuple of Entry
        The entries that make up a whole run, see `models.runs_of`; empty if read from a file.
    card : Tuned or None
        How the model was tuned, if its record says so; for result files it is a separate file, see
        `findings.tuned`.
    """

    model: str
    chat: bool = False
    variant: tuple[tuple[str, str], ...] = ()
    protocol: Protocol = field(default_factory=Protocol)
    parameters: float | None = None
    scores: dict[Asked, TaskScore] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    reference: bool = False
    twin: int = 0
    weights: Weights = field(default_factory=lambda: Weights(""))
    settings: tuple[tuple[str, str], ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    shown: tuple[tuple[str, str], ...] = ()
    date: float = math.nan
    older: tuple[tuple[Asked, TaskScore], ...] = ()
    parts: tuple[Entry, ...] = ()
    card: Tuned | None = None

    def date_of(self, tasks: Iterable[Asked]) -> float:
        """Return when the newest run of these tasks began; NaN if unknown."""
        dates = [self.scores[asked].date for asked in tasks]
        return max((date for date in dates if math.isfinite(date)), default=math.nan)

    def part(self, asked: Asked) -> Entry:
        """Return the part of a whole run that has a score, with the protocol of that score."""
        return next((part for part in self.parts if asked in part.scores), self)

    @property
    def name(self) -> str:
        """The model and how it was asked, in one line; no two entries have the same."""
        shown = ", ".join(f"{key}={value}" for key, value in self.shown)
        parts = ("chat template" * self.chat, printable(shown), str(self.protocol))
        name = with_settings(self.model, filter(None, ["; ".join(filter(None, parts))]))
        name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
        return name + (f" [{self.twin + 1}]" if self.twin else "")
