"""The continuous ranked probability score (CRPS): how far a distribution is from what is true.

``CRPS(F, y) = integral (F(x) - 1[x >= y])^2 dx``, in the unit of the quantity; 0 is perfect, and
the score of a point is its distance. Closed forms as in Jordan, Krueger and Lerch (2019), Journal
of Statistical Software 90 (12), appendix A.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.families import by_family
from lm_eval_epidemia.core.distance import Array


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
    return by_family(family, (_normal, _beta, _lognormal), a, b, y)


def _normal(mean: Array, sd: Array, y: Array) -> Array:
    z = (y - mean) / np.where(sd > 0, sd, 1)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    spread = sd * (z * (2 * special.ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi))
    return np.where(sd == 0, np.abs(y - mean), spread)


def _beta(alpha: Array, beta: Array, y: Array) -> Array:
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
    nearly = _normal(
        families.mean(families.BETA, alpha, beta), families.sd(families.BETA, alpha, beta), y
    )
    return np.where(alpha + beta < families.SURE, exact, nearly)


def _lognormal(mu: Array, sigma: Array, y: Array) -> Array:
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
