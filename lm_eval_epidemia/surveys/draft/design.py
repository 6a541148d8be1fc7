"""Which columns carry the design: guessed, never used without being asked.

By names and labels; weights also by their values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.surveys.draft import words
from lm_eval_epidemia.surveys.draft.amounts import has_unit
from lm_eval_epidemia.surveys.draft.columns import DraftOptions, FileColumn, Files
from lm_eval_epidemia.surveys.draft.tally import blocks
from lm_eval_epidemia.surveys.draft.variables import kind_of
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
    read: Files,
    usable: Sequence[FileColumn],
    guess: Guess,
    wishes: DraftOptions,
    named: Collection[str],
) -> Guess:
    """Look at the values of guessed weights, or, if none has the name of one, of other columns.

    A body weight is used only if there is no other.

    Parameters
    ----------
    read : Files
    usable : sequence of Field
    guess : Guess
    wishes : Wishes
    named : collection of str
        Outcomes and conditions of the user: no weights.
    """
    spans: dict[str, str] = {}
    bodies: dict[str, str] = {}
    for name in guess.weights:
        column = read.column(name, "--weight", usable)
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
    return guess._replace(unsaid=_unsaid(read, usable, taken, wishes.encoding))


def _unsaid(
    read: Files, usable: Sequence[FileColumn], taken: Collection[str], encoding: str | None
) -> list[str]:
    """Find columns that may be weights by their values: positive, with decimals, and many.

    Not those with labels of answers, or with a name or label of something that is measured.
    """
    import pandas as pd

    found = []
    able = [
        column
        for column in usable
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
