"""A finding is a tidy table with declared columns, which `report` prints, writes and draws."""

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
    """A number with its error, as far as known.

    Attributes
    ----------
    value : float
    error : float
        Standard error; NaN if unknown.
    tasks : int
        Number of tasks in the mean; 0 if it is not a mean over tasks.
    low, high : float
        Confidence interval; NaN without one.
    verdict : str
        The conclusion about it.
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
    """The contents and format of a finding's column.

    Attributes
    ----------
    name : str
        Key of its cells in rows. ``model`` and ``group`` come from the row.
    metric : str or None
        Metric of its numbers in tidy rows; ``{primary}``, or empty, is the primary metric of the
        row's group. None: not in tidy rows.
    digits : int or None
        Digits after the point; None: as for numbers of the row's group.
    signed : bool
        Whether positive numbers have a sign.
    form : str
        Format of a number, a key of `report.sections.FORMS`: ``error`` (with its standard error),
        ``interval`` (with its interval), ``range`` (the interval alone), ``counted`` (with the
        number of samples), ``plain`` (the number alone), ``worth`` (a number of answers, in words).
    title : str
        Heading; its name if empty.
    unit : str
        Written after a number.
    least : float
        Errors up to this size are not written.
    no_minus_zero : bool
        Whether numbers that round to 0 are never written as -0.0.
    nan : str
        Text for a number that cannot be computed; ``{}`` stands for the number of tasks.
    named : bool
        Whether tidy rows append its name to that of the row: "mediation, do(B) / accuracy".
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
        The run that it is about.
    group : str
        As lm-eval knows it.
    name : str
        Its name in tidy rows.
    facts : mapping of str to object
        Fields of tidy rows for all its numbers.
    metrics : mapping of str to str
        Metrics of numbers, by column, if the column does not name them.
    long : bool
        Whether it is shown only where there is room.
    muted : bool
        Whether its numbers are meaningless, so that it is greyed.
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
        """Return the cell of a column; None if there is none."""
        if name == "model" and self.entry is not None:
            return self.cells.get(name, self.entry.name)
        return self.cells.get(name, self.group if name == "group" else None)


class Finding(NamedTuple):
    """A tidy table.

    Attributes
    ----------
    kind : str
        Kind of its tidy rows.
    title : str
    columns : sequence of Column
        In the order of tidy rows.
    rows : sequence of Row
    note : str
        How to read it.
    leading : int
        Number of shown columns that identify a row.
    shown : sequence of str
        The columns of the table for people, in order; all if empty. Columns without cells are left
        out, except `model` and `group`.
    silent : str
        Added to the note if an error is not written because it is at most `Column.least`.
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
    """Drop a table's column of groups if all rows have the same."""
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
    """Write a p-value with three digits, or more if these hide its side of a level.

    Parameters
    ----------
    p : float
        NaN gives an empty text.
    level : float
        The significance level.
    """
    if math.isnan(p):
        return ""
    if p < 0.001:
        return "< 0.001"
    digits = (d for d in range(3, 16) if p == level or float(f"{p:.{d}f}") != level)
    return f"{p:.{next(digits, 16)}f}"


def known(cell: Number | float) -> Number | float | None:
    """Return a number, or None for NaN, which has no tidy row."""
    return None if math.isnan(cell.value if isinstance(cell, Number) else cell) else cell


def columns_of(
    rows: Iterable[Row], declared: Mapping[str, Column], other: Column
) -> tuple[Column, ...]:
    """Return the columns that have cells, in order of appearance.

    Parameters
    ----------
    rows : iterable of Row
    declared : mapping of str to Column
        By name.
    other : Column
        Declares the remaining columns: parts known only from the answers, such as graphs or
        surveys.
    """
    names = dict.fromkeys(name for row in rows for name in row.cells)
    return tuple(declared.get(name, other._replace(name=name)) for name in names)
