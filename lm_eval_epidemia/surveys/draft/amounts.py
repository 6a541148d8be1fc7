"""Numbers: what they measure, in which unit, and where they are cut.

Cuts are round numbers near the quintiles of the people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import floor, log10

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.surveys.draft import words
from lm_eval_epidemia.surveys.draft.columns import FileColumn
from lm_eval_epidemia.surveys.draft.words import clean_text, quote_number, shorten_text
from lm_eval_epidemia.surveys.variable import Measure

#: Whole numbers of fewer values, without a unit, may as well be codes.
MANY = 30

#: At the end of a label, what stands for its unit: "Weight (kg)", "salary in euros", "pay_usd".
_TAIL = re.compile(
    r"\s*\(([^()]{1,20})\)$|,? in ([^\W\d_]+)$"
    r"|[ _.](usd|eur|gbp|kgs?|lbs?|cm|pct|k|ths|thousands?|000s?|mln|mio|mn|millions?|bn|cents?)$",
    re.I,
)
_SIGN = re.compile(r"[^\W\d]{1,8}/[^\W_]{1,8}|mm ?hg|[munpk]?g|[mck]?m|m?l|kcal|mg", re.I)


def measure_of(
    column: FileColumn, kind: str, whole: bool, several: int, topped: Mapping[float, str]
) -> Measure | None:
    """Draft what a column measures; None if its numbers may be codes.

    Parameters
    ----------
    column : Field
    kind : str
        A key of `words.DEMOGRAPHIC`, or empty.
    whole : bool
        Whether all values are whole numbers.
    several : int
        How many different ones there are.
    topped : mapping of float to str
        Values that stand for all beyond them, with their labels: 89 "89 or older".
    """
    noun, unit = ("age", "years") if kind == "age" else _describe_amount(column)
    about = f"{_split_words(column.name)} {column.label}".casefold()
    if re.search(words.CODED, about) or (whole and not unit and several < MANY):
        return None
    note = " and ".join(
        f"counting '{shorten_text(label, 40)}' as {quote_number(value)}"
        for value, label in topped.items()
    )
    plural = bool(re.match(r"(?!\w*(?:ss|us|is)\b)\w+s\b", noun))
    return Measure(words=noun, unit=unit, note=note, plural=plural)


def has_unit(column: FileColumn, kind: str) -> bool:
    """Tell whether its name or label says that a column's numbers measure something.

    Parameters
    ----------
    column : Field
    kind : str
        A key of `words.DEMOGRAPHIC`, or empty.
    """
    about = f"{_split_words(column.name)} {column.label}".casefold()
    coded = re.search(words.CODED, about)
    return kind in ("age", "income") or bool(not coded and _describe_amount(column)[1])


def _describe_amount(column: FileColumn) -> tuple[str, str]:
    """Return a noun phrase for what a column holds, and its unit; empty if none is known."""
    label = column.label.rstrip(" :.;,")
    about = f"{_split_words(column.name)} | {label}".casefold()
    tail = _TAIL.search(label or column.name)
    unit = next((unit for unit, said in words.UNITS.items() if re.search(said, about)), "")
    if tail and tail[1] and _SIGN.fullmatch(tail[1]) and unit not in words.UNITS:
        unit = tail[1]
    unit = _scaled(unit or ("$" if re.search(words.MONEY, about) else ""), about)
    if label.endswith("?"):
        return f"answer to '{shorten_text(label)}'", unit
    noun = label or column.name
    if unit and tail:
        noun = noun[: tail.start()]
    noun = clean_text(noun if label else _split_words(noun)) or column.name
    if noun[1:2].islower():
        noun = noun[0].lower() + noun[1:]
    return words.SPELT_OUT.get(noun.casefold(), shorten_text(noun)), unit


def _scaled(unit: str, about: str) -> str:
    """Return the unit of numbers that are in multiples of one: "thousand dollars".

    Empty if money is in a unit that its name does not tell (logarithms, ranks, "revenue_m").
    """
    if unit not in words.CURRENCIES:
        return "" if re.search(r"\b(thousand|million)s\b", about) else unit
    for scale, said in words.SCALES.items():
        if re.search(said, about):
            return scale if scale == "cents" else f"{scale} {words.CURRENCIES[unit]}"
    return "" if re.search(words.NO_MONEY, about) else unit


def _split_words(name: str) -> str:
    """Part the words of a name: "hours_per_week", "midpointSalary"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]+", " ", name).casefold()


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

    kept: list[float] = []
    for quintile in (0.2, 0.4, 0.6, 0.8):
        place = min(int(np.searchsorted(below[1:], quintile)), len(values) - 1)
        for cut in _rounder(values[place], whole):
            if abs(share(cut) - quintile) <= NEAR and LEAST <= share(cut) <= 1 - LEAST:
                if share(cut) - (share(kept[-1]) if kept else 0) >= LEAST:
                    kept.append(cut)
                break
    if not kept and len(values) > 1:
        # Most have one number: they are a bin.
        most = int(np.argmax(weights))
        kept = [float(values[min(most + 1, len(values) - 1)])]
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


def format_number(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        # Years have no comma.
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    return f"{value:g}"


def describe_range(low: float | None, high: float | None, whole: bool) -> str:
    """Say what lies from `low` to below `high`: ``Under 30``, ``1.5 to under 2``, ``65 or more``.

    Whole numbers include both ends: ``30 to 44``. None means no end.
    """
    if low is None:
        return f"Under {format_number(high or 0)}"
    if high is None:
        return f"{format_number(low)} or more"
    if not whole:
        return f"{format_number(low)} to under {format_number(high)}"
    last = format_number(high - 1)
    return last if high == low + 1 else f"{format_number(low)} to {last}"


def are_dates(values: Array) -> bool:
    """Tell whether whole numbers are dates: 20210314, 202103, or 14032021."""
    ends, middle = values % 100, values // 100 % 100
    day_last, month_last = (values // 10_000, middle, ends), (values // 100, ends, 1 + 0 * ends)
    year_last = (values % 10_000, values // 10_000 % 100, values // 10**6)
    return len(values) > 2 and any(
        bool(np.all([year >= 1900, year < 2100, month > 0, month < 13, day > 0, day < 32]))
        for year, month, day in (day_last, month_last, year_last)
    )


def join_ranges(ranges: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Put ranges in order, each code in one of them."""
    joined: list[tuple[float, float]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            low, before = joined.pop()
            high = max(high, before)
        joined.append((low, high))
    return joined


def far_above(values: Array, meant: dict[float, str]) -> list[float]:
    """Return a few codes far above all numbers of which the lowest has a label: 991 'never'."""
    for place in range(max(len(values) - 5, 2), len(values)):
        code, below = float(values[place]), float(values[place - 1])
        if code in meant and code - below > (below - values[0]) / 2 and code > 2 * abs(below):
            return [float(value) for value in values[place:]]
    return []
