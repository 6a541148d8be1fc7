"""The year a model lives in: what is asked, which years fit and how often, the report."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import REPOSITORY, recorded
from scipy import stats

from lm_eval_epidemia.benchmarks import UNDATED, in_way, members
from lm_eval_epidemia.benchmarks.observation import lived, undated
from lm_eval_epidemia.benchmarks.observation.lived import Course, Lived, Series, smoother
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.results.read import read_results

GROUP = "epidemia_years_undated"
OUTCOMES = ("religion", "political_view", "degree", "women_at_home")


def test_no_question_names_a_year():
    """The questions of epidemia_years without "in 1985", of men and women, in every ordering."""
    assert [name for name, _ in members(GROUP)] == [f"{GROUP}_gsstrend_{o}" for o in OUTCOMES]
    for (name, way), orders in zip(members(GROUP), (24, 6, 24, 2), strict=True):
        rows, dated = split(name, way), split(undated.declared()[name].name, "letters")
        assert len(rows) == 2 * orders
        assert not any(re.search(r"(19|20)\d\d", prompt) for prompt in rows["prompt"])
        in_1985 = {
            prompt.replace(" in 1985", "")
            for prompt, given in zip(dated["prompt"], dated["given"], strict=True)
            if "year: 1985" in given
        }
        assert {*rows["prompt"]} == in_1985


def test_log_ratios_are_orthonormal():
    """Distances are those of the centred log-probabilities; the mean of two cells is of both."""
    p, q = np.array([[0.5, 0.3, 0.2]]), np.array([[0.2, 0.2, 0.6]])
    centred = [np.log(x[0]) - np.log(x[0]).mean() for x in (p, q)]
    apart = lived.log_ratios(p) - lived.log_ratios(q)
    assert (apart**2).sum() == pytest.approx(((centred[0] - centred[1]) ** 2).sum())
    assert lived.log_ratios(p[:, :2]) == pytest.approx([np.log(0.5 / 0.3) / 2**0.5])
    both = lived.log_ratios(np.concatenate([p, q]))
    assert both == pytest.approx((lived.log_ratios(p) + lived.log_ratios(q)) / 2)
    assert np.isfinite(lived.log_ratios(np.array([[1.0, 0.0]]))).all()


def test_smoothing_keeps_a_straight_line():
    years, at = np.array([1977, 1985, 1986, 1990, 2000]), np.arange(1977, 2001)
    weights = smoother(years, at)
    assert weights.sum(axis=1) == pytest.approx(np.ones(24))
    assert weights @ years == pytest.approx(at)


def test_a_truth_of_one_year_has_no_course():
    truth = store.load("epidemia_years_gsstrend_religion_by_year_sex")
    there = [n for n, cell in enumerate(truth.given) if cell[0] == "1990"]
    one = SimpleNamespace(
        task=truth.task,
        survey=truth.survey,
        sample=truth.sample,
        given=[truth.given[n] for n in there],
        p=truth.p[there],
        replicates=truth.replicates[:, there],
    )
    with pytest.raises(EpidemiaError, match=r"by_year_sex has only 1990, but.*rebuild it with"):
        lived.series_of(one, [cell[1:] for cell in one.given])


def course(years=11, numbers=3, error=0.01, moved=3):
    """Log-ratios that all move by .1 a year, with the same independent errors."""
    at = 0.1 * np.arange(years)[:, None] * np.ones(numbers)
    return Course(
        2000 + np.arange(years), at, np.tile(error**2 * np.eye(numbers), (years, 1, 1)), moved
    )


def test_a_set_by_hand():
    """Residuals (d, -d, 0) from 2004, whose truth is .4: Q(t) = (2 d^2 + 3 (.1 (t - 4))^2) / v.

    The misfit makes Q(4) = N - 1 = 2: v = d^2. The bound is that of F(1, 2), 18.51.
    """
    d = 0.08
    result = lived.lived(course(), np.array([0.4 + d, 0.4 - d, 0.4]))
    assert result.best == 2004 and result.misfit**2 == pytest.approx(d**2 - 0.01**2)
    steps = np.arange(11) - 4
    assert result.distances == pytest.approx((2 * d**2 + 3 * (0.1 * steps) ** 2) / d**2)
    bound = stats.f.ppf(0.95, 1, 2)
    assert bound == pytest.approx(18.51, abs=0.01)
    assert result.fits.tolist() == (3 * (0.1 * steps) ** 2 / d**2 <= bound).tolist()
    # .03 s^2 / .0064 <= 18.51 where |s| <= 1.99.
    assert result.stretches == "2003-2005" and result.untold == ""


def test_an_answer_without_misfit_has_none():
    result = lived.lived(course(), np.full(3, 0.4))
    assert result.misfit == 0 and result.stretches == "2004"


def test_what_cannot_be_told():
    fits = np.array([True, False, True, True, False])
    of = course(5)
    result = Lived(of, np.zeros(5), fits, 0.1)
    assert result.stretches == "2000, 2002-2003" and result.untold == "3 of 5 fit"
    few = Lived(of._replace(moved=2), np.zeros(5), fits & False, 0.1)
    assert few.untold == "2 of 3 outcomes moved"


def test_who_moved():
    """An outcome that stays where it is but for sampling error has not moved."""
    rng = np.random.default_rng(3)
    years = np.arange(1990, 2010)

    def series(p, sample="s"):
        p = np.stack([p, 1 - p], axis=-1)[:, None, :]
        drawn = p + 0.01 * rng.standard_normal((100, 20, 1, 1)) * [1, -1]
        seen = p + 0.01 * rng.standard_normal((20, 1, 1)) * [1, -1]
        return Series(years, seen, drawn, sample)

    still, moving = series(np.full(20, 0.4)), series(np.linspace(0.3, 0.5, 20))
    assert lived.course_of([still]).moved == 0 and lived.course_of([moving]).moved == 1
    joint = lived.course_of([still, moving, series(np.full(20, 0.4), "t")])
    assert joint.moved == 1 and joint.seen.shape == (20, 3)
    # Outcomes of other surveys err by themselves.
    assert (joint.covariance[:, 2, :2] == 0).all() and (joint.covariance[:, 0, 1] != 0).any()
    late = still._replace(years=years + 15)
    assert lived.course_of([moving, late]).years.tolist() == [*range(2005, 2010)]


def test_the_shipped_truths_moved():
    tasks = [undated.load(f"{GROUP}_gsstrend_{o}") for o in OUTCOMES]
    known = lived.course_of([task.series for task in tasks])
    assert (known.years[0], known.years[-1], known.moved) == (1977, 2024, 4)
    truth = store.load("epidemia_years_gsstrend_women_at_home_by_year_sex")
    at = {cell: number for number, cell in enumerate(truth.given)}
    series, cells = tasks[3].series, tasks[3].given
    assert cells == [("Male",), ("Female",)] or cells == [("Female",), ("Male",)]
    place = series.years.tolist().index(1985)
    assert series.p[place, 1] == pytest.approx(truth.p[at["1985", cells[1][0]]])
    drawn = truth.replicates[7, at["1985", cells[0][0]]]
    assert series.replicates[7, place, 0] == pytest.approx(drawn)
    latest = undated.answers(tasks[3], "truth")
    assert latest[0] == pytest.approx(truth.p[at["2024", cells[0][0]]])


@pytest.fixture
def simulation(monkeypatch):
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    import year_lived

    return year_lived


def test_redrawn_surveys_have_the_year(simulation):
    """Some of what the slow test below has: of 40 sets, fewer than 32 has p < 1e-4 at .95."""
    told = simulation.line(simulation.simulated(simulation.populations(), 2005, 0.1, 40), 2005)
    assert told.given == 1 and told.covers >= 0.8 and told.width <= 12


@pytest.mark.slow
def test_sets_cover(simulation):
    """Who knows the population of a year: the set has it in 90 of 100; who knows nothing has none.

    Of 300 sets, 255 allow for four standard errors below .9 + .02.
    """
    of = simulation.populations()
    for year in simulation.YEARS:
        for noise in simulation.NOISES:
            told = simulation.line(simulation.simulated(of, year, noise, 300), year)
            assert told.covers >= 0.88, (year, noise, told)
            assert told.given >= (0.7 if noise > 0.2 else 0.99), (year, noise, told)
    uniform = simulation.simulated(of, None, 0.0, 100)
    assert all(result.untold for result in uniform)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undated")
    for kind in ("truth", "uniform"):
        recorded(folder / kind, [GROUP], model_args=f"kind={kind}")
    return folder


def test_a_run_has_answers_and_no_score(runs):
    (path,) = (runs / "truth").rglob("results_*.json")
    results = json.loads(path.read_text())
    row = results["groups"][GROUP]
    assert not any("score" in key or "l1" in key for key in row)
    assert row["choice_mass,none"] == pytest.approx(1) and row["seen,none"] == 1
    assert not UNDATED.scored and UNDATED.metrics(undated.WAY).keys() == {
        "choice_mass",
        "order_bias",
        "seen",
    }


def test_the_finding_tells_the_year_and_nothing_is_ranked(runs):
    results = read_results([runs])
    table = find("year-lived")(results).table
    whole = table[table.year.isna()].set_index("model")
    assert whole.loc["knows the truth (kind=truth)", "lives_in"] == "2024"
    told = {name: of.told for name, of in whole.iterrows()}
    assert told["guesses uniformly (kind=uniform)"] is False and len(told) == 4
    assert "knows the average over the years (baseline)" in told
    assert whole.lives_in["guesses uniformly (kind=uniform)"].startswith("cannot be told")
    assert (table.year == "2018").sum() == 4
    assert find("leaderboard")(results).table.empty and find("pairs")(results).table.empty


def test_of_part_of_the_prompts_nothing_is_told(tmp_path):
    recorded(tmp_path, [GROUP], samples={in_way(*m): [*range(4)] for m in members(GROUP)})
    found = find("year-lived")(read_results([tmp_path]))
    # Of two orderings of men and two of women all are asked.
    assert "not to every prompt" in found.left_out[0]
    assert "no answers in 3 tasks" in found.left_out[0]
    assert found.table.iloc[0].lives_in == "cannot be told: 1 of 3 outcomes moved"


def test_without_samples_it_is_said_what_to_run(tmp_path):
    recorded(tmp_path, ["epidemia_years_gsstrend_women_at_home_by_year"])
    found = find("year-lived")(read_results([tmp_path]))
    assert found.table.empty and f"run lm_eval on {GROUP}" in found.left_out[0]
