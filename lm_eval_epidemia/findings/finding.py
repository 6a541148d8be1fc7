"""A finding: a tidy table with declared columns, which `report` prints, writes and draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.score.estimates import Estimate

#: Up to here, but for rounding, an error is 0: all samples say the same, and none tells how far
#: another one would be.
ALIKE = 1e-9
ALIKE_NOTE = " Without ± or interval: all samples agree, so the error is not known."


class Number(NamedTuple):
    """A number with what is known of its error.

    Attributes
    ----------
    value : float
    error : float
        Standard error; NaN where it is not known.
    tasks : int
        How many tasks it is a mean over; 0 of what is no such mean.
    low, high : float
        Confidence interval; NaN where there is none.
    verdict : str
        What can be said of it.
    """

    value: float
    error: float = math.nan
    tasks: int = 0
    low: float = math.nan
    high: float = math.nan
    verdict: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high


#: What stands in a table. Of several, a number and a text, one is written behind the other; of
#: None, nothing is known, and nothing is written.
Cell = str | int | float | Number | Estimate | None | tuple["Cell", ...]


class Column(NamedTuple):
    """What a column of a finding holds, and how it is written.

    Attributes
    ----------
    name : str
        By which rows have its cells. ``model`` and ``group`` are those of the row.
    metric : str or None
        What its numbers are of, in tidy rows; ``{primary}``, or empty, is the primary metric of the
        row's group. None: they are in no tidy row.
    digits : int or None
        Behind the point; None: as many as numbers of the row's group have.
    signed : bool
        Whether a number above 0 is written with its sign.
    form : str
        What is written of a number, a key of `report.sections.FORMS`: ``error`` (the number and its
        standard error), ``interval`` (and its interval), ``range`` (the interval alone),
        ``counted`` (and over how many samples), ``plain`` (the number alone), ``worth`` (a number
        of answers, in words).
    title : str
        Heads it; its name if empty.
    unit : str
        Written behind a number.
    least : float
        An error must be above it to be written.
    no_minus_zero : bool
        Whether what rounds to 0 is never written -0.0.
    nan : str
        What is written where the number cannot be computed; ``{}`` stands for over how many tasks.
    named : bool
        Whether tidy rows have its name behind that of the row: "mediation, do(B) / accuracy".
    long : bool
        Whether it is shown only where there is room.
    """

    name: str
    metric: str | None = None
    digits: int | None = None
    signed: bool = False
    form: str = "error"
    title: str = ""
    unit: str = ""
    least: float = -1.0
    no_minus_zero: bool = False
    nan: str = ""
    named: bool = False
    long: bool = False


class Row(NamedTuple):
    """A row of a finding.

    Attributes
    ----------
    cells : mapping of str to Cell
        By the names of columns.
    entry : Entry or None
        What it is about.
    group : str
        As lm-eval knows it.
    name : str
        What it is called in tidy rows.
    facts : mapping of str to object
        What tidy rows say of all its numbers.
    metrics : mapping of str to str
        What numbers are of, by column, where the column does not say it.
    long : bool
        Whether it is shown only where there is room.
    muted : bool
        Whether its numbers say nothing, so that it is greyed.
    """

    cells: Mapping[str, Cell]
    entry: Entry | None = None
    group: str = ""
    name: str = ""
    facts: Mapping[str, Any] = {}
    metrics: Mapping[str, str] = {}
    long: bool = False
    muted: bool = False

    def cell(self, name: str) -> Cell:
        """Return what stands in a column; None where nothing does."""
        if name == "model" and self.entry is not None:
            return self.cells.get(name, self.entry.name)
        return self.cells.get(name, self.group if name == "group" else None)


class Finding(NamedTuple):
    """A tidy table.

    Attributes
    ----------
    kind : str
        Of its tidy rows.
    title : str
    columns : sequence of Column
        In the order of tidy rows.
    rows : sequence of Row
    note : str
        How to read it.
    leading : int
        How many of the columns shown say what a row is of.
    shown : sequence of str
        The columns of the table for people, in order; all if empty. One that no row has a cell of
        is left out, but for `model` and `group`.
    silent : str
        What the note says besides where an error is not written, being `Column.least` or less.
    """

    kind: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""
    leading: int = 1
    shown: Sequence[str] = ()
    silent: str = ""


def in_groups(finding: Finding) -> Finding:
    """Leave a table's groups out where all rows are of one."""
    shown = finding.shown or [column.name for column in finding.columns]
    if len({row.group for row in finding.rows}) > 1 or "group" not in shown:
        return finding
    named = "group" in shown[: finding.leading]
    shown = [name for name in shown if name != "group"]
    return finding._replace(shown=shown, leading=finding.leading - named)


def number(value: float, digits: int) -> str:
    """Write a number; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def p_value(p: float, level: float = 0.05) -> str:
    """Write a p-value with three digits, with more where these hide on which side of a level it is.

    Parameters
    ----------
    p : float
        Nothing is written of NaN.
    level : float
        What it is judged by.
    """
    if math.isnan(p):
        return ""
    if p < 0.001:
        return "< 0.001"
    digits = (d for d in range(3, 16) if p == level or float(f"{p:.{d}f}") != level)
    return f"{p:.{next(digits, 16)}f}"


def known(cell: Number | float) -> Number | float | None:
    """Return a number; None for NaN, which then is in no tidy row."""
    return None if math.isnan(cell.value if isinstance(cell, Number) else cell) else cell


def columns_of(
    rows: Iterable[Row], declared: Mapping[str, Column], other: Column
) -> tuple[Column, ...]:
    """Return the columns that rows have cells of, as they come.

    Parameters
    ----------
    rows : iterable of Row
    declared : mapping of str to Column
        By name.
    other : Column
        As which those are declared that are not among them: parts that are known from the answers
        only, such as graphs or surveys.
    """
    names = dict.fromkeys(name for row in rows for name in row.cells)
    return tuple(declared.get(name, other._replace(name=name)) for name in names)
