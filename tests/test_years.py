"""Over the years: years of cells, today's answer, the slope of answers on the truth, its error."""

import numpy as np
import pandas as pd
import pytest
from conftest import raw_file, recorded

from lm_eval_epidemia.benchmarks.observation import years
from lm_eval_epidemia.benchmarks.observation.measured import part_of
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.surveys.catalogue import record
from lm_eval_epidemia.surveys.record import Task
from lm_eval_epidemia.surveys.tables import PublishedTable, load_tables

GSS, BRFSS = "epidemia_years_gsstrend_", "epidemia_years_brfsstrend_"
BLS = "epidemia_years_blstrend_sex_by_year_occupation"


def part(name):
    return part_of(store.load(name))


def test_years_and_series_are_those_of_the_cells():
    of = part(GSS + "religion_by_year_sex")
    known = years.years_of(of)
    assert (known.of.min(), known.of.max()) == (1975, 2024)
    men = [cell[1] == "Male" for cell in of.truth.given]
    assert len(set(known.series[men])) == 1 and len(set(known.series)) == 2
    assert years.years_of(part("epidemia_low_nsduh_heroin_ever_by_age")) is None


def test_today_s_answer_is_that_of_the_latest_year():
    of = part(GSS + "women_at_home_by_year_sex")
    answers = years.todays(of)
    given = list(of.truth.given)
    latest = of.p[given.index(("2024", "Female"))]
    assert answers[given.index(("1985", "Female"))] == pytest.approx(latest)
    assert answers[given.index(("1985", "Male"))] != pytest.approx(latest)


def test_the_average_over_the_years_is_that_of_each_series():
    """Of nurses and carpenters each their own: who knows these knows all but change."""
    of = part(BLS)
    known = years.years_of(of)
    answers = pd.DataFrame({"q": years.averages(of)[:, 1], "p": of.p[:, 1]})
    answers["occupation"] = [occupation for _, occupation in of.truth.given]
    means = answers.groupby("occupation").p.mean()
    assert answers.q.to_numpy() == pytest.approx(means.loc[answers.occupation].to_numpy())
    assert answers.groupby("occupation").q.nunique().max() == 1
    assert means["Registered nurses"] - means["Carpenters"] > 0.8
    sums = years.change(of, known, years.averages(of))
    assert years.slope([sums]) == (0.0, 0.0)


def changed(truth, told, noise=0.0, at=None, sample="s"):
    """A task of one series: sums of changes by hand."""
    p, q = (np.stack([x, 1 - np.asarray(x)], axis=1) for x in (truth, told))
    dp, dq = p - p.mean(axis=0), q - q.mean(axis=0)
    empty = np.empty((0, 2))
    return years.Change(
        float((dq * dp).sum()) / q.size,
        float((dp**2).sum()) / q.size,
        noise,
        empty if at is None else at,
        sample,
    )


def test_a_slope_by_hand():
    """Truth .1 .2 .3; answers that move half as far, not at all, and the other way."""
    truth = [0.1, 0.2, 0.3]
    for told, expected in (([0.4, 0.45, 0.5], 0.5), ([0.4] * 3, 0.0), ([0.3, 0.2, 0.1], -1.0)):
        value, error = years.slope([changed(truth, told)])
        assert (value, error) == (pytest.approx(expected), 0.0)
    # Half of the squared change is noise: what follows the population is flattened by half.
    half = changed(truth, [0.4, 0.45, 0.5])
    assert years.slope([half._replace(noise=half.truth * 0.4)])[0] == pytest.approx(0.5 / 0.6)
    # No change that stands out from noise: nothing is said.
    assert np.isnan(years.slope([half._replace(noise=half.truth * 0.6)])).all()


def test_sums_are_of_series_and_answers():
    """Of men and women each from their own mean, by the means of cells and answers."""
    of = part(GSS + "women_at_home_by_year_sex")
    known = years.years_of(of)
    q = np.full_like(of.p, 0.5) + 0.3 * (of.p - 0.5)
    sums = years.change(of, known, q)
    frame = pd.DataFrame({"p": of.p[:, 0], "sex": [sex for _, sex in of.truth.given]})
    squares = ((frame.p - frame.groupby("sex").p.transform("mean")) ** 2).sum() * 2 / of.p.size
    assert sums.truth == pytest.approx(squares)
    assert sums.together == pytest.approx(0.3 * squares)


def test_the_error_of_a_slope_covers():
    """Surveys redrawn around a known population: answers follow it by .6."""
    rng = np.random.default_rng(35)
    year = np.arange(20)
    population = 0.3 + 0.01 * year
    told = 0.2 + 0.6 * population
    error, hit, values = 0.03, 0, []
    for _ in range(200):
        seen = population + rng.normal(0, error, 20)
        again = seen + rng.normal(0, error, (100, 20))
        q = np.stack([told, 1 - told], axis=1)
        dq = q - q.mean(axis=0)

        def sums(p, dq=dq):
            p = np.stack([p, 1 - p], axis=-1)
            dp = p - p.mean(axis=-2, keepdims=True)
            return dp, (dq * dp).sum(axis=(-1, -2)) / 40, (dp**2).sum(axis=(-1, -2)) / 40

        dp, together, squares = sums(seen)
        moved, at_together, at_squares = sums(again)
        noise = float(((moved - dp) ** 2).sum(axis=(1, 2)).mean()) / 40
        at = np.stack([at_together, at_squares], axis=1)
        value, spread = years.slope([years.Change(together, squares, noise, at, "s")])
        values.append(value)
        hit += abs(value - 0.6) <= 1.96 * spread
    assert np.mean(values) == pytest.approx(0.6, abs=0.02)
    # Binomial of 200 and .95: four standard errors below 190; linearised errors are a bit small.
    assert hit >= 176


# The shipped truths by a route of their own.


@pytest.fixture(scope="module")
def gss():
    frame = pd.read_parquet(raw_file("gss", "GSS_cumulative_sub.parquet"))
    return frame[frame.year >= 1975]


RECODED = {
    "religion": ("relig", {1: 0, 11: 0, 2: 1, 4: 2} | dict.fromkeys((3, *range(5, 11), 12, 13), 3)),
    "political_view": ("polviews", {1: 0, 2: 0, 3: 0, 4: 1, 5: 2, 6: 2, 7: 2}),
    "degree": ("degree", {0: 0, 1: 1, 2: 2, 3: 3, 4: 3}),
    "women_at_home": ("fefam", {1: 0, 2: 0, 3: 1, 4: 1}),
}


@pytest.mark.parametrize("by", [["year"], ["year", "sex"]])
@pytest.mark.parametrize("outcome", RECODED)
def test_shares_of_the_gss_by_pandas(gss, outcome, by):
    """Weighted shares; every year weighs the same, men and women in it as they are."""
    column, codes = RECODED[outcome]
    frame = gss.assign(level=gss[column].map(codes), weight=gss.wtssps).dropna(subset=["level"])
    frame = frame.assign(year=frame.year.astype(str), sex=frame.sex.map({1: "Male", 2: "Female"}))
    totals = frame.pivot_table(index=by, columns="level", values="weight", aggfunc="sum").fillna(0)
    known = store.load(GSS + f"{outcome}_by_{'_'.join(by)}")
    expected = totals.div(totals.sum(axis=1), axis=0)
    keys = [cell[0] if len(by) == 1 else cell for cell in known.given]
    assert len(keys) == len(expected)
    assert known.p == pytest.approx(expected.loc[keys].to_numpy(), abs=1e-12)
    people = totals.sum(axis=1)
    share = people / people.groupby(level=0).transform("sum")
    years_ = len(set(frame.year))
    assert known.weights == pytest.approx((share / years_).loc[keys].to_numpy(), abs=1e-12)


def test_shares_of_the_brfss_are_cdc_s():
    file = "brfss_prevalence_diabetes_obesity_state_age_2011_2023.parquet"
    frame = pd.read_parquet(raw_file("brfss", file))
    frame = frame[(frame.Break_Out == "Overall") & frame.Data_value.notna()]
    states = {int(code) for code in frame.LocationID} - {59, 98, 99}
    for outcome, topic in (("diabetes", "Diabetes"), ("obese", "BMI Categories")):
        rows = frame[(frame.Topic == topic) & frame.LocationID.astype(int).isin(states)]
        known = store.load(BRFSS + f"{outcome}_by_year_state")
        assert len(known.given) == len(rows)
        by_year = rows.groupby(rows.Year.astype(str)).Data_value.mean() / 100
        own = pd.Series(known.p[:, 0], [cell[0] for cell in known.given]).groupby(level=0).mean()
        assert own.to_numpy() == pytest.approx(by_year.loc[own.index].to_numpy(), abs=1e-12)


OF_YEARS = {
    year: f"{'' if year == 2023 else 'other_years/'}cpsaat11_{year}.xlsx"
    for year in (2019, 2021, 2022, 2023)
}
#: Of 2019, as they are called since.
RENAMED = {
    "television, video, and motion picture camera operators and editors": "television, video, and "
    "film camera operators and editors",
    "first-line supervisors of fire fighting and prevention workers": "first-line supervisors of "
    "firefighting and prevention workers",
    "security guards and gaming surveillance officers": "security guards and gambling "
    "surveillance officers",
    "gaming services workers": "gambling services workers",
    "parking lot attendants": "parking attendants",
}
#: Not one occupation, but several.
RESIDUAL = r".* occupations|.*, all other|other .*|miscellaneous .*|total, 16 years and over"


def test_shares_of_women_are_those_of_the_bls():
    """A year's people weigh as they are employed, years alike; of all that has every year."""
    parts = []
    for year, name in OF_YEARS.items():
        sheet = pd.read_excel(raw_file("bls", name), header=None).iloc[:, :3]
        sheet.columns = ["occupation", "employed", "women"]
        assert (sheet.employed == year).sum() == 1
        sheet = sheet.assign(women=pd.to_numeric(sheet.women, errors="coerce")).dropna()
        words = sheet.occupation.str.split().str.join(" ").str.lower().replace(RENAMED)
        parts.append(sheet.assign(year=str(year), occupation=words))
    frame = pd.concat(parts)
    frame = frame[~frame.occupation.str.fullmatch(RESIDUAL)]
    frame = frame[frame.groupby("occupation").year.transform("nunique") == 4]
    frame = frame.assign(employed=frame.employed.astype(float)).set_index(["year", "occupation"])
    known = store.load(BLS)
    keys = [(year, occupation.lower()) for year, occupation in known.given]
    assert len(keys) == len(frame) == 4 * 220
    women = known.p[:, known.levels.index("Female")]
    assert women == pytest.approx(frame.women.loc[keys].to_numpy() / 100, abs=1e-12)
    share = frame.employed / frame.employed.groupby(level=0).transform("sum") / 4
    assert known.weights == pytest.approx(share.loc[keys].to_numpy(), abs=1e-12)


def test_occupations_are_called_as_in_a_single_year():
    single = record("bls").variables["occupation"][0].levels
    assert all(level in single for level in record("blstrend").variables["occupation"][0].levels)


def test_a_file_of_each_year_is_needed_under_its_name(tmp_path):
    files = {}
    for year, name in OF_YEARS.items():
        files[year] = tmp_path / f"cpsaat11_{year}.xlsx"
        files[year].symlink_to(raw_file("bls", name))
    given = [files[year] for year in (2019, 2021, 2022)]
    with pytest.raises(EpidemiaError, match=r"expected .*cpsaat11_2023\.xlsx: one file"):
        load_tables(record("blstrend"), given, "2019-2023")
    # Its name is one thing, what it says another.
    files[2022].unlink()
    files[2022].symlink_to(raw_file("bls", OF_YEARS[2021]))
    with pytest.raises(EpidemiaError, match=r"cpsaat11_2022\.xlsx is a table of 2021, not 2022"):
        load_tables(record("blstrend"), [tmp_path], "2019-2023")


def test_an_equal_condition_must_be_one():
    with pytest.raises(ValueError, match="extra"):
        Task(title="T", outcome="a", given=("b",), equals="b")


def test_a_file_of_one_year_is_refused():
    from lm_eval_epidemia.estimate.prepare import prepare
    from lm_eval_epidemia.surveys.microdata import load_microdata

    data = load_microdata(record("gsstrend"), raw_file("gss", "GSS2022.parquet"))
    (of, *_) = (task for task in record("gsstrend").declared if task.equal)
    with pytest.raises(EpidemiaError, match="compares every year, but the file has only one"):
        prepare(data, of)


def test_a_table_of_one_year_is_refused():
    from lm_eval_epidemia.estimate.published import take

    (by_year,) = record("blstrend").declared
    cells = (("2021", "Cooks"), ("2021", "Nurses"))
    weights, p, exact = np.array([0.5, 0.5]), np.array([[0.4, 0.6], [0.9, 0.1]]), np.full(2, np.inf)
    one = PublishedTable("sex", by_year.given, ("Male", "Female"), cells, weights, p, exact, {}, ())
    with pytest.raises(EpidemiaError, match="compares every year, but the file has only one"):
        take(one, by_year, {}, "blstrend_2021")


def test_the_table_has_slopes_and_every_year(tmp_path):
    recorded(tmp_path, [GSS + "women_at_home_by_year"], model_args="kind=mean")
    table = find("years")(read_results([tmp_path])).table
    whole = table[table.year.isna()].set_index("model")
    today, average = (
        whole.loc[f"knows {what} (baseline)"] for what in ("today's", "the average over the years")
    )
    assert (today.slope, today.slope_error) == pytest.approx((0, 0), abs=1e-12)
    # Who was run knows averages only: the respondent that knows these is as far off.
    assert whole.iloc[0].score == pytest.approx(average.score, abs=1e-3)
    by_year = table[table.model == today.name].set_index("year").off
    assert by_year["2024"] == 0 and by_year["1988"] > 5
    course = find("course")(read_results([tmp_path])).table
    truth, p = course[course.kind == "survey"], part(GSS + "women_at_home_by_year").p
    # Of two answers both change as much: the first.
    assert truth.value.tolist() == pytest.approx(p[:, 0])
    assert (truth.low < truth.value).all() and (truth.value < truth.high).all()
