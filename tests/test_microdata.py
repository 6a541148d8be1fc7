"""Reading survey files: every format, and every way a file can be wrong."""

import os
import zipfile

import numpy as np
import official
import pytest
from conftest import full_disk, nsduh_2023
from official import save

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys import release
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.microdata import MISSING, load_microdata
from lm_eval_epidemia.surveys.read import read_columns, read_grids
from lm_eval_epidemia.surveys.record import Design

pyreadstat = pytest.importorskip("pyreadstat")
NSDUH = find_record("nsduh")


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".dta", ".sav", ".xpt"])
@pytest.mark.parametrize("zipped", [False, True])
def test_every_format_gives_the_same_microdata(tmp_path, suffix, zipped):
    frame = nsduh_2023(400)
    expected = load_microdata(NSDUH, save(frame, tmp_path / "NSDUH_2023.parquet"))
    path = save(frame, tmp_path / f"NSDUH_2023_again{suffix}")
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
    data = load_microdata(NSDUH, save(frame, tmp_path / "NSDUH_2023.csv"))
    # 1 is yes; other valid codes no; bad data, don't know, refused and blank are missing.
    assert data.levels["alcohol_past_month"].tolist() == [0] + [1] * 7 + [MISSING] * 4
    assert data.levels["education"].tolist() == [0, 0, 1, 1, 2, 3, 4] + [5] * 5


def test_replicate_weights_are_found_by_their_numbers(tmp_path, monkeypatch):
    """With leading zeros; without any of them, a record of one's own promises what is not there."""
    frame = official.people("acs", 200)
    names = {f"PWGTP{n}": f"REPWT{n:03d}" for n in range(1, 81)}
    design = Design(weight="PWGTP", replicates="REPWT001..080", replicate_scale=0.05)
    own = find_record("acs").model_copy(update={"survey": "mine", "design": design})
    path = save(frame.rename(columns=names), tmp_path / "psam_2023.csv")
    expected = load_microdata(find_record("acs"), save(frame, tmp_path / "psam_2023b.csv"), "2023")
    assert (load_microdata(own, path, "2023").replicates == expected.replicates).all()
    monkeypatch.setattr(release, "own_surveys", lambda: {"mine"})
    with pytest.raises(EpidemiaError, match="has only 0 of 80 replicate weights"):
        load_microdata(own, save(frame, tmp_path / "psam_2023c.csv"), "2023")


def test_a_file_without_replicate_weights_is_read(tmp_path):
    frame = official.people("acs", 200)
    without = frame[[name for name in frame if not name.startswith("PWGTP")]]
    path = save(without.assign(PWGTP=frame["PWGTP"]), tmp_path / "psam_2023.csv")
    assert load_microdata(find_record("acs"), path, "2023").replicates is None


def test_a_sampled_unit_in_two_psus_is_refused(tmp_path):
    design = NSDUH.design.model_copy(update={"unit": "QUESTID2"})
    families = NSDUH.model_copy(update={"design": design})
    frame = nsduh_2023(50).assign(VESTR_C=1, VEREP=1, QUESTID2=np.arange(50) // 2)
    assert load_microdata(families, save(frame, tmp_path / "NSDUH_2023.csv")).unit.max() == 24
    frame.loc[7, "VEREP"] = 2
    with pytest.raises(EpidemiaError, match=r"in 1 rows: 8 the sampled unit \(QUESTID2\)"):
        load_microdata(families, save(frame, tmp_path / "NSDUH_2023.csv"))


def test_the_wrong_vintage_is_recognised_by_its_rows(raw_nsduh):
    with pytest.raises(EpidemiaError, match=r"59,069 rows, as nsduh 2022 has"):
        load_microdata(NSDUH, raw_nsduh, "2023")


def test_zip_archives_that_are_damaged_or_ambiguous(tmp_path):
    whole = tmp_path / "whole.zip"
    csv = nsduh_2023(300).to_csv(index=False)
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("NSDUH_2023.csv", csv)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(EpidemiaError, match=r"cut\.zip cannot be unpacked"):
        load_microdata(NSDUH, cut)
    with zipfile.ZipFile(whole, "a") as archive:
        archive.writestr("NSDUH_2022.csv", csv)
    with pytest.raises(EpidemiaError, match="give one file"):
        load_microdata(NSDUH, whole)


def test_what_describes_the_data_beside_them_is_no_data_file(tmp_path):
    """JSON is a format of the Factbook alone."""
    packed = tmp_path / "packed.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("d.csv", nsduh_2023(30).to_csv(index=False))
        archive.writestr("meta.json", "{}")
    assert len(load_microdata(NSDUH, packed, "2023").weight) == 30
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(EpidemiaError, match="not in a known format") as raised:
        load_microdata(NSDUH, tmp_path / "meta.json")
    assert "json" not in str(raised.value).split("expected")[1]


# -- csv files ----------------------------------------------------------------------------------

CSV = nsduh_2023(60).to_csv(index=False)


def each(line, header=str):
    """Change every line below the header, and the header."""
    first, *rest = CSV.splitlines()
    return "\n".join([header(first), *map(line, rest)]) + "\n"


ELSEWHERE = {
    "BOM": "\ufeff" + CSV,
    "CRLF": CSV.replace("\n", "\r\n"),
    "CR": CSV.replace("\n", "\r"),
    "no last line end": CSV.rstrip(),
    "spaces": CSV.replace(",", ", ").replace(", ", ",", CSV.splitlines()[0].count(",")),
    "twins": each(lambda line: line + ",1,2", lambda line: line + ",NOTE,note"),
    "quotes": each(lambda line: line + ',"two\nlines"', lambda line: line + ',"a ""note"""'),
    "Latin-1": each(lambda line: line + ",caf\udce9", lambda line: line + ",NOTE"),
    "zeros": each(lambda line: ",".join(f'"0{code}"' for code in line.split(","))),
}


def test_csv_as_it_is_written_elsewhere(tmp_path):
    expected = load_microdata(NSDUH, save(nsduh_2023(60), tmp_path / "NSDUH_2023.parquet"))
    path = tmp_path / "NSDUH_2023.csv"
    for case, text in ELSEWHERE.items():
        path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        found = load_microdata(NSDUH, path)
        for name, levels in expected.levels.items():
            assert (found.levels[name] == levels).all(), (case, name)
        assert found.weight == pytest.approx(expected.weight, rel=1e-15), case


def test_blanks_of_every_kind_are_missing(tmp_path):
    path = tmp_path / "b.csv"
    path.write_text('X,Y\n,1\n  ,2\n"",3\nNA,4\n\nNaN,5\n"  ",6\n')
    frame = read_columns(path, ["x", "Y"])
    assert frame["x"].isna().all() and frame["Y"].tolist() == [1, 2, 3, 4, 5, 6]


def test_parquet_with_an_index_of_pandas(tmp_path):
    frame = nsduh_2023(50)
    path = tmp_path / "NSDUH_2023.parquet"
    frame.set_index("ANALWT2_C").to_parquet(path)
    assert load_microdata(NSDUH, path).weight.tolist() == frame["ANALWT2_C"].tolist()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_the_head_of_a_table(tmp_path, suffix):
    """Whether microdata are a published table shows in the first rows; millions stay unread."""
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl")
    path = tmp_path / f"NSDUH_2023{suffix}"
    save(nsduh_2023(200), path)
    (whole,), (head,) = read_grids(path), read_grids(path, 7)
    assert len(whole) == 201 and len(head) in (7, 8) and head == whole[: len(head)]


# -- What is no file ----------------------------------------------------------------------------


def a_folder(path):
    path.mkdir()


def a_pipe(path):
    os.mkfifo(path)


def unreadable(path):
    save(nsduh_2023(50), path.with_suffix(".parquet")).rename(path)
    path.chmod(0)
    if os.access(path, os.R_OK):  # a superuser reads it all the same, but not this
        path.unlink()
        path.symlink_to("/proc/self/mem")


@pytest.mark.parametrize("suffix", [".csv", ".dta", ".zip"])
@pytest.mark.parametrize(
    ("make", "said"),
    [(a_folder, "no file "), (a_pipe, "no file "), (unreadable, "cannot be (read|unpacked)")],
)
def test_what_is_called_like_a_survey_file_but_is_none(tmp_path, make, said, suffix):
    path = tmp_path / f"NSDUH_2023{suffix}"
    make(path)
    for given in [tmp_path] if make is a_folder else [path, tmp_path]:
        with pytest.raises(EpidemiaError, match=said):
            load_microdata(NSDUH, given)


def test_no_room_to_unpack(tmp_path):
    """Here no file may grow beyond 1,000 bytes."""
    archive = tmp_path / "NSDUH_2023.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("NSDUH_2023.csv", CSV)
    said = r"NSDUH_2023\.zip cannot be unpacked in .*File too large"
    with pytest.raises(EpidemiaError, match=said), full_disk(1000):
        load_microdata(NSDUH, archive)
