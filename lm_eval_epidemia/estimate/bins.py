"""Ground truth by counting: weighted shares of each answer in each cell."""

from __future__ import annotations

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.sampling import Codes


def count(weight: Array, cell: Codes, outcome: Codes, cells: int, levels: int) -> Array:
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
    totals = totals.reshape(cells, levels)
    in_cell = totals.sum(axis=1, keepdims=True)
    everyone = totals.sum(axis=0) / totals.sum()
    return np.where(in_cell > 0, totals / np.where(in_cell > 0, in_cell, 1.0), everyone)
