"""What is read of result files: runs and their settings, other tasks, and what is held against."""

import math
from itertools import product

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import AGE_SEX, COCAINE, HEROIN, MMLU, SALARY, SMALL, by, run_as, table, write

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks.observation import respondents
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.leaderboard import SCALES
from lm_eval_epidemia.findings.references import score_known
from lm_eval_epidemia.results.choose import (
    add_bases,
    conditions_of,
    keep_where,
    model_size,
)
from lm_eval_epidemia.results.read import read_results

WHOLE, CUT = (
    {"score,none": 50.0, "score_stderr,none": 1.0, "l1,none": 0.1, "seen,none": seen}
    for seen in (1.0, 0.4)
)
TABLES = yaml.safe_load((REPOSITORY / "tests" / "data" / "reports.yaml").read_text("utf-8"))
ONE = {COCAINE: (40.0, 3.0)}
HALF = run_as(dtype="bfloat16")
BALANCED = {"metadata": {"orderings": "balanced"}}


@pytest.mark.parametrize(("one", "other", "words", "are_compared"), TABLES["asked"])
def test_runs_are_told_apart_by_how_they_were_asked(tmp_path, one, other, words, are_compared):
    for date, more in enumerate(({**one}, {**other})):
        way, seen = more.pop("way", ""), more.pop("seen", 1.0)
        config = run_as(more.pop("config", {}), **more.pop("args", {}))
        row = CUT if seen < 1 else (40.0 + 20 * date, 3.0)
        write(tmp_path / f"{date}", {COCAINE + way: row}, date=1.0 * date, config=config, **more)
    results = read_results([tmp_path])
    assert [*results.runs["settings"]] == words
    superseded = results.notes["kind"].eq("superseded").sum()
    assert superseded == len(results.older) == 2 - len(words)
    assert len(table("pairs", tmp_path)) == are_compared
    board = table("leaderboard", tmp_path)
    assert {*board["rank"][board["kind"] == "run"]} == {"1-2 of 2" if are_compared else ""}


def test_all_settings_in_words_and_chosen_by(tmp_path):
    config = {**HALF, "model": "choice-hf", "limit": 10.0}
    told = {"chat_template": "{{ x }}", "system_instruction_sha": "1234", "n-shot": {COCAINE: 5}}
    write(tmp_path / "everything", {COCAINE: CUT}, config=config, **told, **BALANCED)
    several = "chat template, balanced orderings, few-shot 5, system prompt 1234, bfloat16"
    for dtype in ("float32", "bfloat16"):
        write(tmp_path / f"{dtype}", ONE, config=run_as(dtype=dtype))
    results = read_results([tmp_path])
    assert any(words.startswith(f"limit 10, {several}") for words in results.runs["settings"])
    # What no run has is at its default in all of them.
    for given, number in ("limit=none", 2), ("chat_template=none", 2), ("wording=none", 3):
        assert len(keep_where(results, conditions_of([given])).runs) == number
    for given in (["limit=none,dtype=bfloat16"], ["limit=none", " dtype = bfloat16 "]):
        found = keep_where(results, conditions_of(given))
        assert [*found.runs["settings"]] == ["bfloat16, hf"] and len(found.scores) == 1


def test_words_in_a_variant_decide_nothing(tmp_path):
    """The prefix "In truth" is no other truth: there are scales; a comma in it parts nothing."""
    for prefix in ("In truth", "Yes, fewshot=5, so"):
        write(tmp_path / prefix, ONE, metadata={"gen_prefix": prefix})
    known = {*by(table("scale", tmp_path), "settings", "scale")}
    assert known >= {*product(("gen_prefix=In truth", "gen_prefix=Yes, fewshot=5, so"), SCALES)}
    # Another truth is one, whatever else was said.
    write(tmp_path / "c", ONE, metadata={"truth": "abc", "fewshot": 2})
    assert {*table("scale", tmp_path / "c")["scale"]} == {"population"}


def test_what_a_file_holds_is_one_run_though_a_limit_reached_some_tasks_alone(tmp_path):
    """Never with a run that had no limit."""
    limited = {"config": {**SMALL, "limit": 10.0}}
    write(tmp_path / "ten", {COCAINE: CUT, HEROIN: WHOLE, AGE_SEX: CUT}, date=2.0, **limited)
    write(tmp_path / "all", {COCAINE: WHOLE, AGE_SEX: WHOLE}, date=1.0, config=SMALL)
    results = read_results([tmp_path])
    number = results.scores["run"].map(results.runs["settings"]).value_counts()
    assert number.to_dict() == {"": 2, "limit 10": 3}
    assert table("scale", tmp_path / "ten").empty


def test_of_two_runs_the_later_counts_and_a_note_says_so(tmp_path):
    write(tmp_path / "b", {**ONE, HEROIN: (1.0, 1.0), **MMLU}, date=5.0)
    write(tmp_path / "a", {COCAINE: (60.0, 3.0), **MMLU}, date=9.0)
    results = read_results([tmp_path])
    assert len(results.runs) == 1 and by(results.scores, "task") == {COCAINE: 60.0, HEROIN: 1.0}
    (note,) = results.notes["text"]
    assert f"not those in 1 older file ({tmp_path}" in note
    assert note.endswith(f"which had another score in {COCAINE}")


def test_a_file_counts_once_whatever_links_lead_to_it(tmp_path):
    """Samples lie beside the file itself, not beside a link to it."""
    path = write(tmp_path / "runs" / "a", ONE)
    (collected := tmp_path / "collected").mkdir()
    (collected / "a").symlink_to(path.parent)
    (tmp_path / "runs" / "loop").symlink_to(collected)
    path.with_name("results_0.json").symlink_to(path.name)
    results = read_results([collected, path.parent, path])
    assert len(results.scores) == 1 and results.older.empty and results.notes.empty
    assert not results.scores["file"][0].is_symlink()


def test_names_tell_models_apart(tmp_path):
    pythia = [f"org/pythia,{of}" for of in ("revision=step1000", "revision=main", "peft=/a/mine")]
    several = ["org/model", "other/model", "org/old,dtype=float32", "x" * 300, "x" * 300 + "y"]
    for number, weights in enumerate([*several, *pythia]):
        write(tmp_path / str(number), ONE, config={"model_args": f"pretrained={weights}"})
    write(tmp_path / "noisy", ONE, config={"model_args": {"kind": "noisy", "noise": 0.3}})
    for name in ("org/A", "org/B"):  # models handed to lm-eval as objects
        write(tmp_path / name, ONE, config={"model_args": None}, model_name=name)
    names = {*read_results([tmp_path]).runs["name"]}
    pythia = {"pythia +revision=step1000", "pythia", "pythia +mine"}
    assert len(names) == 11
    assert (
        pythia | {"A", "B", "org/model", "other/model", "old", "hf kind=noisy,noise=0.3"} <= names
    )


def test_sizes_and_versions_of_models(tmp_path):
    """An instruct version is found by its name, or named."""
    assert [model_size(x) for x in ("7B", "350m", "1.5e9", " 2T ")] == [7e9, 3.5e8, 1.5e9, 2e12]
    versions = {"gemma-2-9b-it": "gemma-2-9b", "Mistral-7B-Instruct-v0.3": "Mistral-7B-v0.3"}
    for name in sorted([*versions, *versions.values(), "phi-4", "Qwen2.5-7B-Instruct"]):
        write(tmp_path / name, ONE, model=name)
    results = read_runs([tmp_path], sizes=["phi-4=7B"])
    assert by(results.runs, "model", of="parameters")["phi-4"] == 7e9
    for given in ({}, {"Qwen2.5-7B-Instruct": "phi-4"}):
        paired = add_bases(results, [(base, name) for name, base in given.items()])
        bases = by(paired.runs, "model", of="bases")
        pairs = {name: base for name, of in bases.items() for base in of}
        assert pairs == {**versions, **given}


def test_models_are_compared_within_one_dtype(tmp_path):
    """Wordings, instruct versions, and what was trained with its base."""
    for number, (dtype, more) in enumerate(product(("float32", "bfloat16"), (0.0, 5.0))):
        config = run_as(dtype=dtype, pretrained="x/Small-Instruct" if more else "x/Small")
        folder, score = tmp_path / dtype / str(more), 10.0 * number + more + 2
        write(folder, {COCAINE: (score, 1.0)}, config=config)
        bare = {"config": config, "metadata": {"wording": "bare"}}
        write(folder / "bare", {COCAINE: (score - 1, 1.0)}, **bare)
    between = table("wordings", tmp_path)["between"].dropna()
    assert [*between] == pytest.approx([math.sqrt(0.5)] * 4)
    assert [*table("versions", tmp_path)["difference"]] == [15.0] * 4
    tuned = {"pretrained": "x/Small", "peft": "x/adapter"}
    write(tmp_path / "tuned", {COCAINE: (50.0, 3.0)}, config=run_as(dtype="bfloat16", **tuned))
    runs = read_runs([tmp_path]).runs
    assert [*runs["dtype"][runs["base"].dropna()]] == ["bfloat16"]


def test_other_tasks_become_columns(tmp_path):
    groups = {"mmlu": ["mmlu_anatomy"], "hellaswag": []}
    for case, (others, higher, _) in TABLES["others"].items():
        more = {"group_subtasks": groups, "higher_is_better": dict.fromkeys(others, higher)}
        write(tmp_path / case, {**ONE, **others}, model=case, **more)
    found = table("other", tmp_path)
    shown = {model: by(of, "other") for model, of in found.groupby("model")}
    assert shown == {case: columns for case, (_, _, columns) in TABLES["others"].items()}
    assert read_results([tmp_path]).notes.empty and {*found["score"]} == {40.0}


@pytest.mark.parametrize(("first", "second", "columns"), TABLES["others asked otherwise"])
def test_other_tasks_that_were_asked_otherwise_have_other_columns(tmp_path, first, second, columns):
    """Of one model and of two."""
    write(tmp_path / "small", {**ONE, "arc": {"acc,none": 0.3}}, model="small", **first)
    for model in ("small", "large"):
        write(tmp_path / "other", {"arc": {"acc,none": 1.3}}, model=model, date=2.0, **second)
        labels = {*read_results([tmp_path]).others["other"]}
        assert labels == {f"arc (acc{asked})" for asked in columns}


@pytest.mark.parametrize("ours", [{"config": {**SMALL, "limit": 10}}, BALANCED])
def test_another_task_alone_is_of_its_model_however_that_was_asked_ours(tmp_path, ours):
    """It belongs to every run of the model with the same chat template and dtype."""
    row = CUT if "config" in ours else WHOLE
    write(tmp_path / "ours", {COCAINE: row}, **{"config": SMALL, **ours})
    # With another backend, and another limit or none; of another dtype it is a row of its own.
    other = run_as(dtype="float16"), run_as(revision="v2")
    for config in (run_as({"model": "choice-hf"}), *other):
        write(tmp_path / "mmlu", MMLU, config=config)
        (found,) = table("other", tmp_path).to_dict("records")
        assert (found["other"], found["value"]) == ("mmlu (acc)", 0.65)
        assert math.isnan(found["score"]) if config in other else found["score"] == 50


def test_rank_correlation_with_other_tasks(tmp_path):
    """Ranks 1, 2, 3, 4 against 1, 3, 2, 4: 1 - 6 (1 + 1) / (4 * 15) = 0.8."""
    for number, theirs in enumerate((0.2, 0.6, 0.4, 0.8), start=1):
        tasks = {COCAINE: (10.0 * number, 1.0), "mmlu": {"acc,none": theirs}}
        write(tmp_path / str(number), tasks, model=f"m{number}")
        (found,) = table("correlation", tmp_path)[["value", "models"]].to_numpy().tolist()
        expected = {3: 0.5, 4: 0.8}.get(number, math.nan)
        assert found == pytest.approx([expected, number], nan_ok=True)


# What respondents that are known come to, asked the same.


def test_references_are_cut_as_the_run_they_stand_beside(tmp_path, tmp_path_factory):
    """Who knows averages only is the reference itself: wherever both stand, they are the same."""
    tasks = [COCAINE, f"{COCAINE}_likelihood", f"{SALARY}_likelihood", f"{AGE_SEX}_closed"]
    for name, limit in (("whole", None), ("cut", 10)):
        how = {"model_args": "kind=mean", "limit": limit}
        copied_run(tmp_path_factory, tmp_path / name, tasks, **how)
    results = read_results([tmp_path])
    assert {*results.runs["settings"]} == {"", "limit 10"} and len(results.scores) == 8
    known = score_known(results.scores, results.runs)
    assert [*known["l1"]] == pytest.approx([*results.scores["l1"]], abs=1e-9)
    for name in ("survey", "closed", "leaderboard"):
        found = table(name, tmp_path)
        ours = found[found["settings"].isin(["", "limit 10"]) & found["averages"].notna()]
        assert [*ours["averages"]] == pytest.approx([*ours["value"]], abs=1e-9), name
    # It has its rows already.
    assert not found[found["model"].str.contains("averages")]["rank"].isna().any()


def test_the_reference_draws_as_many_answers_as_the_run_it_stands_beside(tmp_path):
    sampled, truth, expected = f"{SALARY}_sampled", store.load_truth(SALARY), {}
    q, rng = respondents.answer_marginal(truth.weights, truth.p), np.random.default_rng(1)
    for number in (20, 100):
        drawn = {"config": SMALL, "metadata": {"n_samples": number}}
        write(tmp_path / str(number), {COCAINE: (40.0, 3.0), sampled: (30.0, 3.0)}, **drawn)
        counts = [np.pad(rng.multinomial(number, q), ((0, 0), (0, 1))) for _ in range(100)]
        scores = [Measured(part_of(truth), Elicited(q, counts=one)).score for one in counts]
        expected["n_samples=20" if number == 20 else ""] = pytest.approx(np.mean(scores), abs=2.0)
    found = table("leaderboard", tmp_path)
    found = found[(found["group"] == "epidemia_low_sampled") & (found["kind"] == "run")]
    averages = by(found, "settings", of="averages")
    # With exact shares it comes to 79.
    assert averages == expected and averages["n_samples=20"] + 20 < averages[""] < 75


def test_the_reference_of_what_is_unknown_is_left_out(tmp_path):
    """Nobody knows how many answers were drawn, or which cells were asked."""
    write(tmp_path / "a", {f"{SALARY}_sampled": (30.0, 3.0)}, metadata={"n_samples": "many"})
    write(tmp_path / "b", {COCAINE: {**WHOLE, "seen,none": 0.123}, HEROIN: WHOLE})
    for folder in (tmp_path / "a", tmp_path / "b"):
        found = table("leaderboard", folder)
        assert len(found) == 1 and found["averages"].isna().all()
    assert "incomplete" in [*read_results([tmp_path / "b"]).runs["limit"]]


def test_the_reference_of_another_task_version_is_what_was_run_of_it(tmp_path):
    """Today's prompts are not those of before: what they come to is no reference of these."""
    mean = {"model": "epidemia-baseline", "model_args": {"kind": "mean"}}
    for version in (2, 3):
        old = {"versions": {COCAINE: version}}
        write(tmp_path / f"{version}", {COCAINE: (10.0, 3.0)}, **old)
        write(tmp_path / f"mean{version}", {COCAINE: (39.0 + version, 3.0)}, config=mean, **old)
    found = table("leaderboard", tmp_path)
    found = found[found["model"] == "some-model"].set_index("settings")
    assert found["averages"]["task version 2"] == 41
    assert np.isnan(found["guesses"]["task version 2"])
    # That of today is computed.
    assert found["averages"][""] != 42 and found["guesses"][""] == 0
    assert table("leaderboard", tmp_path / "2")["averages"].isna().all()
