"""What models know apart from P(Y), from runs of lm-eval, and by a route of its own."""

import json

import numpy as np
import pytest
from recorded_runs import copied_run

from lm_eval_epidemia.api import load_truth
from lm_eval_epidemia.api import score as scored
from lm_eval_epidemia.benchmarks.observation.recalibrated import marginal, recalibrate
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.scales import recalibrated
from lm_eval_epidemia.results.read import read_results

TASKS = ["epidemia_low_nsduh_marijuana_ever_by_age", "epidemia_low_gss_political_view_by_age"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in ("truth", "mean", "uniform", "noisy,noise=0.5"):
        copied_run(tmp_path_factory, folder / kind, TASKS, model_args=f"kind={kind}")
    return folder


def known(folder):
    found = recalibrated(read_results([folder]))
    assert found.left_out == []
    (one,) = found.table.itertuples()
    return one


def test_respondents_whose_knowledge_is_known(runs):
    truth, mean, uniform = (known(runs / kind) for kind in ("truth", "mean", "uniform"))
    assert truth.recalibrated == truth.score == 100 and truth.tasks == 2
    assert truth.gain == pytest.approx(100 - truth.averages)
    assert truth.gain_error > 0 and truth.l1_conditional == pytest.approx(0, abs=1e-5)
    for one in (mean, uniform):
        assert one.recalibrated == pytest.approx(one.averages, abs=1e-3)
        assert one.gain == pytest.approx(0, abs=1e-3)
        assert one.gain_error == pytest.approx(0, abs=1e-3)
        assert one.l1_conditional == pytest.approx(mean.l1, abs=1e-5)
    assert mean.l1_marginal == pytest.approx(0, abs=1e-5)
    assert uniform.l1_marginal > 0.05 and uniform.score < 1


def test_a_noisy_respondent_by_another_route(runs):
    """Its answers, raked by hand and scored by `api.score`."""
    one, values, alone = known(runs / "noisy,noise=0.5"), [], []
    for name in TASKS:
        truth = store.load(name)
        q = np.zeros_like(truth.p)
        (path,) = (runs / "noisy,noise=0.5").rglob(f"samples_{name}_*.jsonl")
        for sample in map(json.loads, path.read_text().splitlines()):
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
    assert one.recalibrated == pytest.approx(np.mean(values), abs=1e-3)
    assert one.averages == pytest.approx(np.mean(alone), abs=1e-6)
    assert one.gain == pytest.approx(np.mean(values) - np.mean(alone), abs=1e-3)
