"""The metrics of tasks that ask for priors, from answers as lm-eval hands them over."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from toy_quantities import toy

from lm_eval_epidemia.ask.responses import SingleAnswer, answered
from lm_eval_epidemia.benchmarks.prior import metrics as priors
from lm_eval_epidemia.benchmarks.prior import respondents as forecasters
from lm_eval_epidemia.benchmarks.prior.judged import (
    Stated,
    flat,
    judge,
    judge_grid,
    mean_of,
    stated_as,
)
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.prior.ways import REPEATS, UNREAD, Prior
from lm_eval_epidemia.core.errors import EpidemiaError

NHANES = "epidemia_prior_nhanes"


@pytest.fixture(scope="module")
def truth():
    return store.load(NHANES)


def written(truth, values, way="direct"):
    return [
        Prior(way, truth.task, truth.fingerprint, cell, sample + 1, tuple(values[cell, sample]))
        for cell in range(len(values))
        for sample in range(values.shape[1])
    ]


def scored(truth, logs):
    return [
        SingleAnswer("grid", truth.task, truth.fingerprint, cell, tuple(logs_of))
        for cell, logs_of in enumerate(logs)
    ]


@pytest.fixture(scope="module")
def said(truth):
    """Calibrated priors, of which three could not be read."""
    values = forecasters.answers(truth, "calibrated")
    values[3, 1] = values[3, 2] = values[70, 0] = UNREAD
    return values


def test_they_are_what_is_judged(truth, said):
    answers = written(truth, said)
    np.random.default_rng(0).shuffle(answers)
    answers = [Prior(*answer) for answer in answers]
    metrics = priors.measure(answers).numbers
    judged = judge(truth, stated_as(said))
    dropped = judge(truth, stated_as(said), published=True)
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
    assert answered(answers) == pytest.approx(1 - 3 / 370)


def test_part_of_a_task(truth, said, caplog):
    """Quantities of which a repeat is missing are left out."""
    answers = written(truth, said)[: 20 * REPEATS + 3]
    assert priors.measure(answers).numbers["seen"] == pytest.approx(20 / 74)
    whole = judge(truth, stated_as(said))
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
    other = forecasters.answers(truth, "mean")
    one, two = (priors.measure(written(truth, each)).draws["error_ratio"] for each in (said, other))
    assert one.sample == two.sample and truth.fingerprint in one.sample
    ratios = [judge(truth, stated_as(each)).ratio for each in (said, other)]
    error = (ratios[0] - ratios[1]).std(ddof=1) / 74**0.5
    assert (one.at - two.at).std(ddof=1) == pytest.approx(error)


def test_silence(truth, caplog):
    answers = written(truth, np.full((74, REPEATS, 3), np.nan))
    flat = judge(truth, stated_as(forecasters.answers(truth, "flat")))
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
    back = priors.said(line, truth)
    wanted = stated_as(said)
    assert isinstance(back, Stated)
    known = ~np.isnan(wanted.a)
    known[0] = False
    known[1, :2] = False
    for mine, theirs in zip(back, wanted, strict=True):
        assert (mine[known] == theirs[known]).all()
    assert np.isnan(back.a[~known]).all()
    assert priors.asked(line).tolist() == [False, False] + [True] * 72
    assert line.split(" | ")[0] == "-;-;-;-;-" and "?" in line.split(" | ")[70]
    short = written(truth, np.full((74, 5, 3), [1.0, 10, 0.5]))
    assert priors.measure(short).kept.startswith("b:10,0.5;b:10,0.5")


def test_what_a_grid_said_comes_back(truth):
    logs = np.round(np.random.default_rng(2).normal(size=(74, 41)), 4)
    line = priors.measure(scored(truth, logs)[:-1]).kept
    back = priors.said(line, truth)
    assert back[:-1] == pytest.approx(logs[:-1]) and np.isnan(back[-1]).all()
    assert priors.asked(line).sum() == 73


def test_lines_that_cannot_be_read(truth, said):
    line = priors.measure(written(truth, said)).kept
    with pytest.raises(EpidemiaError, match="have 73 quantities, but the task has 74"):
        priors.said(line.partition(" | ")[2], truth)
    with pytest.raises(EpidemiaError, match="edited by hand"):
        priors.said(line.replace("n:", "x:"), truth)


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
    assert priors.worth(np.array(rates)) == pytest.approx(expected)


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
    every = priors.everything(known)
    shares = [estimate.value for estimate in priors.quartiles(known, every)]
    assert shares == pytest.approx([0.2, 0.2, 0.4, 0.2])
    assert mean_of(priors.in_quarters(position), axis=0)[0] == pytest.approx(shares)
    # Two below the median, two at it: (2 + 2 / 2) / 5
    assert priors.below(known, every).value == pytest.approx(0.6)
    assert priors.below_median_of(position) == pytest.approx(0.6)
    assert priors.below(known, every, at=0.25).value == pytest.approx(0.3)
    assert priors.inside(known, every).value == 1


def test_ranks_of_few_or_equal_ones():
    truth = toy(["normal"] * 3)
    judged = judge(truth, stated_as(forecasters.answers(truth, "calibrated")))
    judged = judged._replace(uncertainty=np.array([1.0, 2, 3]), ratio=np.array([1.0, 3, 2]))
    assert priors.uncertainty_rank_of(judged) == pytest.approx(0.5)
    assert math.isnan(priors.uncertainty_rank_of(judged._replace(ratio=np.ones(3))))


def test_ranks_and_wins_do_not_come_from_the_last_digit(truth):
    """The flat prior of a share is the baselines' own: its posterior is theirs, and never wins."""
    stated = flat(truth)
    share = truth.column("family") == "beta"
    assert (judge(truth, stated).posterior_wins[share] == 0).all()
    # The truth's errors are all 0, whatever they are in floating point.
    known = stated_as(forecasters.answers(truth, "truth"))
    assert math.isnan(priors.uncertainty_rank_of(judge(truth, known)))
