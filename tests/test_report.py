"""Reading results, means and ranks, paired comparisons, other scales: everything but the site."""

import json
import math
import re
import shutil
import tracemalloc
from dataclasses import replace
from io import StringIO

import altair as alt
import numpy as np
import pandas as pd
import pytest
from conftest import recorded
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS, groups, in_way
from lm_eval_epidemia.benchmarks.observation import TASK_VERSION
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings import data, leaderboard, means, profile, ranks
from lm_eval_epidemia.old.findings.answered import read_samples
from lm_eval_epidemia.old.findings.comparison import compare_entries
from lm_eval_epidemia.old.findings.data import (
    closed_rows,
    condition_rows,
    survey_rows,
    version_rows,
)
from lm_eval_epidemia.old.findings.normalise import NORMALISATIONS, normalise
from lm_eval_epidemia.old.findings.published import published
from lm_eval_epidemia.old.findings.versions import pairs_of_versions
from lm_eval_epidemia.old.report import charts, figures, output, palette
from lm_eval_epidemia.old.report.drawings import drawings
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore
from lm_eval_epidemia.results.protocol import Protocol
from lm_eval_epidemia.results.results import model_size, read_results
from lm_eval_epidemia.results.samples import elicited, sample_file
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.score.score import Anchors

COCAINE = "epidemia_low_nsduh_cocaine_ever_by_age"
HEROIN = "epidemia_low_nsduh_heroin_ever_by_age"
RACE = "epidemia_low_nsduh_heroin_ever_by_race"
EMPLOYER = "epidemia_low_acs_employer_by_race"
SALARY = "epidemia_low_acs_salary_by_age"

#: Eight outcomes, with which others may be spoken of.
EIGHT = [
    *(COCAINE, HEROIN, EMPLOYER, SALARY, "epidemia_low_acs_education_by_sex"),
    *(f"epidemia_low_scf_{outcome}_by_age" for outcome in ("assets", "debt", "net_worth")),
]

#: Versions by the end of a task's name: written answers were once read in another way.
VERSION = dict.fromkeys(("sampled", "closed", "rag"), TASK_VERSION + 1)


METRICS = {"l1": 0.1, "seen": 1.0, "choice_mass": 0.9, "order_bias": 0.05}


def write(folder, tasks, model="/x/some-model", stamp="2026-01-01", **more):
    """A result file as lm-eval 0.4.13 writes it; `tasks` are (score, error) or whole rows.

    Errors are written as if they came from the asking alone, so that they are independent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows, configs, drawn = {}, {}, {}
    for name, row in tasks.items():
        if isinstance(row, tuple):
            asking = dict.fromkeys(("score", "score_population"), row[1])
            drawn[name] = {"sample": "", **dict.fromkeys(asking, ""), "asking": asking}
            row = {
                "alias": name,
                "score,none": row[0],
                "score_stderr,none": row[1],
                "score_stderr_stderr,none": "N/A",
                "score_population,none": row[0],
                **{f"{metric},none": value for metric, value in METRICS.items()},
            }
        rows[name] = row
        task = name.removesuffix("_likelihood").removesuffix("_sampled")
        task = task.removesuffix("_closed")
        if "score_stderr_stderr,none" in row and task in store.available():
            # The distance that has the score; 0 has any from D_zero on.
            anchors = Anchors.of(store.load(task))
            far = anchors.zero - row["score,none"] / 100 * (anchors.zero - anchors.perfect)
            row["l1,none"] = far if row["score,none"] else 1.9
        truth = store.load(task).fingerprint if task in store.available() else "x"
        configs[name] = {"metadata": {"truth": truth, **more.get("metadata", {})}}
    results = {
        "results": rows,
        "configs": configs,
        "versions": {name: VERSION.get(name.rpartition("_")[2], TASK_VERSION) for name in rows},
        "n-shot": dict.fromkeys(rows, 0),
        "config": {"model": "hf", "model_args": {"pretrained": model}, **more.pop("config", {})},
        "date": 1.0,
        "epidemia": {"group_stderr": "joint replicates", "replicates": drawn},
        **{key: value for key, value in more.items() if key != "metadata"},
    }
    path = folder / f"results_{stamp}.json"
    path.write_text(json.dumps(results))
    return path


def entries(*folders, **more):
    return read_results(folders, **more).entries


# What is read.


def test_a_run_becomes_an_entry(tmp_path):
    tasks = {COCAINE: (40.0, 3.0), f"{COCAINE}_likelihood": (20.0, 1.0)}
    write(tmp_path, tasks, config={"model_num_parameters": 7_600_000_000})
    (entry,) = entries(tmp_path)
    assert (entry.name, entry.parameters, entry.protocol) == ("some-model", 7.6e9, Protocol())
    assert entry.scores[Asked(COCAINE, "letters")].value == 40.0
    assert entry.scores[Asked(COCAINE, "likelihood")].error == 1.0
    assert entry.scores[Asked(COCAINE, "letters")].metrics == {
        **METRICS,
        "score_population": 40.0,
        "l1": pytest.approx(0.188099, abs=1e-6),  # D_zero - .4 (D_zero - D_perfect)
    }


def test_what_was_asked_otherwise_stands_apart(tmp_path):
    sha = {"system_instruction": "Be brief", "system_instruction_sha": "12345678ab"}
    others = {
        "fewshot=5": {"metadata": {"fewshot": 5}},
        "orderings=balanced": {"metadata": {"orderings": "balanced"}},
        "gen_prefix=It is": {"metadata": {"gen_prefix": "It is"}},
        "leading_space=False": {"metadata": {"leading_space": False}},
        "truth 2023 abc": {"metadata": {"truth": "abc", "vintage": "2023"}},
        "task version 0": {"versions": {COCAINE: 0}},
        "num_fewshot=3": {"n-shot": {COCAINE: 3}},
        "system prompt 12345678": sha,
    }
    write(tmp_path / "usual", {COCAINE: (40.0, 3.0)})
    for protocol, more in others.items():
        write(tmp_path / protocol, {COCAINE: (60.0, 3.0)}, **more)
    runs = {str(entry.protocol): entry for entry in entries(tmp_path)}
    assert runs.keys() == {"", *others} and runs[""].protocol == Protocol()
    assert all(protocol in entry.name for protocol, entry in runs.items())
    report = leaderboard.make_report(read_results([tmp_path]))
    standing = report.standings["epidemia_low"]
    # Nobody is there whom one could be ranked with.
    assert {(standing[e.name].best, standing[e.name].among) for e in report.runs} == {(None, 1)}
    assert leaderboard.comparisons(report) == []  # never compared with each other


def test_words_in_a_variant_decide_nothing(tmp_path):
    """The prefix "In truth" is no other truth: there are scales; a comma in it parts nothing."""
    write(tmp_path / "a", {COCAINE: (40.0, 3.0)}, metadata={"gen_prefix": "In truth"})
    write(tmp_path / "b", {COCAINE: (40.0, 3.0)}, metadata={"gen_prefix": "Yes, fewshot=5, so"})
    report = leaderboard.make_report(read_results([tmp_path]))
    for one in report.runs:
        assert means.normalised_means(one, "epidemia_low", report.anchors, {})
    said = run("compare", tmp_path).stdout
    assert "some-model (gen_prefix=In truth)" in said
    assert "some-model (gen_prefix=Yes, fewshot=5, so)" in said
    # Another truth is one, whatever else was said.
    write(tmp_path / "c", {COCAINE: (40.0, 3.0)}, metadata={"truth": "abc", "fewshot": 2})
    report = leaderboard.make_report(read_results([tmp_path / "c"]))
    scales = means.normalised_means(report.runs[0], "epidemia_low", report.anchors, {})
    assert set(scales) == {"population"}


def test_protocols_are_equal_hashed_and_sorted():
    def of(**fields):
        return Protocol(**fields)

    few, many = of(variant=(("fewshot", "2"),)), of(variant=(("fewshot", "10"),))
    assert few == of(variant=(("fewshot", "2"),)) and len({few, many, Protocol()}) == 3
    unsorted = [of(incomplete=True), many, of(truth="abc", vintage="2023"), few, Protocol()]
    in_order = ["", "fewshot=10", "fewshot=2", "incomplete", "truth 2023 abc"]
    assert [str(protocol) for protocol in sorted(unsorted)] == in_order
    # As long as the hashes are, they read alike; they are not.
    alike = [of(system_prompt="12345678b"), of(system_prompt="12345678a")]
    assert len(set(alike)) == 2 and len({str(one) for one in alike}) == 1
    assert sorted(alike) == alike[::-1]


@pytest.mark.parametrize("hashes", [("12345678a", "12345678b"), (None, None)])
def test_other_system_prompts_are_other_protocols(tmp_path, hashes):
    """Also where their hashes begin alike, or an older file has none."""
    for text, sha in zip(("Be brief", "Be kind"), hashes, strict=True):
        more = {"system_instruction": text, "system_instruction_sha": sha}
        write(tmp_path / text, {COCAINE: (40.0, 3.0)}, **more)
    results = read_results([tmp_path])
    assert len(results.entries) == 2 and results.notes == []
    assert len({entry.name for entry in results.entries}) == 2
    assert leaderboard.comparisons(leaderboard.make_report(results)) == []


def test_a_limit_is_marked_unless_nothing_was_cut_off(tmp_path):
    row = {"score,none": 50.0, "score_stderr,none": 1.0, "l1,none": 0.1}
    tasks = {COCAINE: {**row, "seen,none": 0.4}, HEROIN: {**row, "seen,none": 1.0}}
    write(tmp_path, tasks, config={"limit": 10})
    (cut,) = entries(tmp_path)
    assert str(cut.protocol) == "limit 10" and len(cut.scores) == 2
    assert means.normalised_means(cut, "epidemia_low", {}, {}) == {}
    write(tmp_path, {HEROIN: tasks[HEROIN]}, config={"limit": 10})
    assert str(entries(tmp_path)[0].protocol) == ""


def test_sampled_answers_of_another_temperature_are_not_compared(tmp_path):
    name = f"{COCAINE}_sampled"
    write(tmp_path, {name: (40.0, 3.0)}, config={"gen_kwargs": {"temperature": 0.7}})
    assert str(entries(tmp_path)[0].protocol) == "temperature=0.7"
    write(tmp_path, {name: (40.0, 3.0)}, config={"gen_kwargs": {"max_gen_toks": 5}})
    assert str(entries(tmp_path)[0].protocol) == ""


def test_of_two_runs_the_later_counts_and_a_note_says_so(tmp_path):
    write(tmp_path / "b", {COCAINE: (40.0, 3.0), HEROIN: (1.0, 1.0)}, date=5.0)
    write(tmp_path / "a", {COCAINE: (60.0, 3.0)}, date=9.0)
    results = read_results([tmp_path])
    (entry,) = results.entries
    assert entry.scores[Asked(COCAINE, "letters")].value == 60.0
    assert entry.scores[Asked(HEROIN, "letters")].value == 1.0
    (note,) = results.notes
    assert "1 task asked more than once with the same settings; the newest" in note
    assert f"not those in 1 older file ({tmp_path}" in note


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
    names = [entry.name for entry in entries(tmp_path)]
    assert len(set(names)) == 9 and max(map(len, names)) <= 130
    pythia = {"pythia +revision=step1000", "pythia", "pythia +mine"}
    assert pythia | {"org/model", "other/model", "old", "hf kind=noisy,noise=0.3"} <= set(names)


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
    results = read_results([tmp_path])
    shown = {entry.model: entry.others for entry in results.entries}
    assert shown == {case: columns for case, (_, _, columns) in OTHERS.items()}
    assert results.notes == []
    sections = output.details(leaderboard.make_report(results))
    (section,) = [section for section in sections if section.title == "Beside other tasks"]
    for row in section.rows:
        cells = {cell for cell in row[1:] if re.fullmatch(r"\d+\.\d{4}", cell)}
        assert cells == {f"{value:.4f}" for value in shown[row[0]].values()}, row


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
            labels = {label for entry in entries(folder) for label in entry.others}
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
    assert results.entries[0].others == {
        "mmlu_anatomy (acc)": 0.4,
        "gsm8k (exact_match, strict)": 0.5,
    }
    assert results.notes == [
        f"{path}: left out mmlu (acc), gsm8k (exact_match, loose), empty (no metric): none "
        "of their metrics is a finite number"
    ]


def test_files_that_are_no_results_are_named_and_left_out(tmp_path):
    write(tmp_path, {COCAINE: (40.0, 3.0)})
    texts = ["{", "[]", '{"results": 3}', "null", '{"results": {"a": ']
    for number, text in enumerate(texts):
        (tmp_path / f"results_{number}.json").write_text(text)
    results = read_results([tmp_path])
    assert len(results.entries) == 1 and len(results.notes) == len(texts)
    for number, note in enumerate(results.notes):
        assert f"results_{number}.json is not a result file" in note, texts[number]


def test_folders_that_hold_nothing(tmp_path):
    with pytest.raises(EpidemiaError, match="holds no results_"):
        read_results([tmp_path])
    with pytest.raises(EpidemiaError, match="does not exist"):
        read_results([tmp_path / "typo"])
    write(tmp_path, {"mmlu": {"acc,none": 0.5}})
    with pytest.raises(EpidemiaError, match="no epidemia task"):
        read_results([tmp_path])


def test_a_score_that_is_not_a_number_is_said_and_left_out_of_means(tmp_path):
    write(tmp_path, {COCAINE: (math.nan, math.nan), HEROIN: (30.0, 4.0)})
    results = read_results([tmp_path])
    assert "no score (NaN) in 1 task" in results.notes[0]
    mean = means.mean_over(results.entries[0], means.tasks_in(results.entries[0], "epidemia_low"))
    assert mean[:3] == (30.0, 4.0, 1)
    report = leaderboard.make_report(results)
    # JSON has no NaN.
    assert json.loads(output.as_json(report), parse_constant=lambda text: 1 / 0)["rows"]


def test_sizes(tmp_path):
    assert [model_size(x) for x in ("7B", "350m", "1.5e9", " 2T ")] == [7e9, 3.5e8, 1.5e9, 2e12]
    for wrong in ("", "B", "big", "-7B", "nan", "inf"):
        with pytest.raises(EpidemiaError, match="expected a number of parameters"):
            model_size(wrong)
    write(tmp_path, {COCAINE: (40.0, 3.0)})
    assert entries(tmp_path, sizes={"some-model": 7e9})[0].parameters == 7e9
    with pytest.raises(EpidemiaError, match="a size was given for other"):
        read_results([tmp_path], {"other": 1.0})


# What is computed.


def entry(model, scores, error=1.0, mode="letters", **more):
    draws = None if math.isnan(error) else Draws("", np.empty(0), error)
    made = {
        Asked(t, mode): TaskScore(x, draws, {"l1": 0.1, "score_population": x}, draws)
        for t, x in scores.items()
    }
    return Entry(model, scores=made, **more)


def test_a_mean_has_the_error_of_its_tasks():
    one = entry("a", {COCAINE: 10.0, HEROIN: 40.0}, error=3.0)
    # sqrt(9 + 9) / 2
    assert means.mean_over(one, sorted(one.scores))[:3] == (25.0, pytest.approx(2.1213203), 2)


def test_a_comparison_counts_outcomes_not_tasks():
    """Two outcomes of NSDUH and two of the ACS; the two heroin tasks move together.

    d = 10 (cocaine), 20, 20 (heroin by age, by race), 30 (employer): mean 20. Sums of deviations by
    outcome: -10, 0, 10. CR2: sqrt((100 + 100) / (1 - 1/4)) / 4 = 4.0825. Degrees of freedom: 16 /
    (1 + 4 + 1 + 2 (4/6 + 1/9 + 4/6)) = 1.8.
    """
    one = entry("a", {COCAINE: 60.0, HEROIN: 70.0, RACE: 70.0, EMPLOYER: 80.0})
    other = entry("b", dict.fromkeys([COCAINE, HEROIN, RACE, EMPLOYER, SALARY], 50.0))
    found = compare_entries(one, other, "epidemia_low")
    assert (found.tasks, found.across.clusters, found.across.difference) == (4, 3, 20.0)
    assert found.across.error == pytest.approx(math.sqrt(200 / 0.75) / 4)
    assert found.across.half_width == pytest.approx(found.across.error * stats.t.ppf(0.975, 1.8))
    assert (found.wins, found.ties, found.losses) == (4, 0, 0)
    # Three outcomes say nothing of others.
    assert found.verdict == "better here"
    assert math.isnan(found.across.low) and math.isnan(found.across.high)
    back = compare_entries(other, one, "epidemia_low")
    assert (back.across.difference, back.wins, back.losses) == (-20.0, 0, 4)
    assert back.verdict == "worse here"


def test_better_is_said_only_when_it_is():
    base = dict.fromkeys(EIGHT, 50.0)
    uneven = entry("uneven", {**base, HEROIN: 50.5, EMPLOYER: 80.0})
    same = entry("same", {**base, EMPLOYER: 50.4})
    other = entry("other", base)
    said = [compare_entries(e, other, "epidemia_low").verdict for e in (uneven, same)]
    assert said == ["better here", "not shown"]
    # Evenly better by less than the scores' own errors is not shown.
    even = entry("even", dict.fromkeys(base, 50.1))
    assert compare_entries(even, other, "epidemia_low").verdict == "not shown"
    lone = compare_entries(entry("a", {COCAINE: 90.0}), entry("b", {COCAINE: 10.0}), "epidemia_low")
    assert math.isnan(lone.across.error) and lone.verdict == "better here"
    standing = ranks.standings([uneven, same, other], "epidemia_low")
    assert {(one.best, one.worst) for one in standing.values()} == {(1, 3)}


def test_only_who_was_asked_everything_is_ranked():
    tasks = EIGHT
    good, bad = entry("good", dict.fromkeys(tasks, 90.0)), entry("bad", dict.fromkeys(tasks, 10.0))
    part = entry("part", {COCAINE: 95.0})
    reference = entry("old", dict.fromkeys(tasks, 50.0), error=math.nan, reference=True)
    found = ranks.standings([good, bad, part, reference], "epidemia_low")
    assert (found["good"].best, found["good"].worst) == (1, 1)
    assert (found["bad"].best, found["bad"].worst) == (2, 2)
    assert not found["part"].complete and found["part"].best is None
    assert found["old"].complete and found["old"].best is None


def test_a_task_more_takes_nobody_out_of_the_ranking():
    """Ten runs of eight tasks, one of nine, one of a single task: eleven ranked, over eight."""
    tasks = EIGHT
    whole = [entry(f"m{x}", dict.fromkeys(tasks, 8.0 * x)) for x in range(10)]
    more = entry("more", {**dict.fromkeys(tasks, 99.0), RACE: 0.0})
    single = entry("single", {COCAINE: 100.0})
    found = ranks.standings([*whole, more, single], "epidemia_low")
    assert {name for name, one in found.items() if one.best is None} == {"single"}
    assert {one.shared for one in found.values()} == {8}
    # Over the eight, "more" is better than all; over its nine it would not be.
    assert (found["more"].best, found["more"].worst) == (1, 1)
    assert (found["m0"].best, found["m0"].worst) == (11, 11)
    assert found["more"].mean.tasks == 9 and found["more"].complete
    assert not found["single"].complete


def test_what_a_ranking_is_over():
    known = dict(zip("12345", sorted([COCAINE, HEROIN, RACE, EMPLOYER, SALARY]), strict=True))
    for asked, shared, ranked in (
        # Half of the broadest one's is enough, less is not.
        ({"a": "1234", "b": "12"}, "12", "ab"),
        ({"a": "12345", "b": "12"}, "12345", "a"),
        # Each shares half with the broadest, both together less: whom more were asked like.
        ({"a": "1234", "b": "12", "c": "34", "d": "34"}, "34", "acd"),
        ({"a": "1234", "b": "123", "c": "234"}, "23", "abc"),
        # Nothing in common: one of the two, the same whoever comes first.
        ({"a": "12", "b": "34"}, "12", "a"),
        ({"b": "34", "a": "12"}, "12", "a"),
        ({"a": "1"}, "1", "a"),
    ):
        models = [entry(name, {known[x]: 1.0 for x in tasks}) for name, tasks in asked.items()]
        over = ranks.ranked_tasks(models, "epidemia_low")
        assert over == {Asked(known[x], "letters") for x in shared}, asked
        places = ranks.standings(models, "epidemia_low")
        complete = sorted(name for name, place in places.items() if place.complete)
        assert complete == sorted(ranked), asked
        with_rank = sorted(name for name, place in places.items() if place.best is not None)
        assert with_rank == (complete if len(complete) > 1 else []), asked


def test_the_report_says_how_many_tasks_ranks_are_over(tmp_path):
    write(tmp_path / "a", dict.fromkeys(EIGHT, (90.0, 1.0)), model="a")
    write(tmp_path / "b", dict.fromkeys([*EIGHT, RACE], (10.0, 1.0)), model="b")
    for model in "cd":
        cocaine = {COCAINE: (50.0, 1.0)}
        write(tmp_path / model, cocaine, model=model, metadata={"fewshot": 2})
    said = run("report", tmp_path, "--full", "--wide").stdout
    assert "(8 in epidemia_low, 1 in epidemia_low; fewshot=2)" in said
    assert "1 of 2" in said and "1-2 of 2" in said
    assert "shares at least half of the tasks" in said
    assert "10.0 ± 0.3 (9 tasks)" in said
    rows = pd.read_csv(StringIO(run("report", tmp_path, "--format", "csv").stdout))
    groups = rows[rows.kind == "group"].set_index("model")
    few = dict.fromkeys(("c (fewshot=2)", "d (fewshot=2)"), 1)
    assert groups.rank_tasks.to_dict() == {"a": 8, "b": 8, **few}
    assert groups.rank_best.to_dict() == {"a": 1, "b": 2, **few}
    found = json.loads(run("report", tmp_path, "--format", "json").stdout)["rows"]
    assert [row["rank_tasks"] for row in found if row["kind"] == "group"] == [8, 8, 1, 1]


def test_rank_correlation():
    """Ranks 1, 2, 3, 4 against 1, 3, 2, 4: 1 - 6 (1 + 1) / (4 * 15) = 0.8."""
    asked = [(10.0, 20.0), (20.0, 60.0), (30.0, 40.0), (40.0, 80.0)]
    models = [entry(f"m{x}", {COCAINE: x}, others={"mmlu (acc)": y}) for x, y in asked]
    assert ranks.correlation(models, "epidemia_low", "mmlu (acc)") == (pytest.approx(0.8), 4)
    assert math.isnan(ranks.correlation(models[:2], "epidemia_low", "mmlu (acc)")[0])
    assert math.isnan(ranks.correlation(models, "epidemia_low", "arc")[0])


def test_instruct_versions_are_found_by_name():
    pairs = {
        ("Llama-3.1-8B", "Llama-3.1-8B-Instruct"),
        ("gemma-2-9b", "gemma-2-9b-it"),
        ("Mistral-7B-v0.3", "Mistral-7B-Instruct-v0.3"),
    }
    names = [*sorted(name for pair in pairs for name in pair), "phi-4", "Qwen2.5-7B-Instruct"]
    models = [entry(name, {COCAINE: 1.0}) for name in names]
    assert {(a.model, b.model) for a, b in pairs_of_versions(models)} == pairs
    given = pairs_of_versions(models, {"phi-4": "Qwen2.5-7B-Instruct"})
    assert ("phi-4", "Qwen2.5-7B-Instruct") in {(a.model, b.model) for a, b in given}


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
    assert set(expected) == set(NORMALISATIONS)
    for how, value in expected.items():
        assert normalise(d, Anchors.of(truth), how) == pytest.approx(value, abs=1e-9), how


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


def test_published_scores_are_of_the_tasks_asked():
    """Llama 3 8B, task 52: as in the published table; one score was published as not a number."""
    models = {
        e.model: e for e in published([Asked(COCAINE, "letters"), Asked(HEROIN, "likelihood")])
    }
    assert len(models) == 7 and all(e.reference for e in models.values())
    assert set(models["GPT 4.1"].scores) == {Asked(HEROIN, "likelihood")}
    whole = published(
        Asked(task, mode) for task in store.all_tasks() for mode in ("letters", "likelihood")
    )
    assert sum(len(e.scores) for e in whole) == 2197 - 1
    first = Asked("epidemia_low_acs_employment_status_by_sex", "letters")
    (llama,) = [e for e in whole if e.model == "LLama3 8B"]
    assert llama.scores[first].value == 52.7991


# What is printed.


def run(*arguments):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


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
    said = run("report", three, "--published", "--full", "--wide").stdout
    for part in (
        *("Big-70B", "70B", "64.5 ± 0.8", "Beside other tasks", "mmlu (acc)", "1.00 (3)"),
        *("By survey", "By domain", "By model size", "On other scales", "LLama3 8B (published)"),
        "Instruct or retrieving version / plain model",
        "Pairs of models, epidemia_low",
    ):
        assert part in said, part
    assert "+34.5 ± 0.0" not in said and "+30.0 ± 0.0" in said


def test_the_report_for_programs(three):
    rows = pd.read_csv(StringIO(run("report", three, "--format", "csv").stdout))
    big = rows[(rows.model == "Big-70B") & (rows.kind == "group")].iloc[0]
    assert big.value == 64.5 and big.rank_best == 1 and big.tasks == 4
    kinds = {"group", "survey", "domain", "dimension", "scale", "task", "reference"}
    assert set(rows.kind) == kinds | {"other", "pair", "version", "correlation"}
    in_json = json.loads(run("report", three, "--format", "json").stdout)
    verdicts = {"better", "worse", "better here", "worse here", "not shown"}
    assert {comparison["verdict"] for comparison in in_json["comparisons"]} <= verdicts
    # Names that programs read: one level, whatever the comparison is made of here.
    names = "one other column tasks higher_is_better clusters difference error half_width low high"
    names += " ratio ratio_low ratio_high elsewhere corrected here population population_here"
    names += " wins ties losses verdict"
    assert {frozenset(each) for each in in_json["comparisons"]} == {frozenset(names.split())}
    assert len(in_json["rows"]) == len(rows)
    latex = run("report", three, "--format", "latex").stdout
    assert r"epidemia\_low" in latex and r"$\pm$" in latex and r"\begin{tabular}" in latex


def test_names_from_files_are_text(tmp_path):
    write(tmp_path, {COCAINE: (1.0, 1.0)}, model="org/[red]a & b_{c}[bold]\n#2 %")
    assert "[red]a & b_{c}[bold] #2 %" in run("report", tmp_path, "--full").stdout
    latex = run("report", tmp_path, "--format", "latex").stdout
    assert r"\& b\_\{c\}" in latex and r"\#2 \%" in latex


def test_options_that_are_not_known(three):
    models = "the models are Big-70B, Small-7B, Small-7B-I"
    for options, message in {
        "--format xml": "expected table, csv, json or latex",
        "--size Big-70B": "expected MODEL=7B",
        "--size Big-70B=large": "expected a number of parameters",
        "--pair x": "'x': expected PLAIN=RETRIEVING",
        "--pair =Big-70B": "expected PLAIN=RETRIEVING",
        "--pair Big-70B=Big-70B": "'Big-70B' cannot be paired with itself",
        "--pair a=b=c": f"'a=b=c' does not name two of the models; {models}",
        "--pair Big-70B=Bigger": "no model 'Bigger' to pair",
    }.items():
        with pytest.raises(EpidemiaError, match=message):
            run("report", three, *options.split())


def test_figures_are_saved(three, tmp_path):
    for ending, begins in (
        (".svg", b"<svg"),
        (".png", b"\x89PNG"),
        (".pdf", b"%PDF"),
        (".json", b"{"),
    ):
        out = tmp_path / f"figure{ending}"
        run("plot", "leaderboard", three, "--out", out)
        assert out.read_bytes().startswith(begins)
    for name in ("size", "beside"):
        run("plot", name, three, "--out", tmp_path / f"{name}.svg")
    pair = tmp_path / "versions.json"
    run("plot", "versions", three, "--pair", "Big-70B=Small-7B", "--out", pair)
    assert "Big-70B / Small-7B" in pair.read_text()
    run("plot", "bootstrap", "--task", COCAINE, "--out", tmp_path / "b.svg")
    assert "calibration" in run("plot", "list").stdout
    for wrong, message in (
        (["calibrations", three], "nearest: calibration"),
        (["curve", three], "name it with --task"),
        (["leaderboard"], "give the folder that lm_eval wrote"),
        (["leaderboard", three, "--out", "figure.gif"], "expected a name that ends in"),
        (["calibration", three], "run lm_eval with --log_samples"),
        (["curve", three, "--task", "typo"], "no task 'typo'"),
        (["bootstrap", "--task", "epidemia_low_bls_sex_by_occupation"], "published table"),
    ):
        with pytest.raises(EpidemiaError, match=message):
            run("plot", *wrong)


AGE_SEX, SEX_RACE = (
    f"epidemia_high_nsduh_cocaine_ever_by_{given}" for given in ("age_sex", "sex_race")
)


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
    return leaderboard.make_report(read_results([folder]), with_published=True)


def _of(rows, **wanted):
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _mean_respondent(*tasks, told=lambda p: p):
    scores = []
    for truth in map(store.load, tasks):
        apart = np.abs(truth.p[:, 0] - told(truth.weights @ truth.p[:, 0]))
        # Of two answers, both are as far off; of more, the anchor has it.
        binary = len(truth.levels) == 2
        l1 = 2 * truth.weights @ apart if binary else Anchors.of(truth).mean
        scores.append(normalise(l1, Anchors.of(truth), "score"))
    return np.mean(scores)


def test_scores_by_survey(versions):
    rows = _of(survey_rows(versions), model="Small-7B", group="epidemia_low")
    scores = {row["survey"]: (row["score"], row["tasks"]) for row in rows}
    assert scores == {"nsduh": (30.0, 2), "acs": (60.0, 1)}
    nsduh = _of(rows, survey="nsduh")[0]
    assert nsduh["mean"] == pytest.approx(_mean_respondent(COCAINE, HEROIN))
    # Standard error of a mean of two: sqrt(1 + 1) / 2.
    assert nsduh["high"] == pytest.approx(30 + 1.96 * math.sqrt(2) / 2)


def test_scores_by_number_of_conditions_are_over_all_groups(versions):
    rows = _of(condition_rows(versions), way="letters")
    found = {(row["model"], row["conditions"]): row["score"] for row in rows}
    assert found["Small-7B", "d = 1"] == 40.0 and found["Small-7B", "d = 2"] == 30.0
    assert ("Small-7B-Instruct", "d = 2") not in found
    respondent = {row["conditions"]: row["score"] for row in _of(rows, kind="respondent")}
    assert respondent["d = 1"] == pytest.approx(_mean_respondent(COCAINE, HEROIN, SALARY))


def test_versions_task_by_task(versions):
    rows = _of(version_rows(versions), group="epidemia_low")
    pairs = {row["task"]: (row["base"], row["instruct"]) for row in _of(rows, kind="task")}
    assert pairs == {COCAINE: (40.0, 50.0), HEROIN: (20.0, 30.0), SALARY: (60.0, 70.0)}
    (mean,) = _of(rows, kind="mean")
    assert (mean["base"], mean["instruct"], mean["task"]) == (40.0, 50.0, "mean of 3 tasks")


def test_the_closed_subset_has_both_ways_and_what_was_published(versions):
    rows = closed_rows(versions)
    found = {(row["model"], row["way"]): row for row in rows}
    assert found["Writes-1T", "closed"]["score"] == 60.0
    # It says the middle of the interval, of 5 per cent, that holds P(Y).
    said = _mean_respondent(AGE_SEX, SEX_RACE, told=lambda p: (math.floor(20 * p) + 0.5) / 20)
    assert found["Writes-1T", "closed"]["mean"] == pytest.approx(said)
    assert found["Small-7B", "likelihood"]["score"] == 15.0
    both = [Asked(task, "likelihood") for task in (AGE_SEX, SEX_RACE)]
    gpt = next(one for one in published(both) if one.model == "GPT 4.1")
    expected = np.mean([gpt.scores[asked].value for asked in both])
    assert found["GPT 4.1 (published)", "likelihood"]["score"] == pytest.approx(expected)
    (section,) = [one for one in output.details(versions) if one.kind == "closed"]
    said = {(row[0], row[1]): row[2:] for row in section.rows}
    assert said["Writes-1T", "closed"] == ["60.0 ± 2.5", "2"]
    assert said["GPT 4.1 (published)", "likelihood"] == [f"{expected:.1f}", "2"]
    values = _of(output.as_rows(versions), kind="closed", model="GPT 4.1 (published)")
    assert [row["value"] for row in values] == [pytest.approx(expected)]


def test_published_scores_stand_beside_a_model_that_only_writes(tmp_path):
    """A run of `_closed` alone: likelihoods are added there, and no column to the leaderboard."""
    write(tmp_path, {f"{AGE_SEX}_closed": (50.0, 3.0)})
    report = leaderboard.make_report(read_results([tmp_path]), with_published=True)
    assert report.columns == ["epidemia_high_closed"]
    assert [entry.name for entry in report.entries] == ["some-model"]
    assert len(closed_rows(report)) == 1 + 7
    without = leaderboard.make_report(read_results([tmp_path]))
    assert len(closed_rows(without)) == 1


def test_figures_say_what_they_lack(three, tmp_path):
    report = leaderboard.make_report(read_results([three]))
    with pytest.raises(EpidemiaError, match="have the same number of conditions"):
        condition_rows(report)
    with pytest.raises(EpidemiaError, match="no task of the closed subset was asked"):
        closed_rows(report)
    write(tmp_path / "one", {COCAINE: (1.0, 1.0)})
    with pytest.raises(EpidemiaError, match="name a pair with --pair"):
        version_rows(leaderboard.make_report(read_results([tmp_path / "one"])))


def test_figures_of_a_report_are_drawn(versions, tmp_path):
    for name in ("leaderboard", "surveys", "conditions", "versions", "closed"):
        path = figures.save(name, lambda: versions, tmp_path / f"{name}.svg")
        assert path.read_bytes().startswith(b"<svg") and b"NaN" not in path.read_bytes(), name


def test_a_figure_is_on_the_scale_of_its_metric(versions, monkeypatch, tmp_path):
    """A benchmark where 0 is best, beside one from 0 to 100: a chart each, on its own axis."""
    other = replace(
        OBSERVATION,
        name="other",
        primary="l1",
        says="Distance",
        ways={"likelihood": WAYS["likelihood"]},
    )
    known = {**groups(), "epidemia_high_likelihood": other}
    monkeypatch.setattr(data, "groups", lambda: known)
    out = tmp_path / "figure.json"
    drawn = json.loads(figures.save("leaderboard", lambda: versions, out).read_text())
    axes = [one["spec"]["layer"][0]["encoding"]["x"] for one in drawn["vconcat"]]
    assert {axis["title"]: axis["scale"]["domain"] for axis in axes} == {
        "Score, 0 to 100 (± 1.96 standard errors)": [0, 100],
        "Distance; lower is better (± 1.96 standard errors)": [0, 2],
    }
    # An unbounded metric reaches as far as its values do.
    row = {"metric": "Nats", "lowest": 0, "highest": None, "mean": None, "kind": "run"}
    row |= {"group": "g", "column": 0}
    rows = [
        {**row, "model": str(x), "place": x, "score": s, "low": s - 1, "high": s + 1}
        for x, s in ((1, 7.0), (2, 14.0))
    ]
    one = charts.leaderboard(alt.Data(values=rows)).to_dict()
    assert one["spec"]["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 15.0]


def test_best_is_no_noise_and_worst_of_zeros_is_farther_off_than_averages(tmp_path):
    """50 ± 40 may be chance, 30 ± 2 is none; two tasks have 0 at the same distance."""
    tasks = {COCAINE: (0.0, 0.0), HEROIN: (0.0, 0.0), EMPLOYER: (50.0, 40.0), SALARY: (30.0, 2.0)}
    write(tmp_path, tasks)
    report = leaderboard.make_report(read_results([tmp_path]))
    (run,) = report.runs
    worst, best = profile.ends(report, run, profile.tasks_of(report, run), {})
    assert [task.name for task in best] == [SALARY, EMPLOYER]
    averages = {task: Anchors.of(store.load(task)).mean for task in (COCAINE, HEROIN)}
    assert worst[0].name == min(averages, key=averages.get)


def _row_of_figure(model, kind="run"):
    row = {"metric": "Score", "lowest": 0, "highest": 100, "mean": 40.0, "score": 9.0, "low": 5.0}
    return {
        **row,
        "high": 13.0,
        "model": model,
        "kind": kind,
        "group": "g",
        "column": 0,
        "place": 0,
    }


def test_respondents_have_one_colour_and_hollow_marks_are_told_where_there_are_some():
    models = ["a", "knows averages only (kind=mean)", "guesses uniformly", "b"]
    rows = [_row_of_figure(model) for model in models]
    assert palette.colour_of(models).to_dict()["scale"]["range"] == [
        *(palette.ORANGE, palette.GREEN, palette.GREY, palette.BLUE)
    ]
    alone = charts.leaderboard(alt.Data(values=rows)).to_dict()
    assert alone["facet"]["column"]["title"] == "green: knows averages only"
    mixed = [*rows, _row_of_figure("c (published)", "published")]
    told = charts.leaderboard(alt.Data(values=mixed)).to_dict()["facet"]["column"]["title"]
    assert told == "green: knows averages only; hollow: published"
    shades = alone["spec"]["layer"][0]["encoding"]["color"]["scale"]
    assert shades["domain"] == models
    assert shades["range"] == [palette.BLUE, palette.GREEN, palette.GREY, palette.BLUE]
    # Of the ways that closed tasks are asked in, the legend has those that are drawn.
    one_way = [{**row, "way": "likelihood"} for row in rows]
    dots = charts.CHARTS["closed"](alt.Data(values=one_way)).to_dict()["layer"][1]
    colour = dots["encoding"]["color"]
    assert colour["scale"]["domain"] == ["likelihood"]
    # Who knows averages only is the mark beside the others.
    assert colour["condition"]["test"]["oneOf"] == ["guesses uniformly"]


def test_names_of_a_curve_stand_right_of_the_plot_and_apart():
    """The last points of four lines, two of them equal: names are at least a line of text apart."""
    last = {"truth": 0.3, "knows averages only": 0.49, "guesses uniformly": 0.5, "m": 0.5}
    rows = [
        {"who": who, "condition": str(place), "place": place, "p": p, "low": p, "high": p}
        for who, p in last.items()
        for place in range(3)
    ]
    drawn = charts.WRITTEN[".svg"](charts.CHARTS["curve"](alt.Data(values=rows)).to_json()).decode()
    pattern = r'<text [^>]*translate\(([\d.]+),([\d.]+)\)"[^>]*fill="(#\w+)"[^>]*>({})<'
    names = re.findall(pattern.format("|".join(last)), drawn)
    assert sorted(name[3] for name in names) == sorted(last)
    assert all(float(x) > 420 for x, *_ in names)
    assert min(np.diff(sorted(float(y) for _, y, *_ in names))) >= 11
    colours = {name[3]: name[2] for name in names}
    assert colours["truth"] == palette.BLUE and colours["m"] == palette.ORANGE
    assert colours["knows averages only"] == palette.GREEN


def test_calibration_lines_fit_a_phone_whatever_models_are_called():
    name = "SmolLM2-135M-Instruct (chat template, choice-hf)"
    row = {"group": "g", "tilt": 0.2, "tilt_low": 0.1, "tilt_high": 0.3}
    row |= {"slope": 0.2, "slope_low": 0.1, "slope_high": 0.3}
    rows = [{**row, "model": name, "kind": "run"}]
    rows.append({**row, "model": "knows averages only", "kind": "respondent"})
    (panel,) = drawings(charts.CHARTS["tilt"](alt.Data(values=rows)), "tilt")
    lines = ("SmolLM2-135M-Instruct", "(chat template, choice-hf)")
    assert panel.width <= 340 and all(f">{line}<" in panel.svg for line in lines)


def test_ways_beside_each_other_fit_a_phone_and_averages_have_no_row_among_models():
    row = {"way": "closed", "place": 0, "score": 30.0, "low": 25.0, "high": 60.0, "mean": 40.0}
    row |= {"kind": "run", "metric": "Score", "lowest": 0, "highest": 100, "tasks": 3}
    names = "SmolLM2-135M-Instruct (chat template, balanced orderings)", "knows averages only"
    rows = [{**row, "model": name} for name in names]
    (panel,) = drawings(charts.CHARTS["closed"](alt.Data(values=rows)), "closed")
    lines = ("SmolLM2-135M-Instruct", "(chat template,", "balanced orderings)")
    assert panel.width <= 340 and all(f">{line}<" in panel.svg for line in lines)
    assert ">knows averages only<" not in panel.svg and ">green: knows averages only<" in panel.svg
    (panel,) = drawings(charts.CHARTS["closed"](alt.Data(values=rows[1:])), "closed")
    assert ">knows averages only<" in panel.svg


def test_where_averages_are_several_a_figure_says_why():
    row = {"group": "epidemia_low", "column": 0, "survey": "gss", "score": 30.0, "low": 25.0}
    row |= {"high": 60.0, "kind": "run", "metric": "Score", "lowest": 0, "highest": 100, "tasks": 3}
    for known in ((40.0, 40.0), (40.0, 60.0)):
        rows = [{**row, "model": f"m{mean}{i}", "mean": mean} for i, mean in enumerate(known)]
        (panel,) = drawings(charts.CHARTS["surveys"](alt.Data(values=rows)), "surveys")
        assert ("different prompts" in panel.note) == (known[0] != known[1])


def test_of_two_answers_the_first_is_drawn():
    rows = [
        {"who": who, "answer": answer, "place": place, "p": 0.5, "low": 0.4, "high": 0.6}
        for who in ("truth", "m")
        for place, answer in enumerate(("Yes", "No", "Perhaps"))
    ]
    for number, names in ((2, ["Yes"]), (3, ["Yes", "No", "Perhaps"])):
        some = [row for row in rows if row["place"] < number]
        chart = charts.CHARTS["distribution"](alt.Data(values=some))
        drawn = charts.WRITTEN[".svg"](chart.to_json()).decode()
        assert re.findall(">(Yes|No|Perhaps)<", drawn) == names
        assert ">100%<" in drawn


def test_names_stand_at_the_ends_of_lines_and_not_on_one_another():
    rows = [
        {"model": name, "group": group, "x": x, "score": score}
        for group in ("g", "h")
        for name, score in (("a", 50.0), ("b", 50.5), ("c", 99.9), ("d", 100.0))
        for x in (1, 2)
    ]
    named = palette.with_ends(rows, "x", "group", ends=(0, 100)).to_dict()["values"]
    for group in ("g", "h"):
        ends = [row for row in named if row["group"] == group and "end" in row]
        assert {row["end"]: row["x"] for row in ends} == dict.fromkeys("abcd", 2)
        heights = [row["end_at"] for row in ends]
        gaps = np.diff(sorted(heights))
        assert min(gaps) >= 100 / 18 - 1e-9 and max(heights) <= 100
    # More than there is room for are still in order, and within the scale.
    places = palette.apart([0.0] * 10 + [1.0] * 30, 0, 1)
    assert places == sorted(places) and places[-1] <= 1 and min(np.diff(places)) > 0.02


# Samples, as lm-eval writes them.


@pytest.fixture(scope="module")
def sampled_run(tmp_path_factory):
    """A run of one respondent in four ways of asking, with samples, by lm-eval itself."""
    ways = [f"{COCAINE}_likelihood", f"{EMPLOYER}_sampled", f"{AGE_SEX}_closed"]
    arguments = {"model_args": "kind=noisy,noise=0.5", "metadata": {"n_samples": 20}}
    return recorded(tmp_path_factory.mktemp("run"), [COCAINE, EMPLOYER, SALARY, *ways], **arguments)


def test_samples_give_the_distance_of_the_result_file(sampled_run):
    (found,) = entries(sampled_run)
    assert len(found.scores) == 6
    for asked, score in found.scores.items():
        path = sample_file(score.source, asked)
        one = elicited(path, asked)
        assert one.l1 == pytest.approx(score.l1, abs=1e-9), in_way(*asked)
        assert one.q.shape == store.load(asked.task).p.shape
        assert (one.by_position is not None) == (asked.way in ("letters", "sampled"))


def test_samples_are_read_line_by_line(sampled_run, tmp_path):
    """Fifty times as long: memory grows by the answers, not by the text."""
    (found,) = entries(sampled_run)
    asked = Asked(EMPLOYER, "letters")
    path = sample_file(found.scores[asked].source, asked)
    long = tmp_path / "long.jsonl"
    with long.open("wb") as file:
        for _ in range(50):
            file.write(path.read_bytes())
    tracemalloc.start()
    elicited(long, asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert long.stat().st_size > 15e6 and peak < long.stat().st_size / 2


def test_samples_that_are_damaged_or_missing_are_named(sampled_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(sampled_run, copy)
    cocaine, employer, salary = (
        next(copy.rglob(f"samples_{t}_2*")) for t in (COCAINE, EMPLOYER, SALARY)
    )
    cocaine.write_bytes(cocaine.read_bytes()[:-200])
    employer.unlink()
    salary.write_text(salary.read_text().replace('"-0.', '"-1.'))
    report = leaderboard.make_report(read_results([copy]))
    samples, notes = read_samples(report)
    said = "\n".join(notes)
    assert "line 22 is not a sample" in said and "no samples for 1 task" in said
    assert f"the samples of {SALARY} give a distance" in said
    assert {asked.task for _, asked in samples} == {SALARY, COCAINE, EMPLOYER, AGE_SEX}


def test_a_task_without_a_score_keeps_its_impossible_mass(tmp_path):
    """A server without `echo`: no score of that task, and the others of the run are shown."""
    row = dict.fromkeys(("score,none", "score_stderr,none", "l1,none"), math.nan)
    row |= {"seen,none": 1.0, "choice_mass,none": 2.0}
    write(tmp_path, {COCAINE: row, HEROIN: (40.0, 3.0)})
    found = read_results([tmp_path])
    (entry,) = found.entries
    assert entry.scores[Asked(HEROIN, "letters")].value == 40
    assert entry.scores[Asked(COCAINE, "letters")].metrics["choice_mass"] == 2
    assert any("no score (NaN) in 1 task" in note for note in found.notes)
    # In bfloat16, 22 probabilities that sum to 1 may read as 1.0065.
    write(tmp_path, {COCAINE: {**row, "score,none": 1.0, "choice_mass,none": 1.0065}})
    assert read_results([tmp_path]).entries[0].scores
