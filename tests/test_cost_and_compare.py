"""What a group costs, and one model's scores side by side."""

import math

import numpy as np
import pytest
from conftest import recorded
from report_parts import COCAINE as TASK
from report_parts import HEROIN, by, command, said, table, write

from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.harness.cost import cost, tokenizer
from lm_eval_epidemia.results.read import read_results


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
    shown = command("cost", "epidemia_high_rag", "--tokenizer", tiny_llama)
    assert "epidemia_high_rag" in shown and "375" in shown and "384,000" in shown
    assert "every letter is one token" in shown
    assert "choice-api" not in shown  # the model writes
    shown = command("cost", TASK)
    assert "to count tokens, give --tokenizer" in shown and " tokens  " not in shown
    assert "choice-api sends 22 requests (one per prompt, for one token each)" in shown
    assert "local-completions 44" in shown
    shown = command("cost", f"{TASK},{TASK}", "epidemia_low_nsduh")
    rows = [line.split()[:4] for line in shown.splitlines() if line.strip().startswith("epidemia_")]
    assert [row[0] for row in rows] == [TASK, "epidemia_low_nsduh"]
    assert f"choice-api sends {rows[1][2]} requests" in shown  # the task is one of the group's
    with pytest.raises(EpidemiaError, match="expected a folder with a tokenizer"):
        command("cost", TASK, "--tokenizer", "/nowhere/at/all")


def test_means_are_of_the_tasks_asked_in_all_ways(tmp_path):
    write(tmp_path / "a", {TASK: (40.0, 3.0), HEROIN: (20.0, 4.0), "mmlu": (1.0, 0.1)}, "m")
    asked = {f"{TASK}_sampled": (50.0, 6.0), f"{TASK}_likelihood": (60.0, 1.0)}
    write(tmp_path / "b", {**asked, f"{HEROIN}_sampled": {"score,none": math.nan}}, "m")
    found = table("side-by-side", tmp_path)
    assert {*zip(found["model"], found["group"], found["tasks"], strict=True)} == {
        ("m", "epidemia_low", 1)
    }
    columns = found["way"], found["value"], found["error"]
    assert [*zip(*columns, strict=True)] == [
        ("letters", 40.0, 3.0),
        ("sampled", 50.0, 6.0),
        ("likelihood", 60.0, 1.0),
    ]


def test_what_has_no_task_in_all_ways_is_nothing_to_compare(tmp_path):
    write(tmp_path / "none", {TASK: {"score,none": math.nan}}, "m")
    write(tmp_path / "a", {TASK: (40.0, 3.0), f"{HEROIN}_sampled": (20.0, 4.0)}, "m")
    for folder in ("none", "a"):
        with pytest.raises(EpidemiaError, match="nothing to compare: no task has a score in all"):
            command("compare", tmp_path / folder)
    why = "m: no task of epidemia_low has a score in all its ways (letters, sampled)"
    (told,) = find("side-by-side")(read_results([tmp_path / "a"])).left_out
    assert why in told
    # Beside a group that has one.
    write(tmp_path / "b", {f"{TASK}_likelihood": (30.0, 3.0), TASK: (35.0, 3.0)}, "other")
    done = said("compare", tmp_path / "a", tmp_path / "b")
    assert why in done.stderr and "30.0 ± 3.0" in done.stdout


def test_ways_are_paired_by_task_whatever_a_third_was_asked(tmp_path):
    """Letters of two tasks, stated of both, sampled of one, likelihoods of another."""
    write(tmp_path / "a", {TASK: (40.0, 3.0), HEROIN: (20.0, 4.0)}, "m")
    third = "epidemia_low_nsduh_marijuana_ever_by_age_likelihood"
    asked = {f"{TASK}_stated": (50.0, 6.0), f"{HEROIN}_stated": (26.0, 3.0)}
    write(tmp_path / "b", {**asked, f"{TASK}_sampled": (30.0, 1.0), third: (20.0, 1.0)}, "m")
    found = table("ways", tmp_path).set_index(["asked", "other"])
    assert found["difference"].to_dict() == {
        ("stated", "letters"): 8.0,
        ("sampled", "letters"): -10.0,
        ("stated", "sampled"): 20.0,
    }
    stated = found.loc["stated", "letters"]
    assert (stated["group"], stated["tasks"]) == ("epidemia_low_stated", 2)
    # Errors of the asking alone here, which are independent: sqrt(3^2 + 6^2 + 4^2 + 3^2) / 2
    assert stated["corrected_error"] == pytest.approx(math.sqrt(9 + 36 + 16 + 9) / 2)
    assert stated["corrected"] == 8.0 and stated[["wins", "ties", "losses"]].sum() == 2
    for shown in (command("compare", tmp_path), command("report", tmp_path, "--show", "ways")):
        assert "One model asked in two ways" in shown and "+8.0" in shown


def test_wordings_are_paired_by_task_where_nothing_else_differs(tmp_path):
    bare = {"wording": "bare"}
    write(tmp_path / "a", {TASK: (40.0, 3.0), HEROIN: (20.0, 4.0)}, "m")
    write(tmp_path / "b", {TASK: (50.0, 6.0), HEROIN: (22.0, 3.0)}, "m", metadata=bare)
    # Another model's, another way's, and with examples: these have no usual one beside them.
    write(tmp_path / "c", {TASK: (90.0, 1.0)}, "other", metadata=bare)
    write(tmp_path / "d", {f"{TASK}_sampled": (90.0, 1.0)}, "m", metadata=bare)
    write(tmp_path / "e", {HEROIN: (90.0, 1.0)}, "m", metadata={**bare, "fewshot": 2})
    (found,) = table("wording", tmp_path).to_dict("records")
    names = [found[name] for name in ("model", "settings", "other")]
    assert names == ["m", "bare wording", "m"]
    assert (found["tasks"], found["difference"]) == (2, (10 + 2) / 2)
    assert found["corrected_error"] == pytest.approx(math.sqrt(9 + 36 + 16 + 9) / 2)
    for shown in (command("compare", tmp_path), command("report", tmp_path, "--show", "wording")):
        assert "One model in two wordings" in shown and "+6.0" in shown


def test_a_model_with_and_without_retrieval(tmp_path):
    """Over the tasks of both, and over those in which the plain one scored 0."""
    one, other, third = (f"{task}_rag" for task, _ in members("epidemia_high_rag")[:3])
    write(tmp_path / "a", {one: (0.0, 1.0), other: (30.0, 1.0), third: (0.0, 1.0)}, "plain")
    write(tmp_path / "b", {one: (20.0, 1.0), other: (35.0, 1.0), third: (8.0, 1.0)}, "seeks")
    found = table("versions", tmp_path, pairs=["plain=seeks"])
    columns = ["model", "other", "group", "where", "tasks", "difference"]
    assert found[columns].to_numpy().tolist() == [
        ["seeks", "plain", "epidemia_high_rag", "", 3, 11.0],  # (20 + 5 + 8) / 3
        ["seeks", "plain", "epidemia_high_rag", "the second has 0", 2, 14.0],  # (20 + 8) / 2
    ]
    assert table("versions", tmp_path).empty


def test_names_of_a_pair_may_hold_an_equals_sign(tmp_path):
    def served(model, score):
        config = {"model": "choice-api", "model_args": {"model": model}}
        write(tmp_path / model, {TASK: (score, 1.0)}, config=config)

    for model, score in {"a": 30.0, "b,x=1": 20.0, "a=b,x=1": 10.0, "c": 40.0}.items():
        served(model, score)

    def compared(*pairs):
        return by(table("versions", tmp_path, pairs=pairs), "other", "model", of="difference")

    assert compared("a=b,x=1=c") == {("a=b,x=1", "c"): 30.0}
    assert compared("c=a=b,x=1") == {("c", "a=b,x=1"): -30.0}
    # The same again is no other comparison.
    assert len(table("versions", tmp_path, pairs=["a=b,x=1"] * 2)) == 1
    assert compared("a=b,x=1") == {("a", "b,x=1"): -10.0}
    served("b,x=1=c", 50.0)
    with pytest.raises(EpidemiaError, match="is ambiguous: expected BASE=OTHER, of a, a=b"):
        compared("a=b,x=1=c")


def test_a_pair_without_a_task_of_both_is_told(tmp_path):
    write(tmp_path / "a", {TASK: (40.0, 3.0)}, "plain")
    write(tmp_path / "b", {HEROIN: (50.0, 3.0)}, "seeks")
    results = read([tmp_path], pairs=["plain=seeks"])
    (note,) = results.notes["text"][results.notes["kind"] == "chosen"]
    assert note == "--pair plain=seeks: the two share no task that was asked in the same way"
    with pytest.raises(EpidemiaError, match="no model and its instruct version were asked the sam"):
        command("report", tmp_path, "--pair", "plain=seeks", "--show", "versions")
    write(tmp_path / "b", {TASK: (50.0, 3.0)}, "seeks")
    assert "+10.0" in command("report", tmp_path, "--pair", "plain=seeks", "--show", "versions")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "holds no results_"),
        (["{"], "is not a result file"),
        (["[]"], "is not a result file"),
        (['{"results": {"mmlu": {"acc,none": 1.0}}}'], "nothing to compare"),
    ],
)
def test_folders_without_results(tmp_path, files, message):
    for text in files:
        (tmp_path / "results_1.json").write_text(text)
    with pytest.raises(EpidemiaError, match=message):
        command("compare", tmp_path)


def test_a_real_run_in_four_ways(tmp_path):
    """lm-eval's own result file, and the four scores of one respondent on one scale."""
    tasks = [TASK, *(f"{TASK}_{way}" for way in ("likelihood", "sampled", "stated"))]
    recorded(tmp_path, tasks, model_args="kind=mean", metadata={"n_samples": 200})
    found = table("side-by-side", tmp_path).set_index("way")
    assert {*found["model"]} == {"knows averages only (kind=mean)"} and len(found) == 4
    for way in ("likelihood", "sampled", "stated"):
        apart = found["value"][way] - found["value"]["letters"]
        error = np.hypot(found["error"][way], found["error"]["letters"])
        assert abs(apart) < 3 * error + 5, way  # and the binning
