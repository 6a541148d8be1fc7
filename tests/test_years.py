"""Over the years: slopes of answers on the truth, and the year a model lives in; shipped truths."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY, raw_file, recorded

from lm_eval_epidemia.benchmarks import find_tasks, in_way
from lm_eval_epidemia.benchmarks.observation import measured, undated, years
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import prepare, store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.surveys import microdata, tables
from lm_eval_epidemia.surveys.catalogue import find_record

GSS, BRFSS = "epidemia_years_gsstrend_", "epidemia_years_brfsstrend_"
BLS = "epidemia_years_blstrend_sex_by_year_occupation"
GROUP = "epidemia_years_undated"


def part(name):
    return measured.part_of(store.load_truth(name))


# Slopes.


def test_series_today_s_answer_averages_and_changes():
    """Of men and women each their own."""
    of = part(GSS + "women_at_home_by_year_sex")
    known, today, average = years.years_of(of), years.answer_latest(of), years.average_years(of)
    assert (known.of.min(), known.of.max(), len({*known.series})) == (1977, 2024, 2)
    assert years.years_of(part("epidemia_low_nsduh_heroin_ever_by_age")) is None
    frame = pd.DataFrame(of.truth.given, columns=["year", "sex"])
    frame = frame.assign(p=of.p[:, 0], today=today[:, 0], average=average[:, 0])
    for _, own in frame.groupby("sex"):
        assert own.today.to_numpy() == pytest.approx(own.p[own.year == "2024"].item())
        assert own.average.to_numpy() == pytest.approx(own.p.mean())
    off = (frame.p - frame.average).abs().groupby(frame.year.astype(int)).mean()
    assert years.off_by_year(of, known, average) == pytest.approx(off.to_dict())
    sums = years.change(of, known, 0.5 + 0.3 * (of.p - 0.5))
    squares = ((frame.p - frame.average) ** 2).sum() * 2 / of.p.size
    assert (sums.truth, sums.together) == pytest.approx((squares, 0.3 * squares))
    # The error: how slopes worked out at each replicate, which has the noise twice, spread.
    at = sums.at[:, 0] / (sums.at[:, 1] - 2 * sums.noise)
    value, error = years.slope([sums])
    assert value == pytest.approx(at.mean(), rel=0.05)
    assert error == pytest.approx(at.std(ddof=1), rel=0.15)


def test_a_slope_by_hand():
    """Truth .1 .2 .3; answers that move half as far, not at all, and the other way."""

    def changed(told):
        (dp, dq) = (np.array([[1], [-1]]) * (x - np.mean(x)) for x in ([0.1, 0.2, 0.3], told))
        return years.Change((dq * dp).mean(), (dp**2).mean(), 0.0, np.empty((0, 2)), "s")

    for told, expected in (([0.4, 0.45, 0.5], 0.5), ([0.4] * 3, 0.0), ([0.3, 0.2, 0.1], -1.0)):
        assert years.slope([changed(told)]) == (pytest.approx(expected), 0.0)
    # Half of the squared change is noise: what follows the population is flattened by half.
    half = changed([0.4, 0.45, 0.5])
    assert years.slope([half._replace(noise=half.truth * 0.4)])[0] == pytest.approx(0.5 / 0.6)
    # No change that stands out from noise: nothing is said.
    assert np.isnan(years.slope([half._replace(noise=half.truth * 0.6)])).all()


def test_the_table_has_slopes_and_every_year(tmp_path):
    recorded(tmp_path, [GSS + "women_at_home_by_year"], model_args="kind=mean")
    results = read_results([tmp_path])
    table = find("years")(results).table
    whole = table[table.year.isna()].set_index("model")
    average = whole.score["knows the average over the years (baseline)"]
    # Who was run knows averages only: the respondent that knows these is as far off.
    assert whole.iloc[0].score == pytest.approx(average, abs=1e-3)
    by_year = table[table.model == "knows today's (baseline)"].set_index("year").off
    assert by_year["2024"] == 0 and by_year["1988"] > 5
    truth = find("course")(results).table.query("kind == 'survey'")
    # Of two answers both change as much: the first.
    assert truth.value.tolist() == pytest.approx(part(GSS + "women_at_home_by_year").p[:, 0])
    assert (truth.low < truth.value).all() and (truth.value < truth.high).all()


# The year a model lives in.


def test_no_question_names_a_year():
    """The questions of epidemia_years without "in 1985", of men and women, in every ordering."""
    assert [name for name, _ in find_tasks(GROUP)] == [f"{GROUP}_gsstrend_{o}" for o in RECODED]
    for name, way in find_tasks(GROUP):
        dated = split(undated.list_declared()[name].name, "letters")
        asked = zip(dated["prompt"], dated["given"], strict=True)
        in_1985 = {text.replace(" in 1985", "") for text, given in asked if "year: 1985" in given}
        rows = split(name, way)["prompt"]
        assert {*rows} == in_1985 and len(rows) == len(in_1985)


def test_log_ratios_are_orthonormal_and_smoothing_keeps_a_straight_line():
    """Distances are those of the centred log-probabilities; the mean of two cells is of both."""
    cells = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    p, q = (undated.log_ratios(cells[[cell]]) for cell in (0, 1))
    apart = np.log(cells[0] / cells[1])
    assert ((p - q) ** 2).sum() == pytest.approx(((apart - apart.mean()) ** 2).sum())
    assert undated.log_ratios(cells) == pytest.approx((p + q) / 2)
    assert np.isfinite(undated.log_ratios(np.array([[1.0, 0.0]]))).all()
    known, at = np.array([1977, 1985, 1986, 1990, 2000]), np.arange(1977, 2001)
    weights = undated.smoother(known, at)
    assert weights.sum(axis=1) == pytest.approx(np.ones(24))
    assert weights @ known == pytest.approx(at)


def course(count=11):
    """Three log-ratios that all move by .1 a year, with the same independent errors of .01."""
    at = 0.1 * np.arange(count)[:, None] * np.ones(3)
    errors = np.tile(1e-4 * np.eye(3), (count, 1, 1))
    return undated.Course(2000 + np.arange(count), at, errors, moved=3)


def test_a_set_by_hand():
    """Residuals (d, -d, 0) from 2004, whose truth is .4: Q(t) = (2 d^2 + 3 (.1 (t - 4))^2) / v.

    The misfit makes Q(4) = N - 1 = 2: v = d^2. The bound is that of F(1, 2), 18.51.
    """
    d, steps = 0.08, np.arange(11) - 4
    result = undated.find_years_lived(course(), np.array([0.4 + d, 0.4 - d, 0.4]))
    assert result.best == 2004 and result.misfit**2 == pytest.approx(d**2 - 0.01**2)
    assert result.distances == pytest.approx((2 * d**2 + 3 * (0.1 * steps) ** 2) / d**2)
    # .03 s^2 / .0064 <= 18.51 where |s| <= 1.99.
    assert result.stretches == "2003-2005" and result.untold == ""
    # An answer without misfit has none; and what cannot be told.
    result = undated.find_years_lived(course(), np.full(3, 0.4))
    assert result.misfit == 0 and result.stretches == "2004"
    result = undated.Lived(course(5), np.zeros(5), np.array([1, 0, 1, 1, 0], bool), 0.1)
    assert (result.stretches, result.untold) == ("2000, 2002-2003", "3 of 5 fit")


def test_who_moved():
    """An outcome that stays where it is but for sampling error has not moved."""
    rng = np.random.default_rng(3)

    def series(p, sample="s"):
        p = np.stack([p, 1 - p], axis=-1)[:, None, :]
        noise = 0.01 * rng.standard_normal((101, 20, 1, 1)) * [1, -1]
        return undated.Series(np.arange(1990, 2010), p + noise[100], p + noise[:100], sample)

    still, moving = series(np.full(20, 0.4)), series(np.linspace(0.3, 0.5, 20))
    assert undated.course_of([still]).moved == 0 and undated.course_of([moving]).moved == 1
    joint = undated.course_of([still, moving, series(np.full(20, 0.4), "t")])
    assert joint.moved == 1 and joint.seen.shape == (20, 3)
    # Outcomes of other surveys err by themselves.
    assert (joint.covariance[:, 2, :2] == 0).all() and (joint.covariance[:, 0, 1] != 0).any()
    late = still._replace(years=still.years + 15)
    assert undated.course_of([moving, late]).years.tolist() == [*range(2005, 2010)]


def test_the_shipped_truths_moved():
    tasks = [undated.load_undated(f"{GROUP}_gsstrend_{o}") for o in RECODED]
    known = undated.course_of([task.series for task in tasks])
    assert (known.years[0], known.years[-1], known.moved) == (1977, 2024, 4)
    truth, series = store.load_truth(GSS + "women_at_home_by_year_sex"), tasks[3].series
    place, latest = series.years.tolist().index(1985), undated.simulate_undated(tasks[3], "truth")
    for cell, (sex,) in enumerate(tasks[3].given):
        then, now = (truth.given.index((year, sex)) for year in ("1985", "2024"))
        assert [*series.p[place, cell], *latest[cell]] == [*truth.p[then], *truth.p[now]]
        assert (series.replicates[:, place, cell] == truth.replicates[:, then]).all()
    one = replace(truth, given=[cell for cell in truth.given if cell[0] == "1985"])
    with pytest.raises(EpidemiaError, match=r"by_year_sex has only 1985: rebuild it with"):
        undated.series_of(one, tasks[3].given)


@pytest.mark.parametrize("times", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_sets_of_redrawn_surveys_cover(times, monkeypatch):
    """Who knows the population of a year: the set has it in 90 of 100; who knows nothing has none.

    Of 300 sets, 255 allow for four standard errors below .9 + .02; of 40, fewer than 32 has p <
    1e-4 at .95.
    """
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    import year_lived as simulation

    of = simulation.populations()
    for each in product(simulation.YEARS, simulation.NOISES):
        told = simulation.line(simulation.simulated(of, *each, times), each[0])
        assert told.covers >= (0.8 if times < 300 else 0.88), (each, told)
        assert told.given >= (0.7 if each[1] > 0.2 else 0.99), (each, told)
    assert all(result.untold for result in simulation.simulated(of, None, 0.0, times // 3))


def test_a_run_has_answers_and_a_year_but_no_score_and_no_rank(tmp_path):
    for kind in ("truth", "uniform"):
        recorded(tmp_path / kind, [GROUP], model_args=f"kind={kind}")
    (path,) = (tmp_path / "truth").rglob("results_*.json")
    whole = json.loads(path.read_text())
    row = whole["groups"][GROUP]
    assert not any("score" in key or "l1" in key for key in row) and row["seen,none"] == 1
    # Result files keep the answers.
    for samples in tmp_path.rglob("samples_*"):
        samples.unlink()
    results = read_results([tmp_path])
    assert find("leaderboard")(results).table.empty and find("pairs")(results).table.empty
    table = find("year-lived")(results).table
    lives = table[table.year.isna()].set_index("model").lives_in
    assert len(lives) == 4 and "knows the average over the years (baseline)" in lives
    assert lives["knows the truth (kind=truth)"] == "2024"
    assert lives["guesses uniformly (kind=uniform)"].startswith("cannot be told")
    whole["epidemia"]["said"][f"{GROUP}_gsstrend_degree"] = "2 -1 0 0 1 0 0 0"
    path.write_text(json.dumps(whole))
    note = find("year-lived")(read_results([tmp_path])).left_out[0]
    assert f"{GROUP}_gsstrend_degree: the recorded answers are not as a run keeps them" in note
    # Of part of the prompts; of two orderings of men and two of women all are asked.
    recorded(
        tmp_path / "part", [GROUP], samples={in_way(*m): [*range(4)] for m in find_tasks(GROUP)}
    )
    found = find("year-lived")(read_results([tmp_path / "part"]))
    assert all(x in found.left_out[0] for x in ("not to every prompt", "no answers in 3 tasks"))
    assert found.table.iloc[0].lives_in == "cannot be told: 1 of 3 outcomes moved"


# The shipped truths by a route of their own.

RECODED = {
    "religion": ("relig", {1: 0, 11: 0, 2: 1, 4: 2} | dict.fromkeys((3, *range(5, 11), 12, 13), 3)),
    "political_view": ("polviews", {1: 0, 2: 0, 3: 0, 4: 1, 5: 2, 6: 2, 7: 2}),
    "degree": ("degree", {0: 0, 1: 1, 2: 2, 3: 3, 4: 3}),
    "women_at_home": ("fefam", {1: 0, 2: 0, 3: 1, 4: 1}),
}


@pytest.mark.parametrize("by", [["year"], ["year", "sex"]])
@pytest.mark.parametrize("outcome", RECODED)
def test_shares_of_the_gss_by_pandas(outcome, by):
    """Weighted shares; every year weighs the same, men and women in it as they are."""
    column, codes = RECODED[outcome]
    frame = pd.read_parquet(raw_file("gss", "GSS_cumulative_sub.parquet")).query("year >= 1975")
    sex, level = frame.sex.map({1: "Male", 2: "Female"}), frame[column].map(codes)
    frame = frame.assign(year=frame.year.astype(str), sex=sex, level=level).dropna(subset=["level"])
    totals = frame.pivot_table(index=by, columns="level", values="wtssps", aggfunc="sum").fillna(0)
    known = store.load_truth(GSS + f"{outcome}_by_{'_'.join(by)}")
    assert len(known.given) == len(totals)
    totals = totals.loc[[cell[0] if len(by) == 1 else cell for cell in known.given]]
    people = totals.sum(axis=1)
    assert known.p == pytest.approx(totals.div(people, axis=0).to_numpy(), abs=1e-12)
    share = people / people.groupby(level=0).transform("sum") / frame.year.nunique()
    assert known.weights == pytest.approx(share.to_numpy(), abs=1e-12)


def test_shares_of_the_brfss_are_cdc_s():
    file = "brfss_prevalence_diabetes_obesity_state_age_2011_2023.parquet"
    frame = pd.read_parquet(raw_file("brfss", file))
    frame = frame[(frame.Break_Out == "Overall") & frame.Data_value.notna()]
    frame = frame[~frame.LocationID.isin(["59", "98", "99"])].astype({"Year": str})
    for outcome, topic in (("diabetes", "Diabetes"), ("obese", "BMI Categories")):
        rows = frame[frame.Topic == topic].sort_values(["Year", "LocationID"])
        known = store.load_truth(BRFSS + f"{outcome}_by_year_state")
        assert [cell[0] for cell in known.given] == [*rows.Year]
        assert known.p[:, 0] == pytest.approx(rows.Data_value.to_numpy() / 100, abs=1e-12)


OF_YEARS = {year: f"other_years/cpsaat11_{year}.xlsx" for year in (2019, 2021, 2022)}
OF_YEARS |= {2023: "cpsaat11_2023.xlsx"}
#: Of 2019, as they are called since.
RENAMED = {"motion picture": "film", "fire fighting": "firefighting", "gaming": "gambling"}
RENAMED |= {"parking lot attendants": "parking attendants"}


def test_shares_of_women_are_those_of_the_bls():
    """A year's people weigh as they are employed, years alike; 220 occupations have every year."""
    sheets, columns = {}, ["occupation", "employed", "women"]
    for year, name in OF_YEARS.items():
        sheet = pd.read_excel(raw_file("bls", name), header=None, usecols=range(3), names=columns)
        sheet["women"] = pd.to_numeric(sheet.women, errors="coerce")
        sheets[str(year)] = sheet.dropna()
    frame = pd.concat(sheets).droplevel(1)
    words = frame.pop("occupation").str.split().str.join(" ").str.lower()
    frame = frame.astype(float).set_index(words.replace(RENAMED, regex=True), append=True)
    known = store.load_truth(BLS)
    given = pd.DataFrame(known.given)
    keys = [*zip(given[0], given[1].str.lower().replace(RENAMED, regex=True), strict=True)]
    frame = frame.loc[keys]
    assert len(keys) == len(frame) == 4 * 220
    women = known.p[:, known.levels.index("Female")]
    assert women == pytest.approx(frame.women.to_numpy() / 100, abs=1e-12)
    share = frame.employed / frame.employed.groupby(level=0).transform("sum") / 4
    assert known.weights == pytest.approx(share.to_numpy(), abs=1e-12)


def test_a_file_of_each_year_is_needed_under_its_name(tmp_path):
    files = {year: tmp_path / f"cpsaat11_{year}.xlsx" for year in OF_YEARS}
    for year, file in files.items():
        # Its name is one thing, what it says another.
        file.symlink_to(raw_file("bls", OF_YEARS[2021 if year == 2022 else year]))
    with pytest.raises(EpidemiaError, match=r"cpsaat11_2022\.xlsx is a table of 2021, not 2022"):
        tables.load_tables(find_record("blstrend"), [tmp_path], "2019-2023")
    with pytest.raises(EpidemiaError, match=r"expected .*cpsaat11_2023\.xlsx: one file"):
        tables.load_tables(find_record("blstrend"), [*files.values()][:3], "2019-2023")
    trend = find_record("gsstrend")
    data = microdata.load_microdata(trend, raw_file("gss", "GSS2022.parquet"))
    of = next(task for task in trend.declared if task.equal)
    with pytest.raises(EpidemiaError, match="compares every year, but the file has only one"):
        prepare.prepare(data, of)
