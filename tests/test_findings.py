"""What holds for every finding, as scikit-learn's `check_estimator` has it for estimators."""

import json
import math
import re
from io import StringIO

import pandas as pd
import pytest
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import COCAINE, run_as, table, write
from rich.cells import cell_len

from lm_eval_epidemia.ask.prompts import WORDINGS
from lm_eval_epidemia.benchmarks import find_tasks, list_groups, list_leaves
from lm_eval_epidemia.benchmarks.observation import places
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.findings import FINDINGS, find
from lm_eval_epidemia.findings.compare import CONFIDENCE, FEWEST
from lm_eval_epidemia.findings.finding import Finding
from lm_eval_epidemia.findings.interventions import FOUND
from lm_eval_epidemia.findings.leaderboard import CLOSED_WAYS
from lm_eval_epidemia.report.render import FORMULA, WIDTH, render

DOCS = REPOSITORY / "docs" / "results"

#: Runs of respondents whose answers are known, by folder: tasks, and how they are asked.
RECORDED = {
    "letters": (["epidemia_low_nsduh", "epidemia_high_nsduh", "epidemia_people"], {}),
    "likelihood": ([f"{task}_likelihood" for task, _ in find_tasks("epidemia_low_nsduh")], {}),
    "bare": (["epidemia_low_nsduh"], {"metadata": {"wording": "bare"}}),
    "world": (["epidemia_world", "epidemia_years_gsstrend", "epidemia_years_undated"], {}),
    "closed": ([f"epidemia_high_nsduh_cocaine_ever_by_age_sex_{way}" for way in CLOSED_WAYS], {}),
    "graphs": (["epidemia_intervention_large", "epidemia_intervention_retrieval"], {}),
}


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """Every benchmark, by models and by respondents, in several ways and wordings."""
    folder = tmp_path_factory.mktemp("runs")
    for name, (tasks, how) in RECORDED.items():
        copied_run(tmp_path_factory, folder / name, tasks, model_args="kind=noisy,noise=0.5", **how)
    kept = ("interventions", "priors", "quick", "one-question")
    return read_runs([folder, *(DOCS / name for name in kept)])


def check_finding(name, results):
    """Check that a finding can be printed, read back and understood; return it."""
    make = find(name)
    first = (make.__doc__ or "").splitlines()[0]
    assert first.endswith(".") and first[0].isupper() and len(first) < 100
    finding, again = make(results), make(results)
    assert isinstance(finding, Finding) and finding.name == name and finding.title
    for form in ("csv", "json"):
        assert render(finding, form) == render(again, form)
    check_columns(finding)
    for text in finding.left_out:
        assert len(text) > 20 and "\n" not in text and "nan" not in text.split(), text
    assert len(finding.table) or finding.left_out or name == "notes"
    check_forms(finding)
    if FINDINGS[name]["made_by"].startswith("leaderboard:"):
        check_values(finding.table)
    return finding


def check_columns(finding):
    """Every declared column is there, also in an empty table, and none holds what is no value."""
    table, columns = finding.table, finding.columns
    assert columns and table.columns.is_unique
    for column, of in columns.items():
        beside = filter(None, (column, of.error, *of.interval, of.count))
        assert {*beside} <= {*table}, column
        if of.error:
            assert not (table[of.error] < 0).any()
    assert {*filter(None, (finding.across, finding.details))} <= {*table}
    if {"model", "kind"} <= {*table}:
        assert [*table][:3] == ["model", "settings", "kind"]
        # A row of a survey alone is nobody's.
        assert {*table["kind"]} <= {"run", "respondent", "published", "survey", "truth", ""}
        assert ((table["model"] != "") | (table["kind"] == "")).all()
    for column in table:
        kinds = {type(cell) for cell in table[column] if not isinstance(cell, (str, float))}
        assert not kinds & {dict, list, tuple, set}, column


def check_forms(finding):
    """Every form renders; csv is the table, and no formula; text fits a screen."""
    table, text = finding.table, render(finding, "text")
    for shown in (text, render(finding, "text", whole=True)):
        assert max(map(cell_len, shown.splitlines())) <= WIDTH, shown
    assert text.startswith(finding.title.split()[0]) and "nan" not in text.split()
    html, latex = (render(finding, form) for form in ("html", "latex"))
    assert html.startswith("<table") and r"\end{table}" in latex
    assert len(json.loads(render(finding, "json"))) == len(table)
    back = pd.read_csv(StringIO(render(finding, "csv")), keep_default_na=False, dtype=str)
    assert [*back] == [str(name) for name in table] and len(back) == len(table)
    for column in table.select_dtypes("number"):
        numbers = pd.to_numeric(back[column]).to_numpy(float)
        assert numbers == pytest.approx(table[column].to_numpy(float), rel=1e-12, nan_ok=True)
    for column in table.select_dtypes(exclude=["number", "bool"]):
        cells = [cell for cell in back[column] if cell.startswith(FORMULA)]
        assert not [cell for cell in cells if math.isnan(pd.to_numeric(cell, "coerce"))], column


def check_values(table):
    """Means, and their intervals, are within the scale of their benchmark."""
    if not {"group", "value", "error", "low", "high"} <= {*table} or "scale" in table:
        return
    for group, value, low, high in table[["group", "value", "low", "high"]].itertuples(index=False):
        least, most = list_groups()[group].lead.low - 1e-9, list_groups()[group].lead.high + 1e-9
        assert all(math.isnan(x) or least <= x <= most for x in (value, low, high)), group
        assert not (low > value + 1e-9 or high < value - 1e-9), group


@pytest.mark.parametrize("name", FINDINGS)
def test_finding(name, results):
    check_finding(name, results)


@pytest.mark.parametrize("name", FINDINGS)
def test_where_nothing_was_asked_a_finding_is_empty_and_says_what_to_run(name):
    """Of surveys alone or of another benchmark alone: there is always one of which it is empty."""
    found = [check_finding(name, read_runs([DOCS / asked])) for asked in ("quick", "priors/grid")]
    empty = [finding for finding in found if not len(finding.table) and name != "notes"]
    for finding in empty:
        assert any(re.search(r"\brun\b|--|\bgive", text.lower()) for text in finding.left_out)
    # Of every run there are a leaderboard, its tasks and notes.
    assert empty or name in ("leaderboard", "tasks", "notes", "population", "scale")


def test_runs_that_differ_in_what_both_ways_heed_are_not_paired(tmp_path):
    """In wording or dtype; `tries` are for what is written. Two runs of letters each have rows."""
    stated, likely = ({f"{COCAINE}_{way}": (50.0, 3.0)} for way in ("stated", "likelihood"))
    write(tmp_path / "letters", {COCAINE: (40.0, 3.0)}, "m", metadata={"orderings": "balanced"})
    write(tmp_path / "bare", stated, "m", metadata={"wording": "bare"})
    write(tmp_path / "other", stated, "other")
    write(tmp_path / "loaded", likely, config=run_as(pretrained="m", dtype="bfloat16"))
    assert table("ways", tmp_path).empty
    write(tmp_path / "tries", stated, "m", metadata={"tries": 3})
    (row,) = table("ways", tmp_path).to_dict("records")
    assert (row["asked"], row["other"], row["difference"]) == ("stated", "letters", 10.0)
    assert row["settings"] == "balanced orderings, auto, up to 3 tries"
    write(tmp_path / "usual", {COCAINE: (45.0, 3.0)}, "m")
    write(tmp_path / "likely", likely, "m")
    rows = table("ways", tmp_path)
    usual = ~rows["settings"].str.contains("balanced")
    assert [*rows["difference"][usual]] == [5.0, 5.0]
    assert sorted(rows["difference"][~usual]) == [0.0, 10.0, 10.0]
    # The likelihoods stand beside the letters of two runs.
    beside = table("side-by-side", tmp_path)
    assert sorted(beside["value"][beside["way"] == "likelihood"]) == [50.0, 50.0]


def test_numbers_in_notes_are_those_of_the_code():
    """What people read is written out in findings.yaml; what is computed is not."""
    told = {name: f"{of.get('note', '')} {of.get('empty', '')}" for name, of in FINDINGS.items()}
    for name, says in {
        "leaderboard": f"paired comparisons at {CONFIDENCE:.0%}",
        "pairs": f"with fewer than {FEWEST} outcomes it decides",
        "wins": f"fewer than {SIZES[0]}, {SIZES[-1] + 1}: more than {SIZES[-1]}",
        "priors": f"of {SIZES[0]} answers",
        "shortcut": f"at least {FOUND:.2f} of the relations",
        "places": f"at least {places.FEWEST} countries",
        "wordings": f"({', '.join(filter(None, WORDINGS))})",
    }.items():
        assert says in told[name], name
    asked = {*re.findall(r"\bepidemia_\w+", str(told))} - {"epidemia_fresh", "epidemia_finetune"}
    assert asked <= {*list_groups(), *list_leaves()}
