"""Errors from joint replicates: tasks of one survey share its sampling error.

A survey has one set of replicates, shared by all its tasks (`estimate.store`): replicate b of one
task and replicate b of another come from the same simulated sample. So the error of a mean over
tasks, or of a difference, is the spread of that mean or difference over b. Samples of different
surveys are independent, and so are errors of the asking (orderings, drawn answers): these add in
quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, plural


class Draws(NamedTuple):
    """The values that a number of one task would have if its survey had drawn other samples.

    Attributes
    ----------
    sample : str
        The survey sample: draws of the same sample are joint. Empty for an exact table.
    at : ndarray, shape (B,)
        The number at each replicate of the truth; empty for an exact table.
    asking : float
        Standard error from the asking alone: sampled orderings, or drawn answers.
    less_bias : ndarray, shape (B,), or None
        The number minus its bias from sampling error, at each replicate (`correct_bias`); None if
        `at` already has no such bias, or the correction is not needed.
    uncut : float or None
        The number before it is cut off at the ends of its scale, used in means; None if it is not
        cut.
    """

    sample: str
    at: Array
    asking: float = 0.0
    less_bias: Array | None = None
    uncut: float | None = None

    @property
    def unbiased(self) -> Draws:
        """The draws of the number minus its bias."""
        return self if self.less_bias is None else Draws(self.sample, self.less_bias, self.asking)


#: With which other replicates each one is drawn once more, by their distance in the list.
PARTNERS = (1, 3, 8, 21)


def draw_beyond(p: Array, replicates: Array) -> Array:
    """Return samples drawn from samples: P^(b) + P^(j) - P, for some j for each b.

    Parameters
    ----------
    p : ndarray, shape (C, K)
    replicates : ndarray, shape (B, C, K)

    Returns
    -------
    ndarray, shape (J, B, C, K)
        Values can leave [0, 1] a little.
    """
    moved = replicates - p
    return np.stack([replicates + np.roll(moved, step, axis=0) for step in PARTNERS])


def mean_beyond(at: Array, again: Array) -> Array:
    """Return the mean of a number over samples drawn from each replicate.

    ``mean_j (V_bj - V_j + mean V)``, V_bj being the number in a sample drawn from sample b. The
    last two terms cancel the noise of few j: of a number that is linear in P this is V_b.

    Parameters
    ----------
    at : ndarray, shape (B,)
        V_b.
    again : ndarray, shape (J, B)
        V_bj, as `draw_beyond` has the samples.

    Returns
    -------
    ndarray, shape (B,)
    """
    partners = np.stack([np.roll(at, step) for step in PARTNERS])
    return np.asarray((again - partners).mean(axis=0) + at.mean())


def correct_bias(at: Array, again: Array) -> Array:
    """Subtract the bootstrap estimate of bias at each replicate, as for the number itself.

    Twice the number less `mean_beyond`. Its spread is that of the corrected number ``2 V - mean
    V_b``, which varies more than V does where V has a kink inside the survey's noise, as a distance
    has.

    Returns
    -------
    ndarray, shape (B,)
    """
    return 2 * at - mean_beyond(at, again)


def cut_noise(d: Array | float, again: Array | float) -> Array:
    """Subtract the noise of a survey from a distance: a bootstrap correction of its square.

    ``sign(x) sqrt(|x|), x = 2 D^2 - D'^2``, D' being the mean distance from replicates. Independent
    errors add in squares: where D^2 is delta^2 + n^2, D'^2 is delta^2 + 2 n^2, and x is delta^2. Of
    an answer so far off that no sampling error changes the sign of p - q, D' = D, and nothing is
    taken off.

    Parameters
    ----------
    d, again : array_like
        D and D'. What answers are drawn from can be nearer than 0 by chance.

    Returns
    -------
    ndarray
        Below 0 where the answer is nearer than noise alone would leave the truth: a mean over tasks
        would be too far off if that counted as 0.
    """
    x = 2 * d * np.abs(d) - again * np.abs(again)
    return np.asarray(np.sign(x) * np.sqrt(np.abs(x)))


def _sums(draws: Sequence[Draws | None], weights: Sequence[float]) -> dict[str, Array] | None:
    """Add weighted draws of each sample; None if those of a task are not known."""
    sums: dict[str, Array] = {}
    for task, weight in zip(draws, weights, strict=True):
        if task is None:
            return None
        if len(task.at):
            sums[task.sample] = sums.get(task.sample, 0.0) + weight * task.at
    return sums


def _check_draws(draws: Iterable[Draws | None]) -> list[Draws | None]:
    """Refuse what are no draws: a score, or those of one task without a list around them, or None.

    None is what a number has whose draws are not known.
    """
    alone = isinstance(draws, Draws) or not isinstance(draws, Iterable)
    listed = [] if alone else list(draws)
    if alone or not all(task is None or isinstance(task, Draws) for task in listed):
        raise EpidemiaError("joint_error expects a list of draws, one per task: [score(...).draws]")
    return listed


def _check_weights(weights: Sequence[float] | None, number: int) -> list[float]:
    """Return the weights of so many tasks, by default those of the mean.

    Raises
    ------
    EpidemiaError
        If they are none of a mean or a sum: an error of 0 or NaN would come of them.
    """
    if weights is None:
        return [1 / max(number, 1)] * number
    try:
        listed = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        listed = [math.nan]
    is_fine = all(0 <= weight < math.inf for weight in listed) and any(listed) == bool(listed)
    if len(listed) != number or not is_fine:
        raise EpidemiaError(
            f"weights {weights!r}: expected a finite number of at least 0 for each of "
            f"{plural(number, 'task')}, not all 0 (of two models give their difference)"
        )
    return listed


def joint_error(draws: Iterable[Draws | None], weights: Sequence[float] | None = None) -> float:
    """Standard error of a weighted sum of numbers of several tasks.

    Parameters
    ----------
    draws : sequence of Draws or None
        None if a task has no draws, so that its error is unknown.
    weights : sequence of float, optional
        At least 0 and not all 0; by default those of the mean, 1 / T each.

    Returns
    -------
    float
        ``sqrt(sum_s var_b(sum_{t in s} w_t v_t^(b)) + sum_t (w_t asking_t)^2)``, s the samples; NaN
        without tasks, or if one has no draws.

    Raises
    ------
    EpidemiaError
        If `draws` is not a list of draws, or `weights` are invalid or not one per task.
    """
    draws = _check_draws(draws)
    weights = _check_weights(weights, len(draws))
    if not draws or (sums := _sums(draws, weights)) is None:
        return math.nan
    asking = sum((w * task.asking) ** 2 for task, w in zip(draws, weights, strict=True) if task)
    return math.sqrt(asking + sum(float(at.var(ddof=1)) for at in sums.values()))


def own_errors(draws: Sequence[Draws | None]) -> Array:
    """Standard error of each task's number by itself (see `joint_error`); NaN without draws.

    Returns
    -------
    ndarray, shape (T,)
    """
    errors = np.array([math.nan if task is None else task.asking**2 for task in draws])
    by_length: dict[int, dict[int, Array]] = {}
    for place, task in enumerate(draws):
        if task is not None and len(task.at):
            by_length.setdefault(len(task.at), {})[place] = task.at
    for at in by_length.values():
        errors[list(at)] += np.array(list(at.values())).var(axis=1, ddof=1)
    return np.sqrt(errors)


def joint_bias(values: Sequence[float], draws: Sequence[Draws | None]) -> float:
    """Bootstrap estimate of the bias that sampling error gives a mean over tasks.

    The mean over the replicates minus the value itself (Efron and Tibshirani 1993, section 10.2).

    Returns
    -------
    float
        NaN if a task has no draws.
    """
    bias, share = 0.0, 1 / max(len(draws), 1)
    for value, task in zip(values, draws, strict=True):
        if task is None:
            return math.nan
        if len(task.at):
            bias += share * float(task.at.mean() - value)
    return bias


def difference(one: Draws | None, other: Draws | None) -> Draws | None:
    """Return the draws of the difference between two models in one task.

    None if either is unknown, or they belong to different samples.
    """
    if one is None or other is None or one.sample != other.sample or one.at.shape != other.at.shape:
        return None
    asking, less_bias = math.hypot(one.asking, other.asking), None
    if not (one.less_bias is None and other.less_bias is None):
        less_bias = one.unbiased.at - other.unbiased.at
    return Draws(one.sample, one.at - other.at, asking, less_bias)
