"""Other distances and calibration lines from runs of lm-eval: tables and the figure."""

import numpy as np
import pytest
from conftest import recorded
from recorded_runs import copied_run

from lm_eval_epidemia.api import calibration_line, joint_error, load_truth, other_scales
from lm_eval_epidemia.benchmarks.observation.respondents import answers
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.calibration import calibration, order_bias
from lm_eval_epidemia.report import figures
from lm_eval_epidemia.report.charts import prepared
from lm_eval_epidemia.report.figures import CHARTS
from lm_eval_epidemia.results.read import read_results

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


def rows_of(finding, folder):
    """Return the row over all tasks, and those of tasks, of the only run."""
    results = read_results([folder])
    made = find(finding)(results)
    table = made.table[made.table["model"].isin(results.runs["model"])]
    assert not made.left_out and {*table["group"]} == {"epidemia_low"}
    (over,) = table[table["task"].isna()].to_dict("records")
    return over, table.dropna(subset="task").set_index("task")


def beliefs():
    return {task: answers(load_truth(task), **NOISY) for task in TASKS}


def column(scale):
    return scale.lower().replace(" ", "_").replace("-", "_")


def test_distances_are_what_python_says(runs):
    over, rows = rows_of("distances", runs / "noisy,noise=0.5")
    by_task = {task: other_scales(task, q) for task, q in beliefs().items()}
    for task, known in by_task.items():
        for scale in known.index:
            found = rows.loc[task, [column(scale), f"{column(scale)}_error"]].astype(float)
            # Kept to six digits.
            expected = known.loc[scale, ["value", "error"]].astype(float)
            np.testing.assert_allclose(found, expected, atol=1e-5)
        by_chance = known.by_chance["rank agreement"]
        assert rows.p_by_chance[task] == pytest.approx(by_chance, abs=1e-9)
    assert [*rows.wasserstein_1.dropna().index] == [ORDERED]
    for scale in ("total variation", "Jensen-Shannon", "log score", "rank agreement"):
        values = [known.value[scale] for known in by_task.values()]
        error = joint_error([known.draws[scale] for known in by_task.values()])
        assert over[column(scale)] == pytest.approx(np.mean(values), abs=1e-5)
        assert over[f"{column(scale)}_error"] == pytest.approx(error, abs=1e-5)
    assert over["wasserstein_1_tasks"] == 1 and over["tasks"] == 3
    over, rows = rows_of("distances", runs / "truth")
    assert over["total_variation"] == pytest.approx(0, abs=1e-6)
    assert rows.p_by_chance[BINARY] == pytest.approx(0.001)


def test_cells_make_up_their_mean():
    truth, q = load_truth(ORDERED), beliefs()[ORDERED]
    cells, known = other_scales(ORDERED, q, cells=True), other_scales(truth, q)
    assert list(cells.columns[:2]) == ["age", "weight"] and len(cells) == len(truth.given)
    for scale in known.index.drop("rank agreement"):
        assert cells[scale] @ cells.weight == pytest.approx(known.value[scale])
    with pytest.raises(EpidemiaError, match="beliefs by task"):
        calibration_line([])


def test_lines_of_a_group_and_of_its_tasks(runs):
    over, rows = rows_of("tilt", runs / "noisy,noise=0.5")
    whole = calibration_line(beliefs())
    assert over["slope"] == pytest.approx(whole.slope, abs=1e-4)
    assert over["slope_error"] == pytest.approx(whole.slope_error, abs=1e-4)
    assert over["tilt"] == pytest.approx(whole.tilt, abs=1e-4)
    low, high = over["slope_low"], over["slope_high"]
    assert (low + high) / 2 == pytest.approx(whole.slope, abs=1e-4)
    assert high - low == pytest.approx(2 * 1.96 * whole.slope_error, abs=1e-4)
    for task, q in beliefs().items():
        assert rows.slope[task] == pytest.approx(calibration_line({task: q}).slope, abs=1e-4)
    # Knows averages only: of a single task with two answers, no difference at all.
    assert rows_of("tilt", runs / "mean")[1].slope[BINARY] == pytest.approx(0, abs=1e-4)


def test_the_figure_has_models_and_known_respondents(runs, tmp_path):
    results = read_results([runs / "truth", runs / "noisy,noise=0.5"])
    points = prepared(CHARTS["tilt"], find("tilt")(results).table).set_index("who")
    known = {"guesses uniformly", "knows averages only", "knows the population"}
    assert {*points.index} - {*results.runs["name"]} == known and len(points) == 5
    assert points.slope["guesses uniformly"] == pytest.approx(0, abs=0.02)
    assert points.slope["knows the population"] == 1
    assert (points.slope_low <= points.slope).all() and (points.slope <= points.slope_high).all()
    text = figures.save("tilt", lambda: results, tmp_path / "tilt.svg").read_text()
    assert "Tilt, in log-odds" in text and "knows the population" in text
    with pytest.raises(EpidemiaError, match="tilt does not show one task"):
        figures.save("tilt", lambda: results, tmp_path / "x.svg", BINARY)


def test_findings_of_one_task(runs):
    results = read_results([runs / "noisy,noise=0.5"])
    assert {*order_bias(results, BINARY).table["answers"]} == {2}
    assert order_bias(results).table["answers"].nunique() > 1
    assert 0 < len(calibration(results, BINARY).table) < len(calibration(results).table)
    with pytest.raises(EpidemiaError, match="no task 'epidemia_low_x'"):
        calibration(results, "epidemia_low_x")


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
