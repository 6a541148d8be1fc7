"""The World Factbook's profiles of countries, as sheets of numbers.

The book is one file of texts: ``83.644 million (2024 est.)``, ``96.2% (male 1,200/female 1,100)``.
A sheet has a row per country, or per country and group of its people, and a column per figure
(``fields.yaml``); the oldest year of a field's figures stands in a column of its own. What is a
share of what is the record's matter (``factbook.yaml``).
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.paths import read_yaml

#: The book's official name, by which it is known: JSON is no format of survey files.
FILE = "factbook_fields.json"

Profile = Mapping[str, Any]
#: By header.
Row = dict[str, Any]


class ProfileField(NamedTuple):
    """A field of a profile, and its figures.

    Attributes
    ----------
    section, name : str
    columns : dict of str to str
        By header, the texts of which its number is the sum ("solar; wind"); '' is a field without
        parts.
    whole : str
        The text of the total, where parts that are not listed are 0.
    """

    section: str
    name: str
    columns: Mapping[str, str]
    whole: str = ""

    def texts(self, profile: Profile) -> dict[str, str]:
        """Return the published texts by name."""
        texts = profile.get(self.section, {}).get(self.name) or {}
        # A field without parts that has a note is a text and a note.
        texts = {"": texts} if isinstance(texts, str) else {"": texts.get("text", ""), **texts}
        return {name: html.unescape(text).strip() for name, text in texts.items() if text}

    def row(self, profile: Profile) -> Row:
        """Return its figures by header, and the oldest of their years; None if not known."""
        texts = self.texts(profile)
        row: Row = {}
        used: list[str] = []
        for header, parts in self.columns.items():
            names = parts.split("; ")
            listed = [texts[name] for name in names if name in texts]
            figure = math.fsum(read_number(text) for text in listed)
            is_known = len(listed) == len(names) or bool(self.whole and texts)
            row[header] = figure if is_known and not math.isnan(figure) else None
            used += listed
        if self.whole:
            # A part that is below 0 by rounding is none.
            adds_up = self._adds_up(row, texts)
            row = {name: max(value or 0.0, 0.0) if adds_up else None for name, value in row.items()}
        return row | {f"{self.name}, year": min(filter(None, map(year, used)), default=None)}

    def _adds_up(self, row: Row, texts: Mapping[str, str]) -> bool:
        """Whether the parts are the total, none negative: what is not listed is then none."""
        total = 100.0 if self.whole == ALL else read_number(texts.get(self.whole, ""))
        parts = [value or 0.0 for value in row.values()]
        return abs(math.fsum(parts) - total) <= SLACK * total and min(parts) >= -BELOW * total


#: The parts are per cent of a whole.
ALL = "100%"
#: How far, as a share of the whole, parts may miss it by rounding, and one of them be below 0.
SLACK, BELOW = 0.015, 0.003

_YEAR = re.compile(r"\([^()]*?(\d{4})(?:-\d{2,4})?(?: est\.)?\)")
_NUMBER = re.compile(r"(-?[\d,]*\d(?:\.\d+)?)(?: (thousand|million|billion|trillion)\b)?")
_TIMES = {None: 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}


def read_number(text: str) -> float:
    """Read the first number of a text: ``1.39 trillion (2024 est.)``.

    NaN if there is none (``NA``), or a bound of one (``<1%``).
    """
    match = _NUMBER.search(re.sub(r"^.*: ", "", _YEAR.sub("", text)))
    if match is None or re.search(r"[<>]\s*$", match.string[: match.start()]):
        return math.nan
    return float(match[1].replace(",", "")) * _TIMES[match[2]]


def year(text: str) -> int | None:
    """Read the first year that stands in brackets: ``(2024 est.)``."""
    match = _YEAR.search(text)
    return int(match[1]) if match else None


#: Which fields make which columns.
_FIELDS = read_yaml(__package__, "fields.yaml")
POPULATION, AGES = ProfileField(**_FIELDS["population"]), ProfileField(**_FIELDS["ages"])
OF_COUNTRIES = [ProfileField(**field) for field in _FIELDS["countries"]]


def _people(profile: Profile) -> dict[tuple[str, str], float]:
    """Count the people of each age group and sex; NaN if that is not known."""
    texts = AGES.texts(profile)
    counts = {}
    for age, text in AGES.columns.items():
        for sex in ("female", "male"):
            match = re.search(rf"\b{sex} ([\d,]+)", texts.get(text, ""))
            counts[age, sex] = float(match[1].replace(",", "")) if match else math.nan
    return counts


def _countries(profile: Profile, place: Row) -> Iterator[Row]:
    people = _people(profile)
    row = {**place, **AGES.row(profile)}
    row |= {age: people[age, "female"] + people[age, "male"] for age in AGES.columns}
    row["Women aged 15 to 64"] = people["15-64", "female"]
    for field in OF_COUNTRIES:
        row |= field.row(profile)
    for name, parts in _FIELDS["sums"].items():
        figures = [row[header] for header in parts]
        row[name] = None if None in figures else math.fsum(figures)
    yield row


def _by_age(profile: Profile, place: Row) -> Iterator[Row]:
    people, published = _people(profile), AGES.row(profile)
    for age in AGES.columns:
        row = {**place, "Age": age, "Female": people[age, "female"], "Male": people[age, "male"]}
        row["People"] = row["Female"] + row["Male"]
        yield row | {"Age structure, year": published["Age structure, year"]}


def _by_sex(profile: Profile, place: Row) -> Iterator[Row]:
    people = _people(profile)
    for sex in ("female", "male"):
        row = {**place, "Sex": sex, "Aged 15 or older": people["15-64", sex]}
        row["Aged 15 or older"] += people["65 or older", sex]
        for header, name in _FIELDS["sexes"].items():
            row |= POPULATION._replace(name=name, columns={header: sex}).row(profile)
        yield row


def _by_residence(profile: Profile, place: Row) -> Iterator[Row]:
    urban, everybody = OF_COUNTRIES[0].row(profile)["Urban"], place["Population"]
    for residence, text in _FIELDS["residences"].items():
        people = None
        if urban is not None and everybody is not None:
            people = everybody * (urban if residence == "urban" else 100 - urban) / 100
        row = {**place, "Residence": residence, "Residents": people}
        name, columns = "Drinking water source", {"Improved water": text}
        water = POPULATION._replace(name=name, columns=columns)
        yield row | water.row(profile)


def sheets(path: Path) -> list[list[list[Any]]]:
    """Read the book: sheets of rows of cells, headers first, of countries and of their people.

    Parameters
    ----------
    path : Path
        A list of profiles in JSON: each with its ``code`` and sections of fields.

    Raises
    ------
    EpidemiaError
        If it is something else.
    """
    try:
        profiles = json.loads(path.read_text(encoding="utf-8"))
        places = [{"Country": profile["code"], **POPULATION.row(profile)} for profile in profiles]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise EpidemiaError(
            f"{path.name} is not the World Factbook file: expected a JSON list of profiles with a "
            f"'code' ({type(error).__name__}: {error})"
        ) from None
    sheets = []
    for rows_of in (_countries, _by_age, _by_sex, _by_residence):
        rows = [row for each in zip(profiles, places, strict=True) for row in rows_of(*each)]
        sheets.append([[*row] for row in rows[:1]] + [[*row.values()] for row in rows])
    return sheets
