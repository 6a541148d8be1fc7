"""From raw files to tidy microdata: one column of level numbers per variable, weight, design.

`check_files` compares files with their record, before anything is built from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.paths import sha256_of
from lm_eval_epidemia.surveys import read
from lm_eval_epidemia.surveys.raw import open_raw, raw_files, raw_paths
from lm_eval_epidemia.surveys.read import format_rows
from lm_eval_epidemia.surveys.record import Record, Task
from lm_eval_epidemia.surveys.release import (
    VintageFiles,
    are_within,
    check_parts,
    choose_vintage,
    parts_of,
    read_codes,
    viable_releases,
)
from lm_eval_epidemia.surveys.tables import load_tables, tables_vintage
from lm_eval_epidemia.surveys.variable import Universe, Variable

if TYPE_CHECKING:
    import pandas as pd


Ints = NDArray[np.int64]

#: Level number of a record whose answer is blank, refused or unknown.
MISSING = -1


@dataclass(frozen=True)
class Microdata:
    """The records of one vintage of a survey, ready for estimation.

    Attributes
    ----------
    record : Record
    vintage : str
    files : dict of str to str
        Names of the raw files (the archive, if it was one) and their sha256.
    variables : dict of str to Variable
        How each variable that the files carry was recorded.
    levels : dict of str to ndarray of int16, shape (n,)
        Level number of each record, `MISSING` where there is none.
    weight_column : str
        The weight that was used; empty if all records count alike.
    weight : ndarray of float64, shape (n,)
        As in the file: how many members of the population a record stands for.
    replicates : ndarray of float32, shape (n, R), or None
        Replicate weights.
    strata, psu, unit : ndarray of int64, shape (n,), or None
        Design columns as codes 0, 1, ...; a PSU's code is unique across strata.
    columns : dict of str to ndarray of float64, shape (n,)
        The columns that restrictions and adjustments look at, by their name in the record.
    measured : dict of str to ndarray of float64, shape (n,)
        The numbers of each variable that has a `measure`, NaN if it has no level.
    """

    record: Record
    vintage: str
    files: dict[str, str]
    variables: dict[str, Variable]
    levels: dict[str, NDArray[np.int16]]
    weight_column: str
    weight: NDArray[np.float64]
    replicates: NDArray[np.float32] | None
    strata: Ints | None
    psu: Ints | None
    unit: Ints | None
    columns: dict[str, NDArray[np.float64]]
    measured: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def name(self) -> str:
        return ", ".join(self.files)

    @property
    def key(self) -> str:
        """Survey and vintage, as the registry of ground truth names them."""
        return f"{self.record.survey}_{self.vintage}"

    @property
    def has_strata(self) -> bool:
        return self.strata is not None and self.psu is not None

    def can_estimate(self, task: Task) -> bool:
        apart = self.record.vintages[self.vintage].only_given
        known = self.variables.keys() >= {task.outcome, *task.given}
        return known and not (apart and apart.isdisjoint(task.given))

    def within(self, universe: Universe) -> NDArray[np.bool_]:
        """Return which records meet a restriction."""
        return are_within(self.columns[universe.column], universe.codes)


def _level_numbers(
    column: NDArray[np.float64], variable: Variable, name: str, file: str
) -> NDArray[np.int16]:
    """Number each record's level; a code that the record does not know is an error."""
    # Millions of records have few distinct values.
    values, of_record = np.unique(column, return_inverse=True)
    numbers = np.full(len(values), MISSING, dtype=np.int16)
    missing = are_within(values, variable.missing)
    known = np.isnan(values) | missing
    for number, level in enumerate(variable.levels):
        hit = are_within(values, level.intervals) & ~missing
        numbers[hit] = number
        known |= hit
    unknown = [(int(n), f"{values[n]:g}") for n in np.flatnonzero(~known)]
    _check_known(unknown, of_record, variable, name, file)
    return numbers[of_record]


def _text_levels(column: pd.Series, variable: Variable, name: str, file: str) -> NDArray[np.int16]:
    """The same of a column of texts."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column):
        raise EpidemiaError(
            f"{file}: column {variable.column} contains numbers, but the record of {name!r} "
            f"expects texts such as {variable.levels[0].texts[0]!r}: give a file with these texts"
        )
    of_record, values = pd.factorize(column)
    meant = {text.strip(): MISSING for text in variable.missing_texts}
    meant |= {text.strip(): n for n, level in enumerate(variable.levels) for text in level.texts}
    # A blank, which has no number among the values, is one more, and known.
    of_record = np.where(of_record < 0, len(values), of_record)
    unknown = [(n, repr(value)) for n, value in enumerate(values) if value not in meant]
    _check_known(unknown, of_record, variable, name, file)
    numbers = [*(meant[value] for value in values), MISSING]
    return np.array(numbers, dtype=np.int16)[of_record]


def _check_known(
    unknown: list[tuple[int, str]], of_record: Ints, variable: Variable, name: str, file: str
) -> None:
    """Refuse a column that has values (by number and text) which its record does not know."""
    if not unknown:
        return
    here = np.isin(of_record, [n for n, _ in unknown])
    listed = ", ".join(f"{value} ({(of_record == n).sum()} rows)" for n, value in unknown[:8])
    what = "texts" if variable.of_texts else "codes"
    raise EpidemiaError(
        f"{file}: column {variable.column} has {what} that the record of {name!r} does not list: "
        f"{listed}{', ...' if len(unknown) > 8 else ''} ({format_rows(here)}): give the file of "
        f"another vintage, or add the {what} to the survey record, as a level or as missing"
    )


def joint_levels(levels: Sequence[NDArray[np.int16]], sizes: Sequence[int]) -> Ints:
    """Number the combinations of levels of several variables, the last moving fastest."""
    numbers = np.ravel_multi_index(tuple(levels), tuple(sizes), mode="clip")
    return np.where((np.array(levels) == MISSING).any(axis=0), MISSING, numbers)


def _join_columns(
    columns: dict[Path, list[str]], wanted: list[str], record: Record, **kinds: list[str]
) -> pd.DataFrame:
    """Read the wanted columns of one file, of parts one under the other, or of files joined."""
    import pandas as pd

    present = {file: {column.casefold() for column in names} for file, names in columns.items()}
    here = {file: [c for c in wanted if c.casefold() in names] for file, names in present.items()}
    if record.join is None or len(columns) == 1:
        return read.stack_tables(
            [read.read_columns(f, names, **kinds) for f, names in here.items()]
        )
    key, seen = record.join, {record.join.casefold()}
    frames: list[pd.DataFrame] = []
    for file, names in here.items():
        if key.casefold() not in present[file]:
            raise EpidemiaError(f"{file.name} lacks column {key}, which joins the files")
        new = [column for column in names if column.casefold() not in seen]
        if not new:
            continue
        seen |= {column.casefold() for column in new}
        frame = read.read_columns(file, [key, *new], **kinds)
        frame = frame.astype({key: object} if frame[key].dtype.kind == "O" else {}).set_index(key)
        check_keys(frame.index, file.name, frames[0].index if frames else None)
        frames.append(frame)
    # The file with the weight has everybody; the others have those who were asked or examined.
    weights = {column.casefold() for column in record.design.weight}
    frames.sort(key=lambda frame: not weights & {str(column).casefold() for column in frame})
    return pd.concat([frames[0], *(f.reindex(frames[0].index) for f in frames[1:])], axis=1)


def check_keys(keys: pd.Index, file: str, others: pd.Index | None = None) -> None:
    """Refuse keys that cannot join files: of two people alike, or of another kind than others."""
    if not keys.is_unique:
        raise EpidemiaError(f"{file}: column {keys.name} has duplicates, so it cannot join files")
    if others is not None and keys.dtype.kind != others.dtype.kind:
        mixed = "contains numbers in one file and text in another: write it alike in both"
        raise EpidemiaError(f"{file}: column {keys.name} {mixed}")


def load_microdata(
    record: Record,
    raw: Path | Sequence[Path] | None = None,
    vintage: str | None = None,
    *,
    every: bool = False,
) -> Microdata:
    """Read a survey's files as its record describes them.

    Parameters
    ----------
    record : Record
    raw : Path or sequence of Path, optional
        The official files or subsets of their columns, in any of `read.FORMATS`, zipped or not;
        or a folder that holds them. By default those that were downloaded.
    vintage : str, optional
        Needed if neither the row count nor the file name determines it.
    every : bool
        Read every variable of the record that the files have, not only those that tasks use.

    Returns
    -------
    Microdata

    Raises
    ------
    EpidemiaError
        Names file, column, code and rows that do not fit the record.
    """
    paths, vintage = raw_paths(record, raw, vintage)
    name = ", ".join(path.name for path in paths)
    with open_raw(paths, record.expected_files) as files:
        check_parts(record, files)
        columns = {file: read.raw_columns(file) for file in files}
        there = [column for names in columns.values() for column in names]
        present = {column.casefold() for column in there}
        untabled = [v for v, entry in record.vintages.items() if not entry.tables]
        releases = [VintageFiles(record, v, present, every) for v in untabled]
        viable = viable_releases(releases, vintage, there, name)
        wanted = list(dict.fromkeys(column for release in viable for column in release.wanted()))
        small = [column for release in viable for column in release.replicates()]
        texts = [column for column in wanted if any(column in r.texts() for r in viable)]
        frame = _join_columns(columns, wanted, record, small=small, texts=texts)
        names = " ".join([name, *(file.name for file in files)])
    selected = {release.vintage: release.selected(frame, name) for release in viable}
    rows = {v: int(keep.sum()) for v, keep in selected.items()}
    vintage = choose_vintage(record, vintage, rows, name, names)
    if rows[vintage] < 2:
        has = f"has {'only one row' if rows[vintage] else 'no rows'} of {record.survey} {vintage}"
        raise EpidemiaError(f"{name} {has}: give the complete file")
    if rows[vintage] < len(frame):
        frame = frame[selected[vintage]]
    release = next(release for release in viable if release.vintage == vintage)
    entry, design, variables = release.entry, release.design, release.variables()
    release.check_complete(there, name)

    def values(column: str) -> NDArray[np.float64]:
        parts = [read_codes(frame, entry.column(part), name) for part in parts_of(column)]
        return np.sum(parts, axis=0)

    def numbers(variable: str, way: Variable) -> NDArray[np.int16]:
        if way.of_texts:
            levels = _text_levels(frame[entry.column(way.column)], way, variable, name)
        else:
            levels = _level_numbers(values(way.column), way, variable, name)
        for number, level in enumerate(way.levels):
            for universe in level.also:
                if universe.column in frame:
                    meant = are_within(values(universe.column), universe.codes)
                    levels[(levels == MISSING) & meant] = number
        return levels

    def units(column: str) -> Ints:
        units = frame[entry.column(column)]
        if (blank := units.isna().to_numpy()).any():
            raise EpidemiaError(f"{name}: column {column} is missing in {format_rows(blank)}")
        return np.unique(units.to_numpy(), return_inverse=True)[1].astype(np.int64)

    # A weight that a year does not have is blank throughout in a file of several years.
    weights = [c for c in design.weight if entry.column(c) in frame]
    valued = [c for c in weights if frame[entry.column(c)].notna().any()]
    weight_column = next(iter([*valued, *weights]), "")
    weight = values(weight_column) if weight_column else np.ones(len(frame))
    check_weights(weight, entry.column(weight_column), name)
    strata = psu = replicates = None
    unit = units(design.unit) if design.unit else None
    if design.strata or design.psu:
        strata = units(design.strata) if design.strata else np.zeros(len(frame), np.int64)
        one_by_one = np.arange(len(frame)) if unit is None else unit
        within = units(design.psu) if design.psu else one_by_one
        psu = np.unique(strata * (within.max() + 1) + within, return_inverse=True)[1]
        codes = values(design.strata) if design.merge and design.strata else np.empty(0)
        for single, other in design.merge.items():
            if (codes == other).any():
                strata[codes == single] = strata[codes == other][0]
        if design.unit and unit is not None:
            check_nested(unit, psu, design.unit, design.psu or str(design.strata), name)
    if replicated := release.replicates():
        # Column by column out of the table, so that they are not held twice.
        replicates = np.empty((len(frame), len(replicated)), dtype=np.float32)
        for number, column in enumerate(replicated):
            replicate = frame.pop(column).to_numpy()
            check_replicate(replicate, weight, column, name)
            replicates[:, number] = replicate
    levels = {name: numbers(name, way) for name, way in variables.items() if not way.both}
    for variable, way in variables.items():
        if way.both:
            sizes = [len(variables[part].levels) for part in way.both]
            joint = joint_levels([levels[part] for part in way.both], sizes)
            levels[variable] = joint.astype(np.int16)
    return Microdata(
        record=record,
        vintage=vintage,
        files={path.name: sha256_of(path) for path in raw_files(paths, record.expected_files)},
        variables=variables,
        levels=levels,
        weight_column=entry.column(weight_column),
        weight=weight,
        replicates=replicates,
        strata=strata,
        psu=psu,
        unit=unit,
        columns={column: values(column) for column in sorted(release.restrictions())},
        measured={
            variable: np.where(levels[variable] == MISSING, np.nan, values(way.column))
            for variable, way in variables.items()
            if way.measure is not None
        },
    )


#: From so many records on, none weighs more than all others together.
MANY = 100

#: The sum of a replicate weight is that of the weight itself, except for chance: in a file of a few
#: records within this factor.
APART = 20


def check_weights(weight: NDArray[np.float64], column: str, file: str) -> None:
    """Refuse invalid weights: blanks, negative numbers, or an impossible sum."""
    what = f"{file}: column {column} (weight)"
    if (blank := np.isnan(weight)).any():
        raise EpidemiaError(f"{what} is missing in {format_rows(blank)}")
    if (negative := weight < 0).any():
        raise EpidemiaError(f"{what} is negative in {format_rows(negative)}")
    if not weight.any():
        raise EpidemiaError(f"{what} is zero in every row")
    if len(weight) >= MANY and (most := weight.max()) > weight.sum() / 2:
        raise EpidemiaError(
            f"{what} is {most:g} in row {int(weight.argmax()) + 1}, more than in all other rows "
            "together: give the complete file, or name another weight"
        )


def check_replicate(
    replicate: NDArray[np.float32], weight: NDArray[np.float64], column: str, file: str
) -> None:
    """Refuse invalid replicates of a weight; some valid ones are negative for a few people."""
    what = f"{file}: column {column} (replicate weight)"
    if (blank := np.isnan(replicate)).any():
        raise EpidemiaError(f"{what} is missing in {format_rows(blank)}")
    total, known = replicate.sum(dtype=np.float64), weight.sum()
    if not known / APART < total < known * APART:
        sums = f"sums to {total:g}, but the weight itself to {known:g}"
        raise EpidemiaError(f"{what} {sums}: it is not a replicate of it")


def check_nested(
    unit: NDArray[np.int64], psu: NDArray[np.int64], column: str, psu_column: str, file: str
) -> None:
    """Refuse a sampled unit with records in several PSUs, since it was drawn in one of them."""
    _, first, index = np.unique(unit, return_index=True, return_inverse=True)
    if (elsewhere := psu != psu[first][index]).any():
        raise EpidemiaError(
            f"{file}: in {format_rows(elsewhere)} the sampled unit ({column}) is in another PSU "
            f"({psu_column}) than in its first row: name columns in which it has one PSU"
        )


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
    tasks : list of str
        Tasks that can be built from them.
    """

    vintage: str
    rows: int
    weight: str
    variables: list[Seen]
    tasks: list[str]


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
                ", ".join(record.readings(variable, name)[0].column for variable in table.given),
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
    possible = [task.name for task in compress(record.all_tasks, can_estimate)]
    return Checked(name, rows, weight, seen, possible)
