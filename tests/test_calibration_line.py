"""The calibration line: golden values, another route, and the noise that it takes off."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks.observation.measured import part_of
from lm_eval_epidemia.benchmarks.observation.other_scales import compare_on_scales, fit_tilt
from lm_eval_epidemia.benchmarks.observation.respondents import simulate_answers
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score.calibration_line import fit_differences, fit_line, log_odds, moments
from lm_eval_epidemia.score.joint import joint_error
from lm_eval_epidemia.surveys import fresh
from lm_eval_epidemia.surveys.catalogue import find_record, records

#: So many people that 1/2 of one more changes nothing.
MANY = 1e12
EPS = float(np.finfo(float).eps)


def sure(odds):
    """Two answers with these log-odds of the first."""
    p = 1 / (1 + np.exp(-np.asarray(odds, dtype=float)))
    return np.stack([p, 1 - p], axis=1)


def fitted(tasks, sample="s"):
    """Fit the line to tasks of (weights, p, q, n, replicates)."""
    return fit_line([moments(*task, sample) for task in tasks])


def exactly(weights, p, q, n=MANY):
    return np.asarray(weights), p, q, np.full(len(p), n), np.empty((0, *p.shape))


def test_golden_values():
    # Weights .5, .25, .25 at x = -1, 1, 3: mean .5, variance .5 * 1.5^2 + .25 * .5^2 + .25 * 2.5^2.
    x = np.array([-1.0, 1, 3])
    found = fitted([exactly([0.5, 0.25, 0.25], sure(x), sure(0.4 + 0.7 * x))], "")
    assert (found.tilt, found.slope) == pytest.approx((0.4, 0.7))
    assert (found.centre, found.spread) == pytest.approx((0.5, 2.75)) and found.draws == {}


def test_what_is_0_or_1_is_as_far_as_the_survey_can_tell():
    """(20 * 0 + .5) / (20 * 1 + .5): log(1 / 41). Of three answers 1/3 counts as 0: + log 2."""
    n = np.array([20.0])
    np.testing.assert_allclose(log_odds(np.array([[0.0, 1]]), n), [[-math.log(41)]])
    three = log_odds(np.array([[0.0, 1, 0]]), n)
    np.testing.assert_allclose(three, math.log(2) + math.log(41) * np.array([[-1, 1, -1]]))
    # log((n / 4 + 1/2) / (3 n / 4 + 1/2)) + log 3 = log(1 + 1 / (3 n / 4 + 1/2)), 4/3 / n, which
    # two roundings of a log 3 (2 eps) change by less than a thousandth.
    quarters = log_odds(np.full((1, 4), 0.25), np.array([MANY]))
    np.testing.assert_allclose(quarters, 4 / 3 / MANY, atol=4 * EPS)
    # A stored replicate can miss 0 by a step.
    assert np.isfinite(log_odds(np.array([[-0.001, 1.001]]), np.array([1e4]))).all()


def test_differences_between_cells_leave_out_what_all_have_in_common():
    """Cells of weight .5, truth .2 and .6, answers .3 and .5: .04 / .08.

    With 10 people each, .5 (.32 + .48) / 10 = .04 of the .08 is noise. Who knows averages only
    knows no difference, but which answers are rare.
    """
    weights, p = np.array([0.5, 0.5]), np.array([[0.2, 0.8], [0.6, 0.4]])
    q, many = np.array([[0.3, 0.7], [0.5, 0.5]]), np.full(2, math.inf)
    assert fit_differences([(weights, p, q, many)]).value == pytest.approx(0.5)
    assert fit_differences([(weights, p, q, np.full(2, 10.0))]).value == pytest.approx(1)
    averages = np.broadcast_to(weights @ p, p.shape)
    found = fit_differences([(weights, p, averages, many), (weights, p, p, many)])
    assert found == pytest.approx((0.5, 0.5))  # left out, one by one: 1 and 0
    assert math.isnan(fit_differences([(weights, q[:1].repeat(2, 0), q, many)]).value)
    assert math.isnan(fit_differences([]).value)


def test_it_is_weighted_least_squares():
    """numpy.polyfit takes the roots of the weights; two tasks count half each."""
    rng = np.random.default_rng(2)
    tasks = [
        exactly(rng.dirichlet(np.ones(c)), *rng.dirichlet(np.ones(k), (2, c)), n=50.0)
        for c, k in ((7, 2), (9, 4))
    ]
    x, y, w = [], [], []
    for weights, p, q, n, _ in tasks:
        odds = log_odds(p, n)
        x += [*odds.ravel()]
        y += [*log_odds(q, n).ravel()]
        w += [*np.repeat(weights, odds.shape[1]) / odds.shape[1]]
    slope, tilt = np.polyfit(x, y, 1, w=np.sqrt(w))
    found = fitted(tasks, "")
    assert (found.tilt, found.slope) == pytest.approx((tilt, slope))


def noisy(seed, cells=300, replicates=60, people=40):
    """A population with log-odds of variance 1, a survey of few people per cell, its replicates."""
    rng = np.random.default_rng(seed)
    xi = rng.standard_normal(cells)
    share = rng.binomial(people, sure(xi)[:, 0]) / people
    again = rng.binomial(people, share, (replicates, cells)) / people
    p, at = (np.stack([of, 1 - of], axis=-1) for of in (share, again))
    weights, n = np.full(cells, 1 / cells), np.full(cells, float(people))
    return xi, (weights, p), (n, at)


def test_noise_of_the_truth_is_taken_off():
    """Of 40 people per cell, plain regression has 1 / (1 + .14) = .87 of the slope.

    The noise of log-odds is about 1 / (40 p (1 - p)), .14 on average here. The answers are as
    smooth as the truth, (40 q + .5) / 41, so that theirs is the line that is to be found.
    """
    slopes, tilts, plain, aims, errors = [], [], [], [], []
    for seed in range(30):
        xi, truth, (n, at) = noisy(seed)
        q = sure(0.2 + 0.8 * xi)
        found = fitted([(*truth, q, n, at)])
        slopes.append(found.slope)
        tilts.append(found.tilt)
        plain.append(fitted([(*truth, q, n, at[:0])], "").slope)
        aims.append(fitted([(truth[0], sure(xi), q, n, at[:0])], "").slope)
        errors.append(found.draws["s"][1].std(ddof=1))
    assert found.draws["s"].shape == (2, 60)
    assert np.mean(plain) < 0.9 * np.mean(aims)
    # 5 % as claimed, and four standard errors of the mean of 30 surveys.
    reach = 4 * np.std(slopes, ddof=1) / math.sqrt(30)
    assert np.mean(slopes) == pytest.approx(np.mean(aims), abs=0.05 + reach)
    assert np.mean(tilts) == pytest.approx(0.2, abs=0.05)
    # What a survey says of its error is never much too small: 30 surveys tell that within 13 %.
    # Replicates vary about the survey's x, with noise s^2 = .14 beside its variance of 1, and not
    # about the population's: S(e, x) is too variable, by 1 + 4 s^2 at least.
    assert 0.8 < np.mean(errors) / np.std(slopes, ddof=1) < 1.8


def test_a_truth_that_is_noise_has_no_line():
    rng = np.random.default_rng(4)
    x = 0.5 * rng.standard_normal(50)
    at = np.stack([sure(x + 0.5 * rng.standard_normal(50)) for _ in range(60)])
    weights, n = np.full(50, 0.02), np.full(50, MANY)
    assert math.isnan(fitted([(weights, sure(x), sure(x), n, at)]).slope)
    one = exactly([1.0], sure([0.3]), sure([0.5]))
    assert math.isnan(fitted([one], "").slope)


@settings(max_examples=30)
@given(st.floats(-2, 2), st.floats(0.1, 3), st.integers(0, 99))
def test_answers_that_are_moved_and_stretched(tilt, slope, seed):
    """If y becomes tilt + slope y, so do the line and, at every replicate, its draws.

    Of n = 1e12 people, log((n q + 1/2) / (n (1 - q) + 1/2)) is off y = logit q by at most
    1 / (2 n min(q, 1 - q)) < (1 + e^|y|) / (2 n), and by the rounding of 1 - q, a thousandth of
    that. The line is linear in y: what a cell's y is off by counts as often as the line moves when
    this y alone goes from 0 to 1. The sums of 12 cells round by some 12 eps |x y|, of a size with
    the rest at y = 0 and less beyond it; twice the bound covers both.
    """
    xi, (weights, p), (_, at) = noisy(seed, cells=12, replicates=8, people=200)
    p, at = np.clip(p, 0.01, 0.99), np.clip(at, 0.01, 0.99)

    def line_of_odds(y):
        return fitted([(weights, p, sure(y), np.full(12, MANY), at)])

    def numbers(line):
        return np.concatenate([[line.tilt, line.slope], line.draws["s"].ravel()])

    first, moved = line_of_odds(xi), line_of_odds(tilt + slope * xi)
    if math.isnan(first.slope):
        assert math.isnan(moved.slope)
        return
    counts = np.abs([numbers(line_of_odds(only)) for only in np.eye(12)])
    off = (1 + np.exp(np.abs([xi, tilt + slope * xi]))) / (2 * MANY)
    reach = 2 * (slope * off[0] + off[1]) @ counts
    expected = slope * numbers(first)
    expected[[0, *range(2, 10)]] += tilt  # of the line and of its 8 draws
    assert (np.abs(numbers(moved) - expected) <= reach).all()


def test_respondents_that_are_known():
    names = ["epidemia_low_scf_assets_by_age", "epidemia_low_nsduh_cocaine_ever_by_age"]
    parts = [part_of(store.load_truth(name)) for name in names]

    def told(kind):
        return fit_tilt([(part, Elicited(simulate_answers(part.truth, kind))) for part in parts])

    truth, uniform, mean = map(told, ("truth", "uniform", "mean"))
    # It has the survey's errors too: more than 1, by what plain regression is too flat by.
    assert 1 < truth.slope < 1.1 and 0 < truth.slope_error < 0.05
    # Not quite 0, as the smoothing goes towards 1/2 and not 1/K.
    assert uniform.slope == pytest.approx(0, abs=0.01) and uniform.slope_error < 1e-3
    assert 0 < mean.slope < truth.slope
    # One table without error: nothing is taken off, and who knows it has its line.
    exact = part_of(store.load_truth("epidemia_low_ipeds_sex_by_field"))
    assert fit_tilt([(exact, Elicited(exact.p))]) == (0, 1, 0, 0)


def test_orderings_that_were_sampled_add_an_error():
    """Two of six orderings: jackknife of the two, times 1 - 2/6.

    With two, the error is |f_1 - f_2| / 2 * sqrt(2/3), f being what the slope is of one alone,
    since the slope is linear in the answers' log-odds up to the curve of these.
    """
    truth = store.load_truth("epidemia_low_gss_party_by_race")
    part, rng = part_of(truth), np.random.default_rng(8)
    by_order = np.stack([truth.p, rng.dirichlet(np.ones(3), 3)], axis=1)
    q = by_order.mean(axis=1)
    without, both = (fit_tilt([(part, Elicited(q, orders))]) for orders in (None, by_order))
    assert without[:2] == both[:2]
    alone = [fit_tilt([(part, Elicited(by_order[:, m]))]) for m in range(2)]
    for k, (before, error) in enumerate(zip(without[2:], both[2:], strict=True)):
        asking = abs(alone[0][k] - alone[1][k]) / 2 * math.sqrt(2 / 3)
        assert error == pytest.approx(math.hypot(before, asking))
    known, sampled = (compare_on_scales(part, Elicited(q, orders)) for orders in (None, by_order))
    for name in known:
        assert joint_error([sampled[name].draws]) > joint_error([known[name].draws]), name


def test_records_say_which_answers_are_ordered():
    ways = [ways for survey in records().values() for ways in survey.variables.values()]
    assert all(len({way.ordered for way in each}) == 1 for each in ways)
    assert sum(each[0].ordered for each in ways) >= 15
    party = store.load_truth("epidemia_low_gss_party_by_race")
    assert "Wasserstein-1" in compare_on_scales(part_of(party), Elicited(party.p))


def test_no_hash_depends_on_it():
    """Nor do truths (`meaning_of` hashes a list of fields): fresh sets stay what they are."""
    survey = find_record("gss")
    before = fresh.hash_of(survey, survey.official)
    party = [way.model_copy(update={"ordered": False}) for way in survey.variables["party"]]
    other = survey.model_copy(update={"variables": {**survey.variables, "party": tuple(party)}})
    assert fresh.hash_of(other, survey.official) == before
