"""Crude and standardised effects, from P(y | x, z); answers recalibrated to the true P(Y).

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

A distance is split into how common each answer is, and who gives it. Answers q(y | x) can be wrong
in P(Y), their mix over all people, and in how Y depends on X. They are *recalibrated* to the true
P(Y) by one factor per answer, the same for everybody:

``q'(y | x) = q(y | x) exp(t_y) / sum_k q(k | x) exp(t_k)``, t such that ``sum_x P(x) q'(y | x) =
P(y)``.

Every odds ratio between two groups of people stays what it was. Of all distributions with the true
P(Y) it is the closest to q (least sum_x P(x) KL(q' || q)), the fixed point of raking q's table to
its margins P(X) and P(Y) (Deming and Stephan, Annals of Mathematical Statistics 11, 1940; Csiszar,
Annals of Probability 3, 1975), and t the minimum of a convex function, found by Newton's method.
The remaining distance is about who gives which answer.

Shapes: X levels of the condition, S strata (levels of Z).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array, distance
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


#: Smaller probabilities count as this before recalibration: no factor could raise the share of an
#: answer with probability 0 for everybody.
LEAST = 1e-9

#: By how much P(Y) may be missed; steps of Newton's method, how long they are in a logarithm, and
#: what rounding does to the function that they minimise.
CLOSE = 1e-9
STEPS = 500
LONGEST = 4.0
ROUNDING = 1e-15


class Parts(NamedTuple):
    """A distance and what it is about; each in [0, 2].

    Attributes
    ----------
    total : ndarray, shape (...)
        D(P, q).
    marginal : ndarray, shape (...)
        ``sum_y |P(y) - q(y)|``, at most `total`.
    conditional : ndarray, shape (...)
        D(P, q'), of the recalibrated answers.
    """

    total: Array
    marginal: Array
    conditional: Array


def marginal(weights: Array, p: Array) -> Array:
    """Return P(Y) from P(Y | X) and P(X).

    Parameters
    ----------
    weights : ndarray, shape (C,)
    p : ndarray, shape (..., C, K)

    Returns
    -------
    ndarray, shape (..., K)
    """
    return np.asarray(np.einsum("c,...ck->...k", weights, p))


def recalibrate(weights: Array, q: Array, target: Array) -> Array:
    """Change the P(Y) of answers, keeping every odds ratio between groups of people.

    Parameters
    ----------
    weights : ndarray, shape (C,)
        P(X = x), summing to 1.
    q : ndarray, shape (C, K)
        Answers; rows sum to 1.
    target : ndarray, shape (..., K)
        P(Y) that they shall have; rows sum to 1. An answer of probability 0 is given by nobody.

    Returns
    -------
    ndarray, shape (..., C, K)

    Raises
    ------
    ArithmeticError
        If Newton's method does not come close in `STEPS` steps.
    """
    flat = target.reshape(-1, target.shape[-1])
    tilted = [_tilted(weights, np.maximum(q, LEAST), mix) for mix in flat]
    # An exact table has no replicates, so no P(Y) of theirs.
    return np.array(tilted).reshape(*target.shape[:-1], *q.shape)


def _tilted(weights: Array, q: Array, target: Array) -> Array:
    """Find the factors for one P(Y)."""
    given = target > 0
    tilted = np.zeros_like(q)
    logs, wanted = np.log(q[:, given]), target[given] / target[given].sum()
    levels = len(wanted)
    # One factor per answer is one too many: they are kept at a mean of 0.
    t = np.zeros(levels)
    value, r = _convex(weights, logs, wanted, t)
    for _ in range(STEPS):
        slope = weights @ r - wanted
        if np.abs(slope).max() < CLOSE:
            tilted[:, given] = r
            return tilted
        curve = np.diag(weights @ r) - (r * weights[:, None]).T @ r + 1 / levels
        step = -np.linalg.solve(curve + LEAST * np.eye(levels), slope)
        # Where answers are all but certain the function is nearly straight, and Newton's step would
        # end far beyond the bend.
        size = min(1.0, LONGEST / float(np.abs(step).max()))
        while True:  # ends: small enough, a step along a descent changes nothing but rounding
            new_value, new = _convex(weights, logs, wanted, t + size * step)
            if new_value <= value + 1e-4 * size * float(slope @ step) + ROUNDING * (1 + abs(value)):
                break
            size /= 2
        t = t + size * step
        t -= t.mean()
        value, r = new_value, new
    raise ArithmeticError(f"the factors for P(Y) = {target} did not converge in {STEPS} steps")


def _convex(weights: Array, logs: Array, wanted: Array, t: Array) -> tuple[float, Array]:
    """Return the function whose minimum is sought, and the answers at t."""
    tilted = logs + t
    top = tilted.max(axis=1, keepdims=True)
    powers = np.exp(tilted - top)
    sums = powers.sum(axis=1, keepdims=True)
    value = float(weights @ (top + np.log(sums))[:, 0] - wanted @ t)
    return value, powers / sums


def parts(weights: Array, p: Array, q: Array) -> Parts:
    """Return how much of a distance is about P(Y), and what remains with the true P(Y).

    Parameters
    ----------
    weights : ndarray, shape (C,)
    p : ndarray, shape (..., C, K)
        The truth; with leading axes, its replicates, each with a P(Y) of its own.
    q : ndarray, shape (C, K)
    """
    true = marginal(weights, p)
    return Parts(
        total=distance(weights, p, q),
        marginal=np.asarray(np.abs(true - marginal(weights, q)).sum(axis=-1)),
        conditional=distance(weights, p, recalibrate(weights, q, true)),
    )
