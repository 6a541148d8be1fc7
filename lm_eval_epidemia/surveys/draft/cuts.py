"""Where numbers are cut: at round numbers near the quintiles of the people."""

from __future__ import annotations

from math import floor, log10

import numpy as np
from numpy.typing import NDArray

#: How far from a quintile, as a share of the people, a rounder cut may lie.
NEAR = 0.05

#: A bin that holds less of the people is none.
LEAST = 0.02

Array = NDArray[np.float64]


def round_cuts(values: Array, weights: Array, whole: bool) -> list[float]:
    """Choose up to four cut points, in order.

    Parameters
    ----------
    values : ndarray, shape (V,)
        In order, each once.
    weights : ndarray, shape (V,)
        How much of the population has each.
    whole : bool
        Whether all are whole numbers: then so are the cuts.

    Returns
    -------
    list of float
        Each begins a bin; at least one if there are two values.
    """
    if not weights.sum() > 0:
        weights = np.ones(len(values))
    below = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])

    def share(cut: float) -> float:
        return float(below[np.searchsorted(values, cut, side="left")])

    near: set[float] = set()
    for quintile in (0.2, 0.4, 0.6, 0.8):
        place = min(int(np.searchsorted(below[1:], quintile)), len(values) - 1)
        for cut in _rounder(values[place], whole):
            if abs(share(cut) - quintile) <= NEAR and LEAST <= share(cut) <= 1 - LEAST:
                near.add(cut)
                break
    kept: list[float] = []
    for cut in sorted(near):
        if share(cut) - (share(kept[-1]) if kept else 0) >= LEAST:
            kept.append(cut)
    if not kept and len(values) > 1:
        # Most have one number: they are a bin.
        most = int(np.argmax(weights))
        kept = [float(values[most + 1] if most + 1 < len(values) else values[most])]
    return kept


def _rounder(value: float, whole: bool) -> list[float]:
    """List numbers near a number, the roundest first."""
    size = floor(log10(abs(value))) if value else 0
    lowest = 0 if whole else size - 3
    steps = [
        step
        for power in range(size + 1, lowest - 1, -1)
        for step in (10.0**power, 5 * 10.0 ** (power - 1))
        if not whole or step >= 1
    ]
    multiples = [(step, round(value / step)) for step in steps]
    rounder = [float(f"{n * step:.12g}") for step, m in multiples for n in (m, m + 1, m - 1)]
    # As it is, or just above it where many have it.
    return [*rounder, float(value), *([value + 1.0] if whole else [])]


def shown(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        # Years have no comma.
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    return f"{value:g}"


def in_words(low: float | None, high: float | None, whole: bool) -> str:
    """Say what lies from `low` to below `high`: ``Under 30``, ``1.5 to under 2``, ``65 or more``.

    Whole numbers include both ends: ``30 to 44``. None means no end.
    """
    if low is None:
        return f"Under {shown(high or 0)}"
    if high is None:
        return f"{shown(low)} or more"
    if not whole:
        return f"{shown(low)} to under {shown(high)}"
    return shown(low) if high == low + 1 else f"{shown(low)} to {shown(high - 1)}"
