"""The scale: golden values with their derivation, and the properties that must hold."""

from math import factorial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from lm_eval_epidemia.ask.orderings import orderings
from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks.observation import letters
from lm_eval_epidemia.benchmarks.observation.measured import Measured, Part
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import cut_noise, joint_error
from lm_eval_epidemia.score.score import answer_marginal, answer_uniformly, zero_one


def distributions(cells, levels):
    """Rows that sum to 1, zeros included."""
    positive = arrays(float, (cells, levels), elements=st.floats(0, 1))
    return positive.map(lambda a: (a + 1e-6 * (a.sum(1, keepdims=True) == 0)) + 0).map(
        lambda a: a / a.sum(1, keepdims=True)
    )


@st.composite
def problems(draw, answers=1):
    """(weights, p, q, ...) of one task with random numbers of cells and levels."""
    cells, levels = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    raw = draw(arrays(float, cells, elements=st.floats(0.01, 1)))
    return (raw / raw.sum(), *(draw(distributions(cells, levels)) for _ in range(answers + 1)))


def test_golden_distance_and_score():
    # Two cells of share 0.25 and 0.75; truth (0.2, 0.8) and (0.6, 0.4).
    weights, p = np.array([0.25, 0.75]), np.array([[0.2, 0.8], [0.6, 0.4]])
    # Uniform: 0.25 * (0.3 + 0.3) + 0.75 * (0.1 + 0.1) = 0.15 + 0.15 = 0.30
    assert distance(weights, p, answer_uniformly(p)) == pytest.approx(0.30)
    # P(Y = 0) = 0.05 + 0.45 = 0.5, a tie, so the first level: (1, 0) for everyone:
    # 0.25 * (0.8 + 0.8) + 0.75 * (0.4 + 0.4) = 0.4 + 0.6 = 1.0
    assert distance(weights, p, zero_one(weights, p)) == pytest.approx(1.0)
    # Mean answers (0.5, 0.5): the same as uniform here.
    assert distance(weights, p, answer_marginal(weights, p)) == pytest.approx(0.30)
    found = scoring.anchors(weights, p, perfect=0.05)
    assert found == pytest.approx((0.30, 1.0, 0.30, 0.05, 0.0))
    assert found.zero == pytest.approx(0.30)
    # D = 0.1: 100 * (0.30 - 0.1) / (0.30 - 0.05) = 80
    assert scoring.scale_distance(0.1, found.zero, found.perfect) == pytest.approx(80.0)


def test_the_zero_of_a_binary_task_is_the_better_ignorant_answer():
    # Rare in every cell: "no" for everyone (D = 0.2) beats 1/2 (D = 0.8).
    weights, p = np.array([1.0]), np.array([[0.1, 0.9]])
    assert scoring.anchors(weights, p, 0.0).zero == pytest.approx(0.2)
    # With three levels there is no 0/1 answer, and 1/3 is the zero.
    p = np.array([[0.1, 0.1, 0.8]])
    found = scoring.anchors(weights, p, 0.0)
    assert np.isnan(found.zero_one)
    assert found.zero == pytest.approx(2 * (1 / 3 - 0.1) + 0.8 - 1 / 3)


def test_an_uninformative_task_scores_all_or_nothing():
    # D_zero <= D_perfect: the survey cannot tell the ends of the scale apart.
    assert scoring.scale_distance(0.02, zero=0.03, perfect=0.04) == 100
    assert scoring.scale_distance(0.05, zero=0.03, perfect=0.04) == 0
    assert not scoring.Anchors(0.03, 0.5, 0.1, 0.04).informative


@given(problems())
def test_distance_is_between_0_and_2_and_0_only_for_equals(problem):
    weights, p, q = problem
    d = float(distance(weights, p, q))
    assert 0 <= d <= 2 + 1e-12
    assert float(distance(weights, p, p)) == 0
    assert (d == 0) == bool((p == q).all())


@given(problems(), st.randoms(use_true_random=False))
def test_distance_does_not_depend_on_the_order_of_levels_or_cells(problem, random):
    weights, p, q = problem
    levels, cells = list(range(p.shape[1])), list(range(p.shape[0]))
    random.shuffle(levels)
    random.shuffle(cells)
    shuffled = distance(weights[cells], p[cells][:, levels], q[cells][:, levels])
    assert shuffled == pytest.approx(distance(weights, p, q), abs=1e-12)


@given(problems(), st.floats(0, 0.5))
def test_splitting_a_cell_in_two_equal_halves_changes_nothing(problem, perfect):
    weights, p, q = problem
    halves = np.concatenate([weights[:1] / 2, weights[:1] / 2, weights[1:]])
    twice = [np.concatenate([a[:1], a]) for a in (p, q)]
    assert distance(halves, *twice) == pytest.approx(distance(weights, p, q), abs=1e-12)
    split = scoring.anchors(halves, twice[0], perfect)
    assert split == pytest.approx(scoring.anchors(weights, p, perfect), abs=1e-12, nan_ok=True)


@given(problems(), st.floats(0, 0.5))
def test_truth_scores_100_and_ignorance_0(problem, perfect):
    weights, p, _ = problem
    anchors = scoring.anchors(weights, p, perfect)
    assert anchors.score(distance(weights, p, p)) == 100
    if anchors.informative:
        ignorant = [answer_uniformly(p), *([zero_one(weights, p)] if p.shape[1] == 2 else [])]
        for q in ignorant:
            assert anchors.score(distance(weights, q, p)) == pytest.approx(0, abs=1e-9)


@given(st.lists(st.floats(0, 2), min_size=2, max_size=8), st.floats(0.001, 2), st.floats(0, 0.5))
def test_score_is_between_0_and_100_and_falls_with_distance(distances, zero, perfect):
    scores = scoring.scale_distance(np.sort(distances), zero, perfect)
    assert ((scores >= 0) & (scores <= 100)).all()
    assert (np.diff(scores) <= 1e-9).all()


@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_orderings_are_undone_whichever_comes_first(levels, random):
    """A fair reader gives the same distribution under every ordering, in any sequence."""
    rng = np.random.default_rng(levels)
    p = rng.dirichlet(np.ones(levels))
    orders = list(orderings(levels))
    random.shuffle(orders)
    orders = np.array(orders)
    displayed = p[orders]
    found = letters.by_level(displayed[None], orders)
    assert np.allclose(found, p)
    # And a biased reader's average does not depend on the sequence.
    biased = displayed * np.linspace(1, 2, levels)
    average = letters.by_level(biased, orders).mean(axis=0)
    again = letters.by_level(biased[::-1], orders[::-1]).mean(axis=0)
    assert np.allclose(average, again)


def test_softmax_and_order_bias():
    assert np.allclose(letters.softmax(np.array([-1e4, -1e4])), 0.5)
    assert np.allclose(letters.softmax(np.array([0.0, -1e4])), [1, 0])
    fair, always_first = [[0.2, 0.8], [0.8, 0.2]], [[1.0, 0.0, 0.0]] * 6
    for displayed, bias in ((fair, 0), (always_first, 1 - 1 / 3)):
        assert letters.uniform_distance(np.mean(displayed, axis=0)) == pytest.approx(bias)


@given(problems(answers=3))
def test_the_zero_of_several_truths_is_that_of_each(problem):
    weights, *truths = problem
    found = scoring.zero_distance(weights, np.array(truths))
    each = [scoring.anchors(weights, p, 0.0).zero for p in truths]
    assert found == pytest.approx(each, abs=1e-12)


def test_the_scale_against_the_population_goes_on_beyond_its_ends():
    # D = 0.1 of D_zero = 0.4: 75; 0.5 of 0.4: -25; -0.02 of 0.4: 105. Without a width: 100 or 0.
    d, zero = np.array([0.1, 0.5, -0.02, 0.0, 0.1]), np.array([0.4, 0.4, 0.4, 0.0, 0.0])
    assert scoring.position(d, zero) == pytest.approx([75, -25, 105, 100, 0])


def drawn_truth(p, draws, size=4000.0, seed=1):
    """Replicates of one binary cell: what a simple random sample of `size` might have found."""
    found = np.random.default_rng(seed).binomial(int(size), p, size=draws) / size
    return np.stack([found, 1 - found], axis=-1)[:, None, :]


def test_an_answer_is_worth_so_many_interviews():
    """1,000 people, 250 in one cell: the mean distance of binomial shares, summed exactly.

    A normal share's is within 1 % of it here. With a survey of as many, errors are sqrt(2) larger.
    """
    weights, p = np.array([0.25, 0.75]), np.array([[0.2, 0.8], [0.6, 0.4]])
    off = 0.0
    for n, w, yes in zip((250, 750), weights, p[:, 0], strict=True):
        k = np.arange(n + 1)
        off += w * 2 * stats.binom.pmf(k, n, yes) @ abs(k / n - yes)
    exact, same = np.full(2, np.inf), 1000 * weights
    assert scoring.count_interviews(weights, p, exact, off) == pytest.approx(1000, rel=0.02)
    noisy = np.sqrt(2) * off
    assert scoring.count_interviews(weights, p, same, noisy) == pytest.approx(1000, rel=0.04)
    ends = [scoring.count_interviews(weights, p, same, d) for d in (0.0, 2.0, np.nan)]
    assert ends == pytest.approx([scoring.MOST_INTERVIEWS, 1, np.nan], nan_ok=True)


def test_sampling_error_matches_the_closed_form():
    """One binary cell far from every boundary: S = 100 (D0 - |2 dp|...) is linear in p.

    Truth p = 0.7 with n = 4,000, answer q = 0.6, D_perfect = 0. D_uniform = 2 |p - 0.5| = 0.4,
    D_zero_one = 2 (1 - p) = 0.6, so D_zero = 2 (p - 0.5) and D = 2 (p - 0.6):
    S = 100 * 0.1 / (p - 0.5), dS/dp = -10 / (p - 0.5)^2 = -250 at p = 0.7.
    se(p) = sqrt(0.7 * 0.3 / 4000) = 0.007246, so se(S) = 1.811 to first order.
    """
    weights, p, q = np.array([1.0]), np.array([[0.7, 0.3]]), np.array([[0.6, 0.4]])
    part = of_truth(weights, p, drawn_truth(0.7, 2000))
    found = Measured(part, Elicited(q))
    for draws in (found.score_draws, found.score_population_draws):
        assert joint_error([draws]) == pytest.approx(1.811, rel=0.06)  # 2000 draws: 1.6 %
    # Far from the truth nothing folds: no bias, the same score.
    assert found.score == pytest.approx(50)
    assert found.score_population == pytest.approx(50, abs=0.5)


@pytest.mark.parametrize(("q", "at_the_floor"), [(0.05, True), (0.55, False)])
def test_orderings_add_no_error_to_a_number_that_is_cut_off(q, at_the_floor):
    """Three of six orderings of three answers, .04 apart, in a cell of P = .6, .2, .2.

    An answer of .05 for the first is further off than 1/3: 0 in every ordering.
    """
    p = np.array([[0.6, 0.2, 0.2]])
    noise = np.array([0.04, 0.0, -0.04])
    by_order = np.array([[[q + e, (1 - q - e) / 2, (1 - q - e) / 2] for e in noise]])
    replicates = p + np.linspace(-0.05, 0.05, 100)[:, None, None] * [1, -0.5, -0.5]
    part = of_truth(np.array([1.0]), p, replicates)
    measured = Measured(part, Elicited(by_order.mean(axis=1), by_order))
    for value, draws in (
        (measured.score, measured.score_draws),
        (measured.score_population, measured.score_population_draws),
    ):
        assert (value == 0) == at_the_floor
        assert (draws.asking == 0) == at_the_floor


def test_a_distance_loses_what_sampling_error_adds():
    """q = p of the population, 0.5; the survey is a draw of 400 with se 0.025.

    E|p_hat - 0.5| * 2 = 2 * 0.025 * sqrt(2 / pi) = 0.0399. Over surveys, the mean of l1 is that.
    That of l1_population is 0 but for its spread, as long, over the root of 300 surveys.
    """
    weights, q = np.array([1.0]), np.array([[0.5, 0.5]])
    plain, corrected = [], []
    for survey in drawn_truth(0.5, 300, size=400):
        again = drawn_truth(survey[0, 0], 200, size=400, seed=int(survey[0, 0] * 400))
        found = Measured(of_truth(weights, survey, again), Elicited(q))
        plain.append(found.l1)
        corrected.append(found.l1_population)
    assert np.mean(plain) == pytest.approx(0.0399, rel=0.15)
    assert abs(np.mean(corrected)) < 0.2 * np.mean(plain)


def test_noise_is_taken_off_at_every_distance():
    """400 cells whose errors have the sd s = 0.03; q is off by d, the distance 2 mean |d|.

    At the truth l1 is D0 = 2 s sqrt(2 / pi) = 0.0479, known to 2 s * 0.603 / 20 = 0.0018; x = 2 D^2
    - D'^2 to about 1.5 * 2 D0 * 0.0018 = 0.00026, its root, which may be negative, to 0.016. With d
    as large as the noise the root of x is D0 again, and known to about 0.004; all to one side, to
    2 s / 20 = 0.003. Limits are three of these; l1 itself misses the first two by 0.048 and 0.020.
    """
    rng, s = np.random.default_rng(5), 0.03
    weights, true = np.full(400, 1 / 400), np.full(400, 0.7)
    survey = true + s * rng.standard_normal(400)
    again = survey + s * rng.standard_normal((200, 400))
    p, replicates = (np.stack([at, 1 - at], axis=-1) for at in (survey, again))
    part = of_truth(weights, p, replicates)
    for d, limit in ((0 * true, 0.048), (s * rng.standard_normal(400), 0.012), (0.1, 0.009)):
        q = np.stack([true + d, 1 - true - d], axis=-1)
        found = Measured(part, Elicited(q))
        distance = 2 * float(np.mean(np.abs(d)))
        assert abs(found.l1_population - distance) < limit
        assert abs(found.score_population_uncut - 100 * (1 - distance / part.zero_population)) < (
            100 * limit / part.zero_population
        )


@given(st.floats(0, 2), st.floats(0, 2), st.floats(0, 2))
def test_less_noise_is_exact_where_its_formula_is(true, noise, more):
    """D^2 = delta^2 + n^2 gives delta; nothing is taken off what noise does not move."""
    d, again = np.hypot(true, noise), np.hypot(np.hypot(true, noise), noise)
    assert cut_noise(d, again) == pytest.approx(true, abs=1e-6)
    assert cut_noise(d, d) == pytest.approx(d)
    assert cut_noise(0.0, again) == pytest.approx(-again)
    assert cut_noise(d + more, again) >= cut_noise(d, again) >= cut_noise(d, again + more)


def of_truth(weights, p, replicates):
    """All of a task with such a truth."""
    truth = SimpleNamespace(replicates=replicates, sample="s" if len(replicates) else "")
    whole = np.ones(len(weights), dtype=bool)
    return Part(truth, whole, weights, p, scoring.anchors(weights, p, 0.0))


def test_no_sampling_error_without_a_sample():
    weights, p, q = np.array([1.0]), np.array([[0.7, 0.3]]), np.array([[0.6, 0.4]])
    found = Measured(of_truth(weights, p, np.empty((0, 1, 2))), Elicited(q))
    assert joint_error([found.score_draws]) == joint_error([found.score_population_draws]) == 0
    assert found.l1_population == found.l1
    assert found.score_population == found.score == pytest.approx(50)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(2, 4), st.floats(5, 1e5))
def test_draws_of_the_truth_are_distributions_with_the_right_spread(cells, levels, size):
    rng = np.random.default_rng(0)
    p = 0.7 * rng.dirichlet(np.ones(levels), cells) + 0.3 / levels
    p[0] = np.eye(levels)[0]  # a level nobody chose stays at 0
    drawn = scoring.draw_truths(p, np.full(cells, size), draws=400)
    assert np.allclose(drawn.sum(axis=-1), 1)
    assert (drawn[:, 0] == p[0]).all()
    # Dirichlet: Var = p (1 - p) / (n + 1); 400 draws know a variance to about 7 %.
    expected = p * (1 - p) / (size + 1)
    assert np.allclose(drawn.var(axis=0), expected, rtol=0.4, atol=1e-12)


def test_ordering_error_is_zero_when_all_orderings_were_asked_and_right_when_sampled():
    levels, rng = 6, np.random.default_rng(3)
    weights, p = np.array([1.0]), rng.dirichlet(np.ones(levels), 1)
    found = scoring.anchors(weights, p, 0.0)
    four = rng.dirichlet(np.ones(4), (1, factorial(4)))
    assert scoring.ordering_error(four, lambda q: q.sum(axis=(1, 2))) == 0
    # Against simulation: the spread of the score over samples of 120 independent orderings.
    population = rng.dirichlet(p[0] * 2 + 0.5, 720)[None]

    def score_of(q):
        return found.score(distance(weights, p, q))

    samples = [population[:, rng.permutation(720)[:120]] for _ in range(300)]
    spread = np.std([score_of(sample.mean(axis=1)) for sample in samples])
    estimates = [scoring.ordering_error(sample, score_of) for sample in samples[:40]]
    assert np.mean(estimates) == pytest.approx(spread, rel=0.2)
