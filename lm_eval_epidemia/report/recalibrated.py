"""What a model knows of who answers what, apart from how common each answer is.

Its answers in samples are recalibrated to the survey's P(Y) and scored again
(`benchmarks.observation.recalibrated`). What the respondent that knows P(Y) alone
scores on the same cells stands beside: only what is above it is knowledge of how Y depends on X.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import OBSERVATION
from lm_eval_epidemia.benchmarks.observation.measured import Part, part_of
from lm_eval_epidemia.benchmarks.observation.recalibrated import marginal, parts, recalibrate
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.data import read_samples
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.section import Section, number
from lm_eval_epidemia.report import output
from lm_eval_epidemia.results.entry import Asked, leaf
from lm_eval_epidemia.results.samples import Elicited
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import Draws, joint_error


class _Number(NamedTuple):
    """A number of a task, and its draws over the survey's replicates."""

    value: float
    draws: Draws | None


class _Task(NamedTuple):
    """A task as one model answered it: three scores, and three distances."""

    score: _Number
    recalibrated: _Number
    alone: _Number
    total: float
    marginal: float
    conditional: float


class Mean(NamedTuple):
    """A mean over tasks with its joint standard error; NaN where that is not known."""

    value: float
    error: float


class Known(NamedTuple):
    """What a model knows in a group, over the tasks whose samples are here.

    Attributes
    ----------
    model, group : str
    tasks : int
    score, recalibrated, alone, gain : Mean
        As answered; with the survey's P(Y); of the respondent that knows P(Y) alone; and by how
        much the second exceeds the third. 0 to 100, the gain -100 to 100.
    marginal, conditional, total : float
        Mean distances, see `benchmarks.observation.recalibrated.Parts`.
    """

    model: str
    group: str
    tasks: int
    score: Mean
    recalibrated: Mean
    alone: Mean
    gain: Mean
    marginal: float
    conditional: float
    total: float


def _score(part: Part, d: float, at: Array | None, asking: float = 0.0) -> _Number:
    """Put a distance on the task's scale, and its replicates with their own zeros."""
    value = float(part.score_of(d))
    if at is None or part.zeros is None:
        return _Number(value, None)
    drawn = scoring.scale(at, part.zeros, part.anchors.perfect)
    return _Number(value, Draws(part.truth.sample or "", drawn, asking))


def _task(asked: Asked, one: Elicited) -> _Task:
    truth = store.load(asked.task)
    complete = np.zeros(len(truth.given), dtype=bool)
    complete[one.cells] = True
    part = part_of(truth, complete)
    now, at = parts(part.weights, part.p, one.q), part.replicates
    then = None if at is None else parts(part.weights, at, one.q)
    true = marginal(part.weights, part.p)

    def asking(recalibrating: bool) -> float:
        """Error of a score from orderings that were sampled."""
        if one.by_order is None:
            return 0.0

        def of(q: Array) -> Array:
            known = [recalibrate(part.weights, each, true) for each in q] if recalibrating else q
            return part.score_of(part.distance(np.asarray(known)))

        return scoring.ordering_error(one.by_order, of)

    alone_at = None
    if at is not None:
        alone_at = distance(part.weights, at, marginal(part.weights, at)[..., None, :])
    alone = float(distance(part.weights, part.p, true))
    return _Task(
        _score(part, float(now.total), None if then is None else then.total, asking(False)),
        _score(
            part, float(now.conditional), None if then is None else then.conditional, asking(True)
        ),
        _score(part, alone, alone_at),
        *map(float, (now.total, now.marginal, now.conditional)),
    )


def _mean(numbers: Sequence[_Number]) -> Mean:
    values = [one.value for one in numbers]
    return Mean(math.fsum(values) / len(values), joint_error([one.draws for one in numbers]))


def _minus(one: _Number, other: _Number) -> _Number:
    value = one.value - other.value
    if one.draws is None or other.draws is None:
        return _Number(value, None)
    at = one.draws.at - other.draws.at
    return _Number(value, Draws(one.draws.sample, at, one.draws.asking))


def read(report: Report) -> tuple[list[Known], list[str]]:
    """Read the samples of all runs and recalibrate what was answered.

    Tasks without conditions have nothing but P(Y), and answers that were drawn differ between cells
    by chance alone: both are left out.

    Returns
    -------
    found : list of Known
        By model and group, in the report's order.
    notes : list of str
        Samples that are not there, or cannot be read.

    Raises
    ------
    EpidemiaError
        If there are no samples of a task about surveys.
    """
    wanted = {
        asked
        for entry in report.runs
        for asked in entry.scores
        if leaf(asked).benchmark is OBSERVATION and leaf(asked).entry.declared.given
    }
    samples, notes = read_samples(report, wanted)
    made: dict[tuple[str, str], list[_Task]] = defaultdict(list)
    drawn = set()
    for entry in report.runs:
        for asked in sorted(wanted & entry.scores.keys()):
            if (one := samples.get((entry.name, asked))) is None:
                continue
            if one.counts is not None:
                drawn.add(entry.name)
                continue
            made[entry.name, leaf(asked).group].append(_task(asked, one))
    if drawn:
        names = ", ".join(sorted(drawn))
        notes.append(f"{names}: drawn answers differ by chance, and are not recalibrated")
    if not made:
        raise EpidemiaError(
            "no answers to recalibrate: run lm_eval with --log_samples on tasks with letters or "
            "likelihoods, such as epidemia_low"
        )
    return [_known(model, group, tasks) for (model, group), tasks in made.items()], notes


def _known(model: str, group: str, tasks: list[_Task]) -> Known:
    return Known(
        model,
        group,
        len(tasks),
        _mean([one.score for one in tasks]),
        _mean([one.recalibrated for one in tasks]),
        _mean([one.alone for one in tasks]),
        _mean([_minus(one.recalibrated, one.alone) for one in tasks]),
        *(
            math.fsum(values) / len(tasks)
            for values in (
                [one.marginal for one in tasks],
                [one.conditional for one in tasks],
                [one.total for one in tasks],
            )
        ),
    )


#: How to read the table.
NOTE = (
    "Recalibrated: the model's answers times one factor per answer, the same for everybody, so "
    "that their mix is the survey's P(Y); every odds ratio between groups of people stays what it "
    "was. P(Y) alone: the same answer about everybody, the survey's. Difference: what the model "
    "knows of who answers what; 0 if nothing, below 0 if its differences between people are "
    "misleading. l1 is the distance as answered, 'of P(Y)' what the mix of its answers is off by, "
    "'left' what remains when it is right. ± is the survey's sampling error, with P(Y) known anew "
    "in every replicate, and that of sampled orderings."
)


def _said(mean: Mean, signed: bool = False) -> str:
    error = "" if math.isnan(mean.error) else f" ± {mean.error:.1f}"
    return (f"{mean.value:+.1f}" if signed else f"{mean.value:.1f}") + error


def section(found: Sequence[Known]) -> Section:
    """Return the table for people."""
    columns = (
        "model",
        "group",
        "tasks",
        "score",
        "recalibrated",
        "P(Y) alone",
        "difference",
        "l1",
        "of P(Y)",
        "left",
    )
    cells = [
        [
            one.model,
            one.group,
            str(one.tasks),
            _said(one.score),
            _said(one.recalibrated),
            _said(one.alone),
            _said(one.gain, signed=True),
            *(number(value, 3) for value in (one.total, one.marginal, one.conditional)),
        ]
        for one in found
    ]
    return Section("Who answers what, apart from how common answers are", columns, cells, NOTE, 2)


def rows(report: Report, found: Sequence[Known]) -> list[dict[str, Any]]:
    """Return the same as rows of `output.as_rows`.

    Returns
    -------
    list of dict
        Of ``kind`` ``recalibrated``: ``name`` is the group, ``metric`` what the value is.
    """
    entries = {entry.name: entry for entry in report.runs}
    return [
        output.row(
            "recalibrated",
            entries[one.model],
            one.group,
            one.group,
            value,
            stderr=error,
            tasks=one.tasks,
            metric=metric,
        )
        for one in found
        for metric, value, error in (
            *((name, *getattr(one, name)) for name in ("score", "recalibrated", "alone", "gain")),
            *(
                (f"l1 {name}", getattr(one, name), math.nan)
                for name in ("total", "marginal", "conditional")
            ),
        )
    ]
