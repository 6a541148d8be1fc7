"""Likelihood prompting: intervals, distributions, real lm-eval runs, and what binning costs."""

import itertools
import math

import numpy as np
import pytest
from conftest import answers_to, evaluate
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_epidemia.ask.responses import most_mass
from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.benchmarks.observation import likelihood, metrics
from lm_eval_epidemia.benchmarks.observation.likelihood import bin_mass
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score.score import Anchors

BINARY = "epidemia_low_nsduh_cocaine_ever_by_age"


@given(st.floats(0, 1))
def test_the_interval_of_a_probability_is_at_most_two_and_a_half_points_off(p):
    number = likelihood.bin_of(p)
    assert abs(likelihood.MIDPOINTS[number] - p) <= 0.025 + 1e-9
    assert (number == 0) == (p == 0) and (number == 21) == (p == 1)


def test_boundaries_belong_to_the_lower_interval():
    assert [likelihood.bin_of(p) for p in (0.05, 0.1, 0.15, 0.3, 0.95)] == [1, 2, 3, 6, 19]


def test_stated_probabilities_become_a_distribution():
    # Two levels: the first was asked. Three: 0.5 + 0.3 + 0.2 of 0.5, 0.3, 0.2 doubled.
    assert likelihood.distribution(np.array([[0.3]]), 2) == pytest.approx(np.array([[0.3, 0.7]]))
    three = likelihood.distribution(np.array([[1.0, 0.6, 0.4], [0, 0, 0]]), 3)
    assert three == pytest.approx(np.array([[0.5, 0.3, 0.2], [1 / 3, 1 / 3, 1 / 3]]))
    assert likelihood.asked_levels(2) == (0,)
    assert likelihood.asked_levels(4) == (0, 1, 2, 3)


def binned(p):
    """What a respondent that knows the truth can say: by hand, without the package's function."""
    midpoints = np.where(p == 0, 0, np.where(p == 1, 1, (np.ceil(p * 20) - 0.5) / 20))
    if p.shape[1] == 2:
        return np.column_stack([midpoints[:, 0], 1 - midpoints[:, 0]])
    return midpoints / midpoints.sum(axis=1, keepdims=True)


def test_the_truth_loses_what_binning_costs_and_no_more():
    surveys = find_tasks("epidemia_low_nsduh") + find_tasks("epidemia_low_gss")
    tasks = [f"{task}_likelihood" for task, _ in surveys]
    results = evaluate(tasks, model_args="kind=truth", log_samples=False)["results"]
    rows = {name: row for name, row in results.items() if "_by_" in name}
    assert len(rows) == 6 + 10
    for name, row in rows.items():
        truth = store.load_truth(name.removesuffix("_likelihood"))
        expected = (truth.weights[:, None] * abs(truth.p - binned(truth.p))).sum()
        assert row["l1,none"] == pytest.approx(expected, abs=1e-9)
        if len(truth.levels) == 2:
            assert row["l1,none"] <= 2 * 0.025
        assert row["score,none"] == pytest.approx(Anchors.of(truth).score(expected), abs=1e-6)
        assert row["score_expected,none"] == row["score,none"]  # it is sure of its interval
        assert row["bin_mass,none"] == pytest.approx(1)
        assert row["choice_mass,none"] == pytest.approx(1)
        assert row["seen,none"] == 1
    assert np.mean([row["score,none"] for row in rows.values()]) > 90


def estimates(over_bins, other=None):
    """Answers with the given probabilities of the intervals, and with others in the fifth cell."""

    def reply(doc):
        with np.errstate(divide="ignore"):
            logs = np.log(over_bins if other is None or doc["cell"] != 4 else other)
        return [(float(logprob), False) for logprob in logs]

    return answers_to(BINARY, "likelihood", reply)


def test_the_likeliest_interval_and_the_expected_one_differ(replicated):
    """60 % on 0%-5%, 40 % on 95%-100%: the likeliest says 0.025, the mean 0.405."""
    over = np.full(22, 1e-12)
    over[1], over[20] = 0.6, 0.4
    answers, truth = estimates(over), store.load_truth(BINARY)

    def score(p):
        d = (truth.weights * 2 * abs(truth.p[:, 0] - p)).sum()
        return float(Anchors.of(truth).score(d))

    numbers = metrics.measure(answers).numbers
    assert numbers["score"] == pytest.approx(score(0.025))
    assert numbers["score_expected"] == pytest.approx(score(0.405))
    assert bin_mass(answers) == pytest.approx(0.6)
    # The spread of the score over the replicates, worked out again: with one condition and two
    # levels, P(yes | x) = p, whose scale begins at the better ignorant answer.
    drawn = truth.replicates[:, :, 0]
    w, perfect = truth.weights, truth.d_perfect()
    ignorant = [abs(drawn - guess) @ w for guess in (0.0, 0.5, 1.0)]
    commoner = np.where(drawn @ w > 0.5, ignorant[2], ignorant[0])
    zero, d = 2 * np.minimum(commoner, ignorant[1]), 2 * abs(drawn - 0.025) @ w
    spread = np.clip(100 * (zero - d) / (zero - perfect), 0, 100).std(ddof=1)
    assert spread > 0.1
    assert numbers["score_stderr"] == pytest.approx(spread, rel=1e-9)


def test_log_probabilities_that_nothing_can_mean_give_no_number(caplog):
    more = "the letters of 1 of 11 prompts have probabilities that sum to more than 1, up to 1.1"
    for share, warning in ((0.0, "1 of 11 prompts got NaN or infinite"), (0.05, more)):
        answers = estimates(np.full(22, 1 / 22), np.full(22, share))
        assert metrics.measure(answers).numbers == {"seen": 1}
        assert f"{BINARY}_likelihood: {warning}" in caplog.text
        assert "first in cell 4 (21-23)" in caplog.text
        caplog.clear()


def test_what_a_model_in_half_precision_rounds_up_is_scored(caplog):
    """Undecided between two letters, log 1/2 in bfloat16 is -177/256: the sum is 1.0017."""
    answers = answers_to(BINARY, "letters", lambda doc: [(-177 / 256, True)] * 2)
    assert 2 * math.exp(-177 / 256) > 1.001
    assert not math.isnan(metrics.measure(answers).numbers["score"]) and not caplog.text


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_rounding_stays_below_the_largest_sum_allowed(kind):
    """Log-softmax as lm-eval computes it; letters of two tokens, of which the first is shared."""
    torch = pytest.importorskip("torch")
    draw, dtype = torch.Generator().manual_seed(3), getattr(torch, kind)
    for count, spread in itertools.product([2, 3, 5, 22, 26], [0.01, 0.3, 2.0]):
        logits = (torch.randn(20_000, count, generator=draw) * spread).to(dtype)
        last = torch.log_softmax(logits, -1)
        shared = torch.log_softmax(logits[:, :2], -1)[:, :1]
        for found in (last, last + shared):
            assert float(found.double().exp().sum(-1).max()) < most_mass(count)
