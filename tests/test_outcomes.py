"""Tests over outcomes: CR2 and Satterthwaite's degrees of freedom, the prior, the moderated t."""

import math

import numpy as np
import pytest
from scipy import integrate, linalg, stats

from lm_eval_epidemia.score import outcomes


def prior_of(variances, freedom):
    logs = np.log(variances)
    return outcomes.Prior(*map(float, outcomes.priors_from(logs.mean(), logs.var(ddof=1), freedom)))


#: Tasks by outcome: those of `epidemia_joint`, of low and high together, equal ones, two.
LAYOUTS = [(3, 2, 2, 1, 1), (13, 13, 13, 14, 5, 3, 1, 1), (4, 4, 4, 4), (5, 1)]


@pytest.mark.parametrize("sizes", LAYOUTS)
def test_cr2_and_its_freedom_are_those_of_the_matrices(sizes):
    """Bell and McCaffrey as they define it: A_g by matrix square root, P from all of I - H."""
    clusters = np.repeat(range(len(sizes)), sizes)
    tasks = len(clusters)
    values = np.random.default_rng(1).normal(size=tasks)
    ones = np.ones((tasks, 1))
    rest = np.eye(tasks) - ones @ ones.T / tasks
    terms, vectors = [], []
    for g in range(len(sizes)):
        at = clusters == g
        adjusted = linalg.inv(linalg.sqrtm(rest[np.ix_(at, at)]).real)
        terms.append((ones[at].T @ adjusted @ (rest @ values)[at] / tasks).item())
        vectors.append(rest[:, at] @ adjusted @ ones[at].ravel() / tasks)
    p = np.array(vectors) @ np.array(vectors).T
    found = outcomes.clustered(values, clusters)
    assert found.mean == pytest.approx(values.mean())
    assert found.error == pytest.approx(math.sqrt(sum(x * x for x in terms)))
    assert found.freedom == pytest.approx(np.trace(p) ** 2 / np.trace(p @ p))


def test_cr2_by_hand():
    """Two clusters of 1 and 3 tasks with values 4; 0, 1, 3: mean 2, sums of deviations 2 and -2.

    Variance: (2^2 / (1 - 1/4) + 2^2 / (1 - 3/4)) / 16 = (16/3 + 16) / 16 = 4/3. Freedom: 16 / (1 +
    9 + 2 * 1 * 9 / (3 * 1)) = 1.
    """
    found = outcomes.clustered([4.0, 0.0, 1.0, 3.0], "abbb")
    assert found == pytest.approx((2.0, math.sqrt(4 / 3), 1.0))
    # t(0.975, 1) = 12.7062.
    assert found.reach(0.95) == pytest.approx(12.7062 * math.sqrt(4 / 3), rel=1e-5)


def test_equal_clusters_are_a_t_test_of_their_means():
    values = np.random.default_rng(2).normal(size=12)
    found = outcomes.clustered(values, np.tile(range(4), 3))
    means = values.reshape(3, 4).mean(axis=0)
    assert found == pytest.approx((means.mean(), stats.sem(means), 3.0))
    alone = outcomes.clustered([1.0, 2.0], "aa")
    assert alone.mean == 1.5 and math.isnan(alone.error) and math.isnan(alone.reach(0.95))
    assert alone.freedom == 0


def test_the_variance_is_unbiased_for_independent_tasks():
    """E sum_g (c_g S_g / T)^2 = v / T: 20,000 draws, so a mean square is known to 1 %."""
    layout = outcomes.Layout(np.repeat(range(5), (3, 2, 2, 1, 1)))
    values = np.random.default_rng(3).normal(size=(20_000, 9))
    squares = (layout.residuals(values) ** 2).sum(axis=1)
    assert squares.mean() == pytest.approx(1 / 9, rel=4 * squares.std() / squares.mean() / 141)
    # And the chi-square that has its two moments has `freedom` degrees of freedom.
    assert 2 * squares.mean() ** 2 / squares.var() == pytest.approx(layout.freedom, rel=0.1)


def test_the_prior_has_the_moments_of_the_variances():
    """Integrals over the density of scipy's F, not the polygamma functions that the fit solves."""
    freedom = 3.0
    variances = 2.5 * stats.f(freedom, 6).rvs(40, random_state=4)
    prior = prior_of(variances, freedom)
    density = stats.f(freedom, prior.freedom).pdf

    def moment(power, center=0.0):
        def of(x):
            return (x - center) ** power * density(math.exp(x)) * math.exp(x)

        return integrate.quad(of, -40, 40, points=[0.0], limit=400)[0]

    logs, middle = np.log(variances), moment(1)
    assert math.log(prior.variance) + middle == pytest.approx(logs.mean(), abs=1e-6)
    assert moment(2, middle) == pytest.approx(logs.var(ddof=1), abs=1e-6)


def test_variances_that_differ_by_chance_alone_have_one_value():
    """Their logarithms vary less than those of a chi-square: trigamma(3/2) = 0.935."""
    prior = prior_of([1.0, 1.1, 0.9], 3.0)
    assert prior.freedom == math.inf
    # A chi-square of 3 over 3 has E log = digamma(1.5) - log(1.5) = 0.03649 - 0.40547 = -0.36898.
    expected = math.exp(np.log([1.0, 1.1, 0.9]).mean() + 0.36898)
    assert prior.variance == pytest.approx(expected, rel=1e-5)


def test_a_moderated_error_lies_between_its_own_and_the_prior():
    """(6 * 4 + 3 * 1) / 9 = 3 with 9 degrees of freedom."""
    own = outcomes.Clustered(1.0, 1.0, 3.0)
    assert outcomes.moderated(own, outcomes.Prior(6.0, 4.0)) == pytest.approx(
        (1.0, math.sqrt(3), 9.0)
    )
    assert outcomes.moderated(own, outcomes.Prior(6.0, 4.0), most=5.0).freedom == 5.0
    assert outcomes.moderated(own, outcomes.Prior(math.inf, 4.0), most=18.0) == (1.0, 2.0, 18.0)
