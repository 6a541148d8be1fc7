"""The posterior of a prior after N real answers.

The answers enter by their mean alone. Of a quantity that is no proportion it is normal around the
true one, with the answers' own variance over their number; the answers to yes-or-no questions are
binomial. Where prior and answers are conjugate (a normal prior of a mean, a beta prior of a
proportion) the posterior is closed, otherwise it is integrated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.families import BETA, LOGNORMAL, NORMAL
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Samples
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
        np.where(is_beta, BETA, NORMAL),
        np.where(is_beta, 1 + yes, drawn.mean / shrunk),
        np.where(is_beta, 1 + no, np.sqrt(squared / shrunk)),
    )


def posterior_mean(
    family: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    proportion: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    size: ArrayLike,
) -> Array:
    """Return the mean of the posterior that a prior and a sample make; all arguments broadcast.

    Parameters
    ----------
    family : array_like of int
    a, b : array_like
        The prior.
    proportion : array_like of bool
        Whether the answers are yes or no.
    mean, variance, size : array_like
        Of the answers. Where a variance is 0 and the quantity no proportion, the posterior is their
        mean, as far as the prior allows it.

    Returns
    -------
    ndarray
    """
    given = np.broadcast_arrays(np.asarray(family), a, b, proportion, mean, variance, size)
    shape = given[0].shape
    arguments = [argument.ravel() for argument in given]
    family, a, b, proportion, mean, variance, size = arguments
    means = np.full(family.shape, np.nan)
    known = np.isfinite(a) & np.isfinite(b)
    certain = known & ~proportion & (variance == 0)
    means[certain] = np.where(
        family == BETA,
        np.clip(mean, 0, 1),
        np.where(family == LOGNORMAL, np.maximum(mean, 0), mean),
    )[certain]
    counted = known & proportion & (family == BETA)
    means[counted] = ((a + size * mean) / (a + b + size))[counted]
    weighed = known & ~proportion & (family == NORMAL) & ~certain
    told = (size * b**2)[weighed]
    means[weighed] = (variance[weighed] * a[weighed] + told * mean[weighed]) / (
        variance[weighed] + told
    )
    rest = np.flatnonzero(known & ~certain & ~counted & ~weighed)
    for first in range(0, len(rest), _AT_ONCE):
        those = rest[first : first + _AT_ONCE]
        means[those] = _integrated(*(argument[those] for argument in arguments))
    return means.reshape(shape)


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


def _integrated(
    family: NDArray[np.int64],
    a: Array,
    b: Array,
    proportion: NDArray[np.bool_],
    mean: Array,
    variance: Array,
    size: Array,
) -> Array:
    """Integrate prior times likelihood, shape (n,), over the logarithm or the log-odds.

    On these axes the integrand is smooth and falls off on both sides, so that equal steps are
    accurate to rounding once they are small against its width. They become so as the range is
    closed in upon what lies less than `_DEPTH` below the peak.
    """
    share = (proportion | (family == BETA))[:, None]
    sample = tuple(column[:, None] for column in (proportion, mean, variance, size))
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
            + log_likelihood(x, *sample)
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
