"""The study's four models beside runs: their numbers are those of its tables, weighted."""

import csv
import io
import json
import re

import pandas as pd
import pytest
from conftest import REPOSITORY
from lm_eval_epidemia.old.findings import interventions, published_interventions
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.old.findings.published import published
from lm_eval_epidemia.old.report import output
from lm_eval_epidemia.results.results import read_results
from recorded_runs import copied_run
from report_parts import command

from lm_eval_epidemia.benchmarks.intervention.questions import questions
from lm_eval_epidemia.results.entry import Asked

NAMES = ("random", "tuebingen", "anticommonsense")
TASKS = {names: f"epidemia_intervention_{names}" for names in NAMES}
FILE = REPOSITORY / "lm_eval_epidemia" / "findings" / "published_interventions.csv"
MODELS = ("GPT-3.5", "GPT-4", "GPT-4-turbo", "LLaMA-2")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    # As in test_interventions_report, so that it is run once.
    tasks = ["epidemia_intervention" + way for way in ("", "_retrieval", "_large_03", "_large_06")]
    return copied_run(tmp_path_factory, folder, tasks, model_args="kind=retrieval")


@pytest.fixture(scope="module")
def report(runs):
    return make_report(read_results([runs]), with_published=True)


def score(model, names, way):
    asked = Asked(TASKS[names], way)
    (entry,) = (e for e in published_interventions.entries([asked]) if e.model == model)
    assert entry.reference and entry.name == f"{model} (published)"
    return entry.scores[asked].value


def test_accuracies_are_the_printed_ones_weighted_over_the_22_effects():
    """A column of the bivariate graph is a mean over two queries, any other over three."""
    # By hand, random names: GPT-3.5 has (2 (.83 + .87) + 3 (.8 + .69 + .36 + .58 + .36 + .67)) / 22
    # = (3.40 + 10.38) / 22 = .6264; the others likewise.
    expected = {
        "intervention": (".626", ".940", ".980", ".510"),
        "substitution": (".627", ".920", ".983", ".504"),
    }
    table = pd.read_csv(FILE, dtype={"table": str}).query("table in ('7', '10')")
    table["weight"] = table.graph.map({"bivariate": 2, "confounding": 3, "mediation": 3})
    table["sum"] = table.weight * table.accuracy
    sums = table.groupby(["way", "model", "names"])[["sum", "weight"]].sum()
    assert set(sums.weight) == {22} and len(sums) == 24
    for way, of_models in expected.items():
        for model, said in zip(MODELS, of_models, strict=True):
            for names in NAMES:
                row = sums.loc[way.replace("intervention", "plain"), model, names]
                value = score(model, names, way)
                assert value == pytest.approx(row["sum"] / 22)
                assert value == score(model, names, f"{way}_written")
            assert f"{score(model, 'random', way) + 1e-9:.3f}"[1:] == said


def test_the_page_has_the_weighted_accuracies():
    page = (REPOSITORY / "docs" / "background" / "reproduce-interventions.md").read_text(
        encoding="utf-8"
    )
    for model in MODELS:
        values = [score(model, n, w) for w in ("intervention", "substitution") for n in NAMES]
        written = " | ".join(f"{value + 1e-9:.3f}".removeprefix("0") for value in values)
        assert f"| {model} | {written} |" in page


def test_gpt_35_is_below_who_ignores_interventions(report):
    """15 of the 22 effects change nothing: .682, which the note says, and a run gets."""
    pairs = questions(TASKS["random"]).pairs
    assert f"{sum(not pair.effect.kappa for pair in pairs) / len(pairs):.3f}" == "0.682"
    assert "ignoring interventions scores .682" in published_interventions.MARK
    for way in ("intervention", "substitution"):
        assert score("GPT-3.5", "random", way) < 15 / 22 < score("GPT-4", "random", way)
    (ours,) = report.runs
    assert ours.scores[Asked(TASKS["random"], "intervention")].value == pytest.approx(15 / 22)


def test_retrieval_is_weighted_by_ordered_pairs_and_knowledge_as_it_is():
    """GPT-3.5: (2 * 1 + 6 * 1 + 6 * .99) / 14; LLaMA-2: (2 * .87 + 6 * .63 + 6 * .86) / 14."""
    assert score("GPT-3.5", "random", "retrieval") == pytest.approx(13.94 / 14)
    assert score("LLaMA-2", "random", "retrieval_written") == pytest.approx(10.68 / 14)
    known = {e.model: e for e in published([Asked(TASKS["tuebingen"], "knowledge")])}
    values = {model: next(iter(entry.scores.values())).value for model, entry in known.items()}
    assert values == {"GPT-3 (text-davinci-003)": 0.80, "GPT-3.5": 0.89, "GPT-4": 0.96}


def test_only_what_was_asked_has_published_numbers():
    assert published([Asked("epidemia_intervention_large_05", "intervention")]) == []
    assert published([Asked(TASKS["tuebingen"], "retrieval")]) == []
    (entry, *_) = published([Asked(TASKS["random"], "intervention")])
    rows = [cells for _, _, cells in published_interventions.cells(entry, "effect")]
    assert len(rows) == 8 and all([*cells] == ["random"] for cells in rows)
    (line,) = published_interventions.cells(entry, "interventions")
    assert line[2]["accuracy"].value == next(iter(entry.scores.values())).value


def test_every_printed_number_of_a_table_is_in_the_reports(report):
    """Those of tables 3, 7, 8 and 9, with their errors: of what a run was asked, all."""
    table = pd.read_csv(FILE, dtype={"table": str})
    shown = []
    for finding in interventions.findings(report.entries):
        for row in finding.rows:
            if row.entry.reference and finding.kind != "interventions":
                shown += [
                    (row.entry.model, cell.value, cell.error)
                    for name, cell in row.cells.items()
                    if hasattr(cell, "error") and cell.error == cell.error and " - " not in name
                ]
    asked = table[table.table.isin(["3", "7", "8", "9"])]
    numbers = zip(asked.model, asked.accuracy, asked.standard_error, strict=True)
    assert sorted(shown) == sorted(numbers) and len(shown) == 30 + 96 + 36 + 12


def test_the_bivariate_contrast_is_with_both_queries_as_printed_and_with_ab_alone(report):
    """The printed one is the mean of AB and BA: table 8 has the number of table 7, for do(B)."""
    (contrast,) = (f for f in interventions.findings(report.entries) if f.kind == "memorisation")
    abouts = {}
    for row in contrast.rows:
        abouts.setdefault(row.entry.reference, {}).setdefault(row.name)
    both, others = "bivariate, do(B), AB and BA", ["mediation, do(B), AC", "mediation, do(C), AC"]
    assert [*abouts[True]] == [both, *others]
    assert [*abouts[False]] == ["bivariate, do(B), AB", both, *others]
    table = pd.read_csv(FILE, dtype={"table": str})
    table = table.query("graph == 'bivariate' and intervened == 'B' and table in ('7', '8')")
    pairs = table.pivot(columns="table", index=["model", "names"], values="accuracy")
    assert len(pairs) == 12 and (pairs["7"] == pairs["8"]).all()
    assert "published numbers are for AB and BA" in contrast.note
    # Who ignores do(B) has BA right and AB wrong.
    ours = {row.name: row.cells for row in contrast.rows if not row.entry.reference}
    assert {c.value for c in ours["bivariate, do(B), AB"].values() if hasattr(c, "value")} == {0}
    assert ours[both]["random"].value == 0.5
    row = next(r for r in contrast.rows if r.entry.model == "GPT-4-turbo" and r.name == both)
    assert row.cells["tuebingen - anticommonsense"].value == pytest.approx(0.90 - 0.57)


def test_published_models_stand_beside_a_run_wherever_it_is_shown(runs, report):
    screen = " ".join(command("report", runs, "--published").split())
    assert re.search(r"GPT-3.5 published [0-9.]+", screen) and "scores .682" in screen
    assert "GPT-3.5" not in command("report", runs)
    full = " ".join(command("report", runs, "--published", "--effects", "--wide").split())
    assert "mixes those of its graph" in full and "GPT-4 (published) plain mediation, do(B)" in full
    rows = list(csv.DictReader(io.StringIO(output.as_csv(report))))
    where = ("effect", "mediation, do(B) / random", "GPT-4 (published)", "True")
    keys = ("kind", "name", "model", "reference")
    (row,) = (row for row in rows if tuple(row[key] for key in keys) == where)
    assert (row["value"], row["stderr"], row["metric"]) == ("0.82", "0.08", "accuracy")
    assert len(json.loads(output.as_json(report))["rows"]) == len(rows)
    latex = output.as_latex(output.sections(report, effects=True))
    assert r"LLaMA-2 (published) & plain & bivariate, do(A) & 0.500 $\pm$ 0.120" in latex
