"""A finding: a tidy table with declared columns, which `report.render` writes in every form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class Column:
    """What a column of a finding is, for people; programs read every column as it is.

    Attributes
    ----------
    title : str
        Its heading; the name if empty.
    digits : int or None
        Digits after the point; None: those of the row's group.
    signed : bool
        Whether positive numbers have a sign.
    unit : str
        Written after a number.
    error : str
        The column with its standard error, written behind it: ``54.8 ± 1.2``.
    interval : tuple of (str, str)
        The columns with the ends of its interval, written behind it: ``54.8 (52.1 to 57.5)``.
    count : str
        The column with what it is a mean over, written behind it in brackets.
    """

    title: str = ""
    digits: int | None = None
    signed: bool = False
    unit: str = ""
    error: str = ""
    interval: tuple[str, str] | tuple[()] = ()
    count: str = ""


@dataclass(frozen=True)
class Finding:
    """A tidy table.

    Attributes
    ----------
    name : str
        In `FINDINGS`.
    title : str
    table : DataFrame
        NaN and "" are unknown. A row is of a run (columns ``model``, ``settings``), or of a
        respondent that is known (``kind`` is ``respondent``).
    columns : mapping of str to Column
        Those that people see, in order; leading texts name a row.
    note : str
        How to read it.
    across : str
        The column whose values are columns for people: ``group``, ``survey``.
    details : str
        The column that is filled only in rows that people see on demand, such as those of tasks.
    left_out : sequence of str
        What is not in the table, and why.
    over : sequence of str
        Values of `across` that come first; the others follow in the order of the rows.
    """

    name: str
    title: str
    table: pd.DataFrame
    columns: Mapping[str, Column] = field(default_factory=dict)
    note: str = ""
    across: str = ""
    details: str = ""
    left_out: Sequence[str] = ()
    over: Sequence[str] = ()


#: The columns that say whose a row is.
WHO = {"model": Column(), "settings": Column()}


def who(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Put model, settings and kind of each row's run first; a row without one keeps its own."""
    of = runs[["model", "settings", "kind"]].reindex(table["run"]).set_axis(table.index)
    for name in of:
        if name in table:
            of[name] = of[name].where(of[name].notna(), table[name])
    rest = table.drop(columns=["run", *(name for name in of if name in table)])
    return pd.concat([of.fillna(""), rest], axis="columns")


def tabled(
    rows: pd.DataFrame | Sequence[Mapping[str, object]],
    columns: Mapping[str, Column],
    runs: pd.DataFrame,
    more: Sequence[str] = (),
) -> pd.DataFrame:
    """Make a table of rows with ``run``: what people see, what stands behind it, and more."""
    beside = [
        name
        for shown, column in columns.items()
        for name in (shown, column.error, *column.interval, column.count)
        if name
    ]
    names = dict.fromkeys(["run", *WHO, "kind", *beside, *more])
    return who(pd.DataFrame(rows, columns=[*names]), runs)


def if_empty(table: pd.DataFrame, says: str) -> list[str]:
    """Say what to run where there is nothing to show."""
    return [] if len(table) else [says]
