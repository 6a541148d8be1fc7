"""Log-probabilities that are known only between bounds, and how far they leave a distribution open.

A server that shows the likeliest tokens says of the others that none is likelier than the last one
shown, and what they have together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.distance import Array

__all__ = ["Within", "bounds", "most_moved"]


class Within(float):
    """A log-probability that is known only between two bounds: a number as any other.

    Parameters
    ----------
    value : float
        What it counts as.
    low, high : float
        Natural logarithms; `low` may be minus infinity.
    shown : bool
        Whether some of the probability was seen; False where all of it is shared out.
    """

    low: float
    high: float
    shown: bool

    def __new__(cls, value: float, low: float, high: float, shown: bool) -> Within:
        made = super().__new__(cls, value)
        made.low, made.high, made.shown = low, high, shown
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:  # lm-eval's cache pickles answers
        return float(self), self.low, self.high, self.shown


def bounds(logprobs: Sequence[float]) -> tuple[Array, Array]:
    """Return the probabilities between which those of some log-probabilities lie.

    Parameters
    ----------
    logprobs : sequence of float, length K
        Any of which may be `Within`.

    Returns
    -------
    low, high : ndarray, shape (K,)
    """
    low = np.array([getattr(one, "low", one) for one in logprobs], dtype=float)
    high = np.array([getattr(one, "high", one) for one in logprobs], dtype=float)
    return np.exp(low), np.exp(high)


def most_moved(p: Array, low: Array, high: Array) -> Array:
    """Bound the L1 distance of a distribution from the one that the true masses would give.

    Of masses m_k between a_k and b_k, the share m_k / sum m lies between a_k / (a_k + B - b_k) and
    b_k / (b_k + A - a_k), where A and B are the sums of the bounds. Two distributions lie apart by
    twice what some answers have more, or others less: the smaller sum bounds both.

    Parameters
    ----------
    p : ndarray, shape (..., K)
        The distribution that is used; rows sum to 1.
    low, high : ndarray, shape (..., K)
        Bounds of the masses, not normalised.

    Returns
    -------
    ndarray, shape (...)
        In [0, 2]; 0 where the masses are known.
    """
    least, most = low.sum(axis=-1, keepdims=True), high.sum(axis=-1, keepdims=True)
    # Where nothing is known to have mass, a share can be anything.
    total = high + (least - low)
    up = np.where(total > 0, high / np.where(total > 0, total, 1.0), 1.0)
    total = low + (most - high)
    down = np.where(total > 0, low / np.where(total > 0, total, 1.0), 0.0)
    more = np.maximum(up - p, 0).sum(axis=-1)
    less = np.maximum(p - down, 0).sum(axis=-1)
    known = (low == high).all(axis=-1)
    return np.where(known, 0.0, 2 * np.minimum(np.minimum(more, less), 1.0))
