"""The families of distributions that a prior can be of: normal, beta, lognormal.

A stated prior is a number of its family and two parameters, which arrays hold: the mean and the
standard deviation of a normal; alpha and beta; the mean and the standard deviation of the logarithm
of a lognormal. All functions broadcast, and give NaN if the parameters describe no distribution.

The continuous ranked probability score (CRPS) is how far a distribution is from what is true:
``CRPS(F, y) = integral (F(x) - 1[x >= y])^2 dx``, in the unit of the quantity; 0 is perfect, and
the score of a point is its distance. Closed forms as in Jordan, Krueger and Lerch (2019), Journal
of Statistical Software 90 (12), appendix A.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lm_eval_epidemia.core.distance import Array

FAMILIES = ("normal", "beta", "lognormal")
NORMAL, BETA, LOGNORMAL = range(3)

#: From this alpha + beta on, a beta is taken as the normal that it nearly is, since the incomplete
#: beta function is not known well enough any more.
SURE = 1e9

#: How large a parameter may be, and how small one that is above 0: nothing that was measured is
#: beyond, and squares and quotients of such numbers are numbers still.
_LARGEST, _LEAST_POSITIVE = 1e15, 1e-15

#: How large the logarithm of a lognormal's mean and standard deviation may be, for the same reason.
_LARGEST_LOG = 230.0

#: Of the quantiles by which a prior can be stated.
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def by_family(
    family: ArrayLike, functions: Sequence[Callable[..., Any]], *arguments: ArrayLike
) -> Array:
    """Apply to each element the function of its family.

    Parameters
    ----------
    family : array_like of int
        Places in `FAMILIES`.
    functions : sequence of callable
        One for each family.
    *arguments : array_like
        What the functions take.

    Returns
    -------
    ndarray
        Of the shape to which all broadcast; NaN if the family is none.
    """
    kinds, *given = np.broadcast_arrays(np.asarray(family), *arguments)
    values = np.full(kinds.shape, np.nan)
    with np.errstate(all="ignore"):
        for number, function in enumerate(functions):
            if (here := kinds == number).any():
                values[here] = function(*(argument[here].astype(float) for argument in given))
    return values


def is_valid(family: ArrayLike, a: ArrayLike, b: ArrayLike) -> NDArray[np.bool_]:
    """Return which parameters describe a distribution with which numbers can be computed.

    They are at most 1e15 in size, with b, and alpha, at least 1e-15; of a lognormal, |mu| + sigma^2
    is below 230.
    """
    family, a, b = np.broadcast_arrays(np.asarray(family), a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        fine = (np.abs(a) <= _LARGEST) & (b >= _LEAST_POSITIVE) & (b <= _LARGEST)
        fine = fine & ((family != BETA) | (a >= _LEAST_POSITIVE))
        fine = fine & ((family != LOGNORMAL) | (np.abs(a) + b**2 < _LARGEST_LOG))
    return np.asarray(fine & np.isin(family, range(len(FAMILIES))))


def mean(family: ArrayLike, a: ArrayLike, b: ArrayLike) -> Array:
    """Return the mean."""
    means = (
        lambda m, s: m,
        lambda alpha, beta: alpha / (alpha + beta),
        lambda mu, sigma: np.exp(mu + sigma**2 / 2),
    )
    return by_family(family, means, a, b)


def sd(family: ArrayLike, a: ArrayLike, b: ArrayLike) -> Array:
    """Return the standard deviation."""
    sds = (
        lambda m, s: s,
        _beta_sd,
        lambda mu, sigma: np.exp(mu + sigma**2 / 2) * np.sqrt(np.expm1(sigma**2)),
    )
    return by_family(family, sds, a, b)


def _beta_sd(alpha: Array, beta: Array) -> Array:
    total = alpha + beta
    return np.asarray(np.sqrt(alpha / total * (beta / total) / (total + 1)))


def cdf(family: ArrayLike, a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the probability of at most x."""
    cdfs = (
        _normal_cdf,
        lambda alpha, beta, x: np.where(
            alpha + beta < SURE,
            special.betainc(alpha, beta, np.clip(x, 0, 1)),
            _normal_cdf(alpha / (alpha + beta), _beta_sd(alpha, beta), x),
        ),
        lambda mu, sigma, x: _normal_cdf(mu, sigma, np.log(np.maximum(x, 0))),
    )
    return by_family(family, cdfs, a, b, x)


def _normal_cdf(mean: Array, sd: Array, x: Array) -> Array:
    return np.asarray(special.ndtr((x - mean) / sd))


def ppf(family: ArrayLike, a: ArrayLike, b: ArrayLike, p: ArrayLike) -> Array:
    """Return the quantile of level p."""
    ppfs = (
        _normal_ppf,
        lambda alpha, beta, p: np.where(
            alpha + beta < SURE,
            special.betaincinv(alpha, beta, p),
            _normal_ppf(alpha / (alpha + beta), _beta_sd(alpha, beta), p),
        ),
        lambda mu, sigma, p: np.exp(_normal_ppf(mu, sigma, p)),
    )
    return by_family(family, ppfs, a, b, p)


def _normal_ppf(mean: Array, sd: Array, p: Array) -> Array:
    return np.asarray(mean + sd * special.ndtri(p))


def log_density(family: ArrayLike, a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the logarithm of the density at x, up to a constant; -inf outside the support."""
    densities = (
        lambda m, s, x: -(((x - m) / s) ** 2) / 2,
        lambda alpha, beta, x: np.where(
            (x >= 0) & (x <= 1),
            special.xlogy(alpha - 1, x) + special.xlog1py(beta - 1, -x),
            -np.inf,
        ),
        lambda mu, sigma, x: np.where(
            x > 0, -(((np.log(x) - mu) / sigma) ** 2) / 2 - np.log(x), -np.inf
        ),
    )
    return by_family(family, densities, a, b, x)


def of_moments(family: ArrayLike, mean: ArrayLike, sd: ArrayLike) -> tuple[Array, Array]:
    """Return the parameters of the distribution that has a mean and a standard deviation.

    Parameters
    ----------
    family : array_like of int
    mean, sd : array_like
        A beta needs sd^2 < mean (1 - mean); a lognormal a mean above 0; all an sd above 0.

    Returns
    -------
    a, b : ndarray
        NaN if there is none.
    """
    first = (
        lambda m, s: m,
        lambda m, s: m * (m * (1 - m) / s**2 - 1),
        lambda m, s: np.log(m) - np.log1p((s / m) ** 2) / 2,
    )
    second = (
        lambda m, s: s,
        lambda m, s: (1 - m) * (m * (1 - m) / s**2 - 1),
        lambda m, s: np.sqrt(np.log1p((s / m) ** 2)),
    )
    a, b = (by_family(family, each, mean, sd) for each in (first, second))
    # The square of an sd does not tell its sign.
    fine = is_valid(family, a, b) & (np.asarray(sd) > 0)
    return np.where(fine, a, np.nan), np.where(fine, b, np.nan)


def of_quantiles(family: ArrayLike, values: ArrayLike) -> tuple[Array, Array]:
    """Return the parameters of the distribution whose quantiles are nearest to those stated.

    Nearest by the sum of squares of their differences. Of a lognormal it is the logarithms that are
    compared, since what it says of a number is by what factor it may be off: the fit is the normal
    one of the logarithms, and closed as that is.

    Parameters
    ----------
    family : array_like of int, shape (...)
    values : array_like, shape (..., 5)
        Of `LEVELS`.

    Returns
    -------
    a, b : ndarray, shape (...)
        NaN if the values fall, do not differ by 1e-15, are above 1e15, are outside of [0, 1] for
        a beta, or not above 0 for a lognormal.
    """
    values = np.asarray(values, dtype=float)
    family = np.broadcast_to(np.asarray(family), values.shape[:-1])
    a, b = np.full(family.shape, np.nan), np.full(family.shape, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        rising = (np.diff(values, axis=-1) >= 0).all(axis=-1)
        rising &= values[..., -1] - values[..., 0] >= _LEAST_POSITIVE
        rising &= (np.abs(values) <= _LARGEST).all(axis=-1)
    normal, lognormal = (rising & (family == kind) for kind in (NORMAL, LOGNORMAL))
    lognormal &= values[..., 0] > 0
    a[normal], b[normal] = _normal_of_quantiles(values[normal])
    a[lognormal], b[lognormal] = _normal_of_quantiles(np.log(values[lognormal]))
    beta = rising & (family == BETA) & (values[..., 0] >= 0) & (values[..., -1] <= 1)
    for place in map(tuple, np.argwhere(beta)):
        a[place], b[place] = _beta_of_quantiles(values[place])
    return a, b


def _normal_of_quantiles(values: Array) -> tuple[Array, Array]:
    """Fit a line to the quantiles against those of the standard normal: mean and slope."""
    z = special.ndtri(LEVELS)
    return values.mean(axis=-1), values @ z / (z @ z)


#: Between which alpha and beta are sought.
_LEAST, _MOST = 1e-3, 1e7


def _beta_of_quantiles(values: Array) -> tuple[float, float]:
    """Search for alpha and beta from those of the normal fit's moments, by their logarithms."""
    from scipy import optimize  # a third of what importing the package would take

    centre, spread = (float(moment) for moment in _normal_of_quantiles(values))
    centre = min(max(centre, 1e-4), 1 - 1e-4)
    spread = min(max(spread, 1e-7), 0.9 * np.sqrt(centre * (1 - centre)))
    start = np.clip(of_moments(BETA, centre, spread), 2 * _LEAST, _MOST / 2)
    scale = values[-1] - values[0]
    fit = optimize.least_squares(
        lambda logs: (special.betaincinv(*np.exp(logs), LEVELS) - values) / scale,
        np.log(start),
        bounds=(np.log(_LEAST), np.log(_MOST)),
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
    )
    alpha, beta = np.exp(fit.x)
    return float(alpha), float(beta)


def crps(family: ArrayLike, a: ArrayLike, b: ArrayLike, y: ArrayLike) -> Array:
    """CRPS of priors.

    Parameters
    ----------
    family : array_like of int
        Places in `benchmarks.prior.quantities.families.FAMILIES`.
    a, b : array_like
        Parameters. A normal may have sd 0.
    y : array_like
        What is true.

    Returns
    -------
    ndarray
        Of the shape to which all broadcast; NaN if a parameter is.
    """
    return by_family(family, (_crps_normal, _crps_beta, _crps_lognormal), a, b, y)


def _crps_normal(mean: Array, sd: Array, y: Array) -> Array:
    z = (y - mean) / np.where(sd > 0, sd, 1)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    spread = sd * (z * (2 * special.ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi))
    return np.where(sd == 0, np.abs(y - mean), spread)


def _crps_beta(alpha: Array, beta: Array, y: Array) -> Array:
    inside = np.clip(y, 0, 1)
    # 2 B(2a, 2b) / (a B(a, b)^2) by logarithms: the beta functions alone underflow from a + b of
    # about 540.
    ratio = np.exp(
        math.log(2)
        + special.betaln(2 * alpha, 2 * beta)
        - np.log(alpha)
        - 2 * special.betaln(alpha, beta)
    )
    exact = (
        np.abs(y - inside)
        + inside * (2 * special.betainc(alpha, beta, inside) - 1)
        + alpha / (alpha + beta) * (1 - 2 * special.betainc(alpha + 1, beta, inside) - ratio)
    )
    nearly = _crps_normal(mean(BETA, alpha, beta), sd(BETA, alpha, beta), y)
    return np.where(alpha + beta < SURE, exact, nearly)


def _crps_lognormal(mu: Array, sigma: Array, y: Array) -> Array:
    z = (np.log(np.maximum(y, 0)) - mu) / sigma
    # ndtr(-x) in place of 1 - ndtr(x): of a wide prior nothing else would be left of it.
    tails = special.ndtr(z - sigma) - special.ndtr(-sigma / math.sqrt(2))
    return y * (2 * special.ndtr(z) - 1) - 2 * np.exp(mu + sigma**2 / 2) * tails


def crps_of_points(points: Array, p: Array, y: ArrayLike) -> Array:
    """CRPS of distributions on points.

    Parameters
    ----------
    points : ndarray, shape (..., G)
        Ascending.
    p : ndarray, shape (..., G)
        Their probabilities.
    y : array_like, shape (...)
        What is true.

    Returns
    -------
    ndarray, shape (...)
        ``E|X - y| - E|X - X'| / 2``, the second of which is the integral of F (1 - F).
    """
    reached = np.cumsum(p, axis=-1)[..., :-1]
    among = (reached * (1 - reached) * np.diff(points, axis=-1)).sum(axis=-1)
    return np.asarray((p * np.abs(points - np.asarray(y)[..., None])).sum(axis=-1) - among)
