"""Ground truth by counting: weighted shares of each answer in each cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array


def shares(totals: Array, otherwise: Array | float) -> Array:
    """Divide totals by their sum along the last axis; `otherwise` where that is not above 0."""
    of = totals.sum(axis=-1, keepdims=True)
    return np.where(of > 0, totals / np.where(of > 0, of, 1.0), otherwise)


def count(
    weight: Array, cell: NDArray[np.int64], outcome: NDArray[np.int64], cells: int, levels: int
) -> Array:
    """Estimate P(Y | X) by weighted counts.

    Parameters
    ----------
    weight : ndarray, shape (n,)
    cell, outcome : ndarray of int, shape (n,)
    cells, levels : int

    Returns
    -------
    ndarray, shape (cells, levels)
        A cell without weight (it can happen in a bootstrap replicate) gets the distribution of
        all records: nothing is known about it but that.
    """
    totals = np.bincount(cell * levels + outcome, weights=weight, minlength=cells * levels)
    table = totals.astype(np.float64).reshape(cells, levels)
    return shares(table, table.sum(axis=0) / table.sum())
