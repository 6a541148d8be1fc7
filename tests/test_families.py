"""Families of priors: moments, quantiles, CRPS and posteriors, each against another way to it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from lm_eval_epidemia.benchmarks.prior import judged
from lm_eval_epidemia.benchmarks.prior.judged import posterior_mean
from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.families import (
    BETA,
    LEVELS,
    LOGNORMAL,
    NORMAL,
    crps,
    crps_of_points,
)
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Samples

#: A prior as (family, a, b).
NORMALS = st.tuples(st.just(NORMAL), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
BETAS = st.tuples(st.just(BETA), st.floats(0.3, 300), st.floats(0.3, 300))
LOGNORMALS = st.tuples(st.just(LOGNORMAL), st.floats(-5, 5), st.floats(0.01, 1.5))
PRIORS = st.one_of(NORMALS, BETAS, LOGNORMALS)


def by_scipy(family, a, b):
    if family == NORMAL:
        return stats.norm(a, b)
    return stats.beta(a, b) if family == BETA else stats.lognorm(b, scale=math.exp(a))


@given(PRIORS, st.floats(0.001, 0.999))
def test_as_scipy_has_them(prior, p):
    known = by_scipy(*prior)
    x = known.ppf(p)
    assert families.mean(*prior) == pytest.approx(known.mean())
    assert families.sd(*prior) == pytest.approx(known.std())
    assert families.ppf(*prior, 0.5) == pytest.approx(known.median())
    assert families.ppf(*prior, p) == pytest.approx(x)
    assert families.cdf(*prior, x) == pytest.approx(known.cdf(x))
    shift = known.logpdf(known.median()) - families.log_density(*prior, known.median())
    assert families.log_density(*prior, x) + shift == pytest.approx(known.logpdf(x), abs=1e-8)


@given(PRIORS)
def test_moments_come_back(prior):
    family, a, b = prior
    back = families.of_moments(family, families.mean(*prior), families.sd(*prior))
    assert back == (pytest.approx(a, rel=1e-6, abs=1e-9), pytest.approx(b, rel=1e-6))


@given(PRIORS)
@settings(max_examples=40)
def test_quantiles_come_back(prior):
    family, a, b = prior
    back = families.of_quantiles(family, families.ppf(*prior, LEVELS))
    assert back == (pytest.approx(a, rel=1e-5, abs=1e-8), pytest.approx(b, rel=1e-5))


def test_quantiles_are_fitted_by_least_squares():
    """No step from the fit makes the squares less."""
    for family, values in (
        (NORMAL, [1.0, 4, 5, 7, 12]),
        (BETA, [0.02, 0.1, 0.2, 0.25, 0.6]),
        (BETA, [0, 0.5, 0.9, 0.99, 1]),
        (LOGNORMAL, [0.5, 1, 3, 4, 20]),
    ):
        compared = np.log if family == LOGNORMAL else np.array

        def squares(a, b, family=family, values=values, compared=compared):
            there = families.ppf(family, a, b, LEVELS)
            return float(((compared(there) - compared(values)) ** 2).sum())

        a, b = (float(one) for one in families.of_quantiles(family, values))
        least = squares(a, b)
        for step in (1.01, 0.99):
            assert least < squares(a * step, b) and least < squares(a, b * step)


def test_quantiles_and_moments_of_nothing():
    for family, values in (
        (NORMAL, [5, 4, 6, 7, 8]),
        (NORMAL, [5, 5, 5, 5, 5]),
        (NORMAL, [1, 2, 3, 4, math.nan]),
        (NORMAL, [1, 2, 3, 4, math.inf]),
        (BETA, [0.1, 0.2, 0.3, 0.4, 1.1]),
        (BETA, [-0.1, 0.2, 0.3, 0.4, 0.5]),
        (LOGNORMAL, [0, 1, 2, 3, 4]),
    ):
        assert np.isnan(families.of_quantiles(family, values)).all(), (family, values)
    for family, moments in (
        (NORMAL, [(1, 0), (1, -2), (math.nan, 1)]),
        (BETA, [(0.5, 0.5), (0.1, 0.31), (1.2, 0.1), (0.5, -0.1)]),
        (LOGNORMAL, [(0, 1), (-3, 1), (3, -1)]),
    ):
        assert np.isnan(families.of_moments(family, *np.transpose(moments))).all(), family


def test_what_is_a_distribution():
    found = families.is_valid(
        [NORMAL, NORMAL, BETA, BETA, BETA, LOGNORMAL, LOGNORMAL, LOGNORMAL, 3],
        [-1, 1, 0, 1, math.nan, -1, math.inf, 800, 1],
        [1, 0, 1, 1, 1, 1, 1, 1, 1],
    )
    assert found.tolist() == [True, False, False, True, False, True, False, False, False]
    assert len(families.FAMILIES) == 3


def test_many_at_once():
    family = np.array([[NORMAL, BETA], [LOGNORMAL, 7]])
    assert families.mean(family, 2.0, 3.0)[0] == pytest.approx([2, 0.4])
    assert np.isnan(families.mean(family, 2.0, 3.0)[1, 1])
    values = np.array([families.ppf(one, 2.0, 3.0, LEVELS) for one in range(3)])
    a, b = families.of_quantiles([0, 1, 2], values)
    assert a == pytest.approx([2, 2, 2]) and b == pytest.approx([3, 3, 3])


# CRPS.


TIGHT = {"epsabs": 1e-13, "epsrel": 1e-13, "limit": 500}


def integrated(cdf, y, low, high):
    """CRPS by its definition."""
    below, _ = integrate.quad(lambda x: cdf(x) ** 2, low, y, **TIGHT)
    above, _ = integrate.quad(lambda x: (1 - cdf(x)) ** 2, y, high, **TIGHT)
    return below + above


@given(
    st.one_of(
        st.tuples(st.just(NORMAL), st.floats(-3, 3), st.floats(0.05, 3)),
        st.tuples(st.just(BETA), st.floats(0.05, 60), st.floats(0.05, 60)),
        st.tuples(st.just(LOGNORMAL), st.floats(-2, 1), st.floats(0.05, 0.8)),
    ),
    st.floats(0.001, 0.999),
)
@settings(max_examples=40)
def test_closed_crps_is_the_integral(prior, u):
    family, known = prior[0], by_scipy(*prior)
    y = float(known.ppf(u))
    low = known.ppf(1e-16) if family == NORMAL else 0
    high = 1 if family == BETA else known.isf(1e-16)
    expected = integrated(lambda x: float(families.cdf(*prior, x)), y, low, high)
    assert crps(*prior, y) == pytest.approx(expected, abs=1e-10)


def test_crps_is_that_of_scoringrules():
    rules = pytest.importorskip("scoringrules")
    rng = np.random.default_rng(1)
    y, a, b = rng.uniform(size=300), rng.uniform(0.1, 200, 300), rng.uniform(0.1, 200, 300)
    assert crps(BETA, a, b, y) == pytest.approx(rules.crps_beta(y, a, b), abs=1e-10)
    y, m, s = rng.normal(size=300), rng.normal(size=300), rng.uniform(0.01, 5, 300)
    assert crps(NORMAL, m, s, y) == pytest.approx(rules.crps_normal(y, m, s), abs=1e-10)
    y, s = np.exp(y), s / 4
    found = rules.crps_lognormal(y, m, s)
    assert crps(LOGNORMAL, m, s, y) == pytest.approx(found, rel=1e-10, abs=1e-10)


def test_crps_of_a_very_sure_beta():
    """It is that of a normal, as it comes to be one; the usual formula gives NaN from 540 on."""
    for total in (600, 1e4, 1e5, 1e8, 1e12, 1e200):
        a, b = 0.3 * total, 0.7 * total
        sd = families.sd(BETA, a, b)
        for z in (-2, 0, 1):
            y = 0.3 + z * sd
            normal = pytest.approx(crps(NORMAL, 0.3, sd, y), rel=3 / total**0.5)
            assert crps(BETA, a, b, y) == normal
    # Two points, 0 and 1, nearly: their CRPS is sum p |x - y| - p (1 - p).
    assert crps(BETA, 1e-6, 3e-6, 0.4) == pytest.approx(0.25 * 0.6 + 0.75 * 0.4 - 0.1875, abs=1e-5)


def test_crps_at_the_edges():
    for y in (-0.5, 1.5):
        inside = crps(BETA, 2.0, 5.0, np.clip(y, 0, 1))
        assert crps(BETA, 2.0, 5.0, y) == pytest.approx(inside + 0.5)
    assert crps(LOGNORMAL, 0.0, 1.0, -2.0) == pytest.approx(2 + crps(LOGNORMAL, 0.0, 1.0, 0.0))
    # That of a point is its distance.
    assert crps(NORMAL, 3.0, 0.0, 5.0) == 2
    assert crps(NORMAL, 3.0, 0.0, 3.0) == 0
    assert np.isnan(crps(NORMAL, math.nan, 1.0, 0.0))


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=8), st.floats(-2, 10))
def test_crps_of_points_is_the_integral(masses, y):
    p = np.array(masses) / sum(masses)
    points = np.arange(len(p)) * 1.5
    # The integrand is constant between points and y.
    ends = np.unique([*points, y])
    middle = (ends[1:] + ends[:-1]) / 2
    reached = np.array([p[points <= x].sum() for x in middle])
    expected = ((reached - (middle >= y)) ** 2 * np.diff(ends)).sum()
    assert crps_of_points(points, p, y) == pytest.approx(expected, abs=1e-12)


# Posteriors.


def by_grid(prior, proportion, mean, variance, size):
    """The posterior's mean over a fixed grid of logarithms, a thousand times as fine."""
    t = np.linspace(-12, 0 if proportion else 12, 400_001)[:-1]
    x = np.exp(t)
    if proportion:
        told = special.xlogy(size * mean, x) + special.xlog1py(size * (1 - mean), -x)
    else:
        told = -size * (x - mean) ** 2 / (2 * variance)
    heights = t + by_scipy(*prior).logpdf(x) + told
    weight = np.exp(heights - heights.max())
    return (weight * x).sum() / weight.sum()


@given(
    st.floats(-1, 2),
    st.floats(0.05, 1),
    st.floats(-0.5, 8),
    st.floats(0.01, 20),
    st.sampled_from([5, 10, 20, 30]),
)
@settings(max_examples=5)
def test_lognormal_posterior_is_that_of_a_fixed_grid(mu, sigma, mean, variance, size):
    prior = (LOGNORMAL, mu, sigma)
    found = float(posterior_mean(*prior, False, mean, variance, size))
    assert found == pytest.approx(by_grid(prior, False, mean, variance, size), rel=1e-8)


def test_posteriors_of_other_families():
    """A chosen family need not be that of the answers."""
    for prior, proportion, mean in (
        ((LOGNORMAL, -1.0, 0.4), True, 0.3),
        ((NORMAL, 0.4, 0.2), True, 0.2),
        ((BETA, 3.0, 5.0), False, 0.7),
    ):
        found = float(posterior_mean(*prior, proportion, mean, 0.5, 10))
        assert found == pytest.approx(by_grid(prior, proportion, mean, 0.5, 10), rel=1e-6)


def test_posteriors_by_hand():
    # (s^2 m + n sd^2 y) / (s^2 + n sd^2) = (4 * 1 + 10 * 9 * 3) / (4 + 90)
    assert posterior_mean(NORMAL, 1.0, 3.0, False, 3.0, 4.0, 10) == pytest.approx(274 / 94)
    # (alpha + n y) / (alpha + beta + n)
    assert posterior_mean(BETA, 2.0, 3.0, True, 0.2, 0.16, 10) == pytest.approx(4 / 15)
    # The mean of answers that are all the same is known exactly, as far as the prior allows it.
    kinds = [NORMAL, LOGNORMAL, LOGNORMAL, BETA, BETA]
    means = np.array([-3.0, 2.0, -3.0, 0.5, 4.0])
    assert posterior_mean(kinds, 1, 1, False, means, 0, 5).tolist() == [-3, 2, 0, 0.5, 1]
    # Priors that were not read have none.
    assert np.isnan(posterior_mean([NORMAL, BETA], math.nan, 1.0, [False, True], 0.5, 0.2, 5)).all()


def test_a_lognormal_that_is_nearly_normal():
    """Narrow, it is one: mean 5, sd .05, so the update is that of a normal."""
    mu, sigma = families.of_moments(LOGNORMAL, 5.0, 0.005)
    found = float(posterior_mean(LOGNORMAL, mu, sigma, False, 5.02, 0.001, 10))
    normal = float(posterior_mean(NORMAL, 5.0, 0.005, False, 5.02, 0.001, 10))
    assert found == pytest.approx(normal, abs=1e-4)
    assert 5.0 < found < 5.02


def test_posteriors_of_the_baselines():
    drawn = Samples(*(np.full((2, 1, 1), one) for one in (0.4, 0.24, 5.0)))
    family, a, b = judged.of_baseline(np.array([True, False]), drawn)
    assert family.ravel().tolist() == [BETA, NORMAL]
    # Beta(1 + 2, 1 + 3), and a normal with the answers' mean and their standard error.
    assert (a[0, 0, 0], b[0, 0, 0]) == pytest.approx((3, 4))
    assert (a[1, 0, 0], b[1, 0, 0]) == pytest.approx((0.4, math.sqrt(0.24 / 5)))
