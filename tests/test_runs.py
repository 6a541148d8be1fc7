"""A run is known by all its settings: files that agree in them are one, others never are."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from conftest import recorded
from recorded_runs import copied_run
from report_parts import (
    AGE_SEX,
    COCAINE,
    EMPLOYER,
    HEROIN,
    MMLU,
    SALARY,
    SMALL,
    by,
    command,
    run_as,
    table,
    write,
)

from lm_eval_epidemia.benchmarks.observation import respondents
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.references import known_scores
from lm_eval_epidemia.results.choose import conditions_of, shown, where
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.score.joint import own_errors

WHOLE, CUT = (
    {"score,none": 50.0, "score_stderr,none": 1.0, "l1,none": 0.1, "seen,none": seen}
    for seen in (1.0, 0.4)
)


def sizes(folder):
    """The number of scores of each run, by its settings."""
    results = read_results([folder])
    return by(
        results.runs.assign(number=results.scores.groupby("run").size()).fillna(0),
        "settings",
        of="number",
    )


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"config": run_as({"model_dtype": "torch.bfloat16"})}, "bfloat16"),
        ({"config": run_as({"model": "choice-hf"})}, "choice-hf"),
        ({"config": run_as(attn_implementation="eager")}, "attn_implementation=eager"),
        ({"config": run_as({"model_sha": "12345678ab"})}, "model_sha 12345678"),
        ({"config": SMALL, "chat_template": "{{ other }}"}, "template 68318503"),
    ],
)
def test_runs_that_differ_in_a_setting_are_rows_of_their_own(tmp_path, other, said):
    plain = {"config": run_as({"model_dtype": "torch.float32", "model_sha": "ffff"})}
    if "chat_template" in other:
        plain = {"config": SMALL, "chat_template": "{{ one }}"}
    elif "bfloat16" not in said:
        other["config"] = {"model_dtype": "torch.float32", "model_sha": "ffff", **other["config"]}
    write(tmp_path / "a", {COCAINE: (40.0, 3.0), AGE_SEX: (1.0, 1.0)}, date=1.0, **plain)
    write(tmp_path / "b", {COCAINE: (60.0, 3.0)}, date=2.0, **other)
    results = read_results([tmp_path])
    assert [*results.runs["model"]] == ["small"] * 2 and results.notes.empty
    one, two = results.runs["settings"]
    assert said in two and said not in one
    assert results.scores.groupby("run")["value"].agg(list).tolist() == [[40.0, 1.0], [60.0]]
    # Both are ranked, and compared with each other.
    (pair,) = table("pairs", tmp_path).to_dict("records")
    assert abs(pair["difference"]) == 20.0
    ranked = table("leaderboard", tmp_path)
    assert {*ranked[ranked["kind"] == "run"]["rank"]} == {"1-2 of 2", ""}


def test_runs_that_differ_in_nothing_that_is_answered_are_one_row(tmp_path):
    for name, task, machine, more in (
        ("low", COCAINE, {"batch_size": 1, "device": "cuda:0"}, {"batch_size": 8}),
        ("high", AGE_SEX, {"batch_size": 4, "device": "cpu"}, {"device_map": "auto"}),
    ):
        drawn = {"torch_seed": len(name), "model_dtype": "torch.float32", "model_sha": "abc"}
        config = run_as({**drawn, **machine}, dtype="auto", **more)
        write(tmp_path / name, {task: (40.0, 3.0)}, git_hash=name, config=config)
    results = read_results([tmp_path])
    assert [*results.runs["name"]] == ["small"] and len(results.scores) == 2
    assert results.notes.empty


def test_folders_that_are_links_are_read_once(tmp_path):
    write(tmp_path / "runs" / "a", {COCAINE: (40.0, 3.0)}, config=SMALL)
    collected = tmp_path / "collected"
    collected.mkdir()
    (collected / "a").symlink_to(tmp_path / "runs" / "a")
    (collected / "again").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "loop").symlink_to(collected)
    results = read_results([collected])
    assert len(results.scores) == 1 and results.older.empty and results.notes.empty


def test_how_written_answers_were_drawn_tells_runs_apart(tmp_path):
    sampled = f"{EMPLOYER}_sampled"
    write(tmp_path / "letters", {COCAINE: (40.0, 3.0)}, config=SMALL)
    for number, more in enumerate(
        [
            {"metadata": {"n_samples": 20}},
            {"metadata": {"n_samples": 50}},
            {"gen_kwargs": {"max_gen_toks": 5}},
            {"torch_seed": 7},
        ]
    ):
        metadata = more.pop("metadata", {})
        config = {**SMALL, **more}
        write(tmp_path / str(number), {sampled: (1.0, 3.0)}, config=config, metadata=metadata)
    # What most runs lack is not said, and tells apart.
    assert sizes(tmp_path) == dict.fromkeys(["", "n_samples=20", "n_samples=50", "[2]", "[3]"], 1)


@pytest.mark.parametrize(
    "ours", [{"config": {**SMALL, "limit": 10}}, {"metadata": {"orderings": "balanced"}}]
)
def test_another_task_alone_is_of_its_model_however_that_was_asked_ours(tmp_path, ours):
    """It belongs to every run of the model with the same chat template and dtype."""
    seen = 0.4 if "config" in ours else 1.0
    write(tmp_path / "ours", {COCAINE: {**CUT, "seen,none": seen}}, **{"config": SMALL, **ours})
    # With another backend, and another limit or none.
    write(tmp_path / "mmlu", MMLU, config=run_as({"model": "choice-hf"}))
    (found,) = table("other", tmp_path).to_dict("records")
    assert (found["other"], found["value"], found["score"]) == ("mmlu (acc)", 0.65, 50.0)
    # Of another dtype, or revision, it is a row of its own.
    for more in ({"dtype": "float16"}, {"revision": "v2"}):
        write(tmp_path / "mmlu", MMLU, config=run_as(**more))
        (found,) = table("other", tmp_path).to_dict("records")
        assert found["value"] == 0.65 and np.isnan(found["score"])


def test_wordings_and_versions_are_compared_within_one_dtype(tmp_path):
    for dtype, score in (("float32", 10.0), ("bfloat16", 30.0)):
        for model, more in (("x/Small", 0.0), ("x/Small-Instruct", 5.0)):
            config = {"model": "hf", "model_args": {"pretrained": model, "dtype": dtype}}
            folder = tmp_path / f"{model[2:]}-{dtype}"
            write(folder, {COCAINE: (score + more, 1.0)}, config=config)
            bare = {"config": config, "metadata": {"wording": "bare"}}
            write(folder / "bare", {COCAINE: (score + more - 1, 1.0)}, **bare)
    assert [*table("wording", tmp_path)["difference"]] == [-1.0] * 4
    assert [*table("versions", tmp_path)["difference"]] == [5.0] * 4


def test_a_tuned_model_is_compared_with_the_base_of_its_dtype(tmp_path):
    for dtype in ("float32", "bfloat16"):
        write(tmp_path / dtype, {COCAINE: (40.0, 3.0)}, config=run_as(dtype=dtype))
    tuned = run_as(dtype="bfloat16", peft="x/adapter")
    path = write(tmp_path / "tuned", {COCAINE: (50.0, 3.0)}, config=tuned)
    runs = read([tmp_path]).runs
    assert [*runs["dtype"][runs["base"].dropna()]] == ["bfloat16"]
    # Where there is none, a note says what else differs.
    found = json.loads(path.read_text())
    found["config"]["model_args"]["dtype"] = "float16"
    path.write_text(json.dumps(found))
    shutil.rmtree(tmp_path / "bfloat16")
    (note,) = [text for text in read([tmp_path]).notes["text"] if "base" in text]
    assert "(dtype float16 and float32), so training does not explain the whole" in note


def test_the_run_that_answered_most_stands_for_its_model_then_the_newest(tmp_path):
    half = run_as(dtype="bfloat16")
    write(tmp_path / "a", {COCAINE: (40.0, 3.0)}, date=1.0, config=half)
    write(tmp_path / "b", {COCAINE: (60.0, 3.0)}, date=2.0, config=run_as(dtype="float32"))

    def stands():
        results = read_results([tmp_path])
        (run,) = shown(results)
        return results.runs["settings"][run]

    assert stands() == "float32"
    write(tmp_path / "a", {COCAINE: (40.0, 3.0), AGE_SEX: (1.0, 1.0)}, config=half)
    assert stands() == "bfloat16"
    # A tenth of two tasks is less than one.
    write(tmp_path / "a", {COCAINE: CUT, AGE_SEX: CUT}, config={**half, "limit": 10.0})
    assert stands() == "float32"


def test_what_a_file_holds_is_one_run_though_a_limit_reached_some_tasks_alone(tmp_path):
    limited = {"config": {**SMALL, "limit": 10.0}}
    write(tmp_path / "ten", {COCAINE: CUT, HEROIN: WHOLE, AGE_SEX: CUT}, date=2.0, **limited)
    assert sizes(tmp_path) == {"limit 10": 3}
    # Never with a run that had no limit.
    write(tmp_path / "all", {COCAINE: WHOLE, AGE_SEX: WHOLE}, date=1.0, config=SMALL)
    assert sizes(tmp_path) == {"": 2, "limit 10": 3}


def test_settings_read_in_words(tmp_path):
    half = {"pretrained": "x/small", "dtype": "bfloat16"}
    write(
        tmp_path,
        {COCAINE: CUT},
        config={"model": "choice-hf", "model_args": half, "limit": 10.0},
        metadata={"orderings": "balanced"},
        chat_template="{{ x }}",
        system_instruction="Be brief.",
        **{"n-shot": {COCAINE: 5}},
    )
    system = hashlib.sha256(b"Be brief.").hexdigest()[:4]
    (settings,) = read_results([tmp_path]).runs["settings"]
    assert settings == (
        f"limit 10, chat template, balanced orderings, few-shot 5, system prompt {system}, bfloat16"
    )


def test_runs_are_chosen_by_their_settings(tmp_path):
    for dtype in ("float32", "bfloat16"):
        for limit, row in ((None, WHOLE), (10.0, CUT)):
            config = {**run_as(dtype=dtype), "limit": limit}
            write(tmp_path / f"{dtype}-{limit}", {COCAINE: row}, config=config)
    results = read_results([tmp_path])
    assert len(where(results, conditions_of(["limit=none"])).runs) == 2
    # What no run has is at its default in all of them.
    assert len(where(results, conditions_of(["chat_template=none"])).runs) == 4
    for given in (["limit=none,dtype=bfloat16"], ["limit=none", " dtype = bfloat16 "]):
        found = where(results, conditions_of(given))
        assert [*found.runs["settings"]] == ["bfloat16"] and len(found.scores) == 1
        assert "--where leaves out 3 runs of 4" in found.notes["text"].iloc[-1]
    for given, message in (
        (["precision=x"], r"no run has this setting; expected model,"),
        (["dtype=int8"], r"leaves no run: in these results dtype is bfloat16, "),
        (["limit"], r"expected SETTING=VALUE"),
        (["limit=none,limit=10"], r"limit=none,limit=10: a run has one value"),
    ):
        with pytest.raises(EpidemiaError, match=message):
            where(results, conditions_of(given))


# What respondents that are known come to, asked the same.


def test_references_are_cut_as_the_run_they_stand_beside(tmp_path):
    """Who knows averages only is the reference itself: wherever both stand, they are the same."""
    tasks = [COCAINE, f"{COCAINE}_likelihood", f"{EMPLOYER}_likelihood", f"{AGE_SEX}_closed"]
    for name, limit in (("whole", None), ("cut", 10)):
        recorded(tmp_path / name, tasks, model_args="kind=mean", limit=limit)
    results = read_results([tmp_path])
    assert {*results.runs["settings"]} == {"", "limit 10"} and len(results.scores) == 8
    known = known_scores(results.scores, results.runs)
    assert [*known["l1"]] == pytest.approx([*results.scores["l1"]], abs=1e-9)
    for name in ("leaderboard", "survey", "closed"):
        found = table(name, tmp_path)
        found = found[found["settings"].isin(["", "limit 10"]) & found["averages"].notna()]
        assert [*found["averages"]] == pytest.approx([*found["value"]], abs=1e-9), name
    # It has its rows already.
    found = table("leaderboard", tmp_path)
    assert not found[found["model"].str.contains("averages")]["rank"].isna().any()


def test_the_reference_draws_as_many_answers_as_the_run_it_stands_beside(tmp_path):
    sampled, truth, expected = f"{SALARY}_sampled", store.load(SALARY), {}
    q, rng = respondents.mean(truth.weights, truth.p), np.random.default_rng(1)
    for number in (20, 100):
        drawn = {"config": SMALL, "metadata": {"n_samples": number}}
        write(tmp_path / str(number), {COCAINE: (40.0, 3.0), sampled: (30.0, 3.0)}, **drawn)
        counts = [np.pad(rng.multinomial(number, q), ((0, 0), (0, 1))) for _ in range(100)]
        scores = [Measured(part_of(truth), Elicited(q, counts=one)).score for one in counts]
        expected["n_samples=20" if number == 20 else ""] = pytest.approx(np.mean(scores), abs=2.0)
    found = table("leaderboard", tmp_path)
    found = found[(found["group"] == "epidemia_low_sampled") & (found["kind"] == "run")]
    averages = by(found, "settings", of="averages")
    assert averages == expected
    # With exact shares it comes to 79.
    assert averages["n_samples=20"] + 20 < averages[""] < 75


def test_the_reference_of_unknown_conditions_is_left_out(tmp_path):
    """Nobody knows how many answers were drawn, or which cells were asked."""
    write(tmp_path / "a", {f"{SALARY}_sampled": (30.0, 3.0)}, metadata={"n_samples": "many"})
    write(tmp_path / "b", {COCAINE: {**WHOLE, "seen,none": 0.123}, HEROIN: WHOLE})
    for folder in (tmp_path / "a", tmp_path / "b"):
        found = table("leaderboard", folder)
        assert len(found) == 1 and found["averages"].isna().all()
    assert "incomplete" in command("report", tmp_path / "b", "--show", "leaderboard", "--wide")


def test_the_reference_of_another_task_version_is_what_was_run_of_it(tmp_path):
    """Today's prompts are not those of before: what they come to is no reference of these."""
    mean = {"model": "epidemia-baseline", "model_args": {"kind": "mean"}}
    for version, score in ((2, 41.0), (3, 43.0)):
        old = {"versions": {COCAINE: version}}
        write(tmp_path / f"{version}", {COCAINE: (10.0, 3.0)}, **old)
        write(tmp_path / f"mean{version}", {COCAINE: (score, 3.0)}, config=mean, **old)
    found = table("leaderboard", tmp_path)
    found = found[found["model"] == "some-model"].set_index("settings")
    assert found["averages"]["task version 2"] == 41.0
    assert np.isnan(found["guesses"]["task version 2"])
    # That of today is computed.
    assert found["averages"][""] != 43.0 and found["guesses"][""] == 0
    shutil.rmtree(tmp_path / "mean2")
    assert table("leaderboard", tmp_path / "2")["averages"].isna().all()


def test_parts_of_a_task_in_several_files_of_a_run_are_one_result(tmp_path, tmp_path_factory):
    """As the jobs of a cluster leave them; a run with noise is another one, whatever it asked."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    noisy = {"model_args": "kind=noisy,noise=0.5"}
    copied_run(tmp_path_factory, whole, [COCAINE], **noisy)
    for number, asked in enumerate(([0, 1, 2, 3, 4], [*range(5, 22)])):
        part = {"samples": {COCAINE: asked}}
        copied_run(tmp_path_factory, parts / f"{number}", [COCAINE], **noisy, **part)
    other = {"model_args": "kind=truth", "samples": {COCAINE: [0, 1]}}
    copied_run(tmp_path_factory, parts / "other", [COCAINE], **other)
    (once,) = read_results([whole]).scores.to_dict("records")
    results = read_results([parts])
    joined = results.scores.sort_values("seen").iloc[-1]
    assert (joined["asked_as"], joined["seen"]) == (once["asked_as"], 1.0)
    assert (joined["l1"], joined["value"]) == (once["l1"], once["value"])
    # A result file has draws with six decimals.
    errors = own_errors([joined["draws"], once["draws"]])
    assert errors[0] == pytest.approx(errors[1], abs=1e-5)
    assert "1 task put together from 2 files of one run" in " ".join(results.notes["text"])

    def noted():
        return " ".join(read_results([parts]).notes["text"])

    first, later = (next((parts / place).rglob("samples_*")) for place in "01")
    doubled = json.loads(first.read_text().splitlines()[0])
    doubled["filtered_resps"] = [["-0.1", "True"], ["-3.0", "False"]]
    later.write_text(later.read_text() + json.dumps(doubled) + "\n")
    assert "answers prompts of the others in another way" in noted()
    first.unlink()
    assert "has no samples: run its part again with --log_samples" in noted()
