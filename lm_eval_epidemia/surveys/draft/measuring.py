"""What the numbers of a column measure, and in which unit, for questions about means."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lm_eval_epidemia.surveys.draft.columns import Field
from lm_eval_epidemia.surveys.draft.text import cleaned, number, shortened
from lm_eval_epidemia.surveys.draft.words import (
    CODED,
    CURRENCIES,
    MONEY,
    NO_MONEY,
    SCALES,
    SPELT_OUT,
    UNITS,
)
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
    column: Field, kind: str, whole: bool, several: int, topped: Mapping[float, str]
) -> Measure | None:
    """Draft what a column measures; None if its numbers may be codes.

    Parameters
    ----------
    column : Field
    kind : str
        Of `words.DEMOGRAPHIC`, or empty.
    whole : bool
        Whether all values are whole numbers.
    several : int
        How many different ones there are.
    topped : mapping of float to str
        Values that stand for all beyond them, with their labels: 89 "89 or older".
    """
    words, unit = ("age", "years") if kind == "age" else _told(column)
    about = f"{_plain(column.name)} {column.label}".casefold()
    if re.search(CODED, about) or (whole and not unit and several < MANY):
        return None
    note = " and ".join(
        f"counting '{shortened(label, 40)}' as {number(value)}" for value, label in topped.items()
    )
    plural = bool(re.match(r"(?!\w*(?:ss|us|is)\b)\w+s\b", words))
    return Measure(words=words, unit=unit, note=note, plural=plural)


def has_unit(column: Field, kind: str) -> bool:
    """Tell whether its name or label says that a column's numbers measure something.

    Parameters
    ----------
    column : Field
    kind : str
        Of `words.DEMOGRAPHIC`, or empty.
    """
    about = f"{_plain(column.name)} {column.label}".casefold()
    unit = "" if re.search(CODED, about) else _told(column)[1]
    return kind in ("age", "income") or bool(unit)


def _told(column: Field) -> tuple[str, str]:
    """Return a noun phrase for what a column holds, and its unit; empty if none is known."""
    label = column.label.rstrip(" :.;,")
    about = f"{_plain(column.name)} | {label}".casefold()
    tail = _TAIL.search(label or column.name)
    unit = next((unit for unit, said in UNITS.items() if re.search(said, about)), "")
    if tail and tail[1] and _SIGN.fullmatch(tail[1]) and unit not in UNITS:
        unit = tail[1]
    unit = _scaled(unit or ("$" if re.search(MONEY, about) else ""), about)
    if label.endswith("?"):
        return f"answer to '{shortened(label)}'", unit
    words = label or column.name
    if unit and tail:
        words = words[: tail.start()]
    words = cleaned(words if label else _plain(words)) or column.name
    if words[1:2].islower():
        words = words[0].lower() + words[1:]
    return SPELT_OUT.get(words.casefold(), shortened(words)), unit


def _scaled(unit: str, about: str) -> str:
    """Return the unit of numbers that are in multiples of one: "thousand dollars".

    Empty if money is in a unit that its name does not tell (logarithms, ranks, "revenue_m").
    """
    scale = next((scale for scale, said in SCALES.items() if re.search(said, about)), "")
    if unit not in CURRENCIES:
        return "" if re.search(r"\b(thousand|million)s\b", about) else unit
    if scale:
        return scale if scale == "cents" else f"{scale} {CURRENCIES[unit]}"
    return "" if re.search(NO_MONEY, about) else unit


def _plain(name: str) -> str:
    """Part the words of a name: "hours_per_week", "midpointSalary"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]+", " ", name).casefold()
