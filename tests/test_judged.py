"""What stated priors are worth: numbers worked by hand, properties, and respondents of known worth.

Bounds on what is random are those of a binomial or normal number, exceeded once in a million.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from toy_quantities import toy

from lm_eval_epidemia.ask.responses import answered_share
from lm_eval_epidemia.ask.way import Answer
from lm_eval_epidemia.benchmarks.prior import judged
from lm_eval_epidemia.benchmarks.prior import metrics as priors
from lm_eval_epidemia.benchmarks.prior import respondents as forecasters
from lm_eval_epidemia.benchmarks.prior.judged import (
    FamilyPriors,
    judge,
    judge_grid,
    make_flat_prior,
    make_priors,
    mean_of,
    select_quantities,
)
from lm_eval_epidemia.benchmarks.prior.quantities import families, store
from lm_eval_epidemia.benchmarks.prior.quantities.families import BETA, NORMAL, crps
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES, Samples
from lm_eval_epidemia.benchmarks.prior.ways import REPEATS, UNREAD, points
from lm_eval_epidemia.core.errors import EpidemiaError

NHANES = "epidemia_prior_nhanes"


@pytest.fixture(scope="module")
def nhanes():
    return store.load_quantities(NHANES)


@pytest.fixture(scope="module")
def mixed():
    return toy(["normal", "beta", "lognormal"] * 4)


def single(truth, mean, **changed):
    """A set of one quantity whose truth is set."""
    first = select_quantities(truth, np.arange(len(truth.quantities)) < 1)
    return first._replace(quantities=(first.quantities[0]._replace(mean=mean, **changed),))


def stating(family, a, b):
    """Priors of one quantity, all of a family."""
    a, b = np.atleast_2d(np.array(a, dtype=float)), np.atleast_2d(np.array(b, dtype=float))
    return judged.FamilyPriors(np.full(a.shape, family), a, b)


def by_hand():
    """Truth 10, se 1, marginal N(14, 5); draws of five say 12, all others 10.5, with variance 5."""
    truth = single(toy(["normal"]), 10.0, se=1.0, marginal_mean=14.0, marginal_sd=5.0)
    shape = truth.baseline.mean.shape
    mean = np.full(shape, 10.5)
    mean[:, 0] = 12
    size = np.broadcast_to(np.array(SIZES, dtype=float)[:, None], shape)
    return truth._replace(baselines={"corrected": Samples(mean, np.full(shape, 5.0), size)})


def test_by_hand():
    truth = by_hand()
    worth = judge(truth, stating(NORMAL, [11, 9], [1, 2]))
    assert worth.answered == [1]
    assert worth.centre.tolist() == [[11, 9]] and worth.spread.tolist() == [[1, 2]]
    # One standard deviation below, half of one above.
    assert worth.position[0] == pytest.approx([special.ndtr(-1), special.ndtr(0.5)])
    assert worth.error == [1]
    assert worth.baseline_error[0] == pytest.approx([2, 0.5, 0.5, 0.5])
    assert worth.ratio == pytest.approx(0.5)
    assert worth.crps == pytest.approx((crps(0, 11, 1, 10) + crps(0, 9, 2, 10)) / 2)
    assert worth.crps_ratio == pytest.approx(worth.crps / crps(0, 12, 1, 10))
    assert worth.wins.tolist() == [[1, 0, 0, 0]]
    # N(11, 1) and five answers weigh the same: 11.5. N(9, 2): (5 * 9 + 20 * 12) / 25 = 11.4.
    assert worth.posterior_error[0, 0] == pytest.approx((1.5 + 1.4) / 2)
    assert worth.posterior_wins[0, 0] == 1
    assert worth.uncertainty == pytest.approx(1.5 / 2)


def test_a_tie_is_no_win():
    truth = by_hand()
    worth = judge(truth, stating(NORMAL, 10.5, 1e6))
    assert worth.baseline_error[0, 1] == pytest.approx(0.5)
    exact = judge(truth, stating(NORMAL, worth.baseline_error[:, 1:2] + 10, 1))
    assert exact.error[0] == worth.baseline_error[0, 1]
    assert exact.wins[0, :2].tolist() == [1, 0]


def test_what_is_not_read_is_flat_and_no_win():
    truth = by_hand()
    stated = stating(NORMAL, [11, np.nan], [1, 1])
    worth = judge(truth, stated)
    # |11 - 10| and |14 - 10|.
    assert worth.error == [2.5] and worth.answered == [0.5]
    assert worth.spread.tolist() == [[1, 5]]
    assert worth.crps == pytest.approx((crps(0, 11, 1, 10) + crps(0, 14, 5, 10)) / 2)
    assert worth.wins.tolist() == [[0.5, 0, 0, 0]]
    assert worth.posterior_error[0, 0] == pytest.approx(1.5)
    assert worth.posterior_wins[0, 0] == 0.5
    dropped = judge(truth, stated, published=True)
    assert dropped.error == [1] and dropped.wins.tolist() == [[1, 0, 0, 0]]
    assert np.isnan(dropped.position[0, 1])
    nothing = stating(NORMAL, [np.nan, np.nan], [1, 1])
    worth = judge(truth, nothing)
    assert worth.error == [4]
    assert worth.wins.tolist() == worth.posterior_wins.tolist() == [[0, 0, 0, 0]]
    dropped = judge(truth, nothing, published=True)
    for values in (dropped.error, dropped.wins, dropped.posterior_wins):
        assert np.isnan(values).all()
    for impossible in ((NORMAL, 10, 0), (NORMAL, 10, -1), (BETA, 0, 3), (NORMAL, math.inf, 1)):
        assert judge(truth, stating(*impossible)).answered == [0]


@given(st.floats(0.01, 1000), st.integers(0, 3))
@settings(max_examples=8)
def test_scores_have_no_unit(factor, seed):
    """In other units, all that is averaged over quantities stays."""
    truth = toy(["normal"] * 3, seed)
    in_unit = ("mean", "se", "sd", "marginal_mean", "marginal_sd")
    mean, variance, size = truth.baseline
    scaled = truth._replace(
        quantities=tuple(
            each._replace(**{name: getattr(each, name) * factor for name in in_unit})
            for each in truth.quantities
        ),
        baselines={"corrected": Samples(mean * factor, variance * factor**2, size)},
    )
    stated = forecasters.simulate_priors(truth, "calibrated", seed=seed)
    first = judge(truth, make_priors(stated))
    other = judge(scaled, make_priors(stated * [1, factor, factor]))
    # The baselines' prior is flat in every unit.
    for name in ("ratio", "crps_ratio", "position", "wins", "uncertainty"):
        assert getattr(first, name) == pytest.approx(getattr(other, name), rel=1e-6), name


def test_the_published_prior_of_a_mean_is_not_flat_for_incomes():
    """Five answers of 1e6, variance 1e11: 1e6 / (1 + 2e10 / 1e10) with it, 1e6 without."""
    truth = by_hand()
    shape = truth.baseline.mean.shape
    drawn = Samples(np.full(shape, 1e6), np.full(shape, 1e11), truth.baseline.size)
    for name, told in (("published", 1e6 / 3), ("corrected", 1e6)):
        worth = judged.baseline_errors(truth._replace(baselines={name: drawn}, scored=name))
        assert worth[0, 0] == pytest.approx(told - 10)


# Grids.


def test_a_grid_is_what_its_points_say(mixed):
    logs = np.random.default_rng(3).normal(size=(12, 41)) * 3
    worth = judge_grid(mixed, logs)
    assert worth.position.shape == (12, 1)
    for place, quantity in enumerate(mixed.quantities):
        at, p = points(quantity), np.exp(logs[place]) / np.exp(logs[place]).sum()
        mean = (p * at).sum()
        assert worth.centre[place, 0] == pytest.approx(mean)
        assert worth.spread[place, 0] == pytest.approx(math.sqrt((p * (at - mean) ** 2).sum()))
        assert worth.position[place, 0] == pytest.approx(p[at < quantity.mean].sum())
        drawn, off = mixed.baseline, []
        for y, v, n in zip(*(each[place, 2] for each in drawn), strict=True):
            if quantity.family == "beta":
                told = at ** (n * y) * (1 - at) ** (n * (1 - y))
            else:
                told = np.exp(-n * (at - y) ** 2 / (2 * v))
            off.append(abs((p * told * at).sum() / (p * told).sum() - quantity.mean))
        assert worth.posterior_error[place, 2] == pytest.approx(np.mean(off))


def test_a_grid_that_is_not_known(mixed):
    logs = np.zeros((12, 41))
    logs[2, 5] = np.nan
    worth = judge_grid(mixed, logs)
    assert worth.answered.tolist() == [1, 1, 0] + [1] * 9
    assert worth.centre[2, 0] == mixed.quantities[2].marginal_mean
    assert (worth.wins[2] == 0).all()


def test_a_grid_and_answers_that_are_all_the_same():
    truth = by_hand()
    drawn = truth.baseline._replace(variance=np.zeros_like(truth.baseline.variance))
    truth = truth._replace(baselines={"corrected": drawn})
    worth = judge_grid(truth, np.zeros((1, 41)))
    # The point next to 12 is 12.5; 10.5 is next to 10.
    assert worth.posterior_error[0] == pytest.approx([2.5, 0, 0, 0])


# Respondents whose worth is known.


def said_by(truth, kind, **given):
    values = forecasters.simulate_priors(truth, kind, **given)
    assert values.shape == (len(truth.quantities), REPEATS, 3)
    assert np.isfinite(values).all()
    stated = make_priors(values)
    assert families.is_valid(*stated).all()
    return stated


def test_who_states_the_truth(nhanes):
    stated = said_by(nhanes, "truth")
    worth = judge(nhanes, stated)
    assert worth.ratio == pytest.approx(0, abs=1e-9)
    assert (worth.wins == 1).all()
    se = nhanes.column("se")[:, None]
    assert worth.spread == pytest.approx(np.broadcast_to(se, (74, REPEATS)))
    # The CRPS of a normal at its centre is sd (2 phi(0) - 1 / sqrt(pi)).
    normal = stated.family[:, 0] == NORMAL
    at_centre = se[normal, 0] * (math.sqrt(2) - 1) / math.sqrt(math.pi)
    assert worth.crps[normal] == pytest.approx(at_centre)
    # No truth is in an outer quarter. Those of normals lie at the median, which is of the upper
    # one; the mean of a beta lies above its median below one half, and below it above.
    above = np.array([each.family == "beta" and each.mean > 0.5 for each in nhanes.quantities])
    assert above.sum() == 5
    shares = judged.mean_of(priors.in_quarters(worth.position), axis=0)
    assert shares[0] == pytest.approx([0, 5 / 74, 69 / 74, 0])
    # (25 + (25 - s) + (75 - s) + 25) / 4 points, s being the share below: 37.5 without any.
    assert priors.calibration_error(worth.position) == pytest.approx(37.5 - 100 * 5 / 74 / 2)
    assert priors.count_worth(worth.wins.mean(axis=0)) == priors.MORE


@pytest.mark.parametrize("family", ["normal", "beta", "lognormal"])
def test_who_is_calibrated(family):
    """The truth is where the prior says, in every family: uniform, a quarter in each quarter."""
    number = 400
    truth = toy([family] * number)
    stated = said_by(truth, "calibrated")
    position = families.cdf(*stated, truth.column("mean")[:, None])
    n = number * REPEATS
    assert stats.kstest(position.ravel(), "uniform").pvalue > 1e-6
    low, high = stats.binom.interval(1 - 1e-6, n, 0.25)
    counts = judged.mean_of(priors.in_quarters(position), axis=0).sum(axis=0) * number
    assert (counts >= low).all() and (counts <= high).all()
    # By chance alone it is about 100 sqrt(3 / (8 pi Q)) of a repeat: it falls to 0 with Q.
    expected = 100 * math.sqrt(3 / (8 * math.pi * number))
    assert priors.calibration_error(position) == pytest.approx(expected, rel=0.6)
    if family == "normal":
        # |N(0, s)| has the mean of the baseline's error and an sd of sqrt(pi / 2 - 1) of it.
        error = math.sqrt((math.pi / 2 - 1) / n)
        assert judge(truth, stated).ratio.mean() == pytest.approx(1, abs=5 * error)


def test_noise_is_how_much_the_calibrated_is_off():
    truth = toy(["normal"] * 200)
    once, twice = (judge(truth, said_by(truth, "calibrated", noise=noise)) for noise in (0.5, 1.0))
    assert twice.ratio == pytest.approx(2 * once.ratio)
    assert twice.position == pytest.approx(once.position)
    other = judge(truth, said_by(truth, "calibrated", seed=1))
    assert not np.allclose(other.position, twice.position)


def test_who_knows_the_population_is_off_by_the_truths_own_error(nhanes):
    """z of 200 seeds of a normal quantity: mean 0 and sd 1, within 5 standard errors of each."""
    place = nhanes.column("family").tolist().index("normal")
    stated = np.array(
        [forecasters.simulate_priors(nhanes, "population", seed=seed)[place] for seed in range(200)]
    )
    # It states the same in all repeats, and the truth's error as its own.
    assert (stated == stated[:, :1]).all()
    quantity = nhanes.quantities[place]
    assert stated[..., 2] == pytest.approx(quantity.se)
    z = (stated[:, 0, 1] - quantity.mean) / quantity.se
    assert abs(z.mean()) < 5 / math.sqrt(200)
    assert z.std() == pytest.approx(1, abs=5 / math.sqrt(400))


@pytest.mark.parametrize("kind, ratio", [("overconfident", 1 / 4), ("vague", 4)])
def test_who_is_too_sure_or_too_unsure(kind, ratio, mixed):
    truth = toy(["normal"] * 500)
    calibrated, stated = said_by(truth, "calibrated"), said_by(truth, kind)
    assert stated.a == pytest.approx(calibrated.a)
    assert stated.b == pytest.approx(ratio * calibrated.b)
    worth = judge(truth, stated)
    shares = judged.mean_of(priors.in_quarters(worth.position), axis=0).mean(axis=0)
    # In each outer quarter of a prior whose sd is `ratio` times the right one.
    outer = special.ndtr(special.ndtri(0.25) * ratio)
    n = 500 * REPEATS
    for share, p in zip(shares, (outer, 0.5 - outer, 0.5 - outer, outer), strict=True):
        low, high = stats.binom.interval(1 - 1e-6, n, p)
        assert low <= round(share * n) <= high
    # |outer - 25 %| four times over four.
    ece = 100 * abs(outer - 0.25)
    assert ece == pytest.approx({"overconfident": 18.3, "vague": 24.7}[kind], abs=0.05)
    assert priors.calibration_error(worth.position) == pytest.approx(ece, abs=1.5)
    # Centres stay in other families, too; a beta is no wider than its mean allows.
    calibrated, stated = said_by(mixed, "calibrated"), said_by(mixed, kind)
    mean, sd = families.mean(*stated), families.sd(*calibrated)
    assert mean == pytest.approx(families.mean(*calibrated))
    beta = stated.family == BETA
    most = np.where(beta, 0.9 * np.sqrt(np.where(beta, mean * (1 - mean), 0)) / sd, np.inf)
    assert families.sd(*stated) / sd == pytest.approx(np.minimum(ratio, most))


def test_who_is_flat(nhanes):
    stated = said_by(nhanes, "flat")
    worth = judge(nhanes, stated)
    for place, each in enumerate(nhanes.quantities):
        centre = 0.5 if each.family == "beta" else each.marginal_mean
        expected = abs(centre - each.mean) / worth.baseline_error[place, 0]
        assert worth.ratio[place] == pytest.approx(expected)
        if each.family == "beta":
            assert worth.position[place] == pytest.approx(each.mean)
            # Beta(1, 1) is what the baseline begins with: the posteriors are the same.
            assert worth.posterior_error[place] == pytest.approx(worth.baseline_error[place])
    # Who answers nothing is who is flat, without the wins.
    nothing = stated._replace(a=np.full_like(stated.a, np.nan))
    unread = judge(nhanes, nothing)
    assert unread.ratio == pytest.approx(worth.ratio) and unread.crps == pytest.approx(worth.crps)
    assert (unread.wins == 0).all() and worth.wins.any()


def test_who_knows_the_marginal(nhanes):
    worth = judge(nhanes, said_by(nhanes, "mean"))
    for place, each in enumerate(nhanes.quantities):
        off = abs(each.marginal_mean - each.mean)
        assert worth.ratio[place] == pytest.approx(off / worth.baseline_error[place, 0], abs=1e-9)
        assert worth.spread[place] == pytest.approx(each.marginal_sd / 100, rel=1e-3)
    base = nhanes.column("difficulty") == "base"
    assert worth.ratio[base] == pytest.approx(0, abs=1e-9)


def test_shares_at_the_edge_can_be_stated():
    for mean, se in ((0.0, 0.0), (1.0, 0.0), (0.001, 0.2), (0.5, 0.0)):
        truth = single(toy(["beta"]), mean, se=se, marginal_mean=mean, marginal_sd=0.0)
        for kind in forecasters.KINDS:
            worth = judge(truth, said_by(truth, kind))
            for each in (worth.ratio, worth.crps, worth.position, worth.posterior_error):
                assert np.isfinite(each).all(), (mean, kind)


# The metrics of tasks that ask for priors, from answers as lm-eval hands them over.


@pytest.fixture(scope="module")
def truth():
    return store.load_quantities(NHANES)


def written(truth, values, way="direct"):
    return [
        Answer(way, truth.task, truth.fingerprint, cell, sample, tuple(values[cell, sample]))
        for cell in range(len(values))
        for sample in range(values.shape[1])
    ]


def scored(truth, logs):
    return [
        Answer("grid", truth.task, truth.fingerprint, cell, 0, tuple(logs_of))
        for cell, logs_of in enumerate(logs)
    ]


@pytest.fixture(scope="module")
def said(truth):
    """Calibrated priors, of which three could not be read."""
    values = forecasters.simulate_priors(truth, "calibrated")
    values[3, 1] = values[3, 2] = values[70, 0] = UNREAD
    return values


def test_they_are_what_is_judged(truth, said):
    answers = written(truth, said)
    np.random.default_rng(0).shuffle(answers)
    answers = [Answer(*answer) for answer in answers]
    metrics = priors.measure(answers).numbers
    judged = judge(truth, make_priors(said))
    dropped = judge(truth, make_priors(said), published=True)
    assert metrics["error_ratio"] == pytest.approx(judged.ratio.mean())
    assert metrics["error_ratio_stderr"] == pytest.approx(judged.ratio.std(ddof=1) / 74**0.5)
    assert metrics["error_ratio_published"] == pytest.approx(dropped.ratio.mean())
    for place, n in enumerate((5, 10, 20, 30)):
        assert metrics[f"win_rate_{n}"] == pytest.approx(judged.wins[:, place].mean())
        assert metrics[f"posterior_win_rate_{n}"] == pytest.approx(
            judged.posterior_wins[:, place].mean()
        )
    sd = truth.column("marginal_sd")
    assert metrics["crps"] == pytest.approx((judged.crps / sd).mean())
    assert metrics["crps_ratio"] == pytest.approx(judged.crps_ratio.mean())
    assert metrics["crps_ratio_published"] == pytest.approx(dropped.crps_ratio.mean())
    assert metrics["ece"] == pytest.approx(priors.calibration_error(judged.position))
    assert metrics["below_median"] == pytest.approx(np.heaviside(0.5 - judged.position, 0.5).mean())
    # Ties but for rounding are ties.
    rank = stats.spearmanr(judged.uncertainty.round(9), judged.ratio.round(9)).statistic
    assert metrics["uncertainty_rank"] == pytest.approx(rank)
    assert metrics["seen"] == 1
    assert answered_share(answers) == pytest.approx(1 - 3 / 370)


def test_part_of_a_task(truth, said, caplog):
    """Quantities of which a repeat is missing are left out."""
    answers = written(truth, said)[: 20 * REPEATS + 3]
    assert priors.measure(answers).numbers["seen"] == pytest.approx(20 / 74)
    whole = judge(truth, make_priors(said))
    assert priors.measure(answers).numbers["error_ratio"] == pytest.approx(whole.ratio[:20].mean())
    assert priors.measure(answers).numbers["error_ratio_stderr"] == pytest.approx(
        whole.ratio[:20].std(ddof=1) / math.sqrt(20)
    )
    draws = priors.measure(answers).draws["error_ratio"]
    assert draws.at.shape == (74,) and draws.at.mean() == pytest.approx(whole.ratio[:20].mean())
    assert "20 of 74 quantities were asked completely" in caplog.text


def test_too_little_of_a_task(truth, said, caplog):
    answers = written(truth, said)[:3]
    measured = priors.measure(answers)
    assert measured.numbers == {"seen": 0} and measured.draws == {"error_ratio": None}
    assert "--limit N asks all prompts of N cells" in caplog.text
    one = priors.measure(written(truth, said)[:REPEATS]).numbers
    assert one["error_ratio"] > 0
    assert math.isnan(one["error_ratio_stderr"]) and math.isnan(one["uncertainty_rank"])


def test_errors_are_joint_over_respondents(truth, said):
    """The draws of two respondents differ as their quantities do."""
    other = forecasters.simulate_priors(truth, "mean")
    one, two = (priors.measure(written(truth, each)).draws["error_ratio"] for each in (said, other))
    assert one.sample == two.sample and truth.fingerprint in one.sample
    ratios = [judge(truth, make_priors(each)).ratio for each in (said, other)]
    error = (ratios[0] - ratios[1]).std(ddof=1) / 74**0.5
    assert (one.at - two.at).std(ddof=1) == pytest.approx(error)


def test_silence(truth, caplog):
    answers = written(truth, np.full((74, REPEATS, 3), np.nan))
    flat = judge(truth, make_priors(forecasters.simulate_priors(truth, "flat")))
    numbers = priors.measure(answers).numbers
    assert numbers["error_ratio"] == pytest.approx(flat.ratio.mean())
    assert math.isnan(numbers["error_ratio_published"])
    assert numbers["win_rate_5"] == numbers["posterior_win_rate_5"] == 0
    assert "0% of the replies contained an answer" in caplog.text


def test_grids(truth, caplog):
    logs = np.random.default_rng(2).normal(size=(74, 41))
    answers = scored(truth, logs)
    numbers = priors.measure(answers).numbers
    assert numbers["error_ratio"] == pytest.approx(judge_grid(truth, logs).ratio.mean())
    p = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    assert numbers["end_mass"] == pytest.approx((p[:, 0] + p[:, -1]).mean())
    assert priors.measure(answers[:37]).numbers["seen"] == 0.5
    logs[4, 4] = -math.inf
    assert "error_ratio" not in priors.measure(scored(truth, logs)).numbers
    assert "NaN or infinite log-probabilities, first in cell 4" in caplog.text


def test_what_was_said_comes_back(truth, said):
    answers = written(truth, said)[7:]
    line = priors.measure(answers).kept
    back = priors.read_answers(line, truth)
    wanted = make_priors(said)
    assert isinstance(back, FamilyPriors)
    known = ~np.isnan(wanted.a)
    known[0] = False
    known[1, :2] = False
    for mine, theirs in zip(back, wanted, strict=True):
        assert (mine[known] == theirs[known]).all()
    assert np.isnan(back.a[~known]).all()
    assert priors.find_asked(line).tolist() == [False, False] + [True] * 72
    assert line.split(" | ")[0] == "-;-;-;-;-" and "?" in line.split(" | ")[70]
    short = written(truth, np.full((74, 5, 3), [1.0, 10, 0.5]))
    assert priors.measure(short).kept.startswith("b:10,0.5;b:10,0.5")


def test_what_a_grid_said_comes_back(truth):
    logs = np.round(np.random.default_rng(2).normal(size=(74, 41)), 4)
    line = priors.measure(scored(truth, logs)[:-1]).kept
    back = priors.read_answers(line, truth)
    assert back[:-1] == pytest.approx(logs[:-1]) and np.isnan(back[-1]).all()
    assert priors.find_asked(line).sum() == 73


def test_lines_that_cannot_be_read(truth, said):
    line = priors.measure(written(truth, said)).kept
    with pytest.raises(EpidemiaError, match="have 73 quantities, but the task has 74"):
        priors.read_answers(line.partition(" | ")[2], truth)
    with pytest.raises(EpidemiaError, match="edited by hand"):
        priors.read_answers(line.replace("n:", "x:"), truth)


@pytest.mark.parametrize(
    "rates, expected",
    [
        ([0.4, 0.6, 0.6, 0.6], 0),
        ([0.9, 0.8, 0.7, 0.5], 31),
        ([0.6, 0.4, 0.6, 0.2], math.sqrt(50)),
        ([0.9, 0.8, 0.6, 0.3], 20 * 1.5 ** (1 / 3)),
        ([0.5, 0.4, 0.3, 0.2], 5),
    ],
)
def test_worth(rates, expected):
    assert priors.count_worth(np.array(rates)) == pytest.approx(expected)


def test_quarters():
    position = np.array([[0.0], [0.2499], [0.25], [0.5 - 1e-12], [0.75], [1.0]])
    assert mean_of(priors.in_quarters(position), axis=0)[0] == pytest.approx(
        [2 / 6, 1 / 6, 1 / 6, 2 / 6]
    )
    assert priors.calibration_error(position) == pytest.approx(100 / 12)
    assert priors.below_median_of(position) == pytest.approx(3.5 / 6)
    assert math.isnan(priors.below_median_of(np.full((2, 2), np.nan)))


def test_the_report_counts_quarters_and_medians_as_the_metrics_do():
    """Positions at a quantile but for rounding: by hand, quarters 2, 3, 3, 1 and 4 of five."""
    position = np.array(
        [[0.25 - 1e-12], [0.5 - 1e-12], [0.5 + 1e-12], [0.05 - 1e-12], [0.95 + 1e-12]]
    )
    judged = SimpleNamespace(position=position)
    known = SimpleNamespace(truth=SimpleNamespace(quantities=range(5)), judged=judged)
    every = priors.select_all(known)
    shares = [estimate.value for estimate in priors.share_by_quarter(known, every)]
    assert shares == pytest.approx([0.2, 0.2, 0.4, 0.2])
    assert mean_of(priors.in_quarters(position), axis=0)[0] == pytest.approx(shares)
    # Two below the median, two at it: (2 + 2 / 2) / 5
    assert priors.share_below(known, every).value == pytest.approx(0.6)
    assert priors.below_median_of(position) == pytest.approx(0.6)
    assert priors.share_below(known, every, at=0.25).value == pytest.approx(0.3)
    assert priors.share_inside(known, every).value == 1


def test_ranks_of_few_or_equal_ones():
    truth = toy(["normal"] * 3)
    judged = judge(truth, make_priors(forecasters.simulate_priors(truth, "calibrated")))
    judged = judged._replace(uncertainty=np.array([1.0, 2, 3]), ratio=np.array([1.0, 3, 2]))
    assert priors.uncertainty_rank_of(judged) == pytest.approx(0.5)
    assert math.isnan(priors.uncertainty_rank_of(judged._replace(ratio=np.ones(3))))


def test_ranks_and_wins_do_not_come_from_the_last_digit(truth):
    """The flat prior of a share is the baselines' own: its posterior is theirs, and never wins."""
    stated = make_flat_prior(truth)
    share = truth.column("family") == "beta"
    assert (judge(truth, stated).posterior_wins[share] == 0).all()
    # The truth's errors are all 0, whatever they are in floating point.
    known = make_priors(forecasters.simulate_priors(truth, "truth"))
    assert math.isnan(priors.uncertainty_rank_of(judge(truth, known)))
