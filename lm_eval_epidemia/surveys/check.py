"""Compare a survey's files with its record, before building anything from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.surveys.microdata import MISSING, load_microdata
from lm_eval_epidemia.surveys.record import Record
from lm_eval_epidemia.surveys.tables import load_tables, tables_vintage


class Seen(NamedTuple):
    """One variable as found in the files.

    Attributes
    ----------
    variable, column : str
    known, missing : int
        Records with and without a level; rows of a published table.
    absent : tuple of str
        Levels that nobody has.
    """

    variable: str
    column: str
    known: int
    missing: int
    absent: tuple[str, ...]


class Checked(NamedTuple):
    """The result of a check of files.

    Attributes
    ----------
    vintage : str
    rows : int
    weight : str
        Weight column; empty if all count equally.
    variables : list of Seen
    tasks, left_out : list of str
        Tasks that can and cannot be built from them.
    """

    vintage: str
    rows: int
    weight: str
    variables: list[Seen]
    tasks: list[str]
    left_out: list[str]


def check_files(record: Record, paths: Sequence[Path], vintage: str | None = None) -> Checked:
    """Read files as a build would, and describe their content.

    Parameters
    ----------
    record : Record
    paths : sequence of Path
    vintage : str, optional

    Raises
    ------
    EpidemiaError
        As a build would.
    """
    weight = ""
    if (name := tables_vintage(record, paths, vintage)) is not None:
        tables = load_tables(record, paths, name)
        rows = max(len(table.cells) for table in tables)
        pairs = {(table.outcome, table.given) for table in tables}
        can_estimate = [(task.outcome, task.given) in pairs for task in record.all_tasks]
        seen = [
            Seen(
                f"{table.outcome} by {', '.join(table.given)}",
                ", ".join(record.ways(variable, name)[0].column for variable in table.given),
                len(table.cells),
                sum(table.dropped.values()),
                table.absent,
            )
            for table in tables
        ]
    else:
        data = load_microdata(record, paths, vintage)
        name, rows, weight = data.vintage, len(data), data.weight_column
        can_estimate = [data.can_estimate(task) for task in record.all_tasks]
        seen = []
        for variable, way in data.variables.items():
            column = record.vintages[name].column(way.column)
            counts = np.bincount(data.levels[variable] - MISSING, minlength=len(way.levels) + 1)
            missing, *known = counts.tolist()
            absent = (level.label for level, n in zip(way.levels, known, strict=True) if not n)
            seen.append(Seen(variable, column, sum(known), missing, tuple(absent)))
    names = [task.name for task in record.all_tasks]
    possible = list(compress(names, can_estimate))
    left_out = [task for task in names if task not in possible]
    return Checked(name, rows, weight, seen, possible, left_out)
