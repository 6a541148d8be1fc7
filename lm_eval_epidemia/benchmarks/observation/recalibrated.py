"""Split a distance into how common each answer is, and who gives it.

Answers q(y | x) can be wrong in P(Y), their mix over all people, and in how Y depends on X. They
are *recalibrated* to the true P(Y) by one factor per answer, the same for everybody:

``q'(y | x) = q(y | x) exp(t_y) / sum_k q(k | x) exp(t_k)``, t such that ``sum_x P(x) q'(y | x) =
P(y)``.

Every odds ratio between two groups of people stays what it was. Of all distributions with the true
P(Y) it is the closest to q (least sum_x P(x) KL(q' || q)), the fixed point of raking q's table to
its margins P(X) and P(Y) (Deming and Stephan, Annals of Mathematical Statistics 11, 1940; Csiszar,
Annals of Probability 3, 1975), and t the minimum of a convex function, found by Newton's method.

The remaining distance is about who gives which answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array, distance

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
