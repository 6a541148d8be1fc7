"""What was said of the quantities of a task, judged, and its means over quantities with errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.quantities.quantity import SIZES, Quantities
from lm_eval_epidemia.score.contrasts import NOTHING, Estimate, pooled
from lm_eval_epidemia.score.judged import Judged, Stated, judge, judge_grid, mean_of, part_of

__all__ = ["Known", "between", "crossing", "ece", "error_ratio", "everything", "known_of", "mean",
           "quartiles", "rank"]  # fmt: skip

#: The quartiles of a stated prior, as the places of the truth in it.
QUARTERS = (0.25, 0.5, 0.75)


class Known(NamedTuple):
    """What was said of the Q quantities of a task that were asked.

    Attributes
    ----------
    truth : Quantities
        Those that were asked.
    stated : Stated or ndarray, shape (Q, G)
        The priors; of a grid the log-probabilities of its points.
    judged : Judged
        What could not be read counts as the flat prior, and is no win.
    dropped : Judged
        What could not be read is dropped, as in the published numbers.
    """

    truth: Quantities
    stated: Stated | Array
    judged: Judged
    dropped: Judged


def known_of(truth: Quantities, said: Stated | Array, asked: NDArray[np.bool_]) -> Known:
    """Judge what was said.

    Parameters
    ----------
    truth : Quantities
        The whole task.
    said : Stated, of shape (Q, R), or ndarray, shape (Q, G)
    asked : ndarray of bool, shape (Q,)
    """
    part = truth if asked.all() else part_of(truth, asked)
    if isinstance(said, Stated):
        stated = Stated(*(each[asked] for each in said))
        judged = judge(part, stated)
        dropped = judge(part, stated, published=True) if (judged.answered < 1).any() else judged
        return Known(part, stated, judged, dropped)
    judged = judge_grid(part, said[asked])
    return Known(part, said[asked], judged, judged)


def error_ratio(known: Known) -> float:
    """Return the primary metric: the mean over quantities of the error ratio; NaN over none."""
    return mean(known, everything(known), known.judged.ratio).value


def everything(known: Known) -> NDArray[np.bool_]:
    return np.ones(len(known.truth.quantities), dtype=bool)


def mean(known: Known, chosen: NDArray[np.bool_], of: Array) -> Estimate:
    """Average over chosen quantities, shape (Q,): sd / sqrt(n) is the error. NaN is left out."""
    kept = chosen & ~np.isnan(of)
    return pooled(of[kept], np.arange(int(kept.sum())))


def _in_quarter(position: Array, quarter: int) -> Array:
    """Say which truths lie in a quarter (0 to 3) of the prior; NaN where there is no prior."""
    found = np.digitize(position, QUARTERS, right=True) == quarter
    return np.where(np.isnan(position), np.nan, found.astype(float))


def quartiles(known: Known, chosen: NDArray[np.bool_]) -> list[Estimate]:
    """Return the share of truths in each quarter of the stated prior; 0.25 where calibrated."""
    return [
        mean(known, chosen, mean_of(_in_quarter(known.judged.position, quarter)))
        for quarter in range(4)
    ]


def between(known: Known, chosen: NDArray[np.bool_], low: float, high: float) -> Estimate:
    """Return the share of truths between two quantiles of the stated prior."""
    position = known.judged.position
    inside = ((low <= position) & (position <= high)).astype(float)
    return mean(known, chosen, mean_of(np.where(np.isnan(position), np.nan, inside)))


def ece(known: Known, chosen: NDArray[np.bool_]) -> Estimate:
    """Return the expected calibration error, in percentage points.

    The mean over quarters of |share of the truths - 25 %|, of each repeat, averaged over repeats.
    Its error is over quantities, linearised: what a quantity adds to the shares, signed as these
    are above or below a quarter.
    """
    position = known.judged.position[chosen]
    values, shares = [], np.zeros(len(position))
    for column in position.T:
        there = ~np.isnan(column)
        if not there.any():
            continue
        inside = np.stack([_in_quarter(column[there], quarter) for quarter in range(4)])
        share = inside.mean(axis=1, keepdims=True)
        values.append(100 * np.abs(share - 0.25).mean())
        signs = np.sign(share - 0.25)
        shares[there] += 100 * (signs * (inside - share)).mean(axis=0) / there.sum()
    if not values:
        return NOTHING
    number, repeats = len(position), len(values)
    error = math.sqrt(float((shares**2).sum()) * number / (number - 1)) if number > 1 else math.nan
    return Estimate(float(np.mean(values)), error / repeats, number, number - 1)


def rank(known: Known, chosen: NDArray[np.bool_]) -> Estimate:
    """Correlate by ranks (Spearman) the stated sd with the error, both free of the unit.

    Its error is that of Bonett and Wright (2000), ``(1 - r^2) sqrt((1 + r^2 / 2) / (n - 3))``.
    """
    stated, error = known.judged.uncertainty[chosen], known.judged.ratio[chosen]
    kept = ~(np.isnan(stated) | np.isnan(error))
    stated, error, number = stated[kept], error[kept], int(kept.sum())
    if number < 4 or len(set(stated)) < 2 or len(set(error)) < 2:
        return NOTHING
    r = float(stats.spearmanr(stated, error).statistic)
    spread = (1 - r * r) * math.sqrt((1 + r * r / 2) / (number - 3))
    return Estimate(r, spread, number, number - 1)


def crossing(rates: Sequence[float]) -> float:
    """Return how many real answers a prior is worth.

    Parameters
    ----------
    rates : sequence of float, length S
        How often it wins against each of `SIZES`.

    Returns
    -------
    float
        Where the rate first falls below one half, linear in the logarithm of the size; 0 where it
        does so before the smallest size, infinity where it does not up to the largest one, NaN
        where a rate is not known.
    """
    if any(map(math.isnan, rates)):
        return math.nan
    if rates[0] < 0.5:
        return 0.0
    for place in range(1, len(SIZES)):
        before, after = rates[place - 1 : place + 1]
        if after < 0.5:
            share = (before - 0.5) / (before - after)
            low, high = (math.log(size) for size in SIZES[place - 1 : place + 1])
            return math.exp(low + share * (high - low))
    return math.inf
