"""Look at a survey's files through its record, before building anything from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.surveys.microdata import MISSING, load_microdata
from lm_eval_epidemia.surveys.record import Record
from lm_eval_epidemia.surveys.tables import load_tables, tables_vintage


class Seen(NamedTuple):
    """One variable as the files have it.

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
    """What some files are.

    Attributes
    ----------
    vintage : str
    rows : int
    weight : str
        Weight column; empty where all count alike.
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
    """Read files as a build would, and say what they hold.

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
    if (name := tables_vintage(record, paths, vintage)) is not None:
        tables = load_tables(record, paths, name)
        pairs = {(table.outcome, (table.given,)) for table in tables}
        found = [
            Seen(
                f"{table.outcome} by {table.given}",
                record.ways(table.given, name)[0].column,
                len(table.cells),
                sum(table.dropped.values()),
                table.absent,
            )
            for table in tables
        ]
        possible = {task.name for task in record.all_tasks if (task.outcome, task.given) in pairs}
        rows, weight = max(len(table.cells) for table in tables), ""
    else:
        data = load_microdata(record, paths, vintage)
        name, rows, weight = data.vintage, len(data), data.weight_column
        found = []
        for variable, way in data.variables.items():
            levels = data.levels[variable]
            counts = np.bincount(levels[levels != MISSING], minlength=len(way.levels))
            found.append(
                Seen(
                    variable,
                    record.vintages[name].column(way.column),
                    int(counts.sum()),
                    int((levels == MISSING).sum()),
                    tuple(way.levels[n].label for n in np.flatnonzero(counts == 0)),
                )
            )
        possible = {task.name for task in record.all_tasks if data.can_estimate(task)}
    return Checked(
        vintage=name,
        rows=rows,
        weight=weight,
        variables=found,
        tasks=[task.name for task in record.all_tasks if task.name in possible],
        left_out=[task.name for task in record.all_tasks if task.name not in possible],
    )
