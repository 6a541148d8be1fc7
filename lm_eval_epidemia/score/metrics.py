"""The metrics of a task, from the answers to its prompts: what ``task_yamls`` names.

Each function takes the answers of one task, in any order, and returns one number. Answers are
compared with the installed ground truth. A cell counts when all its orderings were answered; under
``--limit`` the others are left out, the shares of the remaining cells are rescaled to sum to 1, and
`seen` says how much of the task that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia import notices
from lm_eval_epidemia.distance import Array, distance
from lm_eval_epidemia.elicit.answers import Answer
from lm_eval_epidemia.elicit.orderings import orderings
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import score as scoring

__all__ = ["choice_mass", "l1", "order_bias", "score", "score_stderr", "seen"]

#: Below this mean probability of all letters together, a model does not answer the question.
LOW_MASS = 0.1


class _Answered(NamedTuple):
    """The complete cells of a task, C' of them."""

    weights: Array  # (C',), sums to 1
    p: Array  # (C', K)
    n_eff: Array  # (C',)
    by_order: Array  # (C', M, K), probability of each level under each ordering
    anchors: scoring.Anchors

    @property
    def q(self) -> Array:
        return self.by_order.mean(axis=1)


def _collect(answers: Sequence[Answer]) -> _Answered | None:
    """Put answers against the truth; None when no score can be given, with a warning saying why."""
    truth = store.load(answers[0].task)
    if stale := {answer.truth for answer in answers} - {truth.fingerprint}:
        raise EpidemiaError(
            f"{truth.task}: the questions were made from ground truth {', '.join(sorted(stale))}, "
            f"but {truth.fingerprint} is installed: export the dataset anew ('epidemia export') "
            "or install the version of lm-eval-epidemia it was exported with"
        )
    levels, orders = len(truth.levels), orderings(len(truth.levels))
    number = {order: m for m, order in enumerate(orders)}
    logprobs = np.full((len(truth.weights), len(orders), levels), np.nan)
    answered = np.zeros(logprobs.shape[:2], dtype=bool)
    cells = np.array([answer.cell for answer in answers])
    asked = np.array([number[tuple(answer.order)] for answer in answers])
    logprobs[cells, asked] = np.array([answer.logprobs for answer in answers], dtype=float)
    answered[cells, asked] = True

    if not np.isfinite(found := logprobs[answered]).all():
        bad = ~np.isfinite(logprobs).all(axis=2) & answered
        cell = int(np.flatnonzero(bad.any(axis=1))[0])
        notices.warn(
            "log-probabilities that are not finite",
            f"{truth.task}: {int(bad.sum())} of {len(answers)} prompts got NaN or -inf "
            f"log-probabilities, first in cell {cell} ({', '.join(truth.given[cell])}); its score "
            "is NaN",
        )
        return None
    if (mass := float(np.exp(found).sum(axis=1).mean())) < LOW_MASS:
        notices.warn(
            "low choice_mass",
            f"{truth.task}: the letters together carry a probability of {mass:.3g} on average; the "
            "model hardly answers the question (try --apply_chat_template, or another prompt)",
        )
    complete = answered.all(axis=1)
    if not complete.any():
        notices.warn(
            "no complete cell",
            f"{truth.task}: {len(answers)} of {answered.size} prompts were asked and no cell has "
            f"all its {len(orders)} orderings, so there is no score; raise --limit to at least "
            f"{len(orders)}",
        )
        return None
    share = truth.weights[complete]
    weights, p, n_eff = share / share.sum(), truth.p[complete], truth.n_eff[complete]
    if complete.all():
        perfect = truth.d_perfect()
    else:
        notices.warn(
            "only part of the task was seen",
            f"{truth.task}: {int(complete.sum())} of {complete.size} cells are complete "
            f"({share.sum():.0%} of the population); the score is theirs alone",
        )
        # The stored bootstrap is of the whole task; for a part of it, draw from the cells.
        drawn = distance(weights, scoring.draw_truths(p, n_eff), p)
        perfect = float(np.quantile(drawn, store.QUANTILE))
    displayed = scoring.softmax(logprobs[complete])
    return _Answered(
        weights=weights,
        p=p,
        n_eff=n_eff,
        by_order=scoring.elicited(displayed, np.array(orders)),
        anchors=scoring.anchors(weights, p, perfect),
    )


def l1(answers: Sequence[Answer]) -> float:
    """Weighted L1 distance of elicited from true distributions, in [0, 2]; NaN without score."""
    if (found := _collect(answers)) is None:
        return float("nan")
    return float(distance(found.weights, found.q, found.p))


def score(answers: Sequence[Answer]) -> float:
    """Score from 0 (no better than knowing nothing) to 100 (cannot be told from the truth)."""
    if (found := _collect(answers)) is None:
        return float("nan")
    d = distance(found.weights, found.q, found.p)
    return float(scoring.scale(d, found.anchors.zero, found.anchors.perfect))


def score_stderr(answers: Sequence[Answer]) -> float:
    """Standard error of the score: the survey's sampling error and, if sampled, the orderings'."""
    if (found := _collect(answers)) is None:
        return float("nan")
    survey = scoring.sampling_error(
        found.weights, found.p, found.q, found.n_eff, found.anchors.perfect
    )
    orders = scoring.ordering_error(found.weights, found.p, found.by_order, found.anchors)
    return float(np.hypot(survey, orders))


def seen(answers: Sequence[Answer]) -> float:
    """Share of the population in cells that were asked completely: 1 without ``--limit``."""
    truth = store.load(answers[0].task)
    asked = np.bincount([a.cell for a in set(answers)], minlength=len(truth.weights))
    complete = asked == len(orderings(len(truth.levels)))
    # Exactly 1 when nothing is missing, whatever the rounding of the sum.
    return 1.0 if complete.all() else float(truth.weights[complete].sum())


def choice_mass(masses: Sequence[float]) -> float:
    """Mean probability of all the letters together, before they are normalised; in [0, 1]."""
    return float(np.mean(masses))


def order_bias(answers: Sequence[Answer]) -> float:
    """Preference for a letter as such: total variation from uniform by position, in [0, 1)."""
    logprobs = np.array([answer.logprobs for answer in answers])
    return scoring.order_bias(scoring.softmax(logprobs))
