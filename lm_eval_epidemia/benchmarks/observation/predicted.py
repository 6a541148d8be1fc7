"""The metrics of a quick look: the predicted score of a group, and its error."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.benchmark import Measurement, declared_metrics
from lm_eval_epidemia.benchmarks.observation import quick
from lm_eval_epidemia.benchmarks.observation.letters import by_level
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.responses import softmax
from lm_eval_epidemia.elicit.way import Metric, Way
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score.joint import Draws

WAYS = {quick.WAY.name: quick.WAY}

#: Log-probability of a letter that a prompt does not have, beside those of one that has more.
NONE = -1e4


class Prediction(NamedTuple):
    """A group's predicted score.

    Attributes
    ----------
    score : float
        From 0 to 100.
    error : float
        Standard error of the prediction, including that of the orderings. The survey's sampling
        error is not included, since the full run has the same truths.
    """

    score: float
    error: float


def prediction(answers: Sequence[Any]) -> Prediction | None:
    """Predict from the answers of a quick task; None, with a warning, if one is missing.

    Raises
    ------
    EpidemiaError
        If the questions were made from truths other than the installed ones.
    """
    most = max(len(answer.value) for answer in answers)
    alike = [
        answer._replace(value=(*answer.value, *[NONE] * (most - len(answer.value))))
        for answer in answers
    ]
    asked = collect.collected(WAYS, alike)
    if not collect.readable(asked, answers):
        return None
    if not asked.answered.all():
        notices.warn(
            "only part of a quick look was seen",
            f"{asked.name}: {int(asked.answered.sum())} of {asked.answered.size} prompts "
            "were asked, but a quick look needs all of them: leave out --limit",
        )
        return None
    score = float(asked.truth.choice.predict(_distances(asked.truth, asked.said)))
    return Prediction(score, float(asked.truth.choice.error(score)))


def _distances(truth: quick.QuickTruth, said: Array) -> Array:
    """Return how far the answers are from the truth, cell by cell; see `quick.apart`."""
    distances = []
    for (own, cell, orders), logprobs in zip(truth.asked, said, strict=True):
        displayed = softmax(logprobs[:, : len(own.levels)])
        distances.append(quick.apart(own.p[cell], by_level(displayed, np.array(orders))))
    return np.array(distances)


def measure(answers: Sequence[Any]) -> Measurement:
    """Measure answers by the metrics of a quick look."""
    # All prompts, without --limit.
    asked = len({(a.cell, a.place) for a in answers})
    seen = {"seen": asked / (2 * len(quick.load(answers[0].task).asked))}
    if (predicted := prediction(answers)) is None:
        return Measurement(seen, {"score": None})
    numbers = {"score": predicted.score, "score_stderr": predicted.error}
    # Its error is one of the asking, independent of other tasks.
    return Measurement(numbers | seen, {"score": Draws("", np.empty(0), predicted.error)})


@cache
def metrics_of(way: Way) -> dict[str, Metric]:
    """Return the metrics of a quick look, by name."""
    return {**declared_metrics("quick"), **way.diagnostics}
