"""How well a model knows who answers what, apart from how common each answer is.

Its answers in samples are recalibrated to the survey's P(Y) and scored again
(`benchmarks.observation.recalibrated`). The score for knowing averages only on the same cells is
the comparison: only the excess shows knowledge of how Y depends on X.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.recalibrated import marginal, parts, recalibrate
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.old.findings import answered
from lm_eval_epidemia.old.findings.answered import LETTERS, required
from lm_eval_epidemia.old.findings.rows import Column, Finding, Number, Row
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.means import mean
from lm_eval_epidemia.results.entry import Entry, TaskScore, leaf
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import Draws, difference


class _TaskKnowledge(NamedTuple):
    """One model's answers to a task: three scores, their gain, and three distances."""

    score: TaskScore
    recalibrated: TaskScore
    alone: TaskScore
    total: float
    marginal: float
    conditional: float

    @property
    def gain(self) -> TaskScore:
        value = self.recalibrated.value - self.alone.value
        return TaskScore(value, difference(self.recalibrated.draws, self.alone.draws))


class Knowledge(NamedTuple):
    """A model's knowledge in a group, over the tasks with samples.

    Attributes
    ----------
    entry : Entry
    group : str
    tasks : int
    score, recalibrated, alone, gain : Number
        As answered; with the survey's P(Y); for knowing averages only; and the second minus the
        third. 0 to 100, the gain -100 to 100.
    total, marginal, conditional : float
        Mean distances, see `benchmarks.observation.recalibrated.Parts`.
    """

    entry: Entry
    group: str
    tasks: int
    score: Number
    recalibrated: Number
    alone: Number
    gain: Number
    total: float
    marginal: float
    conditional: float


def _score(part: Part, d: float, at: Array | None, asking: float = 0.0) -> TaskScore:
    """Put a distance on the task's scale, and its replicates with their own zeros."""
    value = float(part.score_of(d))
    if at is None or part.zeros is None:
        return TaskScore(value)
    drawn = scoring.scale(at, part.zeros, part.anchors.perfect)
    return TaskScore(value, Draws(part.truth.sample or "", drawn, asking))


def _task(part: Part, answers: Elicited) -> _TaskKnowledge:
    weights, at, true = part.weights, part.replicates, marginal(part.weights, part.p)
    now = parts(weights, part.p, answers.q)
    then = None if at is None else parts(weights, at, answers.q)
    alone = float(distance(weights, part.p, true))
    alone_at = None if at is None else distance(weights, at, marginal(weights, at)[..., None, :])

    def asking(of: Callable[[Array], Array] = lambda q: q) -> float:
        """Error of a score of answers, original or recalibrated, from sampled orderings."""
        if answers.by_order is None:
            return 0.0
        return scoring.ordering_error(
            answers.by_order,
            lambda q: part.score_of(part.distance(np.asarray([of(each) for each in q]))),
        )

    return _TaskKnowledge(
        _score(part, float(now.total), then and then.total, asking()),
        _score(
            part,
            float(now.conditional),
            then and then.conditional,
            asking(lambda q: recalibrate(weights, q, true)),
        ),
        _score(part, alone, alone_at),
        *map(float, (now.total, now.marginal, now.conditional)),
    )


def read(report: Report) -> tuple[list[Knowledge], list[str]]:
    """Read the samples of all runs and recalibrate the answers.

    Tasks without conditions contain only P(Y), and are left out.

    Returns
    -------
    known : list of Knowledge
        By model and group, in the report's order.
    notes : list of str
        What is left out; see `answered.read`.

    Raises
    ------
    EpidemiaError
        If there are no samples of survey tasks.
    """
    samples, notes = answered.read(
        report,
        lambda asked: bool(leaf(asked).entry.declared.given),
        "recalibrated",
    )
    known = [
        _averaged(group.entry, group.group, [_task(*task) for task in group.tasks.values()])
        for group in answered.by_group(report, samples)
    ]
    return required(known, "recalibrate", LETTERS, notes), notes


def _averaged(entry: Entry, group: str, tasks: Sequence[_TaskKnowledge]) -> Knowledge:
    numbers: dict[str, Any] = {}
    for name in ("score", "recalibrated", "alone", "gain"):
        scores = [getattr(task, name) for task in tasks]
        numbers[name] = mean([s.value for s in scores], [s.draws for s in scores])
    for name in ("total", "marginal", "conditional"):
        numbers[name] = math.fsum(getattr(task, name) for task in tasks) / len(tasks)
    return Knowledge(entry, group, len(tasks), **numbers)


#: How to read the table.
NOTE = (
    "Recalibrated: each answer's probability is multiplied by one factor, the same for everybody, "
    "so that the overall mix equals the survey's P(Y); odds ratios between groups of people do "
    "not change. Averages only: the survey's P(Y) as the answer about everybody. Difference: what "
    "the model knows about who answers what; 0 if nothing, below 0 if its differences between "
    "people mislead. l1 is the distance as answered, 'of P(Y)' the distance of its overall mix, "
    "'left' the distance that remains when the mix is right. ± covers the survey's sampling "
    "error, with P(Y) taken from every replicate, and that of sampled orderings. Left out: tasks "
    "without conditions (marginal), which contain nothing but P(Y), and drawn answers (_sampled)."
)


_COLUMNS = (
    *map(Column, ("model", "group", "tasks")),
    Column("score", "score", 1),
    Column("recalibrated", "recalibrated", 1),
    Column("alone", "alone", 1, title="averages only"),
    Column("gain", "gain", 1, signed=True, title="difference"),
    Column("total", "l1 total", 3, title="l1"),
    Column("marginal", "l1 marginal", 3, title="of P(Y)"),
    Column("conditional", "l1 conditional", 3, title="left"),
)


def finding(known: Sequence[Knowledge]) -> Finding:
    """Return the table."""
    title = "Who answers what, apart from how common answers are"
    rows = [Row(k._asdict(), k.entry, k.group, k.group, {"tasks": k.tasks}) for k in known]
    return Finding("recalibrated", title, _COLUMNS, rows, NOTE, 2)
