"""Checks of the weights and the design of a survey."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys.read import rows_said

#: A weight says how many people a record stands for (or is relative, with a sum of at least about
#: 1); its sum lies between these.
TOTALS = (1e-6, 1e15)

#: From so many records on, none weighs more than all others together.
MANY = 100

#: The sum of a replicate weight is that of the weight itself, except for chance: in a file of a few
#: records within this factor.
APART = 20


def check_weights(weight: NDArray[np.float64], column: str, file: str) -> None:
    """Refuse invalid weights: blanks, negative numbers, or an impossible sum."""
    what = f"{file}: column {column} (weight)"
    if (blank := np.isnan(weight)).any():
        raise EpidemiaError(f"{what} is missing in {rows_said(blank)}")
    if (negative := weight < 0).any():
        raise EpidemiaError(f"{what} is negative in {rows_said(negative)}")
    if not weight.any():
        raise EpidemiaError(f"{what} is zero in every row")
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not TOTALS[0] < total < TOTALS[1]:
        raise EpidemiaError(
            f"{what} sums to {total:g}, too little for any population: the file was damaged or "
            "badly converted; use the official one"
        )
    if len(weight) >= MANY and (most := weight.max()) > total / 2:
        raise EpidemiaError(
            f"{what} is {most:g} in row {int(weight.argmax()) + 1}, more than in all other rows "
            "together: the file was damaged or badly converted; use the official one"
        )


def check_replicate(
    replicate: NDArray[np.float32], weight: NDArray[np.float64], column: str, file: str
) -> None:
    """Refuse invalid replicates of a weight; some valid ones are negative for a few people."""
    what = f"{file}: column {column} (replicate weight)"
    if (blank := np.isnan(replicate)).any():
        raise EpidemiaError(f"{what} is missing in {rows_said(blank)}")
    total, known = replicate.sum(dtype=np.float64), weight.sum()
    if not known / APART < total < known * APART:
        raise EpidemiaError(
            f"{what} sums to {total:g}, but the weight itself to {known:g}: it is not a replicate "
            "of it"
        )


def check_nested(
    unit: NDArray[np.int64], psu: NDArray[np.int64], column: str, psu_column: str, file: str
) -> None:
    """Refuse a sampled unit with records in several PSUs, since it was drawn in one of them."""
    _, first, index = np.unique(unit, return_index=True, return_inverse=True)
    if (elsewhere := psu != psu[first][index]).any():
        raise EpidemiaError(
            f"{file}: in {rows_said(elsewhere)} the sampled unit ({column}) is in another PSU "
            f"({psu_column}) than in its first row: name design columns in which every unit "
            "belongs to one PSU"
        )
