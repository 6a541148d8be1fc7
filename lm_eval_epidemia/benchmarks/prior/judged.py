"""Priors compared with samples of N real answers: the numbers for each quantity.

The posterior of a prior after N real answers, which enter by their mean alone: of a quantity that
is no proportion it is normal around the true one, with the answers' own variance over their number;
the answers to yes-or-no questions are binomial. Where prior and answers are conjugate (a normal
prior of a mean, a beta prior of a proportion) the posterior is closed, otherwise it is integrated.

Shapes: Q quantities, R repeats of each, S sizes of sample (`SIZES`), D draws of each size, G points
of a grid.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lm_eval_epidemia.benchmarks.prior import ways
from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Quantities, Samples
from lm_eval_epidemia.core.distance import Array

#: Standard deviation of the baselines' prior of a mean, around 0. The paper's text calls 100,000
#: its variance; the published code, and the published posteriors, have it as the sd.
FLAT_SD = 1e5

#: Points of a quadrature; how far below its peak, in natural logarithms, a density is left out; and
#: on how many points what is kept must at least lie.
_POINTS, _DEPTH, _ENOUGH = 321, 32.0, 80

#: The least logarithm or log-odds of a number that is not 0, and the largest log-odds of one that
#: is not 1.
_LEAST, _MOST = -700.0, 36.0

#: How many posteriors are integrated at once.
_AT_ONCE = 2000


def of_baseline(
    proportion: NDArray[np.bool_], drawn: Samples, flat_sd: float = FLAT_SD
) -> tuple[NDArray[np.int64], Array, Array]:
    """Return the posteriors of the baselines, whose priors are Normal(0, flat_sd) and Beta(1, 1).

    Parameters
    ----------
    proportion : ndarray of bool, shape (Q,)
    drawn : Samples
    flat_sd : float
        May be infinite: the posterior's mean is then that of the answers, in whatever unit.

    Returns
    -------
    family : ndarray of int, shape (Q, 1, 1)
    a, b : ndarray, shape (Q, sizes, draws)
        A normal has sd 0 where a draw's answers are all the same.
    """
    is_beta = proportion[:, None, None]
    yes, no = drawn.size * drawn.mean, drawn.size * (1 - drawn.mean)
    squared = drawn.variance / drawn.size
    shrunk = 1 + squared / flat_sd**2
    return (
        np.where(is_beta, families.BETA, families.NORMAL),
        np.where(is_beta, 1 + yes, drawn.mean / shrunk),
        np.where(is_beta, 1 + no, np.sqrt(squared / shrunk)),
    )


def posterior_mean(family: ArrayLike, a: ArrayLike, b: ArrayLike, *sample: ArrayLike) -> Array:
    """Return the mean of the posterior that a prior and a sample make; all arguments broadcast.

    Parameters
    ----------
    family : array_like of int
    a, b : array_like
        The prior.
    *sample : array_like
        Whether the answers are yes or no; their mean, variance and number. Where a variance is 0
        and the quantity no proportion, the posterior is their mean, as far as the prior allows it.

    Returns
    -------
    ndarray
    """
    given = np.broadcast_arrays(np.asarray(family), a, b, *sample)
    arguments = [argument.ravel() for argument in given]
    family, a, b, proportion, mean, variance, size = arguments
    means = np.full(family.shape, np.nan)
    known = np.isfinite(a) & np.isfinite(b)
    certain = known & ~proportion & (variance == 0)
    means[certain] = np.where(
        family == families.BETA,
        np.clip(mean, 0, 1),
        np.where(family == families.LOGNORMAL, np.maximum(mean, 0), mean),
    )[certain]
    counted = known & proportion & (family == families.BETA)
    means[counted] = ((a + size * mean) / (a + b + size))[counted]
    weighed = known & ~proportion & (family == families.NORMAL) & ~certain
    told = (size * b**2)[weighed]
    means[weighed] = (variance[weighed] * a[weighed] + told * mean[weighed]) / (
        variance[weighed] + told
    )
    rest = np.flatnonzero(known & ~certain & ~counted & ~weighed)
    for first in range(0, len(rest), _AT_ONCE):
        those = rest[first : first + _AT_ONCE]
        means[those] = _integrated(*(argument[those] for argument in arguments))
    return means.reshape(given[0].shape)


def log_likelihood(
    x: Array, proportion: ArrayLike, mean: ArrayLike, variance: ArrayLike, size: ArrayLike
) -> Array:
    """Return the logarithm of how likely a sample is where x is true, up to a constant."""
    mean, variance, size = (np.asarray(number, dtype=float) for number in (mean, variance, size))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.where(
            proportion,
            special.xlogy(size * mean, x) + special.xlog1py(size * (1 - mean), -x),
            -size * (x - mean) ** 2 / (2 * variance),
        )


def _integrated(family: NDArray[np.int64], a: Array, b: Array, *sample: Any) -> Array:
    """Integrate prior times likelihood, shape (n,), over the logarithm or the log-odds.

    On these axes the integrand is smooth and falls off on both sides, so that equal steps are
    accurate to rounding once they are small against its width. They become so as the range is
    closed in upon what lies less than `_DEPTH` below the peak.
    """
    proportion, mean, *_ = sample
    share = (proportion | (family == families.BETA))[:, None]
    columns = [column[:, None] for column in sample]
    # Beyond both its median and the answers' mean, a lognormal falls off as a normal one.
    far = np.sqrt(2 * _DEPTH) * b[:, None]
    bounded = ~share & (mean > 0)[:, None]
    ends = a[:, None], np.log(np.where(bounded, mean[:, None], 1))
    low = np.where(bounded, np.minimum(*ends) - far, _LEAST)
    high = np.where(bounded, np.maximum(*ends) + far, np.where(share, _MOST, -_LEAST))
    steps = np.linspace(0, 1, _POINTS)
    while True:
        t = low + (high - low) * steps
        x = np.where(share, special.expit(t), np.exp(np.where(share, 0, t)))
        jacobian = np.where(share, special.log_expit(t) + special.log_expit(-t), t)
        height = (
            families.log_density(family[:, None], a[:, None], b[:, None], x)
            + log_likelihood(x, *columns)
            + jacobian
        )
        height = np.where(np.isnan(height), -np.inf, height)
        height -= height.max(axis=1, keepdims=True)
        inside = height > -_DEPTH
        first = np.maximum(inside.argmax(axis=1) - 1, 0)
        last = np.minimum(_POINTS - inside[:, ::-1].argmax(axis=1), _POINTS - 1)
        if (last - first).min() >= _ENOUGH:
            break
        each = np.arange(len(a))
        low, high = t[each, first][:, None], t[each, last][:, None]
    weight = np.exp(height)
    return np.asarray((weight * x).sum(axis=1) / weight.sum(axis=1))


#: An error wins if it is smaller by more than this share: the baseline's own prior, stated by
#: somebody, is equal to it but for rounding.
TIE = 1e-9


class FamilyPriors(NamedTuple):
    """The priors that somebody stated.

    Attributes
    ----------
    family : ndarray of int, shape (Q, R)
        Places in `benchmarks.prior.quantities.families.FAMILIES`.
    a, b : ndarray, shape (Q, R)
        Parameters; NaN if nothing could be read.
    """

    family: NDArray[np.int64]
    a: Array
    b: Array


def make_priors(values: Array) -> FamilyPriors:
    """Return priors given as family and parameters, shape (Q, R, 3), NaN if there are none."""
    family, a, b = np.moveaxis(values, 2, 0)
    # What was not read is of no family; which one it is listed under does not matter.
    return FamilyPriors(np.where(np.isnan(family), 0, family).astype(int), a, b)


class Judged(NamedTuple):
    """The judgement of priors. A quantity without answers has NaN.

    Errors and CRPS are in the unit of the quantity: take means of ratios only.

    Attributes
    ----------
    answered : ndarray, shape (Q,)
        Share of the repeats that could be read.
    centre, spread : ndarray, shape (Q, R)
        Mean and standard deviation of each prior.
    position : ndarray, shape (Q, R)
        Probability that the prior gives to values up to the truth, in [0, 1]: uniform where priors
        are calibrated.
    error : ndarray, shape (Q,)
        Mean over repeats of |mean of the prior - truth|.
    baseline_error : ndarray, shape (Q, S)
        Mean over draws of |mean of the baseline's posterior - truth|.
    ratio : ndarray, shape (Q,)
        `error` over that of the baseline with the smallest samples.
    crps : ndarray, shape (Q,)
        Mean over repeats.
    crps_ratio : ndarray, shape (Q,)
        `crps` over the mean one of the baseline's posteriors with the smallest samples.
    wins : ndarray, shape (Q, S)
        Whether the repeats that were read have a smaller mean error than the baseline, times their
        share: in [0, 1].
    posterior_error : ndarray, shape (Q, S)
        Mean over repeats that were read, and draws, of |mean of the posterior that prior and draw
        make - truth|.
    posterior_wins : ndarray, shape (Q, S)
        As `wins`, of the posterior.
    uncertainty : ndarray, shape (Q,)
        Mean `spread` over the error of the baseline with the smallest samples: without a unit.
    """

    answered: Array
    centre: Array
    spread: Array
    position: Array
    error: Array
    baseline_error: Array
    ratio: Array
    crps: Array
    crps_ratio: Array
    wins: Array
    posterior_error: Array
    posterior_wins: Array
    uncertainty: Array


class _PriorNumbers(NamedTuple):
    """Priors of any form, shapes (Q, R) and, of `after`, (Q, R, S, D); NaN if there is none."""

    centre: Array
    spread: Array
    position: Array
    crps: Array
    after: Array


def judge(truth: Quantities, stated: FamilyPriors, published: bool = False) -> Judged:
    """Compare stated priors with the truth, and with the baseline that scores are relative to.

    Parameters
    ----------
    truth : Quantities
    stated : FamilyPriors
    published : bool
        Whether unreadable repeats are dropped, as in the published numbers. Otherwise each counts
        as the `make_flat_prior` prior, and never as a win.
    """
    read = families.is_valid(*stated)
    a = np.where(read, stated.a, np.nan)
    priors = _of_families(truth, stated._replace(a=a))
    counted = priors if published else _filled(truth, priors, read)
    return _judged(truth, counted, read, published)


def judge_grid(truth: Quantities, logprobs: Array) -> Judged:
    """Compare distributions over the points of a grid with the truth and the baseline.

    Parameters
    ----------
    truth : Quantities
    logprobs : ndarray, shape (Q, G)
        Log-probability of each point, not normalised. A quantity with one that is not finite counts
        as not read: as the `make_flat_prior` prior, and never as a win.

    Returns
    -------
    Judged
        With one repeat.
    """
    at = np.array([ways.points(quantity) for quantity in truth.quantities], dtype=float)
    read = np.asarray(np.isfinite(logprobs).all(axis=1, keepdims=True))
    priors = _of_points(truth, at, special.log_softmax(np.where(read, logprobs, 0), axis=1))
    return _judged(truth, _filled(truth, priors, read), read, False)


def proportions(truth: Quantities) -> NDArray[np.bool_]:
    """Return which quantities are proportions, shape (Q,)."""
    return np.asarray(truth.column("family") == "beta")


def make_flat_prior(truth: Quantities) -> FamilyPriors:
    """Return the prior of knowing only the marginals, one repeat, shape (Q, 1).

    Normal with the mean and the standard deviation between people of the base variable without
    conditions, and Beta(1, 1) of a proportion: what a repeat counts as that could not be read.
    """
    is_share = proportions(truth)[:, None]
    return FamilyPriors(
        np.where(is_share, families.BETA, families.NORMAL),
        np.where(is_share, 1.0, truth.column("marginal_mean")[:, None]),
        np.where(is_share, 1.0, truth.column("marginal_sd")[:, None]),
    )


def select_quantities(truth: Quantities, kept: NDArray[np.bool_]) -> Quantities:
    """Return some quantities of a set, as those that were asked completely.

    Parameters
    ----------
    truth : Quantities
    kept : ndarray of bool, shape (Q,)
    """
    return truth._replace(
        quantities=tuple(truth.quantities[place] for place in np.flatnonzero(kept)),
        baselines={
            name: Samples(*(each[kept] for each in drawn))
            for name, drawn in truth.baselines.items()
        },
    )


def baseline_errors(truth: Quantities) -> Array:
    """Return the mean errors of the baseline's posterior means, shape (Q, S)."""
    told = families.mean(*_update_baseline(truth))
    return np.asarray(np.abs(told - truth.column("mean")[:, None, None]).mean(axis=-1))


def mean_of(values: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """Return the mean of what is not NaN; NaN if nothing is."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, values, 0).sum(axis=axis) / there.sum(axis=axis))


def _update_baseline(truth: Quantities) -> tuple[NDArray[np.int64], Array, Array]:
    """Return the baseline's posteriors.

    The published prior of a mean, Normal(0, 1e5), is flat for centimetres, not for incomes: other
    draws than the published ones have a prior that is flat in every unit.
    """
    flat_sd = FLAT_SD if truth.scored == "published" else np.inf
    return of_baseline(proportions(truth), truth.baseline, flat_sd)


def _sampled(truth: Quantities) -> tuple[Any, ...]:
    """Return what an update takes of samples, each of shape (Q, 1, S, D)."""
    is_share = proportions(truth)[:, None, None]
    return tuple(each[:, None] for each in (is_share, *truth.baseline))


def _of_families(truth: Quantities, stated: FamilyPriors) -> _PriorNumbers:
    y = truth.column("mean")[:, None]
    return _PriorNumbers(
        families.mean(*stated),
        families.sd(*stated),
        families.cdf(*stated, y),
        families.crps(*stated, y),
        posterior_mean(*(each[:, :, None, None] for each in stated), *_sampled(truth)),
    )


def _of_points(truth: Quantities, points: Array, logs: Array) -> _PriorNumbers:
    """Describe distributions on points, shape (Q, G), by their log-probabilities."""
    p, y = np.exp(logs), truth.column("mean")[:, None]
    centre = (p * points).sum(axis=1, keepdims=True)
    # A point that is the truth lies on both sides of it.
    position = (p * ((points < y) + 0.5 * (points == y))).sum(axis=1, keepdims=True)
    at = points[:, None, None]
    is_share, mean, variance, size = (each[:, 0, ..., None] for each in _sampled(truth))
    # Answers that are all the same leave the points nearest to them.
    known = np.where(variance > 0, variance, np.finfo(float).tiny)
    told = logs[:, None, None] + log_likelihood(at, is_share, mean, known, size)
    after = (special.softmax(told, axis=-1) * at).sum(axis=-1)
    return _PriorNumbers(
        centre,
        np.sqrt((p * (points - centre) ** 2).sum(axis=1, keepdims=True)),
        position,
        families.crps_of_points(points, p, y[:, 0])[:, None],
        after[:, None],
    )


def _filled(truth: Quantities, priors: _PriorNumbers, read: NDArray[np.bool_]) -> _PriorNumbers:
    """Put the flat prior where nothing could be read."""
    instead = _of_families(truth, make_flat_prior(truth))
    return _PriorNumbers(
        *(
            np.where(read.reshape(read.shape + (1,) * (mine.ndim - 2)), mine, theirs)
            for mine, theirs in zip(priors, instead, strict=True)
        )
    )


def _judged(
    truth: Quantities, priors: _PriorNumbers, read: NDArray[np.bool_], published: bool
) -> Judged:
    y, (family, a, b) = truth.column("mean"), _update_baseline(truth)
    off, baseline_error = np.abs(priors.centre - y[:, None]), baseline_errors(truth)
    error, score = mean_of(off), mean_of(priors.crps)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = error / baseline_error[:, 0]
        crps_ratio = score / families.crps(family, a, b, y[:, None, None]).mean(axis=-1)[:, 0]
        uncertainty = mean_of(priors.spread) / baseline_error[:, 0]

    answered = np.asarray(read.mean(axis=1))
    # What could not be read is no win; dropped, it is nothing.
    weight = np.where(answered > 0, 1.0, np.nan) if published else answered
    read_only = np.where(read, 1.0, np.nan)
    posterior_error = mean_of(
        np.abs(priors.after - y[:, None, None, None]) * read_only[:, :, None, None], axis=(1, 3)
    )
    won, won_after = (
        np.where(each < baseline_error * (1 - TIE), 1.0, 0.0) * weight[:, None]
        for each in (mean_of(off * read_only)[:, None], posterior_error)
    )
    stated = (priors.centre, priors.spread, priors.position)
    errors = (error, baseline_error, ratio, score, crps_ratio)
    return Judged(answered, *stated, *errors, won, posterior_error, won_after, uncertainty)
