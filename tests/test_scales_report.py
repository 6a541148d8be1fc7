"""Other scales and calibration lines from runs of lm-eval: tables, tidy rows, the figure."""

import json
import math
import os

import numpy as np
import pytest
from conftest import recorded
from recorded_runs import copied_run
from typer.testing import CliRunner

from lm_eval_epidemia.api import calibration_line, joint_error, load_truth, other_scales
from lm_eval_epidemia.benchmarks.observation.respondents import answers
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.old.findings import scales, tilt
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.old.report import figures
from lm_eval_epidemia.old.report.sections import printed
from lm_eval_epidemia.results.results import read_results

BINARY, ORDERED, EXACT = TASKS = [
    "epidemia_low_nsduh_marijuana_ever_by_age",
    "epidemia_low_gss_political_view_by_age",
    "epidemia_low_ipeds_sex_by_field",
]
NOISY = {"kind": "noisy", "noise": 0.5}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in ("truth", "mean", "noisy,noise=0.5"):
        copied_run(tmp_path_factory, folder / kind, TASKS, model_args=f"kind={kind}")
    return folder


def report_of(*folders):
    return make_report(read_results(list(folders)))


def beliefs():
    return {task: answers(load_truth(task), **NOISY) for task in TASKS}


def test_the_table_has_what_python_says(runs):
    groups, notes = scales.read(report_of(runs / "noisy,noise=0.5"))
    over, *rows = scales.finding(groups).rows
    assert notes == [] and [row.group for row in (over, *rows)] == ["epidemia_low"] * 4
    by_task = {task: other_scales(task, q) for task, q in beliefs().items()}
    for row in rows:
        known = by_task[row.name]
        assert {*known.index} <= row.cells.keys()
        for scale in known.index:
            cell = row.cells[scale]
            expected = known.loc[scale, ["value", "error"]].astype(float)
            # lm-eval writes log-probabilities, whose exponentials sum to 1 but for rounding.
            np.testing.assert_allclose([cell.value, cell.error], expected, atol=1e-5)
        chance = known.by_chance["rank agreement"]
        assert row.cells["by chance"] == pytest.approx(chance, abs=1e-9)
    assert [row.name for row in rows if "Wasserstein-1" in row.cells] == [ORDERED]
    for scale in ("total variation", "Jensen-Shannon", "log score", "rank agreement"):
        values = [known.value[scale] for known in by_task.values()]
        error = joint_error([known.draws[scale] for known in by_task.values()])
        assert over.cells[scale].value == pytest.approx(np.mean(values), abs=1e-5)
        assert over.cells[scale].error == pytest.approx(error, abs=1e-5)
    assert over.cells["Wasserstein-1"].tasks == 1 and over.cells["tasks"] == 3


def test_cells_make_up_their_mean():
    truth, q = load_truth(ORDERED), beliefs()[ORDERED]
    cells, known = other_scales(ORDERED, q, cells=True), other_scales(truth, q)
    assert list(cells.columns[:2]) == ["age", "weight"] and len(cells) == len(truth.given)
    for scale in known.index.drop("rank agreement"):
        assert cells[scale] @ cells.weight == pytest.approx(known.value[scale])
    with pytest.raises(EpidemiaError, match="beliefs by task"):
        calibration_line([])


def test_lines_of_a_group_and_of_its_tasks(runs):
    groups, _ = scales.read(report_of(runs / "noisy,noise=0.5", runs / "mean"))
    noisy, mean = (list(tilt.finding([group]).rows) for group in groups)
    if "noisy" not in noisy[0].entry.name:
        noisy, mean = mean, noisy
    whole = calibration_line(beliefs())
    assert noisy[0].cells["slope"].value == pytest.approx(whole.slope, abs=1e-4)
    assert noisy[0].cells["slope"].error == pytest.approx(whole.slope_error, abs=1e-4)
    assert noisy[0].cells["tilt"].value == pytest.approx(whole.tilt, abs=1e-4)
    low, high = noisy[0].cells["slope"].interval
    assert (low + high) / 2 == pytest.approx(whole.slope, abs=1e-4)
    assert high - low == pytest.approx(2 * 1.96 * whole.slope_error, abs=1e-4)
    alone = {row.name: row.cells for row in noisy[1:]}
    for task, q in beliefs().items():
        line = calibration_line({task: q})
        assert alone[task]["slope"].value == pytest.approx(line.slope, abs=1e-4)
    # Knows averages only: of a single task with two answers, no difference at all.
    of_one = {row.name: row.cells for row in mean[1:]}
    assert of_one[BINARY]["slope"].value == pytest.approx(0, abs=1e-4)


def test_commands_print_and_write_it(runs):
    command = ["report", str(runs / "truth"), "--scales"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    assert "Other scales, from the same samples" in said.output
    assert "Tilt and slope of the answers" in said.output and BINARY not in said.output
    rows = json.loads(CliRunner().invoke(app, [*command, "--format", "json"]).stdout)["rows"]
    of = {(r["kind"], r["name"], r["metric"]): r for r in rows}
    assert of["other scales", "epidemia_low", "total variation"]["value"] == pytest.approx(0)
    assert of["other scales", BINARY, "p by chance"]["value"] == pytest.approx(0.001)
    slope = of["calibration line", "epidemia_low", "slope"]
    assert slope["low"] < slope["value"] < slope["high"] and slope["tasks"] == 3
    assert of["calibration line", ORDERED, "slope"]["tasks"] == 1
    without = json.loads(CliRunner().invoke(app, [*command[:2], "--format", "json"]).stdout)["rows"]
    assert not {"other scales", "calibration line"} & {row["kind"] for row in without}


def test_the_same_bytes_on_one_processor(runs, monkeypatch):
    report = report_of(*(runs / kind for kind in ("truth", "mean", "noisy,noise=0.5")))
    many = [finding(scales.read(report)[0]).rows for finding in (scales.finding, tilt.finding)]
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    one = [finding(scales.read(report)[0]).rows for finding in (scales.finding, tilt.finding)]
    assert repr(one) == repr(many)


def test_the_figure_has_models_and_known_respondents(runs, tmp_path):
    report = report_of(runs / "truth", runs / "noisy,noise=0.5")
    points = {row["model"]: row for row in figures.FIGURES["tilt"].rows(report, None)}
    kinds = {name: row["kind"] for name, row in points.items()}
    assert list(kinds.values()).count("run") == 2
    known = {name for name, kind in kinds.items() if kind == "respondent"}
    assert known == {"guesses uniformly", "knows averages only", "knows the population"}
    assert points["guesses uniformly"]["slope"] == pytest.approx(0, abs=0.02)
    assert points["knows the population"]["slope"] == 1
    for row in points.values():
        assert row["slope_low"] <= row["slope"] <= row["slope_high"]
    path = figures.save("tilt", lambda: report, tmp_path / "tilt.svg")
    text = path.read_text()
    assert "Tilt, in log-odds" in text and "knows the population" in text


def test_figures_of_one_task(runs, tmp_path):
    report = report_of(runs / "truth", runs / "noisy,noise=0.5")
    points = figures.FIGURES["tilt"].rows(report, ORDERED)
    assert {row["group"] for row in points} == {ORDERED}
    lines = tilt.finding(scales.read(report)[0]).rows
    expected = {r.entry.name: r.cells["slope"].value for r in lines if r.name == ORDERED}
    assert expected == {r["model"]: r["slope"] for r in points if r["kind"] == "run"}
    # One task of two answers: its only number of positions.
    bias = figures.FIGURES["order_bias"].rows
    assert {row["answers"] for row in bias(report, BINARY)} == {" 2 answers"}
    assert len({row["answers"] for row in bias(report, None)}) > 1
    of_one = figures.FIGURES["calibration"].rows(report, BINARY)
    assert 0 < len(of_one) < len(figures.FIGURES["calibration"].rows(report, None))
    with pytest.raises(EpidemiaError, match="leaderboard does not show one task; these can:"):
        figures.save("leaderboard", lambda: report, tmp_path / "x.svg", BINARY)
    with pytest.raises(EpidemiaError, match="no task 'epidemia_low_x'"):
        figures.save("tilt", lambda: report, tmp_path / "x.svg", "epidemia_low_x")


def test_drawn_answers_are_left_out_and_samples_are_needed(runs, tmp_path):
    recorded(tmp_path, [f"{BINARY}_sampled"], metadata={"n_samples": 10})
    with pytest.raises(EpidemiaError, match="run lm_eval with --log_samples"):
        scales.read(report_of(tmp_path))
    groups, notes = scales.read(report_of(tmp_path, runs / "mean"))
    (note,) = notes
    assert "drawn answers vary by chance, so they are not compared" in note
    assert [group.group for group in groups] == ["epidemia_low"]
    shown = printed(scales.finding(groups))
    assert all(math.isfinite(float(row[3].split()[0])) for row in shown.rows)
