"""Reading survey files: every format, and every way a file can be wrong."""

import zipfile

import numpy as np
import pandas as pd
import pytest
from conftest import nsduh_2023

from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.surveys.microdata import MISSING, load_microdata
from lm_eval_epidemia.surveys.record import record

pyreadstat = pytest.importorskip("pyreadstat")
NSDUH = record("nsduh")


def write(frame: pd.DataFrame, path):
    match path.suffix:
        case ".parquet":
            frame.to_parquet(path)
        case ".csv":
            frame.to_csv(path, index=False)
        case ".dta":
            pyreadstat.write_dta(frame, str(path))
        case ".sav":
            pyreadstat.write_sav(frame, str(path))
        case ".xpt":
            # Transport files have upper-case names; version 8 allows more than 8 characters.
            upper = frame.rename(columns=str.upper)
            pyreadstat.write_xport(upper, str(path), file_format_version=8)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".dta", ".sav", ".xpt"])
@pytest.mark.parametrize("zipped", [False, True])
def test_every_format_gives_the_same_microdata(tmp_path, suffix, zipped):
    frame = nsduh_2023(400)
    expected = load_microdata(NSDUH, write(frame, tmp_path / "NSDUH_2023.parquet"))
    path = write(frame, tmp_path / f"NSDUH_2023_again{suffix}")
    if zipped:
        archive = tmp_path / "NSDUH-2023-DS0001-bndl.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.write(path, f"NSDUH-2023-DS0001/{path.name}")
            bundle.writestr("NSDUH-2023-DS0001/readme.txt", "documentation")
        path = archive
    found = load_microdata(NSDUH, path)
    assert found.vintage == "2023"
    assert len(found) == 400
    assert found.variables["race"].column == "NEWRACE2"
    assert found.variables["marijuana_ever"].column == "mjever"
    for name, levels in expected.levels.items():
        assert (found.levels[name] == levels).all(), name
    assert np.allclose(found.weight, expected.weight, rtol=1e-12)
    assert (found.psu == expected.psu).all()


def test_levels_follow_the_codes(tmp_path):
    frame = nsduh_2023(12)
    frame["alcrec"] = [1, 2, 3, 8, 9, 11, 14, 91, 85, 94, 97, np.nan]
    frame["IREDUHIGHST2"] = [1, 4, 5, 7, 8, 9, 10, 11, 11, 11, 11, 11]
    data = load_microdata(NSDUH, write(frame, tmp_path / "NSDUH_2023.csv"))
    # 1 is yes; other valid codes no; bad data, don't know, refused and blank are missing.
    assert data.levels["alcohol_past_month"].tolist() == [0] + [1] * 7 + [MISSING] * 4
    assert data.levels["education"].tolist() == [0, 0, 1, 1, 2, 3, 4] + [5] * 5


def broken(tmp_path, change, name="NSDUH_2023.parquet", vintage=None):
    frame = change(nsduh_2023(50))
    with pytest.raises(EpidemiaError) as error:
        load_microdata(NSDUH, write(frame, tmp_path / name), vintage)
    return str(error.value)


def test_a_missing_weight_column(tmp_path):
    message = broken(tmp_path, lambda f: f.rename(columns={"ANALWT2_C": "ANALWT_C"}))
    assert "NSDUH_2023.parquet lacks column ANALWT2_C (nearest: ANALWT_C)" in message


def test_a_missing_variable(tmp_path):
    message = broken(tmp_path, lambda f: f.drop(columns="cigrec"))
    assert "cigarettes_past_month needs cigrec" in message
    assert "https://" in message


def test_an_unknown_code(tmp_path):
    def change(frame):
        frame.loc[[3, 7], "NEWRACE2"] = 12
        return frame

    message = broken(tmp_path, change)
    assert "column NEWRACE2" in message
    assert "12 (2 rows)" in message
    assert "2 rows: 4, 8" in message


@pytest.mark.parametrize(
    ("value", "said"),
    [(-1.0, "is negative in 1 rows: 5"), (np.nan, "is missing in 1 rows: 5")],
)
def test_a_bad_weight(tmp_path, value, said):
    def change(frame):
        frame.loc[4, "ANALWT2_C"] = value
        return frame

    assert f"column ANALWT2_C (weight) {said}" in broken(tmp_path, change)


def test_weights_that_are_all_zero(tmp_path):
    assert "zero in every row" in broken(tmp_path, lambda f: f.assign(ANALWT2_C=0.0))


def test_zero_rows(tmp_path):
    assert "has zero rows" in broken(tmp_path, lambda f: f.iloc[:0])


def test_text_where_codes_belong(tmp_path):
    message = broken(tmp_path, lambda f: f.assign(irsex="male"), "NSDUH_2023.csv")
    assert "column irsex holds text" in message


def test_a_blank_design_column(tmp_path):
    def change(frame):
        frame.loc[0, "VESTR_C"] = np.nan
        return frame

    assert "design column VESTR_C is missing in 1 rows: 1" in broken(tmp_path, change)


def test_a_vintage_that_cannot_be_told_or_is_unknown(tmp_path):
    assert "--vintage 2023 or 2022" in broken(tmp_path, lambda f: f, "survey.parquet")
    message = broken(tmp_path, lambda f: f, "survey.parquet", vintage="2021")
    assert "no vintage '2021'" in message


def test_the_wrong_vintage_is_recognised_by_its_rows(raw_nsduh):
    with pytest.raises(EpidemiaError, match=r"59,069 rows, the official count of nsduh 2022"):
        load_microdata(NSDUH, raw_nsduh, "2023")


def test_files_that_are_not_there_or_not_data(tmp_path):
    with pytest.raises(EpidemiaError, match="no file"):
        load_microdata(NSDUH, tmp_path / "nowhere.dta")
    (tmp_path / "data.rda").write_bytes(b"RDX3")
    with pytest.raises(EpidemiaError, match=r"data\.rda is not in a known format"):
        load_microdata(NSDUH, tmp_path / "data.rda")
    (tmp_path / "NSDUH_2023.dta").write_bytes(b"not Stata")
    with pytest.raises(EpidemiaError, match=r"NSDUH_2023\.dta cannot be read as \.dta"):
        load_microdata(NSDUH, tmp_path / "NSDUH_2023.dta")


def test_zip_archives_that_are_damaged_or_ambiguous(tmp_path):
    whole = tmp_path / "whole.zip"
    csv = nsduh_2023(300).to_csv(index=False)
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("NSDUH_2023.csv", csv)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(EpidemiaError, match=r"cut\.zip is not a whole zip archive"):
        load_microdata(NSDUH, cut)
    with zipfile.ZipFile(whole, "a") as archive:
        archive.writestr("NSDUH_2022.csv", csv)
    with pytest.raises(EpidemiaError, match="give one file"):
        load_microdata(NSDUH, whole)
