"""Scales other than L1: the distance of answers from a truth per cell, and the order of cells.

Shapes: C cells, K levels; ``p`` and ``q`` (..., C, K) have rows that sum to 1 and broadcast, so
that many replicates of a truth are compared at once. None of these is the score.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from lm_eval_epidemia.core.distance import Array

#: Shares of a table that are whole numbers of 10^-d, for a d up to this, are printed with d digits.
DIGITS = 6

#: Of a printed share a / n: the largest n that is told from its neighbours in double precision.
LARGEST = 10**7

#: What rounding may do to a whole number that large.
WHOLE = 1e-6

#: Answers that differ by less are the same; a quarter of what a bfloat16 tells apart near 1e-6.
SAME = 1e-9


def total_variation(p: Array, q: Array) -> Array:
    """Total variation: ``sum_y |p - q| / 2``, half the L1 distance.

    Returns
    -------
    ndarray, shape (..., C)
        In [0, 1]: the share of probability on wrong answers.
    """
    return np.asarray(np.abs(p - q).sum(axis=-1) / 2)


def _entropy(p: Array) -> Array:
    p = np.maximum(p, 0.0)  # replicates are stored in steps, and can miss 0 by one
    return np.asarray(-(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=-1))


def jensen_shannon(p: Array, q: Array) -> Array:
    """Jensen-Shannon divergence: ``H((p + q) / 2) - H(p) / 2 - H(q) / 2`` (Lin 1991).

    Returns
    -------
    ndarray, shape (..., C)
        In bits, in [0, 1]: the information of one answer about whether it was drawn from p or q.
    """
    return np.maximum(_entropy((p + q) / 2) - _entropy(p) / 2 - _entropy(q) / 2, 0.0)


def wasserstein(p: Array, q: Array) -> Array:
    """Wasserstein-1 distance of ordered answers, placed at ``index / (K - 1)``.

    ``sum_k |F_p(k) - F_q(k)| / (K - 1)``, F the cumulative distributions.

    Returns
    -------
    ndarray, shape (..., C)
        In [0, 1]: how far probability must be moved, as a share of the whole scale.
    """
    gaps = np.abs(np.cumsum(p - q, axis=-1)[..., :-1])
    return np.asarray(gaps.sum(axis=-1) / (p.shape[-1] - 1))


def resolution(p: Array) -> Array:
    """Return the sample size implied by the digits of each row of a printed table.

    Parameters
    ----------
    p : ndarray, shape (C, K)
        Shares as printed, or of printed counts.

    Returns
    -------
    ndarray, shape (C,)
        10^d if all shares have d digits, up to six; otherwise the smallest number of people for
        which these shares are whole numbers.
    """
    for digits in range(DIGITS + 1):
        if (np.abs(p * 10**digits - np.rint(p * 10**digits)) < WHOLE).all():
            return np.full(len(p), 10.0**digits)
    parts = [[Fraction(share).limit_denominator(LARGEST) for share in row] for row in p.tolist()]
    return np.array([float(math.lcm(*(part.denominator for part in row))) for row in parts])


def fill_sizes(p: Array, n_eff: Array) -> Array:
    """Return the effective sample size of each cell: n_eff, or that implied by a printed table.

    Parameters
    ----------
    p : ndarray, shape (C, K)
    n_eff : ndarray, shape (C,)
        Infinite without sampling error.

    Returns
    -------
    ndarray, shape (C,)
    """
    exact = ~np.isfinite(n_eff)
    return np.where(exact, resolution(p), n_eff) if exact.any() else n_eff


def log_score(p: Array, q: Array, n: Array) -> Array:
    """Logarithmic score of answers, smoothed by the truth's resolution.

    ``sum_y p log q'``, ``q' = (n q + 1/K) / (n + 1)``: an answer of 0 costs only as much as the
    survey could distinguish from 0. The smoothing is the same for every model.

    Parameters
    ----------
    p, q : ndarray, shape (..., C, K)
    n : ndarray, shape (C,)
        See `fill_sizes`.

    Returns
    -------
    ndarray, shape (..., C)
        In nats, at most 0; higher is better.
    """
    n = n[:, None]
    return np.asarray((p * np.log((n * q + 1 / q.shape[-1]) / (n + 1))).sum(axis=-1))


def _standard_ranks(values: Array) -> Array:
    """Rank cells, level by level, to a mean of 0 and a sum of squares of 1; 0 if all are equal.

    Parameters
    ----------
    values : ndarray, shape (..., C, K)
    """
    from scipy.stats import rankdata  # half of what importing the API would take

    ranks = rankdata(np.rint(values / SAME), axis=-2)
    ranks -= ranks.mean(axis=-2, keepdims=True)
    length = np.sqrt((ranks**2).sum(axis=-2, keepdims=True))
    return np.asarray(ranks / np.where(length > 0, length, 1.0))


def rank_agreement(p: Array, q: Array) -> Array:
    """Whether cells are in the right order: Spearman's correlation, averaged over levels.

    With two levels both give the same value. It is 0 if answers are equal in all cells.

    Parameters
    ----------
    p : ndarray, shape (..., C, K)
    q : ndarray, shape (C, K)

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1]; NaN for a single cell.
    """
    if q.shape[-2] < 2:
        return np.full(p.shape[:-2], math.nan)
    agreement = (_standard_ranks(p) * _standard_ranks(q)).sum(axis=-2)
    return np.asarray(agreement.mean(axis=-1))
