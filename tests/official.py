"""Survey files in the layout and format their agencies publish, about invented people.

Every survey has a function that invents its records, under the official column names with the
official codes and with columns nobody asks for, and one that writes them into the official file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from conftest import nsduh_2023

from lm_eval_epidemia.surveys.catalogue import record


def zipped(path: Path, members: dict[str, Path | str]) -> Path:
    """Pack files (or texts) under the names they have in an archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            if isinstance(content, Path):
                archive.write(content, name)
            else:
                archive.writestr(name, content)
    return path


def _coded(rng: np.random.Generator, rows: int, codes: dict[float, float]) -> np.ndarray:
    """Draw codes with given shares; NaN is a blank."""
    shares = np.array(list(codes.values()), dtype=float)
    return rng.choice(list(codes), rows, p=shares / shares.sum()).astype(float)


def write_dta(frame: pd.DataFrame, path: Path, **options: Any) -> Path:
    """A Stata file, in the format of Stata 14 as agencies save it."""
    import pyreadstat

    pyreadstat.write_dta(frame, str(path), version=14, **options)
    return path


def write_xpt(frame: pd.DataFrame, path: Path, **options: Any) -> Path:
    """A SAS transport file of version 5."""
    import pyreadstat

    pyreadstat.write_xport(
        frame, str(path), table_name=path.stem[:8], file_format_version=5, **options
    )
    return path


# -- BRFSS ------------------------------------------------------------------------------------

#: FIPS codes of the states that reported in 2023; Kentucky (21) and Pennsylvania (42) did not.
STATES_2023 = [
    code for code in [*range(1, 57), 66, 72, 78] if code not in {3, 7, 14, 21, 42, 43, 52}
]


def brfss(rows: int = 800, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    state = np.resize(STATES_2023, rows).astype(float)
    yes_no = {1: 0.3, 2: 0.65, 7: 0.02, 9: 0.02, np.nan: 0.01}
    of_four = {1: 0.2, 2: 0.05, 3: 0.6, 4: 0.1, 7: 0.02, 9: 0.02, np.nan: 0.01}
    return pd.DataFrame(
        {
            "_STATE": state,
            "FMONTH": rng.integers(1, 13, rows).astype(float),
            "IDATE": [f"{month:02d}152023" for month in rng.integers(1, 13, rows)],
            "DISPCODE": 1100.0,
            "SEQNO": [f"2023{number:06d}" for number in range(rows)],
            "_PSU": 2023000001.0 + np.arange(rows) // 2,
            "GENHLTH": rng.integers(1, 6, rows).astype(float),
            "EXERANY2": _coded(rng, rows, {1: 0.75, 2: 0.23, 7: 0.01, 9: 0.01}),
            "BPHIGH6": _coded(rng, rows, of_four),
            "TOLDHI3": _coded(rng, rows, {**yes_no, np.nan: 0.1}),
            "CVDINFR4": _coded(rng, rows, yes_no),
            "CVDSTRK3": _coded(rng, rows, yes_no),
            "ASTHMA3": _coded(rng, rows, yes_no),
            "ADDEPEV3": _coded(rng, rows, yes_no),
            "DIABETE4": _coded(rng, rows, of_four),
            "DEAF": _coded(rng, rows, yes_no),
            "BLIND": _coded(rng, rows, yes_no),
            "_STSTR": state * 1000 + 11,
            "_IMPRACE": _coded(rng, rows, {1: 6, 2: 1.5, 3: 0.7, 4: 0.3, 5: 2, 6: 0.5}),
            "_AGE80": rng.integers(18, 81, rows).astype(float),
            "_SEX": rng.integers(1, 3, rows).astype(float),
            "_EDUCAG": _coded(rng, rows, {1: 1, 2: 3, 3: 3, 4: 4, 9: 0.1}),
            "_INCOMG1": _coded(rng, rows, {1: 1, 2: 1, 3: 1, 4: 1, 5: 3, 6: 2, 7: 1, 9: 1.5}),
            "_LLCPWT": np.round(rng.gamma(1.0, 500.0, rows) + 1, 6),
        }
    )


def write_brfss(folder: Path, frame: pd.DataFrame) -> Path:
    """LLCP2023XPT.zip: SAS transport version 5, its member's name ends in a space."""
    unpacked = write_xpt(frame, folder / "LLCP2023.XPT")
    packed = zipped(folder / "LLCP2023XPT.zip", {"LLCP2023.XPT ": unpacked})
    unpacked.unlink()
    return packed


def brfss_published() -> pd.DataFrame:
    """The rows of data.cdc.gov's set dttw-5yxu: other years, answers and groups among them."""
    rng, lines = np.random.default_rng(2), []

    def line(year: int, location: int, name: str, response: str, group: str, value: float) -> None:
        lines.append(
            {
                "year": str(year),
                "locationabbr": name[:2].upper(),
                "locationdesc": name,
                "class": "Chronic Health Indicators",
                "topic": "Diabetes",
                "question": "Have you ever been told by a doctor that you have diabetes?",
                "response": response,
                "break_out": group,
                "break_out_category": "Overall" if group == "Overall" else "Age Group",
                "sample_size": str(rng.integers(40, 9000)),
                "data_value": f"{value:.1f}",
                "confidence_limit_low": f"{value - 1.2:.1f}",
                "confidence_limit_high": f"{value + 1.3:.1f}",
                "display_order": "1",
                "data_value_unit": "%",
                "data_value_type": "Crude Prevalence",
                "data_value_footnote_symbol": "",
                "data_value_footnote": "",
                "datasource": "BRFSS",
                "classid": "CLASS03",
                "topicid": "TOPIC16",
                "locationid": f"{location:02d}",
                "breakoutid": "BO1" if group == "Overall" else "AGE01",
                "breakoutcategoryid": "CAT1" if group == "Overall" else "CAT3",
                "questionid": "DIABETE4",
                "responseid": "RESP046" if response == "Yes" else "RESP054",
                "geolocation": "POINT (-86.6 32.8)",
            }
        )

    names = {
        number: level.label
        for level in record("brfss").variables["state"][0].levels
        for number in [int(level.codes[0][0])]
    }
    for state in STATES_2023:
        value = float(rng.uniform(8, 18))
        line(2023, state, names[state], "Yes", "Overall", value)
        line(2023, state, names[state], "Yes, pregnancy-related", "Overall", 1.0)
        line(2023, state, names[state], "No", "Overall", 97 - value)
        line(2023, state, names[state], "No, pre-diabetes or borderline diabetes", "Overall", 2.0)
        line(2023, state, names[state], "Yes", "18-24", 2.1)
        line(2022, state, names[state], "Yes", "Overall", value - 0.3)
    for code, name in ((98, "All States and DC (median) **"), (99, "All States, DC (median) **")):
        line(2023, code, name, "Yes", "Overall", 11.8)
    return pd.DataFrame(lines)


def write_brfss_published(folder: Path, frame: pd.DataFrame) -> Path:
    """dttw-5yxu.csv as data.cdc.gov's API gives it: lower-case headers, everything quoted."""
    path = folder / "dttw-5yxu.csv"
    frame.to_csv(path, index=False, quoting=1)
    return path


# -- NHANES -----------------------------------------------------------------------------------


def nhanes(rows: int = 600, seed: int = 3) -> dict[str, pd.DataFrame]:
    """Four files: everybody, those examined, those aged 1 or more, and adults."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 81, rows).astype(float)
    examined = rng.random(rows) < 0.8
    seqn = 130378.0 + np.arange(rows)
    demo = pd.DataFrame(
        {
            "SEQN": seqn,
            "SDDSRVYR": 12.0,
            "RIDSTATR": np.where(examined, 2.0, 1.0),
            "RIAGENDR": rng.integers(1, 3, rows).astype(float),
            "RIDAGEYR": age,
            "RIDRETH3": _coded(rng, rows, {1: 1, 2: 1, 3: 5, 4: 2, 6: 1, 7: 1}),
            "WTINT2YR": np.round(rng.gamma(1.5, 20000.0, rows) + 1, 6),
            "WTMEC2YR": np.where(examined, np.round(rng.gamma(1.5, 25000.0, rows) + 1, 6), 0.0),
            "SDMVSTRA": 173.0 + np.arange(rows) % 15,
            "SDMVPSU": rng.integers(1, 3, rows).astype(float),
        }
    )
    measured = np.round(rng.normal(29, 7, rows).clip(14, 60), 1)
    bmx = pd.DataFrame(
        {
            "SEQN": seqn,
            "BMDSTATS": 1.0,
            "BMXWT": np.round(rng.normal(80, 20, rows), 1),
            "BMXHT": np.round(rng.normal(167, 10, rows), 1),
            "BMXBMI": np.where(rng.random(rows) < 0.03, np.nan, measured),
        }
    )[examined]
    diq = pd.DataFrame(
        {
            "SEQN": seqn,
            "DIQ010": _coded(rng, rows, {1: 0.13, 2: 0.82, 3: 0.03, 7: 0.01, 9: 0.01}),
            "DID040": np.nan,
            "DIQ160": _coded(rng, rows, {1: 0.1, 2: 0.8, np.nan: 0.1}),
        }
    )[age >= 1]
    ever = _coded(rng, rows, {1: 0.85, 2: 0.1, np.nan: 0.05})
    often = _coded(rng, rows, {**dict.fromkeys(range(11), 0.08), 77: 0.02, 99: 0.02, np.nan: 0.08})
    alq = pd.DataFrame(
        {
            "SEQN": seqn,
            "ALQ111": ever,
            "ALQ121": np.where(ever == 1, often, np.nan),
            "ALQ130": np.where(ever == 1, 2.0, np.nan),
        }
    )[(age >= 18) & examined & (rng.random(rows) < 0.85)]
    return {"DEMO_L": demo, "BMX_L": bmx, "DIQ_L": diq, "ALQ_L": alq}


def write_nhanes(folder: Path, frames: dict[str, pd.DataFrame]) -> list[Path]:
    """Four transport files, and beside them others of the cycle that nobody asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [write_xpt(frame, folder / f"{name}.xpt") for name, frame in frames.items()]
    pressure = frames["DEMO_L"][["SEQN"]].assign(BPXOSY1=120.0)
    write_xpt(pressure, folder / "BPXO_L.xpt")
    (folder / "DEMO_L.htm").write_text("<html>documentation</html>")
    (folder / "notes.txt").write_text("downloaded in autumn")
    return paths


# -- GSS --------------------------------------------------------------------------------------

_GSS_LABELS = {
    "age": {89.0: "89 or older"},
    "sex": {1.0: "male", 2.0: "female"},
    "race": {1.0: "white", 2.0: "black", 3.0: "other"},
    "degree": {0.0: "less than high school", 1.0: "high school"},
    "polviews": {1.0: "extremely liberal", 4.0: "moderate, middle of the road"},
    "partyid": {0.0: "strong democrat", 7.0: "other party"},
}


def gss(rows: int, weighted: int, year: int = 2022, seed: int = 4) -> pd.DataFrame:
    """One year's people, of whom the first `weighted` are the main sample; the rest oversample."""
    rng = np.random.default_rng(seed)
    main = np.arange(rows) < weighted
    weight = np.round(rng.gamma(2.0, 0.5, rows) + 0.05, 6)

    def answers(codes: Iterable[int], blank: float = 0.03) -> np.ndarray:
        codes = list(codes)
        return _coded(rng, rows, {**dict.fromkeys(codes, 1 / len(codes)), np.nan: blank})

    return pd.DataFrame(
        {
            "year": float(year),
            "id": np.arange(rows) + 1.0,
            "wrkstat": answers(range(1, 9)),
            "age": answers(range(18, 90)),
            "educ": answers(range(21)),
            "degree": answers(range(5)),
            "sex": answers((1, 2), 0.01),
            "race": answers((1, 1, 1, 2, 3), 0.01),
            "income16": answers(range(1, 27), 0.1),
            "partyid": answers(range(8)),
            "polviews": answers(range(1, 8)),
            "relig": answers(range(1, 14)),
            "vstrat": np.where(main, 3301.0 + np.arange(rows) % 40, np.nan),
            "vpsu": np.where(main, 1.0 + np.arange(rows) // 40 % 2, np.nan),
            "wtssps": np.where(main, weight, np.nan),
            "wtssnrps": np.where(main, np.round(weight * rng.uniform(0.7, 1.4, rows), 6), np.nan),
            "wtssps_as": weight,
            "wtssnrps_as": weight,
        }
    )


def write_gss(frame: pd.DataFrame, path: Path) -> Path:
    """A Stata file of NORC: lower-case names, value labels, `.i` (inapplicable) and other tags."""
    tagged = frame.copy()
    tags = {}
    for number, column in enumerate(("age", "degree", "income16", "partyid", "polviews")):
        codes = frame[column].astype(object)
        blank = np.flatnonzero(frame[column].isna())
        codes.iloc[blank[::2]] = "idnsx"[number]
        tagged[column], tags[column] = codes, ["idnsx"[number]]
    return write_dta(tagged, path, missing_user_values=tags, variable_value_labels=_GSS_LABELS)


# -- NSDUH ------------------------------------------------------------------------------------


def nsduh(rows: int = 900) -> pd.DataFrame:
    frame = nsduh_2023(rows)
    frame.insert(1, "FILEDATE", "09/20/2024")
    return frame.assign(HEALTH=2.0)


def write_nsduh(folder: Path, frame: pd.DataFrame) -> Path:
    """SAMHSA's Stata bundle: NSDUH_2023.dta with value labels, upper and lower case mixed."""
    labels = {
        "irsex": {1.0: "1 - Male", 2.0: "2 - Female"},
        "IREDUHIGHST2": {10.0: "10 - Associate s degree"},
        "alcever": {1.0: "1 - Yes", 94.0: "94 - DON'T KNOW"},
    }
    path = write_dta(frame, folder / "NSDUH_2023.dta", variable_value_labels=labels)
    return zipped(
        folder / "NSDUH-2023-DS0001-bndl-data-stata_v1.zip",
        {"NSDUH_2023.dta": path, "NSDUH-2023-DS0001-info-codebook.pdf": "%PDF"},
    )


# -- SCF --------------------------------------------------------------------------------------


def scf(families: int = 250, seed: int = 6) -> pd.DataFrame:
    """Five implicates of each family; only the imputed sums differ between them."""
    rng = np.random.default_rng(seed)
    family = np.repeat(np.arange(families), 5)

    def of_family(values: np.ndarray) -> np.ndarray:
        return values[family].astype(float)

    def imputed(values: np.ndarray, step: int) -> np.ndarray:
        noise = rng.normal(1, 0.05, len(family))
        return np.round(values[family] * noise / step) * step

    worth = rng.choice([-1, 1, 1, 1], families) * 10 ** rng.uniform(2, 7.5, families)
    owed = rng.choice([0, 1, 1], families) * 10 ** rng.uniform(2, 6.3, families)
    asset, debt = imputed(np.abs(worth) + owed, 10), imputed(owed, 10)
    return pd.DataFrame(
        {
            "yy1": family + 1.0,
            "y1": (family + 1) * 10.0 + np.tile(np.arange(1, 6), families),
            "wgt": np.repeat(rng.gamma(2, 2600, families) + 1, 5)
            * rng.uniform(0.97, 1.03, len(family)),
            "hhsex": of_family(rng.integers(1, 3, families)),
            "age": of_family(rng.integers(18, 96, families)),
            "educ": of_family(rng.integers(1, 15, families)),
            "edcl": of_family(rng.integers(1, 5, families)),
            "married": of_family(rng.integers(1, 3, families)),
            "kids": of_family(rng.integers(0, 5, families)),
            "racecl5": of_family(rng.integers(1, 6, families)),
            "income": imputed(10 ** rng.uniform(3, 6, families), 1),
            "foodhome": imputed(rng.uniform(500, 16000, families), 60),
            "foodaway": imputed(rng.uniform(0, 12000, families), 60),
            "fooddelv": imputed(rng.uniform(0, 3000, families), 60),
            "hhouses": of_family(rng.integers(0, 2, families)),
            "asset": asset,
            "debt": debt,
            "networth": asset - debt,
        }
    )


def write_scf(folder: Path, frame: pd.DataFrame) -> Path:
    """scfp2022s.zip with rscfp2022.dta; the Board writes lower-case names."""
    path = write_dta(frame, folder / "rscfp2022.dta")
    packed = zipped(folder / "scfp2022s.zip", {"rscfp2022.dta": path})
    path.unlink()
    return packed


# -- MEPS -------------------------------------------------------------------------------------

#: Where HC-243's columns are in its lines, counted from 1, as the agency's statements say.
MEPS_POSITIONS = {
    "DUID": (1, 7),
    "PID": (8, 10),
    "DUPERSID": (11, 20),
    "PANEL": (21, 22),
    "DATAYEAR": (23, 26),
    "REGION53": (86, 87),
    "AGE53X": (190, 191),
    "AGE22X": (192, 193),
    "AGELAST": (194, 195),
    "SEX": (202, 202),
    "RACEV1X": (203, 203),
    "RACEV2X": (204, 205),
    "RACETHX": (209, 209),
    "MARRY53X": (216, 217),
    "EDUCYR": (244, 245),
    "POVCAT22": (1466, 1466),
    "INSCOV22": (2235, 2235),
    "INSURC22": (2236, 2236),
    "TOTEXP22": (2616, 2622),
    "OBTOTV22": (2691, 2693),
    "IPDIS22": (3385, 3385),
    "DVTOT22": (3606, 3607),
    "PERWT22F": (4001, 4013),
    "VARSTR": (4066, 4069),
    "VARPSU": (4070, 4070),
}


def meps(rows: int = 500, seed: int = 7) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 86, rows)
    dead = rng.random(rows) < 0.02
    schooling = np.where(age < 5, -1, rng.integers(0, 18, rows))
    refused = rng.random(rows) < 0.05
    schooling = np.where(refused, rng.choice([-7, -8], rows), schooling)
    weight = np.round(rng.gamma(1.5, 9000, rows), 6)
    return pd.DataFrame(
        {
            "DUID": 2790000 + np.arange(rows) // 3,
            "PID": 101 + np.arange(rows) % 3,
            "DUPERSID": [f"{2790000 + n // 3}{101 + n % 3}" for n in range(rows)],
            "PANEL": rng.choice([24, 26, 27], rows),
            "DATAYEAR": 2022,
            "REGION53": np.where(dead, -1, rng.integers(1, 5, rows)),
            "AGE53X": np.where(dead, -1, age),
            "AGE22X": np.where(dead, -1, np.minimum(age + 1, 85)),
            "AGELAST": age,
            "SEX": rng.integers(1, 3, rows),
            "RACEV1X": rng.choice([1, 1, 1, 2, 3, 4, 6], rows),
            "RACEV2X": rng.integers(1, 13, rows),
            "RACETHX": rng.integers(1, 6, rows),
            "MARRY53X": rng.choice([-8, -7, 1, 2, 3, 5, 6], rows),
            "EDUCYR": schooling,
            "POVCAT22": rng.integers(1, 6, rows),
            "INSCOV22": rng.integers(1, 4, rows),
            "INSURC22": rng.integers(1, 9, rows),
            "TOTEXP22": np.where(
                rng.random(rows) < 0.15, 0, np.round(10 ** rng.uniform(1, 5.5, rows))
            ).astype(int),
            "OBTOTV22": np.minimum(rng.geometric(0.2, rows) - 1, 300),
            "IPDIS22": np.minimum(rng.geometric(0.8, rows) - 1, 9),
            "DVTOT22": np.minimum(rng.geometric(0.5, rows) - 1, 40),
            "PERWT22F": np.where(rng.random(rows) < 0.03, 0.0, weight),
            "VARSTR": 2001 + np.arange(rows) % 30,
            "VARPSU": rng.integers(1, 3, rows),
        }
    )


def write_meps_xlsx(folder: Path, frame: pd.DataFrame) -> Path:
    path = folder / "h243.xlsx"
    frame.to_excel(path, sheet_name="H243", index=False)
    return path


def write_meps_dta(folder: Path, frame: pd.DataFrame) -> Path:
    """h243dta.zip with h243.dta, whose names are upper case."""
    path = write_dta(frame, folder / "h243.dta")
    packed = zipped(folder / "h243dta.zip", {"h243.dta": path})
    path.unlink()
    return packed


def meps_lines(frame: pd.DataFrame) -> str:
    """The people as lines of 4,070 characters; columns of the gaps are nines."""
    lines = []
    for row in frame.itertuples(index=False):
        line = ["9"] * 4070
        for (start, end), value, name in zip(
            MEPS_POSITIONS.values(), row, MEPS_POSITIONS, strict=True
        ):
            text = f"{value:.6f}" if name == "PERWT22F" else str(value)
            assert len(text) <= end - start + 1, (name, text)
            line[start - 1 : end] = text.rjust(end - start + 1)
        lines.append("".join(line))
    return "\r\n".join(lines) + "\r\n"


def meps_stata() -> str:
    """h243stu.txt: the agency's Stata statements."""
    types = {"DUPERSID": "str", "PERWT22F": "double", "TOTEXP22": "long", "DUID": "long"}
    columns = [
        f"  {types.get(name, 'int'):<6} {name} {start}-{end}"
        for name, (start, end) in MEPS_POSITIONS.items()
    ]
    return "\n".join(
        [
            "* STATA PROGRAMMING STATEMENTS FOR H243, 22431 RECORDS",
            "log using h243.log, replace",
            "#delimit ;",
            "cd c:\\meps\\stata\\prog;",
            "infix",
            *columns,
            "using h243.dat;",
            'label define H243001X -15 "-15 CANNOT BE COMPUTED" -1 "-1 INAPPLICABLE";',
            "label value AGE53X H243001X;",
        ]
    )


def meps_sas() -> str:
    """h243su.txt: the agency's SAS statements."""
    columns = [
        f"@{start:<7}{name:<11}{'$' if name == 'DUPERSID' else ''}{end - start + 1}."
        f"{'' if name == 'DUPERSID' else '0'}"
        for name, (start, end) in MEPS_POSITIONS.items()
    ]
    return "\n".join(
        [
            "DATA H243 ;",
            "INFILE 'C:\\H243.DAT' LRECL=4070;",
            "INPUT " + "\n      ".join(columns),
            ";",
            "LABEL AGE53X = 'AGE AS OF 12/31/22 @ ROUND 5/3 (EDITED)' ;",
            "RUN;",
        ]
    )


# -- ACS --------------------------------------------------------------------------------------

ACS_REPLICATES = [f"PWGTP{number}" for number in range(1, 81)]


def acs(rows: int = 3000, seed: int = 8) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 95, rows).astype(float)
    adult = age >= 16
    status = np.where(adult, _coded(rng, rows, {1: 55, 2: 3, 3: 4, 4: 1, 5: 0.5, 6: 35}), np.nan)
    employed = np.isin(status, [1, 2, 4, 5])
    kind = _coded(rng, rows, {1: 60, 2: 10, 3: 7, 4: 5, 5: 3, 6: 6, 7: 4, 8: 1})
    weight = rng.integers(20, 300, rows).astype(float)
    frame = pd.DataFrame(
        {
            "RT": "P",
            "SERIALNO": [f"2023HU{number:07d}" for number in range(rows)],
            "DIVISION": rng.integers(1, 10, rows),
            "SPORDER": 1,
            "PUMA": rng.integers(100, 9000, rows),
            "REGION": rng.integers(1, 5, rows),
            "STATE": rng.choice([1, 6, 36, 48, 56], rows),
            "ADJINC": 1019518,
            "PWGTP": weight.astype(int),
            "AGEP": age.astype(int),
            "CIT": rng.integers(1, 6, rows),
            "COW": np.where(employed, kind, np.where(rng.random(rows) < 0.1, 9, np.nan)),
            "SCHL": np.where(age >= 3, rng.integers(1, 25, rows), np.nan),
            "SEX": rng.integers(1, 3, rows),
            "WAGP": np.where(
                adult, np.where(employed, np.round(10 ** rng.uniform(3, 5.6, rows), -2), 0), np.nan
            ),
            "ESR": status,
            "HISP": _coded(rng, rows, {1: 80, 2: 12, 5: 3, 24: 5}).astype(int),
            "RAC1P": rng.choice([1, 1, 1, 1, 1, 2, 2, 3, 5, 6, 7, 8, 9], rows),
        }
    )
    frame.loc[~adult, "COW"] = np.nan
    # Codes are whole numbers or blank, as the Bureau prints them.
    for column in ("COW", "SCHL", "WAGP", "ESR"):
        frame[column] = frame[column].astype("Int64")
    # Replicate weights are whole numbers, and a few are negative.
    factors = 1 + 0.9 * rng.standard_normal((rows, 80))
    replicates = pd.DataFrame(
        np.round(weight[:, None] * factors).astype(int), columns=ACS_REPLICATES
    )
    return pd.concat([frame, replicates], axis=1)


def write_acs(folder: Path, frame: pd.DataFrame) -> Path:
    """csv_pus.zip: the nation in two halves, upper-case header, blanks for not applicable."""
    half = len(frame) // 2
    return zipped(
        folder / "csv_pus.zip",
        {
            "psam_pusa.csv": frame.iloc[:half].to_csv(index=False),
            "psam_pusb.csv": frame.iloc[half:].to_csv(index=False),
            "ACS2023_PUMS_README.pdf": "%PDF",
        },
    )


# -- NHIS -------------------------------------------------------------------------------------


def nhis(rows: int = 700, seed: int = 9) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    yes_no = {1: 0.2, 2: 0.76, 7: 0.02, 8: 0.01, 9: 0.01}
    return pd.DataFrame(
        {
            "URBRRL": rng.integers(1, 5, rows),
            "RATCAT_A": rng.integers(1, 15, rows),
            "INTV_QRT": rng.integers(1, 5, rows),
            "HHX": [f"H{number:06d}" for number in range(rows)],
            "WTFA_A": np.round(rng.gamma(1.5, 6000, rows) + 1, 3),
            "PSTRAT": 100 + np.arange(rows) % 52,
            "PPSU": rng.integers(1, 5, rows),
            "AGEP_A": np.where(rng.random(rows) < 0.02, 97, rng.integers(18, 86, rows)),
            "SEX_A": np.where(rng.random(rows) < 0.01, 7, rng.integers(1, 3, rows)),
            "HISPALLP_A": rng.choice([1, 2, 2, 2, 3, 4, 5, 6, 7], rows),
            "EDUCP_A": np.where(rng.random(rows) < 0.02, 99, rng.integers(0, 11, rows)),
            "DIBEV_A": _coded(rng, rows, yes_no).astype(int),
            "HYPEV_A": _coded(rng, rows, yes_no).astype(int),
            "DEPEV_A": _coded(rng, rows, yes_no).astype(int),
            "PHSTAT_A": rng.integers(1, 6, rows),
        }
    )


def write_nhis(folder: Path, frame: pd.DataFrame) -> Path:
    return zipped(folder / "adult21csv.zip", {"adult21.csv": frame.to_csv(index=False)})


# -- Published tables -------------------------------------------------------------------------


def _write_xlsx(path: Path, sheets: dict[str, Sequence[Sequence[Any]]]) -> Path:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    book.save(path)
    return path


def bls(seed: int = 10) -> dict[str, tuple[float, ...]]:
    """Occupation -> total employed, percent women, White, Black, Asian, Hispanic."""
    rng = np.random.default_rng(seed)
    figures = {}
    for level in record("bls").variables["occupation"][0].levels:
        white, black = float(rng.uniform(60, 80)), float(rng.uniform(5, 15))
        asian = min(float(rng.uniform(1, 12)), 100 - white - black)
        figures[level.names[0]] = (
            int(rng.integers(50, 1800)),
            *(round(share, 1) for share in (rng.uniform(5, 95), white, black, asian, 17.2)),
        )
    return figures


def write_bls(
    path: Path,
    figures: dict[str, tuple[float, ...]],
    year: int = 2023,
    down: int = 0,
    women: str = "Women",
) -> Path:
    """cpsaat11.xlsx: header over three rows, groups indented, dashes, a note below."""
    import openpyxl
    from openpyxl.styles import Alignment

    dash = ("\u2013",) * 5
    head: list[list[Any]] = [
        [
            "HOUSEHOLD DATA\nANNUAL AVERAGES\n11. Employed persons by detailed occupation, sex, "
            "race, and Hispanic or Latino ethnicity"
        ],
        ["[Numbers in thousands]"],
        [""],
        ["Occupation", year],
        [None, "Total\nemployed", "Percent of total employed"],
        [None, None, women, "White", "Black or\nAfrican\nAmerican", "Asian", "Hispanic\nor Latino"],
        [""],
        ["Total, 16 years and over", 161037, 46.9, 76.5, 12.8, 6.9, 18.8],
        [None],
        ["Management, professional, and related occupations", 70275, 51.8, 76.9, 10.6, 9.3, 11.2],
        ["Management occupations", 20906, 41.9, 80.9, 9.2, 7, 12.1],
    ]
    body = [
        *([name, *numbers] for name, numbers in figures.items()),
        ["Legislators", 12, *dash],
        [
            "Miscellaneous managers, including funeral service managers",
            120,
            40.0,
            80.0,
            9.0,
            6.0,
            9.0,
        ],
        ["Engineers, all other", 730, 15.2, 71.0, 6.1, 19.9, 10.0],
        ["Other material moving workers", 55, 19.3, 86.8, 10.3, 0.4, 18.7],
        [""],
        [
            "NOTE: Estimates for the above race groups (White, Black or African American, and "
            "Asian) do not sum to totals because data are not presented for all races. Dash "
            "indicates no data or data that do not meet publication criteria."
        ],
    ]
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "cpsaat11"
    for row in [[None]] * down + head + body:
        sheet.append(row)
    first = down + len(head) + 1
    for row in range(first, first + len(figures)):
        sheet.cell(row, 1).alignment = Alignment(indent=3)
    for area in ("A4:A6", "B5:B6", "B4:G4", "C5:G5"):
        if not down:
            sheet.merge_cells(area)
    book.save(path)
    return path


def fbi(seed: int = 11) -> pd.DataFrame:
    """Arrests by offense: men, women and five races; races are known for fewer arrests."""
    rng = np.random.default_rng(seed)
    names = [level.names[0] for level in record("fbi").variables["offense"][0].levels[1:]]
    names.insert(names.index("Suspicion"), "All other offenses (except traffic)")
    frame = pd.DataFrame(
        {
            "Male": rng.integers(100, 90000, len(names)),
            "Female": rng.integers(100, 40000, len(names)),
            "White": rng.integers(100, 70000, len(names)),
            "Black": rng.integers(100, 30000, len(names)),
            "Native": rng.integers(10, 3000, len(names)),
            "Asian": rng.integers(10, 2000, len(names)),
            "Pacific": rng.integers(1, 500, len(names)),
        },
        index=names,
    )
    return frame


def _fbi_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Add what the Bureau prints besides offenses: the total and two sums, with footnotes."""
    violent = ["Murder and nonnegligent manslaughter", "Rape", "Robbery", "Aggravated assault"]
    property_ = ["Burglary", "Larceny-theft", "Motor vehicle theft", "Arson"]
    sums = pd.DataFrame(
        {
            "TOTAL": frame.sum(),
            "Violent crime": frame.loc[violent].sum(),
            "Property crime": frame.loc[property_].sum(),
        }
    ).T
    index = list(frame.index)
    after = index.index("Arson") + 1
    order = ["TOTAL", *index[:after], "Violent crime", "Property crime", *index[after:]]
    return pd.concat([frame, sums]).loc[order]


def _write_xls(path: Path, sheet: str, rows: Sequence[Sequence[Any]]) -> Path:
    import xlwt

    book = xlwt.Workbook()
    page = book.add_sheet(sheet)
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            if value is not None:
                page.write(number, column, value)
    book.save(str(path))
    return path


def _percents(numbers: Sequence[float]) -> list[float]:
    return [round(100 * number / sum(numbers), 1) for number in numbers]


def write_fbi(
    folder: Path,
    frame: pd.DataFrame,
    year: int = 2019,
    names: tuple[str, str] = ("table-42.xls", "table-43a.xls"),
    down: int = 0,
) -> list[Path]:
    """Tables 42 and 43A as Excel of 1997: titles, two and three rows of headers, footnotes."""
    printed = _fbi_rows(frame)
    agencies = f"[10,831 agencies; {year} estimated population 229,735,355]"
    blank: list[list[Any]] = [[None]] * down
    by_sex: list[list[Any]] = [
        *blank,
        ["Table 42"],
        ["Arrests"],
        [f"by Sex, {year}"],
        [agencies],
        [
            *("Offense charged", "Number of persons arrested", None, None, "Percent\nmale"),
            *("Percent\nfemale", "Percent distribution1"),
        ],
        [None, "Total", "Male", "Female", None, None, "Total", "Male", "Female"],
    ]
    marks = {"Rape": "2", "Violent crime": "3", "Property crime": "3"}
    for name, row in printed.iterrows():
        numbers = [int(row["Male"]), int(row["Female"])]
        by_sex.append(
            [f"{name}{marks.get(name, '')}", sum(numbers), *numbers, *_percents(numbers), 1, 1, 1]
        )
    by_sex += [
        ["1 Because of rounding, the percentages may not add to 100.0."],
        ["2 The rape figures in this table are aggregate totals of two definitions."],
        ["3 Violent crimes are offenses of murder, rape, robbery, and aggravated assault."],
        ["* Less than one-tenth of 1 percent."],
    ]
    groups = [
        *("Total", "White", "Black or\nAfrican\nAmerican", "American\nIndian or\nAlaska\nNative"),
        *("Asian", "Native\nHawaiian\nor Other\nPacific\nIslander"),
    ]
    ethnicity = ["Total2", "Hispanic\nor\nLatino", "Not\nHispanic\nor Latino"]
    by_race: list[list[Any]] = [
        *blank,
        ["Table 43A"],
        ["Arrests"],
        [f"by Race and Ethnicity, {year}"],
        [agencies],
        [None, "Total arrests", *[None] * 5, "Percent distribution1", *[None] * 5, "Total arrests"],
        [None, "Race", *[None] * 5, "Race", *[None] * 5, "Ethnicity"],
        ["Offense charged", *groups, *groups, *ethnicity, "Total", *ethnicity[1:]],
    ]
    marks = {"Rape": "3", "Violent crime": "4", "Property crime": "4"}
    for name, row in printed.iterrows():
        numbers = [int(row[race]) for race in ("White", "Black", "Native", "Asian", "Pacific")]
        total = sum(numbers)
        ethnic = [total - 7, total // 5, total - 7 - total // 5]
        by_race.append(
            [
                *(f"{name}{marks.get(name, '')}", total, *numbers, 100.0, *_percents(numbers)),
                *(*ethnic, 100.0, *_percents(ethnic[1:])),
            ]
        )
    by_race += [
        ["1 Because of rounding, the percentages may not add to 100.0."],
        ["2 The ethnicity totals are representative of those agencies that provided them."],
        ["3 The rape figures in this table are aggregate totals of two definitions."],
        ["4 Violent crimes are offenses of murder, rape, robbery, and aggravated assault."],
    ]
    return [
        _write_xls(folder / names[0], f"{year % 100:02d}tbl42", by_sex),
        _write_xls(folder / names[1], f"{year % 100:02d}tbl43a", by_race),
    ]


def ipeds(seed: int = 12) -> dict[str, tuple[int, int]]:
    """Field of study -> degrees awarded to men and to women."""
    rng = np.random.default_rng(seed)
    return {
        level.names[0]: (int(rng.integers(100, 200000)), int(rng.integers(100, 200000)))
        for level in record("ipeds").variables["field"][0].levels
    }


def write_ipeds(path: Path, figures: dict[str, tuple[int, int]], year: str = "2022-23") -> Path:
    """The Summary Tables' workbook: counts as text, a source line, a sheet of institutions."""
    group = "Aggregate Result - Title IV, degree-granting institutions"
    award = "Degrees/certificates total"
    totals = {"Grand total": tuple(map(sum, zip(*figures.values(), strict=True))), **figures}
    rows: list[list[Any]] = [
        ["National Center for Education Statistics"],
        [None],
        [f"Degrees/certificates by field of study: {year}"],
        [None],
        [None, "Award Level", "CIP Title", "CIP Code", "Total", "Men", "Women"],
        *(
            [group, award, name, number, f"{men + women:,}", f"{men:,}", f"{women:,}"]
            for number, (name, (men, women)) in enumerate(totals.items())
        ),
        [None],
        [
            "SOURCE: U.S. Department of Education, National Center for Education Statistics, "
            "Integrated Postsecondary Education Data System (IPEDS), Completions component."
        ],
        [None],
        ["File created on 04/16/25 14:58"],
    ]
    institutions = [[100654, "Alabama A & M University"], [100663, "University of Alabama"]]
    return _write_xlsx(
        path, {"TableLibrary": rows, "Title IV degree-granting instit": institutions}
    )
