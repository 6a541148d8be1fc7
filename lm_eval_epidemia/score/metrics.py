"""The metrics of a task asked by letters, from the answers to its prompts.

``task_yamls`` names them. Each takes the answers of one task, in any order, and returns one number.
Answers are compared with the installed ground truth. A cell counts when all its orderings were
answered; under ``--limit`` the others are left out, the shares of the remaining cells are rescaled
to sum to 1, and `seen` says how much of the task that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.elicit.answers import Answer
from lm_eval_epidemia.elicit.orderings import orderings
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score import score as scoring

__all__ = ["against_truth", "choice_mass", "l1", "order_bias", "score", "score_stderr", "seen"]


class _Answered(NamedTuple):
    """The complete cells of a task, C' of them."""

    part: collect.Part
    by_order: Array  # (C', M, K), probability of each level under each ordering

    @property
    def q(self) -> Array:
        return self.by_order.mean(axis=1)


def against_truth(answers: Sequence[Answer]) -> _Answered | None:
    """Put answers against the truth; None when no score can be given, with a warning saying why."""
    truth = collect.installed_truth(answers)
    levels = len(truth.levels)
    orders = orderings(levels, answers[0].design)
    number = {order: m for m, order in enumerate(orders)}
    logprobs = np.full((len(truth.weights), len(orders), levels), np.nan)
    answered = np.zeros(logprobs.shape[:2], dtype=bool)
    cells = np.array([answer.cell for answer in answers])
    asked = np.array([number[tuple(answer.order)] for answer in answers])
    logprobs[cells, asked] = np.array([answer.logprobs for answer in answers], dtype=float)
    answered[cells, asked] = True
    if not collect.readable(answers[0].asked_as, truth, logprobs, answered):
        return None
    if (part := collect.complete_part(answers[0].asked_as, truth, answered, "orderings")) is None:
        return None
    displayed = scoring.softmax(logprobs[part.complete])
    return _Answered(part, scoring.elicited(displayed, np.array(orders)))


def l1(answers: Sequence[Answer]) -> float:
    """Weighted L1 distance of elicited from true distributions, in [0, 2]; NaN without score."""
    if (found := against_truth(answers)) is None:
        return float("nan")
    return found.part.distance(found.q)


def score(answers: Sequence[Answer]) -> float:
    """Score from 0 (no better than knowing nothing) to 100 (cannot be told from the truth)."""
    if (found := against_truth(answers)) is None:
        return float("nan")
    return found.part.score(found.q)


def score_stderr(answers: Sequence[Answer]) -> float:
    """Standard error of the score: the survey's sampling error and, if sampled, the orderings'."""
    if (found := against_truth(answers)) is None:
        return float("nan")
    part = found.part
    orders = scoring.ordering_error(part.weights, part.p, found.by_order, part.anchors)
    return float(np.hypot(part.sampling_error(found.q), orders))


def seen(answers: Sequence[Answer]) -> float:
    """Share of the population in cells that were asked completely: 1 without ``--limit``."""
    first = answers[0]
    needed = len(orderings(len(first.order), first.design))
    asked = {(answer.cell, tuple(answer.order)) for answer in answers}
    return collect.share_seen(first.task, asked, needed)


def choice_mass(masses: Sequence[float]) -> float:
    """Mean probability of all the letters together, before they are normalised; in [0, 1]."""
    return float(np.mean(masses))


def order_bias(answers: Sequence[Answer]) -> float:
    """Preference for a letter as such: total variation from uniform by position, in [0, 1)."""
    logprobs = np.array([answer.logprobs for answer in answers])
    return scoring.order_bias(scoring.softmax(logprobs))
