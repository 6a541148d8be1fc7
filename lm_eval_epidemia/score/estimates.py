"""Means and differences of means, each with its error over the clusters of its sample.

A mean carries its draws: one number per cluster. Means over the same clusters (other effects,
another way of asking) are paired by subtracting their draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lm_eval_epidemia.core.distance import Array


def interval(p: Array, n_eff: Array) -> tuple[Array, Array]:
    """Return 95 % intervals of true probabilities: Jeffreys', with effective sample sizes.

    Quantiles of ``Beta(p n + 1/2, (1 - p) n + 1/2)``, widened to include p if p lies outside, as
    for 0 or 1 (Brown, Cai and DasGupta 2001).

    Parameters
    ----------
    p : ndarray, shape (C, K)
    n_eff : ndarray, shape (C,)
        Infinite without sampling error: the interval is then p itself.

    Returns
    -------
    low, high : ndarray, shape (C, K)
    """
    from scipy import stats  # half of what importing the API would take

    exact = ~np.isfinite(n_eff)[:, None]
    n = np.where(exact, 1.0, n_eff[:, None])
    low, high = (stats.beta.ppf(level, p * n + 0.5, (1 - p) * n + 0.5) for level in (0.025, 0.975))
    return np.where(exact, p, np.minimum(low, p)), np.where(exact, p, np.maximum(high, p))


#: Two-sided level of confidence of `Estimate.interval`.
CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A mean, or a difference of means.

    Attributes
    ----------
    value : float
        NaN if nothing is averaged.
    error : float
        Its standard error over clusters (samples of names, quantities); NaN if there is only one.
    samples : int
        Number of clusters.
    freedom : float
        Degrees of freedom of the error.
    at : ndarray, shape (S,) or (0,)
        Its draws, one per cluster of the task; empty if no other mean is paired with it.
    """

    value: float
    error: float
    samples: int
    freedom: float
    at: Array = np.array([])

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of 95 %, by Student's t; NaN if the error is unknown."""
        if not self.freedom > 0 or math.isnan(self.error):
            return math.nan, math.nan
        reach = float(special.stdtrit(self.freedom, (1 + CONFIDENCE) / 2)) * self.error
        return self.value - reach, self.value + reach


NOTHING = Estimate(math.nan, math.nan, 0, 0)


def subtract_paired(first: Estimate, other: Estimate) -> Estimate:
    """Return the difference of two means over the same scenes, with its paired error."""
    at = first.at - other.at
    return Estimate(
        first.value - other.value,
        float(at.std(ddof=1)) if len(at) else math.nan,
        min(first.samples, other.samples),
        min(first.freedom, other.freedom),
        at,
    )


def subtract_unpaired(first: Estimate, other: Estimate) -> Estimate:
    """Return the difference of two means over independent samples."""
    return _together([first, other], [1, -1])


def average(means: Sequence[Estimate]) -> Estimate:
    """Average means of independent samples, such as several tasks, with equal weights."""
    return _together(means, [1 / len(means)] * len(means)) if means else NOTHING


def _together(means: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """Add weighted means; degrees of freedom as of Welch (1947) and Satterthwaite (1946)."""
    value = math.fsum(w * m.value for m, w in zip(means, weights, strict=True))
    parts = [(w * m.error) ** 2 for m, w in zip(means, weights, strict=True)]
    spread = sum(x * x / m.freedom for m, x in zip(means, parts, strict=True) if m.freedom)
    least = min(m.freedom for m in means)
    freedom = sum(parts) ** 2 / spread if spread > 0 else least
    return Estimate(value, math.sqrt(sum(parts)), sum(m.samples for m in means), freedom)


def shares_of(of: Array, ids: NDArray[Any]) -> tuple[NDArray[Any], Array]:
    """Return each cluster's contribution to the error of a mean, linearised.

    Parameters
    ----------
    of : ndarray, shape (N,)
    ids : ndarray, shape (N,)
        To which of G clusters each belongs.

    Returns
    -------
    there : ndarray, shape (G,)
        The clusters.
    shares : ndarray, shape (G,)
        ``sqrt(G / (G - 1)) sum_{n in g} (x_n - mean)``: the root of the sum of their squares, over
        N, is the error. NaN of a single cluster.
    """
    there, place = np.unique(ids, return_inverse=True)
    if len(there) < 2:
        return there, np.full(len(there), math.nan)
    sums = np.bincount(place, of - of.mean())
    # Centred, since the sums of rounded numbers are 0 up to rounding only.
    return there, (sums - sums.mean()) * math.sqrt(len(there) / (len(there) - 1))


def pool_clusters(of: Any, clusters: Any) -> Estimate:
    """Average numbers from a sample of clusters.

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
