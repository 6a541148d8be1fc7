"""The truth of a quantity: weighted mean, spread between people, standard error of the design.

Everything is about a *domain*, the people whom the conditions describe and whose answer is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.prior.quantities.span import span
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
    told : float
        Share of the weight that the standard error says something about: the rest is in strata
        with one PSU.
    """

    mean: float
    sd: float
    se: float
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

    Returns
    -------
    DomainStats
        Its standard error is Taylor-linearised (`taylor_variance`): with z = w (y - mean) in the
        domain, from the sums of z in those PSUs that have members of the domain, over sum of w; a
        stratum with one such PSU adds nothing (CDC's analytic guidelines, and the published
        truths). With replicate weights only, the variance is `scale` times the sum of squared
        deviations of the replicates' means.
    """
    y, w = value[domain], design.weight[domain]
    total = w.sum()
    mean = float((w * y).sum() / total)
    sd = float(np.sqrt((w * (y - mean) ** 2).sum() / total))
    if design.psu is None and design.replicates is not None:
        each = design.replicates[domain].astype(np.float64)
        means = (each * y[:, None]).sum(axis=0) / each.sum(axis=0)
        return DomainStats(mean, sd, float(np.sqrt(design.scale * ((means - mean) ** 2).sum())))
    people = np.arange(len(value)) if design.psu is None else design.psu
    _, first, psu = np.unique(people[domain], return_index=True, return_inverse=True)
    stratum = np.zeros(len(first), dtype=np.int64)
    if design.strata is not None:
        stratum = np.unique(design.strata[domain][first], return_inverse=True)[1]
    several = np.bincount(stratum)[stratum] > 1
    sums = np.bincount(psu, weights=w * (y - mean)).astype(np.float64)
    variance = taylor_variance(sums[several], stratum[several])
    told = float(w[several[psu]].sum() / total)
    return DomainStats(mean, sd, float(np.sqrt(variance) / total), told)


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
    }
