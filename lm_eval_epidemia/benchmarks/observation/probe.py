"""Are some tasks known better than comparable ones? Matching, and the error of the difference.

A difference is uncertain for two reasons. The surveys' samples and the asking have errors, which
the joint replicates give (`score.joint`). And of two equally hard tasks, one is known better by
chance: this is the variance of the differences of matched pairs beyond sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from lm_eval_epidemia.score.joint import Draws, contrast_error

#: How far apart the D_mean / D_zero of two matched tasks may be.
RATIO = 0.1

#: By what factor their D_zero may differ. One error in the answers costs more of a shorter scale: a
#: model that is equally wrong everywhere would seem to know the tasks of longer scales better.
FACTOR = 1.25

#: On fewer different fresh tasks nothing is compared: what a model happens to know of one of them
#: counts once, however many published ones it serves.
LEAST = 10

#: Two-sided level of confidence of every claim.
CONFIDENCE = 0.95


class Alike(NamedTuple):
    """The properties by which tasks are matched.

    Attributes
    ----------
    stratum : hashable
        Only tasks of the same are matched: survey, vintage, way of asking, outcome.
    conditions : int
        How many.
    mean, zero : float
        D_mean and D_zero. Their ratio is the part of the scale beyond knowing averages; D_zero is
        the length of the scale.
    """

    stratum: Hashable
    conditions: int
    mean: float
    zero: float

    def apart(self, other: Alike) -> float:
        """How far the scales of two tasks are apart; infinite beyond `RATIO` or `FACTOR`.

        ``hypot(change of D_mean / D_zero over RATIO, log of the D_zeros' ratio over log FACTOR)``.
        """
        ratio = (self.mean / self.zero - other.mean / other.zero) / RATIO
        length = math.log(self.zero / other.zero) / math.log(FACTOR)
        return math.inf if max(abs(ratio), abs(length)) > 1 else math.hypot(ratio, length)


def nearest(ones: Sequence[Alike], others: Sequence[Alike]) -> list[int | None]:
    """Match each task with the nearest other one, which may be matched several times.

    By how far the scales are apart, within the same stratum and number of conditions; where none
    of these is within the calipers, within the stratum. Of equally near ones the first.

    Parameters
    ----------
    ones, others : sequence of Alike

    Returns
    -------
    list of int or None
        For each of `ones`, the place of its match; None if it has none.
    """
    matches: list[int | None] = []
    for task in ones:
        near = [
            (task.conditions != other.conditions, apart, place)
            for place, other in enumerate(others)
            if other.stratum == task.stratum and (apart := task.apart(other)) < math.inf
        ]
        matches.append(min(near)[2] if near else None)
    return matches


class PairDifference(NamedTuple):
    """The mean difference of matched pairs.

    Attributes
    ----------
    first, second : float
        Means over the pairs.
    pairs : int
    used : int
        How many different seconds there are.
    survey : float
        Joint standard error of the difference in these very tasks, from the surveys' samples and
        the asking; NaN if that of a task is not known.
    error : float
        Standard error that also covers other tasks of this kind; NaN for one pair.
    low, high : float
        Confidence interval at `CONFIDENCE`.
    """

    first: float
    second: float
    pairs: int
    used: int
    survey: float
    error: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        return self.first - self.second

    @property
    def side(self) -> int:
        """1 or -1 if the interval is above or below 0, else 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def contrast(
    first: Sequence[float],
    second: Sequence[float],
    place: Sequence[int],
    of_first: Sequence[Draws | None],
    of_second: Sequence[Draws | None],
) -> PairDifference:
    """Compare N tasks with their matches.

    The difference is ``sum_i s_i / N - sum_j K_j s_j / N``, K_j being how many the second j serves.
    Its error has two parts, independent of each other::

        survey^2 = sum over samples of var_b(sum_t a_t s_t^(b)) + sum_t (a_t asking_t)^2
        tasks^2  = sigma^2 (1 / N + sum_j K_j^2 / N^2)

    with a_t the weight of a task. sigma^2 is how much scores of comparable tasks vary: the variance
    of the N differences, less what sampling and asking add to it on average, over its expectation
    for sigma = 1, ``1 + (N - sum_j K_j^2 / N) / (N - 1)``; 0 if that is negative. The interval
    takes Student's t with N - 1 degrees of freedom.

    Parameters
    ----------
    first, second : sequence of float
        Scores; of `second` those that serve nobody count for nothing.
    place : sequence of int, length N
        Of the match of each first among the seconds.
    of_first, of_second : sequence of Draws or None
        At the joint replicates.
    """
    n = len(place)
    if not n:
        return PairDifference(math.nan, math.nan, 0, 0, *(math.nan,) * 4)
    used, match = np.unique(np.asarray(place), return_inverse=True)
    times = np.bincount(match)
    left = np.asarray(first, dtype=float)
    right = np.asarray(second, dtype=float)[used]
    drawn = [*of_first, *(of_second[number] for number in used)]
    weights = [*[1 / n] * n, *(-times / n)]
    survey = contrast_error(drawn, weights)
    value = float(left.mean()), float(right[match].mean())
    if n < 2:
        return PairDifference(*value, n, len(used), survey, *(math.nan,) * 3)
    expected = 1 + (n - (times**2).sum() / n) / (n - 1)
    observed = float((left - right[match]).var(ddof=1))
    sigma = max(0.0, observed - _explained(drawn, n, match)) / expected
    error = math.sqrt(survey**2 + sigma * (1 / n + (times**2).sum() / n**2))
    reach = error * float(special.stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    difference = value[0] - value[1]
    return PairDifference(
        *value, n, len(used), survey, error, difference - reach, difference + reach
    )


def _explained(drawn: Sequence[Draws | None], n: int, match: np.ndarray) -> float:
    """Return by how much sampling and asking make N differences vary on average.

    Parameters
    ----------
    drawn : sequence of Draws or None
        Of the N firsts, then of the seconds.
    n : int
    match : ndarray of int, shape (N,)
        Which of the seconds each first has.

    Returns
    -------
    float
        NaN if one is not known.
    """
    known = [draws for draws in drawn if draws is not None]
    if len(known) < len(drawn):
        return math.nan
    total = 0.0
    for sample, size in {draws.sample: len(draws.at) for draws in known if len(draws.at)}.items():
        moved = np.stack(
            [d.at - d.at.mean() if d.sample == sample else np.zeros(size) for d in known]
        )
        apart = moved[:n] - moved[n:][match]
        total += float(apart.var(axis=0, ddof=1).mean()) * size / (size - 1)
    asking = np.array([draws.asking**2 for draws in known])
    times = np.bincount(match)
    shared = float((times * asking[n:]).sum() - (times**2 * asking[n:]).sum() / n) / (n - 1)
    return total + float(asking[:n].mean()) + shared
