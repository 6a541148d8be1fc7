"""Means over the effects of interventions, and what they differ by, each with its error.

A mean carries its draws (`score.interventions.clustered`): one number per scene. Means over the
same scenes, of other effects or in another way of asking, are paired by subtracting these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.graphs.questions import Questions
from lm_eval_epidemia.score.interventions import Graded, clustered, clusters, shares_of

__all__ = ["Estimate", "apart", "average", "known_scenes", "mean", "noticed", "paired", "picked",
           "pooled", "shared"]  # fmt: skip

#: Two-sided level of confidence of `Estimate.interval`.
CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A mean, or a difference of means.

    Attributes
    ----------
    value : float
        NaN where nothing is averaged.
    error : float
        Its standard error over samples of names (or graphs); NaN where a graph has one only.
    samples : int
        How many scenes it is over, the clusters of the error.
    freedom : float
        Degrees of freedom of the error.
    at : ndarray, shape (S,) or (0,)
        Its draws, one per scene of the task; empty where no other mean is paired with it.
    """

    value: float
    error: float
    samples: int
    freedom: float
    at: Array = np.array([])

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of 95 %, by Student's t; NaN where the error is not known."""
        if not self.freedom > 0 or math.isnan(self.error):
            return math.nan, math.nan
        reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom)) * self.error
        return self.value - reach, self.value + reach


NOTHING = Estimate(math.nan, math.nan, 0, 0)


def picked(found: Graded, chosen: NDArray[np.bool_]) -> Graded:
    """Return the effects that are chosen, shape (N,)."""
    return Graded(found.numbers[chosen], found.base[chosen], found.post[chosen],
                  found.kappa[chosen], found.scene[chosen])  # fmt: skip


def shared(one: Graded, other: Graded) -> tuple[Graded, Graded]:
    """Return the effects that are in both, as each has them."""
    return (
        picked(one, np.isin(one.numbers, other.numbers)),
        picked(other, np.isin(other.numbers, one.numbers)),
    )


def mean(truth: Questions, found: Graded, of: Any) -> Estimate:
    """Average over effects.

    Parameters
    ----------
    truth : Questions
    found : Graded
        N effects of it.
    of : ndarray, shape (N,)
        What is averaged.

    Returns
    -------
    Estimate
        With all effects there, of one graph and intervened variable: the mean over queries of each
        sample, averaged over the samples, and their standard deviation over the root of how many
        they are.
    """
    of = np.asarray(of, dtype=float)
    if not len(of):
        return NOTHING
    ids, strata = clusters(truth, found)
    at, there = clustered(truth, found, of), np.unique(ids)
    freedom = len(there) - len(np.unique(strata[there]))
    return Estimate(float(of.mean()), float(at.std(ddof=1)), len(there), freedom, at)


def paired(one: Estimate, other: Estimate) -> Estimate:
    """Return the difference of two means over the same scenes; its error is of the differences."""
    at = one.at - other.at
    return Estimate(
        one.value - other.value, float(at.std(ddof=1)) if len(at) else math.nan,
        min(one.samples, other.samples), min(one.freedom, other.freedom), at,
    )  # fmt: skip


def apart(one: Estimate, other: Estimate) -> Estimate:
    """Return the difference of two means over samples that have nothing to do with each other."""
    return _together([one, other], [1, -1])


def average(means: Sequence[Estimate]) -> Estimate:
    """Average means of independent samples, such as those of several tasks, each counting once."""
    return _together(means, [1 / len(means)] * len(means)) if means else NOTHING


def _together(means: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """Add weighted means; degrees of freedom as of Welch (1947) and Satterthwaite (1946)."""
    value = math.fsum(w * one.value for one, w in zip(means, weights, strict=True))
    parts = [(w * one.error) ** 2 for one, w in zip(means, weights, strict=True)]
    spread = sum(x * x / one.freedom for one, x in zip(means, parts, strict=True) if one.freedom)
    least = min(one.freedom for one in means)
    freedom = sum(parts) ** 2 / spread if spread > 0 else least
    return Estimate(value, math.sqrt(sum(parts)), sum(one.samples for one in means), freedom)


def noticed(truth: Questions, found: Graded, odds: Array) -> tuple[Estimate, Estimate, Estimate]:
    """Return how an intervention moves the log-odds of yes, where it matters and where it does not.

    Parameters
    ----------
    truth : Questions
    found : Graded
    odds : ndarray, shape (prompts,)

    Returns
    -------
    same, changed, difference : Estimate
        The change from the question before to that after the intervention, in nats: where kappa is
        0, where it is 1, and the second less the first. Whoever ignores the intervention has a
        difference of 0; whoever sees what it deletes has one below 0, whatever its bias to yes.
    """
    moved = np.array(
        [odds[truth.pairs[n].post] - odds[truth.pairs[n].base] for n in found.numbers], dtype=float
    )
    same, changed = (
        mean(truth, picked(found, found.kappa == kappa), moved[found.kappa == kappa])
        for kappa in (0, 1)
    )
    return same, changed, paired(changed, same)


def known_scenes(found: Graded) -> NDArray[np.int64]:
    """Return the scenes all of whose prompts were answered rightly."""
    return np.setdiff1d(found.scene, found.scene[~found.right])


def pooled(of: Any, clusters: Any) -> Estimate:
    """Average numbers that come in clusters, which are a sample of such.

    Parameters
    ----------
    of : array_like, shape (N,)
    clusters : array_like, shape (N,)
        To which of G clusters each belongs.

    Returns
    -------
    Estimate
        The error is ``sqrt(G / (G - 1) sum_g (sum_{n in g} (x_n - mean))^2) / N`` (Cochran 1977,
        section 11.7: a ratio over clusters of unequal size, linearised).
    """
    of = np.asarray(of, dtype=float)
    if not len(of):
        return NOTHING
    there, shares = shares_of(of, np.asarray(clusters))
    error = math.sqrt(float(shares @ shares)) / len(of)
    return Estimate(float(of.mean()), error, len(there), len(there) - 1)
