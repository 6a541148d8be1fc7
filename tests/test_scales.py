"""Other scales than L1: golden values, independent routes (scipy), and what must hold."""

import itertools
import math
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of
from scipy import stats
from scipy.spatial.distance import jensenshannon

from lm_eval_epidemia.ask.bounds import MOST_ANSWERS, _most_apart, bound_change
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import monte_carlo, scales

EPS = float(np.finfo(float).eps)
#: What two routes to a number may differ by. Each adds at most 30 products whose sizes sum to at
#: most 20 (log 5005 = 8.5, in the log score, is the largest factor), so each is off by at most
#: 30 eps 20 (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2). Rows sum
#: to 1 but for 5 eps, by which scipy divides: less than that again.
ROUNDING = 2 * 30 * 20 * EPS

P = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
Q = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])


def distributions(rows, columns):
    """Rows that sum to 1; what is 0 stays 0."""
    return of.arrays(float, (rows, columns), elements=st.sampled_from([0, 0.01, 0.2, 0.5, 1])).map(
        lambda a: (
            (a + (a.sum(axis=1, keepdims=True) == 0))
            / np.maximum((a + (a.sum(axis=1, keepdims=True) == 0)).sum(axis=1, keepdims=True), 1e-9)
        )
    )


def test_golden_values():
    # (.3 + .3) / 2, and everything at the wrong answer.
    np.testing.assert_allclose(scales.total_variation(P, Q), [0.3, 1])
    # From .5 .3 .2 to .2 .3 .5: .3 goes two steps of 1/2. From the middle to the end: one.
    np.testing.assert_allclose(scales.wasserstein(P, Q), [0.3, 0.5])
    # Without a common answer, one draw tells them apart: one bit.
    assert scales.jensen_shannon(P, Q)[1] == 1
    # n = 9: q' = (9 * .2 + 1/3) / 10 = .21333, .30333, .48333; and of an answer of 0, 1/30.
    expected = 0.5 * math.log(0.64 / 3) + 0.3 * math.log(0.91 / 3) + 0.2 * math.log(1.45 / 3)
    np.testing.assert_allclose(
        scales.log_score(P, Q, np.array([9, 9])), [expected, math.log(1 / 30)]
    )


@settings(max_examples=60)
@given(distributions(4, 5), distributions(4, 5))
def test_they_are_those_of_scipy(p, q):
    n = np.array([3.0, 10, 100, 1000])
    mixed = (n[:, None] * q + 0.2) / (n[:, None] + 1)
    places = np.arange(5) / 4
    for cell in range(4):
        one, other = p[cell], q[cell]
        assert scales.total_variation(p, q)[cell] == pytest.approx(np.abs(one - other).sum() / 2)
        # The square root of scipy's is of rounding's size, 1e-8, where the two are equal.
        assert scales.jensen_shannon(p, q)[cell] == pytest.approx(
            np.nan_to_num(jensenshannon(one, other, base=2)) ** 2, abs=ROUNDING
        )
        assert scales.wasserstein(p, q)[cell] == pytest.approx(
            stats.wasserstein_distance(places, places, one, other), abs=ROUNDING
        )
        cross = -stats.entropy(one) - stats.entropy(one, mixed[cell])
        assert scales.log_score(p, q, n)[cell] == pytest.approx(cross, abs=ROUNDING)


@settings(max_examples=60)
@given(distributions(3, 4), distributions(3, 4))
def test_what_holds_of_all(p, q):
    n = np.array([5.0, 50, 500])
    for scale in (scales.total_variation, scales.jensen_shannon, scales.wasserstein):
        np.testing.assert_allclose(scale(p, q), scale(q, p), rtol=0, atol=ROUNDING)
        assert (scale(p, p) == 0).all()
        assert ((scale(p, q) >= 0) & (scale(p, q) <= 1 + ROUNDING)).all()
    assert (scales.wasserstein(p, q) <= scales.total_variation(p, q) + ROUNDING).all()
    # Of what is mixed alike, none scores higher than the truth by more than the mixture bends.
    assert (scales.log_score(p, q, n) <= scales.log_score(p, p, n) + np.log1p(4 / n)).all()
    np.testing.assert_allclose(scales.log_score(p[None], q, n)[0], scales.log_score(p, q, n))


def test_of_two_answers_wasserstein_is_the_total_variation():
    p, q = np.array([[0.2, 0.8]]), np.array([[0.7, 0.3]])
    assert scales.wasserstein(p, q) == pytest.approx(scales.total_variation(p, q))


def test_replicates_that_miss_0_by_a_step():
    """They are stored in steps, so that a share of 0 can be -2e-5."""
    p = np.array([[[1.00002, -0.00002]]])
    assert np.isfinite(scales.jensen_shannon(p, np.array([[0.5, 0.5]]))).all()


def test_ranks_are_spearmans():
    rng = np.random.default_rng(5)
    p, q = rng.dirichlet(np.ones(3), 12), rng.dirichlet(np.ones(3), 12)
    q[3] = q[4]  # a tie
    each = [stats.spearmanr(p[:, k], q[:, k]).statistic for k in range(3)]
    assert scales.rank_agreement(p, q) == pytest.approx(np.mean(each))
    two = np.stack([p[:, 0], 1 - p[:, 0]], axis=1), np.stack([q[:, 0], 1 - q[:, 0]], axis=1)
    assert scales.rank_agreement(*two) == pytest.approx(each[0])
    np.testing.assert_allclose(scales.rank_agreement(np.stack([p, q]), q), [np.mean(each), 1])


def test_who_says_the_same_of_everybody_agrees_with_no_order():
    p = np.random.default_rng(1).dirichlet(np.ones(2), 6)
    # As letters give it: the same but for rounding.
    same = np.tile([0.3, 0.7], (6, 1)) + 1e-12 * np.arange(6)[:, None] * [1, -1]
    assert scales.rank_agreement(p, same) == 0
    assert math.isnan(scales.rank_agreement(p[:1], same[:1]))


def test_the_last_digit_of_printed_tables():
    percent = np.array([[0.123, 0.877], [0.5, 0.5]])
    np.testing.assert_array_equal(scales.resolution(percent), [1000, 1000])
    counts = np.array([[7, 5], [6_000_000, 454_889]])
    np.testing.assert_array_equal(
        scales.resolution(counts / counts.sum(axis=1, keepdims=True)), [12, 6_454_889]
    )
    np.testing.assert_array_equal(scales.fill_sizes(percent, np.array([np.inf, 80])), [1000, 80])
    # As printed: Table 42 of the FBI has the number of all arrests, Table 11 of BLS per cents.
    fbi, bls = (
        store.load_truth(f"epidemia_low_{name}")
        for name in ("fbi_sex_by_offense", "bls_sex_by_occupation")
    )
    for cell, n in itertools.islice(enumerate(scales.resolution(fbi.p)), 5):
        # A share a / n and its product with n are rounded once each, by eps / 2 of a at most.
        people = fbi.p[cell] * n
        np.testing.assert_allclose(people, np.rint(people), rtol=0, atol=EPS * n)
    assert set(scales.resolution(bls.p)) == {1000}


# The distance of a distribution of which only random answers are known.


def test_the_jackknife_by_hand():
    """One cell, p = (1/4, 3/4), 8 answers of which 3 are the first.

    All: 2 |3/8 - 1/4| = 0.25. Of 4 among the 8, x are the first with probability
    C(3, x) C(5, 4 - x) / C(8, 4) = 5, 30, 30, 5 of 70 for x = 0..3; their distances are
    2 |x/4 - 1/4| = 0.5, 0, 0.5, 1, in the mean (2.5 + 0 + 15 + 5) / 70 = 22.5 / 70.
    Twice the first less the second: 0.5 - 0.3214... = 0.17857...
    """
    distances = monte_carlo.distances(np.array([[0.25, 0.75]]), np.array([[3, 5, 0]]))
    assert distances == pytest.approx([0.5 - 22.5 / 70])


@pytest.mark.parametrize(("n", "m"), [(8, 4), (9, 4), (25, 12), (200, 100)])
def test_subsamples_are_hypergeometric(n, m):
    from scipy.stats import hypergeom

    weights = monte_carlo.subsample_weights(n, m)
    for c in (0, 1, n // 3, n):
        assert weights[c] == pytest.approx(hypergeom(n, c, m).pmf(np.arange(m + 1)), abs=1e-12)
    assert weights.sum(axis=1) == pytest.approx(1)


def test_three_levels_against_every_half_of_the_answers():
    """The independent route: all C(10, 5) halves of ten answers, none left out."""
    p = np.array([[0.5, 0.2, 0.3]])
    answers = [0, 0, 0, 1, 1, 2, 2, 2, 2, 0]
    counts = np.array([[4, 2, 4, 0]])

    def plain(chosen):
        shares = np.bincount(chosen, minlength=3) / len(chosen)
        return abs(shares - p[0]).sum()

    halves = [plain([answers[i] for i in h]) for h in itertools.combinations(range(10), 5)]
    assert len(halves) == comb(10, 5)
    expected = 2 * plain(answers) - np.mean(halves)
    assert monte_carlo.distances(p, counts) == pytest.approx([expected])


def test_answers_that_cannot_be_read_count_as_uniform():
    """5 of 10 not read: shares (5/2 + c)/10, so |q - p| is half of |c/5 - p'|; n = 5 is plain."""
    p = np.array([[0.25, 0.75]])
    distances = monte_carlo.distances(p, np.array([[1, 4, 5]]))
    assert distances == pytest.approx([2 * abs((1 + 2.5) / 10 - 0.25)])
    # Nobody read: the uniform distribution.
    assert monte_carlo.distances(p, np.array([[0, 0, 10]])) == pytest.approx([0.5])
    # 8 of 16 read, as in the jackknife by hand about p' = (p - 1/4) / (1/2) = (0.25, 0.75).
    shifted = np.array([[0.375, 0.625]])
    distances = monte_carlo.distances(shifted, np.array([[3, 5, 8]]))
    assert distances == pytest.approx([0.5 * (0.5 - 22.5 / 70)])


@given(st.integers(0, 2**32 - 1), st.integers(8, 60), st.integers(2, 5))
def test_relabelling_levels_and_reordering_cells_changes_nothing(seed, n, levels):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(levels), (2, 4))
    counts = np.column_stack([rng.multinomial(n, q), rng.integers(0, 3, 4)])
    distances = monte_carlo.distances(p, counts)
    order, cells = rng.permutation(levels), rng.permutation(4)
    again = monte_carlo.distances(p[cells][:, order], counts[cells][:, [*order, levels]])
    assert again == pytest.approx(distances[cells], abs=1e-9)
    # Draws along a leading axis are looked up as they would be one by one.
    many = monte_carlo.distances(p, np.stack([counts, counts]))
    assert (many == distances).all()
    # At most the plain distance: halves are further away.
    shares = (
        counts[:, :-1] / counts.sum(1)[:, None]
        + counts[:, -1:] / counts.sum(1, keepdims=True) / levels
    )
    assert (distances <= abs(shares - p).sum(axis=1) + 1e-9).all()


@pytest.mark.parametrize("n", [25, 100])
def test_the_excess_is_gone_where_cells_lie_at_all_distances(n):
    """4,000 cells, normal noise on the log-odds: the plain distance is off, the estimate is not."""
    rng = np.random.default_rng(1)
    first = rng.uniform(0.1, 0.9, 4000)
    logit = np.log(first / (1 - first)) + rng.normal(0, 1, first.size)
    p, q = (np.column_stack([x, 1 - x]) for x in (first, 1 / (1 + np.exp(-logit))))
    counts = np.column_stack([rng.multinomial(n, q), np.zeros(len(p), dtype=int)])
    true, distances = abs(p - q).sum(axis=1).mean(), monte_carlo.distances(p, counts).mean()
    plain = abs(counts[:, :2] / n - p).sum(axis=1).mean()
    error = monte_carlo.distances(p, counts).std() / np.sqrt(len(p))
    assert plain - true > 4 * abs(distances - true)
    assert abs(distances - true) < 3 * error


def test_draws_of_the_answers_have_the_multinomial_spread():
    counts = np.array([[30, 70, 0], [0, 0, 50], [10, 10, 5]])
    drawn = monte_carlo.draw_counts(counts, 4000)
    assert drawn.shape == (4000, 3, 3)
    assert (drawn.sum(axis=2) == counts.sum(axis=1)).all()
    assert (drawn[:, :, 2] == counts[:, 2]).all()
    assert drawn[:, 0, 0].std() == pytest.approx(np.sqrt(100 * 0.3 * 0.7), rel=0.05)
    assert (drawn[:, 1, :2] == 0).all()
    assert drawn[:, 2, 0].mean() == pytest.approx(10, rel=0.02)


# How far a distribution may be off whose masses are known between bounds only.


def shares_of(masses):
    return masses / masses.sum(axis=-1, keepdims=True)


def some_bounds(seed, several, answers):
    """Bounds as servers give them: some letters known, some shown in part, some not at all."""
    rng = np.random.default_rng(seed)
    low = rng.exponential(size=(several, answers)) * rng.choice([0, 1e-4, 1], (several, answers))
    high = low + rng.exponential(size=low.shape) * rng.choice([0, 0.01, 1], (several, 1))
    high[:, 0] += 0.01  # of something there is mass
    return shares_of(low + rng.random(low.shape) * (high - low)), low, high, rng


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 8))
def test_no_masses_within_the_bounds_move_it_more(seed, several, answers):
    p, low, high, rng = some_bounds(seed, several, answers)
    bound = bound_change(p, low, high)
    # Most of the way to a corner, where the farthest are.
    at = rng.random((10_000, 1, 1)) ** rng.choice([-1, 1], (10_000, several, answers))
    true = shares_of(low + np.minimum(at, 1) * (high - low))
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
    farthest = np.abs(shares_of(corners) - p).sum(axis=1).max()
    assert bound_change(p, low, high) == pytest.approx(farthest, abs=1e-12)


def test_in_several_orders_the_same_answers_have_more():
    """Two orders of two answers, in each of which the second letter may have nothing."""
    low = np.array([[0.6, 0.0], [0.0, 0.6]])
    high = np.array([[0.6, 0.1], [0.1, 0.6]])
    # (6/7, 1/7) and (1/7, 6/7); if one is (1, 0) instead, the mean moves by 1/14 either way.
    assert bound_change(shares_of(high), low, high) == pytest.approx(1 / 7)
    assert _most_apart(shares_of(high), low, high).mean() == pytest.approx(2 / 7)


def test_of_many_answers_the_bound_is_answer_by_answer():
    for answers in (MOST_ANSWERS, MOST_ANSWERS + 1):
        p, low, high, _ = some_bounds(5, 3, answers)
        loose = _most_apart(p, low, high).mean()
        found = bound_change(p, low, high)
        assert found < loose if answers == MOST_ANSWERS else found == loose


def test_masses_that_are_known_move_nothing():
    p = np.array([[[0.1, 0.2, 0.7]] * 2] * 3)
    assert bound_change(p, p, p).tolist() == [0, 0, 0]
    assert bound_change(p, 0 * p, 0 * p).tolist() == [0, 0, 0]


def test_of_many_answers_a_share_can_be_anything_where_nothing_need_have_mass():
    p = np.eye(MOST_ANSWERS + 1)[:1]
    assert bound_change(p, 0 * p, 0.1 * p) == 2
