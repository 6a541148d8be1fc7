"""Log-probabilities of which only bounds are known, and the resulting error of a distribution.

A server that shows the most likely tokens implies bounds for the others: none is more likely than
the last one shown, and their total probability is the remainder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.core.distance import Array


class Within(float):
    """A log-probability of which only two bounds are known; otherwise an ordinary number.

    Parameters
    ----------
    value : float
        The value that is used.
    low, high : float
        Natural logarithms; `low` may be minus infinity.
    shown : bool
        Whether part of the probability was shown; False if all of it was assigned.
    digits : int
        Decimals that the server rounded to; -1 if it did not.
    """

    low: float
    high: float
    shown: bool
    digits: int

    def __new__(
        cls, value: float, low: float, high: float, shown: bool, digits: int = -1
    ) -> Within:
        logprob = super().__new__(cls, value)
        logprob.low, logprob.high, logprob.shown, logprob.digits = low, high, shown, digits
        return logprob

    def __getnewargs__(self) -> tuple[Any, ...]:  # lm-eval's cache pickles answers
        return float(self), self.low, self.high, self.shown, self.digits


class Withheld(float):
    """The log-probability of a letter after a prompt that a server's filter declined: NaN.

    It counts as if the prompt had not been asked.
    """

    def __str__(self) -> str:  # in lm-eval's samples
        return "declined"


def is_withheld(responses: Any) -> bool:
    """Whether a prompt was declined, by a model's responses or those in lm-eval's samples."""
    pair = responses[0] if responses else None
    return isinstance(pair, (list, tuple)) and len(pair) == 2 and str(pair[0]) == "declined"


def bounds(logprobs: Sequence[float]) -> tuple[Array, Array]:
    """Return bounds of the probabilities of some log-probabilities.

    Parameters
    ----------
    logprobs : sequence of float, length K
        Any of which may be `Within`.

    Returns
    -------
    low, high : ndarray, shape (K,)
    """
    low = np.array([getattr(p, "low", p) for p in logprobs], dtype=float)
    high = np.array([getattr(p, "high", p) for p in logprobs], dtype=float)
    return np.exp(low), np.exp(high)


#: Of more answers than this, not every set of them is tried (2**12 sets take a second or so).
MOST_ANSWERS = 12


def bound_change(p: Array, low: Array, high: Array) -> Array:
    """Bound how far, in L1, a mean of distributions is from that which the true masses would give.

    Two distributions lie apart by twice what some set of answers has more in one of them. Of masses
    m_k between a_k and b_k, the answers of a set S have the share m_S / (m_S + m_rest), which is
    largest, b_S / (b_S + a_rest), where all of S have most and all others least. So no smaller
    number bounds one distribution, nor the mean of several, whose S is the same: the masses of one
    say nothing of those of another.

    Parameters
    ----------
    p : ndarray, shape (..., M, K)
        The M distributions that are averaged; rows sum to 1.
    low, high : ndarray, shape (..., M, K)
        Bounds of the masses, not normalised.

    Returns
    -------
    ndarray, shape (...)
        In [0, 2]; 0 if the masses are known. Of more than `MOST_ANSWERS` answers more than need
        be: the mean of `_most_apart`.
    """
    answers = p.shape[-1]
    if answers > MOST_ANSWERS:
        return np.asarray(_most_apart(p, low, high).mean(axis=-1))
    farthest = np.zeros(p.shape[:-2])
    for number in range(1, 2**answers - 1):
        some = (number >> np.arange(answers)) % 2 == 1
        most = high[..., some].sum(axis=-1)
        total = most + low[..., ~some].sum(axis=-1)
        share = np.divide(most, total, out=np.zeros_like(most), where=total > 0)
        farthest = np.maximum(farthest, (share - p[..., some].sum(axis=-1)).mean(axis=-1))
    return np.where((low == high).all(axis=(-2, -1)), 0.0, 2 * farthest)


def _most_apart(p: Array, low: Array, high: Array) -> Array:
    """Bound the L1 distance of each distribution, answer by answer.

    The share of one lies between a_k / (a_k + B - b_k) and b_k / (b_k + A - a_k), where A and B are
    the sums of the bounds; the smaller of what answers may have more, and less, bounds both.
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
