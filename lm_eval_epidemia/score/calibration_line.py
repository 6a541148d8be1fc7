"""The calibration line: log-odds of the answers on log-odds of the truth, over cells and levels.

``logit q = tilt + slope logit p``. A slope below 1 understates differences, a slope above 1
overstates them; a tilt shifts all answers to one side. People's estimates of shares follow such a
line, with a slope below 1 (Gonzalez and Wu, Cognitive Psychology 38, 1999; Landy, Guay and
Marghetis, Psychonomic Bulletin and Review 25, 2018).

The truth has sampling error, and regression on a variable with error comes out too flat (Fuller,
Measurement Error Models, 1987, section 1.1). So we subtract from the variance of logit p the part
that its error e adds, ``E S(x, e)``, which the replicates estimate: ``N = mean_b S(x_b, x_b - x)``.
If errors do not depend on the truth, this is their variance. If an estimator flattens differences,
as boosting does, it is smaller and can be negative, but does not correct the whole flattening
(docs/evidence/scales.md). The truth is itself one sample, in which rare
answers look rarer than they are, and rare answers are noisier. The resulting excess of N is
estimated from samples drawn from samples, and subtracted: ``2 N - mean_bj S(x_bj, x_bj - x_b)``.

Shapes: C cells, K levels, L of which are used, B replicates, J samples drawn from each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.score.joint import PARTNERS

#: No line where less than this share of the variance of logit p is more than noise.
LEAST = 0.2

#: A smaller variance of log-odds is rounding.
FLAT = 1e-12


def log_odds(p: Array, n: Array) -> Array:
    """Log-odds of each level against the rest, counted from those of 1/K.

    ``log((n p + 1/2) / (n (1 - p) + 1/2)) + log(K - 1)``: what is 0 or 1 becomes as far from it as
    the survey can tell (Haldane 1956).

    Parameters
    ----------
    p : ndarray, shape (..., C, K)
    n : ndarray, shape (C,)
        See `scales.fill_sizes`.

    Returns
    -------
    ndarray, shape (..., C, L)
        Of two levels the first only, since the other says the same with the other sign.
    """
    levels = p.shape[-1]
    p, n = np.clip(p[..., : 1 if levels == 2 else levels], 0, 1), n[:, None]
    return np.asarray(np.log((n * p + 0.5) / (n * (1 - p) + 0.5)) + math.log(levels - 1))


def _spread(p: Array, n: Array) -> Array:
    """Return the standard deviation of log-odds under simple random sampling; shape (..., C, L)."""
    p, n = np.clip(p[..., : 1 if p.shape[-1] == 2 else None], 0, 1), n[:, None]
    return np.sqrt(1 / (n * p + 0.5) + 1 / (n * (1 - p) + 0.5))


def _beyond(p: Array, replicates: Array, n: Array) -> Array:
    """Return log-odds in samples drawn from samples, shape (J, B, C, L).

    As in `joint.draw_beyond`, what replicate j moves the truth by moves replicate b, here by as
    many standard deviations: added as it is, it would move rare answers below 0.
    """
    x, at = log_odds(p, n), log_odds(replicates, n)
    moved, times = at - x, _spread(replicates, n) / _spread(p, n)
    return np.stack([at + times * np.roll(moved, step, axis=0) for step in PARTNERS])


class Moments(NamedTuple):
    """Weighted means of the log-odds x of a truth and y of the answers, and of their products.

    Attributes
    ----------
    sample : str
        Whose replicates; empty for an exact table.
    means : ndarray, shape (4,)
        Of x, x^2, y and x y.
    noise : float
        What sampling error adds to that of x^2.
    at : ndarray, shape (3, B)
        Means of x, x^2 and x y at each replicate of the truth.
    beyond : ndarray, shape (J, B)
        Of x in the samples drawn from these.
    """

    sample: str
    means: Array
    noise: float
    at: Array
    beyond: Array


def mean_over(weights: Array, values: Array) -> Array:
    """Average over cells, by their weights, and over levels.

    Parameters
    ----------
    weights : ndarray, shape (C,)
    values : ndarray, shape (..., C, L)

    Returns
    -------
    ndarray, shape (...)
    """
    return np.asarray(values.mean(axis=-1) @ weights)


def moments(
    weights: Array, p: Array, q: Array, n: Array, replicates: Array, sample: str
) -> Moments:
    """Return the contribution of one task to a calibration line.

    Parameters
    ----------
    weights : ndarray, shape (C,)
    p, q : ndarray, shape (C, K)
    n : ndarray, shape (C,)
        See `scales.fill_sizes`.
    replicates : ndarray, shape (B, C, K)
        Of the truth; B is 0 of an exact table.
    sample : str
        Whose replicates these are.
    """
    x, y, at = log_odds(p, n), log_odds(q, n), log_odds(replicates, n)
    beyond = _beyond(p, replicates, n)
    noise = 0.0
    if len(at):
        products = at * (at - x), beyond * (beyond - at)
        first, second = (mean_over(weights, each) for each in products)
        noise = float(2 * first.mean() - second.mean())
    means = [float(mean_over(weights, values)) for values in (x, x * x, y, x * y)]
    of_replicates = np.array([mean_over(weights, values) for values in (at, at * at, at * y)])
    return Moments(sample, np.array(means), noise, of_replicates, mean_over(weights, beyond))


class CalibrationLine(NamedTuple):
    """A calibration line.

    Attributes
    ----------
    tilt, slope : float
        NaN if the truth varies no more than its noise.
    draws : dict of str to ndarray, shape (2, B)
        By sample, tilt and slope if only this survey had drawn other samples.
    centre, spread : float
        Mean of x, and its variance less the noise: in tilt and slope, answers y of one of T tasks
        count ``mean((x - centre) y) / spread / T``.
    """

    tilt: float
    slope: float
    draws: dict[str, Array]
    centre: float
    spread: float


def fit_line(tasks: Sequence[Moments]) -> CalibrationLine:
    """Return the line through the cells and levels of some tasks, each with equal weight.

    Parameters
    ----------
    tasks : sequence of Moments
        At least one.

    Returns
    -------
    Line
        At a replicate the truth has its noise twice, so it is subtracted twice.
    """
    x, xx, y, xy = np.mean([task.means for task in tasks], axis=0)
    by_sample: dict[str, list[Moments]] = {}
    for task in tasks:
        if task.sample:
            by_sample.setdefault(task.sample, []).append(task)
    # What the means move by at the replicates of each sample, and what its noise is.
    moved: dict[str, Array] = {}
    noise: dict[str, float] = {}
    for sample, those in by_sample.items():
        here = [task.at - task.means[[0, 1, 3], None] for task in those]
        moved[sample] = np.sum(here, axis=0) / len(tasks)
        again = np.sum([task.beyond - task.at[0] for task in those], axis=0) / len(tasks)
        # What the mean of all moves by is no noise around it.
        of_x = moved[sample][0]
        first, second = of_x * (x + of_x), again * (x + of_x + again)
        of_tasks = math.fsum(task.noise for task in those) / len(tasks)
        noise[sample] = of_tasks - float(2 * first.mean() - second.mean())
    all_noise = math.fsum(noise.values())
    variance = xx - x * x
    if not variance - all_noise > max(LEAST * variance, FLAT):
        return CalibrationLine(math.nan, math.nan, {}, float(x), math.nan)

    def fitted(x: Any, xx: Any, xy: Any, noise: float) -> Any:
        slope = (xy - x * y) / (xx - x * x - noise)
        return np.array([y - slope * x, slope])

    tilt, slope = fitted(x, xx, xy, all_noise)
    draws = {
        sample: fitted(x + of_x, xx + of_xx, xy + of_xy, all_noise + noise[sample])
        for sample, (of_x, of_xx, of_xy) in moved.items()
    }
    return CalibrationLine(float(tilt), float(slope), draws, float(x), float(variance - all_noise))


class Slope(NamedTuple):
    """How much answers differ where the truth differs by 1; with its standard error."""

    value: float
    error: float


def fit_differences(tasks: Sequence[tuple[Array, Array, Array, Array]]) -> Slope:
    """Return how much answers differ between cells where the truth does, question by question.

    Least squares within each answer of each task, without what sampling adds to the variance of p:
    ``sum w (p - mean p) (q - mean q) / (sum w (p - mean p)^2 - sum w p (1 - p) / n)``. Other than
    in `fit_line`, it does not help to know that some answers are rare. The error is the
    jackknife's, over tasks.

    Parameters
    ----------
    tasks : sequence of (weights, p, q, n)
        Shapes (C,), (C, K), (C, K) and (C,); n is infinite without sampling error.

    Returns
    -------
    Slope
        NaN if the truth varies no more than its noise.
    """
    sums = np.zeros((len(tasks), 2))
    for row, (weights, p, q, n) in zip(sums, tasks, strict=True):
        apart = p - weights @ p
        noise = weights @ (p * (1 - p) / n[:, None])
        row[:] = (weights @ (apart * q)).sum(), (weights @ apart**2 - noise).sum()
    both, spread = sums.sum(axis=0) if len(tasks) else (math.nan, math.nan)
    if not spread > FLAT:
        return Slope(math.nan, math.nan)
    rest = (both - sums[:, 0]) / (spread - sums[:, 1]) if len(tasks) > 1 else np.array([math.nan])
    error = math.sqrt((len(rest) - 1) / len(rest) * ((rest - rest.mean()) ** 2).sum())
    return Slope(float(both / spread), error if len(tasks) > 1 else math.nan)
