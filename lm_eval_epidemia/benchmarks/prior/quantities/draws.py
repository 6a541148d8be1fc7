"""Samples of N real answers: sums over the people of a draw, weighted once or twice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DRAWS, SIZES, Samples
from lm_eval_epidemia.core.distance import Array


class Sums(NamedTuple):
    """A draw: the mean of its answers, their variance (divisor: their number), and their number."""

    mean: float
    variance: float
    size: float


def kish(weight: Array) -> float:
    """Return Kish's effective size, (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def published(value: Array, weight: Array) -> Sums:
    """Weight a draw once more, as the published baselines do, though it was drawn by weight.

    Parameters
    ----------
    value, weight : ndarray, shape (rows,)
        All rows that were drawn until Kish's effective size reached N.
    """
    mean = float(np.average(value, weights=weight))
    return Sums(mean, float(np.average((value - mean) ** 2, weights=weight)), kish(weight))


def corrected(value: Array) -> Sums:
    """Count each of the N people of a draw alike.

    Parameters
    ----------
    value : ndarray, shape (N,)
    """
    return Sums(float(value.mean()), float(value.var()), float(len(value)))


def drawn(value: Array, weight: Array, rng: np.random.Generator) -> dict[str, list[list[Sums]]]:
    """Draw people of a slice, for each size `DRAWS` times, in both manners.

    Corrected: N people with replacement, in proportion to their weight, counted alike. Published:
    people without replacement, in proportion to their weight, one more until Kish's effective size
    is N or nobody is left, then weighted again (``nhanes_generation.py`` of OpenEstimate).

    Parameters
    ----------
    value, weight : ndarray, shape (n,)
        Of the people of the slice; weights above 0.
    rng : numpy.random.Generator

    Returns
    -------
    dict of str to list
        By manner, for each of `SIZES` its draws.
    """
    share = weight / weight.sum()
    sums: dict[str, list[list[Sums]]] = {"corrected": [], "published": []}
    for size in SIZES:
        people = rng.choice(len(value), (DRAWS, size), p=share)
        sums["corrected"].append([corrected(value[chosen]) for chosen in people])
        sums["published"].append([_until(value, weight, share, size, rng) for _ in range(DRAWS)])
    return sums


def _until(value: Array, weight: Array, share: Array, size: int, rng: np.random.Generator) -> Sums:
    # Each attempt draws again, one more than the last.
    for rows in range(min(size, len(value)), len(value) + 1):
        people = rng.choice(len(value), rows, replace=False, p=share)
        if rows == len(value) or kish(weight[people]) >= size:
            break
    return published(value[people], weight[people])


def stacked(draws: list[list[list[Sums]]]) -> Samples:
    """Put the draws of Q quantities, by size and draw, into arrays (Q, len(SIZES), DRAWS)."""
    mean, variance, size = np.moveaxis(np.array(draws, dtype=np.float64), -1, 0)
    return Samples(mean, variance, size)
