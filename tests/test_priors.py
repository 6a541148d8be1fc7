"""Ways of asking for priors: prompts, reading, respondents through lm-eval, system prompts."""

import json
import math
import shutil

import numpy as np
import pytest
from conftest import REPOSITORY, evaluate, recorded
from hypothesis import given, settings
from hypothesis import strategies as st
from replicates import Says

from lm_eval_epidemia.ask.variants import SYSTEM_PROMPTS
from lm_eval_epidemia.benchmarks import WAYS, find_tasks, in_way, list_leaves
from lm_eval_epidemia.benchmarks.prior import PRIOR, judged, ways
from lm_eval_epidemia.benchmarks.prior import ways as priors
from lm_eval_epidemia.benchmarks.prior.quantities import families, store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Quantity
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.harness.cost import cost
from lm_eval_epidemia.harness.yamls import task_path

TASK = "epidemia_prior_nhanes"
WRITTEN = [name for name in PRIOR.ways if name != "grid"]
FAMILIES, NORMAL, BETA, LOGNORMAL = families.FAMILIES, *range(3)


def quantity(family="normal", unit="cm", low=0.0, high=10.0):
    return Quantity(
        "one", "x", (), family, unit, "the mean of x", 0.5, 0.1, 1.0, 100, 0.4, 0.2, low, high
    )


def row_of(way, **columns):
    columns = {"task": TASK, "truth": "t", "cell": 0, "sample": 2, "unit": "cm", **columns}
    return WAYS[way].of_row(columns)


def read(way, text, family="normal", unit="cm"):
    return WAYS[way].read(row_of(way, family=family, unit=unit), [text])


# Prompts


@pytest.mark.parametrize("way", WRITTEN)
def test_prompts_are_clean_and_all_different(way):
    for entry in PRIOR.asked(way):
        truth, rows = store.load_quantities(entry.name), split(entry.name, way)
        assert len(rows) == priors.REPEATS * len(truth.quantities)
        for row in rows:
            one, text = truth.quantities[row["cell"]], row["prompt"]
            assert "  " not in text and "{" not in text and "nan" not in text.split()
            assert one.wording in text
            assert f"(Estimate {row['sample']})" in text
            assert text.count("<prior>") == text.count("</prior>") == 1
            assert text.endswith("</prior>")
            # The form itself is no answer.
            assert not WAYS[way].read(WAYS[way].of_row(row), [text]).is_read
            assert "how unsure you are" in text and "not how much people differ" in text
            if one.family != "beta" and one.unit:
                assert f"in {one.unit}" in text
            if way in ("mean_variance", "quantile") and one.family == "beta":
                assert "between 0 and 1" in text


def test_numbers_of_a_grid_are_written_alike():
    for entry in PRIOR.asked("grid"):
        truth, rows = store.load_quantities(entry.name), split(entry.name, "grid")
        assert len(rows) == len(truth.quantities)
        for one, row in zip(truth.quantities, rows, strict=True):
            numbers = row["choices"]
            assert len(set(numbers)) == 41
            (decimals,) = {len(text.partition(".")[2]) for text in numbers}
            assert decimals > 0
            assert not any(a != b and b.startswith(a) for a in numbers for b in numbers)
            points = ways.points(one)
            assert points.tolist() == [float(text) for text in numbers]
            steps = np.diff(points)
            assert (np.abs(steps / steps.mean() - 1) < 0.1).all()
            ends = (0, 1) if one.family == "beta" else (one.low, one.high)
            assert np.abs(points[[0, -1]] - ends).max() < steps.mean() / 20
            assert row["prompt"].endswith("\nAnswer:")
            assert "  " not in row["prompt"]


def test_points_of_a_grid():
    for one, first, second, last in (
        (quantity("beta", ""), "0.000", "0.025", "1.000"),
        (quantity("normal", "cm", 64, 144), "64.0", "66.0", "144.0"),
        (quantity("normal", "ug/L", 2.4, 18.4), "2.4", "2.8", "18.4"),
        (quantity("normal", "C", -4, 4), "-4.0", "-3.8", "4.0"),
        (quantity("lognormal", "$", 0, 400_000), "0.0", "10000.0", "400000.0"),
        # A range that nobody rounded: off by less than a twentieth of a step.
        (quantity("normal", "x", 0, 1 / 3), "0.000", "0.008", "0.333"),
    ):
        points = ways.format_grid(one)
        assert (points[0], points[1], points[-1]) == (first, second, last)
        assert "-0.0" not in points


# Reading


def test_what_is_read():
    rows = (REPOSITORY / "tests" / "data" / "priors.jsonl").read_text("utf-8").splitlines()
    assert len(rows) >= 97
    misread = []
    for row in map(json.loads, rows):
        answer = read(row["way"], f"I think so.\n<prior>{row['tag']}</prior>", row["family"])
        assert (answer.way, answer.cell, answer.place) == (row["way"], 0, 1)
        assert answer.is_read == (not math.isnan(answer.value[0]))
        family, *parameters = row["reads"] or ("", math.nan, math.nan)
        number = FAMILIES.index(family) if family else math.nan
        if answer.value != pytest.approx((number, *parameters), rel=1e-4, nan_ok=True):
            misread.append((row, answer.value))
    assert not misread


def test_the_next_question_that_a_model_asks_itself_is_not_answered():
    for asked in ("\n\nConsider this number: the mean weight.\n", "\nQ: And now?\n", "\nUser: a\n"):
        for other in ("<prior>80, 2</prior>", "<prior>5</prior>", ""):
            assert read("direct", f"<prior>55, 3</prior>{asked}{other}").value == (NORMAL, 55, 3)
        # What comes before the first tag is no next question.
        assert read("direct", f"Sure.{asked}<prior>55, 3</prior>").value == (NORMAL, 55, 3)


def test_a_per_cent_sign_has_a_meaning_for_what_is_measured_in_per_cent():
    for unit in ("%", "per cent", "percentage points"):
        assert read("direct", "<prior>55%, 3 %</prior>", unit=unit).value == (NORMAL, 55, 3)


@pytest.mark.filterwarnings("error")
def test_extremes_that_are_read_can_be_judged():
    """No parameters overflow, or are integrated for ever, about a share or a mean."""
    truth = store.load_quantities(TASK)
    is_share = judged.proportions(truth)
    kept = np.isin(np.arange(len(is_share)), [is_share.argmax(), is_share.argmin()])
    truth = judged.select_quantities(truth, kept)
    tiny, huge = 1e-15, 1e15
    for family, extremes in {
        "normal": [(a, b) for a in (-huge, 0, tiny, 0.3, 7, huge) for b in (tiny, huge)],
        "beta": [(a, b) for a in (tiny, 5e8, huge) for b in (tiny, 5e8, huge)],
        "lognormal": [(a, tiny) for a in (-229, -30, 7, 229)] + [(229, 0.9), (0, 15), (4, 15)],
    }.items():
        for a, b in extremes:
            assert read("direct", f"<prior>{a!r}, {b!r}</prior>", family).value[1:] == (a, b)
        shape = len(truth.quantities), len(extremes)
        a, b = (np.broadcast_to(each, shape) for each in np.transpose(extremes))
        stated = judged.FamilyPriors(np.full(shape, FAMILIES.index(family)), a, b)
        found = judged.judge(truth, stated)
        for each in (found.centre, found.spread, found.crps, found.posterior_error, found.ratio):
            assert np.isfinite(each).all()


@pytest.mark.filterwarnings("error")
def test_extreme_quantiles():
    for family, said in (
        ("beta", "0.5, 0.5, 0.5, 0.5, 0.500000000000002"),
        ("beta", "0, 0, 0, 0, 2e-15"),
        ("beta", "0, 0, 0, 0, 1"),
        ("normal", "-1e15, 0, 0, 0, 1e15"),
        ("lognormal", "1e-10, 1, 1, 1, 1e10"),
    ):
        assert read("quantile", f"<prior>{said}</prior>", family).is_read, said


_SOME = {
    NORMAL: (st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)),
    BETA: (st.floats(0.6, 1e4), st.floats(0.6, 1e4)),
    LOGNORMAL: (st.floats(-10, 15), st.floats(0.01, 2)),
}


@pytest.mark.parametrize("way", WRITTEN)
@pytest.mark.parametrize("family", _SOME)
def test_what_a_respondent_writes_is_read_back(way, family):
    row = row_of(way, family=FAMILIES[family], unit="")
    # Exact where parameters are written. A normal's quantiles lose what sd is to the mean.
    off = 0 if way.startswith("direct") else 1e-6

    @settings(max_examples=30)
    @given(*_SOME[family])
    def back(a, b):
        believed = np.full((priors.REPEATS, 3), np.nan)
        believed[1] = family, a, b
        value = WAYS[way].read(row, [WAYS[way].writes(believed, row)]).value
        assert value[0] == family
        mean, sd = families.mean(family, a, b), families.sd(family, a, b)
        assert families.mean(*value) == pytest.approx(mean, rel=off, abs=off * sd)
        assert families.sd(*value) == pytest.approx(sd, rel=off, abs=1e-9 * abs(mean) * (off > 0))

    back()


def test_a_prior_of_another_family_is_written_by_its_moments():
    row = row_of("direct", family="lognormal", unit="$")
    believed = np.array([[NORMAL, 100.0, 20.0]] * priors.REPEATS)
    prior = WAYS["direct"].read(row, [WAYS["direct"].writes(believed, row)]).value
    assert prior[0] == LOGNORMAL
    assert families.mean(*prior) == pytest.approx(100)
    assert families.sd(*prior) == pytest.approx(20)
    chosen = WAYS["direct_choice"].writes(believed, row)
    assert chosen == "<prior>normal: 100.0, 20.0</prior>"


def test_repeats_that_are_not_asked():
    answer = read("direct", "<prior>55, 3</prior>")
    WAYS["direct"].check(answer, answer, None)
    with pytest.raises(ValueError, match="estimate 6 of 5"):
        WAYS["direct"].check(answer._replace(place=5), answer, None)


# Respondents through lm-eval


@pytest.mark.parametrize("kind", PRIOR.kinds)
def test_a_respondent_scores_alike_in_all_written_ways(kind):
    """The truth in all of them without any error; quantiles hold no other exactly. Of ten
    quantities, means and shares."""
    ways = WRITTEN if kind == "truth" else ["direct", "direct_choice", "mean_variance"]
    names = [in_way(TASK, way) for way in ways]
    results = evaluate(names, model_args=f"kind={kind}", limit=10)["results"]
    first = 0 if kind == "truth" else results[TASK]["error_ratio,none"]
    assert {one.family for one in store.load_quantities(TASK).quantities[:10]} == {"normal", "beta"}
    for name in names:
        assert results[name]["error_ratio,none"] == pytest.approx(first, rel=1e-6, abs=1e-9), name
        assert results[name]["answered,none"] == 1


def test_a_grid_recovers_a_known_normal_within_one_step():
    one = quantity("normal", "cm", 64, 144)
    points = ways.points(one)
    row = row_of("grid", choices=ways.format_grid(one))
    for m, s in ((100.3, 5.0), (80.0, 2.0), (120.9, 8.0)):
        believed = np.full((priors.REPEATS, 3), np.nan)
        believed[0] = NORMAL, m, s
        p = WAYS["grid"].believed(believed, row)
        assert p.sum() == pytest.approx(1)
        mean = p @ points
        assert abs(mean - m) < 0.1
        # Rounding to points adds a twelfth of a squared step (Sheppard).
        assert math.sqrt(p @ (points - mean) ** 2) == pytest.approx(
            math.sqrt(s**2 + 2**2 / 12), rel=0.02
        )


def test_a_grid_recovers_the_marginal_through_lm_eval():
    """Each row is scored at its own numbers."""
    name = in_way(TASK, "grid")
    samples = evaluate([name], model_args="kind=mean", log_samples=True)["samples"][name]
    truth = store.load_quantities(TASK)
    for sample in samples:
        one = truth.quantities[sample["doc"]["cell"]]
        logs = np.array([float(response[0]) for response in sample["filtered_resps"]])
        points = ways.points(one)
        assert len(logs) == len(points) == 41
        mean = np.exp(logs) @ points / np.exp(logs).sum()
        assert abs(mean - one.marginal_mean) <= points[1] - points[0]
    assert samples[0]["doc"]["choices"] != samples[1]["doc"]["choices"]


# System prompts


@pytest.fixture
def one_home(tmp_path_factory, monkeypatch):
    """A home for all of these tests: task files of each system prompt are written once."""
    folder = tmp_path_factory.getbasetemp() / "home of system prompts"
    monkeypatch.setenv("EPIDEMIA_HOME", str(folder))


def prompts_seen(chat, metadata, task=TASK, **arguments):
    """What a model is sent, and how the results describe the task."""

    class Listener(Says):
        tokenizer_name = "listener"

        def apply_chat_template(self, chat_history, add_generation_prompt=True):
            return json.dumps(chat_history)

        def generate_until(self, requests):
            self.heard = [request.args[0] for request in requests]
            return super().generate_until(requests)

        def loglikelihood(self, requests):
            self.heard = [request.args[0] for request in requests]
            return [(-float(number % 41), False) for number, _ in enumerate(requests)]

    model = Listener(lambda prompt: "<prior>55, 3</prior>")
    how = {"apply_chat_template": chat, "metadata": metadata, **arguments}
    results = evaluate([task], model=model, model_args=None, limit=5, **how)
    return model.heard, results["configs"][task]


@pytest.mark.parametrize("name", ["conservative", "superforecaster"])
def test_a_system_prompt_is_a_system_message(name, one_home):
    asked = split(TASK, "direct")["prompt"][0]
    heard, config = prompts_seen(True, {"system_prompt": name})
    system, user = json.loads(heard[0])
    assert (system["role"], system["content"].strip()) == ("system", SYSTEM_PROMPTS[name])
    assert user == {"role": "user", "content": asked}
    assert config["metadata"]["system_prompt"] == name
    # Without a template it stands before the prompt.
    heard, _ = prompts_seen(False, {"system_prompt": name})
    assert heard[0] == f"{SYSTEM_PROMPTS[name]}\n\n{asked}"
    # A system instruction stands before it.
    heard, _ = prompts_seen(True, {"system_prompt": name}, system_instruction="Be brief.")
    system, _ = json.loads(heard[0])
    assert system["content"].strip() == f"Be brief.\n\n{SYSTEM_PROMPTS[name]}"


def test_prompts_without_a_system_prompt():
    base = {"system_prompt": "base"}
    # Of a grid no other can be asked.
    for metadata, task in ((None, TASK), (base, TASK), (base, f"{TASK}_grid")):
        heard, _ = prompts_seen(True, metadata, task)
        assert len(json.loads(heard[0])) == 1


def test_runs_with_other_system_prompts_are_told_apart(tmp_path, one_home):
    from lm_eval_epidemia.results.read import read_results

    for name in ("base", "conservative"):
        how = {"model_args": "kind=flat", "limit": 10, "metadata": {"system_prompt": name}}
        recorded(tmp_path / name, [TASK, in_way(TASK, "grid")], **how)
    scores = read_results([tmp_path]).scores
    assert {*zip(scores["way"], scores["asked_as"].str.contains("conservative"), strict=True)} == {
        ("direct", False),
        ("direct", True),
        ("grid", False),  # a grid is asked alike
    }


# Names, cost, sets that a user built


def test_cost_counts_five_estimates_and_one_request_per_number():
    direct, points = cost(["epidemia_prior", "epidemia_prior_grid"])
    assert (direct.prompts, direct.requests) == (74 * 5, 74 * 5)
    assert (points.prompts, points.requests) == (74, 74 * 41)


def test_a_set_that_a_user_built_is_found_at_once(home):
    """Leaves, groups and task files follow what lies in the user's folder."""
    own = "epidemia_prior_own1"
    assert own not in list_leaves()
    assert task_path() == paths.shipped_task_yamls()
    truth = store.load_quantities(TASK)
    few = judged.select_quantities(truth, np.arange(len(truth.quantities)) < 3)._replace(task=own)
    store.write_quantities(store.find_built_folder(), few)
    assert list_leaves()[own].group == "epidemia_prior_own"
    assert find_tasks("epidemia_prior_own_quantile") == [(own, "quantile")]
    first = task_path()
    assert first.is_relative_to(home)
    results = evaluate(["epidemia_prior_own"], model_args="kind=truth")["results"]
    assert results[own]["error_ratio,none"] == pytest.approx(0, abs=1e-9)
    # Written anew when it changes, and gone with it.
    store.write_quantities(store.find_built_folder(), few._replace(title="Another"))
    assert task_path() not in (first, paths.shipped_task_yamls())
    shutil.rmtree(store.find_built_folder())
    look_at_disk()
    assert own not in list_leaves()
    assert task_path() == paths.shipped_task_yamls()
