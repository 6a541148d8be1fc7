"""One model: its scores by group and survey, task by task, and what it answers where it errs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import WAYS, groups, in_way
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.answered import Samples
from lm_eval_epidemia.findings.finding import Number, number
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.means import REACH, slices
from lm_eval_epidemia.findings.model_rows import parts_of
from lm_eval_epidemia.findings.reference import asked_of, known_scores
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.confidence import interval

#: How many tasks are drawn at either end.
SHOWN = 4


class Curve(NamedTuple):
    """Truth and answer in the conditions of a task, of one of its answers.

    Attributes
    ----------
    labels : sequence of str
        Of the conditions, in order.
    truth, low, high : sequence of float
        Probability of the answer, with its interval of 95 %.
    answer : sequence of (int, float)
        Place of a condition, and what the model gives the answer there.
    mean : float
        How common the answer is over all conditions.
    says : str
        Which answer it is.
    """

    labels: Sequence[str]
    truth: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    answer: Sequence[tuple[int, float]]
    mean: float
    says: str


class ScoredTask(NamedTuple):
    """A task that a model was asked, as it is shown on the model's page.

    Attributes
    ----------
    asked : Asked
    name, title, survey, group : str
    score : Number
    known : float
        What who knows averages only scores, asked the same; NaN where that is not known.
    texts : dict of str to str
        Further numbers, written.
    curve : Curve or None
    """

    asked: Asked
    name: str
    title: str
    survey: str
    group: str
    score: Number
    known: float
    texts: dict[str, str]
    curve: Curve | None = None

    @property
    def written(self) -> str:
        """The score with its error."""
        digits = groups()[self.group].digits
        error = "" if math.isnan(self.score.error) else f" ± {self.score.error:.{digits}f}"
        return number(self.score.value, digits) + error if not math.isnan(self.score.value) else ""


def truth_curve(truth: store.GroundTruth, level: int = 0) -> Curve:
    """Return the truth alone over the conditions of a task, of one of its answers."""
    low, high = interval(truth.p, truth.n_eff)
    return Curve(
        [", ".join(given) for given in truth.given],
        truth.p[:, level].tolist(),
        low[:, level].tolist(),
        high[:, level].tolist(),
        [],
        float(scoring.mean(truth.weights, truth.p)[0, level]),
        truth.levels[level],
    )


def curve_of(asked: Asked, own: TaskAnswers) -> Curve:
    """Return truth and answer over the conditions of a task: of the answer that misses most."""
    truth = store.load(asked.task)
    gap = np.abs(truth.p[own.cells] - own.q)
    level = int((truth.weights[own.cells] @ gap).argmax()) if len(truth.levels) > 2 else 0
    answer = [(cell, float(q)) for cell, q in zip(own.cells, own.q[:, level], strict=True)]
    return truth_curve(truth, level)._replace(answer=answer)


def tasks_of(report: Report, run: Entry) -> list[ScoredTask]:
    """Return every task that a run was asked, in the usual order."""
    known, order = known_scores(run, report.runs), list(groups())
    rows = []
    for asked, score in run.scores.items():
        about = leaf(asked)
        texts = {
            key: number(score.metrics.get(key, math.nan), digits)
            for key, digits in (("l1", 4), ("order_bias", 2), ("choice_mass", 2))
        }
        rows.append(
            ScoredTask(
                asked,
                in_way(*asked),
                about.entry.title,
                about.entry.facets.get("survey", ""),
                about.group,
                Number(score.value, score.error, 1),
                known.get(asked, math.nan),
                texts,
            )
        )
    return sorted(rows, key=lambda row: (order.index(row.group), row.name))


def ends(
    report: Report, run: Entry, tasks: Sequence[ScoredTask], samples: Samples
) -> tuple[list[ScoredTask], list[ScoredTask]]:
    """Return the tasks that a run does worst and best in, with their curves where it has samples.

    Best is by the lower end of the interval, so that it is not noise. Of equally low scores, that
    is worse whose distance is farther above the one of knowing averages only. Tasks asked by
    letters come first: others only where there are none.
    """
    answers = {
        asked: own
        for part in parts_of(run)
        for asked in part.scores
        if (own := samples.get((part.name, asked))) is not None
    }
    scored = [
        task
        for task in tasks
        if not math.isnan(task.score.value) and WAYS[task.asked.way].distribution is not None
    ]
    letters = [task for task in scored if task.asked.way == "letters"]
    asked = letters or scored
    half = min(SHOWN, len(asked) // 2)
    worst = sorted(asked, key=lambda task: (task.score.value, -_above(run, task.asked)))[:half]
    best = sorted((task for task in asked if task not in worst), key=_lower, reverse=True)[:half]

    def drawn(some: Sequence[ScoredTask]) -> list[ScoredTask]:
        return [
            task._replace(curve=curve_of(task.asked, answers[task.asked]))
            if task.asked in answers
            else task
            for task in some
        ]

    return drawn(worst), drawn(best)


def _lower(task: ScoredTask) -> tuple[float, float]:
    """Return the lower end of a score's interval, and the score where there is no error."""
    error = 0.0 if math.isnan(task.score.error) else task.score.error
    return task.score.value - REACH * error, task.score.value


def _above(run: Entry, asked: Asked) -> float:
    """Return how much farther from the truth a run is than who knows averages only."""
    known = asked_of(run, asked)
    return run.scores[asked].l1 - (known.l1 if known else 0.0)


def by_survey(run: Entry, columns: Sequence[str]) -> dict[str, dict[str, Number]]:
    """Return the means of a run by group and survey, of the groups that have several."""
    return {column: means for column in columns if len(means := slices(run, column, "survey")) > 1}


def positions(rows: Sequence[dict[str, Any]], run: Entry) -> list[tuple[str, list[str]]]:
    """Return what each displayed position gets, times an even share, by the number of answers.

    Parameters
    ----------
    rows : sequence of dict
        Of `data.rows_of_order_bias`.
    run : Entry
    """
    names = {part.name for part in parts_of(run)}
    shown: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["model"] in names:
            shown[row["answers"].strip()].append(f"{row['position']} {row['times']:.2f}")
    return list(shown.items())
