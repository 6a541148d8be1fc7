"""The design: guessed, never used without consent; and the records, with their weights.

Columns of the design are guessed by names and labels; weights also by their values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.surveys.draft import words
from lm_eval_epidemia.surveys.draft.amounts import has_unit
from lm_eval_epidemia.surveys.draft.columns import NONE, DraftOptions, FileColumn, Files
from lm_eval_epidemia.surveys.draft.tally import blocks
from lm_eval_epidemia.surveys.draft.variables import kind_of
from lm_eval_epidemia.surveys.microdata import check_keys, check_weights
from lm_eval_epidemia.surveys.read import read_columns

if TYPE_CHECKING:
    import pandas as pd

#: So many numbered columns of one name are replicates, if that is the name of a weight.
MANY = 8

#: A name that leaves open which weight it is of.
_BARE = re.compile(r"(the )?(weights?|wg?h?ts?|peso|poids|gewicht|waga|vikt|vekt)( \d)?")

#: Between these lie what people weigh, and its mean.
BODIES = {"kilograms": ((30, 250), (50, 110)), "pounds": ((66, 550), (120, 220))}


class Guess(NamedTuple):
    """Columns that look like the design.

    Attributes
    ----------
    weights : list of str
        The likeliest first.
    strata, psu : str
        Empty if there is none.
    replicates : list of str
        Replicate weights, which are left out.
    span : str
        Of the values of the first weight, where they are known: "52 to 110, mean 80".
    body : str
        In which unit they look like what people weigh; empty if they do not.
    unsaid : list of str
        Columns that may be weights by their values alone, where no name or label tells of one.
    """

    weights: list[str]
    strata: str
    psu: str
    replicates: list[str]
    span: str = ""
    body: str = ""
    unsaid: list[str] = []

    @property
    def seen(self) -> str:
        """Describe the values of the first weight."""
        body = f", as people's {self.body} are" if self.body else ""
        return f"{self.weights[0]} is {self.span}{body}"


def guess_design(columns: Sequence[FileColumn]) -> Guess:
    """Guess the design from the names and labels of columns.

    Parameters
    ----------
    columns : sequence of Field
        Those that a record can name.

    Returns
    -------
    Guess
    """
    stems = Counter(_stem(column.name) for column in columns if column.name[-1:].isdigit())
    replicates: list[str] = []
    weights: list[FileColumn] = []
    tall = any("height" in (column.name + column.label).casefold() for column in columns)
    for column in columns:
        name, label = column.name.casefold(), column.label.casefold()
        # Of replicates that are numbered from 0, the first is the weight itself.
        numbered = re.search(r"[1-9]\d*$", name) and stems[_stem(name)] >= MANY
        repeated = numbered and (
            words.says_weight(_stem(name), "") or words.REPLICATE.search(name + label)
        )
        if repeated or ("weight" in label and words.REPLICATE.search(label)):
            replicates.append(column.name)
        elif len(column.answers) > 1 or (tall and name == "weight" and not label):
            continue  # an answer, or what somebody weighs
        elif words.says_weight(column.name, column.label):
            weights.append(column)
    weights.sort(key=lambda x: not words.FINAL.search(f"{x.name} {x.label}".casefold()))
    named = {column.name for column in weights} | {*replicates}
    others = [column for column in columns if column.name not in named]
    psu = next((c.name for c in others if words.PSU.fits(c)), "")
    strata = next((c.name for c in others if c.name != psu and words.STRATA.fits(c)), "")
    return Guess([column.name for column in weights], strata, psu, replicates)


def body_unit(column: FileColumn, values: pd.Series) -> str:
    """Tell in which unit a column called only weight contains the body weights of people.

    Parameters
    ----------
    column : Field
    values : Series, shape (n,)
        Numbers without blanks.
    """
    if not all(_BARE.fullmatch(words.split_name(t) or "wt") for t in (column.name, column.label)):
        return ""
    for unit, (span, of_mean) in BODIES.items():
        if values.between(*span).all() and of_mean[0] <= values.mean() <= of_mean[1]:
            return unit
    return ""


def _stem(name: str) -> str:
    return name.casefold().rstrip("0123456789").rstrip("_")


def single_units(records: pd.DataFrame, strata: str, psu: str) -> str:
    """Say why strata and PSUs give no variance; empty if they do.

    Parameters
    ----------
    records : DataFrame
        Those that are used.
    strata, psu : str
        Their columns: PSUs alone are of one stratum, and without them every record is one.
    """
    units = records[[name for name in dict.fromkeys((strata, psu)) if name]]
    if blank := int(units.isna().any(axis=1).sum()):
        return f"{blank:,} records have none"
    units = units.drop_duplicates() if psu else units
    sizes = units[strata].value_counts().to_numpy() if strata else np.array([len(units)])
    if single := int((sizes == 1).sum()):
        return f"{single:,} of {len(sizes):,} strata have a single PSU"
    return ""


#: Records in which a column is looked at for weights; how many different numbers these have there.
FIRST, SEVERAL = 20_000, 30

#: Whole numbers below this are codes.
CODES = 10


def known_numbers(column: FileColumn, values: pd.Series) -> NDArray[np.float64]:
    """Return numbers with blanks where a code means no answer."""
    numbers = values.to_numpy(float).copy()
    for low, high in column.missing_ranges:
        numbers[(numbers >= low) & (numbers <= high)] = np.nan
    return numbers


def _counting(column: FileColumn, values: pd.Series) -> pd.Series | None:
    """Return numbers that may count people, without codes below zero; None if they do not."""
    import pandas as pd

    known = pd.Series(known_numbers(column, values)).dropna()
    below = known[known < 0].unique()
    if (below == np.round(below)).all() and len(below) < CODES:
        known = known[known >= 0]
    codes = known.max() < CODES and (known == known.round()).all()
    return None if known.nunique() < 2 or known.min() < 0 or codes else known


def inspect_weights(
    read: Files, guess: Guess, wishes: DraftOptions, named: Collection[str]
) -> Guess:
    """Look at the values of guessed weights, or, if none has the name of one, of other columns.

    A body weight is used only if there is no other.

    Parameters
    ----------
    read : Files
    guess : Guess
    wishes : Wishes
    named : collection of str
        Outcomes and conditions of the user: no weights.
    """
    spans: dict[str, str] = {}
    bodies: dict[str, str] = {}
    for name in guess.weights:
        column = read.column(name, "--weight")
        values = read_columns(read.paths[column.file], [name], texts=[name])[name]
        if values.dtype.kind != "f":
            if values.nunique() >= SEVERAL:  # "0,85": to use it is an error that says so
                spans[name] = ""
            continue
        if (known := _counting(column, values)) is None:
            continue
        low, high, mean = (f"{x:.4g}" for x in (known.min(), known.max(), known.mean()))
        spans[name] = f"{low} to {high}, mean {mean}"
        if not (guess.strata and guess.psu) and (unit := body_unit(column, known)):
            bodies[name] = unit
    weights = [name for name in spans if name not in bodies] or [*bodies]
    first = next(iter(weights), "")
    guess = guess._replace(weights=weights, span=spans.get(first, ""), body=bodies.get(first, ""))
    if weights and not guess.body:
        return guess
    taken = {guess.strata, guess.psu, *guess.replicates, *weights, *named}
    return guess._replace(unsaid=_unsaid(read, taken, wishes.encoding))


def _unsaid(read: Files, taken: Collection[str], encoding: str | None) -> list[str]:
    """Find columns that may be weights by their values: positive, with decimals, and many.

    Not those with labels of answers, or with a name or label of something that is measured.
    """
    import pandas as pd

    found = []
    able = [
        column
        for column in read.usable
        if not (column.labels and (column.answers or column.kind == "texts"))
        and column.name not in taken
        and not kind_of(column)
        and not has_unit(column, "")
        and not words.ABOUT_INTERVIEW.fits(column)
        and not words.says_measured(column.name, column.label)
        and not words.says_weight(column.name, column.label)
    ]
    for number, path in enumerate(read.paths):
        columns = [column for column in able if column.file == number]
        block = next(blocks(path, columns, encoding), {}) if columns else {}
        for name, column in zip(block, columns, strict=False):
            numbers = pd.to_numeric(pd.Series(block[name])[:FIRST].astype(object), errors="coerce")
            known = _counting(column, numbers.replace([np.inf], np.nan))
            if known is not None and known.nunique() >= SEVERAL:
                found += [name] if (known != known.round()).mean() > 0.5 else []
    return found


# -- The records that are used ---------------------------------------------------------------------

#: What a column is called that says of which year a record is.
YEARS = words.WORDS["years"].split()


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


def rows_of(read: Files, guess: Guess, wishes: DraftOptions) -> UsedRows:
    """Determine weight, strata, PSUs and year, and read their columns.

    Parameters
    ----------
    read : Files
    guess : Guess
    wishes : DraftOptions

    Raises
    ------
    EpidemiaError
        If a weight was guessed that is not accepted, a column named is none or cannot serve, or no
        year is known.
    """
    import pandas as pd

    weight = _settle_weight(read, guess, wishes)
    named = bool(wishes.strata or wishes.psu)
    strata = _find_named(read, "--strata", wishes.strata)
    psu = _find_named(read, "--psu", wishes.psu)
    # Strata alone are not taken: without the PSUs they would promise too much.
    if wishes.accept and guess.psu and not named:
        strata, psu = guess.strata, guess.psu
    # The file that has the weight has everybody.
    base = read.column(weight, "--weight").file if weight else 0
    path, of_base = read.paths[base], [c for c in read.columns if c.file == base]
    names = {column.name.casefold() for column in of_base}
    years = [c.name for c in read.usable if c.file == base and c.name.casefold() in YEARS][:1]
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
        weights = known_numbers(read.column(weight, "--weight"), frame[weight])
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
            what = f"--strata {strata or NONE} --psu {psu or NONE}: {fault}"
            raise EpidemiaError(f"{what}: give --strata none --psu none, or correct the columns")
        if fault:
            checks.append(f"{looking} {fault}: not used")
            strata = psu = ""
    elif alike and wishes.strata is None and wishes.psu is None:
        checks.append(f"{looking} nobody named them (--strata, --psu): not used")
    keys = frame[read.join] if read.join else None
    if keys is not None:
        check_keys(pd.Index(keys[keep]), path.name)
    sampling = Sampling(year, year_from, weight, strata, psu, select, checks)
    return UsedRows(sampling, keep, np.where(keep, weights, 0.0), keys)


def _find_named(read: Files, option: str, name: str | None) -> str:
    """Return the column that an option names, as its file spells it; empty if none is meant."""
    if name is None or name.casefold() == NONE:
        return ""
    return read.column(name, option).name


def _settle_weight(read: Files, guess: Guess, wishes: DraftOptions) -> str:
    """Return the weight; empty if there is none."""
    if wishes.weight is not None or not (guess.weights or guess.unsaid):
        return _find_named(read, "--weight", wishes.weight)
    if not guess.weights:
        raise EpidemiaError(
            f"no column is called a weight, but {few(guess.unsaid)} may be one: give --weight "
            f"{guess.unsaid[0]} to use it, or --weight none if all records count equally"
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
    check_keys(pd.Index(keys), path.name, pd.Index(rows.keys))
    place = pd.Index(rows.keys).get_indexer(pd.Index(keys))
    keep = (place >= 0) & rows.keep[place]
    return keep, np.where(keep, rows.weights[place], 0.0)
