"""Drafted records against the hand-written ones: how many levels and missing codes agree?

    python benchmarks/draft_agreement.py FOLDER   # with gss/, nsduh/ and nhanes/ of survey files

The files hold codes alone. Before they are drafted from, they are written in the format of their
agency with the labels of its codebook: the GSS as SPSS, NSDUH as Stata; NHANES, as SAS transport,
has labels of columns but none of values, as the official files.

A level of the hand-written record is *the same* if a drafted level has exactly its codes (of those
that occur), and *a union* if several drafted levels together have: the draft is finer there, and
the codes only wait to be put together. A missing code is one that a person or a label calls so.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat

from lm_eval_epidemia.cli.printing import make_table, print_table
from lm_eval_epidemia.surveys.catalogue import find_record, load_record
from lm_eval_epidemia.surveys.draft.columns import DraftOptions
from lm_eval_epidemia.surveys.draft.drafting import draft_record
from lm_eval_epidemia.surveys.variable import Variable


def _numbered(text: str, first: int = 1) -> dict[float, str]:
    return {float(n): label for n, label in enumerate(text.split("|"), first)}


NO_ANSWER = {98: "don't know", 99: "no answer"}
GSS = {
    "age": ("age of respondent", {89: "89 or older", **NO_ANSWER}),
    "sex": ("respondents sex", _numbered("male|female")),
    "race": ("race of respondent", _numbered("white|black|other")),
    "degree": (
        "r's highest degree",
        {
            **_numbered(
                "less than high school|high school|associate/junior college|bachelor's|graduate", 0
            ),
            8: "don't know",
            9: "no answer",
        },
    ),
    "income16": (
        "total family income",
        {
            **_numbered(
                "under $1,000|$1,000 to $2,999|$3,000 to $3,999|$4,000 to $4,999|$5,000 to "
                "$5,999|$6,000 to $6,999|$7,000 to $7,999|$8,000 to $9,999|$10,000 to $12,499|"
                "$12,500 to $14,999|$15,000 to $17,499|$17,500 to $19,999|$20,000 to $22,499|"
                "$22,500 to $24,999|$25,000 to $29,999|$30,000 to $34,999|$35,000 to $39,999|"
                "$40,000 to $49,999|$50,000 to $59,999|$60,000 to $74,999|$75,000 to $89,999|"
                "$90,000 to $109,999|$110,000 to $129,999|$130,000 to $149,999|$150,000 to "
                "$169,999|$170,000 or over|refused"
            ),
            **NO_ANSWER,
        },
    ),
    "polviews": (
        "think of self as liberal or conservative",
        _numbered(
            "extremely liberal|liberal|slightly liberal|moderate, middle of the road|slightly "
            "conservative|conservative|extremely conservative|don't know|no answer"
        ),
    ),
    "partyid": (
        "political party affiliation",
        _numbered(
            "strong democrat|not very strong democrat|independent, close to democrat|independent "
            "(neither, no response)|independent, close to republican|not very strong republican|"
            "strong republican|other party|don't know|no answer",
            0,
        ),
    ),
    "wtssps": ("weight variable, post-stratified", {}),
    "vstrat": ("variance stratum", {}),
    "vpsu": ("variance primary sampling unit", {}),
}
NEVER = {991: "NEVER USED"}
NSDUH = {
    "AGE3": (
        "RECODE - FINAL EDITED AGE",
        _numbered(
            "12 or 13 years old|14 or 15 years old|16 or 17 years old|Between 18 and 20 years old|"
            "Between 21 and 23 years old|24 or 25 years old|Between 26 and 29 years old|Between 30 "
            "and 34 years old|Between 35 and 49 years old|Between 50 and 64 years old|65 years old "
            "or older"
        ),
    ),
    "irsex": ("IMPUTATION REVISED GENDER", _numbered("1 - Male|2 - Female")),
    "NEWRACE2_4grp": (
        "RC-RACE/HISPANICITY RECODE",
        _numbered("NonHisp White|NonHisp Black/Afr Am|Hispanic|NonHisp other"),
    ),
    "EDUHIGHCAT": (
        "RC-EDUCATION CATEGORIES",
        _numbered(
            "Less high school|High school grad|Some coll/Assoc Dg|College graduate|12 to 17 year "
            "olds"
        ),
    ),
    **{
        name: (f"{what} AGE OF FIRST USE - IMPUTATION REVISED", NEVER)
        for name, what in {
            "IRALCAGE": "ALCOHOL",
            "IRCIGAGE": "CIGARETTE",
            "IRMJAGE": "MARIJUANA",
            "IRCOCAGE": "COCAINE",
            "IRHERAGE": "HEROIN",
        }.items()
    },
    "ANALWT2_C": ("FIN PRSN-LEVEL SMPLE WGHT", {}),
    "VESTR_C": ("ANALYSIS STRATUM", {}),
    "VEREP": ("ANALYSIS REPLICATE", {}),
}
#: As a file that was not cleaned has it: alcohol and heroin, asked outright (NSDUH 2018).
EVER = {
    **_numbered("Yes|No"),
    85: "BAD DATA Logically assigned",
    94: "DON'T KNOW",
    97: "REFUSED",
    98: "BLANK (NO ANSWER)",
}
NSDUH_2018 = {
    **{
        name: (f"EVER USED {name[:-4].upper()}", EVER)
        for name in ("alcever", "cigever", "mjever", "cocever", "herever")
    },
    "irsex": NSDUH["irsex"],
    "NEWRACE2": (
        "RACE/HISPANICITY RECODE (7 LEVELS)",
        _numbered(
            "NonHisp White|NonHisp Black/Afr Am|NonHisp Native Am/AK Native|NonHisp Native HI/"
            "Other Pac Isl|NonHisp Asian|NonHisp more than one race|Hispanic"
        ),
    ),
    "IREDUHIGHST2": (
        "EDUCATION - RECODED IMPUTATION REVISED",
        _numbered(
            "Fifth grade or less grade completed|Sixth grade completed|Seventh grade completed|"
            "Eighth grade completed|Ninth grade completed|Tenth grade completed|Eleventh or "
            "Twelfth grade completed, no diploma|High school diploma/GED|Some college credit, but "
            "no degree|Associate degree|College graduate or higher"
        ),
    ),
    "alcrec": (
        "TIME SINCE LAST DRANK ALCOHOLIC BEVERAGE",
        {
            1: "Within the past 30 days",
            2: "More than 30 days ago but within the past 12 mos",
            3: "More than 12 months ago",
            8: "Used in the past 12 months LOGICALLY ASSIGNED",
            9: "Used at some point in the lifetime LOG ASSIGNED",
            11: "Used in past 30 days LOG ASSN",
            85: "BAD DATA Logically assigned",
            91: "NEVER USED ALCOHOL",
            97: "REFUSED",
            98: "BLANK (NO ANSWER)",
        },
    ),
    "ANALWT_C": ("FIN PRSN-LEVEL SMPLE WGHT", {}),
    "vestr": ("ANALYSIS STRATUM", {}),
    "verep": ("ANALYSIS REPLICATE", {}),
}
NHANES = {
    "SEQN": "Respondent sequence number",
    "SDMVSTRA": "Masked variance pseudo-stratum",
    "SDMVPSU": "Masked variance pseudo-PSU",
    "WTMEC2YR": "Full sample 2 year MEC exam weight",
    "WTINT2YR": "Full sample 2 year interview weight",
    "RIDAGEYR": "Age in years at screening",
    "RIAGENDR": "Gender",
    "BMXBMI": "Body Mass Index (kg/m**2)",
    "BMXWT": "Weight (kg)",
    "DIQ010": "Doctor told you have diabetes",
    "ALQ111": "Ever had a drink of any kind of alcohol",
    "ALQ121": "Past 12 mos how often drink alc bev",
}


def gss(data: Path, out: Path) -> tuple[list[Path], DraftOptions]:
    frame = pd.read_parquet(data / "gss" / "GSS_2018_2021_2022_2024.parquet").astype(float)
    path = out / "gss7224_r3.sav"
    pyreadstat.write_sav(
        frame,
        str(path),
        column_labels={n: GSS[n][0] for n in frame if n in GSS},
        variable_value_labels={n: GSS[n][1] for n in GSS if GSS[n][1]},
        missing_ranges={"age": [{"lo": 98, "hi": 99}]},
    )
    return [path], DraftOptions("mygss", weight="wtssps", year=2022)


def nsduh(
    data: Path, out: Path, name: str = "nsduh_2022", told: dict = NSDUH, weight: str = "ANALWT2_C"
) -> tuple[list[Path], DraftOptions]:
    frame = pd.read_parquet(data / "nsduh" / f"{name}.parquet").drop(
        columns="QUESTID2", errors="ignore"
    )
    path = out / f"{name}.dta"
    pyreadstat.write_dta(
        frame.astype(float),
        str(path),
        version=14,
        column_labels={n: told[n][0] for n in frame if n in told},
        variable_value_labels={n: told[n][1] for n in told if told[n][1]},
    )
    return [path], DraftOptions("mynsduh", weight=weight)


def nhanes(data: Path, out: Path) -> tuple[list[Path], DraftOptions]:
    paths = []
    for name in ("DEMO_L", "BMX_L", "DIQ_L", "ALQ_L"):
        frame = pd.read_parquet(data / "nhanes" / f"{name}.parquet").astype(float)
        paths.append(out / f"{name}.xpt")
        pyreadstat.write_xport(
            frame,
            str(paths[-1]),
            table_name=name,
            file_format_version=5,
            column_labels={n: NHANES.get(n, n) for n in frame},
        )
    return paths, DraftOptions("mynhanes", weight="WTMEC2YR", year=2023)


def values_of(paths: list[Path], column: str) -> np.ndarray:
    """The numbers that occur in a column."""
    for path in paths:
        reader = {".sav": "read_sav", ".dta": "read_dta", ".xpt": "read_xport"}[path.suffix]
        frame, _ = getattr(pyreadstat, reader)(str(path))
        if column in frame:
            return np.unique(frame[column].dropna())
    raise KeyError(column)


def sets(way: Variable, values: np.ndarray) -> list[frozenset[float]]:
    """Which of some numbers each level takes."""
    return [
        frozenset(
            float(v)
            for v in values
            if any(lo <= v <= hi for lo, hi in level.intervals)
            and not any(lo <= v <= hi for lo, hi in way.missing)
        )
        for level in way.levels
    ]


def missing_codes(way: Variable) -> set[int]:
    return {n for low, high in way.missing for n in range(int(low), int(high) + 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Drafted records against hand-written ones.")
    parser.add_argument("folder", type=Path)
    data = parser.parse_args().folder
    numbers = (
        "by hand",
        "drafted",
        "same",
        "unions",
        "missing by hand",
        "the same missing",
        "missing in the draft only",
    )
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        for survey, (paths, wishes) in {
            "gss": gss(data, out),
            "nsduh": nsduh(data, out),
            "nsduh (2018, asked outright)": nsduh(
                data, out, "nsduh_2018_sample1000", NSDUH_2018, "ANALWT_C"
            ),
            "nhanes": nhanes(data, out),
        }.items():
            found = draft_record(paths, wishes)
            written = out / "draft.yaml"
            written.write_text(found.text, encoding="utf-8")
            drafted = {
                way.column: way for ways in load_record(written).variables.values() for way in ways
            }
            table = make_table(survey, "variable", "column", *numbers, right=numbers)
            total = np.zeros(7, dtype=int)
            for variable, ways in find_record(survey.split()[0]).variables.items():
                for way in ways:
                    try:
                        values = values_of(paths, way.column)
                    except KeyError:
                        continue
                    other = drafted.get(way.column)
                    if other is None:
                        table.add_row(variable, way.column, str(len(way.levels)), "left out")
                        continue
                    mine, theirs = sets(way, values), sets(other, values)
                    same = [one for one in mine if one in theirs]
                    unions = [
                        one
                        for one in mine
                        if one
                        and one not in theirs
                        and one == frozenset().union(*(each for each in theirs if each <= one))
                    ]
                    hand, guess = missing_codes(way), missing_codes(other)
                    levels = frozenset().union(*mine)
                    row = [
                        len(mine),
                        len(theirs),
                        len(same),
                        len(unions),
                        len(hand),
                        len(hand & guess),
                        len(guess & levels),
                    ]
                    total += row
                    table.add_row(variable, way.column, *map(str, row))
            table.add_section()
            table.add_row("all", "", *map(str, total))
            print_table(table)
            print(f"{found.marks} marks, {len(found.plans)} tasks\n")


if __name__ == "__main__":
    main()
