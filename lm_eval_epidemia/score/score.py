"""The score, its anchors, and the error from the choice of orderings.

Shapes: C cells, K levels, M orderings. ``weights`` (C,) sums to 1; ``p``, ``q`` (C, K) have rows
that sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import factorial
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.estimate.store import QUANTILE, GroundTruth

#: Draws of the truth behind D_perfect of a part of a task, and the seed they come from.
DRAWS = 200
SEED = 77

#: A scale that is shorter than this share of D_zero is barely informative,
BARELY = 0.2
#: or than this many standard errors of D_zero: another sample might have none.
CERTAIN = 1.96

#: Two distances closer than this differ by floating-point rounding alone.
ROUNDING = 1e-12


def answer_uniformly(p: Array) -> Array:
    """Return the answers of a respondent that knows nothing: 1/K for every level of every cell."""
    return np.full_like(p, 1.0 / p.shape[-1])


def answer_marginal(weights: Array, p: Array) -> Array:
    """Return the answers of a respondent that knows P(Y), but not how it depends on X."""
    marginal = np.einsum("c,...ck->...k", weights, p)
    return np.broadcast_to(marginal[..., None, :], p.shape).copy()


def zero_one(weights: Array, p: Array) -> Array:
    """Return the answers of always giving the more common answer (the first in a tie)."""
    return np.asarray(np.eye(p.shape[-1])[answer_marginal(weights, p).argmax(axis=-1)])


class Anchors(NamedTuple):
    """Distances from the truth that fix the scale, each in [0, 2].

    Attributes
    ----------
    uniform : float
        Distance of giving every level 1/K.
    zero_one : float
        Distance of always giving the more common answer; NaN unless the outcome is binary.
    mean : float
        Distance of knowing P(Y) only.
    perfect : float
        Below this distance, answers are indistinguishable from the truth.
    zero_error : float
        Standard error of `zero_distance`, from the survey's joint replicates; 0 for an exact
        table.
    """

    uniform: float
    zero_one: float
    mean: float
    perfect: float
    zero_error: float = 0.0

    @classmethod
    @lru_cache(maxsize=512)  # as many truths as are kept
    def of(
        cls, truth: GroundTruth, quantile: float = QUANTILE, scheme: Scheme | None = None
    ) -> Anchors:
        """Return the anchors of a task's truth; by default those that its scores use."""
        at = truth.replicates
        error = float(zero_distance(truth.weights, at).std(ddof=1)) if len(at) > 1 else 0.0
        ends = anchors(truth.weights, truth.p, truth.d_perfect(quantile, scheme))
        return ends._replace(zero_error=error)

    @property
    def zero(self) -> float:
        """The distance that scores 0: the smaller one of the answers that know nothing."""
        return float(np.fmin(self.uniform, self.zero_one))

    def score(self, d: Array | float) -> Array:
        """Return the scores of distances from the truth; see `scale_distance`."""
        return scale_distance(d, self.zero, self.perfect)

    @property
    def score_of_mean(self) -> float:
        """The score of knowing P(Y) only."""
        return float(self.score(self.mean))

    @property
    def informative(self) -> bool:
        """Whether the survey can distinguish good answers from knowing nothing."""
        return self.zero > self.perfect + ROUNDING

    @property
    def barely(self) -> bool:
        """Whether too little of the way from knowing nothing to the truth is measured.

        Less than a fifth of it, or less than 1.96 standard errors of D_zero. Of such a scale a
        survey's other samples may have nothing left: who knows nothing then scores 100, so that
        its score of 0 has a large error.
        """
        least = max(BARELY * self.zero, CERTAIN * self.zero_error)
        return not self.informative or self.zero - self.perfect < least

    @property
    def said(self) -> str:
        """The mark of a scale that tells little: ``barely informative``; empty for others."""
        if not self.informative:
            return "uninformative"
        return "barely informative" if self.barely else ""


def anchors(weights: Array, p: Array, perfect: float) -> Anchors:
    """Return the anchors of a task.

    Parameters
    ----------
    weights : ndarray, shape (C,)
    p : ndarray, shape (C, K)
    perfect : float
        The bootstrap quantile of D(P, P^(b)), 0 for a table without sampling error.
    """
    binary = p.shape[-1] == 2
    return Anchors(
        uniform=float(distance(weights, p, answer_uniformly(p))),
        zero_one=float(distance(weights, p, zero_one(weights, p))) if binary else float("nan"),
        mean=float(distance(weights, p, answer_marginal(weights, p))),
        perfect=perfect,
    )


def zero_distance(weights: Array, p: Array) -> Array:
    """Return the distances that score 0: of the better of the answers that know nothing.

    Parameters
    ----------
    weights : ndarray, shape (C,)
    p : ndarray, shape (..., C, K)
        Truths; of each the commoner answer is its own.

    Returns
    -------
    ndarray, shape (...)
    """
    of_uniform = distance(weights, p, answer_uniformly(p))
    if p.shape[-1] != 2:
        return of_uniform
    return np.minimum(of_uniform, distance(weights, p, zero_one(weights, p)))


def scale_distance(d: Array | float, zero: Array | float, perfect: float) -> Array:
    """Convert distances to scores from 0 (knows nothing) to 100 (as close as another sample).

    ``100 * clip((D_zero - D) / (D_zero - D_perfect), 0, 1)``. Where D_zero <= D_perfect the survey
    cannot tell the two ends apart: 100 if D <= D_perfect, else 0.

    Parameters
    ----------
    d, zero : array_like
        Distances, broadcast against each other.
    perfect : float

    Returns
    -------
    ndarray
        In [0, 100]; NaN if `d` is NaN.
    """
    d, zero = np.asarray(d, dtype=float), np.asarray(zero, dtype=float)
    width = zero - perfect
    informative = width > ROUNDING
    inside = np.clip((zero - d) / np.where(informative, width, 1.0), 0, 1)
    # A distance that exceeds D_perfect (0 for exact tables) by rounding alone does not exceed it.
    reached = d <= perfect + ROUNDING
    known = np.where(reached, 1.0, np.where(informative, inside, 0.0))
    return 100 * np.where(np.isnan(d), np.nan, known)


def draw_truths(p: Array, n_eff: Array, draws: int = DRAWS, seed: int = SEED) -> Array:
    """Draw what the survey might have found: a Dirichlet around each cell's distribution.

    Parameters
    ----------
    p : ndarray, shape (C, K)
    n_eff : ndarray, shape (C,)
        Effective sample sizes; infinite if there is no sampling error.

    Returns
    -------
    ndarray, shape (draws, C, K)
        Cells are drawn independently. A level with p = 0 stays 0.
    """
    rng = np.random.default_rng(seed)
    exact = ~np.isfinite(n_eff)
    size = np.where(exact, 1.0, n_eff)
    gamma = rng.standard_gamma(p * size[:, None], size=(draws, *p.shape))
    total = gamma.sum(axis=-1, keepdims=True)
    # Of a cell with a tiny effective size every gamma draw can underflow to 0.
    drawn = np.where(total > 0, gamma / np.where(total > 0, total, 1.0), p)
    return np.where(exact[:, None], p, drawn)


def position(d: Array | float, zero: Array | float) -> Array:
    """Put distances on the scale of the score against the population, not cut off at its ends.

    ``100 (1 - D / D_zero)``. Where D_zero is 0 there is nothing between the ends: 100 if D is 0,
    else 0.

    Parameters
    ----------
    d, zero : array_like
        Broadcast against each other.
    """
    d, zero = np.asarray(d, dtype=float), np.asarray(zero, dtype=float)
    informative = zero > ROUNDING
    inside = (zero - d) / np.where(informative, zero, 1.0)
    return 100 * np.where(informative, inside, d <= ROUNDING)


#: So many interviews are as good as any number.
MOST_INTERVIEWS = 1e7


def count_interviews(weights: Array, p: Array, n_eff: Array, d: float) -> float:
    """Count the random interviews that would be as far from a survey as an answer is.

    Of n interviews ``n w_x`` are in a cell. The expected distance of theirs from the survey's is
    ``sum_x w_x sum_y sqrt(2 p (1 - p) (1 / (n w_x) + 1 / n_eff_x) / pi)``, the mean absolute
    difference of two normal estimates.

    Parameters
    ----------
    weights, n_eff : ndarray, shape (C,)
    p : ndarray, shape (C, K)
    d : float
        The distance of the answer.

    Returns
    -------
    float
        From 1 to `MOST_INTERVIEWS`: the answer is at least as close as so many would be.
    """
    numbers = np.geomspace(MOST_INTERVIEWS, 1, 701)
    errors = (1 / (numbers[:, None] * weights) + 1 / n_eff)[..., None]  # (N, C, 1)
    expected = weights @ np.sqrt(2 / np.pi * p * (1 - p) * errors).sum(axis=-1).T
    return float(np.exp(np.interp(d, expected, np.log(numbers))))


def ordering_error(by_order: Array, score_of: Callable[[Array], Array]) -> float:
    """Standard error of a score that comes from asking a sample of the K! orderings.

    Jackknife over orderings, which all cells share, with the finite-population correction
    ``1 - M / K!``: zero when all were asked.

    Parameters
    ----------
    by_order : ndarray, shape (C, M, K)
        Probability of each level under each ordering.
    score_of : callable
        From distributions, shape (M, C, K), to their scores, shape (M,).
    """
    orders, levels = by_order.shape[1:]
    if orders < 2 or orders >= factorial(levels):
        return 0.0
    total = by_order.sum(axis=1, keepdims=True)
    scores = score_of(np.swapaxes((total - by_order) / (orders - 1), 0, 1))
    variance = (orders - 1) / orders * ((scores - scores.mean()) ** 2).sum()
    return float(np.sqrt(variance * (1 - orders / factorial(levels))))
