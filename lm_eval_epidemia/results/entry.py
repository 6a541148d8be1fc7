"""A model asked in one way, and what each task came to: what reports are made of."""

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
    """Return what is known of a task in a way of asking."""
    return leaves()[in_way(*asked)]


def outcomes(tasks: Iterable[Asked]) -> list[Hashable]:
    """Return what each task asks for: tasks on the same outcome are one observation."""
    known = leaves()
    return [known[in_way(*asked)].entry.outcome for asked in tasks]


def closest(entries: Iterable[Entry], entry: Entry) -> list[Entry]:
    """Return, of each model, the rows that were run as an entry was in as many settings as any."""
    mine = {*entry.settings, *entry.details}
    models: dict[Weights, dict[int, list[Entry]]] = {}
    for other in entries:
        alike = len(mine & {*other.settings, *other.details})
        models.setdefault(other.weights, {}).setdefault(alike, []).append(other)
    return [other for by_alike in models.values() for other in by_alike[max(by_alike)]]


class TaskScore(NamedTuple):
    """What one task of one run came to.

    Attributes
    ----------
    value : float
        The primary metric of the task's benchmark; NaN where lm-eval's file says so, and where the
        benchmark has no scores.
    draws : Draws or None
        What it would have been, had the survey drawn other samples; None where that is not known.
    metrics : dict of str to float
        All the others, by name.
    population : Draws or None
        Draws of the metric `POPULATION`.
    source : Path
        The result file.
    said : object or None
        What was said to each prompt, of a benchmark that keeps it (`replicates.Keeping`); None
        where the questions were made from another truth than the installed one.
    date : float
        When the run of the result file began, in seconds of Unix time; NaN where that is not known.
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
        """Standard error of the value; NaN where it is not known."""
        return joint_error([self.draws])

    @property
    def population_uncut(self) -> float:
        """The metric `POPULATION` before it is cut off, as means take it; NaN without."""
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
    """A model, asked in one way: what can be compared with other models asked so.

    Attributes
    ----------
    model : str
        As its user would name it.
    chat : bool
        Whether its chat template was applied; part of the model rather than of the question.
    variant : tuple of (str, str)
        All that was said about the prompts with ``--metadata``, by its key.
    protocol : Protocol
        What keeps these scores from being compared with others.
    parameters : float or None
        Size of the model.
    scores : dict
        By task and way of asking.
    others : dict of str to float
        Other tasks in the same files: a metric for each filter, as lm-eval has it.
    reference : bool
        Whether these are published scores instead of a run.
    twin : int
        Tells entries apart whose names are the same where they are cut; 0 for the first.
    weights : Weights
        As they were given to lm-eval.
    settings : tuple of (str, str)
        How the model was run, by setting: backend, dtype, its other arguments.
    details : tuple of (str, str)
        Of answers that were written, what else they depend on; not what can be compared.
    shown : tuple of (str, str)
        Those settings and details in which rows of this model differ.
    date : float
        When the run of its newest result file began, in seconds of Unix time; NaN where that is
        not known.
    older : tuple of (Asked, TaskScore)
        What older files have of its tasks, with the same settings; it does not count.
    parts : tuple of Entry
        What a whole run is put together from, see `models.runs_of`; empty for what is read.
    card : Tuned or None
        How the model was tuned, where its record says it; beside result files it is a file of its
        own, see `findings.tuned`.
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
        """Return when the newest run of these tasks began; NaN where that is not known."""
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
