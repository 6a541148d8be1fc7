"""Which records of the files are used, with which weight and design."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.surveys.draft.columns import (
    NONE,
    DraftOptions,
    FileColumn,
    Files,
)
from lm_eval_epidemia.surveys.draft.design import Guess, known_numbers, single_units
from lm_eval_epidemia.surveys.draft.tally import blocks
from lm_eval_epidemia.surveys.draft.words import WORDS
from lm_eval_epidemia.surveys.microdata import check_unique, check_weights
from lm_eval_epidemia.surveys.read import read_columns

if TYPE_CHECKING:
    import pandas as pd

#: What a column is called that says of which year a record is.
YEARS = tuple(WORDS["years"].split())


class Sampling(NamedTuple):
    """The records of a survey, their weights, and the design.

    Attributes
    ----------
    year : int
    year_from : str
        What told it.
    weight, strata, psu : str
        Columns; empty if there is none.
    select : sequence of (str, float, float)
        Columns, and the range that the records have there.
    checks : sequence of str
        What was decided where a person may decide otherwise.
    """

    year: int
    year_from: str
    weight: str = ""
    strata: str = ""
    psu: str = ""
    select: Sequence[tuple[str, float, float]] = ()
    checks: Sequence[str] = ()


class UsedRows(NamedTuple):
    """The records that are used.

    Attributes
    ----------
    sampling : Sampling
    keep : ndarray of bool, shape (n,)
        Which rows are used, of the file that has the weight.
    weights : ndarray, shape (n,)
        Zero where they are not.
    keys : Series, shape (n,), or None
        By which other files are joined.
    """

    sampling: Sampling
    keep: NDArray[np.bool_]
    weights: NDArray[np.float64]
    keys: pd.Series | None


def rows_of(
    read: Files, usable: Sequence[FileColumn], guess: Guess, wishes: DraftOptions
) -> UsedRows:
    """Determine weight, strata, PSUs and year, and read their columns.

    Parameters
    ----------
    read : Files
    usable : sequence of Field
    guess : Guess
    wishes : DraftOptions

    Raises
    ------
    EpidemiaError
        If a weight was guessed that is not accepted, a column named is none or cannot serve, or no
        year is known.
    """
    import pandas as pd

    weight = _settle_weight(read, usable, guess, wishes)
    named = bool(wishes.strata or wishes.psu)
    strata = _find_named(read, usable, "--strata", wishes.strata)
    psu = _find_named(read, usable, "--psu", wishes.psu)
    # Strata alone are not taken: without the PSUs they would promise too much.
    if wishes.accept and guess.psu and not named:
        strata, psu = guess.strata, guess.psu
    # The file that has the weight has everybody.
    base = read.column(weight, "--weight", usable).file if weight else 0
    path, of_base = read.paths[base], [c for c in read.columns if c.file == base]
    names = {column.name.casefold() for column in of_base}
    years = [c.name for c in usable if c.file == base and c.name.casefold() in YEARS][:1]
    wanted = (read.join, weight, strata, psu, *years)
    here = [name for name in wanted if name.casefold() in names - {""}]
    if here:
        frame = read_columns(path, here, texts=[name for name in here if name != weight])
    else:
        frame = _without_columns(path, of_base)
    column = next((frame[name] for name in years if _of_years(frame[name])), None)
    year, year_from = _year(read, column, wishes)
    keep, weights = np.ones(len(frame), dtype=bool), np.ones(len(frame))
    select: list[tuple[str, float, float]] = []
    checks: list[str] = []
    if guess.body and not weight and wishes.weight is None:
        not_used = "it is not used as the weight; to use it, give --weight"
        checks.append(f"{guess.seen}: {not_used} {guess.weights[0]}")
    if column is not None and column.nunique() > 1:
        keep &= column.to_numpy() == year
        if not keep.any():
            given = f"--year {year}: {read.names}"
            raise EpidemiaError(f"{given} has no record of that year ({column.name})")
        select.append((str(column.name), year, year))
    elif column is not None and year != column.iloc[0]:
        there = f"{column.name} is {column.iloc[0]:g} in every record"
        checks.append(f"{there}, but --year is {year}: questions use {year}")
    if weight:
        weights = known_numbers(read.column(weight, "--weight", usable), frame[weight])
        if (blank := keep & np.isnan(weights)).any() and not blank[keep].all():
            select.append((weight, 0, float(np.nanmax(weights[keep]))))
            checks.append(f"{int(blank.sum()):,} records without {weight} are left out")
            keep &= ~blank
        check_weights(weights[keep], weight, path.name)
    alike = [name for name in (guess.strata, guess.psu) if name]
    looks = "look" if len(alike) > 1 else "looks"
    looking = f"{' and '.join(alike)} {looks} like strata or PSUs, but"
    if strata or psu:
        if away := [name for name in (strata, psu) if name and name not in here]:
            fault = f"{away[0]} is in another file than the weight"
        else:
            fault = single_units(frame[keep], strata, psu)
        if fault and named:
            raise EpidemiaError(
                f"--strata {strata or NONE} --psu {psu or NONE}: {fault}, so the variance cannot "
                "be estimated: correct the columns, or give --strata none --psu none"
            )
        if fault:
            checks.append(f"{looking} {fault}: not used")
            strata = psu = ""
    elif alike and wishes.strata is None and wishes.psu is None:
        checks.append(f"{looking} nobody named them (--strata, --psu): not used")
    keys = frame[read.join] if read.join else None
    if keys is not None:
        check_unique(pd.Index(keys[keep]), path.name)
    sampling = Sampling(year, year_from, weight, strata, psu, select, checks)
    return UsedRows(sampling, keep, np.where(keep, weights, 0.0), keys)


def _find_named(read: Files, usable: Sequence[FileColumn], option: str, name: str | None) -> str:
    """Return the column that an option names, as its file spells it; empty if none is meant."""
    if name is None or name.casefold() == NONE:
        return ""
    return read.column(name, option, usable).name


def _settle_weight(
    read: Files, usable: Sequence[FileColumn], guess: Guess, wishes: DraftOptions
) -> str:
    """Return the weight; empty if there is none."""
    if wishes.weight is not None or not (guess.weights or guess.unsaid):
        return _find_named(read, usable, "--weight", wishes.weight)
    if not guess.weights:
        raise EpidemiaError(
            f"no column is called a weight, but {few(guess.unsaid)} may be one (positive numbers "
            f"with decimals, without labels): give --weight {guess.unsaid[0]} to use it, or "
            "--weight none if all records count equally"
        )
    if wishes.accept:
        return "" if guess.body else guess.weights[0]
    also = f" --strata {guess.strata}" if guess.strata and guess.psu else ""
    also += f" --psu {guess.psu}" if guess.psu else ""
    looks = "looks" if len(guess.weights) == 1 else "look"
    seen = f" ({guess.seen})" if guess.span else ""
    raise EpidemiaError(
        f"{few(guess.weights)} {looks} like a weight{seen}: give --weight {guess.weights[0]}{also} "
        "to use it, or --weight none if all records count equally (--yes "
        f"{'takes none' if guess.body else 'accepts what is guessed'})"
    )


def _of_years(column: pd.Series) -> bool:
    """Tell whether a column holds calendar years."""
    known = column.dropna()
    return column.dtype.kind == "f" and len(known) > 0 and bool(known.between(1900, 2100).all())


def _without_columns(path: Path, columns: Sequence[FileColumn]) -> pd.DataFrame:
    """Return a table without columns, as long as a file of which no column is needed yet."""
    import pandas as pd

    first = [column for column in columns if column.kind in ("numbers", "texts")][:1]
    rows = sum(len(block[first[0].name]) for block in blocks(path, first)) if first else 0
    if not rows:
        raise EpidemiaError(f"{path.name} has zero rows, or no column with numbers or text")
    return pd.DataFrame(index=range(rows))


def _year(read: Files, column: pd.Series | None, wishes: DraftOptions) -> tuple[int, str]:
    """Return the year of the records, and what told it."""
    if wishes.year is not None:
        if not 1800 <= wishes.year <= 2199:
            raise EpidemiaError(f"--year {wishes.year}: expected a year such as 2022")
        return wishes.year, "as given"
    if column is not None:
        several = column.nunique() > 1
        more = ", the last of several years: choose another with --year" if several else ""
        return int(column.max()), f"the column {column.name}{more}"
    for text in [*(path.name for path in read.given), *(header.title for header in read.headers)]:
        if years := re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", text):
            return int(years[-1]), f"from {text!r}"
    nowhere = "the survey year is in neither the file name nor a column called year: give --year"
    raise EpidemiaError(f"{read.names}: {nowhere}")


def rows_in(path: Path, rows: UsedRows, join: str) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return the rows of a file that count, and their weights."""
    if rows.keys is None:
        return rows.keep, rows.weights
    import pandas as pd

    keys = read_columns(path, [join], texts=[join])[join]
    if keys.dtype.kind != rows.keys.dtype.kind:
        mixed = "contains numbers in one file and text in another: write it alike in both"
        raise EpidemiaError(f"{path.name}: column {join} {mixed}")
    check_unique(pd.Index(keys), path.name)
    place = pd.Index(rows.keys).get_indexer(pd.Index(keys))
    keep = (place >= 0) & rows.keep[place]
    return keep, np.where(keep, rows.weights[place], 0.0)
