"""Simulated respondents that state priors of known quality: true, calibrated, flat."""

from __future__ import annotations

import math
import zlib

import numpy as np
from scipy import special

from lm_eval_epidemia.benchmarks.prior.judged import baseline_errors, make_flat_prior
from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.families import BETA, FAMILIES, LOGNORMAL, NORMAL
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Quantities
from lm_eval_epidemia.benchmarks.prior.ways import REPEATS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, suggest

KINDS = ("truth", "population", "calibrated", "overconfident", "vague", "flat", "mean")

#: Factors on the standard deviation of a calibrated prior.
_WIDER = {"calibrated": 1.0, "overconfident": 1 / 4, "vague": 4.0}

#: How sure the respondent that knows the marginal is: its standard deviation between people, times
#: this.
_SURE = 0.01

#: A beta of mean m has a standard deviation below sqrt(m (1 - m)); ours at most this share of it,
#: and a mean at least so far from 0 and 1.
_MOST, _EDGE = 0.9, 1e-6

#: And at least this share of that: alpha and beta are then numbers that count as stated.
_LEAST = 1e-7


def simulate_priors(truth: Quantities, kind: str, noise: float = 1.0, seed: int = 0) -> Array:
    """Return the priors that a simulated respondent states.

    Parameters
    ----------
    truth : Quantities
    kind : {"truth", "population", "calibrated", "overconfident", "vague", "flat", "mean"}
        ``truth`` states the survey's figure and its standard error. ``population`` knows the
        population's value, simulated by a draw from the survey's error (the same in all repeats, on
        the scale of `quantity.quantile`), and states that error. ``calibrated`` has errors, but
        states their size correctly: the probability that its prior gives to values up to the truth
        is uniform. ``overconfident`` and ``vague`` have the same errors, but state a quarter and
        four times that standard deviation (for a beta, no more than its mean allows). ``flat``
        states the marginal's mean and the standard deviation between people, or Beta(1, 1);
        ``mean`` states the marginal's mean, with a hundredth of that standard deviation.
    noise : float
        Size of the errors of ``calibrated``: the expected mean error of its normal priors, divided
        by that of five real answers.
    seed : int
        Seed of the noise or the population, which also depend on the task's name.

    Returns
    -------
    ndarray, shape (Q, REPEATS, 3)
        Index in `FAMILIES`, and two parameters.

    Raises
    ------
    EpidemiaError
        If the kind is unknown, or the noise is not above 0.
    """
    if kind not in KINDS:
        raise EpidemiaError(f"there is no baseline kind={kind!r} ({suggest(kind, KINDS)})")
    if kind in _WIDER and not (noise > 0 and math.isfinite(noise)):
        raise EpidemiaError(f"noise={noise:g}: expected a number above 0 for a calibrated prior")
    family = np.array([[FAMILIES.index(quantity.family)] for quantity in truth.quantities])
    if kind == "flat":
        family, a, b = make_flat_prior(truth)
    elif kind == "truth":
        a, b = _of_moments(family, _column(truth, "mean"), _column(truth, "se"))
    elif kind == "population":
        rng = np.random.default_rng([seed, zlib.crc32(truth.task.encode()), 1])
        u = rng.uniform(size=len(family)).tolist()
        drawn = [[q.at(share)] for q, share in zip(truth.quantities, u, strict=True)]
        a, b = _of_moments(family, np.array(drawn), _column(truth, "se"))
    elif kind == "mean":
        mean, sd = _column(truth, "marginal_mean"), _column(truth, "marginal_sd")
        a, b = _of_moments(family, mean, _SURE * sd)
    else:
        rng = np.random.default_rng([seed, zlib.crc32(truth.task.encode())])
        u = rng.uniform(size=(len(family), REPEATS))
        a, b = _calibrated(truth, family, u, noise)
        if kind != "calibrated":
            wider = _WIDER[kind] * families.sd(family, a, b)
            a, b = _of_moments(family, families.mean(family, a, b), wider)
    return np.stack(np.broadcast_arrays(family, a, b, np.empty((1, REPEATS)))[:3], axis=2)


def _column(truth: Quantities, field: str) -> Array:
    return truth.column(field)[:, None]


def _of_moments(family: Array, mean: Array, sd: Array) -> tuple[Array, Array]:
    """Return parameters by moments, of a beta as near to these as there are any."""
    inside = np.clip(mean, _EDGE, 1 - _EDGE)
    most = _MOST * np.sqrt(inside * (1 - inside))
    is_beta = family == BETA
    sd = np.where(is_beta, np.maximum(sd, _LEAST * most), sd)
    mean, sd = np.where(is_beta, inside, mean), np.where(is_beta, np.minimum(sd, most), sd)
    # What is known exactly has an sd of 0, which no prior has.
    return families.of_moments(family, mean, np.maximum(sd, 1e-9 * np.abs(mean) + 1e-12))


def _calibrated(truth: Quantities, family: Array, u: Array, noise: float) -> tuple[Array, Array]:
    """Return priors that give a probability of u to values up to the truth, shape (Q, R).

    Their standard deviation is about s, with ``s sqrt(2 / pi)`` the mean error of five real answers
    times `noise`: so far is a normal number with an sd of s off on average. Of a normal, the mean
    is then s * z above the truth, and s its sd; of a lognormal the same holds of the logarithms. Of
    a beta, alpha + beta is fixed and the mean found by bisection, since the probability falls as
    it rises.
    """
    y = _column(truth, "mean")
    s = noise * math.sqrt(math.pi / 2) * baseline_errors(truth)[:, :1]
    z = special.ndtri(u)
    a, b = np.empty(u.shape), np.empty(u.shape)
    if (here := family[:, 0] == NORMAL).any():
        a[here], b[here] = (y - s * z)[here], np.broadcast_to(s, u.shape)[here]
    if (here := family[:, 0] == LOGNORMAL).any():
        sigma = np.sqrt(np.log1p((s[here] / y[here]) ** 2))
        a[here], b[here] = np.log(y[here]) - sigma * z[here], sigma
    if (here := family[:, 0] == BETA).any():
        a[here], b[here] = _beta_with(np.clip(y[here], _EDGE, 1 - _EDGE), s[here], u[here])
    return a, b


def _beta_with(y: Array, s: Array, u: Array) -> tuple[Array, Array]:
    """Return the beta priors of one alpha + beta whose distribution function at y is u."""
    # At most half of what is possible: beyond, all mass is at 0 and 1.
    s = np.minimum(s, np.sqrt(y * (1 - y)) / 2)
    total = y * (1 - y) / s**2 - 1
    low, high = np.zeros(u.shape), np.ones(u.shape)
    for _ in range(60):
        m = (low + high) / 2
        above = special.betainc(m * total, (1 - m) * total, y) > u
        low, high = np.where(above, m, low), np.where(above, high, m)
    m = np.clip((low + high) / 2, 1e-12, 1 - 1e-12)
    return m * total, (1 - m) * total
