"""A generated quantity in words, with the quarters of measured values and their bounds.

A noun phrase made of a record's subject and phrases: "the probability that a person has ever used
marijuana, for a randomly chosen person aged 12 or older living in the United States in 2022 who is
male, according to the National Survey on Drug Use and Health (NSDUH), 2022"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys.record import Record
from lm_eval_epidemia.surveys.variable import Variable

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
    for power in range(math.floor(math.log10(max(abs(least), abs(most)))) + 1, -6, -1):
        step = 10.0**power
        # Rounding a float may not take it below `least`, which is still on this side.
        rounded = round(math.ceil(least / step - 1e-9) * step, max(0, -power))
        if least <= rounded < most:
            return rounded
    return least


def is_inside(value: Array, low: float | None, high: float | None) -> np.ndarray:
    """Tell which values lie above `low` and not above `high`; a missing one does not."""
    least, most = -np.inf if low is None else low, np.inf if high is None else high
    return (value > least) & (value <= most)


def format_value(bound: float, unit: str, alone: bool = True) -> str:
    """Say a value: "66.5 kg", "$1,200"; not `alone`, without its unit where that comes later.

    Six decimals are shown at most: the surveys record fewer, so they part the same people.
    """
    shown = round(bound, 6)
    if unit == "$":
        return f"-${-shown:,.15g}" if shown < 0 else f"${shown:,.15g}"
    return f"{shown:.15g} {unit if alone else ''}".strip()


def format_bounds(low: float | None, high: float | None, unit: str) -> str:
    """Say which values lie above `low` and not above `high`: "more than 66.5 and at most 79 kg".

    Where a bound is a hair below the number that is shown (79.69999999999999, a quantile of values
    recorded as 79.7), who has exactly that number lies above it: "less than 79.7", "at least 79.7".
    """
    sides = [
        f"{above if round(end, 6) <= end else just_below} {format_value(end, unit, is_last)}"
        for above, just_below, end, is_last in (
            ("more than", "at least", low, high is None),
            ("at most", "less than", high, True),
        )
        if end is not None
    ]
    return " and ".join(sides)


_SUBJECT = re.compile(
    r"an? (?P<who>(?:\w+ )??(?P<noun>person|household) .+?) "
    r"(?P<relative>who(?:se [a-z ]+)?) \{conditions\}"
)


class Subject(NamedTuple):
    """The people that a question is about.

    Attributes
    ----------
    who : str
        Without its article: "household in the United States in 2022".
    noun : str
        "household".
    relative : str
        How a clause begins: "who", "whose reference person".
    year : str
        "2022".
    """

    who: str
    noun: str
    relative: str
    year: str

    def dated(self, text: str) -> str:
        """Say of "that year" which one it is."""
        return text.replace("that year", self.year)


def subject_of(record: Record, vintage: str) -> Subject:
    """Take a record's subject apart.

    Raises
    ------
    EpidemiaError
        If its conditions do not follow "who" or "whose ...".
    """
    if not (parts := _SUBJECT.fullmatch(record.subject)):
        raise EpidemiaError(
            f"quantities of {record.survey} cannot be worded: its subject is {record.subject!r}, "
            "expected one such as 'a person ... who {conditions}'"
        )
    year = record.vintages[vintage].said
    return Subject(parts["who"].format(year=year), parts["noun"], parts["relative"], year)


def clause(way: Variable, level: int, subject: Subject) -> str:
    """Say that somebody is on a level: "who is male"."""
    return f"{way.relative or subject.relative} {subject.dated(way.levels[level].phrase)}"


def measured_clause(way: Variable, bounds: str, subject: Subject) -> str:
    """Say between which bounds somebody lies: "whose age is more than 30 and at most 45 years"."""
    assert way.measure is not None
    relative = way.relative or subject.relative
    whose = f"{relative}'s" if relative.startswith("whose") else "whose"
    verb = "are" if way.measure.plural else "is"
    return f"{whose} {subject.dated(way.measure.words)} {verb} {bounds}"


def join_clauses(clauses: Sequence[str]) -> str:
    """Put clauses after their noun: " who is male, who has a degree and whose age is ..."."""
    *first, last = clauses or [""]
    return f" {', '.join(first)}{' and ' if first else ''}{last}".rstrip()


def name_survey(record: Record, vintage: str) -> str:
    """Name a survey and its year: by its title, or as a file of the user's own is called.

    A draft has the name of its file for a title, until a person writes a better one.
    """
    year = record.vintages[vintage].said.replace(" and ", " - ")
    title, short = record.title.partition(",")[0], record.survey
    if " " not in title or re.sub(r"[^a-z0-9]", "", title.casefold()) == short:
        return f"the survey '{title}', {year}"
    return f"the {title} ({short.upper()}), {year}"


def word_quantity(
    record: Record, vintage: str, way: Variable, level: int | None, clauses: Sequence[str]
) -> str:
    """Say what a quantity is.

    Parameters
    ----------
    record : Record
    vintage : str
    way : Variable
        How the base variable was recorded.
    level : int, optional
        Whose share is asked for; None for the mean of what was measured.
    clauses : sequence of str
        The conditions.

    Returns
    -------
    str
    """
    subject = subject_of(record, vintage)
    relative = way.relative or subject.relative
    # A clause about "whose reference person" is about that person, not the household.
    part = relative.removeprefix("whose ") if relative.startswith("whose ") else ""
    if level is not None:
        whom = f"the {part}" if part else f"a {subject.noun}"
        what = f"the probability that {whom} {way.levels[level].phrase}, for a randomly chosen"
    else:
        assert way.measure is not None
        unit = f"in {'dollars' if way.measure.unit == '$' else way.measure.unit}"
        notes = ", ".join(note for note in (way.measure.unit and unit, way.measure.note) if note)
        what = f"the average {way.measure.words}" + (f" ({notes})" if notes else "")
        what += f" of the {part}, for a" if part else " of a"
    among = [f"{subject.relative} {way.among}"] if way.among else []
    who = f"{subject.who}{join_clauses([*among, *clauses])}"
    return f"{subject.dated(what)} {who}, according to {name_survey(record, vintage)}"
