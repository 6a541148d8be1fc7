"""The truth of a quantity: weighted mean, spread between people, standard error of the design.

All estimates are for a *domain*: the people who meet the conditions and whose answer is known.
Samples of N real answers are sums over the people of a draw, weighted once or twice."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DRAWS, SIZES, Samples, span
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.sampling import taylor_variance

Mask = NDArray[np.bool_]


class SampleDesign(NamedTuple):
    """How people were sampled.

    Attributes
    ----------
    weight : ndarray, shape (n,)
    strata, psu : ndarray of int, shape (n,), or None
        A PSU's code is unique across strata. Without strata there is one; without PSUs each record
        was sampled by itself.
    replicates : ndarray, shape (n, R), or None
        Replicate weights; they are used where there are no strata and PSUs.
    scale : float
        Variance = this times the sum of squared deviations of the replicates.
    """

    weight: Array
    strata: NDArray[np.int64] | None = None
    psu: NDArray[np.int64] | None = None
    replicates: NDArray[np.float32] | None = None
    scale: float = 0.0

    def of(self, domain: Mask) -> SampleDesign:
        """Return the design of some records, as if there were no others."""
        columns = {name: getattr(self, name) for name in ("weight", "strata", "psu", "replicates")}
        return self._replace(**{n: x[domain] for n, x in columns.items() if x is not None})


class DomainStats(NamedTuple):
    """What a survey says about a domain.

    Attributes
    ----------
    mean : float
        Sum of w y over sum of w.
    sd : float
        Between people: the root of the weighted mean of squared deviations (divisor sum of w).
    se : float
        Standard error of the mean under the design.
    df : int or None
        Degrees of freedom of that error: PSUs with members of the domain, less strata with any.
        None if they are not known.
    told : float
        Share of the weight that the standard error says something about: the rest is in strata
        with one PSU.
    """

    mean: float
    sd: float
    se: float
    df: int | None = None
    told: float = 1.0


def estimate(value: Array, domain: Mask, design: SampleDesign) -> DomainStats:
    """Estimate the mean in a domain, with its error.

    Parameters
    ----------
    value : ndarray, shape (n,)
        Looked at in the domain only.
    domain : ndarray of bool, shape (n,)
        With weight in it.
    design : SampleDesign
        Of all records of the survey, those outside the domain too.

    Returns
    -------
    DomainStats
        Its standard error is Taylor-linearised: the root of `taylor_variance` of the sums of
        w (y - mean) over the domain's members in each PSU, over sum of w. PSUs without members
        count as sums of 0: how many members a PSU has is chance too. With replicate weights only,
        the variance is `scale` times the sum of squared deviations of the R replicates' means, and
        `df` R - 1.
    """
    y, w = value[domain], design.weight[domain]
    total = w.sum()
    mean = float((w * y).sum() / total)
    sd = float(np.sqrt((w * (y - mean) ** 2).sum() / total))
    if design.psu is None and design.replicates is not None:
        each = design.replicates[domain].astype(np.float64)
        means = (each * y[:, None]).sum(axis=0) / each.sum(axis=0)
        se = float(np.sqrt(design.scale * ((means - mean) ** 2).sum()))
        return DomainStats(mean, sd, se, len(means) - 1)
    people = np.arange(len(value)) if design.psu is None else design.psu
    _, first, psu = np.unique(people, return_index=True, return_inverse=True)
    stratum = np.zeros(len(first), dtype=np.int64)
    if design.strata is not None:
        stratum = np.unique(design.strata[first], return_inverse=True)[1]
    sums = np.bincount(psu[domain], w * (y - mean), len(first)).astype(np.float64)
    se = float(np.sqrt(taylor_variance(sums, stratum)) / total)
    here = np.unique(psu[domain])
    df = len(here) - len(np.unique(stratum[here]))
    several = np.bincount(stratum)[stratum] > 1
    return DomainStats(mean, sd, se, df, float(w[several[psu[domain]]].sum() / total))


def numbers_of(
    told: DomainStats, n: int, marginal: DomainStats, share: bool, least: float | None = 0.0
) -> dict[str, Any]:
    """Return the numbers of a `Quantity`, by field: its truth, its marginal, its grid's ends.

    Parameters
    ----------
    told, marginal : DomainStats
        What the survey says of the slice, and of all people.
    n : int
        People in the slice.
    share : bool
        Whether it is a proportion, whose grid goes from 0 to 1.
    least : float, optional
        Below which no value can be.
    """
    low, high = (0.0, 1.0) if share else span(marginal.mean, marginal.sd, least)
    return {
        **{"mean": told.mean, "se": told.se, "sd": told.sd, "n": n},
        **{"marginal_mean": marginal.mean, "marginal_sd": marginal.sd, "low": low, "high": high},
        "df": told.df,
    }


class Sums(NamedTuple):
    """A draw: the mean of its answers, their variance (divisor: their number), and their number."""

    mean: float
    variance: float
    size: float


def kish(weight: Array) -> float:
    """Return Kish's effective size, (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def published(value: Array, weight: Array) -> Sums:
    """Weight a draw once more, as the published baselines do, though it was drawn by weight.

    Parameters
    ----------
    value, weight : ndarray, shape (rows,)
        All rows that were drawn until Kish's effective size reached N.
    """
    mean = float(np.average(value, weights=weight))
    return Sums(mean, float(np.average((value - mean) ** 2, weights=weight)), kish(weight))


def corrected(value: Array) -> Sums:
    """Count each of the N people of a draw alike.

    Parameters
    ----------
    value : ndarray, shape (N,)
    """
    return Sums(float(value.mean()), float(value.var()), float(len(value)))


def drawn(value: Array, weight: Array, rng: np.random.Generator) -> dict[str, list[list[Sums]]]:
    """Draw people of a slice, for each size `DRAWS` times, in both manners.

    Corrected: N people with replacement, in proportion to their weight, counted alike. Published:
    people without replacement, in proportion to their weight, one more until Kish's effective size
    is N or nobody is left, then weighted again (``nhanes_generation.py`` of OpenEstimate).

    Parameters
    ----------
    value, weight : ndarray, shape (n,)
        Of the people of the slice; weights above 0.
    rng : numpy.random.Generator

    Returns
    -------
    dict of str to list
        By manner, for each of `SIZES` its draws.
    """
    share = weight / weight.sum()
    sums: dict[str, list[list[Sums]]] = {"corrected": [], "published": []}
    for size in SIZES:
        people = rng.choice(len(value), (DRAWS, size), p=share)
        sums["corrected"].append([corrected(value[chosen]) for chosen in people])
        sums["published"].append([_until(value, weight, share, size, rng) for _ in range(DRAWS)])
    return sums


def _until(value: Array, weight: Array, share: Array, size: int, rng: np.random.Generator) -> Sums:
    # Each attempt draws again, one more than the last.
    for rows in range(min(size, len(value)), len(value) + 1):
        people = rng.choice(len(value), rows, replace=False, p=share)
        if rows == len(value) or kish(weight[people]) >= size:
            break
    return published(value[people], weight[people])


def stacked(draws: list[list[list[Sums]]]) -> Samples:
    """Put the draws of Q quantities, by size and draw, into arrays (Q, len(SIZES), DRAWS)."""
    mean, variance, size = np.moveaxis(np.array(draws, dtype=np.float64), -1, 0)
    return Samples(mean, variance, size)
