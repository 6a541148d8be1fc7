"""Every survey read from a small file in its official layout, and files that are wrong."""

import hashlib
import json
import sys
import tempfile
import zipfile
from itertools import chain

import numpy as np
import official
import pandas as pd
import pytest
from conftest import RAW, REPOSITORY, raw_file

from lm_eval_epidemia.ask.prompts import Wording
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import boosted, store
from lm_eval_epidemia.estimate.build import build_survey
from lm_eval_epidemia.estimate.check import find_faults
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.microdata import MISSING, load_microdata
from lm_eval_epidemia.surveys.raw import open_raw
from lm_eval_epidemia.surveys.record import Record

lightgbm = pytest.importorskip("lightgbm")
pytest.importorskip("pyreadstat")
pytest.importorskip("openpyxl")
pytest.importorskip("xlrd")
pytest.importorskip("xlwt")


@pytest.fixture
def counted_only(monkeypatch):
    """Records declare only what is counted: how boosting fits is tested elsewhere."""
    every = Record.all_tasks.fget
    counted = property(lambda self: tuple(task for task in every(self) if len(task.given) < 2))
    monkeypatch.setattr(Record, "all_tasks", counted)


def built(survey, paths, **options):
    """Build into this test's home as a user would: every task, and each truth passes the checks."""
    made = build_survey(survey, paths, **{"replicates": 4, "progress": False, **options})
    assert made.folder == store.built_groundtruth()
    assert made.tasks == [task.name for task in find_record(survey).all_tasks] and not made.left_out
    assert {name: find_faults(name) for name in made.tasks} == {name: [] for name in made.tasks}
    return store.read_registry(made.folder)[made.key]


def agrees(truth, cell, answer, weight):
    """Compare a truth with plain weighted shares of labelled records (None: not counted)."""
    frame = pd.DataFrame({"cell": cell, "answer": answer, "weight": weight}).dropna()
    frame = frame[frame["weight"] > 0]
    table = frame.pivot_table("weight", "cell", "answer", aggfunc="sum").fillna(0.0)
    cells = [given[0] for given in truth.given]
    assert set(cells) == set(table.index)
    table = table.reindex(index=cells, columns=truth.levels, fill_value=0.0)
    assert truth.p == pytest.approx(table.div(table.sum(axis=1), axis=0).to_numpy(), rel=1e-9)
    weights = table.sum(axis=1) / table.to_numpy().sum()
    assert truth.weights == pytest.approx(weights.to_numpy(), rel=1e-9)
    return frame["cell"].value_counts().reindex(cells).tolist()


def refused(survey, paths, vintage=None):
    with pytest.raises(EpidemiaError) as error:
        build_survey(survey, paths, vintage=vintage, replicates=4, progress=False)
    return str(error.value)


# -- Microdata --------------------------------------------------------------------------------

#: Surveys, their official vintage, and how their agency writes the columns or the member's name.
MICRODATA = {
    "acs": ("2023", str),
    "brfss": ("2023", str),
    "gss": ("2022", str),
    "meps": ("2022", str),
    "nhis": ("2021", str),
    "nsduh": ("2023", str.upper),
    "scf": ("2022", str.lower),
}


@pytest.mark.parametrize("survey", MICRODATA)
def test_every_variable_of_the_official_file(tmp_path, survey):
    """Levels are those of the record's codes, and every task has its columns."""
    vintage, case = MICRODATA[survey]
    frame = official.people(survey)
    # BRFSS publishes an archive whose member's name ends in a space.
    inside = "{} " if survey == "brfss" else "{}"
    path = official.write(survey, tmp_path, frame.rename(columns=case), inside=inside)
    data = load_microdata(find_record(survey), path, vintage)
    assert (data.vintage, len(data)) == (vintage, len(frame))
    assert all(data.can_estimate(task) for task in find_record(survey).all_tasks)
    assert data.weight.tolist() == frame[data.weight_column].tolist()
    for name, way in data.variables.items():
        shown = [None if n == MISSING else way.levels[n].label for n in data.levels[name]]
        if not way.both:
            expected = official.labels(frame, survey, name)
            assert shown == [None if pd.isna(label) else label for label in expected], name
            assert len(set(shown)) > 1
    design = find_record(survey).design
    for codes, column in ((data.strata, design.strata), (data.unit, design.unit)):
        assert codes is None or codes.tolist() == (frame[column] - 1).tolist()
    assert data.psu is None or len(np.unique(data.psu)) == 40
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    assert len(load_microdata(find_record(survey), tmp_path / "unpacked", vintage)) == len(frame)


def test_brfss_truth(tmp_path, counted_only):
    """States that did not report, and Texas, where nobody has a weight here, are no cells."""
    frame = official.people("brfss", 900)
    frame.loc[frame["_STATE"] == 48, "_LLCPWT"] = 0.0
    frame = frame[~frame["_STATE"].isin([21, 42])]
    frame["_LLCPWT"] += frame["_STATE"] != 48  # everybody else has one
    name = "epidemia_low_brfss_diabetes_by_state"
    entry = built("brfss", official.write("brfss", tmp_path, frame))["tasks"][name]
    assert entry["absent"] == ["Kentucky", "Pennsylvania", "Texas"]
    answered = frame["DIABETE4"].isin([1, 2, 3, 4])
    assert entry["dropped"] == {
        "diabetes missing": int((~answered).sum()),
        "state missing": int((answered & frame["_STATE"].isna()).sum()),
        "weight zero": int((answered & (frame["_STATE"] == 48)).sum()),
    }
    truth = store.load_truth(name)
    answer = frame["DIABETE4"].map({1: "Yes", 2: "Yes", 3: "No", 4: "No"})
    state = official.labels(frame, "brfss", "state")
    assert truth.n.tolist() == agrees(truth, state, answer, frame["_LLCPWT"])
    asked = Wording(truth)
    assert "have diabetes, even if only during pregnancy?" in asked.question(0)
    assert asked.probability(0, 1).endswith(
        " never been told they have diabetes, not even during pregnancy?"
    )
    assert set(truth.distances) == {"iid", "design", "population"}


def test_nhanes_files_joined(tmp_path, monkeypatch):
    """Four files of different people, given one by one or as a folder with others in it."""
    monkeypatch.setattr(boosted, "ROUNDS", 2)
    frames = official.nhanes()
    paths = official.write_nhanes(tmp_path / "raw", frames)
    assert len(load_microdata(find_record("nhanes"), tmp_path / "raw")) == len(frames["DEMO_L"])
    assert built("nhanes", paths[::-1])["rows"] == len(frames["DEMO_L"])
    joined = frames["DEMO_L"].merge(frames["BMX_L"], "left", on="SEQN")
    adults = joined.merge(frames["DIQ_L"], "left", on="SEQN").query("RIDAGEYR >= 18")
    groups = [level.label for level in find_record("nhanes").variables["bmi"][0].levels]
    bmi = pd.cut(adults["BMXBMI"], [0, 18.5, 25, 30, 35, 40, 99], right=False, labels=groups)
    told = adults["DIQ010"].map({1: "Yes", 3: "Yes", 2: "No"})
    truth = store.load_truth("epidemia_low_nhanes_diabetes_by_bmi")
    agrees(truth, bmi.astype(object), told, adults["WTMEC2YR"])


def party_by_sex(frame, weight="wtssnrps"):
    return (*(official.labels(frame, "gss", name) for name in ("sex", "party")), frame[weight])


def test_gss_single_year_file(tmp_path, counted_only):
    """The oversample has no weight; what is left is told by the official number of people."""
    frame = official.people("gss", 3700)
    weights = ["wtssps", "wtssnrps", "vstrat", "vpsu"]
    frame.loc[3544:, weights] = np.nan
    frame["wtssps"] += 1
    # Tagged missing values (.i, .n) are blanks.
    tagged, tags = frame.copy(), {"partyid": ["i"], "degree": ["n"]}
    for name, (tag,) in tags.items():
        tagged[name] = frame[name].astype(object).where(frame[name].notna(), tag)
    path = official.save(tagged, tmp_path / "gss.dta", missing_user_values=tags)
    entry = built("gss", path)
    assert (entry["vintage"], entry["rows"], entry["weight"]) == ("2022", 3544, "wtssnrps")
    truth = store.load_truth("epidemia_low_gss_party_by_sex")
    sex, party, weight = party_by_sex(frame)
    agrees(truth, sex, party, weight)
    dropped = entry["tasks"][truth.task]["dropped"]
    assert dropped["party missing"] == int((party.isna() & weight.notna()).sum())


def test_gss_cumulative_file(tmp_path, counted_only):
    """--vintage selects a year from the file of all years, and only that year counts."""
    years = {y: official.people("gss", 300, seed=y).assign(year=y) for y in (1972, 2018, 2022)}
    years[1972][["wtssnrps", "vstrat", "vpsu"]] = np.nan
    path = official.save(pd.concat(years.values()), tmp_path / "gss7224_r1.dta")
    assert "give --vintage" in refused("gss", path)
    assert "no rows of gss 2024" in refused("gss", path, "2024")
    for year in (2018, 2022):
        assert built("gss", path, vintage=str(year))["vintage"] == str(year)
        truth = store.load_truth("epidemia_low_gss_party_by_sex", str(year))
        agrees(truth, *party_by_sex(years[year]))


def test_meps_in_every_format(tmp_path, counted_only):
    """Excel, Stata and ASCII with either kind of statements give the same people."""
    frame = official.people("meps", 300)
    sas = official.write_ascii(frame, tmp_path / "sas" / "h243.dat", "h243su.txt")
    stata = official.write_ascii(frame, tmp_path / "stata" / "h243.dat", "h243stu.txt")
    upper = official.write_ascii(frame, tmp_path / "upper" / "H243.DAT", "H243SU.TXT")
    statements = {path.name: path for path in (stata, stata.with_name("h243stu.txt"))}
    whole = official.zipped(tmp_path / "h243dat.zip", statements)
    # AHRQ's own archive holds only h243.dat; the statements are a download of their own.
    bare = official.zipped(tmp_path / "sas" / "h243dat.zip", {"h243.dat": sas})
    sas.unlink()
    given = [bare, [bare, bare.with_name("h243su.txt")], upper, stata.parent, whole]
    given += [official.save(frame, tmp_path / "h243.xlsx")]
    packed = official.write("meps", tmp_path, frame)
    expected = load_microdata(find_record("meps"), packed, every=True)
    for path in given:
        data = load_microdata(find_record("meps"), path, every=True)
        assert data.weight.tolist() == expected.weight.tolist(), path
        for name, levels in expected.levels.items():
            assert (data.levels[name] == levels).all(), (path, name)
    # -15 (cannot be computed) means as little as -8 (don't know).
    assert (expected.levels["education"][frame["EDUCYR"] < 0] == MISSING).all()
    entry = built("meps", packed)["tasks"]["epidemia_low_meps_insured_by_race"]
    insured, race = (official.labels(frame, "meps", name) for name in ("insured", "race"))
    weightless = (frame["PERWT22F"] == 0) & insured.notna() & race.notna()
    assert entry["dropped"]["weight zero"] == weightless.sum() > 0
    agrees(store.load_truth("epidemia_low_meps_insured_by_race"), race, insured, frame["PERWT22F"])


# -- Published tables -------------------------------------------------------------------------

#: Rows that belong to no level, beside those of a grand total.
BLS = ["Total, 16 years and over", "Management occupations", "Engineers, all other"]
FBI = ["All other offenses (except traffic)", "Violent crime", "Property crime"]


@pytest.mark.parametrize(
    ("survey", "vintage", "others", "layout"),
    [
        ("bls", "2023", BLS, {}),
        ("bls", "2023", BLS, {"down": 3}),
        ("fbi", "2019", FBI, {}),
        ("fbi", "2019", FBI, {"down": 3, "names": ("output.xls", "output (1).xls")}),
        ("ipeds", "2023", ["Grand total"], {}),
    ],
)
def test_published_tables(tmp_path, survey, vintage, others, layout):
    """Headers wherever they stand; footnote digits, percentages, aggregates, dashes mislead not."""
    frames = official.tables(survey, vintage, *others)
    if survey == "bls":
        for frame in frames:  # an occupation of too few people
            frame.loc["Legislators"] = [12.0, *[np.nan] * (frame.shape[1] - 1)]
    written = {"vintage": vintage, **layout}
    made = built(survey, official.write_tables(tmp_path, survey, frames, **written))
    assert made["vintage"] == vintage
    for table, frame in zip(find_record(survey).vintages[vintage].tables, frames, strict=True):
        truth = store.load_truth(
            f"epidemia_low_{survey}_{table.outcome}_by_{table.given[0]}", vintage
        )
        entry = made["tasks"][truth.task]
        assert entry["absent"] == []
        dropped = {"left out on purpose (headings, totals, other)": len(others)}
        assert entry["dropped"] == dropped | (
            {"no figures published": 1} if survey == "bls" else {}
        )
        levels = find_record(survey).variables[table.given[0]][0].levels
        names = {level.label: level.names[0] for level in levels}
        rows = frame.loc[[names[given[0]] for given in truth.given]]
        sizes, printed = rows.iloc[:, 0].astype(float), rows.iloc[:, 1:].to_numpy(float)
        if table.unit == "count":
            expected = printed / printed.sum(axis=1, keepdims=True)
        else:
            rest = 100 - printed.sum(axis=1, keepdims=True)
            # What has no column is left: the first of the sexes, the last of the races.
            sides = [rest, printed] if table.outcome == "sex" else [printed, rest]
            expected = np.concatenate(sides, axis=1) / 100
        assert truth.p == pytest.approx(expected, abs=1e-9)
        if table.total:  # asked as "a crime", it weighs what no other row covers
            sizes[table.total] -= sizes.drop(table.total).sum()
            assert sizes[table.total] == frame.loc[others].iloc[:, 0].sum()
        assert truth.weights == pytest.approx((sizes / sizes.sum()).to_numpy())


SHIPPED = store.read_registry(paths.shipped_groundtruth())


@pytest.mark.parametrize(
    "key",
    [
        key
        for key, of in SHIPPED.items()
        if find_record(of["survey"]).vintages[of["vintage"]].tables
    ],
)
def test_shipped_tables_are_what_their_files_say(key, tmp_path):
    """Every figure, of the files as their agencies publish them."""
    shipped = SHIPPED[key]
    places = RAW, REPOSITORY / "tests" / "data"
    found = [[*chain(*(of.rglob(raw["file"]) for of in places))] for raw in shipped["raw"]]
    if not all(found):
        pytest.skip("needs the real files beside the checkout")
    how = {"vintage": shipped["vintage"], "replicates": 4, "progress": False}
    build_survey(shipped["survey"], [file for file, *_ in found], out=tmp_path, **how)
    name = shipped["files"]["cells"]["name"]
    made, known = (next(of.rglob(name)) for of in (tmp_path, paths.shipped_groundtruth()))
    pd.testing.assert_frame_equal(pd.read_parquet(made), pd.read_parquet(known))


def test_a_table_that_says_its_year_in_a_column_or_its_name(tmp_path):
    """Nothing is printed above the table of a parquet file."""
    table = raw_file("bls", "cpsaat11_2023.parquet")
    unnamed, named = tmp_path / "table.parquet", tmp_path / "cpsaat11_2023.parquet"
    pd.read_parquet(table).to_parquet(unnamed)
    pd.read_parquet(table).drop(columns="year").to_parquet(named)
    for path in (table, unnamed, named):
        assert "the table of bls 2023, not 2019" in refused("bls", path, "2019")
    with pytest.raises(EpidemiaError, match="is a published table: give --bootstrap iid"):
        build_survey("bls", table, vintage="2023", bootstrap=["design"], progress=False)


def test_tables_that_are_not_as_the_record_says(tmp_path, monkeypatch):
    """Of another year, with another header or an unknown row; without the library that reads it."""

    def wrong(survey, frames, vintage=None, **layout):
        return refused(survey, official.write_tables(tmp_path, survey, frames, vintage, **layout))

    bls = official.tables("bls")
    assert "the table of bls 2019, not 2023: give --vintage 2019" in refused(
        "bls", official.write_tables(tmp_path, "bls", bls, year="2019"), "2023"
    )
    path = official.write_tables(
        tmp_path, "fbi", official.tables("fbi", "2019"), "2019", year="2018"
    )
    assert "2018" in refused("fbi", path, "2019")
    assert "2020-21" in wrong("ipeds", official.tables("ipeds"), year="2020-21")
    renamed = [frame.rename(columns={"Women": "Females"}) for frame in bls]
    said = "cpsaat11.xlsx has no table of sex by occupation (it lacks the header Women or "
    assert said in wrong("bls", renamed)
    said = "1 rows that the record does not list, for example 'Dragon tamers'"
    assert said in wrong("bls", official.tables("bls", None, "Dragon tamers"))
    # A figure may look like another year: thousands of chief executives.
    for frame in bls:
        frame.iloc[0, 0] = 2019
    (path,) = official.write_tables(tmp_path, "bls", bls)
    assert build_survey("bls", path, replicates=4, progress=False).key == "bls_2023"
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert "cannot read cpsaat11.xlsx (" in (said := refused("bls", path)) and "openpyxl" in said


# -- Files that are wrong ---------------------------------------------------------------------


def cut(path, share=0.6):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def test_truncated_files_are_named(tmp_path):
    (workbook,) = official.write_tables(tmp_path, "bls", official.tables("bls"))
    assert "cpsaat11.xlsx cannot be read as .xlsx" in refused("bls", cut(workbook))
    tables = official.write_tables(tmp_path, "fbi", official.tables("fbi", "2019"), "2019")
    assert "table-43a.xls cannot be read as .xls" in refused("fbi", [tables[0], cut(tables[1])])
    frame = official.people("nsduh", 100)
    archive = official.write("nsduh", tmp_path, frame)
    assert f"{archive.name} cannot be unpacked in" in refused("nsduh", cut(archive))
    stata = cut(official.save(frame, tmp_path / "NSDUH_2023.dta"))
    assert "NSDUH_2023.dta cannot be read as .dta" in refused("nsduh", stata)
    meps = cut(official.save(official.people("meps", 50), tmp_path / "h243.xlsx"))
    assert "h243.xlsx cannot be read as .xlsx" in refused("meps", meps)
    # Whole transport files consist of records of 80 bytes, so nearly every cut shows.
    paths = official.write_nhanes(tmp_path, official.nhanes(300))
    path = tmp_path / "BMX_L.xpt"
    assert path.stat().st_size % 80 == 0
    path.write_bytes(path.read_bytes()[:-4001])
    assert "BMX_L.xpt" in refused("nhanes", paths)


def test_columns_of_another_year(tmp_path):
    """MEPS puts the year into its column names."""
    frame = official.people("meps", 60).rename(columns=lambda name: name.replace("22", "21"))
    message = refused("meps", official.save(frame, tmp_path / "h243.xlsx"), "2022")
    assert "lacks column PERWT22F of meps 2022 (nearest: PERWT21F)" in message
    assert "looks like 2021-panels24-26: give --vintage 2021-panels24-26" in message


def test_a_file_of_another_survey_and_a_folder_without_files(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    assert "(known: a, b): it is another vintage, a subset without" in refused("meps", path)
    message = refused("meps", tmp_path)
    assert f"{tmp_path} contains none of the survey's files: expected h243, h243" in message


def test_what_is_unpacked_stays_inside_and_is_gone_afterwards(tmp_path, monkeypatch, counted_only):
    temporary = tmp_path / "deep" / "er" / "temporary"
    temporary.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    text = official.people("nhis", 60).to_csv(index=False)
    archive = official.zipped(tmp_path / "adult21csv.zip", {"../../../adult21.csv": text})
    before = set(tmp_path.rglob("*"))
    with open_raw([archive], find_record("nhis").expected_files) as files:
        assert [file.name for file in files] == ["adult21.csv"]
        new = set(tmp_path.rglob("*")) - before
        assert files[0] in new and all(temporary in path.parents for path in new)
    assert set(tmp_path.rglob("*")) == before
    # The registry names the archive that was given.
    out = tmp_path / "out"
    made = build_survey("nhis", archive, replicates=4, bootstrap=["iid"], out=out, progress=False)
    truth = json.loads((out / "marginal/registry.json").read_text())["truths"][made.key]
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert truth["raw"] == [{"file": "adult21csv.zip", "sha256": digest}]
    assert list(temporary.iterdir()) == []


# -- Files as they lie on a disk ----------------------------------------------------------------


@pytest.mark.parametrize("given", ["raw", "raw/archive.zip", "raw/GSS2022.dta"])
def test_the_name_of_the_file_inside_tells_the_year(tmp_path, given):
    (tmp_path / "raw").mkdir()
    path = official.save(official.people("gss", 80), tmp_path / "raw" / "GSS2022.dta")
    if given.endswith(".zip"):
        official.zipped(tmp_path / given, {"2022/GSS2022.dta": path, "2022/Codebook.pdf": "%PDF"})
    assert load_microdata(find_record("gss"), tmp_path / given).vintage == "2022"


@pytest.mark.parametrize("survey", ["meps", "gss", "acs", "twins"])
def test_nobody_counts_twice(tmp_path, survey):
    """An archive and what was unpacked from it lie side by side: read once, or refused."""
    twins, survey = survey == "twins", survey.replace("twins", "acs")
    frame = official.people(survey, 60)
    path = official.write(survey, tmp_path, frame)
    if twins:  # two members of one name
        halves = {"a/psam_pusa.csv": frame[:40], "b/psam_pusa.csv": frame[40:]}
        texts = {name: half.to_csv(index=False) for name, half in halves.items()}
        official.zipped(path, texts)
    else:
        with zipfile.ZipFile(path) as bundle:
            bundle.extractall(tmp_path)
    try:
        data = load_microdata(find_record(survey), tmp_path, MICRODATA[survey][0])
    except EpidemiaError as error:
        assert any(name in str(error).lower() for name in ("h243", "gss2022", "psam_pusa"))
    else:
        assert sorted(data.weight) == sorted(frame[data.weight_column])


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
    path = official.write("nhis", tmp_path, official.people("nhis", 300))
    content = bytearray(path.read_bytes())
    damage(content)
    path.write_bytes(bytes(content))
    assert "adult21csv.zip" in refused("nhis", path)


def test_labels_in_another_encoding(tmp_path):
    """NORC's gss7224_r1.dta has a broken apostrophe in a label (WizardMac/ReadStat issue 344).

    SAS writes the encoding of the agency's Windows, as in NHANES' FERTIN_L.xpt.
    """
    apostrophe, frame = "\u2019", official.people("gss", 50)
    labels = {"race": {1.0: f"don{apostrophe}t know"}}
    path = tmp_path / "gss7224_r1.dta"
    official.save(frame, path, variable_value_labels=labels)
    path.write_bytes(path.read_bytes().replace(apostrophe.encode(), b"\xe2\x80\xff"))
    assert len(load_microdata(find_record("gss"), path, "2022")) == 50
    frame = official.people("brfss", 60)
    labels = [f"DON{apostrophe}T KNOW" if name == "EXTRA" else "" for name in frame]
    path = official.save(frame, tmp_path / "LLCP2023.XPT", column_labels=labels)
    path.write_bytes(path.read_bytes().replace(apostrophe.encode(), b"\x92  "))
    assert len(load_microdata(find_record("brfss"), path)) == 60
