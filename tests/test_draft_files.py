"""Drafts of odd, bad and large files, what they write, and the command."""

import re
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml
from conftest import REPOSITORY, nsduh_2023
from drafts import ROWS, TABLES, YES, csv_of, labelled_sav, labels_of, loaded, people, way
from hypothesis import given, settings
from hypothesis import strategies as st
from official import save
from typer.testing import CliRunner

from lm_eval_epidemia import benchmarks, cli
from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.core import names
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.surveys import catalogue
from lm_eval_epidemia.surveys.catalogue import load_record
from lm_eval_epidemia.surveys.draft import columns, tally, words
from lm_eval_epidemia.surveys.draft.columns import DraftOptions
from lm_eval_epidemia.surveys.draft.design import Sampling
from lm_eval_epidemia.surveys.draft.drafting import draft_record, own_path, write_draft
from lm_eval_epidemia.surveys.draft.tasks import TaskPlan
from lm_eval_epidemia.surveys.draft.variables import draft_variable
from lm_eval_epidemia.surveys.draft.words import CHECK, clean_text, marks, quote_number, quoted
from lm_eval_epidemia.surveys.draft.writing import DraftSource, record_text
from lm_eval_epidemia.surveys.microdata import load_microdata
from lm_eval_epidemia.surveys.read import FORMATS, read_columns, round_float32

pyreadstat = pytest.importorskip("pyreadstat")


@pytest.fixture
def sav(tmp_path):
    return labelled_sav(tmp_path)


# -- Text of a file ----------------------------------------------------------------------------

ODD = (
    "{year}¦{{7*7}}¦%s¦- a: [b¦!!python/object/apply:os.system ['x']¦&a *a¦---¦# check: everything¦"
    "a # check: everything¦'¦\"¦\\¦\\n¦yes¦null¦~¦1.0¦0x1F¦<script>alert(1)</script>¦\u202eabc¦"
    "\x85¦\u2028¦\ufeff¦é́¦😀👩\u200d👩\u200d👧¦: ¦? x¦|¦>¦@¦`¦%YAML 1.2¦\t¦ a "
)
NASTY = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30
) | st.sampled_from([*ODD.split("¦"), "a" * 10_000, "b " * 5_000])


@settings(max_examples=60)
@given(text=NASTY)
def test_any_text_is_read_back_as_it_was_written(text):
    assert yaml.safe_load(f"a: {quoted(text)}") == {"a": text}
    assert yaml.load(f"a: {{b: {quoted(text)}}}", yaml.CSafeLoader) == {"a": {"b": text}}
    assert clean_text(text).isprintable() and clean_text(clean_text(text)) == clean_text(text)


@settings(max_examples=40)
@given(
    labels=st.lists(NASTY, min_size=2, max_size=6, unique=True),
    question=NASTY,
    name=NASTY,
    other=st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8),
)
def test_any_labels_are_drafted_and_survive(tmp_path_factory, labels, question, name, other):
    """The names and labels of a parquet's or SPSS file's columns may be anything."""
    made = []
    for place, column in enumerate((name, other), 1):
        given_ = {float(n): clean_text(label) for n, label in enumerate(labels)}
        values = tally.Tally()
        values.add(np.resize(np.arange(len(labels) + 1.0), 200), np.ones(200))
        taken = [one.name for one in made]
        held = columns.FileColumn(column, 0, place, clean_text(question), given_)
        own = words.make_unique(words.variable_name(column, place), taken)
        made.append(draft_variable(held, values, own, wanted=True))
    if any(isinstance(one, str) for one in made):
        assert all(isinstance(one, str) for one in made)
        return
    sampling = Sampling(2020, f"from {name!r}")
    source = DraftSource("any", clean_text(question), [(name, [])], 200, "", sampling)
    task = TaskPlan(made[0].name, (made[1].name,))
    text = record_text(source, made, [task], {question: [made[0].column]})
    path = tmp_path_factory.mktemp("any") / "any.yaml"
    path.write_text(text, encoding="utf-8")
    record = load_record(path)
    first = record.variables[made[0].name][0]
    assert first.column == name
    for level in first.levels:
        code = int(level.codes[0][0])
        whole = clean_text(labels[code]) if code < len(labels) else str(code)
        said = re.sub(r" \(\d+\)(_\d+)?$|_\d+$", "", level.label) if level.label != whole else whole
        kept = (whole or str(code))[:150]
        assert level.label == whole or said.startswith(kept) or whole.endswith(level.label)
        assert len(level.label) <= 250 and level.label.isprintable()
    # The marks are ours, and name their variable: a label that looks like one is none.
    assert len(marks(text)) == len(marks(text.replace("# check: everything", "x")))


def test_marks_are_comments_and_not_labels():
    text = (
        f"{CHECK} one\n"
        f'a: "{CHECK} not"  {CHECK} two\n'
        f"d: plain#check:not\n"
        f"e: [1, 2]  {CHECK} three\n{CHECK}\n"
    )
    found = [(mark.line, mark.says) for mark in marks(text)]
    assert found == [(1, "one"), (2, "two"), (4, "three"), (5, CHECK)]
    records = Path(catalogue.__file__).parent.glob("*.yaml")
    assert all(marks(path.read_text()) == [] for path in records)


def test_numbers_are_read_back():
    for value in (1.0, -8.0, 0.1, 1e300, -1e-5, 1e-300, 2.0**60, float("inf"), -float("inf")):
        assert yaml.safe_load(quote_number(value)) == value


def test_names_of_variables():
    names_of = {"Q1 (a)": "q1_a", "_LLCPWT": "llcpwt", "1st": "v1st", "年齢": "v7", "Größe": "groe"}
    names_of |= {"a_by_b": "a_per_b", "closed": "closed_v", "No": "no_v", "a" * 90: "a" * 40}
    names_of |= {"x_likelihood": "x_likelihood_v"}
    for column, name in names_of.items():
        assert words.variable_name(column, 7) == name
    assert {way.suffix.split("_")[-1] for way in WAYS.values()} - {""} <= set(names.ENDINGS)
    groups = {name.removeprefix("epidemia_").split("_")[0] for name in benchmarks.list_groups()}
    assert groups <= names.RESERVED


def test_numbers_are_as_meant_and_dates_cost_themselves(home, tmp_path):
    """Zero as pandas.read_sas has it, 3.3 in single precision, a date beyond the year 9999."""
    frame = pd.DataFrame({"sex": np.resize([1.0, 2], ROWS)})
    frame["drinks"] = np.resize([1, 5.397605346934028e-79, 5.397605346934028e-79], ROWS)
    grades = np.array([3.3, 2.7, 2.7, 3.3], np.float32).astype(float)
    frame["grade"] = np.resize(grades, ROWS)
    frame["day"] = np.where(np.arange(ROWS) == 3, 6.4e12, 13.9e9)
    path = tmp_path / "x2020.sav"
    pyreadstat.write_sav(frame, str(path), variable_format={"day": "DATETIME20"})
    found = draft_record([path], DraftOptions(outcomes=["drinks"], given=["sex", "grade"]))
    assert labels_of(loaded(found, tmp_path), "drinks") == ["0", "1"]
    assert [column.name for column in found.left_out["dates or times"]] == ["day"]
    with pytest.raises(EpidemiaError, match="column day contains dates or times"):
        read_columns(path, ["day"])
    assert round_float32(grades).tolist() == [3.3, 2.7, 2.7, 3.3]
    kept = [0.1, 1 / 3, 0.5, -2.375, 16_777_217.0, 123_456_792.0, np.inf]
    assert round_float32(np.array(kept)).tolist() == kept


@pytest.mark.parametrize("of", ["string", "large_string", "string_view", "binary", "dictionary"])
def test_every_kind_of_text_in_parquet_is_text(tmp_path, of):
    words = pa.array(np.resize(["Red", "Blue", "Blue"], ROWS))
    words = words.dictionary_encode() if of == "dictionary" else words.cast(getattr(pa, of)())
    table = pa.table({"party": words, "sex": np.resize([1, 2], ROWS)})
    pyarrow.parquet.write_table(table, tmp_path / "x2020.parquet")
    found = draft_record([tmp_path / "x2020.parquet"])
    assert sorted(labels_of(loaded(found, tmp_path), "party")) == ["Blue", "Red"]


IMPORTED = ",".join(f'"{{""ImportId"":""QID{n}""}}"' for n in (1, 2))
PLATFORMS = {
    'Q1,Q2\n"Your sex?","Are you\nhappy?"\n' + IMPORTED: ["Q1", "Q2"],
    "Respondent ID,Which?,,Happy?\n,Tea,Other,Response": ["Which?: Tea", "Which?: Other", "Happy?"],
    'ResponseId,Q1,Q2\nResponse ID,Your sex?,"Are you happy?"': ["Q1", "Q2"],
}


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
@pytest.mark.parametrize("above", PLATFORMS)
def test_header_rows_of_survey_platforms_are_no_people(tmp_path, above, suffix):
    """Of Qualtrics and of SurveyMonkey."""
    names, path = PLATFORMS[above], tmp_path / "x2020.csv"
    rows = [["Male", "Yes"], ["Female", "No"], ["Male", "No"]] * 40
    width = above.partition("\n")[0].count(",") + 1
    rows = [[f"R_{n}", *row[: width - 3], *row][-width:] for n, row in enumerate(rows)]
    path.write_text("\n".join([above, *map(",".join, rows)]))
    if suffix == "xlsx":
        table = pd.read_csv(path, header=None, dtype=str)
        with pd.ExcelWriter(path := path.with_suffix(".xlsx")) as book:
            table.to_excel(book, index=False, header=False)
            table.to_excel(book, sheet_name="Codes")
    found = draft_record([path])
    assert [each.column.name for each in found.variables] == names
    assert found.variables[-1].column.label == ("Are you happy?" if len(names) == 2 else "")
    said = " ".join(found.notes)
    assert f"begins with {above.count(IMPORTED) + 2} header rows" in said
    assert ("only the first was read: Sheet1" in said) == (suffix == "xlsx")
    assert len(load_microdata(loaded(found, tmp_path), path)) == found.source.rows == 120


@pytest.mark.parametrize("suffix", sorted({*FORMATS} - {".xls", ".dat", ".sas7bdat"}))
def test_a_draft_reads_the_formats_that_its_error_lists(tmp_path, suffix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"sex": np.resize([1.0, 2.0], ROWS), "mood": np.resize([1.0, 2, 3], ROWS)})
    path = tmp_path / f"x2020{suffix}"
    if suffix == ".por":
        pyreadstat.write_por(frame.rename(columns=str.upper), str(path))
    elif suffix == ".zsav":
        pyreadstat.write_sav(frame, str(path), compress=True)
    else:
        save(frame, path)
    assert draft_record([path]).source.rows == ROWS
    with pytest.raises(EpidemiaError, match=re.escape(f"{suffix}, ")):
        draft_record([csv_of().rename("x2020.csv.gz")])


# -- Bad files ---------------------------------------------------------------------------------


def test_a_long_name_of_a_file_makes_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = draft_record([csv_of("a" * 200 + "2020.csv", q=np.arange(ROWS) % 4)])
    assert found.name == "a" * 34


def test_a_file_without_any_label_or_demography(tmp_path):
    rng = np.random.default_rng(2)
    path = tmp_path / "bare2020.csv"
    pd.DataFrame(rng.integers(0, 4, (ROWS, 6)), columns=list("abcdef")).to_csv(path, index=False)
    found = draft_record([path])
    assert found.plans and "no column looks like age" in found.notes[0]
    asks = "if these are codes, write what they mean: the file has no labels"
    assert {one.checks for one in found.variables} == {(asks,)}


def test_labels_in_another_encoding(tmp_path):
    path = tmp_path / "cyr2020.sav"
    frame = pd.DataFrame({"sex": np.resize([1.0, 2], ROWS), "q": np.resize([1.0, 1, 2], ROWS)})
    pyreadstat.write_sav(frame, str(path), variable_value_labels={"q": {1: "QQ", 2: "NNN"}})
    russian = path.read_bytes().replace(b"QQ", "Да".encode("cp1251"))
    path.write_bytes(russian.replace(b"NNN", "Нет".encode("cp1251")))
    wrong = loaded(
        draft_record([path]), tmp_path
    )  # read as Western European, as files are that err
    right = loaded(draft_record([path], DraftOptions(encoding="CP1251")), tmp_path)
    assert labels_of(wrong, "q") == ["Äà", "Íåò"]
    assert labels_of(right, "q") == ["Да", "Нет"]
    # The record has no place for an encoding, so words are not read in one.
    frame["vote"] = np.resize(["a", "b", "b"], ROWS)
    pyreadstat.write_sav(frame, str(path))
    assert "vote" not in {
        one.name for one in draft_record([path], DraftOptions(encoding="CP1251")).variables
    }
    western = tmp_path / "west2020.csv"
    rows = "1,groß\n2,klein\n2,groß\n1,klein\n1,groß\n" * 20
    western.write_bytes(f"sex,Größe\n{rows}".encode("latin-1"))
    record = loaded(draft_record([western]), tmp_path)
    assert labels_of(record, "groe") == ["groß", "klein"]
    assert way(record, "groe").column == "Größe"


def test_a_csv_that_windows_wrote_is_drafted_and_built(tmp_path, home):
    path = tmp_path / "windows2020.csv"
    answers = np.resize(["„Groß“", "klein", "Don\u2019t know"], 300)
    frame = pd.DataFrame({"sex": np.resize(["m", "f"], 300), "q € 1": answers})
    frame.to_csv(path, index=False, encoding="cp1252")
    found = draft_record([path])
    assert [note for note in found.notes if "save it as UTF-8" in note]
    record = load_record(write_draft(found))
    question = way(record, "q_1")
    assert labels_of(record, "q_1") == ["klein", "„Groß“"] and question.column == "q € 1"
    assert question.missing_texts == ("Don\u2019t know",)
    built = building.build_survey("windows2020", path, replicates=4, progress=False)
    assert len(built.tasks) == len(record.all_tasks)
    frame.to_csv(path, index=False)  # UTF-8 says the same, and is not remarked on
    again = draft_record([path], DraftOptions(name="windows2020"))
    assert again.text == found.text and not [note for note in again.notes if "UTF-8" in note]


def test_columns_without_a_name_or_with_one_name_are_left_out(tmp_path):
    rows = "".join(f"{n},{n % 2},{n % 3},{n % 3},{n % 5},{n % 3},{n % 2}\n" for n in range(ROWS))
    path = tmp_path / "spare2020.csv"
    path.write_text(f",sex,q,Q,r 1,r-1,r_1\n{rows}")
    found = draft_record([path])
    assert [one.name for one in found.variables] == ["sex", "r_1", "r_1_2", "r_1_3"]
    unnamed, shared = found.left_out.values()
    assert [*found.left_out][1].startswith("name shared by several columns (")
    assert [[column.name for column in listed] for listed in (unnamed, shared)] == [
        [""],
        ["q", "Q"],
    ]


def test_a_sas_file_is_drafted_and_built(tmp_path, home):
    """No library here writes .sas7bdat: Fisher's irises, an example of R's haven (MIT)."""
    with zipfile.ZipFile(REPOSITORY / "tests/data/iris.sas7bdat.zip") as archive:
        archive.extract("iris.sas7bdat", tmp_path)
    path = tmp_path / "iris.sas7bdat"
    record = load_record(
        write_draft(draft_record([path], DraftOptions(year=2020, outcomes=["Species"])))
    )
    assert labels_of(record, "species") == ["setosa", "versic", "virgin"]
    lengths = [level.intervals[0][0] for level in way(record, "sepal_length").levels[1:]]
    assert lengths == [5.1, 5.6, 6, 6.5]
    built = building.build_survey("iris", path, replicates=4, progress=False)
    assert set(built.tasks) == {task.name for task in record.all_tasks}


def test_columns_of_a_parquet_file_that_hold_other_things(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "sex": pd.Categorical(rng.choice(["m", "f"], ROWS)),
            "smokes": rng.random(ROWS) < 0.3,
            "perhaps": rng.choice([True, False, None], ROWS),
            "when": pd.Timestamp("2020-01-01"),
            "lists": [[1, 2]] * ROWS,
            "nothing": None,
            "endless": rng.choice([1.0, np.inf], ROWS),
            "born": rng.choice(["1990-01-02", "1991-03-04", "1992-05-06"], ROWS),
            "a + b": 1.0,
            "bell\x07": 1.0,
        }
    )
    path = tmp_path / "odd2020.parquet"
    frame.to_parquet(path)
    found = draft_record([path], DraftOptions(outcomes=["smokes", "perhaps"], given=["sex"]))
    record = loaded(found, tmp_path)
    assert labels_of(record, "smokes") == ["No", "Yes"]
    assert labels_of(record, "perhaps") == ["False", "True"]
    assert len(found.plans) == 2
    left_out = {reason: [c.name for c in listed] for reason, listed in found.left_out.items()}
    assert left_out == TABLES["odd"]


def test_a_zipped_file_is_named_with_what_is_in_it(sav, tmp_path):
    with zipfile.ZipFile(tmp_path / "mine2022.zip", "w") as archive:
        archive.write(sav, "mine2022.sav")
    found = draft_record([tmp_path / "mine2022.zip"], DraftOptions(weight="finalwt"))
    (file,) = loaded(found, tmp_path).vintages["2022"].files
    assert (file.name, file.members) == ("mine2022.zip", ("mine2022.sav",))


def test_many_columns_and_many_rows_in_little_memory(tmp_path):
    """At most 500 variables are drafted. Of a column only counts are kept: 64 MB, in 10 parts."""
    import tracemalloc

    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    wide = {f"q{n}": rng.integers(1, 5, 100) for n in range(699)}
    pq.write_table(pa.table({"sex": np.resize([1, 2, 2], 100), **wide}), tmp_path / "w2020.parquet")
    found = draft_record([tmp_path / "w2020.parquet"], DraftOptions(outcomes=["q690"]))
    assert len(found.variables) == 500 and "q690" in {one.name for one in found.variables}
    assert sum(map(len, found.left_out.values())) == 700 - 500
    path = tmp_path / "long2020.parquet"
    rows, width = 200_000, 40
    with pq.ParquetWriter(path, pa.schema([(f"x{n}", pa.float64()) for n in range(width)])) as file:
        for _ in range(10):
            block = rng.lognormal(10, 2, (rows // 10, width))
            file.write_table(pa.table({f"x{n}": block[:, n] for n in range(width)}))
    tracemalloc.start()
    header = columns.header_of(path)
    counted = tally.count(path, header.columns, np.ones(rows, bool), np.ones(rows))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * rows * width / 2, "half of the numbers were in memory"
    one = counted["x0"]
    assert not one.exact and len(one.values) <= tally.MOST and one.counts.sum() == rows
    # Three digits: the median of a lognormal is exp(10).
    middle = one.values[np.searchsorted(one.counts.cumsum(), rows / 2)]
    assert middle == pytest.approx(np.exp(10), rel=0.03)


def test_blocks_of_every_format_have_the_same_rows(tmp_path, monkeypatch):
    frame = people()[["age", "happy", "finalwt", "note"]]
    monkeypatch.setattr(tally, "CELLS", 4000)  # 1,000 rows at the least
    frame = pd.concat([frame] * 5, ignore_index=True)  # two blocks, and nothing after them
    pyreadstat.write_sav(frame, str(tmp_path / "a.sav"))
    pyreadstat.write_dta(frame, str(tmp_path / "a.dta"), version=14)
    pyreadstat.write_xport(frame, str(tmp_path / "a.xpt"), table_name="A")
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    keep = np.arange(len(frame)) % 3 > 0
    weight = frame["finalwt"].to_numpy()
    expected = frame["happy"][keep].value_counts().sort_index()
    for suffix in ("sav", "dta", "xpt", "parquet", "csv"):
        path = tmp_path / f"a.{suffix}"
        found = tally.count(path, columns.header_of(path).columns, keep, weight)
        happy = found["happy"]
        assert happy.values.tolist() == expected.index.tolist(), suffix
        assert happy.counts.tolist() == expected.tolist()
        assert happy.weights.sum() + happy.blank_weight == pytest.approx(weight[keep].sum())
        assert (found["note"].words and len(found["note"].texts) == ROWS - ROWS // 3) or suffix


# -- The command -------------------------------------------------------------------------------


def epidemia(line, **options):
    done = CliRunner().invoke(cli.app, shlex.split(line), **options)
    if done.exception and not isinstance(done.exception, SystemExit | EpidemiaError):
        raise done.exception
    return done


def test_the_command_drafts_counts_and_says_what_comes_next(sav, home):
    done = epidemia(f"survey new {sav} --weight finalwt")
    assert done.exit_code == 0, done.output
    path = own_path("mine2022")
    assert path == home / "surveys" / "mine2022.yaml" and path.is_file()
    count = len(marks(path.read_text()))
    assert f"check its {count} places marked" in done.output
    assert "constant: everybody has one answer" in done.output
    *_, check, build, ask = done.output.splitlines()
    assert check.split() == ["epidemia", "survey", "check", "mine2022", "--raw", str(sav)]
    assert build.split() == ["epidemia", "groundtruth", "build", "mine2022", "--raw", str(sav)]
    assert ask.strip() == "lm_eval --tasks epidemia_mine2022 --model ..."
    listed = epidemia("survey check mine2022").output
    assert f"{count} places in {path}" in listed.replace("\n", "") and "who publishes it" in listed
    checked = epidemia(f"survey check mine2022 --raw {sav}").output
    tasks = len(load_record(path).all_tasks)
    assert f"{tasks} of {tasks} tasks with all columns" in checked
    assert f"{count} places" in checked
    path.write_text(path.read_text().replace(CHECK, "#"))
    assert "nothing is left to check" in epidemia("survey check mine2022").output
    again = epidemia(f"survey new {sav} --weight finalwt")
    assert "already exists: delete it, or give another --name" in str(again.exception)
    path.unlink()
    assert epidemia(f"survey new {sav} --yes").exit_code == 0
    assert load_record(path).design.strata == "vstrat"


def test_the_command_with_several_names(sav, home):
    named = """--outcomes 'gun,"happy"' --given sex --name other"""
    done = epidemia(f"survey new {sav} --weight none {named}")
    assert done.exit_code == 0, done.output
    record = load_record(own_path("other"))
    assert {task.outcome for task in record.all_tasks} == {"gun", "happy"}


def test_what_cannot_be_written_leaves_nothing(sav, home):
    (home / "surveys").write_text("")
    with pytest.raises(EpidemiaError, match="cannot write"):
        write_draft(draft_record([sav], YES))
    assert not list(home.glob("**/.mine2022.yaml*"))


def test_a_known_survey_is_drafted_from_its_official_layout(tmp_path):
    """NSDUH as the agency codes it, without a label: codes that are far away are guessed."""
    path = tmp_path / "NSDUH_2023.parquet"
    nsduh_2023(800).to_parquet(path)
    found = draft_record([path], DraftOptions(name="mynsduh", accept=True))
    sampling = found.source.sampling
    assert (sampling.weight, sampling.strata, sampling.psu) == ("ANALWT2_C", "VESTR_C", "VEREP")
    record = loaded(found, tmp_path)
    assert labels_of(record, "herever") == ["1", "2"]
    assert [low for low, _ in way(record, "herever").missing] == [94, 97]
    assert len(way(record, "age3").levels) == 11
