"""One model: its scores by group, survey and task, and its answers in the tasks it knows least."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import WAYS, groups, in_way
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings.answered import Samples
from lm_eval_epidemia.old.findings.rows import Number, number
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.means import REACH, slices
from lm_eval_epidemia.old.findings.model_rows import parts_of
from lm_eval_epidemia.old.findings.reference import asked_of, known_scores
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.confidence import interval

#: How many tasks are drawn at either end.
SHOWN = 4


class Curve(NamedTuple):
    """Truth and model over the conditions of a task, for one answer.

    Attributes
    ----------
    labels : sequence of str
        Labels of the conditions, in order.
    truth, low, high : sequence of float
        Probability of the answer, with its 95 % interval.
    answer : sequence of (int, float)
        Place of a condition, and the model's probability of the answer there.
    mean : float
        Share of the answer over all conditions.
    says : str
        The answer.
    """

    labels: Sequence[str]
    truth: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    answer: Sequence[tuple[int, float]]
    mean: float
    says: str


class ScoredTask(NamedTuple):
    """A task that a model was asked, as shown on the model's page.

    Attributes
    ----------
    asked : Asked
    name, title, survey, group : str
    score : Number
    known : float
        Score for knowing averages only on the same questions; NaN if unknown.
    texts : dict of str to str
        Further numbers as texts.
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
    """Return the truth alone over the conditions of a task, for one answer."""
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
    """Return truth and model over a task's conditions, for the answer with the largest error."""
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
    """Return a run's worst and best tasks, with their curves if it has samples.

    The best tasks have the highest lower ends of their intervals, to exclude noise. Among equally
    low scores, the worst has the distance farthest above that of knowing averages only. Tasks asked
    by letter come first; others appear only without them.
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
    """Return the lower end of a score's interval; the score itself without an error."""
    error = 0.0 if math.isnan(task.score.error) else task.score.error
    return task.score.value - REACH * error, task.score.value


def _above(run: Entry, asked: Asked) -> float:
    """Return how much farther from the truth a run is than knowing averages only."""
    known = asked_of(run, asked)
    return run.scores[asked].l1 - (known.l1 if known else 0.0)


def by_survey(run: Entry, columns: Sequence[str]) -> dict[str, dict[str, Number]]:
    """Return the means of a run by group and survey, for groups with several surveys."""
    return {column: means for column in columns if len(means := slices(run, column, "survey")) > 1}


def positions(rows: Sequence[dict[str, Any]], run: Entry) -> list[tuple[str, list[str]]]:
    """Return the probability of each displayed position relative to an even share, by K.

    Parameters
    ----------
    rows : sequence of dict
        From `data.rows_of_order_bias`.
    run : Entry
    """
    names = {part.name for part in parts_of(run)}
    shown: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["model"] in names:
            shown[row["answers"].strip()].append(f"{row['position']} {row['times']:.2f}")
    return list(shown.items())
