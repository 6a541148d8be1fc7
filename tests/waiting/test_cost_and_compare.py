"""What a group costs, and one model's scores side by side."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from lm_eval_epidemia.old.findings.ways import asked_in_ways, side_by_side
from lm_eval_epidemia.old.findings.wordings import asked_in_wordings
from lm_eval_epidemia.results.results import read_results
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks import WAYS, leaves
from lm_eval_epidemia.benchmarks.observation import TASK_VERSION
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.harness.cost import cost, tokenizer

TASK = "epidemia_low_nsduh_cocaine_ever_by_age"


def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, EpidemiaError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_the_cost_of_a_group_is_that_of_its_prompts(tiny_llama):
    loaded = tokenizer(tiny_llama)
    low, sampled, closed, stated = cost(
        ["epidemia_low_nsduh", f"{TASK}_sampled", "epidemia_high_meps_closed", f"{TASK}_stated"],
        loaded,
        {"n_samples": 20},
        max_gen_toks=50,
    )
    texts = [t for name in names("epidemia_low_nsduh") for t in split(name)["prompt"]]
    assert low[1:5] == (6, len(texts), 2 * len(texts), sum(map(len, texts)))
    assert low.tokens == sum(len(loaded(text).input_ids) for text in texts)
    assert low.written == 0
    # Distinct tokens: the nodes of the tree that all prompts of a task make, token by token.
    nodes = 0
    for name in names("epidemia_low_nsduh"):
        paths = set()
        for text in split(name)["prompt"]:
            ids = tuple(loaded(text).input_ids)
            paths |= {ids[:end] for end in range(1, len(ids) + 1)}
        nodes += len(paths)
    assert low.distinct == nodes < low.tokens
    texts = split(TASK, "sampled", Variant(n_samples=20))["prompt"][:]
    assert sampled[1:4] == (1, 220, 220)
    exact = sum(len(loaded(text).input_ids) for text in texts)
    assert sampled.tokens == pytest.approx(exact, rel=0.02)
    assert sampled.characters == pytest.approx(sum(map(len, texts)), rel=0.01)
    assert sampled.written == 220 * 50
    assert closed.prompts == closed.requests and closed.written == 50 * closed.prompts
    assert stated[1:4] == (1, 22, 22) and stated.written == 22 * 50


def names(group):
    from lm_eval_epidemia.benchmarks import members

    return [task for task, _ in members(group)]


def test_the_cost_of_a_variant():
    (plain,), (balanced,), (examples,) = (
        cost(["epidemia_low_gss"], metadata=metadata)
        for metadata in ({}, {"orderings": "balanced"}, {"fewshot": 2})
    )
    assert plain.prompts == 2 * balanced.prompts  # all have three answers: 6 orders, or 3
    assert plain.tokens is None
    assert examples.characters > plain.characters and examples.prompts == plain.prompts


def test_cost_on_the_command_line(tiny_llama):
    said = run("cost", "epidemia_high_rag", "--tokenizer", tiny_llama)
    assert "epidemia_high_rag" in said and "375" in said and "384,000" in said
    assert "every letter is one token" in said
    assert "choice-api" not in said  # the model writes
    said = run("cost", TASK)
    assert "to count tokens, give --tokenizer" in said and " tokens  " not in said
    assert "choice-api sends 22 requests (one per prompt, for one token each)" in said
    assert "local-completions 44" in said
    said = run("cost", f"{TASK},{TASK}", "epidemia_low_nsduh")
    rows = [line.split()[:4] for line in said.splitlines() if line.strip().startswith("epidemia_")]
    assert [row[0] for row in rows] == [TASK, "epidemia_low_nsduh"]
    assert f"choice-api sends {rows[1][2]} requests" in said  # the task is one of the group's
    with pytest.raises(EpidemiaError, match="expected a folder with a tokenizer"):
        run("cost", TASK, "--tokenizer", "/nowhere/at/all")


def rows_of(folder, kind, *options):
    """The rows of a report whose kind begins so."""
    rows = json.loads(run("report", folder, *options, "--format", "json"))["rows"]
    return [row for row in rows if row["kind"].startswith(kind)]


def result_file(folder, tasks, model="m", metadata=None, **more):
    folder.mkdir(parents=True, exist_ok=True)
    rows = {
        name: {"score,none": score, "score_stderr,none": error}
        for name, (score, error) in tasks.items()
    }
    (folder / "results_2026.json").write_text(
        json.dumps(
            {
                "results": rows,
                "configs": {name: {"metadata": metadata or {}} for name in rows},
                "versions": {
                    name: TASK_VERSION + WAYS[leaves()[name].way].revision
                    for name in rows
                    if name in leaves()
                },
                "config": {"model": "hf", "model_args": {"pretrained": f"/x/{model}"}},
                "epidemia": {
                    "replicates": {
                        name: {"sample": "", "score": "", "asking": {"score": error}}
                        for name, (_score, error) in tasks.items()
                        if not math.isnan(error)
                    }
                },
                **more,
            }
        )
    )


HEROIN = "epidemia_low_nsduh_heroin_ever_by_age"


def test_means_are_of_the_tasks_asked_in_all_ways(tmp_path):
    result_file(tmp_path / "a", {TASK: (40.0, 3.0), HEROIN: (20.0, 4.0), "mmlu": (1.0, 0.1)})
    result_file(
        tmp_path / "b",
        {
            f"{TASK}_sampled": (50.0, 6.0),
            f"{HEROIN}_sampled": (math.nan, math.nan),
            f"{TASK}_likelihood": (60.0, 1.0),
        },
    )
    (row,) = side_by_side(read_results([tmp_path]))
    assert row.model == "m" and row.group == "epidemia_low" and row.tasks == 1
    assert {way: mean[:3] for way, mean in row.means.items()} == {
        "letters": (40.0, 3.0, 1),
        "sampled": (50.0, 6.0, 1),
        "likelihood": (60.0, 1.0, 1),
    }
    (row,) = side_by_side(read_results([tmp_path / "a"]))
    assert row.tasks == 2 and row.means["letters"][:2] == (30.0, 2.5)  # sqrt(9 + 16) / 2


def test_groups_without_a_task_in_all_ways_are_no_rows(tmp_path):
    result_file(tmp_path / "a", {TASK: (40.0, 3.0), f"{HEROIN}_sampled": (20.0, 4.0)})
    why = "m: no task of epidemia_low has a score in all its ways (letters, sampled)"
    with pytest.raises(EpidemiaError, match="nothing to compare: no task has a score in all"):
        run("compare", tmp_path)
    result_file(tmp_path / "b", {TASK: (30.0, 3.0)}, "other")
    said = run("compare", tmp_path)
    shown = [line.split() for line in said.splitlines() if "note:" not in line]
    assert why in said and ["other", "epidemia_low", "1", "30.0", "±", "3.0"] in shown
    assert not [words for words in shown if words[:1] == ["m"]]


def test_scores_that_are_none_are_nothing_to_compare(tmp_path):
    result_file(tmp_path, {TASK: (math.nan, math.nan)})
    with pytest.raises(EpidemiaError, match="nothing to compare"):
        run("compare", tmp_path)


def test_two_ways_share_tasks_whatever_a_third_was_asked(tmp_path):
    """Letters of two tasks, stated of both, sampled of one, likelihoods of another."""
    result_file(tmp_path / "a", {TASK: (40.0, 3.0), HEROIN: (20.0, 4.0)})
    result_file(
        tmp_path / "b",
        {
            f"{TASK}_stated": (50.0, 6.0),
            f"{HEROIN}_stated": (26.0, 3.0),
            f"{TASK}_sampled": (30.0, 1.0),
            "epidemia_low_nsduh_marijuana_ever_by_age_likelihood": (20.0, 1.0),
        },
    )
    ways = rows_of(tmp_path, "ways")
    assert {(row["group"], row["name"]): (row["value"], row["tasks"]) for row in ways} == {
        ("epidemia_low_stated", "letters"): (8.0, 2),
        ("epidemia_low_sampled", "letters"): (-10, 1),
        ("epidemia_low_stated", "sampled"): (20.0, 1),
    }
    assert "+8.0" in run("compare", tmp_path)


def test_ways_are_paired_by_task(tmp_path):
    result_file(tmp_path / "a", {TASK: (40.0, 3.0), HEROIN: (20.0, 4.0)})
    result_file(
        tmp_path / "b",
        {
            f"{TASK}_stated": (50.0, 6.0),
            f"{HEROIN}_stated": (26.0, 3.0),
            f"{TASK}_sampled": (30.0, 1.0),
            f"{HEROIN}_sampled": (20.0, 1.0),
        },
    )
    (ways,) = asked_in_ways(read_results([tmp_path]).entries)
    found = {(one.one.rpartition(": ")[2], one.other): one for one in ways.differences}
    assert set(found) == {("sampled", "letters"), ("stated", "letters"), ("stated", "sampled")}
    stated = found["stated", "letters"]
    assert stated.tasks == 2 and stated.across.difference == pytest.approx((10 + 6) / 2)
    # Errors of the asking alone here, which are independent: sqrt(3^2 + 6^2 + 4^2 + 3^2) / 2
    assert stated.here == pytest.approx(math.sqrt(9 + 36 + 16 + 9) / 2)
    assert found["stated", "sampled"].across.difference == pytest.approx((20 + 6) / 2)
    for said in (run("compare", tmp_path), run("report", tmp_path, "--full", "--wide")):
        assert "One model asked in two ways" in said and "+8.0" in said
    ways = rows_of(tmp_path, "ways")
    assert {(row["group"], row["name"], row["value"]) for row in ways} >= {
        ("epidemia_low_stated", "letters", 8.0),
        ("epidemia_low_stated", "sampled", 13.0),
    }
    (row,) = [row for row in ways if row["value"] == 8.0]
    shown = [row[key] for key in ("corrected", "corrected_stderr", "wins", "ties", "losses")]
    assert shown == pytest.approx([8.0, stated.here, *stated[-3:]])
    assert all(row["wins"] is None for row in rows_of(tmp_path, "task"))


def test_wordings_are_paired_by_task_where_nothing_else_differs(tmp_path):
    bare = {"wording": "bare"}
    result_file(tmp_path / "a", {TASK: (40.0, 3.0), HEROIN: (20.0, 4.0)})
    result_file(tmp_path / "b", {TASK: (50.0, 6.0), HEROIN: (22.0, 3.0)}, metadata=bare)
    # Another model's, another way's, and with examples: these have no usual one beside them.
    result_file(tmp_path / "c", {TASK: (90.0, 1.0)}, "other", bare)
    result_file(tmp_path / "d", {f"{TASK}_sampled": (90.0, 1.0)}, metadata=bare)
    result_file(tmp_path / "e", {HEROIN: (90.0, 1.0)}, metadata={**bare, "fewshot": 2})
    (found,) = asked_in_wordings(read_results([tmp_path]).entries)
    assert (found.one, found.other) == ("m (wording=bare)", "m")
    assert found.tasks == 2 and found.across.difference == pytest.approx((10 + 2) / 2)
    assert found.here == pytest.approx(math.sqrt(9 + 36 + 16 + 9) / 2)
    for said in (run("compare", tmp_path), run("report", tmp_path, "--full", "--wide")):
        assert "One model in two wordings" in said and "+6.0" in said
    (row,) = rows_of(tmp_path, "wording")
    assert (row["model"], row["name"], row["value"]) == ("m (wording=bare)", "m", 6.0)


def test_a_model_with_and_without_retrieval(tmp_path):
    """Over the tasks of both, and over those in which the plain one scored 0."""
    from lm_eval_epidemia.benchmarks import members

    one, other, third = (f"{task}_rag" for task, _ in members("epidemia_high_rag")[:3])
    result_file(tmp_path / "a", {one: (0.0, 1.0), other: (30.0, 1.0), third: (0.0, 1.0)}, "plain")
    result_file(tmp_path / "b", {one: (20.0, 1.0), other: (35.0, 1.0), third: (8.0, 1.0)}, "seeks")
    said = run("report", tmp_path, "--pair", "plain=seeks", "--format", "latex")
    table = said[said.index("Instruct or retrieving version") :]
    rows = [line for line in table.splitlines() if line.startswith("seeks / plain")][:2]
    assert "epidemia\\_high\\_rag & 3 & +11.0" in rows[0]  # (20 + 5 + 8) / 3
    assert "where the second has 0 & 2 & +14.0" in rows[1]  # (20 + 8) / 2
    group, columns = "epidemia_high_rag", ("kind", "model", "group", "name", "tasks", "value")
    versions = rows_of(tmp_path, "version", "--pair", "plain=seeks")
    assert [tuple(row[column] for column in columns) for row in versions] == [
        ("version", "seeks", group, "plain", 3, 11.0),
        ("version at 0", "seeks", group, "plain", 2, 14.0),
    ]
    untold = run("report", tmp_path, "--format", "latex")
    assert "Instruct or retrieving version" not in untold
    assert "version" not in run("report", tmp_path, "--format", "csv")


def test_names_of_a_pair_may_hold_an_equals_sign(tmp_path):
    def served(model, score):
        arguments = {"model": "choice-api", "model_args": {"model": model}}
        result_file(tmp_path / model, {TASK: (score, 1.0)}, config=arguments)

    for model, score in {"a": 30.0, "b,x=1": 20.0, "a=b,x=1": 10.0, "c": 40.0}.items():
        served(model, score)

    def compared(*pairs):
        options = [part for pair in pairs for part in ("--pair", pair)]
        versions = rows_of(tmp_path, "version", *options)
        return [(row["name"], row["model"], row["value"]) for row in versions]

    assert compared("a=b,x=1=c") == [("a=b,x=1", "c", 30.0)]
    assert compared("c=a=b,x=1") == [("c", "a=b,x=1", -30.0)]
    # The same again is no other comparison.
    assert compared("a=b,x=1", "a=b,x=1") == [("a", "b,x=1", -10.0)]
    served("b,x=1=c", 50.0)
    with pytest.raises(EpidemiaError, match="is ambiguous; the models are a, a=b"):
        compared("a=b,x=1=c")


def test_a_pair_without_a_task_of_both_is_told(tmp_path):
    result_file(tmp_path / "a", {TASK: (40.0, 3.0)}, "plain")
    result_file(tmp_path / "b", {HEROIN: (50.0, 3.0)}, "seeks")
    said = run("report", tmp_path, "--pair", "plain=seeks", "--full")
    assert "--pair plain=seeks compares nothing: no task has scores of both" in said
    result_file(tmp_path / "b", {TASK: (50.0, 3.0)}, "seeks")
    assert "compares nothing" not in run("report", tmp_path, "--pair", "plain=seeks", "--full")


def test_variants_and_templates_are_rows_of_their_own(tmp_path):
    result_file(tmp_path / "a", {TASK: (40.0, 3.0)})
    result_file(tmp_path / "b", {TASK: (45.0, 3.0)}, metadata={"fewshot": 5, "vintage": "2022"})
    result_file(tmp_path / "c", {TASK: (50.0, 3.0)}, chat_template="{{ x }}")
    said = run("compare", tmp_path)
    models = {line.split("epidemia_low")[0].strip() for line in said.splitlines()}
    assert {"m", "m (fewshot=5)", "m (chat template)"} <= models
    assert "45.0 ± 3.0" in said


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda folder: None, "holds no results_"),
        (lambda folder: (folder / "results_1.json").write_text("{"), "is not a result file"),
        (lambda folder: (folder / "results_1.json").write_text("[]"), "is not a result file"),
        (lambda folder: result_file(folder, {"mmlu": (1.0, 1.0)}), "no epidemia task"),
    ],
)
def test_folders_without_results(tmp_path, write, message):
    write(tmp_path)
    with pytest.raises(EpidemiaError, match=message):
        side_by_side(read_results([tmp_path]))


def test_a_real_run_in_four_ways(tmp_path):
    """lm-eval's own result file, and the four scores of one respondent on one scale."""
    tasks = ",".join([TASK, *(f"{TASK}_{way}" for way in ("likelihood", "sampled", "stated"))])
    words = f"run --model epidemia-baseline --model_args kind=mean --tasks {tasks} --metadata"
    command = [*words.split(), '{"n_samples": 200}', "--output_path", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval_epidemia.cli", *command], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (row,) = side_by_side(read_results([tmp_path]))
    assert row.model == "knows averages only (kind=mean, n_samples=200)"
    scores = row.means
    assert set(scores) == {"letters", "likelihood", "sampled", "stated"}
    for mode in ("likelihood", "sampled", "stated"):
        error = np.hypot(scores[mode][1], scores["letters"][1])
        assert abs(scores[mode][0] - scores["letters"][0]) < 3 * error + 5  # and the binning
