"""From a raw file to tidy microdata: one column of level numbers per variable, weight, design."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.errors import EpidemiaError, nearest
from lm_eval_epidemia.paths import sha256_of
from lm_eval_epidemia.surveys.read import open_raw, raw_columns, read_columns
from lm_eval_epidemia.surveys.record import Codes, Record, Task, Universe, Variable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MISSING", "Microdata", "load_microdata"]

#: Level number of a record whose answer is blank, refused or unknown.
MISSING = -1


@dataclass(frozen=True)
class Microdata:
    """One survey file, ready for estimation.

    Attributes
    ----------
    record : Record
    vintage : str
    file : str
        Name of the raw file.
    sha256 : str
        Of the raw file as given (the archive, if it was one).
    variables : dict of str to Variable
        How each variable that the file carries was recorded.
    levels : dict of str to ndarray of int16, shape (n,)
        Level number of each record, `MISSING` where there is none.
    weight : ndarray of float64, shape (n,)
        As in the file: how many members of the population a record stands for.
    strata, psu, unit : ndarray of int64, shape (n,), or None
        Design columns as codes 0, 1, ...; a PSU's code is unique across strata.
    asked : dict of Universe to ndarray of bool, shape (n,)
        For each restriction in the record, whether a record meets it.
    """

    record: Record
    vintage: str
    file: str
    sha256: str
    variables: dict[str, Variable]
    levels: dict[str, NDArray[np.int16]]
    weight: NDArray[np.float64]
    strata: NDArray[np.int64] | None
    psu: NDArray[np.int64] | None
    unit: NDArray[np.int64] | None
    asked: dict[Universe, NDArray[np.bool_]]

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def has_design(self) -> bool:
        return self.strata is not None and self.psu is not None

    def can_estimate(self, task: Task) -> bool:
        return all(name in self.variables for name in (task.outcome, *task.given))


def _within(values: NDArray[np.float64], codes: Codes) -> NDArray[np.bool_]:
    hit = np.zeros(len(values), dtype=bool)
    for low, high in codes:
        hit |= (values >= low) & (values <= high)
    return hit


def _rows(where: NDArray[np.bool_]) -> str:
    """Name up to five rows, counting from 1 as a data viewer does."""
    rows = np.flatnonzero(where)
    shown = ", ".join(str(int(row) + 1) for row in rows[:5])
    return f"{len(rows)} rows: {shown}{', ...' if len(rows) > 5 else ''}"


def _level_numbers(
    values: NDArray[np.float64], variable: Variable, name: str, file: str
) -> NDArray[np.int16]:
    """Number each record's level; a code that the record does not know is an error."""
    numbers = np.full(len(values), MISSING, dtype=np.int16)
    known = np.isnan(values) | _within(values, variable.missing)
    for number, level in enumerate(variable.levels):
        if level.codes:
            hit = _within(values, level.codes)
        else:
            hit = ~np.isnan(values)
            if level.at_least is not None:
                hit &= values >= level.at_least
            if level.below is not None:
                hit &= values < level.below
            hit &= ~_within(values, variable.missing)
        numbers[hit] = number
        known |= hit
    if not known.all():
        codes, counts = np.unique(values[~known], return_counts=True)
        listed = ", ".join(
            f"{code:g} ({count} rows)" for code, count in zip(codes[:8], counts[:8], strict=True)
        )
        raise EpidemiaError(
            f"{file}: column {variable.column} has codes that the record of {name!r} does not "
            f"know: {listed}{', ...' if len(codes) > 8 else ''} ({_rows(~known)}). Is it another "
            "vintage? Otherwise add the codes to the survey record, as a level or as missing"
        )
    return numbers


def _check_weights(weight: NDArray[np.float64], column: str, file: str) -> None:
    if (blank := np.isnan(weight)).any():
        raise EpidemiaError(f"{file}: column {column} (weight) is missing in {_rows(blank)}")
    if (negative := weight < 0).any():
        raise EpidemiaError(f"{file}: column {column} (weight) is negative in {_rows(negative)}")
    if not weight.any():
        raise EpidemiaError(f"{file}: column {column} (weight) is zero in every row")


def _vintage(record: Record, given: str | None, rows: int, file: str) -> str:
    """Decide which vintage a file is: as given, by its official row count, or by its name."""
    by_rows = [name for name, entry in record.vintages.items() if entry.rows == rows]
    if given is not None:
        record.vintage(given)
        if by_rows and given not in by_rows:
            raise EpidemiaError(
                f"{file} has {rows:,} rows, the official count of {record.survey} {by_rows[0]}, "
                f"not of {given} ({record.vintages[given].rows or 0:,}): pass "
                f"--vintage {by_rows[0]} or give the {given} file"
            )
        return given
    by_name = [name for name in record.vintages if name in file]
    for candidates in (by_rows, by_name):
        if len(candidates) == 1:
            return candidates[0]
    raise EpidemiaError(
        f"cannot tell which vintage of {record.survey} {file} is ({rows:,} rows): pass "
        f"--vintage {' or '.join(record.vintages)}"
    )


def _recorded(record: Record, columns: list[str]) -> dict[str, Variable]:
    """Choose how each variable is read: the first way whose column is in the file."""
    present = {column.casefold() for column in columns}
    ways = {
        name: [way for way in record.variables[name] if way.column.casefold() in present]
        for name in sorted(record.asked_variables)
    }
    return {name: found[0] for name, found in ways.items() if found}


def _check_complete(
    record: Record, vintage: str, recorded: dict[str, Variable], columns: list[str], file: str
) -> None:
    """Refuse a file that lacks more than a known file of its vintage may lack."""
    entry = record.vintages[vintage]
    if lacking := sorted(record.asked_variables - set(recorded) - set(entry.may_lack)):
        detail = "; ".join(
            f"{name} needs {' or '.join(way.column for way in record.variables[name])} "
            f"({nearest(record.variables[name][0].column, columns)})"
            for name in lacking
        )
        raise EpidemiaError(
            f"{file} lacks columns of {record.survey} {vintage}: {detail}. Is it another vintage? "
            f"The official file is {entry.file}: {entry.url}"
        )


def _codes(column: pd.Series, name: str, file: str) -> NDArray[np.int64]:
    if (blank := column.isna().to_numpy()).any():
        raise EpidemiaError(f"{file}: design column {name} is missing in {_rows(blank)}")
    return np.unique(column.to_numpy(), return_inverse=True)[1].astype(np.int64)


def load_microdata(record: Record, path: Path, vintage: str | None = None) -> Microdata:
    """Read a survey file as its record describes it.

    Parameters
    ----------
    record : Record
    path : Path
        The official file or a subset of its columns, in any of `read.FORMATS`, zipped or not.
    vintage : str, optional
        Needed where neither the row count nor the file name tells.

    Returns
    -------
    Microdata

    Raises
    ------
    EpidemiaError
        Naming file, column, code and rows of what does not fit the record.
    """
    with open_raw(path) as data:
        columns = raw_columns(data)
        present = {column.casefold() for column in columns}
        for column in record.design.columns:
            if column.casefold() not in present:
                raise EpidemiaError(
                    f"{path.name} lacks column {column} ({nearest(column, columns)}), which "
                    f"{record.survey} {' and '.join(record.vintages)} have: it is another vintage "
                    "or a subset without its weights"
                )
        variables = _recorded(record, columns)
        universes = {u for task in record.all_tasks for u in task.universe} | {*record.universe}
        frame = read_columns(
            data,
            [*record.design.columns]
            + [variable.column for variable in variables.values()]
            + [universe.column for universe in universes],
        )
    vintage = _vintage(record, vintage, len(frame), path.name)
    _check_complete(record, vintage, variables, columns, path.name)
    weight = frame[record.design.weight].to_numpy()
    _check_weights(weight, record.design.weight, path.name)
    strata = psu = unit = None
    if record.design.strata and record.design.psu:
        strata = _codes(frame[record.design.strata], record.design.strata, path.name)
        within = _codes(frame[record.design.psu], record.design.psu, path.name)
        psu = np.unique(strata * (within.max() + 1) + within, return_inverse=True)[1]
    if record.design.unit:
        unit = _codes(frame[record.design.unit], record.design.unit, path.name)
    return Microdata(
        record=record,
        vintage=vintage,
        file=path.name,
        sha256=sha256_of(path),
        variables=variables,
        levels={
            name: _level_numbers(frame[way.column].to_numpy(), way, name, path.name)
            for name, way in variables.items()
        },
        weight=weight,
        strata=strata,
        psu=psu,
        unit=unit,
        asked={u: _within(frame[u.column].to_numpy(), u.codes) for u in universes},
    )
