"""What N real answers say: sums over the people of a draw, weighted once or twice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.quantities.quantity import DRAWS, SIZES, Baseline

__all__ = ["PRIOR_SD", "Posterior", "Sums", "corrected", "drawn", "kish", "posterior", "published",
           "stacked"]  # fmt: skip

#: Standard deviation of the normal prior around 0 that baselines begin with. The paper's text
#: calls it a variance, its code takes it as this.
PRIOR_SD = 1e5


class Sums(NamedTuple):
    """A draw: the mean of its answers, their variance (divisor: their number), and their number."""

    mean: float
    variance: float
    size: float


class Posterior(NamedTuple):
    """What the baselines believe, each of the shape of `Baseline`: (mean, sd) or (alpha, beta)."""

    a: Array
    b: Array


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
    found: dict[str, list[list[Sums]]] = {"corrected": [], "published": []}
    for size in SIZES:
        people = rng.choice(len(value), (DRAWS, size), p=share)
        found["corrected"].append([corrected(value[one]) for one in people])
        found["published"].append([_until(value, weight, share, size, rng) for _ in range(DRAWS)])
    return found


def _until(value: Array, weight: Array, share: Array, size: int, rng: np.random.Generator) -> Sums:
    # Each attempt draws anew, one more than the last.
    for rows in range(min(size, len(value)), len(value) + 1):
        people = rng.choice(len(value), rows, replace=False, p=share)
        if rows == len(value) or kish(weight[people]) >= size:
            break
    return published(value[people], weight[people])


def stacked(draws: list[list[list[Sums]]]) -> Baseline:
    """Put the draws of Q quantities, by size and draw, into arrays (Q, len(SIZES), DRAWS)."""
    mean, variance, size = np.moveaxis(np.array(draws, dtype=np.float64), -1, 0)
    return Baseline(mean, variance, size)


def posterior(proportion: NDArray[np.bool_], baseline: Baseline) -> Posterior:
    """Return what the baselines believe after their draws.

    Parameters
    ----------
    proportion : ndarray of bool, shape (Q,)
        Whether a quantity is one.
    baseline : Baseline

    Returns
    -------
    Posterior
        For a proportion, Beta(1 + n p, 1 + n (1 - p)); else the normal with mean
        n S^2 m / (v + n S^2) and variance v S^2 / (v + n S^2), where m and v are mean and variance
        of the n answers and S is `PRIOR_SD`: conjugate updates of Beta(1, 1) and N(0, S^2).
    """
    mean, variance, size = baseline
    is_share = proportion[:, None, None]
    told = variance + size * PRIOR_SD**2
    return Posterior(
        np.where(is_share, 1 + size * mean, size * PRIOR_SD**2 * mean / told),
        np.where(is_share, 1 + size * (1 - mean), np.sqrt(variance * PRIOR_SD**2 / told)),
    )
