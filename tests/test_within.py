"""How far a distribution may be off whose masses are known between bounds only."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_epidemia.ask.within import MOST_ANSWERS, _most_apart, most_moved


def of(masses):
    return masses / masses.sum(axis=-1, keepdims=True)


def some_bounds(seed, several, answers):
    """Bounds as servers give them: some letters known, some shown in part, some not at all."""
    rng = np.random.default_rng(seed)
    low = rng.exponential(size=(several, answers)) * rng.choice([0, 1e-4, 1], (several, answers))
    high = low + rng.exponential(size=low.shape) * rng.choice([0, 0.01, 1], (several, 1))
    high[:, 0] += 0.01  # of something there is mass
    return of(low + rng.random(low.shape) * (high - low)), low, high, rng


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 8))
def test_no_masses_within_the_bounds_move_it_more(seed, several, answers):
    p, low, high, rng = some_bounds(seed, several, answers)
    bound = most_moved(p, low, high)
    # Most of the way to a corner, where the farthest are.
    at = rng.random((10_000, 1, 1)) ** rng.choice([-1, 1], (10_000, several, answers))
    true = of(low + np.minimum(at, 1) * (high - low))
    apart = np.abs(true.mean(axis=1) - p.mean(axis=0)).sum(axis=-1)
    assert apart.max() <= bound + 1e-12
    assert bound <= _most_apart(p, low, high).mean() + 1e-12


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
def test_some_masses_move_it_as_much(seed, answers):
    """All corners of the bounds, tried one by one."""
    p, low, high, _ = some_bounds(seed, 1, answers)
    corners = np.where(np.array(list(product([False, True], repeat=answers))), high, low)
    corners = corners[corners.sum(axis=1) > 0]
    farthest = np.abs(of(corners) - p).sum(axis=1).max()
    assert most_moved(p, low, high) == pytest.approx(farthest, abs=1e-12)


def test_in_several_orders_the_same_answers_have_more():
    """Two orders of two answers, in each of which the second letter may have nothing."""
    low = np.array([[0.6, 0.0], [0.0, 0.6]])
    high = np.array([[0.6, 0.1], [0.1, 0.6]])
    # (6/7, 1/7) and (1/7, 6/7); if one is (1, 0) instead, the mean moves by 1/14 either way.
    assert most_moved(of(high), low, high) == pytest.approx(1 / 7)
    assert _most_apart(of(high), low, high).mean() == pytest.approx(2 / 7)


def test_of_many_answers_the_bound_is_answer_by_answer():
    for answers in (MOST_ANSWERS, MOST_ANSWERS + 1):
        p, low, high, _ = some_bounds(5, 3, answers)
        loose = _most_apart(p, low, high).mean()
        found = most_moved(p, low, high)
        assert found < loose if answers == MOST_ANSWERS else found == loose


def test_masses_that_are_known_move_nothing():
    p = np.array([[[0.1, 0.2, 0.7]] * 2] * 3)
    assert most_moved(p, p, p).tolist() == [0, 0, 0]
    assert most_moved(p, 0 * p, 0 * p).tolist() == [0, 0, 0]


def test_of_many_answers_a_share_can_be_anything_where_nothing_need_have_mass():
    p = np.eye(MOST_ANSWERS + 1)[:1]
    assert most_moved(p, 0 * p, 0.1 * p) == 2
