"""Joint replicates: other samples that a survey might have drawn, the same for all its tasks.

Replicate b has one set of weights for the whole file, whatever records a task keeps. Where the
survey has strata with two PSUs each, as most public files do, which of the two is drawn is
*balanced* over the replicates (McCarthy, Review of the International Statistical Institute 37,
1969): the replicates' variance of a linear estimate is then the design-based one itself, not a
simulation of it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.sampling import Codes, Sample, in_strata, rng_of

#: The order of the Hadamard matrix: how many replicates are balanced, for up to one stratum less.
BALANCED = 100


@lru_cache(maxsize=1)
def hadamard() -> Array:
    """Return a Hadamard matrix of order 100: entries 1 or -1, orthogonal rows and columns.

    Paley's second construction over GF(49), numbers a + b i modulo 7 (-1 is no square there).

    Returns
    -------
    ndarray, shape (100, 100)
        The first row is 1 throughout.
    """
    field = [(a, b) for a in range(7) for b in range(7)]
    squares = {((a * a - b * b) % 7, 2 * a * b % 7) for a, b in field if (a, b) != (0, 0)}
    character = {x: 0 if x == (0, 0) else 1 if x in squares else -1 for x in field}
    conference = np.ones((50, 50))
    conference[0, 0] = 0
    conference[1:, 1:] = [[character[(a - c) % 7, (b - d) % 7] for c, d in field] for a, b in field]
    matrix = np.kron(conference, [[1, 1], [1, -1]]) + np.kron(np.eye(50), [[1, -1], [-1, -1]])
    return np.asarray(matrix * matrix[0])


def multiplicities(stratum_of_psu: Codes, survey: str, replicate: int) -> Array:
    """Return by what factor a replicate multiplies the weights of each PSU.

    The rescaled bootstrap of Rao and Wu (JASA 1988): of a stratum's n_h PSUs n_h - 1 are drawn with
    replacement and weigh n_h / (n_h - 1) for each time. Of two PSUs that is one or the other, twice
    its weight: this choice is balanced over `BALANCED` replicates, as far as there are columns.

    Parameters
    ----------
    stratum_of_psu : ndarray of int, shape (M,)
        At least two PSUs of each stratum.
    survey : str
        Names the random numbers, the same for all tasks.
    replicate : int

    Returns
    -------
    ndarray, shape (M,)
    """
    order, sizes = in_strata(stratum_of_psu)
    first = np.cumsum(sizes) - sizes
    # One call for all strata.
    drawn = rng_of(survey, 0, replicate).integers(0, np.repeat(sizes, sizes - 1))
    times = np.bincount(np.repeat(first, sizes - 1) + drawn, minlength=len(order))
    in_order = times * np.repeat(sizes / (sizes - 1), sizes)
    block, column = divmod(replicate, BALANCED)
    pairs = first[sizes == 2]
    # Row 0 of the matrix has one sign only. Strata beyond the 99th share rows with others.
    row = 1 + rng_of(survey, 1, block).permutation(len(pairs)) % (BALANCED - 1)
    sign = hadamard()[row, column]
    in_order[pairs], in_order[pairs + 1] = 1 + sign, 1 - sign
    factor = np.empty(len(order))
    factor[order] = in_order
    return factor


@lru_cache(maxsize=8)
def mixture(survey: str, number: int, replicates: int) -> Array:
    """Return how a survey's own R replicate weights make as many joint replicates as all have.

    Replicate b deviates from the estimate by ``sum_r mixture[b, r] (replicate_r - estimate)``, each
    column having mean 0 and mean square 1. With R < B the columns are orthogonal, so that the
    variance over b equals, up to the survey's own factor, ``sum_r (replicate_r - estimate)^2``, the
    agency's formula; with more of them it is that on average.

    Returns
    -------
    ndarray, shape (B, R)
        B is `number`, R is `replicates`.
    """
    normal = rng_of(survey, 2).standard_normal((number, replicates))
    if replicates < number:
        normal = np.linalg.qr(np.column_stack([np.ones(number), normal]))[0][:, 1:]
    normal = normal - normal.mean(axis=0)
    # With the divisor B - 1, as variances over b are taken.
    return np.asarray(normal / normal.std(axis=0, ddof=1))


def replicate_weights(sample: Sample, survey: str, replicate: int, number: int) -> Array:
    """Return the weights of a task's records in one joint replicate of the survey.

    By the survey's own replicate weights, where these are given for records; else by its strata and
    PSUs; else by its sampled units, drawn with replacement from all of the file.

    Parameters
    ----------
    sample : Sample
        With n records.
    survey : str
    replicate : int
    number : int
        How many replicates there are.

    Returns
    -------
    ndarray, shape (n,)
    """
    if sample.replicate_weights is not None:
        mixed = mixture(survey, number, sample.replicate_weights.shape[1])[replicate]
        moved = sample.replicate_weights @ mixed - sample.weight * mixed.sum()
        return np.asarray(sample.weight + np.sqrt(sample.replicate_scale) * moved)
    if sample.stratum_of_psu is not None:
        assert sample.psu is not None
        return sample.weight * multiplicities(sample.stratum_of_psu, survey, replicate)[sample.psu]
    drawn = rng_of(survey, 3, replicate).integers(0, sample.size, sample.size)
    return sample.weight * np.bincount(drawn, minlength=sample.size)[sample.numbers]


def quantised(p: Array, at: Array) -> tuple[Array, float]:
    """Write replicates as whole steps from the estimate.

    Parameters
    ----------
    p : ndarray, shape (C, K)
    at : ndarray, shape (B, C, K)

    Returns
    -------
    steps : ndarray of int16, shape (C, K - 1, B)
        Without the last level, since rows sum to 1.
    step : float
        The largest deviation is 32,767 of them, so rounding is 1.5e-5 of it.
    """
    moved = (at - p)[..., :-1].transpose(1, 2, 0)
    step = float(np.abs(moved).max(initial=0.0)) / 32767 or 1.0
    return np.rint(moved / step).astype(np.int16), step
