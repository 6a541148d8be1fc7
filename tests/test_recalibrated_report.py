"""What models know apart from P(Y), from runs of lm-eval, and by a route of its own."""

import json
import shutil

import numpy as np
import pytest
from conftest import recorded
from recorded_runs import copied_run
from test_huggingface import samples_in
from typer.testing import CliRunner

from lm_eval_epidemia.api import load_truth
from lm_eval_epidemia.api import score as scored
from lm_eval_epidemia.benchmarks.observation.recalibrated import marginal, recalibrate
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings import recalibrated as report
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.results.results import read_results

TASKS = ["epidemia_low_nsduh_marijuana_ever_by_age", "epidemia_low_gss_political_view_by_age"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in ("truth", "mean", "uniform", "noisy,noise=0.5"):
        copied_run(tmp_path_factory, folder / kind, TASKS, model_args=f"kind={kind}")
    return folder


def known(*folders):
    found, notes = report.read(make_report(read_results(list(folders))))
    assert notes == []
    (one,) = found
    return one


def test_respondents_whose_knowledge_is_known(runs):
    truth, mean, uniform = (known(runs / kind) for kind in ("truth", "mean", "uniform"))
    assert truth.recalibrated.value == truth.score.value == 100
    assert truth.gain.value == pytest.approx(100 - truth.alone.value)
    assert truth.gain.error > 0
    for one in (mean, uniform):
        assert one.recalibrated.value == pytest.approx(one.alone.value, abs=1e-6)
        assert one.gain.value == pytest.approx(0, abs=1e-6)
        assert one.gain.error == pytest.approx(0, abs=1e-6)
        assert one.conditional == pytest.approx(mean.total, abs=1e-6)
    assert mean.marginal == pytest.approx(0, abs=1e-6)
    assert uniform.marginal > 0.05
    assert uniform.score.value < 1 and uniform.tasks == 2


def test_a_noisy_respondent_by_another_route(runs):
    """Its answers, raked by hand and scored by `api.score`."""
    one, values, alone = known(runs / "noisy,noise=0.5"), [], []
    for name in TASKS:
        truth = store.load(name)
        q = np.zeros_like(truth.p)
        for sample in samples_in(runs / "noisy,noise=0.5", name):
            p = np.exp([float(response[0]) for response in sample["filtered_resps"]])
            order = sample["doc"]["order"]
            q[sample["doc"]["cell"], order] += p / p.sum()
        q /= q.sum(axis=1, keepdims=True)
        true = marginal(truth.weights, truth.p)
        table = truth.weights[:, None] * q
        for _ in range(500):
            table = table * (true / table.sum(axis=0))
            table = table * (truth.weights / table.sum(axis=1))[:, None]
        raked = table / truth.weights[:, None]
        assert np.abs(raked - recalibrate(truth.weights, q, true)).max() < 1e-6
        labels = load_truth(name)
        values.append(scored(labels, raked).score)
        alone.append(scored(labels, np.tile(true, (len(raked), 1))).score)
    assert one.recalibrated.value == pytest.approx(np.mean(values), abs=1e-3)
    assert one.alone.value == pytest.approx(np.mean(alone), abs=1e-6)
    assert one.gain.value == pytest.approx(np.mean(values) - np.mean(alone), abs=1e-3)


def test_the_table_and_the_rows(runs):
    command = ["report", str(runs / "truth"), "--recalibrated"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    assert "Who answers what, apart from how common answers are" in said.output
    rows = json.loads(CliRunner().invoke(app, [*command, "--format", "json"]).stdout)["rows"]
    found = {row["metric"]: row for row in rows if row["kind"] == "recalibrated"}
    assert found["recalibrated"]["value"] == 100 and found["recalibrated"]["tasks"] == 2
    assert found["l1 conditional"]["value"] == pytest.approx(0, abs=1e-6)


def test_without_samples_it_says_what_is_needed(runs, tmp_path):
    shutil.copytree(runs / "truth", tmp_path, dirs_exist_ok=True)
    for file in tmp_path.rglob("samples_*"):
        file.unlink()
    with pytest.raises(EpidemiaError, match="run lm_eval with --log_samples"):
        report.read(make_report(read_results([tmp_path])))


def test_drawn_answers_are_left_out(runs, tmp_path):
    recorded(tmp_path, [f"{TASKS[0]}_sampled"], metadata={"n_samples": 10})
    found, notes = report.read(make_report(read_results([tmp_path, runs / "truth"])))
    assert [one.group for one in found] == ["epidemia_low"]
    assert any("drawn answers vary by chance" in note for note in notes), notes
