"""From P(y | x, z) to the effect of x: crude, and standardised to everybody's mix of z.

X is a condition, Z another (or several together), Y an outcome. Three numbers of a level x:

*crude*: ``sum_z P(y | x, z) P(z | x) = P(y | x)``, what is seen in those who have x;

*standardised*: ``sum_z P(y | x, z) P(z)``, what would be seen in them if they had everybody's Z.
Epidemiologists call it direct standardisation. It is the g-formula for a treatment at one time
(Robins, Mathematical Modelling 7, 1986) and the back-door adjustment (Pearl, Causality, 2009,
theorem 3.3.2): P(y | do(x)) if Z blocks every back-door path from X to Y;

*weighted*: the same by the inverse of the propensity P(x | z) (Robins, Hernan and Brumback,
Epidemiology 11, 2000), ``sum_z P(x, z) P(y | x, z) / P(x | z)``, divided by the sum of its weights,
``sum_z P(x, z) / P(x | z)`` (Hajek's ratio). With the propensities of P(x, z) itself the weights
are P(z), and it is the standardised number; with somebody's own propensities, which need not agree
with P(x, z), the division keeps it between the smallest and the largest P(y | x, z).

None of this makes a number causal: that requires a graph in which Z is sufficient, P(x | z) > 0 for
every z (*positivity*) and an x that says what would be done (*consistency*):
docs/background/standardised.md.

Shapes: X levels of the condition, S strata (levels of Z).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.score import monte_carlo
from lm_eval_epidemia.score.score import ordering_error


def crude(p: Array, joint: Array) -> Array:
    """Return P(y | x), by the mix of Z that each level of X has.

    Parameters
    ----------
    p : ndarray, shape (..., X, S)
        P(y | x, z).
    joint : ndarray, shape (X, S)
        P(x, z), up to a factor for each x.

    Returns
    -------
    ndarray, shape (..., X)
    """
    return np.asarray((p * joint).sum(axis=-1) / joint.sum(axis=-1))


def standardised(p: Array, everybody: Array) -> Array:
    """Return P(y | x, z) averaged over the mix of Z that everybody has.

    Parameters
    ----------
    p : ndarray, shape (..., X, S)
        P(y | x, z).
    everybody : ndarray, shape (S,)
        P(z), up to a factor.

    Returns
    -------
    ndarray, shape (..., X)
    """
    return np.asarray(p @ everybody / everybody.sum())


def weighted(p: Array, joint: Array, propensity: Array) -> Array:
    """Return P(y | x, z) averaged over people of x, each weighted by the inverse propensity.

    Parameters
    ----------
    p : ndarray, shape (..., X, S)
        P(y | x, z).
    joint : ndarray, shape (X, S)
        P(x, z), up to a factor for each x.
    propensity : ndarray, shape (..., X, S)
        P(x | z), somebody's own: not necessarily that of `joint`. In [0, 1].

    Returns
    -------
    ndarray, shape (..., X)
        NaN if a propensity is 0 though there are such people: positivity does not hold.
    """
    possible = propensity > 0
    weight = joint / np.where(possible, propensity, 1.0)
    means = (p * weight).sum(axis=-1) / weight.sum(axis=-1)
    return np.where((possible | (joint == 0)).all(axis=-1), means, np.nan)


def asking_error(
    of: Callable[[Array], Array],
    by_order: Array | None = None,
    counts: NDArray[np.int64] | None = None,
) -> float:
    """Return the standard error that a number has from how a model was asked.

    Parameters
    ----------
    of : callable
        From distributions, shape (N, C, K), to the number for each, shape (N,).
    by_order : ndarray, shape (C, M, K), optional
        What was found under each of M orderings of the answers.
    counts : ndarray of int, shape (C, K + 1), optional
        Of answers that were drawn: how many said each level and, last, could not be read.

    Returns
    -------
    float
        0 where all orderings were asked and nothing was drawn.
    """
    error = 0.0 if by_order is None else ordering_error(by_order, of)
    if counts is None:
        return error
    drawn = monte_carlo.draw_counts(counts)
    shares = drawn / drawn.sum(axis=-1, keepdims=True)
    silent = shares[..., -1:] / (shares.shape[-1] - 1)
    return math.hypot(error, float(of(shares[..., :-1] + silent).std(ddof=1)))
