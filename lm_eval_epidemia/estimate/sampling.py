"""Counts, and the sampling error of a survey: bootstrap weights, design-based variance, sizes.

Joint replicates are other samples that a survey might have drawn, the same for all its tasks.
Replicate b has one set of weights for the whole file, whatever records a task keeps. Where the
survey has strata with two PSUs each, as most public files do, which of the two is drawn is
*balanced* over the replicates (McCarthy, Review of the International Statistical Institute 37,
1969): the replicates' variance of a linear estimate is then the design-based one itself, not a
simulation of it.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array

#: Every random choice of a build derives from this number, the task's name and the replicate.
SEED = 2022

#: ``iid`` resamples records (or sampled units), ``design`` resamples PSUs within strata or takes
#: the survey's own replicate weights, ``population`` simulates surveys from the estimated
#: distributions.
Scheme = Literal["iid", "design", "population"]
SCHEMES: tuple[Scheme, ...] = ("iid", "design", "population")

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """The records of one task and how they were drawn.

    Attributes
    ----------
    weight : ndarray, shape (n,)
    unit : ndarray of int, shape (n,), or None
        Sampled unit of each record, numbered over the whole file; None if every record is one.
    row : ndarray of int, shape (n,), or None
        Number of each record in the file; None if the task has all of it.
    size : int
        Sampled units of the whole file.
    psu : ndarray of int, shape (n,), or None
        Primary sampling unit, as an index into `stratum_of_psu`.
    stratum_of_psu : ndarray of int, shape (M,), or None
        Of every PSU of the survey, also those without a record in this task: a domain estimate
        counts them.
    replicate_totals : ndarray, shape (R, cells, levels), or None
        Weighted totals under each of the survey's own replicate weights; for an estimator that
        needs no more of them.
    replicate_weights : ndarray, shape (n, R), or None
        These weights themselves, for one that does.
    replicate_scale : float
        The variance of an estimate is this times the sum over r of (estimate_r - estimate)^2: 4 /
        80 for the successive difference replicates of the American Community Survey.
    """

    weight: Array
    unit: Codes | None = None
    row: Codes | None = None
    size: int = 0
    psu: Codes | None = None
    stratum_of_psu: Codes | None = None
    replicate_totals: NDArray[np.float64] | None = None
    replicate_weights: NDArray[np.floating] | None = None
    replicate_scale: float = 0.0

    @property
    def units(self) -> Codes:
        return np.arange(len(self.weight)) if self.unit is None else self.unit

    @property
    def has_design(self) -> bool:
        """Whether the sample has a design beyond independent draws."""
        replicated = self.replicate_totals is not None or self.replicate_weights is not None
        return replicated or self.stratum_of_psu is not None

    @property
    def numbers(self) -> Codes:
        """Sampled unit of each record, numbered over the whole file."""
        return self.units if self.row is None else self.row


def rng_of(task: str, *key: int) -> np.random.Generator:
    """Return the random numbers of one step of a task, independent of the order of steps."""
    return np.random.default_rng([SEED, zlib.crc32(task.encode()), *key])


def bootstrap_weights(sample: Sample, rng: np.random.Generator) -> Array:
    """Draw the weights of one i.i.d. bootstrap replicate of a task by itself.

    As many sampled units as there are, with replacement; all records of a unit go together.

    Parameters
    ----------
    sample : Sample
        With n records.
    rng : Generator

    Returns
    -------
    ndarray, shape (n,)
    """
    units = sample.units
    count = int(units.max()) + 1
    present = np.bincount(units, minlength=count) > 0
    drawn = rng.choice(np.flatnonzero(present), size=int(present.sum()))
    return sample.weight * np.bincount(drawn, minlength=count)[units]


def in_strata(stratum_of_psu: Codes) -> tuple[Codes, Codes]:
    """Return the PSUs in the order of their strata, and how many each stratum has."""
    sizes = np.unique(stratum_of_psu, return_counts=True)[1]
    return np.argsort(stratum_of_psu, kind="stable"), sizes


def _by_unit(sample: Sample, cell: Codes) -> tuple[Array, Codes]:
    """Sum the weights of a sampled unit's records in each cell; returns weights and their cells."""
    if sample.unit is None:
        return sample.weight, cell
    pairs = sample.unit * (int(cell.max()) + 1) + cell
    names, index = np.unique(pairs, return_inverse=True)
    of_pair = np.bincount(index, weights=sample.weight).astype(np.float64)
    return of_pair, names % (int(cell.max()) + 1)


def kish_size(sample: Sample, cell: Codes, cells: int) -> Array:
    """Kish's effective sample size of each cell, (sum w)^2 / sum w^2; shape (cells,).

    The w are those of sampled units: a family's five implicates are one observation.
    """
    weight, cell = _by_unit(sample, cell)
    total = np.bincount(cell, weights=weight, minlength=cells)
    squares = np.bincount(cell, weights=weight**2, minlength=cells)
    return total**2 / squares


def unit_count(sample: Sample, cell: Codes, cells: int) -> Codes:
    """Number of sampled units with a record in each cell; shape (cells,)."""
    return np.bincount(_by_unit(sample, cell)[1], minlength=cells)


def replicate_draws(sample: Sample, p: Array) -> Array:
    """Draws of a counted estimate under the survey's replicate weights.

    Parameters
    ----------
    sample : Sample
        With `replicate_totals`.
    p : ndarray, shape (cells, levels)
        The estimate.

    Returns
    -------
    ndarray, shape (R, cells, levels)
        ``p + sqrt(scale * R) (p_r - p)``, so that their mean square deviation is the variance.
    """
    assert sample.replicate_totals is not None
    # Replicate weights can be negative; a cell without weight has no estimate of its own.
    estimates = divide_totals(sample.replicate_totals, p)
    return p + np.sqrt(sample.replicate_scale * len(estimates)) * (estimates - p)


def taylor_variance(z: Array, stratum: Codes) -> Array:
    """Variance of a sum over PSUs that were drawn with replacement within strata.

    ``sum_h n_h / (n_h - 1) sum_i (z_hi - mean_h z)^2`` over the n_h PSUs of stratum h (Cochran,
    Sampling Techniques, 3rd ed., section 11.9). A stratum with one PSU contributes 0.

    Parameters
    ----------
    z : ndarray, shape (M, ...)
        Of each PSU that counts, the sum over its records of what they add, linearised.
    stratum : ndarray of int, shape (M,)

    Returns
    -------
    ndarray, shape (...)
    """
    _, stratum, sizes = np.unique(stratum, return_inverse=True, return_counts=True)
    rest, columns = z.shape[1:], math.prod(z.shape[1:])
    size = sizes.reshape(-1, *(1 for _ in rest))
    place = stratum[:, None] * columns + np.arange(columns)

    def in_strata(values: Array) -> Array:
        """Sum PSU by PSU: the last bits do not depend on what else is summed."""
        sums = np.bincount(place.ravel(), values.ravel(), len(sizes) * columns)
        return sums.astype(np.float64).reshape(len(sizes), *rest)

    deviation = z - (in_strata(z) / size)[stratum]
    variance: Array = (size / np.maximum(size - 1, 1) * in_strata(deviation**2)).sum(axis=0)
    return variance


def design_variance(
    sample: Sample, cell: Codes, outcome: Codes, p: Array, cells: int, levels: int
) -> Array:
    """Taylor-linearised variance of each cell's proportions under the survey design.

    A proportion in a cell is a ratio of totals; its linearised value for record r is
    ``z_r = w_r 1[r in cell] (1[y_r = y] - p) / W_cell``. All PSUs of the survey count, as in
    `taylor_variance`.

    Parameters
    ----------
    sample : Sample
        With `psu` and `stratum_of_psu`.
    cell, outcome : ndarray of int, shape (n,)
    p : ndarray, shape (cells, levels)
        Estimated proportions.
    cells, levels : int

    Returns
    -------
    ndarray, shape (cells, levels)
    """
    assert sample.psu is not None and sample.stratum_of_psu is not None
    psus = len(sample.stratum_of_psu)
    flat = (sample.psu * cells + cell) * levels + outcome
    totals = np.bincount(flat, weights=sample.weight, minlength=psus * cells * levels)
    totals = totals.reshape(psus, cells, levels)
    in_cell = totals.sum(axis=2, keepdims=True)
    return taylor_variance((totals - p * in_cell) / in_cell.sum(axis=0), sample.stratum_of_psu)


def design_effective_size(p: Array, variance: Array, kish: Array, n: Array) -> Array:
    """Sample size at which a simple random sample would have the given variance; shape (C,).

    ``sum_y p (1 - p) / sum_y var``. Where the estimated variance is zero (every record of the cell
    answers alike), Kish's size is used; a cell never counts for more than its `n` records, since a
    variance from few PSUs is itself uncertain.
    """
    spread, error = (p * (1 - p)).sum(axis=1), variance.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(error > 0, spread / error, kish)
    return np.minimum(np.where(size > 0, size, kish), n)


def divide_totals(totals: Array, otherwise: Array | float) -> Array:
    """Divide totals by their sum along the last axis; `otherwise` where that is not above 0."""
    of = totals.sum(axis=-1, keepdims=True)
    return np.where(of > 0, totals / np.where(of > 0, of, 1.0), otherwise)


def count_shares(
    weight: Array, cell: NDArray[np.int64], outcome: NDArray[np.int64], cells: int, levels: int
) -> Array:
    """Estimate P(Y | X) by weighted counts.

    Parameters
    ----------
    weight : ndarray, shape (n,)
    cell, outcome : ndarray of int, shape (n,)
    cells, levels : int

    Returns
    -------
    ndarray, shape (cells, levels)
        A cell without weight (it can happen in a bootstrap replicate) gets the distribution of
        all records: nothing is known about it but that.
    """
    totals = np.bincount(cell * levels + outcome, weights=weight, minlength=cells * levels)
    table = totals.astype(np.float64).reshape(cells, levels)
    return divide_totals(table, table.sum(axis=0) / table.sum())


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
    if sample.stratum_of_psu is not None and sample.psu is not None:
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
