"""Simulate another survey of the same population: outcomes drawn from the estimates.

The bootstrap draws records; here the records stay, with their conditions, weights and clusters, and
their outcomes are redrawn from P(Y | X). A fit on them is what a survey of a population with
exactly that P(Y | X) would find. `boosted` fits are shrunk twice, as for a model that knows the
population (docs/background/statistics.md).
"""

from __future__ import annotations

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.sampling import Codes, Sample


def draw_outcomes(
    sample: Sample, cell: Codes, p: Array, correlation: float, rng: np.random.Generator
) -> Codes:
    """Draw a binary outcome of every record.

    Each sampled unit compares one uniform number with its cell's probability: with probability
    ``sqrt(correlation)`` the number that its PSU shares, else its own. Two units of a PSU with the
    same probability then have outcomes with exactly that correlation.

    Parameters
    ----------
    sample : Sample
        With n records.
    cell : ndarray of int, shape (n,)
    p : ndarray, shape (C, 2)
    correlation : float
        In [0, 1]; 0 if there are no PSUs.
    rng : Generator

    Returns
    -------
    ndarray of int, shape (n,)
        0 or 1, the number of the level.
    """
    units, first, index = np.unique(sample.units, return_index=True, return_inverse=True)
    uniform = rng.random(len(units))
    if sample.psu is not None and correlation > 0:
        shared = rng.random(int(sample.psu.max()) + 1)[sample.psu[first]]
        uniform = np.where(rng.random(len(units)) < np.sqrt(correlation), shared, uniform)
    return (uniform[index] < p[cell, 1]).astype(np.int64)


def intraclass_correlation(sample: Sample, cell: Codes, outcome: Codes, p: Array) -> float:
    """Estimate how similar the answers within a PSU are, beyond what their conditions explain.

    ``sum over pairs of a PSU's units of r_i r_j / sum over these pairs of s_i s_j``, with r the
    weighted residuals ``w (y - p)`` and s their standard deviations ``w sqrt(p (1 - p))``: the
    moment estimate from the between-cluster variance.

    Parameters
    ----------
    sample : Sample
        With n records.
    cell, outcome : ndarray of int, shape (n,)
    p : ndarray, shape (C, 2)

    Returns
    -------
    float
        In [0, 1]; 0 without PSUs.
    """
    if sample.psu is None:
        return 0.0
    chance = p[cell, 1]
    _, first, index = np.unique(sample.units, return_index=True, return_inverse=True)
    psu_of_unit = sample.psu[first]

    def pairs(of_record: Array) -> float:
        of_unit = np.bincount(index, weights=sample.weight * of_record)
        of_psu = np.bincount(psu_of_unit, weights=of_unit)
        return float((of_psu**2).sum() - (of_unit**2).sum())

    possible = pairs(np.sqrt(chance * (1 - chance)))
    return float(np.clip(pairs(outcome - chance) / possible, 0, 1)) if possible > 0 else 0.0
