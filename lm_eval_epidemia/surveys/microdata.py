"""From raw files to tidy microdata: one column of level numbers per variable, weight, design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.core.paths import sha256_of
from lm_eval_epidemia.surveys import read
from lm_eval_epidemia.surveys.adjustment import Rake
from lm_eval_epidemia.surveys.catalogue import own_surveys
from lm_eval_epidemia.surveys.download import raw_paths
from lm_eval_epidemia.surveys.read import rows_said
from lm_eval_epidemia.surveys.record import Design, Record, Task, Vintage
from lm_eval_epidemia.surveys.variable import Codes, Universe, Variable, joint_column
from lm_eval_epidemia.surveys.weights import check_nested, check_replicate, check_weights

if TYPE_CHECKING:
    import pandas as pd

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
    strata: NDArray[np.int64] | None
    psu: NDArray[np.int64] | None
    unit: NDArray[np.int64] | None
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
        return all(name in self.variables for name in (task.outcome, *task.given)) and (
            not apart or not apart.isdisjoint(task.given)
        )

    def within(self, universe: Universe) -> NDArray[np.bool_]:
        """Return which records meet a restriction."""
        return _within(self.columns[universe.column], universe.codes)


def _within(values: NDArray[np.float64], codes: Codes) -> NDArray[np.bool_]:
    hit = np.zeros(len(values), dtype=bool)
    for low, high in read.as_meant(np.array(codes, float).reshape(-1, 2)):
        hit |= (values >= low) & (values <= high)
    return hit


def _level_numbers(
    column: NDArray[np.float64], variable: Variable, name: str, file: str
) -> NDArray[np.int16]:
    """Number each record's level; a code that the record does not know is an error."""
    # Millions of records have few distinct values.
    values, of_record = np.unique(column, return_inverse=True)
    numbers = np.full(len(values), MISSING, dtype=np.int16)
    missing = _within(values, variable.missing)
    known = np.isnan(values) | missing
    for number, level in enumerate(variable.levels):
        hit = _within(values, level.intervals) & ~missing
        numbers[hit] = number
        known |= hit
    _check_known([f"{value:g}" for value in values], known, of_record, variable, name, file)
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
    known = np.array([*(value in meant for value in values), True])
    _check_known([*map(repr, values), ""], known, of_record, variable, name, file)
    numbers = [*(meant[value] for value in values), MISSING]
    return np.array(numbers, dtype=np.int16)[of_record]


def _check_known(
    values: list[str],
    known: NDArray[np.bool_],
    of_record: NDArray[np.int64],
    variable: Variable,
    name: str,
    file: str,
) -> None:
    """Refuse a column that has values which its record does not know, and name them."""
    if known.all():
        return
    counts = np.bincount(of_record, minlength=len(values))
    unknown = np.flatnonzero(~known)
    listed = ", ".join(f"{values[n]} ({counts[n]} rows)" for n in unknown[:8])
    what = "texts" if variable.of_texts else "codes"
    raise EpidemiaError(
        f"{file}: column {variable.column} has {what} that the record of {name!r} does not list: "
        f"{listed}{', ...' if len(unknown) > 8 else ''} ({rows_said(~known[of_record])}). Is this "
        f"another vintage? If not, add the {what} to the survey record, as a level or as missing"
    )


def _joint_levels(parts: Sequence[NDArray[np.int16]], sizes: Sequence[int]) -> NDArray[np.int16]:
    """Number the combinations of levels of several variables, the last moving fastest."""
    missing = np.any([part == MISSING for part in parts], axis=0)
    numbers = np.ravel_multi_index([part.clip(0) for part in parts], tuple(sizes))
    return np.where(missing, MISSING, numbers).astype(np.int16)


def _parts(column: str) -> list[str]:
    """Name the columns of a sum: ``FOODHOME + FOODAWAY``."""
    return column.split(" + ")


class _Release(NamedTuple):
    """A vintage of a survey, as some files have it.

    Attributes
    ----------
    record : Record
    vintage : str
    present : set of str
        The files' columns, in lower case.
    every : bool
        As for `load_microdata`.
    """

    record: Record
    vintage: str
    present: set[str]
    every: bool

    @property
    def entry(self) -> Vintage:
        return self.record.vintages[self.vintage]

    @property
    def design(self) -> Design:
        return self.record.design_of(self.vintage)

    def has(self, column: str) -> bool:
        """Tell whether the files have a column of the record, or all columns of a sum."""
        return {part.casefold() for part in _parts(self.entry.column(column))} <= self.present

    def variables(self) -> dict[str, Variable]:
        """Choose how each variable is read: the first way whose columns are all in the files.

        A joint outcome is read as its variables are.
        """
        record, chosen = self.record, dict[str, Variable]()
        names = sorted(record.variables if self.every else record.used_variables(self.vintage))
        for name in sorted(names, key=record.is_joint):
            for way in record.ways(name, self.vintage):
                parts = [chosen[part] for part in way.both or () if part in chosen]
                joint = len(parts) == len(way.both or ()) and way.column == joint_column(parts)
                if joint if way.both else self.has(way.column):
                    chosen[name] = way
                    break
        return {name: chosen[name] for name in names if name in chosen}

    def lacking(self) -> list[str]:
        """Name the design columns that the files do not have (of several weights, the first)."""
        design = self.design
        weight = () if any(map(self.has, design.weight)) else design.weight[:1]
        columns = (*weight, design.strata, design.psu, design.unit)
        return [self.entry.column(c) for c in columns if c is not None and not self.has(c)]

    def restrictions(self) -> set[str]:
        """Name the columns that restrictions and adjustments look at, as the record does."""
        rakes = [rule for rule in self.entry.adjustments if isinstance(rule, Rake)]
        universes = [*self.record.universe, *(u for rake in rakes for u in rake.among)]
        universes += [u for task in self.record.all_tasks for u in task.universe]
        return {u.column for u in universes} | {r.known for r in rakes if r.known is not None}

    def replicates(self) -> list[str]:
        """Name the replicate weights that the files have; an incomplete set is an error.

        So is none at all, except of a survey that ships: subsets of its file can be built.
        """
        columns = [self.entry.column(column) for column in self.design.replicate_columns]
        lacking = [column for column in columns if not self.has(column)]
        if lacking and (len(lacking) < len(columns) or self.record.survey in own_surveys()):
            raise EpidemiaError(
                f"the file has only {len(columns) - len(lacking)} of {len(columns)} replicate "
                f"weights and lacks {few(lacking)}: use the complete file, or remove all of them, "
                "also from the record (standard errors then assume independently drawn units)"
            )
        return [] if lacking else columns

    def wanted(self) -> list[str]:
        """Name, as in the vintage, every column of the files that is of use."""
        design = self.design
        columns = [*design.weight, design.strata, design.psu, design.unit, self.record.join]
        columns += self.replicates()
        for way in self.variables().values():
            columns += [] if way.both else _parts(way.column)
            columns += [universe.column for level in way.levels for universe in level.also]
        columns += [*self.restrictions(), *(u.column for u in self.entry.select)]
        named = dict.fromkeys(self.entry.column(column) for column in columns if column is not None)
        return [column for column in named if column.casefold() in self.present]

    def texts(self) -> set[str]:
        """Name the columns that may hold text: those with levels of texts, names of units."""
        design, ways = self.design, [w for ways in self.record.variables.values() for w in ways]
        columns = [self.record.join, design.strata, design.psu, design.unit]
        columns += [way.column for way in ways if way.of_texts]
        return {self.entry.column(column) for column in columns if column is not None}

    def selected(self, frame: pd.DataFrame, file: str) -> NDArray[np.bool_]:
        """Tell which records of a file that may hold several years are of the vintage."""
        keep = np.ones(len(frame), dtype=bool)
        for universe in self.entry.select:
            if universe.column in frame:
                keep &= _within(_coded(frame, universe.column, file), universe.codes)
        return keep

    def check_complete(self, columns: list[str], file: str) -> None:
        """Refuse a file that lacks more columns than a known file of its vintage."""
        record, entry = self.record, self.entry
        of = f"{record.survey} {self.vintage}"
        # What a joint outcome lacks is one of its variables.
        needed = {name for name in record.used_variables(self.vintage) if not record.is_joint(name)}
        if lacking := sorted(needed - set(self.variables()) - set(entry.may_lack)):
            ways = {name: record.ways(name, self.vintage) for name in lacking}
            detail = "; ".join(
                f"{name} needs {' or '.join(entry.column(way.column) for way in ways[name])} "
                f"({nearest(_parts(ways[name][0].column)[0], columns)})"
                for name in lacking
            )
            raise EpidemiaError(
                f"{file} lacks columns of {of}: {detail}. Is this another vintage? The official "
                f"file is {entry.needed}: {entry.page}"
            )
        for column in sorted(self.restrictions()):
            if not self.has(column):
                raise EpidemiaError(
                    f"{file} lacks column {entry.column(column)} ({nearest(column, columns)}), "
                    f"which says who belongs to {of}"
                )


def _viable(
    releases: list[_Release], given: str | None, columns: list[str], file: str
) -> list[_Release]:
    """Choose the vintages whose design columns are all there, of the one given or of all."""
    candidates = [release for release in releases if given in (None, release.vintage)]
    if viable := [release for release in candidates if not release.lacking()]:
        return viable
    first = candidates[0]
    others = [r.vintage for r in releases if not r.lacking() and r.entry.year != first.entry.year]
    looks = (
        f"looks like {others[0]}: give --vintage {others[0]}"
        if others
        else "is another vintage, a subset without its weights, or not of this survey"
    )
    having: dict[str, list[str]] = {}
    for release in candidates:
        having.setdefault(release.lacking()[0], []).append(release.vintage)
    lacks = ", ".join(
        f"column {column} of {first.record.survey} {' and '.join(vintages)}"
        for column, vintages in having.items()
    )
    raise EpidemiaError(
        f"{file} lacks {lacks} ({nearest(next(iter(having)), columns)}): it {looks}"
    )


def _choose(record: Record, given: str | None, rows: dict[str, int], file: str, names: str) -> str:
    """Decide which vintage a file is: as given, by its official row count, or by its name.

    `rows` has the vintages that it may be, with the records of each.
    """
    entries = record.vintages
    if given is not None:
        same = [name for name, entry in entries.items() if entry.rows == rows[given]]
        if same and given not in same:
            raise EpidemiaError(
                f"{file} has {rows[given]:,} rows, as {record.survey} {same[0]} has, not {given} "
                f"({entries[given].rows or 0:,}): give --vintage {same[0]}, or the {given} file"
            )
        return given
    by_rows = [name for name in rows if entries[name].rows == rows[name]]
    viable = [name for name in rows if rows[name]]
    by_name = [name for name in viable if name in names]
    for candidates in (by_rows, by_name, viable):
        # Two vintages of one year are the official file and what a known subset of it allows.
        if len({entries[name].year for name in candidates}) == 1:
            return candidates[0]
    raise EpidemiaError(
        f"cannot tell which vintage of {record.survey} {file} is ({max(rows.values()):,} rows): "
        f"give --vintage {' or '.join(viable or rows)}"
    )


def _coded(frame: pd.DataFrame, column: str, file: str) -> NDArray[np.float64]:
    """Return a column of numbers, where others may hold text."""
    values = frame[column]
    if values.dtype.kind == "O":
        raise EpidemiaError(
            f"{file}: column {column} contains text such as {values.dropna().iloc[0]!r}, expected "
            "numeric codes: export the file with codes"
        )
    return values.to_numpy(np.float64)


def _units(column: pd.Series, name: str, file: str) -> NDArray[np.int64]:
    """Number the units of a design column."""
    if (blank := column.isna().to_numpy()).any():
        raise EpidemiaError(f"{file}: design column {name} is missing in {rows_said(blank)}")
    return np.unique(column.to_numpy(), return_inverse=True)[1].astype(np.int64)


def _check_parts(record: Record, files: list[Path]) -> None:
    """Refuse some parts of an official file without the others, and strangers beside parts."""
    here = {file.name.strip().casefold() for file in files}
    official = [file for vintage in record.vintages.values() for file in vintage.files]
    for file in official:
        parts = {member.casefold() for member in file.members}
        if len(parts) > 1 and parts & here and not parts <= here:
            raise EpidemiaError(
                f"{', '.join(sorted(parts & here))} is only a part of {file.name}: give "
                f"{', '.join(sorted(parts - here))} too, or the archive itself"
            )
    members = {member.casefold() for file in official for member in file.members}
    strange = [file.name for file in files if file.name.casefold() not in members]
    if strange and len(files) > 1 and record.join is None:
        raise EpidemiaError(
            f"{len(files)} files were given ({', '.join(file.name for file in files)}), but "
            f"{strange[0]} is not a part of a file of {record.survey}: give one file"
        )


def _joined(
    columns: dict[Path, list[str]],
    wanted: list[str],
    record: Record,
    small: list[str],
    texts: list[str],
) -> pd.DataFrame:
    """Read the wanted columns of one file, of parts one under the other, or of files joined."""
    import pandas as pd

    present = {file: {column.casefold() for column in names} for file, names in columns.items()}
    here = {file: [c for c in wanted if c.casefold() in names] for file, names in present.items()}
    if record.join is None or len(columns) == 1:
        return read.stacked(
            [read.read_columns(file, names, small, texts) for file, names in here.items()]
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
        frame = read.read_columns(file, [key, *new], small, texts)
        frame = frame.astype({key: object} if frame[key].dtype.kind == "O" else {}).set_index(key)
        if not frame.index.is_unique:
            raise EpidemiaError(
                f"{file.name}: column {key} has duplicates, so it cannot join the files"
            )
        if frames and frame.index.dtype != frames[0].index.dtype:
            raise EpidemiaError(
                f"{file.name}: column {key} contains numbers here and text in another file, so "
                "the files cannot be joined: write it alike in both"
            )
        frames.append(frame)
    # The file with the weight has everybody; the others have those who were asked or examined.
    weights = {column.casefold() for column in record.design.weight}
    frames.sort(key=lambda frame: not weights & {str(column).casefold() for column in frame})
    return pd.concat([frames[0], *(f.reindex(frames[0].index) for f in frames[1:])], axis=1)


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
    with read.open_raw(paths, record.expected_files) as files:
        _check_parts(record, files)
        columns = {file: read.raw_columns(file) for file in files}
        there = [column for names in columns.values() for column in names]
        present = {column.casefold() for column in there}
        untabled = [v for v, entry in record.vintages.items() if not entry.tables]
        releases = [_Release(record, v, present, every) for v in untabled]
        viable = _viable(releases, vintage, there, name)
        wanted = list(dict.fromkeys(column for release in viable for column in release.wanted()))
        small = [column for release in viable for column in release.replicates()]
        texts = [column for column in wanted if any(column in r.texts() for r in viable)]
        frame = _joined(columns, wanted, record, small, texts)
        names = " ".join([name, *(file.name for file in files)])
    selected = {release.vintage: release.selected(frame, name) for release in viable}
    rows = {v: int(keep.sum()) for v, keep in selected.items()}
    vintage = _choose(record, vintage, rows, name, names)
    if not rows[vintage]:
        raise EpidemiaError(f"{name} has no rows of {record.survey} {vintage}")
    if rows[vintage] == 1:
        raise EpidemiaError(
            f"{name} has only one row of {record.survey} {vintage}: give the complete file"
        )
    if rows[vintage] < len(frame):
        frame = frame[selected[vintage]]
    release = next(release for release in viable if release.vintage == vintage)
    entry, design, variables = release.entry, release.design, release.variables()
    release.check_complete(there, name)

    def values(column: str) -> NDArray[np.float64]:
        parts = [_coded(frame, entry.column(part), name) for part in _parts(column)]
        return np.sum(parts, axis=0)

    def numbers(variable: str, way: Variable) -> NDArray[np.int16]:
        if way.of_texts:
            levels = _text_levels(frame[entry.column(way.column)], way, variable, name)
        else:
            levels = _level_numbers(values(way.column), way, variable, name)
        for number, level in enumerate(way.levels):
            for universe in level.also:
                if universe.column in frame:
                    meant = _within(values(universe.column), universe.codes)
                    levels[(levels == MISSING) & meant] = number
        return levels

    def units(column: str) -> NDArray[np.int64]:
        return _units(frame[entry.column(column)], column, name)

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
            levels[variable] = _joint_levels([levels[part] for part in way.both], sizes)
    return Microdata(
        record=record,
        vintage=vintage,
        files={path.name: sha256_of(path) for path in read.raw_files(paths, record.expected_files)},
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
