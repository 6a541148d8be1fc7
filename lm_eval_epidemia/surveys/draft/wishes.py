"""The user's options for a draft, and the questions to the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

#: Says that a column shall not be used.
NONE = "none"


class Proposal(NamedTuple):
    """A question before a draft continues.

    Attributes
    ----------
    what : str
        weight, strata and PSUs, outcomes, or conditions.
    option : str
        Of the command line, which answers it too.
    columns : tuple of str
        As they would be taken; of a weight the likeliest first.
    labels : mapping of str to str
    doubt : str
        What tells against it; empty if nothing does.
    unsaid : bool
        Whether neither a name nor a label tells for it: then only a person can say.
    """

    what: str
    option: str
    columns: tuple[str, ...]
    labels: Mapping[str, str]
    doubt: str = ""
    unsaid: bool = False


#: Answers a proposal with the columns to take; none of them is an answer too.
Chooser = Callable[[Proposal], Sequence[str]]


class Wishes(NamedTuple):
    """The user's options for a draft; others are guessed, and asked or marked.

    Attributes
    ----------
    name : str, optional
    weight, strata, psu : str, optional
        A column, or "none".
    outcomes, given : sequence of str, optional
        Columns.
    join, encoding : str, optional
    year : int, optional
    tasks : int
        How many at most.
    """

    name: str | None = None
    weight: str | None = None
    strata: str | None = None
    psu: str | None = None
    outcomes: Sequence[str] | None = None
    given: Sequence[str] | None = None
    join: str | None = None
    encoding: str | None = None
    year: int | None = None
    tasks: int = 40
