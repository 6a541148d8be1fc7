"""Every survey built from a small file in its official layout, and files that are wrong."""

import hashlib
import json
import sys
import tempfile
import zipfile

import numpy as np
import official
import pandas as pd
import pytest
from conftest import raw_file

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import boosted, store
from lm_eval_epidemia.estimate.build import build
from lm_eval_epidemia.estimate.check import check
from lm_eval_epidemia.surveys.catalogue import record
from lm_eval_epidemia.surveys.microdata import load_microdata
from lm_eval_epidemia.surveys.read import open_raw

lightgbm = pytest.importorskip("lightgbm")
pytest.importorskip("pyreadstat")
pytest.importorskip("openpyxl")
pytest.importorskip("xlrd")
pytest.importorskip("xlwt")


@pytest.fixture(autouse=True)
def quick_boosting(monkeypatch):
    """What is tested here is that every task is built; how well it is fitted, elsewhere."""
    monkeypatch.setattr(boosted, "ROUNDS", 2)


def built(survey, paths, **options):
    """Build into this test's home as a user would; every truth made must pass the checks."""
    made = build(survey, paths, **{"replicates": 4, "progress": False, **options})
    assert made.folder == store.built_groundtruth()
    assert {name: check(name) for name in made.tasks} == {name: [] for name in made.tasks}
    return made


def registered(made):
    return store.read_registry(made.folder)[made.key]


def all_tasks(survey):
    return [task.name for task in record(survey).all_tasks]


def agrees(truth, cell, answer, weight):
    """Compare a truth with plain weighted shares of labelled records (None: not counted)."""
    frame = pd.DataFrame({"cell": cell, "answer": answer, "weight": weight}).dropna()
    frame = frame[frame["weight"] > 0]
    table = frame.pivot_table("weight", "cell", "answer", aggfunc="sum").fillna(0.0)
    cells = [labels[0] for labels in truth.given]
    assert set(cells) == set(table.index)
    table = table.reindex(index=cells, columns=truth.levels, fill_value=0.0)
    assert truth.p == pytest.approx(table.div(table.sum(axis=1), axis=0).to_numpy(), rel=1e-9)
    weights = table.sum(axis=1) / table.to_numpy().sum()
    assert truth.weights == pytest.approx(weights.to_numpy(), rel=1e-9)
    return frame["cell"].value_counts().reindex(cells).tolist()


def refused(survey, paths, vintage=None):
    with pytest.raises(EpidemiaError) as error:
        build(survey, paths, vintage=vintage, replicates=4, progress=False)
    return str(error.value)


# -- Microdata --------------------------------------------------------------------------------


def test_brfss_transport_file(tmp_path):
    """All 48 tasks from the archive whose member's name ends in a space."""
    frame = official.brfss()
    frame.loc[frame["_STATE"] == 48, "_LLCPWT"] = 0.0
    made = built("brfss", official.write_brfss(tmp_path, frame))
    assert made.key == "brfss_2023"
    assert (made.tasks, made.left_out) == (all_tasks("brfss"), [])
    name = "epidemia_low_brfss_diabetes_by_state"
    entry = registered(made)["tasks"][name]
    # Two states did not report; in Texas nobody has a weight, so its cell disappears.
    assert entry["absent"] == ["Kentucky", "Pennsylvania", "Texas"]
    answered = frame["DIABETE4"].isin([1, 2, 3, 4])
    texas = int((answered & (frame["_STATE"] == 48)).sum())
    assert entry["dropped"] == {"diabetes missing": int((~answered).sum()), "weight zero": texas}
    answer = frame["DIABETE4"].map({1: "Yes", 2: "Yes", 3: "No", 4: "No"})
    levels = record("brfss").variables["state"][0].levels
    state = frame["_STATE"].map({level.codes[0][0]: level.label for level in levels})
    truth = store.load(name)
    assert truth.n.tolist() == agrees(truth, state, answer, frame["_LLCPWT"])
    alabama = frame[(frame["_STATE"] == 1) & answered]
    yes = alabama.loc[alabama["DIABETE4"] <= 2, "_LLCPWT"].sum() / alabama["_LLCPWT"].sum()
    assert truth.p[truth.given.index(("Alabama",)), 0] == pytest.approx(yes, rel=1e-9)
    asked = Wording(truth)
    assert "have diabetes, even if only during pregnancy?" in asked.question(0)
    assert asked.probability(0, 1).endswith(
        " never been told they have diabetes, not even during pregnancy?"
    )
    assert set(truth.distances) == {"iid", "design", "population"}


def test_brfss_unpacked_with_the_space_in_its_name(tmp_path):
    archive = official.write_brfss(tmp_path, official.brfss(120))
    with zipfile.ZipFile(archive) as bundle:
        bundle.extractall(tmp_path)
    data = load_microdata(record("brfss"), tmp_path / "LLCP2023.XPT ")
    assert (data.vintage, len(data)) == ("2023", 120)


def test_brfss_published_prevalence(tmp_path):
    """Rows of other years, answers and age groups, and medians over states, are no cells."""
    frame = official.brfss_published()
    made = built("brfss", official.write_brfss_published(tmp_path, frame))
    name = "epidemia_low_brfss_diabetes_by_state"
    assert made.key == "brfss_2023-published"
    assert made.tasks == [name]
    assert {name, *made.left_out} == set(all_tasks("brfss"))
    entry = registered(made)["tasks"][name]
    assert entry["absent"] == ["Kentucky", "Pennsylvania"]
    assert entry["dropped"] == {"left out on purpose (headings, totals, other)": 2}
    truth = store.load(name)
    assert len(truth.given) == len(official.STATES_2023)
    assert truth.weights == pytest.approx(1 / len(truth.given))
    row = frame.query(
        "year == '2023' and locationid == '04' and response == 'Yes' and break_out == 'Overall'"
    ).iloc[0]
    arizona = truth.given.index(("Arizona",))
    share = float(row["data_value"]) / 100
    assert truth.p[arizona].tolist() == pytest.approx([share, 1 - share])
    # CDC prints "Yes, pregnancy-related" apart, so "Yes" is not what the microdata count as yes.
    asked = Wording(truth)
    for said in (asked.question(0), asked.probability(0, 0), asked.probability(0, 1)):
        assert said.endswith("have diabetes, apart from diabetes only during pregnancy?")
    error = (float(row["confidence_limit_high"]) - float(row["confidence_limit_low"])) / 392
    assert truth.n_eff[arizona] == pytest.approx(share * (1 - share) / error**2)


@pytest.mark.parametrize("folder", [False, True])
def test_nhanes_files_joined(tmp_path, folder):
    """Four files of different people, given one by one or as a folder with others in it."""
    frames = official.nhanes()
    paths = official.write_nhanes(tmp_path / "raw", frames)
    made = built("nhanes", tmp_path / "raw" if folder else paths[::-1])
    assert made.key == "nhanes_2021-2023"
    assert (made.tasks, made.left_out) == (all_tasks("nhanes"), [])
    assert registered(made)["rows"] == len(frames["DEMO_L"])

    joined = frames["DEMO_L"]
    for name in ("BMX_L", "DIQ_L", "ALQ_L"):
        joined = joined.merge(frames[name], "left", on="SEQN")
    adults = joined[joined["RIDAGEYR"] >= 18]
    bounds = [0, 18.5, 25, 30, 35, 40, 99]
    groups = [level.label for level in record("nhanes").variables["bmi"][0].levels]
    bmi = pd.cut(adults["BMXBMI"], bounds, right=False, labels=groups)
    told = adults["DIQ010"].map({1: "Yes", 3: "Yes", 2: "No"})
    truth = store.load("epidemia_low_nhanes_diabetes_by_bmi")
    agrees(truth, bmi.astype(object), told, adults["WTMEC2YR"])

    # Who never drank in life was not asked how often, and belongs to "no".
    often = adults["ALQ121"].map(lambda code: "Yes" if 1 <= code <= 5 else "No", na_action="ignore")
    often = often.mask(adults["ALQ121"].isin([77, 99])).mask(adults["ALQ111"] == 2, "No")
    bands = ["18-29", "30-39", "40-49", "50-59", "60-69", "70 or older"]
    age = pd.cut(adults["RIDAGEYR"], [18, 30, 40, 50, 60, 70, 99], right=False, labels=bands)
    truth = store.load("epidemia_low_nhanes_alcohol_weekly_by_age")
    agrees(truth, age.astype(object), often, adults["WTMEC2YR"])


def party_by_sex(frame, weight="wtssnrps"):
    party = pd.cut(
        frame["partyid"].where(frame["partyid"] != 7),
        [-1, 2, 3, 6],
        labels=["Democratic Party", "Neither (independent)", "Republican Party"],
    )
    return frame["sex"].map({1: "Male", 2: "Female"}), party.astype(object), frame[weight]


def test_gss_single_year_file(tmp_path):
    """The oversample has no weight; what is left is told by the official number of people."""
    frame = official.gss(4149, 3544)
    made = built("gss", official.write_gss(frame, tmp_path / "gss.dta"))
    assert made.key == "gss_2022"
    assert (made.tasks, made.left_out) == (all_tasks("gss"), [])
    entry = registered(made)
    assert (entry["rows"], entry["weight"]) == (3544, "wtssnrps")
    truth = store.load("epidemia_low_gss_party_by_sex")
    agrees(truth, *party_by_sex(frame))
    # Tagged missing values (.i, .n) are blanks.
    blank = frame["partyid"].isna() | (frame["partyid"] == 7)
    assert entry["tasks"][truth.task]["dropped"] == {
        "party missing": int((blank & frame["wtssps"].notna()).sum()),
        "sex missing": int((~blank & frame["sex"].isna() & frame["wtssps"].notna()).sum()),
    }


def test_gss_archive_and_name_tell_the_year(tmp_path):
    path = official.write_gss(official.gss(90, 80), tmp_path / "GSS2022.dta")
    archive = official.zipped(
        tmp_path / "2022_stata.zip",
        {"2022/GSS2022.dta": path, "2022/GSS 2022 Codebook.pdf": "%PDF"},
    )
    for given in (path, archive):
        data = load_microdata(record("gss"), given)
        assert (data.vintage, len(data)) == ("2022", 80)


def test_gss_cumulative_file(tmp_path):
    """--vintage selects a year from the file of all years, and only that year counts."""
    years = {year: official.gss(300, 260, year, seed=year) for year in (1972, 2018, 2021, 2022)}
    years[1972][["wtssnrps", "vstrat", "vpsu"]] = np.nan
    path = official.write_gss(pd.concat(years.values()), tmp_path / "gss7224_r1.dta")
    assert "pass --vintage" in refused("gss", path)
    assert "no record of gss 2024" in refused("gss", path, "2024")
    for year in (2018, 2022):
        made = built("gss", path, vintage=str(year))
        assert made.key == f"gss_{year}"
        assert (made.tasks, made.left_out) == (all_tasks("gss"), [])
        truth = store.load("epidemia_low_gss_party_by_sex", str(year))
        agrees(truth, *party_by_sex(years[year]))


def test_nsduh_stata_bundle(tmp_path):
    frame = official.nsduh()
    archive = official.write_nsduh(tmp_path, frame)
    made = built("nsduh", archive)
    assert made.key == "nsduh_2023"
    assert (made.tasks, made.left_out) == (all_tasks("nsduh"), [])
    truth = store.load("epidemia_low_nsduh_alcohol_past_month_by_race")
    names = ["White", "Black or African American", "Native American or Alaska Native"]
    names += ["Native Hawaiian or Other Pacific Islander", "Asian", "More than one race"]
    names += ["Hispanic"]
    race = frame["NEWRACE2"].map(dict(enumerate(names, start=1)))
    recent = frame["alcrec"].map(lambda code: "Yes" if code == 1 else "No")
    recent = recent.mask(frame["alcrec"].isin([85, 94, 97, 98]))
    agrees(truth, race, recent, frame["ANALWT2_C"])
    assert load_microdata(record("nsduh"), tmp_path / "NSDUH_2023.dta").vintage == "2023"


def test_scf_families_of_implicates(tmp_path):
    """A cell has as many observations as families, not five times as many."""
    frame = official.scf()
    made = built("scf", official.write_scf(tmp_path, frame))
    assert made.key == "scf_2022"
    assert (made.tasks, made.left_out) == (all_tasks("scf"), [])
    truth = store.load("epidemia_low_scf_food_expenditure_by_race")
    names = ["White", "Black or African American", "Hispanic", "Asian"]
    names += ["Another or more than one race"]
    race = frame["racecl5"].map(dict(enumerate(names, start=1)))
    spent = pd.cut(
        frame["foodhome"] + frame["foodaway"] + frame["fooddelv"],
        [-1, 3500, 5500, 7000, 8500, 10000, 15000, 30000, np.inf],
        labels=list(truth.levels),
    )
    agrees(truth, race, spent.astype(object), frame["wgt"])
    families = frame.groupby(race)["yy1"].nunique()
    assert truth.n.tolist() == [families[labels[0]] for labels in truth.given]


def ascii_files(folder, frame, setup, name="h243.dat"):
    folder.mkdir()
    path = folder / name
    path.write_bytes(official.meps_lines(frame).encode("ascii"))
    text = official.meps_stata() if setup == "h243stu.txt" else official.meps_sas()
    (folder / setup).write_text(text)
    return path


def test_meps_in_every_format(tmp_path):
    """Excel, Stata and ASCII with either kind of statements give the same bytes."""
    frame = official.meps()
    sas = ascii_files(tmp_path / "sas", frame, "h243su.txt")
    stata = ascii_files(tmp_path / "stata", frame, "h243stu.txt")
    archive = official.zipped(
        tmp_path / "h243dat.zip",
        {"h243.dat": stata, "h243stu.txt": stata.with_name("h243stu.txt")},
    )
    dta = official.write_meps_dta(tmp_path, frame)
    made = built("meps", dta, bootstrap=["iid"])
    assert made.key == "meps_2022"
    assert (made.tasks, made.left_out) == (all_tasks("meps"), [])
    expected = (made.folder / "meps_2022.cells.parquet").read_bytes()
    for number, path in enumerate(
        (official.write_meps_xlsx(tmp_path, frame), sas, stata.parent, archive)
    ):
        out = tmp_path / f"out{number}"
        again = build("meps", path, replicates=4, bootstrap=["iid"], out=out, progress=False)
        assert again.tasks == made.tasks
        assert (out / "meps_2022.cells.parquet").read_bytes() == expected, path.name

    truth = store.load("epidemia_low_meps_insured_by_race")
    names = {1: "White", 2: "Black or African American", 3: "American Indian or Alaska Native"}
    names |= {4: "Asian or Pacific Islander", 6: "More than one race"}
    insured = frame["INSURC22"].map(lambda code: "No" if code in {3, 7} else "Yes")
    agrees(truth, frame["RACEV1X"].map(names), insured, frame["PERWT22F"])
    tasks = registered(made)["tasks"]
    weightless = int((frame["PERWT22F"] == 0).sum())
    assert weightless and tasks[truth.task]["dropped"] == {"weight zero": weightless}
    dropped = tasks["epidemia_high_meps_insured_by_education_sex"]["dropped"]
    assert dropped["education missing"] == (frame["EDUCYR"] < 0).sum() > 0


def test_meps_reserve_codes_are_missing(tmp_path):
    """-15 (cannot be computed) means as little as -8 (don't know)."""
    made = []
    for number, code in enumerate((-8, -15)):
        frame = official.meps(200)
        frame["EDUCYR"] = frame["EDUCYR"].replace({-8: code, -7: code})
        folder = tmp_path / str(number)
        folder.mkdir()
        data = load_microdata(record("meps"), official.write_meps_xlsx(folder, frame))
        made.append(data.levels["education"].tolist())
        assert (frame["EDUCYR"] == code).any()
    assert made[0] == made[1]


def replicate_shares(frame, cell, answer):
    """Shares of each answer in each cell under the weight and under each of its replicates."""
    columns = ["PWGTP", *official.ACS_REPLICATES]
    totals = frame.groupby([cell, answer])[columns].sum()
    of_cell = totals.groupby(level=0).transform("sum")
    shares = (totals / of_cell).unstack(fill_value=0.0)
    return {column: shares[column] for column in columns}


def test_acs_replicate_weights(tmp_path):
    """Sampling errors are those of the Census Bureau's formula for its 80 replicate weights."""
    frame = official.acs()
    path = official.write_acs(tmp_path, frame)
    assert "--vintage 2023 or 2024" in refused("acs", path)
    made = built("acs", path, vintage="2023", replicates=200)
    assert made.key == "acs_2023"
    assert (made.tasks, made.left_out) == (all_tasks("acs"), [])
    task = "epidemia_low_acs_employer_by_sex"
    entry = registered(made)["tasks"][task]
    assert entry["replicates"]["number"] == entry["bootstrap"]["design"]["replicates"] == 100
    assert entry["adjustments"] == []

    employed = frame[frame["ESR"].isin([1, 2, 4, 5]) & (frame["AGEP"] >= 16)]
    truth = store.load(task)
    kinds = dict(zip(range(1, 9), np.repeat(truth.levels, [1, 1, 3, 3]), strict=True))
    sex, kind = employed["SEX"].map({1: "Male", 2: "Female"}), employed["COW"].map(kinds)
    assert truth.n.tolist() == agrees(truth, sex, kind, employed["PWGTP"])

    by_weight = replicate_shares(employed, sex, kind)
    cells = [labels[0] for labels in truth.given]
    deviations = np.stack(
        [
            (by_weight[column] - by_weight["PWGTP"]).loc[cells, list(truth.levels)].to_numpy()
            for column in official.ACS_REPLICATES
        ]
    )
    variance = 4 / 80 * (deviations**2).sum(axis=0).sum(axis=1)
    size = (truth.p * (1 - truth.p)).sum(axis=1) / variance
    assert (size < truth.n).all()  # not capped at the number of records
    assert truth.n_eff == pytest.approx(size, rel=1e-5)
    # The joint replicates mix the 80 so that their variance is the formula's, of every cell. Held
    # in 65,534 steps, they are off by a half of one each, 1.5e-5 of the largest deviation.
    found = truth.replicates.var(axis=0, ddof=1).sum(axis=1)
    assert found == pytest.approx(variance, rel=1e-3)
    distances = np.abs(truth.replicates - truth.p).sum(axis=2) @ truth.weights
    assert truth.distances["design"] == pytest.approx(distances, rel=1e-3)
    assert len(truth.distances["iid"]) == 200


def without_work(frame, state):
    """Blank work and pay of a state's people aged 16 or older."""
    lacking = (frame["STATE"] == state) & (frame["AGEP"] >= 16)
    frame = frame.copy()
    frame.loc[lacking, ["ESR", "COW", "WAGP"]] = pd.NA
    return frame


def test_acs_2024_complete_file_is_left_as_it_is(tmp_path):
    path = official.write_acs(tmp_path, official.acs())
    built("acs", path, vintage="2023")
    made = built("acs", path, vintage="2024")
    assert (made.tasks, made.left_out) == (all_tasks("acs"), [])
    for name, entry in registered(made)["tasks"].items():
        applied = [note["applied"] for note in entry["adjustments"]]
        assert applied == ([] if "education" in name else [False])
        plain, other = store.load(name, "2023"), store.load(name, "2024")
        assert (plain.p == other.p).all() and (plain.weights == other.weights).all()
        assert (plain.distances["iid"] == other.distances["iid"]).all()


def test_acs_2024_without_work_of_one_state(tmp_path):
    """The other states' people are weighted up to the whole nation's, cell by cell."""
    frame = without_work(official.acs().drop(columns=official.ACS_REPLICATES), 6)
    made = built("acs", official.write_acs(tmp_path, frame), vintage="2024")
    assert (made.tasks, made.left_out) == (all_tasks("acs"), [])
    entry = registered(made)["tasks"]["epidemia_low_acs_employment_status_by_sex"]
    note = entry["adjustments"][0]
    adults = frame[frame["AGEP"] >= 16].copy()
    known = adults["ESR"].notna()
    assert (note["applied"], note["for"]) == (True, "P(X) and P(Y | X)")
    assert (note["population"], note["records"]) == (len(adults), int(known.sum()))

    race = adults["RAC1P"].replace({4: 3, 5: 3})
    hispanic = adults["HISP"] > 1
    age = pd.cut(adults["AGEP"], [15, 24, 34, 44, 54, 64, 74, 99], labels=False)
    schooling = pd.cut(adults["SCHL"].astype(float), [0, 15, 17, 20, 21, 24], labels=False)
    margin = [adults["SEX"], race, hispanic, age, schooling]
    whole = adults["PWGTP"].groupby(margin).transform("sum")
    held = adults["PWGTP"].where(known, 0).groupby(margin).transform("sum")
    raked = (adults["PWGTP"] * whole / held).where(known, 0.0)
    status = {1: 0, 4: 0, 2: 1, 5: 1, 3: 2, 6: 3}
    truth = store.load("epidemia_low_acs_employment_status_by_sex")
    answer = adults["ESR"].map({code: truth.levels[k] for code, k in status.items()})
    people = pd.DataFrame(
        {"sex": adults["SEX"].map({1: "Male", 2: "Female"}), "answer": answer, "weight": raked}
    ).dropna()
    table = people.pivot_table("weight", "sex", "answer", aggfunc="sum")
    table = table.loc[[labels[0] for labels in truth.given], list(truth.levels)]
    shares = table.div(table.sum(axis=1), axis=0).to_numpy()
    plain = adults[known].pivot_table("PWGTP", "SEX", answer[known], aggfunc="sum")
    plain = plain.div(plain.sum(axis=1), axis=0)[list(truth.levels)].to_numpy()
    assert truth.p == pytest.approx(shares, abs=1e-4)
    assert np.abs(truth.p - plain).max() > 1e-3


def test_nhis_sample_adult(tmp_path):
    frame = official.nhis()
    made = built("nhis", official.write_nhis(tmp_path, frame))
    assert made.key == "nhis_2021"
    assert (made.tasks, made.left_out) == (all_tasks("nhis"), [])
    task = "epidemia_extra_nhis_diabetes_by_sex_race"
    entry, truth = registered(made)["tasks"][task], store.load(task)
    known = frame["SEX_A"].isin([1, 2]) & frame["DIBEV_A"].isin([1, 2])
    people = frame[known]
    names = {1: "Hispanic", 2: "White", 3: "Black or African American", 4: "Asian"}
    names |= dict.fromkeys((5, 6), "American Indian or Alaska Native")
    names |= {7: "Another or more than one race"}
    cells = people["WTFA_A"].groupby(
        [people["SEX_A"].map({1: "Male", 2: "Female"}), people["HISPALLP_A"].map(names)]
    )
    expected = cells.sum() / people["WTFA_A"].sum()
    assert truth.weights == pytest.approx([expected[labels] for labels in truth.given])
    assert truth.n.tolist() == [cells.size()[labels] for labels in truth.given]
    yes = people.loc[people["DIBEV_A"] == 1, "WTFA_A"].sum() / people["WTFA_A"].sum()
    assert entry["marginal"] == pytest.approx([yes, 1 - yes])
    assert (entry["records"], registered(made)["weight"]) == (int(known.sum()), "WTFA_A")


# -- Published tables -------------------------------------------------------------------------


def test_a_table_that_says_its_year_in_a_column_or_its_name(tmp_path):
    """Nothing is printed above the table of a parquet file."""
    table = raw_file("bls", "cpsaat11_2023.parquet")
    assert "the table of bls 2023, not of 2019" in refused("bls", table, "2019")
    unnamed = tmp_path / "table.parquet"
    pd.read_parquet(table).to_parquet(unnamed)
    assert "the table of bls 2023, not of 2019" in refused("bls", unnamed, "2019")
    named = tmp_path / "cpsaat11_2023.parquet"
    pd.read_parquet(table).drop(columns="year").to_parquet(named)
    assert "the table of bls 2023, not of 2019" in refused("bls", named, "2019")
    with pytest.raises(EpidemiaError, match="published table without a sampling design"):
        build("bls", table, vintage="2023", bootstrap=["design"], progress=False)


@pytest.mark.parametrize("down", [0, 3])
def test_bls_workbook(tmp_path, down):
    """Headers over three rows, wherever they stand; groups and dashes are no occupations."""
    figures = official.bls()
    made = built("bls", official.write_bls(tmp_path / "cpsaat11.xlsx", figures, down=down))
    assert made.key == "bls_2023"
    assert (made.tasks, made.left_out) == (all_tasks("bls"), [])
    by_sex = store.load("epidemia_low_bls_sex_by_occupation")
    by_race = store.load("epidemia_low_bls_race_by_occupation")
    total, women, white, black, asian, _ = figures["Registered nurses"]
    nurse = by_sex.given.index(("Registered nurses",))
    assert by_sex.p[nurse] == pytest.approx([1 - women / 100, women / 100])
    assert by_race.p[nurse] == pytest.approx(
        [white / 100, black / 100, asian / 100, 1 - (white + black + asian) / 100], abs=1e-9
    )
    everyone = sum(numbers[0] for numbers in figures.values())
    assert by_sex.weights[nurse] == pytest.approx(total / everyone)
    entry = registered(made)["tasks"]["epidemia_low_bls_sex_by_occupation"]
    assert (entry["cells"], entry["absent"]) == (len(figures), [])
    assert entry["dropped"] == {
        "left out on purpose (headings, totals, other)": 6,
        "no figures published": 1,
    }


@pytest.mark.parametrize(
    ("names", "down"),
    [
        (("table-42.xls", "table-43a.xls"), 0),
        (("table-42.xls", "table-43a.xls"), 3),
        (("output.xls", "output (1).xls"), 0),  # as a browser saves them
    ],
)
def test_fbi_tables(tmp_path, names, down):
    """Footnote digits, aggregates and percentages beside the counts do not mislead."""
    frame = official.fbi()
    made = built("fbi", official.write_fbi(tmp_path, frame, names=names, down=down))
    assert made.key == "fbi_2019"
    assert (made.tasks, made.left_out) == (all_tasks("fbi"), [])
    by_sex = store.load("epidemia_low_fbi_sex_by_offense", "2019")
    by_race = store.load("epidemia_low_fbi_race_by_offense", "2019")
    rape = frame.loc["Rape"]
    row = by_sex.given.index(("Rape",))
    arrested = frame["Male"] + frame["Female"]
    assert by_sex.p[row, 0] == pytest.approx(rape["Male"] / arrested["Rape"])
    assert by_sex.weights[row] == pytest.approx(arrested["Rape"] / arrested.sum())
    races = rape[["White", "Black", "Native", "Asian", "Pacific"]]
    assert by_race.p[row] == pytest.approx((races / races.sum()).to_numpy(float))
    # The total is asked as "a crime" and weighs what no other row covers.
    total = by_sex.given.index(("Any crime",))
    assert by_sex.p[total, 0] == pytest.approx(frame["Male"].sum() / arrested.sum())
    rest = arrested["All other offenses (except traffic)"]
    assert by_sex.weights[total] == pytest.approx(rest / arrested.sum())
    for task in made.tasks:
        entry = registered(made)["tasks"][task]
        assert entry["absent"] == []
        assert entry["dropped"] == {"left out on purpose (headings, totals, other)": 3}


def test_ipeds_workbook(tmp_path):
    """Counts are text with thousands separators; the second sheet lists institutions."""
    figures = official.ipeds()
    made = built("ipeds", official.write_ipeds(tmp_path / "education.xlsx", figures))
    assert made.key == "ipeds_2023"
    assert (made.tasks, made.left_out) == (all_tasks("ipeds"), [])
    truth = store.load("epidemia_low_ipeds_sex_by_field")
    men, women = figures["Computer and Information Sciences and Support Services"]
    row = truth.given.index(("Computer and information sciences",))
    assert truth.p[row].tolist() == pytest.approx([men / (men + women), women / (men + women)])
    everyone = sum(map(sum, figures.values()))
    assert truth.weights[row] == pytest.approx((men + women) / everyone)


# -- Files that are wrong ---------------------------------------------------------------------


def cut(path, share=0.6):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def test_truncated_files_are_named(tmp_path):
    workbook = cut(official.write_bls(tmp_path / "cpsaat11.xlsx", official.bls()))
    assert "cpsaat11.xlsx cannot be read as .xlsx" in refused("bls", workbook)
    tables = official.write_fbi(tmp_path, official.fbi())
    assert "table-43a.xls cannot be read as .xls" in refused("fbi", [tables[0], cut(tables[1])])
    archive = official.write_nsduh(tmp_path, official.nsduh(200))
    stata = cut(tmp_path / "NSDUH_2023.dta")
    assert "NSDUH_2023.dta cannot be read as .dta" in refused("nsduh", stata)
    assert f"{archive.name} is not a whole zip archive" in refused("nsduh", cut(archive))
    meps = cut(official.write_meps_xlsx(tmp_path, official.meps(50)))
    assert "h243.xlsx cannot be read as .xlsx" in refused("meps", meps)


def test_a_renamed_header_is_named(tmp_path):
    path = official.write_bls(tmp_path / "cpsaat11.xlsx", official.bls(), women="Females")
    message = refused("bls", path)
    assert "cpsaat11.xlsx has no table of sex by occupation: no header Women" in message


def test_another_years_workbook_is_recognised(tmp_path):
    path = official.write_bls(tmp_path / "cpsaat11.xlsx", official.bls(), year=2019)
    message = refused("bls", path, "2023")
    assert "the table of bls 2019, not of 2023: pass --vintage 2019" in message


def test_an_unknown_occupation_with_figures(tmp_path):
    figures = {**official.bls(), "Dragon tamers": (60, 5.0, 70.0, 10.0, 5.0, 17.0)}
    message = refused("bls", official.write_bls(tmp_path / "cpsaat11.xlsx", figures))
    assert "1 rows that the record of bls does not know, for example 'Dragon tamers'" in message


def test_columns_of_another_year(tmp_path):
    """MEPS puts the year into its column names."""
    frame = official.meps(60).rename(columns=lambda name: name.replace("22", "21"))
    message = refused("meps", official.write_meps_xlsx(tmp_path, frame), "2022")
    assert "lacks column PERWT22F (nearest: PERWT21F)" in message
    assert "looks like 2021-panels24-26, pass --vintage 2021-panels24-26" in message


def test_labels_instead_of_codes(tmp_path):
    frame = official.nhis(60)
    frame["SEX_A"] = frame["SEX_A"].map({1: "Male", 2: "Female"}).fillna("Refused")
    message = refused("nhis", official.write_nhis(tmp_path, frame))
    assert "column SEX_A holds text where codes are expected" in message
    assert "60 rows: 1, 2, 3, 4, 5, ..." in message


def test_an_unknown_code(tmp_path):
    frame = official.nhis(60)
    frame.loc[[4, 9], "HISPALLP_A"] = 8
    message = refused("nhis", official.write_nhis(tmp_path, frame))
    assert "column HISPALLP_A has codes that the record of 'race' does not know: 8 (2 rows)" in (
        message
    )
    assert "2 rows: 5, 10" in message


def test_a_zip_bomb_is_refused(tmp_path):
    path = tmp_path / "adult21csv.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("adult21.csv", "w") as member,
    ):
        for _ in range(60):
            member.write(bytes(2**20))
    assert path.stat().st_size < 100_000
    message = refused("nhis", path)
    assert "adult21csv.zip would unpack to 0.1 GiB" in message
    assert "no survey file" in message


def test_a_member_named_outside_the_folder_stays_inside(tmp_path, monkeypatch):
    temporary = tmp_path / "deep" / "er" / "temporary"
    temporary.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    text = official.nhis(60).to_csv(index=False)
    archive = official.zipped(tmp_path / "adult21csv.zip", {"../../../adult21.csv": text})
    before = set(tmp_path.rglob("*"))
    with open_raw([archive], record("nhis").expected_files) as files:
        assert [file.name for file in files] == ["adult21.csv"]
        new = set(tmp_path.rglob("*")) - before
        assert files[0] in new and all(temporary in path.parents for path in new)
    assert set(tmp_path.rglob("*")) == before
    assert load_microdata(record("nhis"), archive).vintage == "2021"


def test_a_build_says_where_its_truth_comes_from(tmp_path, monkeypatch):
    """The registry names the archive that was given, and what was unpacked from it is gone."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    archive = official.write_scf(tmp_path, official.scf(60))
    made = build("scf", archive, replicates=4, bootstrap=["iid"], out=tmp_path, progress=False)
    truth = json.loads((tmp_path / "registry.json").read_text())["truths"][made.key]
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert truth["raw"] == [{"file": "scfp2022s.zip", "sha256": digest}]
    assert list(temporary.iterdir()) == []


# -- Files as they lie on a disk ----------------------------------------------------------------


def test_a_folder_with_the_unpacked_brfss_file(tmp_path):
    archive = official.write_brfss(tmp_path, official.brfss(120))
    with zipfile.ZipFile(archive) as bundle:
        bundle.extractall(tmp_path)
    archive.unlink()
    assert len(load_microdata(record("brfss"), tmp_path)) == 120


def test_a_folder_with_the_nsduh_file(tmp_path):
    official.write_nsduh(tmp_path, official.nsduh(100)).unlink()
    assert len(load_microdata(record("nsduh"), tmp_path, "2023")) == 100


@pytest.mark.parametrize("given", ["raw", "raw/archive.zip"])
def test_the_name_of_the_file_inside_tells_the_year(tmp_path, given):
    (tmp_path / "raw").mkdir()
    path = official.write_gss(official.gss(90, 80), tmp_path / "raw" / "GSS2022.dta")
    if given.endswith(".zip"):
        official.zipped(tmp_path / given, {"2022/GSS2022.dta": path})
    assert load_microdata(record("gss"), tmp_path / given).vintage == "2022"


@pytest.mark.parametrize("given", [["h243dat.zip"], ["h243dat.zip", "h243su.txt"]])
def test_the_official_ascii_archive_with_statements_beside_it(tmp_path, given):
    """AHRQ's h243dat.zip holds only h243.dat; the statements are a download of their own."""
    data = ascii_files(tmp_path / "raw", official.meps(40), "h243su.txt")
    official.zipped(data.with_name("h243dat.zip"), {"h243.dat": data})
    data.unlink()
    paths = [data.with_name(name) for name in given]
    assert len(load_microdata(record("meps"), paths)) == 40


def test_ascii_files_in_upper_case(tmp_path):
    path = ascii_files(tmp_path / "raw", official.meps(40), "H243SU.TXT", "H243.DAT")
    assert len(load_microdata(record("meps"), path)) == 40


def meps_beside_its_archive(folder):
    frame = official.meps(60)
    with zipfile.ZipFile(official.write_meps_dta(folder, frame)) as bundle:
        bundle.extractall(folder)
    return "meps", folder, None, frame["PERWT22F"]


def gss_beside_its_archive(folder):
    frame = official.gss(60, 60)
    path = official.write_gss(frame, folder / "GSS2022.dta")
    official.zipped(folder / "2022_stata.zip", {"2022/GSS2022.dta": path})
    return "gss", folder, "2022", frame["wtssnrps"]


def acs_beside_its_archive(folder):
    frame = official.acs(60)
    with zipfile.ZipFile(official.write_acs(folder, frame)) as bundle:
        bundle.extractall(folder)
    return "acs", folder, "2023", frame["PWGTP"]


def acs_with_two_members_of_one_name(folder):
    halves = {"a/psam_pusa.csv": official.acs(40), "b/psam_pusa.csv": official.acs(20, seed=1)}
    texts = {name: frame.to_csv(index=False) for name, frame in halves.items()}
    weights = pd.concat([frame["PWGTP"] for frame in halves.values()])
    return "acs", official.zipped(folder / "csv_pus.zip", texts), "2023", weights


@pytest.mark.parametrize(
    "layout",
    [
        meps_beside_its_archive,
        gss_beside_its_archive,
        acs_beside_its_archive,
        acs_with_two_members_of_one_name,
    ],
)
def test_nobody_counts_twice(tmp_path, layout):
    """An archive and what was unpacked from it lie side by side: read once, or refused."""
    survey, path, vintage, weights = layout(tmp_path)
    try:
        data = load_microdata(record(survey), path, vintage)
    except EpidemiaError as error:
        assert any(name in str(error).lower() for name in ("h243", "gss2022", "psam_pusa"))
    else:
        assert sorted(data.weight) == sorted(weights)


def flipped(content):
    content[2000:2100] = bytes(byte ^ 0xFF for byte in content[2000:2100])


def deflate64(content):
    directory = content.find(b"PK\x01\x02")
    content[8] = content[directory + 10] = 9


def encrypted(content):
    directory = content.find(b"PK\x01\x02")
    content[6] |= 1
    content[directory + 8] |= 1


@pytest.mark.parametrize("damage", [flipped, deflate64, encrypted])
def test_an_archive_that_cannot_be_unpacked_is_named(tmp_path, damage):
    """A damaged block, a method Python lacks (Windows packs large files so), a password."""
    path = official.write_nhis(tmp_path, official.nhis(300))
    content = bytearray(path.read_bytes())
    damage(content)
    path.write_bytes(bytes(content))
    assert "adult21csv.zip" in refused("nhis", path)


def test_a_truncated_transport_file(tmp_path):
    """Whole ones consist of records of 80 bytes, so nearly every cut shows."""
    paths = official.write_nhanes(tmp_path, official.nhanes(300))
    path = tmp_path / "BMX_L.xpt"
    assert path.stat().st_size % 80 == 0
    path.write_bytes(path.read_bytes()[:-4001])
    assert "BMX_L.xpt" in refused("nhanes", paths)


def test_stata_labels_in_another_encoding(tmp_path):
    """NORC's gss7224_r1.dta has a broken apostrophe in a label (WizardMac/ReadStat issue 344)."""
    apostrophe = "\u2019"
    path = official.write_dta(
        official.gss(60, 50),
        tmp_path / "gss7224_r1.dta",
        variable_value_labels={"relig": {1.0: f"don{apostrophe}t know"}},
    )
    path.write_bytes(path.read_bytes().replace(apostrophe.encode(), b"\xe2\x80\xff"))
    assert len(load_microdata(record("gss"), path, "2022")) == 50


def test_transport_labels_in_another_encoding(tmp_path):
    """SAS writes the encoding of the agency's Windows, as in NHANES' FERTIN_L.xpt."""
    apostrophe, frame = "\u2019", official.brfss(60)
    labels = [f"DON{apostrophe}T KNOW" if name == "GENHLTH" else "" for name in frame]
    path = official.write_xpt(frame, tmp_path / "LLCP2023.XPT", column_labels=labels)
    path.write_bytes(path.read_bytes().replace(apostrophe.encode(), b"\x92  "))
    assert len(load_microdata(record("brfss"), path)) == 60


def test_a_figure_that_looks_like_another_year(tmp_path):
    figures = official.bls()
    first = next(iter(figures))
    figures[first] = (2019, *figures[first][1:])  # thousands of chief executives
    path = official.write_bls(tmp_path / "cpsaat11.xlsx", figures)
    assert build("bls", path, replicates=4, progress=False).key == "bls_2023"


@pytest.mark.parametrize("survey", ["fbi", "ipeds"])
def test_a_table_of_a_year_that_is_no_vintage(tmp_path, survey):
    """The year printed above the table is not the vintage's: not to be taken for it."""
    if survey == "fbi":
        message = refused("fbi", official.write_fbi(tmp_path, official.fbi(), year=2018), "2019")
    else:
        path = official.write_ipeds(tmp_path / "e.xlsx", official.ipeds(), year="2020-21")
        message = refused("ipeds", path)
    assert "2018" in message or "2020-21" in message


def test_a_missing_reader_is_named(tmp_path, monkeypatch):
    path = official.write_bls(tmp_path / "cpsaat11.xlsx", official.bls())
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert "needs openpyxl" in refused("bls", path)


def test_raked_files_with_replicate_weights(tmp_path):
    """Replicates that equal the weight leave no sampling error, whatever was done to both."""
    frame = without_work(official.acs(1500), 6)
    frame[official.ACS_REPLICATES] = np.tile(frame[["PWGTP"]].to_numpy(), 80)
    path = official.write_acs(tmp_path, frame)
    build("acs", path, vintage="2024", replicates=4, progress=False)
    for name in all_tasks("acs"):
        assert store.load(name).distances["design"] == pytest.approx(0, abs=1e-4), name
