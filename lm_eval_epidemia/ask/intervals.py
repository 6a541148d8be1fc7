"""Likelihood prompting: "what is the probability that ...?", answered with one of 22 intervals."""

from __future__ import annotations

import numpy as np

from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.core.distance import Array

#: A. 0%, B. 0%-5%, ..., U. 95%-100%, V. 100%.
BINS = ("0%", *(f"{low}%-{low + 5}%" for low in range(0, 100, 5)), "100%")

BIN_LETTERS = LETTERS[: len(BINS)]

#: The probability for each answer: the interval's midpoint, 0 and 1 at the ends.
MIDPOINTS: Array = np.array([0.0, *((low + 2.5) / 100 for low in range(0, 100, 5)), 1.0])


def asked_levels(levels: int) -> tuple[int, ...]:
    """Return which levels are asked about: of two only the first, since it determines both."""
    return (0,) if levels == 2 else tuple(range(levels))


def bin_of(p: float) -> int:
    """Return the number of the answer that contains a probability.

    Parameters
    ----------
    p : float
        In [0, 1]. 0 and 1 have answers of their own; a boundary belongs to the lower interval.
    """
    if p <= 0:
        return 0
    if p >= 1:
        return len(BINS) - 1
    # Rounded, so that 0.15, which is a little more in binary, is not above its boundary.
    return min(max(int(np.ceil(round(p * 20, 9))), 1), len(BINS) - 2)


def distribution(probabilities: Array, levels: int) -> Array:
    """Turn stated probabilities of the asked levels into a distribution over all levels.

    Parameters
    ----------
    probabilities : ndarray, shape (..., A)
        By asked level, see `asked_levels`.
    levels : int
        K.

    Returns
    -------
    ndarray, shape (..., K)
        Of two levels: p and 1 - p. Of more: divided by their sum; uniform if all are 0.
    """
    if levels == 2:
        return np.concatenate([probabilities, 1 - probabilities], axis=-1)
    total = probabilities.sum(axis=-1, keepdims=True)
    return np.where(
        total > 0, probabilities / np.where(total > 0, total, 1.0), np.full(levels, 1 / levels)
    )
