"""The distance between two conditional distributions.

Shapes used throughout: ``C`` cells (combinations of condition values), ``K`` levels (answers).
``weights`` has shape (C,), sums to 1 and holds P(X = x); a distribution has shape (C, K) and rows
that sum to 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def distance(weights: Array, p: Array, q: Array) -> Array:
    """Weighted L1 distance between conditional distributions.

    ``D(q, p) = sum_x w_x sum_y |p(y|x) - q(y|x)|``

    Parameters
    ----------
    weights : ndarray, shape (C,)
        Share of each cell, summing to 1.
    p, q : ndarray, shape (..., C, K)
        Conditional distributions; leading axes broadcast, so that many replicates are compared at
        once.

    Returns
    -------
    ndarray, shape (...)
        In [0, 2]; 0 if and only if the two agree wherever the weight is positive.
    """
    return np.asarray(np.abs(p - q).sum(axis=-1) @ weights)
