"""Other scales than L1: how far answers are from a truth, cell by cell, and which cells differ.

Shapes: C cells, K levels; ``p`` and ``q`` (..., C, K) have rows that sum to 1 and broadcast, so
that many replicates of a truth are compared at once. None of these is the score.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array

#: Shares of a table that are whole numbers of 10^-d, for a d up to this, are printed with d digits.
DIGITS = 6

#: Of a printed share a / n: the largest n that is told from its neighbours in double precision.
LARGEST = 10**7

#: What rounding may do to a whole number that large.
WHOLE = 1e-6

#: Answers that differ by less are the same; a quarter of what a bfloat16 tells apart near 1e-6.
SAME = 1e-9

#: Up to so many orders of the cells are all tried, those of seven; of more cells so many are drawn,
#: with this seed.
ALL, DRAWS, SEED = 5_040, 999, 81


def total_variation(p: Array, q: Array) -> Array:
    """Total variation: ``sum_y |p - q| / 2``, half the L1 distance.

    Returns
    -------
    ndarray, shape (..., C)
        In [0, 1]: how much of the probability stands at the wrong answers.
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
        In bits, in [0, 1]: what one answer says of whether it was drawn from p or from q.
    """
    return np.maximum(_entropy((p + q) / 2) - _entropy(p) / 2 - _entropy(q) / 2, 0.0)


def wasserstein(p: Array, q: Array) -> Array:
    """Wasserstein-1 of ordered answers that stand at ``index / (K - 1)``.

    ``sum_k |F_p(k) - F_q(k)| / (K - 1)``, F the cumulative distributions.

    Returns
    -------
    ndarray, shape (..., C)
        In [0, 1]: how far the probability has to be moved, as a share of the whole scale.
    """
    gaps = np.abs(np.cumsum(p - q, axis=-1)[..., :-1])
    return np.asarray(gaps.sum(axis=-1) / (p.shape[-1] - 1))


def resolution(p: Array) -> Array:
    """Return of how many people each row of a printed table could be: 1 over its last digit.

    Parameters
    ----------
    p : ndarray, shape (C, K)
        Shares as printed, or of printed counts.

    Returns
    -------
    ndarray, shape (C,)
        10^d, where all shares have d digits, up to six; else the least number of people of whom
        these shares are whole numbers.
    """
    for digits in range(DIGITS + 1):
        if (np.abs(p * 10**digits - np.rint(p * 10**digits)) < WHOLE).all():
            return np.full(len(p), 10.0**digits)
    parts = [[Fraction(share).limit_denominator(LARGEST) for share in row] for row in p.tolist()]
    return np.array([float(math.lcm(*(part.denominator for part in row))) for row in parts])


def sizes(p: Array, n_eff: Array) -> Array:
    """Return how finely each cell of a truth is resolved: n_eff, or that of a printed table.

    Parameters
    ----------
    p : ndarray, shape (C, K)
    n_eff : ndarray, shape (C,)
        Infinite where there is no sampling error.

    Returns
    -------
    ndarray, shape (C,)
    """
    exact = ~np.isfinite(n_eff)
    return np.where(exact, resolution(p), n_eff) if exact.any() else n_eff


def log_score(p: Array, q: Array, n: Array) -> Array:
    """Logarithmic score of answers that are mixed with the truth's own resolution.

    ``sum_y p log q'``, ``q' = (n q + 1/K) / (n + 1)``: an answer of 0 costs as much as the survey
    could tell it from 0. The mixture is the same for every respondent.

    Parameters
    ----------
    p, q : ndarray, shape (..., C, K)
    n : ndarray, shape (C,)
        As of `sizes`.

    Returns
    -------
    ndarray, shape (..., C)
        In nats, at most 0; the higher, the better.
    """
    n = n[:, None]
    return np.asarray((p * np.log((n * q + 1 / q.shape[-1]) / (n + 1))).sum(axis=-1))


def _standard_ranks(values: Array) -> Array:
    """Rank cells, level by level, to a mean of 0 and a sum of squares of 1; 0 where all are equal.

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
    """Whether the cells stand in the right order: Spearman's correlation, the mean over levels.

    Of two levels both say the same. Of answers that are the same in all cells it is 0.

    Parameters
    ----------
    p : ndarray, shape (..., C, K)
    q : ndarray, shape (C, K)

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1]; NaN of a single cell.
    """
    if q.shape[-2] < 2:
        return np.full(p.shape[:-2], math.nan)
    agreement = (_standard_ranks(p) * _standard_ranks(q)).sum(axis=-2)
    return np.asarray(agreement.mean(axis=-1))


@lru_cache(maxsize=32)
def _orders(cells: int) -> tuple[NDArray[np.int16], bool]:
    """Return orders of the cells, shape (N, C), and whether these are all that there are."""
    if math.factorial(cells) <= ALL:
        return np.array(list(itertools.permutations(range(cells))), dtype=np.int16), True
    rng = np.random.default_rng(SEED)
    return np.array([rng.permutation(cells) for _ in range(DRAWS)], dtype=np.int16), False


def agreement_by_chance(p: Array, q: Array) -> float:
    """How often answers with no idea of who is who would agree at least as well.

    The cells of q are put in every order, or in `DRAWS` drawn ones where there are many.

    Parameters
    ----------
    p, q : ndarray, shape (C, K)

    Returns
    -------
    float
        One-sided p-value of `rank_agreement`, in (0, 1]; NaN of a single cell.
    """
    cells = len(q)
    if cells < 2:
        return math.nan
    # Of two levels, one says what both do.
    levels = slice(1 if q.shape[1] == 2 else None)
    first, other = (_standard_ranks(values[:, levels]) for values in (p, q))
    orders, all_of_them = _orders(cells)
    agreement = np.einsum("ck,nck->n", first, other[orders])
    as_good = int((agreement >= (first * other).sum() - SAME).sum())
    return as_good / len(orders) if all_of_them else (as_good + 1) / (len(orders) + 1)
