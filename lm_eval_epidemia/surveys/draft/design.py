"""Which columns carry the design: guessed from names and labels, never used without being asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lm_eval_epidemia.surveys.draft.columns import Field
from lm_eval_epidemia.surveys.draft.words import NO_WEIGHT, PSU, REPLICATE, STRATA, WEIGHT

if TYPE_CHECKING:
    import pandas as pd

#: So many numbered columns of one name are replicates, if that is the name of a weight.
MANY = 8

#: Names of weights that say that they are the last step.
_FINAL = re.compile(
    r"final|wtssnrps|wtssps|wtmec|_llcpwt|anweight|pspwght|perwt|pwgtp|analwt|wtfa|post"
)

#: A name that leaves open which weight it is of.
_BARE = re.compile(r"(the )?(weights?|wgts?|wts?)", re.IGNORECASE)

#: Between these lie what people weigh, and its mean.
KILOGRAMS, MEAN_KILOGRAMS = (30, 250), (50, 110)


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
    body : bool
        Whether they look like what people weigh.
    """

    weights: list[str]
    strata: str
    psu: str
    replicates: list[str]
    span: str = ""
    body: bool = False


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
        said = f"{name.replace('_', ' ')} {label}"
        numbered = name[-1:].isdigit() and stems[_stem(name)] >= MANY
        repeated = numbered and (WEIGHT.fits(_stem(name), "") or REPLICATE.search(name + label))
        if repeated or ("weight" in label and REPLICATE.search(label)):
            replicates.append(column.name)
        elif column.labels or NO_WEIGHT.search(said) or (tall and name == "weight" and not label):
            continue  # an answer, or what somebody weighs
        elif WEIGHT.fits(column.name, column.label):
            weights.append(column)
    weights.sort(key=lambda c: not _FINAL.search(f"{c.name} {c.label}".casefold()))
    named = {column.name for column in weights} | {*replicates}
    others = [column for column in columns if column.name not in named]
    psu = next((c.name for c in others if PSU.fits(c.name, c.label)), "")
    strata = next((c.name for c in others if c.name != psu and STRATA.fits(c.name, c.label)), "")
    return Guess([column.name for column in weights], strata, psu, replicates)


def like_kilograms(column: Field, values: pd.Series) -> bool:
    """Tell whether a column called only weight contains the body weights of people.

    Parameters
    ----------
    column : Field
    values : Series, shape (n,)
        Numbers without blanks.
    """
    bare = _BARE.fullmatch(column.name.casefold()) and _BARE.fullmatch(column.label or "weight")
    low, high = KILOGRAMS
    mean_low, mean_high = MEAN_KILOGRAMS
    return bool(bare) and bool(
        values.between(low, high).all() and mean_low <= values.mean() <= mean_high
    )


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
