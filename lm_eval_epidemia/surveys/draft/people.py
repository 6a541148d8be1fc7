"""Which records of the files are used, with which weight and design."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.surveys.draft.columns import Column
from lm_eval_epidemia.surveys.draft.design import Guess, single_units
from lm_eval_epidemia.surveys.draft.files import Files
from lm_eval_epidemia.surveys.draft.tally import blocks
from lm_eval_epidemia.surveys.draft.wishes import NONE, Chooser, Question, Wishes
from lm_eval_epidemia.surveys.microdata import check_weights
from lm_eval_epidemia.surveys.read import read_columns, suffix_of

if TYPE_CHECKING:
    import pandas as pd

#: What a column is called that says of which year a record is.
YEARS = ("year", "survey_year", "surveyyear")


class People(NamedTuple):
    """The records that are used, their weight and their design.

    Attributes
    ----------
    weight, strata, psu : str
        Columns; empty where there is none.
    select : list of (str, float, float)
        Columns, and the range that the records have there.
    year : int
    year_from : str
        What told it.
    checks : list of str
        What was decided where a person may decide otherwise.
    keep : ndarray of bool, shape (n,)
        Which rows are used, of the file that has the weight.
    weights : ndarray, shape (n,)
        Zero where they are not.
    keys : Series, shape (n,), or None
        By which other files are joined.
    """

    weight: str
    strata: str
    psu: str
    select: list[tuple[str, float, float]]
    year: int
    year_from: str
    checks: list[str]
    keep: NDArray[np.bool_]
    weights: NDArray[np.float64]
    keys: pd.Series | None


def people_of(
    read: Files, usable: Sequence[Column], guess: Guess, wishes: Wishes, choose: Chooser | None
) -> People:
    """Settle weight, strata, PSUs and year, and read their columns.

    Parameters
    ----------
    read : Files
    usable : sequence of Column
    guess : Guess
    wishes : Wishes
    choose : callable, optional
        Asked before a guess is used.

    Raises
    ------
    EpidemiaError
        If a weight was guessed that nobody confirms, a column named is none or cannot serve, or no
        year is known.
    """
    labels = {column.name: column.label for column in usable}
    weight = _weight(read, usable, guess, wishes, choose, labels)
    strata, psu, asked = _units(read, usable, guess, wishes, choose, labels)
    # The file that has the weight has everybody.
    base = read.column(weight, "--weight", usable).file if weight else 0
    of_base = {c.name.casefold() for c in read.columns if c.file == base}
    years = [one.name for one in usable if one.file == base and one.name.casefold() in YEARS]
    wanted = [name for name in (read.join, weight, strata, psu, *years[:1]) if name]
    here = [name for name in wanted if name.casefold() in of_base]
    path = read.paths[base]
    frame = (
        read_columns(path, here, texts=[name for name in here if name != weight])
        if here
        else _rows_of(path, read.columns)
    )
    checks: list[str] = []
    keep = np.ones(len(frame), dtype=bool)
    select: list[tuple[str, float, float]] = []
    column = next((frame[name] for name in years[:1] if _of_years(frame[name])), None)
    year, year_from = _year(read, column, wishes)
    if column is not None and column.nunique() == 1 and year != column.iloc[0]:
        checks.append(
            f"{column.name} says {column.iloc[0]:g} of every record, --year {year}: questions say "
            f"{year}"
        )
    if column is not None and column.nunique() > 1:
        keep &= column.to_numpy() == year
        if not keep.any():
            raise EpidemiaError(f"--year {year}: {read.said} has no record of it ({column.name})")
        select.append((str(column.name), year, year))
    weights = np.ones(len(frame))
    if weight:
        weights = frame[weight].to_numpy(float)
        if (blank := keep & np.isnan(weights)).any() and not blank[keep].all():
            select.append((weight, 0, float(np.nanmax(weights[keep]))))
            checks.append(f"{int(blank.sum()):,} records have no {weight}, and are left out")
            keep &= ~blank
        check_weights(weights[keep], weight, path.name)
    if strata:
        away = [name for name in (strata, psu) if name not in here]
        fault = (
            f"{away[0]} is in another file than the weight"
            if away
            else single_units(frame[strata][keep], frame[psu][keep])
        )
        if fault and asked:
            raise EpidemiaError(
                f"--strata {strata} --psu {psu}: {fault}, so that no variance can be told: mend "
                "the columns as the survey's manual says, or give --strata none --psu none"
            )
        if fault:
            checks.append(f"{strata} and {psu} look like strata and PSUs, but {fault}: not used")
            strata = psu = ""
    elif guess.strata and guess.psu and wishes.strata is None:
        checks.append(f"{guess.strata} and {guess.psu} look like strata and PSUs, and are not used")
    keys = frame[read.join] if read.join else None
    if keys is not None and not keys[keep].is_unique:
        raise _not_a_number(path.name, read.join)
    kept = np.where(keep, weights, 0.0)
    return People(weight, strata, psu, select, year, year_from, checks, keep, kept, keys)


def _of_years(column: pd.Series) -> bool:
    """Tell whether a column holds calendar years."""
    known = column.dropna()
    return column.dtype.kind == "f" and len(known) > 0 and bool(known.between(1900, 2100).all())


def _not_a_number(file: str, join: str) -> EpidemiaError:
    return EpidemiaError(
        f"{file}: column {join} has duplicates, so files cannot be joined by it: name another with "
        "--join"
    )


def _rows_of(path: Path, columns: Sequence[Column]) -> pd.DataFrame:
    """Return a table without columns, as long as a file of which no column is needed yet."""
    import pandas as pd

    first = [column for column in columns if column.kind in ("numbers", "texts")][:1]
    rows = sum(len(block[first[0].name]) for _, block in blocks(path, first)) if first else 0
    if not rows:
        raise EpidemiaError(f"{path.name} has zero rows, or no column with numbers or text")
    return pd.DataFrame(index=range(rows))


def _weight(
    read: Files,
    usable: Sequence[Column],
    guess: Guess,
    wishes: Wishes,
    choose: Chooser | None,
    labels: Mapping[str, str],
) -> str:
    if wishes.weight is not None:
        if wishes.weight.casefold() == NONE:
            return ""
        column = read.column(wishes.weight, "--weight", usable)
        if column.kind == "texts" and suffix_of(read.paths[column.file].name) != ".csv":
            raise EpidemiaError(f"--weight {column.name}: the column holds text, expected numbers")
        return column.name
    if not guess.weights:
        return ""
    if choose is None:
        also = f" --strata {guess.strata} --psu {guess.psu}" if guess.strata and guess.psu else ""
        raise EpidemiaError(
            f"{few(guess.weights)} {'looks' if len(guess.weights) == 1 else 'look'} like a weight: "
            f"say so with --weight {guess.weights[0]}{also}, or --weight none if all records count "
            "alike (--yes accepts what is guessed)"
        )
    chosen = choose(Question("weight", "--weight", tuple(guess.weights), labels))
    return read.column(chosen[0], "--weight", usable).name if chosen else ""


def _units(
    read: Files,
    usable: Sequence[Column],
    guess: Guess,
    wishes: Wishes,
    choose: Chooser | None,
    labels: Mapping[str, str],
) -> tuple[str, str, bool]:
    """Return strata and PSUs, and whether the user named them."""
    given = [name for name in (wishes.strata, wishes.psu) if name and name.casefold() != NONE]
    if len(given) == 1:
        raise EpidemiaError("--strata and --psu go together: the one tells nothing of errors alone")
    if given:
        strata, psu = (
            read.column(name, option, usable).name
            for name, option in zip(given, ("--strata", "--psu"), strict=True)
        )
        return strata, psu, True
    if wishes.strata or wishes.psu or choose is None or not (guess.strata and guess.psu):
        return "", "", False
    pair = (guess.strata, guess.psu)
    chosen = choose(Question("strata and PSUs", "--strata and --psu", pair, labels))
    return (chosen[0], chosen[1], False) if len(chosen) == 2 else ("", "", False)


def _year(read: Files, column: pd.Series | None, wishes: Wishes) -> tuple[int, str]:
    """Return the year of the records, and what told it."""
    if wishes.year is not None:
        if not 1800 <= wishes.year <= 2199:
            raise EpidemiaError(f"--year {wishes.year}: expected a year such as 2022")
        return wishes.year, "as given"
    if column is not None:
        more = ", the last of several: --year takes another" if column.nunique() > 1 else ""
        return int(column.max()), f"the column {column.name}{more}"
    for text in [*(path.name for path in read.given), *(one.title for one in read.headers)]:
        if found := re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", text):
            return int(found[-1]), f"from {text!r}"
    raise EpidemiaError(
        f"{read.said}: neither a name nor a column called year says of which year it is: give "
        "--year"
    )


def rows_in(
    path: Path, design: People, join: str
) -> tuple[NDArray[np.bool_], NDArray[np.float64], tuple[float, float]]:
    """Return which rows of a file count, their weights, and who is not in it."""
    if design.keys is None:
        return design.keep, design.weights, (0.0, 0.0)
    keys = read_columns(path, [join], texts=[join])[join]
    if keys.dtype.kind != design.keys.dtype.kind:
        raise EpidemiaError(
            f"{path.name}: column {join} holds numbers in one file, text in another"
        )
    if not keys.is_unique:
        raise _not_a_number(path.name, join)
    import pandas as pd

    place = pd.Index(design.keys.to_numpy()).get_indexer(pd.Index(keys.to_numpy()))
    known = place >= 0
    keep = known & design.keep[place]
    weights = np.where(keep, design.weights[place], 0.0)
    return (
        keep,
        weights,
        (
            float(design.keep.sum() - keep.sum()),
            float(design.weights.sum() - weights.sum()),
        ),
    )
