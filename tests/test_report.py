"""Reading results, means and ranks, paired comparisons, other scales: everything but the site."""

import json
import math
import tracemalloc
from io import StringIO
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import recorded
from hypothesis import given, settings
from hypothesis import strategies as st
from report_parts import (
    AGE_SEX,
    COCAINE,
    EIGHT,
    EMPLOYER,
    HEROIN,
    METRICS,
    MMLU,
    NOBODY,
    RACE,
    SALARY,
    asked,
    by,
    command,
    scored,
    table,
    write,
)
from scipy import stats

from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.compare import compare
from lm_eval_epidemia.findings.leaderboard import SCALES
from lm_eval_epidemia.findings.ranks import ranked_tasks, standings
from lm_eval_epidemia.results.choose import model_size, with_bases
from lm_eval_epidemia.results.decode import Asked
from lm_eval_epidemia.results.published import with_published
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.samples import elicited, sample_file
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.joint import own_errors
from lm_eval_epidemia.score.score import Anchors

SEX_RACE = "epidemia_high_nsduh_cocaine_ever_by_sex_race"

# What is read.


def test_a_run_becomes_rows(tmp_path):
    tasks = {COCAINE: (40.0, 3.0), f"{COCAINE}_likelihood": (20.0, 1.0)}
    write(tmp_path, tasks, config={"model_num_parameters": 7_600_000_000})
    results = read_results([tmp_path])
    (run,) = results.runs.to_dict("records")
    assert (run["name"], run["parameters"], run["settings"]) == ("some-model", 7.6e9, "")
    letters, likelihood = results.scores.set_index("way").loc[["letters", "likelihood"]].iloc
    assert letters["value"] == 40.0 and own_errors([likelihood["draws"]]) == [1.0]
    # D_zero - .4 (D_zero - D_perfect)
    l1 = pytest.approx(0.188099, abs=1e-6)
    metrics = {**METRICS, "score_population": 40.0, "l1": l1}
    assert letters[[*metrics]].to_dict() == metrics


def test_what_was_asked_otherwise_stands_apart(tmp_path):
    sha = {"system_instruction": "Be brief", "system_instruction_sha": "12345678ab"}
    others = {
        "5 solved examples": {"metadata": {"fewshot": 5}},
        "balanced orderings": {"metadata": {"orderings": "balanced"}},
        "gen_prefix=It is": {"metadata": {"gen_prefix": "It is"}},
        "leading_space=False": {"metadata": {"leading_space": False}},
        "truth 2023 abc": {"metadata": {"truth": "abc", "vintage": "2023"}},
        "task version 0": {"versions": {COCAINE: 0}},
        "few-shot 3": {"n-shot": {COCAINE: 3}},
        "system prompt 1234": sha,
    }
    write(tmp_path / "usual", {COCAINE: (40.0, 3.0)})
    for number, more in enumerate(others.values()):
        write(tmp_path / str(number), {COCAINE: (60.0, 3.0)}, **more)
    results = read_results([tmp_path])
    assert {*results.runs["settings"]} == {"", *others}
    # Nobody is there whom one could be ranked with, or is ever compared with.
    found = table("leaderboard", tmp_path)
    assert {*found["rank"].dropna()} == {""} and {*found["rank_among"].dropna()} == {1.0}
    assert table("pairs", tmp_path).empty


def test_words_in_a_variant_decide_nothing(tmp_path):
    """The prefix "In truth" is no other truth: there are scales; a comma in it parts nothing."""
    write(tmp_path / "a", {COCAINE: (40.0, 3.0)}, metadata={"gen_prefix": "In truth"})
    write(tmp_path / "b", {COCAINE: (40.0, 3.0)}, metadata={"gen_prefix": "Yes, fewshot=5, so"})
    scales = table("scale", tmp_path).groupby("settings")["scale"].agg(set)
    assert {*scales.index} == {"gen_prefix=In truth", "gen_prefix=Yes, fewshot=5, so"}
    assert all(of >= {*SCALES} for of in scales)
    # Another truth is one, whatever else was said.
    write(tmp_path / "c", {COCAINE: (40.0, 3.0)}, metadata={"truth": "abc", "fewshot": 2})
    assert {*table("scale", tmp_path / "c")["scale"]} == {"population"}


@pytest.mark.parametrize("hashes", [("12345678a", "12345678b"), ("", None)])
def test_other_system_prompts_are_other_runs(tmp_path, hashes):
    """Also where their hashes begin alike, or an older file has none."""
    for text, sha in zip(("Be brief", "Be kind"), hashes, strict=True):
        more = {"system_instruction": text, "system_instruction_sha": sha}
        write(tmp_path / text, {COCAINE: (40.0, 3.0)}, **more)
    results = read_results([tmp_path])
    assert results.runs["name"].nunique() == 2 and results.notes.empty
    assert table("pairs", tmp_path).empty


def test_a_limit_is_marked_unless_nothing_was_cut_off(tmp_path):
    row = {"score,none": 50.0, "score_stderr,none": 1.0, "l1,none": 0.1}
    tasks = {COCAINE: {**row, "seen,none": 0.4}, HEROIN: {**row, "seen,none": 1.0}}
    write(tmp_path, tasks, config={"limit": 10})
    results = read_results([tmp_path])
    assert [*results.runs["settings"]] == ["limit 10"] and len(results.scores) == 2
    assert table("scale", tmp_path).empty
    write(tmp_path, {HEROIN: tasks[HEROIN]}, config={"limit": 10})
    assert [*read_results([tmp_path]).runs["settings"]] == [""]


def test_sampled_answers_of_another_temperature_are_not_compared(tmp_path):
    name = f"{COCAINE}_sampled"
    for drawn, asked_as in (({"temperature": 0.7}, "temperature=0.7"), ({"max_gen_toks": 5}, "")):
        write(tmp_path, {name: (40.0, 3.0)}, config={"gen_kwargs": drawn})
        results = read_results([tmp_path])
        assert [*results.scores["asked_as"]] == [*results.runs["settings"]] == [asked_as]


def test_of_two_runs_the_later_counts_and_a_note_says_so(tmp_path):
    write(tmp_path / "b", {COCAINE: (40.0, 3.0), HEROIN: (1.0, 1.0), **MMLU}, date=5.0)
    write(tmp_path / "a", {COCAINE: (60.0, 3.0), **MMLU}, date=9.0)
    results = read_results([tmp_path])
    assert len(results.runs) == 1 and by(results.scores, "task") == {COCAINE: 60.0, HEROIN: 1.0}
    (note,) = results.notes["text"]
    assert "1 task asked more than once with the same settings; the newest" in note
    assert f"not those in 1 older file ({tmp_path}" in note
    assert note.endswith(f"which had another score in {COCAINE}")


def test_names_tell_models_apart(tmp_path):
    for number, arguments in enumerate(
        [
            {"pretrained": "org/model"},
            {"pretrained": "other/model"},
            {"pretrained": "org/pythia", "revision": "step1000"},
            {"pretrained": "org/pythia", "revision": "main"},
            {"pretrained": "org/pythia", "peft": "/adapters/mine"},
            "pretrained=org/old,dtype=float32",
            {"kind": "noisy", "noise": 0.3},
            {"pretrained": "x" * 300},
            {"pretrained": "x" * 300 + "y"},
        ]
    ):
        write(tmp_path / str(number), {COCAINE: (1.0, 1.0)}, config={"model_args": arguments})
    names = {*read_results([tmp_path]).runs["name"]}
    assert len(names) == 9
    pythia = {"pythia +revision=step1000", "pythia", "pythia +mine"}
    assert pythia | {"org/model", "other/model", "old", "hf kind=noisy,noise=0.3"} <= names


#: Other tasks as lm-eval 0.4.13 writes them: results, directions of metrics, and the columns.
OTHERS = {
    "a group hides its members": (
        {
            "mmlu": {"acc,none": 0.65, "acc_stderr,none": 0.004, "sample_count": {"acc,none": 100}},
            "mmlu_anatomy": {"acc,none": 0.5},
        },
        {},
        {"mmlu (acc)": 0.65},
    ),
    "a group without metrics hides none": (
        {"mmlu": {"name": "mmlu", "alias": "mmlu"}, "mmlu_anatomy": {"acc,none": 0.5}},
        {},
        {"mmlu_anatomy (acc)": 0.5},
    ),
    "one metric of several": (
        {"hellaswag": {"acc,none": 0.5, "acc_norm,none": 0.7, "sample_len": 100}},
        {},
        {"hellaswag (acc_norm)": 0.7},
    ),
    "before 0.4": ({"arc": {"acc": 0.3, "acc_stderr": 0.1}}, {}, {"arc (acc)": 0.3}),
    "every filter": (
        {
            "gsm8k": {
                "name": "gsm8k",
                "alias": "gsm8k",
                "sample_len": 1319,
                "exact_match,strict-match": 0.2,
                "exact_match_stderr,strict-match": 0.01,
                "exact_match,flexible-extract": 0.4,
                "exact_match_stderr,flexible-extract": 0.01,
            }
        },
        {"exact_match": True},
        {"gsm8k (exact_match, strict-match)": 0.2, "gsm8k (exact_match, flexible-extract)": 0.4},
    ),
    "better when lower": (
        {
            "wikitext": {
                "sample_len": 62,
                "word_perplexity,none": 12.5,
                "word_perplexity_stderr,none": "N/A",
                "byte_perplexity,none": 1.6,
                "bits_per_byte,none": 0.7,
            }
        },
        dict.fromkeys(("word_perplexity", "byte_perplexity", "bits_per_byte"), False),
        {"wikitext (word_perplexity, lower is better)": 12.5},
    ),
    "better when higher comes first": (
        {"mine": {"cost,none": 9.0, "gain,none": 3.0}},
        {"cost": False, "gain": True},
        {"mine (gain)": 3.0},
    ),
    "nobody knows which is better": (
        {"mine": {"gain,none": 3.0}},
        {"gain": None},
        {"mine (gain)": 3.0},
    ),
    "shares are not made per cents": (
        {
            "humaneval": {"pass@1,create_test": 0.3},
            "ifeval": {"prompt_level_strict_acc,none": 0.4, "inst_level_strict_acc,none": 0.5},
        },
        {"pass@1": True, "prompt_level_strict_acc": True, "inst_level_strict_acc": True},
        {"humaneval (pass@1, create_test)": 0.3, "ifeval (prompt_level_strict_acc)": 0.4},
    ),
}


def test_other_tasks_become_columns(tmp_path):
    for case, (others, higher, _) in OTHERS.items():
        write(
            tmp_path / case,
            {COCAINE: (40.0, 3.0), **others},
            model=case,
            group_subtasks={"mmlu": ["mmlu_anatomy"], "hellaswag": []},
            higher_is_better=dict.fromkeys(others, higher),
        )
    found = table("other", tmp_path)
    shown = {model: by(of, "other") for model, of in found.groupby("model")}
    assert shown == {case: columns for case, (_, _, columns) in OTHERS.items()}
    assert read_results([tmp_path]).notes.empty and {*found["score"]} == {40.0}
    assert "0.6500" in command("report", tmp_path, "--show", "other", "--wide")


def test_other_tasks_that_were_asked_otherwise_have_other_columns(tmp_path):
    cases = [
        ({"n-shot": {"arc": 0}}, {"n-shot": {"arc": 10}}, [", 0-shot", ", 10-shot"]),
        ({"n-shot": {}}, {"n-shot": {"arc": 10}}, ["", ", 10-shot"]),
        ({"versions": {"arc": 1.0}}, {"versions": {"arc": 2}}, [", version 1", ", version 2"]),
        ({"versions": {"arc": 1.0}}, {"versions": {"arc": 1}}, [""]),
        ({}, {"config": {"limit": 10.0}}, ["", ", limit 10"]),
        ({}, {"config": {"limit": 0.5}}, ["", ", limit 0.5"]),
    ]
    for place, (first, second, columns) in enumerate(cases):
        for models in (("small", "small"), ("small", "large")):
            folder = tmp_path / f"{place} {models[1]}"
            for number, more in enumerate((first, second)):
                model = models[number]
                write(folder / model, {COCAINE: (40.0, 3.0)}, model=model)
                arc = {"arc": {"acc,none": 0.3 + number}}
                write(folder / str(number), arc, model=model, date=float(number), **more)
            labels = {*read_results([folder]).others["other"]}
            assert labels == {f"arc (acc{asked})" for asked in columns}, (place, models)


def test_another_task_without_a_number_is_named(tmp_path):
    others = {
        "mmlu": {"acc,none": "N/A"},
        "mmlu_anatomy": {"acc,none": 0.4},
        "gsm8k": {"exact_match,strict": 0.5, "exact_match,loose": math.nan},
        "empty": {"alias": "empty"},
    }
    members = {"mmlu": ["mmlu_anatomy"]}  # which a group without a number does not hide
    path = write(tmp_path, {COCAINE: (40.0, 3.0), **others}, group_subtasks=members)
    results = read_results([tmp_path])
    known = {"mmlu_anatomy (acc)": 0.4, "gsm8k (exact_match, strict)": 0.5}
    assert by(results.others, "other") == known
    assert [*results.notes["text"]] == [
        f"{path}: left out mmlu (acc), gsm8k (exact_match, loose), empty (no metric): none "
        "of their metrics is a finite number"
    ]


def test_folders_that_hold_nothing(tmp_path):
    with pytest.raises(EpidemiaError, match="holds no results_"):
        read_results([tmp_path])
    with pytest.raises(EpidemiaError, match="does not exist"):
        read_results([tmp_path / "typo"])
    write(tmp_path, {"unknown": {"alias": "unknown"}})
    with pytest.raises(EpidemiaError, match="no epidemia task"):
        read_results([tmp_path])


def test_a_score_that_is_not_a_number_is_said_and_left_out_of_means(tmp_path):
    """A server without `echo`: the mass of its letters, which explains it, stays."""
    row = dict.fromkeys(("score,none", "score_stderr,none", "l1,none"), math.nan)
    row |= {"seen,none": 1.0, "choice_mass,none": 2.0}
    write(tmp_path, {COCAINE: row, HEROIN: (30.0, 4.0)})
    results = read_results([tmp_path])
    (note,) = results.notes["text"]
    assert "no score (NaN) in 1 task" in note
    assert by(results.scores, "task", of="choice_mass") == {COCAINE: 2.0, HEROIN: 0.9}
    mean = table("leaderboard", tmp_path).iloc[0]
    assert (mean["value"], mean["error"], mean["tasks"]) == (30.0, 4.0, 1)
    # JSON has no NaN.
    shown = command("report", tmp_path, "--format", "json", "--show", "tasks")
    assert len(json.loads(shown, parse_constant=lambda text: 1 / 0)["tasks"]) == 2
    # In bfloat16, 22 probabilities that sum to 1 may read as 1.0065.
    write(tmp_path, {COCAINE: {**row, "score,none": 1.0, "choice_mass,none": 1.0065}})
    assert [*read_results([tmp_path]).scores["value"]] == [1.0]


def test_sizes(tmp_path):
    assert [model_size(x) for x in ("7B", "350m", "1.5e9", " 2T ")] == [7e9, 3.5e8, 1.5e9, 2e12]
    for wrong in ("", "B", "big", "-7B", "nan", "inf"):
        with pytest.raises(EpidemiaError, match="expected a number of parameters"):
            model_size(wrong)
    write(tmp_path, {COCAINE: (40.0, 3.0)})
    assert [*read([tmp_path], sizes=["some-model=7B"]).runs["parameters"]] == [7e9]
    with pytest.raises(EpidemiaError, match="a size was given for other"):
        read([tmp_path], sizes=["other=1B"])


# What is computed.


def test_a_comparison_counts_outcomes_not_tasks():
    """Two outcomes of NSDUH and two of the ACS; the two heroin tasks move together.

    d = 10 (cocaine), 20, 20 (heroin by age, by race), 30 (employer): mean 20. Sums of deviations by
    outcome: -10, 0, 10. CR2: sqrt((100 + 100) / (1 - 1/4)) / 4 = 4.0825. Degrees of freedom: 16 /
    (1 + 4 + 1 + 2 (4/6 + 1/9 + 4/6)) = 1.8.
    """
    one = scored({COCAINE: 60, HEROIN: 70, RACE: 70, EMPLOYER: 80}, asked(1.0))
    other = scored(dict.fromkeys([COCAINE, HEROIN, RACE, EMPLOYER, SALARY], 50), asked(1.0), 1)
    found = compare(one, other, NOBODY)
    assert (found.tasks, found.outcomes, found.difference) == (4, 3, 20.0)
    assert found.error == pytest.approx(math.sqrt(200 / 0.75) / 4)
    assert found.half_width == pytest.approx(found.error * stats.t.ppf(0.975, 1.8))
    assert (found.wins, found.ties, found.losses) == (4, 0, 0)
    # Three outcomes say nothing of others.
    assert found.verdict == "better here" and math.isnan(found.low) and math.isnan(found.high)
    back = compare(other, one, NOBODY)
    assert (back.difference, back.wins, back.losses) == (-20.0, 0, 4)
    assert back.verdict == "worse here"
    assert compare(one, scored({SALARY: 1}, run=1)) is None


def ranked(*models):
    """Stand models in epidemia_low, with an error of 1 in each task: scores by task."""
    scores = pd.concat([scored(of, asked(1.0), run) for run, of in enumerate(models)])
    return standings(scores, "epidemia_low", dict.fromkeys(range(len(models)), True), NOBODY)


def test_better_is_said_only_when_it_is():
    base = dict.fromkeys(EIGHT, 50.0)
    uneven, same = {**base, HEROIN: 50.5, EMPLOYER: 80.0}, {**base, EMPLOYER: 50.4}
    even = dict.fromkeys(base, 50.1)  # by less than the scores' own errors
    verdicts = [
        compare(scored(of, asked(1.0)), scored(base, asked(1.0), 1), NOBODY).verdict
        for of in (uneven, same, even)
    ]
    assert verdicts == ["better here", "not shown", "not shown"]
    lone = [scored({COCAINE: score}, asked(1.0), score) for score in (90, 10)]
    found = compare(*lone, NOBODY)
    assert math.isnan(found.error) and found.verdict == "better here"
    assert {(one.best, one.worst) for one in ranked(uneven, same, base).values()} == {(1, 3)}


def test_only_who_was_asked_everything_is_ranked():
    """Who only is beside the models, and who was asked a part, have no rank."""
    scores = [dict.fromkeys(EIGHT, x) for x in (90.0, 10.0, 50.0)] + [{COCAINE: 95.0}]
    every = pd.concat([scored(of, asked(1.0), run) for run, of in enumerate(scores)])
    can = {0: True, 1: True, 2: False, 3: True}
    good, bad, beside, part = standings(every, "epidemia_low", can, NOBODY).values()
    assert (good.best, good.worst, bad.best, bad.worst) == (1, 1, 2, 2)
    assert not part.complete and part.best is None
    assert beside.complete and beside.best is None


def test_a_task_more_takes_nobody_out_of_the_ranking():
    """Ten runs of eight tasks, one of nine, one of a single task: eleven ranked, over eight."""
    whole = [dict.fromkeys(EIGHT, 8.0 * x) for x in range(10)]
    found = ranked(*whole, {**dict.fromkeys(EIGHT, 99.0), RACE: 0.0}, {COCAINE: 100.0})
    assert [run for run, one in found.items() if one.best is None] == [11]
    assert {one.shared for one in found.values()} == {8} and not found[11].complete
    # Over the eight it is better than all; over its nine it would not be.
    assert (found[10].best, found[10].worst, found[10].complete) == (1, 1, True)
    assert (found[0].best, found[0].worst) == (11, 11)


def test_what_a_ranking_is_over():
    known = dict(zip("12345", sorted([COCAINE, HEROIN, RACE, EMPLOYER, SALARY]), strict=True))
    for several, shared, with_rank in (
        # Half of the broadest one's is enough, less is not.
        (["1234", "12"], "12", [0, 1]),
        (["12345", "12"], "12345", []),
        # Each shares half with the broadest, both together less: whom more were asked like.
        (["1234", "12", "34", "34"], "34", [0, 2, 3]),
        (["1234", "123", "234"], "23", [0, 1, 2]),
        # Nothing in common: one of the two, the same whoever comes first.
        (["12", "34"], "12", []),
        (["34", "12"], "12", []),
        (["1"], "1", []),
    ):
        assert ranked_tasks([frozenset(tasks) for tasks in several]) == {*shared}, several
        places = ranked(*({known[x]: 1.0 for x in tasks} for tasks in several))
        complete = [run for run, place in places.items() if place.complete]
        assert complete == [run for run, of in enumerate(several) if {*of} >= {*shared}]
        assert [run for run, place in places.items() if place.best] == with_rank, several


def test_the_report_says_how_many_tasks_ranks_are_over(tmp_path):
    write(tmp_path / "a", dict.fromkeys(EIGHT, (90.0, 1.0)), model="a")
    write(tmp_path / "b", dict.fromkeys([*EIGHT, RACE], (10.0, 1.0)), model="b")
    for model in "cd":
        cocaine = {COCAINE: (50.0, 1.0)}
        write(tmp_path / model, cocaine, model=model, metadata={"fewshot": 2})
    shown = command("report", tmp_path, "--show", "leaderboard", "--wide")
    assert "1 of 2" in shown and "1-2 of 2" in shown and "10.0 ± 0.3" in shown
    assert "9 tasks" in shown and "shares at least half of the tasks" in " ".join(shown.split())
    found = pd.read_csv(StringIO(command("report", tmp_path, "--format", "csv")))
    found = found[found["kind"] == "run"]
    assert by(found, "model", of="rank_shared") == {"a": 8, "b": 8, "c": 1, "d": 1}
    assert by(found, "model", of="rank_best") == {"a": 1, "b": 2, "c": 1, "d": 1}
    assert by(found, "model", of="part")["b"] == "9 tasks"


def test_rank_correlation(tmp_path):
    """Ranks 1, 2, 3, 4 against 1, 3, 2, 4: 1 - 6 (1 + 1) / (4 * 15) = 0.8."""
    for number, (ours, theirs) in enumerate([(10, 20), (20, 60), (30, 40), (40, 80)], start=1):
        tasks = {COCAINE: (float(ours), 1.0), "mmlu": {"acc,none": theirs / 100}}
        write(tmp_path / str(number), tasks, model=f"m{number}")
        (found,) = table("correlation", tmp_path).to_dict("records")
        expected = {3: 0.5, 4: 0.8}.get(number, math.nan)
        assert found["value"] == pytest.approx(expected, nan_ok=True)
        assert found["models"] == number


def test_instruct_versions_are_found_by_name(tmp_path):
    pairs = {
        ("Llama-3.1-8B", "Llama-3.1-8B-Instruct"),
        ("gemma-2-9b", "gemma-2-9b-it"),
        ("Mistral-7B-v0.3", "Mistral-7B-Instruct-v0.3"),
    }
    for name in [*sorted(name for pair in pairs for name in pair), "phi-4", "Qwen2.5-7B-Instruct"]:
        write(tmp_path / name, {COCAINE: (1.0, 1.0)}, model=name)
    results = read_results([tmp_path])
    for more in ([], [("phi-4", "Qwen2.5-7B-Instruct")]):
        bases = by(with_bases(results, more).runs, "model", of="bases")
        assert {(base, model) for model, of in bases.items() for base in of} == pairs | {*more}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([COCAINE, HEROIN, EMPLOYER, SALARY, "epidemia_low_bls_sex_by_occupation"]),
    st.integers(0, 2**32 - 1),
    st.floats(0.05, 20),
)
def test_every_scale_equals_recomputation_from_raw_probabilities(task, seed, concentration):
    """Written out anew from the definitions, from P and P~ instead of l1 and anchors."""
    truth = store.load(task)
    cells, levels = truth.p.shape
    q = np.random.default_rng(seed).dirichlet([concentration] * levels, cells)
    weights = truth.weights

    def away(values):
        rows = zip(weights, values, truth.p, strict=True)
        return float(sum(w * abs(a - b).sum() for w, a, b in rows))

    marginal = weights @ truth.p
    uniform = away(np.full_like(truth.p, 1 / levels))
    commoner = away(np.tile(np.eye(levels)[marginal.argmax()], (cells, 1)))
    mean = away(np.tile(marginal, (cells, 1)))
    zero = min(uniform, commoner) if levels == 2 else uniform
    perfect = 0.0
    if truth.distances:
        ordered = np.sort(truth.distances["iid"])
        place = 0.95 * (len(ordered) - 1)
        low = int(place)
        perfect = ordered[low] + (place - low) * (
            ordered[min(low + 1, len(ordered) - 1)] - ordered[low]
        )
    d = away(q)

    def scaled(top):
        return 100 * min(max((top - d) / (top - perfect), 0.0), 1.0)

    expected = {
        "score": scaled(zero),
        "against uniform": scaled(uniform),
        "against mean": scaled(mean),
        "without D_perfect": 100 * max(1 - d / zero, 0.0),
    }
    assert set(expected) == set(SCALES)
    for how, value in expected.items():
        assert SCALES[how](d, Anchors.of(truth)) == pytest.approx(value, abs=1e-9), how


def test_intervals_of_the_truth():
    """Jeffreys' interval for 10 of 100: Beta(10.5, 90.5), its density integrated anew."""
    low, high = interval(np.array([[0.1, 0.9], [0.0, 1.0]]), np.array([100.0, 100.0]))
    x = np.linspace(0, 1, 200_001)[1:-1]
    density = np.exp(9.5 * np.log(x) + 89.5 * np.log1p(-x))
    below = np.cumsum(density) / density.sum()
    expected = np.interp([0.025, 0.975], below, x)
    assert (low[0, 0], high[0, 0]) == pytest.approx(tuple(expected), abs=1e-5)
    assert low[1, 0] == 0 and high[1, 1] == 1 and 0.02 < high[1, 0] < 0.03
    exact = interval(np.array([[0.3, 0.7]]), np.array([np.inf]))
    assert exact[0].tolist() == exact[1].tolist() == [[0.3, 0.7]]


def test_published_scores_are_of_the_tasks_asked(tmp_path):
    """Llama 3 8B, task 52: as in the published table; one score was published as not a number."""
    write(tmp_path, dict.fromkeys([COCAINE, f"{HEROIN}_likelihood"], (1.0, 1.0)))
    results = with_published(read_results([tmp_path]))
    published = results.runs[results.runs["kind"] == "published"]
    assert len(published) == 7
    (gpt,) = published.index[published["model"] == "GPT 4.1"]
    asked = results.scores[results.scores["run"] == gpt]
    assert asked[["task", "way"]].to_numpy().tolist() == [[HEROIN, "likelihood"]]
    every = product(store.all_tasks(), ("letters", "likelihood"))
    every = pd.DataFrame(every, columns=["task", "way"]).assign(asked_as="", run=0)
    results = with_published(read_results([tmp_path])._replace(scores=every))
    values = results.scores[results.scores["asked_as"] == "published"]
    assert len(values) == 2197 - 1
    first = values[values["task"] == "epidemia_low_acs_employment_status_by_sex"]
    first = first[first["way"] == "letters"].set_index("run")["value"]
    (llama,) = results.runs.index[results.runs["model"] == "LLama3 8B"]
    assert first[llama] == 52.7991


# What is printed.


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    tasks = [COCAINE, HEROIN, EMPLOYER, SALARY]
    for name, level in (("Big-70B", 60.0), ("Small-7B", 30.0), ("Small-7B-Instruct", 31.0)):
        scores = {task: (level + 3 * i, 1.5) for i, task in enumerate(tasks)}
        mmlu, size = {"acc,none": level / 100}, 7e9 if "7B" in name else 7e10
        config = {"model_num_parameters": size}
        write(folder / name, {**scores, "mmlu": mmlu}, model=f"org/{name}", config=config)
    return folder


def test_the_report_as_tables(three):
    names = "leaderboard,other,correlation,survey,scale,versions,pairs"
    shown = command("report", three, "--published", "--show", names, "--wide")
    for part in (
        *("Big-70B", "64.5 ± 0.8", "Beside other tasks", "0.6000", "1.00 (3)"),
        *("Score by survey", "Means on other scales", "LLama3 8B", "published"),
        *("Instruct or retrieving version less plain model", "Models compared", "+30.0 ± 0.0"),
    ):
        assert part in shown, part


def test_the_report_for_programs(three):
    """A finding alone is its table; several have a column more in csv, and a key each in json."""
    found = pd.read_csv(StringIO(command("report", three, "--format", "csv")))
    (big,) = found[found["model"] == "Big-70B"].to_dict("records")
    assert (big["value"], big["rank_best"], big["tasks"], big["parameters"]) == (64.5, 1, 4, 7e10)
    several = ["report", three, "--show", "leaderboard,pairs", "--format"]
    rows = pd.read_csv(StringIO(command(*several, "csv")))
    assert rows.columns[0] == "finding" and {*rows["finding"]} == {"leaderboard", "pairs"}
    in_json = json.loads(command(*several, "json"))
    assert sum(map(len, in_json.values())) == len(rows)
    verdicts = {"better", "worse", "better here", "worse here", "not shown"}
    assert {pair["verdict"] for pair in in_json["pairs"]} <= verdicts
    latex = command("report", three, "--format", "latex")
    assert r"epidemia\_low" in latex and r"$\pm$" in latex and r"\begin{tabular}" in latex


def test_names_from_files_are_text(tmp_path):
    write(tmp_path, {COCAINE: (1.0, 1.0)}, model="org/[red]a & b_{c}[bold]\n#2 %")
    for show in ([], ["--show", "leaderboard"]):
        assert "[red]a & b_{c}[bold] #2 %" in command("report", tmp_path, *show)
    latex = command("report", tmp_path, "--format", "latex")
    assert r"\& b\_\{c\}" in latex and r"\#2 \%" in latex


def test_options_that_are_not_known(three):
    models = "expected BASE=OTHER, of Big-70B, Small-7B, Small-7B-I"
    for options, message in {
        "--format xml": "expected table, csv, json or latex",
        "--size Big-70B": "expected MODEL=7B",
        "--size Big-70B=large": "expected a number of parameters",
        "--pair x": "'x' does not name two of the models",
        "--pair Big-70B=Big-70B": "'Big-70B' cannot be paired with itself",
        "--pair a=b=c": f"'a=b=c' does not name two of the models: {models}",
        "--cutoff Big-70B=2024": "expected a month such as 2024-06",
        "--show leaderbord": "nearest: leaderboard",
    }.items():
        with pytest.raises(EpidemiaError, match=message):
            command("report", three, *options.split())


def test_figures_are_saved(three, tmp_path):
    for ending, begins in {
        ".svg": b"<svg",
        ".png": b"\x89PNG",
        ".pdf": b"%PDF",
        ".json": b"{",
    }.items():
        out = tmp_path / f"figure{ending}"
        command("plot", "leaderboard", three, "--out", out)
        assert out.read_bytes().startswith(begins)
    for name in ("size", "beside", "surveys"):
        command("plot", name, three, "--out", tmp_path / f"{name}.svg")
        assert b"NaN" not in (tmp_path / f"{name}.svg").read_bytes(), name
    pair = tmp_path / "versions.json"
    command("plot", "versions", three, "--pair", "Big-70B=Small-7B", "--out", pair)
    assert '"other": "Big-70B"' in pair.read_text()
    command("plot", "bootstrap", "--task", COCAINE, "--out", tmp_path / "b.svg")
    assert "calibration" in command("plot", "list")
    write(tmp_path / "one", {COCAINE: (1.0, 1.0)})
    for wrong, message in (
        (["calibrations", three], "nearest: calibration"),
        (["curve", three], "name it with --task"),
        (["leaderboard", three, "--out", "figure.gif"], "expected a name that ends in"),
        (["calibration", three], "run lm_eval"),
        (["curve", three, "--task", "typo"], "no task 'typo'"),
        (["bootstrap", "--task", "epidemia_low_bls_sex_by_occupation"], "published table"),
        (["closed", three], "closed subset"),
        (["versions", tmp_path / "one"], "--pair"),
    ):
        with pytest.raises(EpidemiaError, match=message):
            command("plot", *wrong)


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """A base model, its instruct version, and one that only writes."""
    folder = tmp_path_factory.mktemp("versions")
    low = {COCAINE: (40.0, 1.0), HEROIN: (20.0, 1.0), SALARY: (60.0, 1.0)}
    subset = {f"{AGE_SEX}_likelihood": (10.0, 1.0), f"{SEX_RACE}_likelihood": (20.0, 1.0)}
    more = {task: (score + 10, 1.0) for task, (score, _) in low.items()}
    closed = {f"{AGE_SEX}_closed": (50.0, 3.0), f"{SEX_RACE}_closed": (70.0, 4.0)}
    write(folder / "a", {**low, AGE_SEX: (30.0, 2.0), **subset}, model="x/Small-7B")
    write(folder / "b", {**more, **subset}, model="x/Small-7B-Instruct")
    write(folder / "c", closed, model="x/Writes-1T")
    return folder


def _mean_respondent(*tasks, told=lambda p: p):
    scores = []
    for truth in map(store.load, tasks):
        apart = np.abs(truth.p[:, 0] - told(truth.weights @ truth.p[:, 0]))
        # Of two answers, both are as far off; of more, the anchor has it.
        binary = len(truth.levels) == 2
        l1 = 2 * truth.weights @ apart if binary else Anchors.of(truth).mean
        scores.append(SCALES["score"](l1, Anchors.of(truth)))
    return np.mean(scores)


def test_scores_by_survey_and_number_of_conditions(versions):
    found = table("survey", versions)
    here = found[(found["model"] == "Small-7B") & (found["group"] == "epidemia_low")]
    nsduh, acs = here.set_index("survey").loc[["nsduh", "acs"]].iloc
    assert (nsduh["value"], nsduh["tasks"], acs["value"], acs["tasks"]) == (30.0, 2, 60.0, 1)
    assert nsduh["averages"] == pytest.approx(_mean_respondent(COCAINE, HEROIN))
    # Standard error of a mean of two: sqrt(1 + 1) / 2.
    assert nsduh["error"] == pytest.approx(math.sqrt(2) / 2)
    assert nsduh["high"] == pytest.approx(30 + 1.96 * math.sqrt(2) / 2)
    found = table("dimension", versions)
    found = found[~found["group"].str.contains("likelihood|closed")]
    values = {("Small-7B", "d = 1"): 40.0, ("Small-7B", "d = 2"): 30.0}
    assert by(found, "model", "dimension") == values | {("Small-7B-Instruct", "d = 1"): 50.0}


def test_versions_task_by_task(versions):
    found = table("version-tasks", versions)
    low = found[found["group"] == "epidemia_low"].set_index("task")
    pairs = {COCAINE: [40.0, 50.0], HEROIN: [20.0, 30.0], SALARY: [60.0, 70.0]}
    assert low.T[[*pairs]].loc[["base", "value"]].to_dict("list") == pairs
    found = table("versions", versions)
    (mean,) = found[found["group"] == "epidemia_low"].to_dict("records")
    assert (mean["difference"], mean["tasks"]) == (10.0, 3)


def test_the_closed_subset_has_both_ways_and_what_was_published(versions):
    found = table("closed", versions, published=True).set_index(["model", "asked"])
    assert found["value"]["Writes-1T", "closed"] == 60.0
    assert found["error"]["Writes-1T", "closed"] == 2.5
    # It says the middle of the interval, of 5 per cent, that holds P(Y).
    said_so = _mean_respondent(AGE_SEX, SEX_RACE, told=lambda p: (math.floor(20 * p) + 0.5) / 20)
    assert found["averages"]["Writes-1T", "closed"] == pytest.approx(said_so)
    assert found["value"]["Small-7B", "likelihood"] == 15.0
    scores = with_published(read_results([versions])).scores
    gpt = scores[(scores["asked_as"] == "published") & (scores["way"] == "likelihood")]
    assert found["value"]["GPT 4.1", "likelihood"] in [*gpt.groupby("run")["value"].mean()]
    assert found["tasks"]["GPT 4.1", "likelihood"] == 2


# Samples, as lm-eval writes them.


@pytest.fixture(scope="module")
def sampled_run(tmp_path_factory):
    """A run of one respondent in four ways of asking, with samples, by lm-eval itself."""
    ways = [f"{COCAINE}_likelihood", f"{EMPLOYER}_sampled", f"{AGE_SEX}_closed"]
    arguments = {"model_args": "kind=noisy,noise=0.5", "metadata": {"n_samples": 20}}
    return recorded(tmp_path_factory.mktemp("run"), [COCAINE, EMPLOYER, SALARY, *ways], **arguments)


def test_samples_give_the_distance_of_the_result_file(sampled_run):
    scores = read_results([sampled_run]).scores
    assert len(scores) == 6
    for task, way, file, l1 in zip(
        *(scores[x] for x in ("task", "way", "file", "l1")), strict=True
    ):
        one = elicited(sample_file(file, Asked(task, way)), Asked(task, way))
        assert one.l1 == pytest.approx(l1, abs=1e-9), (task, way)
        assert one.q.shape == store.load(task).p.shape
        assert (one.by_position is not None) == (way in ("letters", "sampled"))


def test_samples_are_read_line_by_line(sampled_run, tmp_path):
    """Fifty times as long: memory grows by the answers, not by the text."""
    asked = Asked(EMPLOYER, "letters")
    path = sample_file(next(sampled_run.rglob("results_*.json")), asked)
    long = tmp_path / "long.jsonl"
    with long.open("wb") as file:
        for _ in range(50):
            file.write(path.read_bytes())
    tracemalloc.start()
    elicited(long, asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert long.stat().st_size > 15e6 and peak < long.stat().st_size / 2
