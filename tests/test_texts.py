"""Records without codes: levels of texts, and files that hold words."""

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY
from official import save

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys import read
from lm_eval_epidemia.surveys.catalogue import load_record
from lm_eval_epidemia.surveys.microdata import MISSING, load_microdata
from lm_eval_epidemia.surveys.read import read_columns

RECORD = (REPOSITORY / "tests" / "data" / "texts.yaml").read_text()

CODED = RECORD.replace('texts: [Male, "M"]', "codes: [1]").replace("texts: [Female]", "codes: [2]")


def load(tmp_path, text=RECORD):
    path = tmp_path / "toy.yaml"
    path.write_text(text)
    return load_record(path)


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "id": ["a1", "a2", "b1", "b2", "c1", "c2"],
            "Sex": ["Male", " Female ", "M", "Refused", "", "Female"],
            "Faith": ["None", "Some", "1", "Some", "Some", "None"],
            "area": ["north", "north", "south", "south", "south", "north"],
            "block": ["x", "y", "x", "y", "x", "x"],
        }
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".sav"])
def test_words_are_levels_in_every_format(tmp_path, frame, suffix):
    data = load_microdata(load(tmp_path), save(frame, tmp_path / f"toy{suffix}"))
    assert data.levels["sex"].tolist() == [0, 1, 0, MISSING, MISSING, 1]
    assert data.levels["faith"].tolist() == [0, 1, 0, 1, 1, 0]
    assert data.strata.tolist() == [0, 0, 1, 1, 1, 0] and data.psu.tolist() == [0, 1, 2, 3, 2, 0]


def test_categories_of_a_parquet_file_are_words(tmp_path, frame):
    frame = frame.astype({"Sex": "category", "Faith": "category"})
    data = load_microdata(load(tmp_path), save(frame, tmp_path / "toy.parquet"))
    assert data.levels["sex"].tolist() == [0, 1, 0, MISSING, MISSING, 1]


def test_files_are_joined_by_words(tmp_path, frame):
    one = save(frame[["id", "Sex", "area", "block"]], tmp_path / "one.csv")
    other = save(frame[["id", "Faith"]][::-1][:4], tmp_path / "other.csv")
    data = load_microdata(load(tmp_path), [one, other])
    assert data.levels["faith"].tolist() == [MISSING, MISSING, 0, 1, 1, 0]
    numbered = save(frame.assign(id=range(6))[["id", "Faith"]], tmp_path / "other.csv")
    with pytest.raises(EpidemiaError, match="contains numbers in one file and text in another"):
        load_microdata(load(tmp_path), [one, numbered])


def test_a_word_that_the_record_does_not_know_is_named(tmp_path, frame):
    frame.loc[[1, 5], "Sex"] = "female"
    said = r"Sex has texts .* list: 'female' \(2 rows\) \(2 rows: 2, 6\).*add the texts"
    with pytest.raises(EpidemiaError, match=said):
        load_microdata(load(tmp_path), save(frame, tmp_path / "toy.csv"))


def test_numbers_where_words_are_expected_and_the_reverse(tmp_path, frame):
    path = save(frame.assign(Sex=[1, 2, 1, 2, 1, 2]), tmp_path / "toy.csv")
    with pytest.raises(
        EpidemiaError, match=r"contains numbers, but the record .* texts such as 'Male'"
    ):
        load_microdata(load(tmp_path), path)
    coded = CODED.replace("    missing_texts: [Refused]\n", "")
    with pytest.raises(EpidemiaError, match="Sex contains text such as"):
        load_microdata(load(tmp_path, coded), save(frame, tmp_path / "toy.csv"))
    # A restriction is of codes, even on a column of words.
    restricted = RECORD.replace("join: id", "join: id\nuniverse: [{column: Faith, codes: [1]}]")
    with pytest.raises(EpidemiaError, match="Faith contains text such as"):
        load_microdata(load(tmp_path, restricted), save(frame, tmp_path / "toy.csv"))


def test_a_word_far_down_makes_the_whole_column_words(tmp_path, monkeypatch):
    """A csv is read in blocks; what is a number in the first is as it was written there."""
    monkeypatch.setattr(read, "BLOCK", 200)
    rows = ["01", "1", " 2 "] * 60 + ["two"]
    path = tmp_path / "late.csv"
    path.write_text("x,y\n" + "".join(f"{one},1\n" for one in rows))
    frame = read_columns(path, ["x", "y"], texts=["x", "y"])
    assert frame["x"].tolist() == [one.strip() for one in rows]
    assert frame["y"].dtype == np.float64
    with pytest.raises(EpidemiaError, match="x contains text such as"):
        read_columns(path, ["x"])


def test_what_stands_for_no_value(tmp_path):
    path = tmp_path / "blank.csv"
    path.write_text("x,y\nNone,None\nNA,1\n<NA>,<NA>\n,2\nyes,\nn/a,3\n")
    frame = read_columns(path, ["x", "y"], texts=["x", "y"])
    assert frame["x"].astype(object).fillna("").tolist() == ["None", "NA", "<NA>", "", "yes", "n/a"]
    assert np.nan_to_num(frame["y"], nan=-1).tolist() == [-1, 1, -1, 2, -1, 3]


def test_a_csv_that_is_not_utf8_is_western_european(tmp_path):
    path = tmp_path / "west.csv"
    path.write_bytes("Größe\ngroß\nklein\n".encode("latin-1"))
    assert read_columns(path, ["Größe"], texts=["Größe"])["Größe"].tolist() == ["groß", "klein"]


def test_as_windows_writes_it_and_otherwise_every_byte_is_a_character(tmp_path):
    path = tmp_path / "windows.csv"
    path.write_bytes("q € x\nDon\u2019t know\n5 €\n".encode("cp1252"))
    frame = read_columns(path, ["q € x"], texts=["q € x"])
    assert frame["q € x"].tolist() == ["Don\u2019t know", "5 €"]
    path.write_bytes(b"x\n\x81\n\xe4\n")  # 81 is nothing there
    assert read_columns(path, ["x"], texts=["x"])["x"].tolist() == ["\x81", "ä"]
