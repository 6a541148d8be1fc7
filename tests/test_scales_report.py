"""Other distances, calibration lines and recalibrated answers, from runs of lm-eval."""

import numpy as np
import pytest
from conftest import recorded
from recorded_runs import copied_run

from lm_eval_epidemia.api import calibration_line, joint_error, load_truth, other_scales
from lm_eval_epidemia.api import score as scored
from lm_eval_epidemia.benchmarks.observation.recalibrated import marginal, recalibrate
from lm_eval_epidemia.benchmarks.observation.respondents import answers
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.calibration import calibration, order_bias
from lm_eval_epidemia.report.charts import prepared
from lm_eval_epidemia.report.figures import CHARTS, save
from lm_eval_epidemia.results.read import read_results

BINARY, ORDERED, EXACT = TASKS = [
    "epidemia_low_nsduh_marijuana_ever_by_age",
    "epidemia_low_gss_political_view_by_age",
    "epidemia_low_ipeds_sex_by_field",
]
BELIEFS = {task: answers(load_truth(task), kind="noisy", noise=0.5) for task in TASKS}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in ("truth", "mean", "uniform", "noisy,noise=0.5"):
        copied_run(tmp_path_factory, folder / kind, TASKS, model_args=f"kind={kind}")
    return folder


@pytest.fixture(scope="module")
def noisy(runs):
    return read_results([runs / "noisy,noise=0.5"])


def rows_of(finding, results):
    """Return the row over all tasks, and those of tasks, of the only run."""
    made = find(finding)(results)
    table = made.table[made.table["model"].isin(results.runs["model"])]
    assert not made.left_out and {*table["group"]} == {"epidemia_low"}
    (over,) = table[table["task"].isna()].to_dict("records")
    return over, table.dropna(subset="task").set_index("task")


def test_distances_are_what_python_says(noisy, runs):
    """And the mean over cells is that over the task."""
    over, rows = rows_of("distances", noisy)
    by_task = {task: other_scales(task, q) for task, q in BELIEFS.items()}
    columns = {
        scale: scale.lower().replace(" ", "_").replace("-", "_") for scale in by_task[BINARY].index
    }
    for task, known in by_task.items():
        # Kept to six digits.
        for scale, column in columns.items():
            found = rows.loc[task, [column, f"{column}_error"]].astype(float)
            expected = known.loc[scale, ["value", "error"]].astype(float)
            np.testing.assert_allclose(found, expected, atol=1e-5)
        by_chance = known.by_chance["rank agreement"]
        assert rows.p_by_chance[task] == pytest.approx(by_chance, abs=1e-9)
    assert [*rows.wasserstein_1.dropna().index] == [ORDERED]
    for scale in ("total variation", "Jensen-Shannon", "log score", "rank agreement"):
        error = joint_error([known.draws[scale] for known in by_task.values()])
        mean = np.mean([known.value[scale] for known in by_task.values()])
        assert over[columns[scale]] == pytest.approx(mean, abs=1e-5)
        assert over[f"{columns[scale]}_error"] == pytest.approx(error, abs=1e-5)
    assert over["wasserstein_1_tasks"] == 1 and over["tasks"] == 3
    cells = other_scales(ORDERED, BELIEFS[ORDERED], cells=True)
    for scale in by_task[ORDERED].index.drop("rank agreement"):
        assert cells[scale] @ cells.weight == pytest.approx(by_task[ORDERED].value[scale])
    over, rows = rows_of("distances", read_results([runs / "truth"]))
    assert over["total_variation"] == pytest.approx(0, abs=1e-6)
    assert rows.p_by_chance[BINARY] == pytest.approx(0.001)


def test_lines_of_a_group_and_of_its_tasks(noisy, runs):
    over, rows = rows_of("tilt", noisy)
    whole = calibration_line(BELIEFS)
    reach = 1.96 * whole.slope_error
    expected = {"slope": whole.slope, "slope_error": whole.slope_error, "tilt": whole.tilt}
    expected |= {"slope_low": whole.slope - reach, "slope_high": whole.slope + reach}
    assert {name: over[name] for name in expected} == pytest.approx(expected, abs=1e-4)
    for task, q in BELIEFS.items():
        assert rows.slope[task] == pytest.approx(calibration_line({task: q}).slope, abs=1e-4)
    # Knows averages only: of a single task with two answers, no difference at all.
    mean = rows_of("tilt", read_results([runs / "mean"]))[1]
    assert mean.slope[BINARY] == pytest.approx(0, abs=1e-4)
    with pytest.raises(EpidemiaError, match="beliefs by task"):
        calibration_line([])


def test_the_figure_has_models_and_known_respondents(noisy, tmp_path):
    points = prepared(CHARTS["tilt"], find("tilt")(noisy).table).set_index("who")
    known = {"guesses uniformly", "knows averages only", "knows the population"}
    assert {*points.index} == known | {*noisy.runs["name"]}
    assert points.slope["guesses uniformly"] == pytest.approx(0, abs=0.02)
    assert points.slope["knows the population"] == 1
    with pytest.raises(EpidemiaError, match="tilt does not show one task"):
        save("tilt", lambda: noisy, tmp_path / "x.svg", BINARY)
    # Others are of one task, too.
    assert {*order_bias(noisy, BINARY).table["answers"]} == {2}
    assert 0 < len(calibration(noisy, BINARY).table) < len(calibration(noisy).table)


def test_drawn_answers_are_left_out(runs, tmp_path):
    """They vary by chance: neither their distances nor what follows are compared."""
    recorded(tmp_path, [f"{BINARY}_sampled"], metadata={"n_samples": 10})
    for name in ("distances", "tilt", "recalibrated"):
        alone = find(name)(read_results([tmp_path]))
        assert alone.table.empty and "run lm_eval on" in alone.left_out[0]
        both = find(name)(read_results([tmp_path, runs / "mean"]))
        assert {*both.table["group"]} == {"epidemia_low"}
        for made in (alone, both):
            assert "drawn answers vary by chance and are left out" in made.left_out[-1]


def test_recalibrated_respondents_whose_knowledge_is_known(runs):
    truth, mean, uniform = (
        next(find("recalibrated")(read_results([runs / kind])).table.itertuples())
        for kind in ("truth", "mean", "uniform")
    )
    assert (truth.recalibrated, truth.score) == pytest.approx((100, 100)) and truth.tasks == 3
    assert truth.gain == pytest.approx(100 - truth.averages) and truth.gain_error > 0
    assert (truth.l1_conditional, mean.l1_marginal) == pytest.approx((0, 0), abs=1e-5)
    for one in (mean, uniform):
        gain = one.recalibrated - one.averages, one.gain, one.gain_error
        assert gain == pytest.approx((0, 0, 0), abs=1e-3)
        assert one.l1_conditional == pytest.approx(mean.l1, abs=1e-5)
    assert uniform.l1_marginal > 0.05 and uniform.score < 1


def test_recalibrated_answers_by_another_route(noisy):
    """Raked by hand and scored by `api.score`."""
    (one,), values, alone = find("recalibrated")(noisy).table.itertuples(), [], []
    for name, q in BELIEFS.items():
        truth = store.load(name)
        true = marginal(truth.weights, truth.p)
        table = truth.weights[:, None] * q
        for _ in range(500):
            table = table * (true / table.sum(axis=0))
            table = table * (truth.weights / table.sum(axis=1))[:, None]
        raked = table / truth.weights[:, None]
        assert np.abs(raked - recalibrate(truth.weights, q, true)).max() < 1e-6
        values.append(scored(load_truth(name), raked).score)
        alone.append(scored(load_truth(name), np.tile(true, (len(raked), 1))).score)
    assert one.recalibrated == pytest.approx(np.mean(values), abs=1e-3)
    assert one.averages == pytest.approx(np.mean(alone), abs=1e-6)
    assert one.gain == pytest.approx(np.mean(values) - np.mean(alone), abs=1e-3)
