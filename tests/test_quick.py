"""A quick look: what it asks, and how the scores of whole groups follow from it."""

import json
import math

import numpy as np
import pytest
from recorded_runs import copied_run
from report_parts import command, table
from test_ways import answers_of, replies

from lm_eval_epidemia.ask.bounds import Within
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import WAYS, find_tasks, list_leaves
from lm_eval_epidemia.benchmarks.observation import quick
from lm_eval_epidemia.benchmarks.observation.metrics import bound_unseen
from lm_eval_epidemia.benchmarks.observation.quick import Choice, Curve, QuickCell, QuickOutcome
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.core.store import seal_of
from lm_eval_epidemia.harness.cost import cost

LEAVES = ("epidemia_quick_low", "epidemia_quick_high")


def answered(leaf, kind):
    """Answer as a reference respondent."""
    rows = list(split(leaf, "quick"))
    return answers_of(quick.WAY, rows, replies(quick.WAY, rows, kind))


def test_it_is_what_the_script_wrote():
    content = read_yaml(quick.__package__, quick.FILE)
    assert content["seal"] == seal_of(content["tasks"])
    assert content["seeds"] == {
        "orderings": 1,
        "choose": 20261124,
        "errors": 20261125,
        "test": 20261128,
    }


def test_five_hundred_prompts_and_every_outcome_of_both_groups():
    (line,) = cost(["epidemia_quick"])
    assert (line.tasks, line.prompts) == (2, 500)
    for leaf in LEAVES:
        choice = quick.load_choices()[leaf]
        whole = [list_leaves()[task].entry for task, _ in find_tasks(choice.group)]
        asked = {list_leaves()[cell.task].entry.outcome for cell in choice.cells}
        assert asked == {entry.outcome for entry in whole}
        assert sum(outcome.tasks for outcome in choice.outcomes) == len(whole)
        assert len({(cell.task, cell.given) for cell in choice.cells}) == len(choice.cells)


def test_prompts_are_those_of_the_full_tasks():
    """Made by another route: all prompts of a task in its own way, of 2 to 24 answers."""
    checked = set()
    for leaf in LEAVES:
        truth = quick.load_quick(leaf)
        rows = list(quick.WAY.rows(truth, Variant()))
        for number, (own, cell, orders) in enumerate(truth.asked):
            if len(own.given) > 15:
                continue
            full = {
                (row["cell"], tuple(row["order"])): row["prompt"]
                for row in WAYS["letters"].rows(own, Variant())
            }
            assert len(set(orders)) == 2
            mine = rows[2 * number : 2 * number + 2]
            assert [row["prompt"] for row in mine] == [full[cell, order] for order in orders]
            checked.add(len(own.levels))
    assert {2, 3, 8} <= checked


def test_who_knows_the_truth_gets_100_and_who_knows_nothing_about_0():
    for leaf in LEAVES:
        truth, uniform = (answered(leaf, kind) for kind in ("truth", "uniform"))
        assert quick.measure(truth).numbers["score"] == pytest.approx(100, abs=1e-9)
        numbers = quick.measure(uniform).numbers
        assert numbers["score"] <= 1.96 * numbers["score_stderr"] and numbers["seen"] == 1


@pytest.mark.parametrize("leaf, full", [(LEAVES[0], 63.7), (LEAVES[1], 42.5)])
def test_who_knows_averages_only_is_predicted_within_the_error(leaf, full):
    """63.7 and 42.5 are the full scores of `kind=mean` (README)."""
    numbers = quick.measure(answered(leaf, "mean")).numbers
    assert abs(numbers["score"] - full) <= 1.96 * numbers["score_stderr"]


def test_a_prediction_by_hand():
    """Two outcomes of three tasks and one: r = .5 * .8 + 1 * .1 = .5, on the line from 100 at 0 to
    0 at 1: 50; r = 2 * .2 = .4: 60. Mean .75 * 50 + .25 * 60 = 52.5; the group's curve halves the
    47.5 that it lacks: 76.25."""
    line = Curve((0.0, 1.0), (100.0, 0.0))

    def cell(weight):
        return QuickCell("task", ("x",), (0, 1), weight)

    choice = Choice(
        "group",
        (
            QuickOutcome("a", 3, (cell(0.5), cell(1.0)), line),
            QuickOutcome("b", 1, (cell(2.0),), line),
        ),
        Curve((0.0, 100.0), (100.0, 50.0)),
        line,
    )
    assert choice.predict(np.array([0.8, 0.1, 0.2])) == pytest.approx(76.25)
    assert choice.predict(np.zeros(3)) == 100


def test_what_is_taken_off_for_two_orderings():
    """p = (.5, .3, .2); said (.7, .2, .1) and (.5, .2, .3): their mean (.6, .2, .2) is .1 + .1 off,
    the two are (.2 + 0 + .2) / 2 = .2 apart: .2 - .4 * .2 = .12. Of two answers, nothing."""
    said = np.array([[0.7, 0.2, 0.1], [0.5, 0.2, 0.3]])
    assert quick.excess_distance(np.array([0.5, 0.3, 0.2]), said) == pytest.approx(0.12)
    assert quick.excess_distance(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.5, 0.5]])) == (
        pytest.approx(0.4)
    )


def test_a_part_gives_no_prediction(caplog):
    answers = answered(LEAVES[1], "truth")[:-1]
    (seen,) = quick.measure(answers).numbers.values()
    assert 0.99 < seen < 1
    assert "leave out --limit and --samples" in caplog.text


def test_letters_that_a_server_does_not_show_are_said():
    """Their mass; there is no bound of what they may do to a prediction."""
    answers = answered(LEAVES[1], "truth")
    hidden = Within(math.log(0.25), -math.inf, math.log(0.25), False)
    answers[0] = answers[0]._replace(value=(hidden, answers[0].value[1]))
    noted = bound_unseen(answers)
    assert noted.mass == pytest.approx(0.25 / len(answers)) and math.isnan(noted.effect)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Beside a full group of one survey, in one run."""
    folder = tmp_path_factory.mktemp("quick")
    for noise in (0.3, 1):
        copied_run(
            tmp_path_factory,
            folder / str(noise),
            ["epidemia_quick", "epidemia_low_nsduh"],
            model="epidemia-baseline",
            model_args=f"kind=noisy,noise={noise}",
        )
    return folder


def test_a_run_has_the_mean_of_both_and_its_error(runs):
    results = next(json.loads(p.read_text()) for p in (runs / "1").rglob("results_*.json"))
    low, high = (results["results"][leaf] for leaf in LEAVES)
    group = results["groups"]["epidemia_quick"]
    # noisy (1) has 15.8 and 8.4 in the whole groups (README).
    assert abs(low["score,none"] - 15.8) <= 1.96 * low["score_stderr,none"]
    assert abs(high["score,none"] - 8.4) <= 1.96 * high["score_stderr,none"]
    assert group["score,none"] == pytest.approx((low["score,none"] + high["score,none"]) / 2)
    # Independent errors: the root of the sum of squares, over 2.
    error = math.hypot(low["score_stderr,none"], high["score_stderr,none"]) / 2
    assert group["score_stderr,none"] == pytest.approx(error)


def test_the_report_never_ranks_it_beside_full_runs(runs):
    found = table("leaderboard", runs)
    found = found[found["kind"] == "respondent"].groupby("group")["rank"].agg(set)
    assert {*found["epidemia_quick"]} <= {"", math.nan} and len({*found["epidemia_low"]}) > 1
    page = command("report", runs, "--wide")
    full, quick_look = (
        next(part for part in page.split("\n\n") if part.lstrip().startswith(title))
        for title in ("Score, 0 to 100", "Quick look: predicted score, 0 to 100")
    )
    assert "epidemia_low" in full and "quick" not in full and "quick" in quick_look
    assert "predicted to get" in page and "than next" not in quick_look


def test_nothing_is_claimed_of_a_pair_of_quick_looks(runs):
    """A prediction is not these tasks: "better here" asks for their sampling errors."""
    for name in ("pairs", "population"):
        assert {*table(name, runs)["group"]} == {"epidemia_low"}
