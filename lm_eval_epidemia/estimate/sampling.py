"""Sampling error of a survey: bootstrap weights, design-based variance, effective sizes."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.bins import shares

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
    estimates = shares(sample.replicate_totals, p)
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
