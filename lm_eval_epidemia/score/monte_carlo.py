"""Distances from a distribution that is known only from random answers.

The L1 distance of the shares among n answers is larger than that of the distribution they are drawn
from, since every random deviation adds to it: a model that knows the truth seems far from it.
Summed over cells at various distances from the truth, the excess is of the order 1/n. Twice the
distance of all answers minus the mean distance of random halves removes it (the jackknife with half
samples). The remaining bias is of higher order; it is largest, of the order ``1 / sqrt(n)``, for a
model whose cells are all closer to the truth than the noise of the answers.
docs/reference/sampled.md has the measured sizes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array

#: Draws of the answers behind a standard error, and the seed they come from.
DRAWS = 200
SEED = 78

#: With fewer readable answers in a cell, their shares are not corrected.
FEWEST = 8


def split_sizes(n: int) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return sizes of subsamples of n answers, with the coefficients of their distances.

    The coefficients sum to 1 and, each divided by its size, to 0: 2 and -1 when n is even.
    """
    half = n // 2
    return (n, n / (n - half)), (half, -half / (n - half))


@lru_cache(maxsize=64)
def subsample_weights(n: int, m: int) -> Array:
    """Return the hypergeometric probabilities of x among m answers when there are c among n.

    Returns
    -------
    ndarray, shape (n + 1, m + 1)
        By c and x.
    """
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])

    def log_choose(a: NDArray[np.int64], b: NDArray[np.int64]) -> Array:
        inside = (b >= 0) & (b <= a)
        b = np.where(inside, b, 0)
        return np.where(inside, log_factorial[a] - log_factorial[b] - log_factorial[a - b], -np.inf)

    c, x = np.arange(n + 1)[:, None], np.arange(m + 1)[None, :]
    logs = log_choose(c, x) + log_choose(n - c, m - x)
    total = log_choose(np.array([n]), np.array([m]))
    return np.exp(logs - total)


def distances(p: Array, counts: NDArray[np.int64]) -> Array:
    """Estimate sum_y |P(y|x) - P~(y|x)| from answers drawn from P~.

    Parameters
    ----------
    p : ndarray, shape (C, K)
    counts : ndarray of int, shape (..., C, K + 1)
        Answers by level; last, the number that could not be read, which count as 1/K for every
        level. The numbers of readable answers per cell must not vary over the leading axes.

    Returns
    -------
    ndarray, shape (..., C)
        Each may be slightly negative: the correction is right on average over many draws.
    """
    levels = p.shape[1]
    total = counts.sum(axis=-1)
    silent = counts[..., -1] / total
    read = (total - counts[..., -1]).reshape(-1, len(p))[0]
    shares = counts[..., :-1] / total[..., None] + silent[..., None] / levels
    result = np.abs(shares - p).sum(axis=-1)
    for n in np.unique(read[read >= FEWEST]):
        cells = np.flatnonzero(read == n)
        share = silent[..., cells].reshape(-1, len(cells))[0]
        # |(1 - s) c / n + s / K - p| is (1 - s) |c / n - p'|.
        shifted = (p[cells] - share[:, None] / levels) / (1 - share[:, None])
        # By number of answers c, the estimate of |c's distribution - p'|: a table, looked up.
        table = np.zeros((int(n) + 1, shifted.size))
        for m, coefficient in split_sizes(int(n)):
            misses = np.abs(np.arange(m + 1)[:, None] / m - shifted.ravel())
            table += coefficient * (subsample_weights(int(n), m) @ misses)
        table = table.reshape(int(n) + 1, *shifted.shape)
        rows, columns = np.indices(shifted.shape)
        looked_up = table[counts[..., cells, :-1], rows, columns].sum(axis=-1)
        result[..., cells] = (1 - share) * looked_up
    return result


def draw_counts(counts: NDArray[np.int64], draws: int = DRAWS) -> NDArray[np.int64]:
    """Draw alternative readable answers from a multinomial with the observed shares.

    Parameters
    ----------
    counts : ndarray of int, shape (C, K + 1)

    Returns
    -------
    ndarray of int, shape (draws, C, K + 1)
    """
    rng = np.random.default_rng(SEED)
    answers = counts[:, :-1]
    read = answers.sum(axis=1)
    p = answers / np.maximum(read, 1)[:, None]
    # A cell without a readable answer draws none, whatever the probabilities.
    p[read == 0, 0] = 1.0
    drawn = rng.multinomial(read, p, size=(draws, len(counts)))
    silent = np.broadcast_to(counts[:, -1:], (draws, len(counts), 1))
    return np.concatenate([drawn, silent], axis=-1)


def distance_error(weights: Array, p: Array, counts: NDArray[np.int64]) -> float:
    """Standard error of a distance from the limited number of answers.

    Parameters
    ----------
    weights : ndarray, shape (C,)
    p : ndarray, shape (C, K)
    counts : ndarray of int, shape (C, K + 1)
    """
    return float((distances(p, draw_counts(counts)) @ weights).std(ddof=1))
