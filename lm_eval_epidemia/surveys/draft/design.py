"""Which columns carry the design: guessed from names and labels, never used without being asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lm_eval_epidemia.surveys.draft.columns import Field
from lm_eval_epidemia.surveys.draft.words import (
    COMBINED,
    COUNTRY,
    FINAL,
    POPULATION,
    PSU,
    REPLICATE,
    STRATA,
    says_weight,
    spelt,
)

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


def guessed(columns: Sequence[Field]) -> Guess:
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
    weights: list[Field] = []
    tall = any("height" in (column.name + column.label).casefold() for column in columns)
    for column in columns:
        name, label = column.name.casefold(), column.label.casefold()
        # Of replicates that are numbered from 0, the first is the weight itself.
        numbered = re.search(r"[1-9]\d*$", name) and stems[_stem(name)] >= MANY
        repeated = numbered and (says_weight(_stem(name), "") or REPLICATE.search(name + label))
        if repeated or ("weight" in label and REPLICATE.search(label)):
            replicates.append(column.name)
        elif len(column.answers) > 1 or (tall and name == "weight" and not label):
            continue  # an answer, or what somebody weighs
        elif says_weight(column.name, column.label):
            weights.append(column)
    several = any(COUNTRY.fits(column.name, column.label) for column in columns)
    weights.sort(key=lambda column: _unlikely(column, several))
    named = {column.name for column in weights} | {*replicates}
    others = [column for column in columns if column.name not in named]
    psu = next((c.name for c in others if PSU.fits(c.name, c.label)), "")
    strata = next((c.name for c in others if c.name != psu and STRATA.fits(c.name, c.label)), "")
    return Guess([column.name for column in weights], strata, psu, replicates)


def _unlikely(column: Field, several: bool) -> tuple[bool, bool, bool]:
    """Order weights; of several countries, first those that count them too, last them alone."""
    told = column.name, column.label
    alone, both = (several and kind.fits(*told) for kind in (POPULATION, COMBINED))
    return alone, not both, not FINAL.search(" ".join(told).casefold())


def body_unit(column: Field, values: pd.Series) -> str:
    """Tell in which unit a column called only weight contains the body weights of people.

    Parameters
    ----------
    column : Field
    values : Series, shape (n,)
        Numbers without blanks.
    """
    if not (_BARE.fullmatch(spelt(column.name)) and _BARE.fullmatch(spelt(column.label) or "wt")):
        return ""
    fitting = (
        unit
        for unit, ((low, high), (mean_low, mean_high)) in BODIES.items()
        if values.between(low, high).all() and mean_low <= values.mean() <= mean_high
    )
    return next(fitting, "")


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
