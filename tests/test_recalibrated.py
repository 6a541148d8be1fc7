"""Recalibration to the true P(Y): golden values, what it keeps, and an independent route."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of

from lm_eval_epidemia.benchmarks.observation.standardised import marginal, parts, recalibrate
from lm_eval_epidemia.core.distance import distance

EVEN = np.array([0.5, 0.5])


def test_golden_values():
    """Two groups of equal size, odds 1 and 1/9; with factor f on the first answer they are f, f/9.

    f/(1+f) + (f/9)/(1+f/9) = 2 m has, for m = 1/2, f = 3: 3/4 + 1/4 = 1.
    """
    q = np.array([[0.5, 0.5], [0.1, 0.9]])
    made = recalibrate(EVEN, q, np.array([0.5, 0.5]))
    np.testing.assert_allclose(made, [[0.75, 0.25], [0.25, 0.75]], atol=1e-9)
    p = np.array([[0.8, 0.2], [0.2, 0.8]])
    found = parts(EVEN, p, q)
    # |.8-.5| * 2 = .6 and |.2-.1| * 2 = .2: .4; P(Y) .5 against .3: .4; |.8-.75| * 2 in both: .1.
    np.testing.assert_allclose(found, [0.4, 0.4, 0.1], atol=1e-9)


def raked(weights, q, target):
    """Independent: iterative proportional fitting of the table P(x) q(y | x)."""
    table = weights[:, None] * q
    for _ in range(20_000):
        table = table * (target / table.sum(axis=0))
        table = table * (weights / table.sum(axis=1))[:, None]
    return table / weights[:, None]


def distributions(rows, columns):
    """Rows that sum to 1, none of them 0."""
    return of.arrays(float, (rows, columns), elements=st.floats(0.02, 1)).map(
        lambda a: a / a.sum(axis=1, keepdims=True)
    )


@settings(max_examples=40, deadline=None)
@given(distributions(4, 3), distributions(1, 4), distributions(1, 3))
def test_it_is_what_raking_converges_to(q, weights, target):
    made = recalibrate(weights[0], q, target[0])
    np.testing.assert_allclose(made, raked(weights[0], q, target[0]), atol=1e-8)
    np.testing.assert_allclose(marginal(weights[0], made), target[0], atol=1e-9)
    np.testing.assert_allclose(made.sum(axis=1), 1, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(distributions(5, 4), distributions(5, 4), distributions(1, 5))
def test_what_it_keeps(p, q, weights):
    w = weights[0]
    found = parts(w, p, q)
    # |sum_x w (p - q)| <= sum_x w |p - q|.
    assert found.marginal <= found.total + 1e-12
    made = recalibrate(w, q, marginal(w, p))
    odds = np.log(made[:, :1] / made) - np.log(q[:, :1] / q)
    np.testing.assert_allclose(odds, np.broadcast_to(odds[0], odds.shape), atol=1e-6)
    # Answers with the right P(Y) stay as they are; doing it twice changes nothing.
    np.testing.assert_allclose(recalibrate(w, p, marginal(w, p)), p, atol=1e-8)
    np.testing.assert_allclose(recalibrate(w, made, marginal(w, p)), made, atol=1e-8)


def test_answers_that_say_nothing_of_x_become_the_marginal():
    w = np.array([0.2, 0.3, 0.5])
    p = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    q = np.tile([0.013, 0.987], (3, 1))
    made = recalibrate(w, q, marginal(w, p))
    np.testing.assert_allclose(made, np.tile(marginal(w, p), (3, 1)), atol=1e-9)
    assert parts(w, p, q).conditional == pytest.approx(distance(w, p, marginal(w, p)))


@pytest.mark.parametrize("levels", [2, 3, 26])
@pytest.mark.parametrize("seed", range(5))
def test_answers_that_are_sure_of_themselves(levels, seed):
    """0 and 1 are allowed, for everybody too: whatever is said, P(Y) is met."""
    rng = np.random.default_rng(seed)
    w = rng.dirichlet(np.ones(7))
    q = np.eye(levels)[rng.integers(0, max(1, levels - 1), 7)]  # the last is said of nobody
    target = rng.dirichlet(np.ones(levels))
    made = recalibrate(w, q, target)
    assert np.isfinite(made).all() and (made >= 0).all()
    np.testing.assert_allclose(marginal(w, made), target, atol=1e-8)


def test_an_answer_that_nobody_gives_is_said_of_nobody():
    made = recalibrate(EVEN, np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]), np.array([0.4, 0.6, 0]))
    assert (made[:, 2] == 0).all()
    np.testing.assert_allclose(marginal(EVEN, made), [0.4, 0.6, 0], atol=1e-9)


def test_replicates_each_have_their_own_marginal():
    rng = np.random.default_rng(3)
    w, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(3), 6)
    at = rng.dirichlet(np.ones(3), (5, 6))
    found = parts(w, at, q)
    for b in range(5):
        np.testing.assert_allclose([part[b] for part in found], parts(w, at[b], q), atol=1e-12)


def test_an_exact_table_has_no_replicates_to_recalibrate():
    q = np.array([[0.5, 0.5], [0.1, 0.9]])
    assert recalibrate(EVEN, q, np.empty((0, 2))).shape == (0, 2, 2)
    assert parts(EVEN, np.empty((0, 2, 2)), q).total.shape == (0,)
