"""Quarters of measured values, and the wording of their bounds."""

from __future__ import annotations

import math

import numpy as np

from lm_eval_epidemia.core.distance import Array

QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")


def cuts(value: Array) -> Array:
    """Return the three values that part sampled people into quarters, whatever their weight.

    Not weighted, as for the published quantities: so each quarter holds as many people to estimate
    from. Values that are missing (NaN) are left out.
    """
    return np.percentile(value[~np.isnan(value)], [25, 50, 75])


def roundest(value: Array, cut: float) -> float:
    """Return the number with fewest digits that parts the same values as `cut` does.

    Parameters
    ----------
    value : ndarray, shape (n,)
        Those at most `cut` lie on one side, the others on the other; on both sides are some.
    cut : float
    """
    least, most = float(value[value <= cut].max()), float(value[value > cut].min())
    power = math.floor(math.log10(max(abs(least), abs(most)))) + 1
    while power > -6:
        step = 10.0**power
        # Rounding a float may not take it below `least`, which is still on this side.
        rounded = round(math.ceil(least / step - 1e-9) * step, max(0, -power))
        if least <= rounded < most:
            return rounded
        power -= 1
    return least


def inside(value: Array, low: float | None, high: float | None) -> np.ndarray:
    """Tell which values lie above `low` and not above `high`; a missing one does not."""
    kept = ~np.isnan(value)
    if low is not None:
        kept &= value > low
    if high is not None:
        kept &= value <= high
    return kept


def number(bound: float, unit: str, alone: bool = True) -> str:
    """Say a value: "66.5 kg", "$1,200"; not `alone`, without its unit where that comes later.

    Six decimals are shown at most: the surveys record fewer, so they part the same people.
    """
    shown = round(bound, 6)
    if unit == "$":
        return f"-${-shown:,.15g}" if shown < 0 else f"${shown:,.15g}"
    return f"{shown:.15g} {unit if alone else ''}".strip()


def between(low: float | None, high: float | None, unit: str) -> str:
    """Say which values lie above `low` and not above `high`: "more than 66.5 and at most 79 kg".

    Where a bound is a hair below the number that is shown (79.69999999999999, a quantile of values
    recorded as 79.7), who has exactly that number lies above it: "less than 79.7", "at least 79.7".
    """
    sides = [
        ((above if round(end, 6) <= end else just_below), end)
        for above, just_below, end in (
            ("more than", "at least", low),
            ("at most", "less than", high),
        )
        if end is not None
    ]
    last = len(sides) - 1
    return " and ".join(
        f"{side} {number(end, unit, k == last)}" for k, (side, end) in enumerate(sides)
    )
