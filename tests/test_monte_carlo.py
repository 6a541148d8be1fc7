"""The distance of a distribution of which only random answers are known."""

import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_epidemia.score import monte_carlo


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
