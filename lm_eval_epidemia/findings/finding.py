"""A finding: a tidy table with declared columns, which `report.render` writes in every form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from lm_eval_epidemia.findings import DECLARED, FINDINGS
from lm_eval_epidemia.findings.mean import ALIKE
from lm_eval_epidemia.score.estimates import Estimate


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
        In `findings.yaml`.
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


def add_run_columns(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Put model, settings and kind of each row's run first; a row without one keeps its own."""
    of = runs[["model", "settings", "kind"]].reindex(table["run"]).set_axis(table.index)
    for name in of:
        if name in table:
            of[name] = of[name].where(of[name].notna(), table[name])
    rest = table.drop(columns=["run", *(name for name in of if name in table)])
    return pd.concat([of.fillna(""), rest], axis="columns")


def columns_of(name: str) -> dict[str, Column]:
    """Return the columns that are declared for people."""
    of = DECLARED[name]
    parts = of["columns"] if isinstance(of["columns"], list) else [of["columns"]]
    told = {column: how or {} for part in parts for column, how in part.items()}
    first = {} if "model" in told or of.get("who") is False else WHO
    return first | {column: Column(**how) for column, how in told.items()}


def make_finding(
    name: str,
    rows: pd.DataFrame | Sequence[Mapping[str, object]],
    runs: pd.DataFrame | None = None,
    left_out: Sequence[str] = (),
    instead: Sequence[str] = (),
    title: str = "",
) -> Finding:
    """Return the finding that is declared under a name, with some rows.

    Parameters
    ----------
    name : str
    rows : DataFrame or sequence of mapping
        With ``run``, if rows are of runs. A table keeps all its columns, unless those that are
        `behind` the others are declared; of mappings the declared ones are kept.
    runs : DataFrame, optional
        None if no row is of a run.
    left_out : sequence of str
        As in `Finding`.
    instead : sequence of str
        What is said in place of what to run.
    title : str
        Where none is declared.
    """
    of, columns = DECLARED[name], columns_of(name)
    if not isinstance(rows, pd.DataFrame) or "behind" in of:
        beside = [
            each
            for shown, column in columns.items()
            for each in (shown, column.error, *column.interval, column.count)
        ]
        more = [] if of.get("who") is False else ["run", *WHO, "kind"]
        names = dict.fromkeys([*more, *filter(None, beside), *of.get("behind", ())])
        rows = pd.DataFrame(rows, columns=[*names])
    table = rows if runs is None or "run" not in rows else add_run_columns(rows, runs)
    says = instead or ([of["empty"]] if table.empty and "empty" in of else [])
    note = of.get("note", "")
    note = note if isinstance(note, str) else " ".join(note)
    shape = of.get("across", ""), of.get("details", "")
    return Finding(name, title or of["title"], table, columns, note, *shape, [*says, *left_out])


ALIKE_NOTE = " Without ± or interval where all samples agree: the error is not known."

#: What every row has: whose it is and what it is about, and the number.
ROW = ("run", "model", "kind", "group", "asked", "part", "value", "error", "low", "high", "samples")


def part_rows(
    whose: Mapping[str, Any], abouts: Mapping[str, Mapping[str, Estimate]]
) -> list[dict[str, Any]]:
    """Return a row for each part of each subject; without error where all samples agree."""
    rows = []
    for about, cells in abouts.items():
        for part, of in cells.items():
            known = of if of.error > ALIKE else of._replace(error=math.nan)
            numbers = (of.value, known.error, *known.interval, of.samples or math.nan)
            row = {**whose, "asked": about, "part": part}
            rows.append(row | dict(zip(ROW[-5:], numbers, strict=True)))
    return rows


def to_estimate(value: float, error: float = math.nan) -> Estimate:
    """Return a number of which no samples are known."""
    return Estimate(value, error, 0, 0)


def in_parts(
    name: str, rows: Iterable[Mapping[str, Any]], runs: pd.DataFrame, instead: Sequence[str] = ()
) -> Finding:
    """Return a finding that has a column per part, for people.

    Parameters
    ----------
    name, runs, instead
        As for `make_finding`.
    rows : iterable of mapping
        As from `part_rows`; numbers that are NaN are left out.
    """
    table = pd.DataFrame(list(rows))
    details = FINDINGS[name].get("details", "asked")
    texts = [*dict.fromkeys(("group", "part", "asked", details))]
    table = table.reindex(columns=list(dict.fromkeys([*ROW, *texts, *table])))
    table = table[table["value"].notna()].reset_index(drop=True)
    table[texts] = table[texts].astype(object).fillna("")
    made, printed = make_finding(name, table, runs, instead=instead), FINDINGS[name].get("printed")
    note = made.note
    if printed and (made.table["kind"] == "published").any():
        note += f" {printed}"
    if (table["error"].isna() & (table["samples"] > 1)).any():
        note += ALIKE_NOTE
    return replace(made, note=note)
