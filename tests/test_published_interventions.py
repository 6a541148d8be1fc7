"""The study's four models beside runs: their numbers are those of its tables, weighted."""

import math

import pytest
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import by, command

from lm_eval_epidemia.benchmarks import INTERVENTION
from lm_eval_epidemia.benchmarks.intervention.questions import questions
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.interventions import SUBTRACTED
from lm_eval_epidemia.results import published
from lm_eval_epidemia.results.published import MARKS, printed, with_published
from lm_eval_epidemia.results.read import read_results

NAMES = ("random", "tuebingen", "anticommonsense")
TASKS = {names: f"epidemia_intervention_{names}" for names in NAMES}
PLAIN = "epidemia_intervention"
MODELS = ("GPT-3.5", "GPT-4", "GPT-4-turbo", "LLaMA-2")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    # As in test_priors_and_interventions, so that it is run once.
    tasks = [PLAIN + way for way in ("", "_retrieval", "_large_03", "_large_06")]
    return copied_run(tmp_path_factory, folder, tasks, model_args="kind=retrieval")


@pytest.fixture(scope="module")
def results(runs):
    return with_published(read_results([runs]))


@pytest.fixture(scope="module")
def scores():
    """Every published score, by task, way and model."""
    return {(task, way, model): value for task, way, model, value, _ in published._intervened()}


def test_accuracies_are_the_printed_ones_weighted_over_the_22_effects(scores):
    """A column of the bivariate graph is a mean over two queries, any other over three."""
    # By hand, random names: GPT-3.5 has (2 (.83 + .87) + 3 (.8 + .69 + .36 + .58 + .36 + .67)) / 22
    # = (3.40 + 10.38) / 22 = .6264; the others likewise.
    expected = {
        "intervention": (".626", ".940", ".980", ".510"),
        "substitution": (".627", ".920", ".983", ".504"),
    }
    table = printed()[printed()["table"].isin(("7", "10"))].copy()
    table["weight"] = table.graph.map({"bivariate": 2, "confounding": 3, "mediation": 3})
    table["sum"] = table.weight * table.accuracy
    sums = table.groupby(["way", "model", "names"])[["sum", "weight"]].sum()
    assert {*sums.weight} == {22} and len(sums) == 24
    for way, of_models in expected.items():
        for model, said in zip(MODELS, of_models, strict=True):
            for names in NAMES:
                row = sums.loc[way.replace("intervention", "plain"), model, names]
                value = scores[TASKS[names], way, model]
                assert value == pytest.approx(row["sum"] / 22)
                assert value == scores[TASKS[names], f"{way}_written", model]
            assert f"{scores[TASKS['random'], way, model] + 1e-9:.3f}"[1:] == said


def test_the_page_has_the_weighted_accuracies(scores):
    page = REPOSITORY / "docs" / "background" / "reproduce-interventions.md"
    for model in MODELS:
        values = [
            scores[TASKS[n], way, model] for way in ("intervention", "substitution") for n in NAMES
        ]
        written = " | ".join(f"{value + 1e-9:.3f}".removeprefix("0") for value in values)
        assert f"| {model} | {written} |" in page.read_text(encoding="utf-8")


def test_gpt_35_is_below_who_ignores_interventions(results, scores):
    """15 of the 22 effects change nothing: .682, which the note says, and a run gets."""
    pairs = questions(TASKS["random"]).pairs
    assert f"{sum(not pair.effect.kappa for pair in pairs) / len(pairs):.3f}" == "0.682"
    assert "ignoring interventions scores .682" in MARKS[INTERVENTION.name]
    for way in ("intervention", "substitution"):
        of = {model: scores[TASKS["random"], way, model] for model in ("GPT-3.5", "GPT-4")}
        assert of["GPT-3.5"] < 15 / 22 < of["GPT-4"]
    ours = results.scores[results.scores["run"] == 0]
    (value,) = ours["value"][(ours["task"] == TASKS["random"]) & (ours["way"] == "intervention")]
    assert value == pytest.approx(15 / 22)


def test_retrieval_is_weighted_by_ordered_pairs_and_knowledge_as_it_is(scores):
    """GPT-3.5: (2 * 1 + 6 * 1 + 6 * .99) / 14; LLaMA-2: (2 * .87 + 6 * .63 + 6 * .86) / 14."""
    assert scores[TASKS["random"], "retrieval", "GPT-3.5"] == pytest.approx(13.94 / 14)
    assert scores[TASKS["random"], "retrieval_written", "LLaMA-2"] == pytest.approx(10.68 / 14)
    known = {m: x for (task, way, m), x in scores.items() if (task, way) == KNOWLEDGE}
    assert known == {"GPT-3 (text-davinci-003)": 0.80, "GPT-3.5": 0.89, "GPT-4": 0.96}


KNOWLEDGE = (TASKS["tuebingen"], "knowledge")


def test_only_what_was_asked_has_published_numbers(results, scores):
    assert not [key for key in scores if "large" in key[0]]
    assert not [key for key in scores if key[:2] == (TASKS["tuebingen"], "retrieval")]
    names = results.scores["run"].map(results.runs["kind"])
    of = results.scores[names == "published"]
    asked = {*zip(of["task"], of["way"], strict=True)}
    here = results.scores[names != "published"]
    assert asked < {*zip(here["task"], here["way"], strict=True)}
    rows = find("interventions")(results).table
    means = rows[(rows["kind"] == "published") & (rows["asked"] == "")]
    for model, value in by(means[means["group"] == PLAIN], "model").items():
        values = [scores[task, "intervention", model] for task in TASKS.values()]
        assert value == pytest.approx(math.fsum(values) / 3)


def test_every_printed_number_of_a_table_is_in_the_findings(results):
    """Those of tables 3, 7, 8 and 9, with their errors (0 says nothing): of what was asked, all."""
    shown = []
    for name in ("interventions", "shortcut", "memorisation"):
        rows = find(name)(results).table
        rows = rows[(rows["kind"] == "published") & (rows["asked"] != "")].fillna({"error": 0})
        rows = rows[~rows["part"].isin(("difference", *SUBTRACTED))]
        shown += [*rows[["model", "value", "error"]].itertuples(index=False, name=None)]
    asked = printed()[printed()["table"].isin(["3", "7", "8", "9"])]
    numbers = [*asked[["model", "accuracy", "error"]].itertuples(index=False, name=None)]
    assert sorted(shown) == sorted(numbers) and len(shown) == 30 + 96 + 36 + 12


def test_the_bivariate_contrast_is_with_both_queries_as_printed_and_with_ab_alone(results):
    """The printed one is the mean of AB and BA: table 8 has the number of table 7, for do(B)."""
    contrast = find("memorisation")(results)
    rows = contrast.table
    printed_ones = rows["kind"] == "published"
    of_kind = {
        kind: list(dict.fromkeys(rows["asked"][printed_ones == (kind == "theirs")]))
        for kind in ("theirs", "ours")
    }
    both, others = "bivariate, do(B), AB and BA", ["mediation, do(B), AC", "mediation, do(C), AC"]
    assert of_kind == {
        "theirs": [both, *others],
        "ours": ["bivariate, do(B), AB", both, *others],
    }
    table = printed()
    table = table[(table["graph"] == "bivariate") & (table["intervened"] == "B")]
    table = table[table["table"].isin(("7", "8"))]
    pairs = table.pivot(columns="table", index=["model", "names"], values="accuracy")
    assert len(pairs) == 12 and (pairs["7"] == pairs["8"]).all()
    assert "published numbers are for AB and BA" in contrast.note
    # Who ignores do(B) has BA right and AB wrong.
    ours = rows[rows["kind"] != "published"]
    assert {*ours["value"][ours["asked"] == "bivariate, do(B), AB"]} == {0}
    values = by(rows, "model", "asked", "part")
    assert values["epidemia-baseline kind=retrieval", both, "random"] == 0.5
    assert values["GPT-4-turbo", both, "t - a"] == pytest.approx(0.90 - 0.57)


def test_published_models_stand_beside_a_run_where_they_are_wanted(runs):
    screen = " ".join(command("report", runs, "--published").split())
    assert "GPT-3.5" in screen and "GPT-3.5" not in command("report", runs)
    full = command("report", runs, "--published", "--show", "interventions", "--wide")
    full = " ".join(full.split())
    assert "mixes those of its graph" in full and "mediation, do(B)" in full
    latex = command("report", runs, "--published", "--show", "interventions", "--format", "latex")
    (row,) = [
        line for line in latex.splitlines() if "LLaMA-2" in line and "bivariate, do(A)" in line
    ]
    assert r"0.500 $\pm$ 0.120" in row
