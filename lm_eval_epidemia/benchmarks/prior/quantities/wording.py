"""A generated quantity in words: a noun phrase made of a record's subject and phrases.

"the probability that a person has ever used marijuana, for a randomly chosen person aged 12 or
older living in the United States in 2022 who is male, according to the National Survey on Drug Use
and Health (NSDUH), 2022"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys.record import Record
from lm_eval_epidemia.surveys.variable import Variable

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
            "expected 'a person ... who {conditions}', 'a household ... whose ... "
            "{conditions}' or the like"
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


def joined(clauses: Sequence[str]) -> str:
    """Put clauses after their noun: " who is male, who has a degree and whose age is ..."."""
    if not clauses:
        return ""
    return " " + (", ".join(clauses[:-1]) + " and " if clauses[1:] else "") + clauses[-1]


def named(record: Record, vintage: str) -> str:
    """Name a survey and its year: by its title, or as a file of the user's own is called.

    A draft has the name of its file for a title, until a person writes a better one.
    """
    year = record.vintages[vintage].said.replace(" and ", " - ")
    title, short = record.title.partition(",")[0], record.survey
    if " " not in title or re.sub(r"[^a-z0-9]", "", title.casefold()) == short:
        return f"the survey '{title}', {year}"
    return f"the {title} ({short.upper()}), {year}"


def wording(
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
    who = f"{subject.who}{joined([*among, *clauses])}"
    return f"{subject.dated(what)} {who}, according to {named(record, vintage)}"
