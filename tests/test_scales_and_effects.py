"""What answers imply: other distances, lines, effects, who of the people is beaten, maps."""

import re

import numpy as np
import pytest
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import table

from lm_eval_epidemia.api import calibration_line, joint_error, load_truth, other_scales
from lm_eval_epidemia.benchmarks.observation.respondents import simulate_answers
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings import single_groups as people
from lm_eval_epidemia.findings.single_groups import countries_of, map_of
from lm_eval_epidemia.report.charts import DIVERGING, SHADES, shapes
from lm_eval_epidemia.report.figures import save
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.surveys.catalogue import all_tasks

BINARY = "epidemia_low_nsduh_marijuana_ever_by_age"
TASKS = [BINARY, "epidemia_low_gss_political_view_by_age", "epidemia_low_ipeds_sex_by_field"]
BELIEFS = {task: simulate_answers(load_truth(task), kind="noisy", noise=0.5) for task in TASKS}
MARIJUANA = "epidemia_high_nsduh_marijuana_ever_by_age_education"
HOME = "epidemia_high_scf_home_ownership_by_age_race"
OWNED = "epidemia_high_scf_home_ownership_by_age_education"
EDUCATION = "epidemia_low_acs_education_by_age"
TOBACCO = "epidemia_world_factbook_tobacco_by_country_sex"
EVIDENCE = REPOSITORY / "docs" / "evidence"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in ("truth", "mean", "uniform", "noisy,noise=0.5"):
        copied_run(tmp_path_factory, folder / kind, TASKS, model_args=f"kind={kind}")
    copied_run(tmp_path_factory, folder / "drawn", [f"{HOME}_sampled"], metadata={"n_samples": 10})
    return folder


@pytest.fixture(scope="module")
def noisy(runs):
    return read_results([runs / "noisy,noise=0.5"])


# Scales.


def rows_of(finding, results):
    """Return the row over all tasks, and those of tasks, of the only run."""
    made = find(finding)(results)
    rows = made.table[made.table["model"].isin(results.runs["model"])]
    assert not made.left_out and {*rows["group"]} == {"epidemia_low"}
    (over,) = rows[rows["task"].isna()].to_dict("records")
    return over, rows.dropna(subset="task").set_index("task")


def test_distances_are_what_python_says(noisy):
    """Kept to six digits."""
    over, rows = rows_of("distances", noisy)
    by_task = {task: other_scales(task, q) for task, q in BELIEFS.items()}
    for task, known in by_task.items():
        known.index = known.index.str.lower().str.replace("[ -]", "_", regex=True)
        for scale, *expected in known[["value", "error"]].itertuples():
            found = [*rows.loc[task, [scale, f"{scale}_error"]].astype(float)]
            assert found == pytest.approx(expected, abs=1e-5, nan_ok=True)
    for scale in ("total_variation", "jensen_shannon", "log_score", "rank_agreement"):
        error = joint_error([known.draws[scale] for known in by_task.values()])
        mean = np.mean([known.value[scale] for known in by_task.values()])
        assert (over[scale], over[f"{scale}_error"]) == pytest.approx((mean, error), abs=1e-5)
    assert over["wasserstein_1_tasks"] == 1 and over["tasks"] == 3


def test_lines_of_a_group_and_of_its_tasks(noisy):
    over, rows = rows_of("tilt", noisy)
    whole = calibration_line(BELIEFS)
    reach = 1.96 * whole.slope_error
    expected = whole.slope, whole.slope_error, whole.tilt, whole.slope - reach, whole.slope + reach
    names = ["slope", "slope_error", "tilt", "slope_low", "slope_high"]
    assert [over[name] for name in names] == pytest.approx([*expected], abs=1e-4)
    for task, q in BELIEFS.items():
        assert rows.slope[task] == pytest.approx(calibration_line({task: q}).slope, abs=1e-4)


def test_drawn_answers_are_left_out(runs):
    """They vary by chance: neither their distances nor what follows are compared."""
    for name in ("distances", "tilt"):
        both = find(name)(read_results([runs / "drawn", runs / "mean"]))
        assert {*both.table["group"]} == {"epidemia_low"}
        assert "drawn answers vary by chance and are left out" in both.left_out[-1]


def test_the_examples_of_the_page_are_their_own_arithmetic():
    """Two graphs that agree in all that is seen and not under do(), by enumeration; tutoring."""
    page = (EVIDENCE / "hierarchy.md").read_text()
    # P(z | x), which is P(x | z) too, and P(y | z). Fork: X <- Z -> Y; chain: X -> Z -> Y.
    linked, y_of = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.875, 0.125], [0.125, 0.875]])
    fork, chain = (np.einsum(of, linked, y_of) / 2 for of in ("zx,zy->xzy", "xz,zy->xzy"))
    assert fork == pytest.approx(chain)
    seen, joint = 2 * fork[:, :, 1].sum(axis=1), fork.sum(axis=2)
    # do(x): Z keeps its own mechanism, which hears of X in the chain only.
    under = {"fork": [y_of[:, 1].mean()] * 2, "chain": linked @ y_of[:, 1]}
    adjusted = fork[:, :, 1] / joint @ joint.sum(axis=0)
    assert adjusted == pytest.approx(under["fork"]) and seen == pytest.approx(under["chain"])
    for name, values in (("seen", seen), ("standardised", adjusted), *under.items()):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {name}")]
        assert re.findall(r"0\.\d+", row) == [f"{value:.2f}" for value in values], name
    # What is seen bounds do(X = 1): P(x, y) and 1 - P(x, not y).
    no, yes = fork[1].sum(axis=0)
    assert f"{yes:.2f} to {1 - no:.2f} for do(X = 1)" in page
    # 1,000 pupils: those who struggle, then others; how many of each, and what share passed.
    pupils = {"tutored": [(400, 0.55), (100, 0.9)], "not tutored": [(100, 0.4), (400, 0.8)]}
    for name, cells in pupils.items():
        together = sum(n * passed for n, passed in cells) / 500
        told = [f"{100 * passed:.0f} % of {n}" for n, passed in cells]
        assert f"\n| {name} | {' | '.join([*told, f'{100 * together:.0f} %'])} |\n" in page
        assert f"{100 * np.mean([passed for _, passed in cells]):.1f} %" in page
    assert f"anyway, {100 * 0.4 / 0.55:.0f} %" in page


# Americans who guessed six shares in 2000, and countries on a map.


def test_guesses_and_truths_are_those_of_the_sources():
    """The GSS as its codebook's counts give it (SOURCE.json); Census 2000, GCT-P6, and the NJPS."""
    guesses = people.guesses()
    assert [*guesses] == ["white", "black", "jewish", "hispanic", "asian", "american_indian"]
    means = [round(np.average(guess, weights=n), 2) for guess, n in guesses.values()]
    assert means == [58.92, 31.48, 17.88, 24.68, 17.77, 14.21]
    assert [n.sum() for _, n in guesses.values()] == [1318, 1310, 1197, 1277, 1256, 1248]
    truths = [store.load_truth(f"epidemia_people_census2000_{name}").p[0, 0] for name in guesses]
    assert truths == pytest.approx([0.751, 0.123, 0.018, 0.125, 0.036, 0.009], abs=1e-12)


def test_who_is_beaten_by_hand(monkeypatch):
    """Of ten people six are further off than 4, one as far: 6 + .5; the nearer figure counts."""
    guess, number = np.array([0.0, 10.0, 14.0, 22.0, 50.0]), np.array([1.0, 2.0, 1.0, 1.0, 5.0])
    monkeypatch.setattr(people, "guesses", lambda: {"asian": (guess, number)})
    # From the truth, 10: 10, 0, 4, 12 and 40 off; the answer 14 is 4 off.
    assert people.count_beaten("asian", 10.0, 14.0) == pytest.approx(100 * (1 + 1 + 5 + 0.5) / 10)
    assert people.measure_error("white", 75.1, [75.1, 69.1, 72.0, 60.0]) == pytest.approx(
        [0, 0, 2.9, 9.1]
    )


def test_models_stand_beside_the_average_american(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, ["epidemia_people"], model_args="kind=truth")
    rows = table("people", tmp_path)
    truth, americans = rows[rows.question.isna()].itertuples()
    assert truth.beaten == pytest.approx(100, abs=1) and truth.off < 0.01
    # Log-odds of 14 to 59 on those of .9 to 75 per cent: people guess towards one half.
    told = americans.model, round(americans.slope, 2)
    assert told == ("the average American of 2000 (baseline)", 0.38)


def test_every_country_is_on_the_map_but_singapore():
    """A city state has no shape at 1:110 million. Rings go clockwise, as the projection needs."""
    drawn = {one["id"]: one["geometry"]["coordinates"] for one in shapes()}
    truths = [store.load_truth(name) for name in store.list_available() if all_tasks()[name].given]
    of_countries = [found for truth in truths if (found := countries_of(truth))]
    assert len(of_countries) == 15
    for condition, codes in of_countries:
        assert condition == 0 and len(codes) == 125
        assert [one for one, code in codes.items() if code not in drawn] == ["Singapore"]
    for outer in (polygon[0] for polygons in drawn.values() for polygon in polygons):
        x, y = np.array(outer).T
        assert (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() < 0 and outer[0] == outer[-1]


def test_an_error_on_the_map_is_the_answer_less_the_truth(tmp_path_factory, tmp_path):
    """With two conditions countries are averaged over the people of both sexes."""
    copied_run(tmp_path_factory, tmp_path, [TOBACCO], model_args="kind=noisy,noise=0.3")
    results, truth = read_results([tmp_path]), store.load_truth(TOBACCO)
    rows = map_of(results, TOBACCO).table.set_index("country")
    true, told = rows[rows.kind == "survey"], rows[rows.kind != "survey"]
    here = [i for i, given in enumerate(truth.given) if given[0] == "Kenya"]
    assert len(here) == 2 and len(told) == len(true) == 113
    mean = np.average(truth.p[here, 0], weights=truth.weights[here])
    assert true.value["Kenya"] == pytest.approx(mean)
    assert told.error.to_numpy() == pytest.approx((told.value - true.value).to_numpy())
    text = save("map", lambda: results, tmp_path / "map.svg", TOBACCO).read_text()
    assert "Answer minus truth" in text and all(one in text for one in (*SHADES, *DIVERGING[1:-1]))
    assert text.index(">truth<") < text.index("knows the truth with noise")
    with pytest.raises(EpidemiaError, match="has no country as a condition"):
        map_of(results, "epidemia_low_nsduh_heroin_ever_by_age")
