"""From raw files to tidy microdata: one column of level numbers per variable, weight, design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.core.paths import sha256_of
from lm_eval_epidemia.surveys.read import (
    open_raw,
    raw_columns,
    raw_files,
    read_columns,
    rows_said,
    stacked,
)
from lm_eval_epidemia.surveys.record import Design, Rake, Record, Task, Vintage
from lm_eval_epidemia.surveys.variable import Codes, Universe, Variable, joint_column

if TYPE_CHECKING:
    import pandas as pd

#: Level number of a record whose answer is blank, refused or unknown.
MISSING = -1

#: A weight says how many people a record stands for (or is relative, with a sum of at least about
#: 1); its sum lies between these.
TOTALS = (1e-6, 1e15)

#: From so many records on, none weighs more than all others together.
MANY = 100

#: The sum of a replicate weight is that of the weight itself, but for chance: in a file of a few
#: records within this factor.
APART = 20


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
        The weight that was used; empty where all records count alike.
    weight : ndarray of float64, shape (n,)
        As in the file: how many members of the population a record stands for.
    replicates : ndarray of float32, shape (n, R), or None
        Replicate weights.
    strata, psu, unit : ndarray of int64, shape (n,), or None
        Design columns as codes 0, 1, ...; a PSU's code is unique across strata.
    columns : dict of str to ndarray of float64, shape (n,)
        The columns that restrictions and adjustments look at, by their name in the record.
    measured : dict of str to ndarray of float64, shape (n,)
        The numbers of each variable that has a `measure`, NaN where it has no level.
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
        return all(name in self.variables for name in (task.outcome, *task.given))

    def within(self, universe: Universe) -> NDArray[np.bool_]:
        """Tell which records meet a restriction."""
        return _within(self.columns[universe.column], universe.codes)


def _within(values: NDArray[np.float64], codes: Codes) -> NDArray[np.bool_]:
    hit = np.zeros(len(values), dtype=bool)
    for low, high in codes:
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
    if not known.all():
        raise _unknown([f"{value:g}" for value in values], known, of_record, variable, name, file)
    return numbers[of_record]


def _text_levels(column: pd.Series, variable: Variable, name: str, file: str) -> NDArray[np.int16]:
    """The same of a column of texts."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column):
        raise EpidemiaError(
            f"{file}: column {variable.column} holds numbers where the record of {name!r} expects "
            f"texts such as {variable.levels[0].texts[0]!r}: is it the file with its codes?"
        )
    of_record, values = pd.factorize(column)
    meant = {text.strip(): n for n, level in enumerate(variable.levels) for text in level.texts}
    missing = {text.strip() for text in variable.missing_texts}
    known = np.array([value in meant or value in missing for value in values], dtype=bool)
    if not known.all():
        # A blank has no number among the values: it is one more, which is known.
        of_record = np.where(of_record < 0, len(values), of_record)
        known = np.append(known, True)
        raise _unknown([*map(repr, values), ""], known, of_record, variable, name, file)
    numbers = [*(meant.get(value, MISSING) for value in values), MISSING]
    return np.array(numbers, dtype=np.int16)[of_record]


def _unknown(
    said: list[str],
    known: NDArray[np.bool_],
    of_record: NDArray[np.int64],
    variable: Variable,
    name: str,
    file: str,
) -> EpidemiaError:
    """Name the values of a column that its record does not know."""
    counts = np.bincount(of_record, minlength=len(said))
    unknown = np.flatnonzero(~known)
    listed = ", ".join(f"{said[n]} ({counts[n]} rows)" for n in unknown[:8])
    what = "texts" if variable.of_texts else "codes"
    return EpidemiaError(
        f"{file}: column {variable.column} has {what} that the record of {name!r} does not "
        f"know: {listed}{', ...' if len(unknown) > 8 else ''} ({rows_said(~known[of_record])}). "
        f"Is it another vintage? Otherwise add the {what} to the survey record, as a level or as "
        "missing"
    )


def _joint_levels(one: NDArray[np.int16], other: NDArray[np.int16]) -> NDArray[np.int16]:
    """Number the levels of two variables of two levels: 0 is both first ones, 3 neither."""
    missing = (one == MISSING) | (other == MISSING)
    return np.where(missing, MISSING, 2 * one + other).astype(np.int16)


def check_weights(weight: NDArray[np.float64], column: str, file: str) -> None:
    """Refuse what is no weight: blanks, negative numbers, a sum that is that of no population."""
    what = f"{file}: column {column} (weight)"
    if (blank := np.isnan(weight)).any():
        raise EpidemiaError(f"{what} is missing in {rows_said(blank)}")
    if (negative := weight < 0).any():
        raise EpidemiaError(f"{what} is negative in {rows_said(negative)}")
    if not weight.any():
        raise EpidemiaError(f"{what} is zero in every row")
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not TOTALS[0] < total < TOTALS[1]:
        raise EpidemiaError(
            f"{what} sums to {total:g}, which is the size of no population: the file was damaged "
            "or badly converted; take the official one"
        )
    if len(weight) >= MANY and (most := weight.max()) > total / 2:
        raise EpidemiaError(
            f"{what} is {most:g} in row {int(weight.argmax()) + 1}, more than in all other rows "
            "together: the file was damaged or badly converted; take the official one"
        )


def _check_replicate(
    replicate: NDArray[np.float32], weight: NDArray[np.float64], column: str, file: str
) -> None:
    """Refuse what is no replicate of a weight; some replicates of a few people are negative."""
    what = f"{file}: column {column} (replicate weight)"
    if (blank := np.isnan(replicate)).any():
        raise EpidemiaError(f"{what} is missing in {rows_said(blank)}")
    total, known = replicate.sum(dtype=np.float64), weight.sum()
    if not known / APART < total < known * APART:
        raise EpidemiaError(
            f"{what} sums to {total:g}, the weight itself to {known:g}: it is no replicate of it"
        )


def _parts(column: str) -> list[str]:
    """Name the columns of a sum: ``FOODHOME + FOODAWAY``."""
    return column.split(" + ")


def _recorded(record: Record, vintage: str, present: set[str], every: bool) -> dict[str, Variable]:
    """Choose how each variable is read: the first way whose columns are all in the files.

    A joint outcome is read as its two variables are.
    """
    entry, found = record.vintages[vintage], dict[str, Variable]()
    names = sorted(record.variables if every else record.used_variables(vintage))
    for name in sorted(names, key=record.is_joint):
        for way in record.ways(name, vintage):
            if way.both:
                fits = all(part in found for part in way.both) and way.column == joint_column(
                    *(found[part] for part in way.both)
                )
            else:
                fits = {c.casefold() for c in _parts(entry.column(way.column))} <= present
            if fits:
                found[name] = way
                break
    return {name: found[name] for name in names if name in found}


def _lacking(design: Design, entry: Vintage, present: set[str]) -> list[str]:
    """Name the design columns that the files do not have (of several weights, the first)."""
    lacking = []
    if design.weight and not any(entry.column(c).casefold() in present for c in design.weight):
        lacking.append(entry.column(design.weight[0]))
    for column in (design.strata, design.psu, design.unit):
        if column is not None and entry.column(column).casefold() not in present:
            lacking.append(entry.column(column))
    return lacking


def _restrictions(record: Record, vintage: str) -> set[str]:
    """Name the columns that restrictions and adjustments of a vintage look at."""
    entry = record.vintages[vintage]
    rakes = [a for a in entry.adjustments if isinstance(a, Rake)]
    universes = [*record.universe, *(u for task in record.all_tasks for u in task.universe)]
    universes += [u for rake in rakes for u in rake.among]
    return {u.column for u in universes} | {r.known for r in rakes if r.known is not None}


def _wanted(record: Record, vintage: str, present: set[str], every: bool) -> list[str]:
    """Name, as in the vintage, every column of the files that is of use."""
    entry, design = record.vintages[vintage], record.design_of(vintage)
    columns = [*design.weight, design.strata, design.psu, design.unit, record.join]
    columns += design.replicate_columns if _replicated(design, present) else []
    for way in _recorded(record, vintage, present, every).values():
        columns += [] if way.both else _parts(way.column)
        columns += [universe.column for level in way.levels for universe in level.also]
    columns += [*_restrictions(record, vintage), *(u.column for u in entry.select)]
    named = [entry.column(column) for column in columns if column is not None]
    return [column for column in dict.fromkeys(named) if column.casefold() in present]


def _texts(record: Record, vintages: list[str], wanted: list[str]) -> list[str]:
    """Name the wanted columns that may hold text: those with levels of texts, names of units."""
    columns = {record.join}
    for vintage in vintages:
        entry, design = record.vintages[vintage], record.design_of(vintage)
        named = [design.strata, design.psu, design.unit]
        named += [way.column for ways in record.variables.values() for way in ways if way.of_texts]
        columns |= {entry.column(column) for column in named if column is not None}
    return [column for column in wanted if column in columns]


def _replicated(design: Design, present: set[str]) -> bool:
    """Tell whether a file has a survey's replicate weights; some of them alone are an error."""
    columns = design.replicate_columns
    lacking = [column for column in columns if column.casefold() not in present]
    if columns and 0 < len(lacking) < len(columns):
        raise EpidemiaError(
            f"the file has {len(columns) - len(lacking)} of {len(columns)} replicate weights, it "
            f"lacks {few(lacking)}: take the whole file, or leave out all of them (errors are "
            "then those of independently drawn units)"
        )
    return bool(columns) and not lacking


def _viable(record: Record, given: str | None, columns: list[str], file: str) -> list[str]:
    """Name the vintages whose design columns are all there, of the one given or of all."""
    if given is not None:
        record.vintage(given)
    present = {column.casefold() for column in columns}
    lacking = {
        name: _lacking(record.design_of(name), entry, present)
        for name, entry in record.vintages.items()
        if not entry.tables
    }
    candidates = [name for name in lacking if given in (None, name)]
    if viable := [name for name in candidates if not lacking[name]]:
        return viable
    year = record.vintages[candidates[0]].year
    others = [v for v in lacking if not lacking[v] and record.vintages[v].year != year]
    looks = (
        f"looks like {others[0]}, pass --vintage {others[0]}"
        if others
        else "is another vintage or a subset without its weights"
    )
    column, have = lacking[candidates[0]][0], "has" if len(candidates) == 1 else "have"
    raise EpidemiaError(
        f"{file} lacks column {column} ({nearest(column, columns)}), which {record.survey} "
        f"{' and '.join(candidates)} {have}: it {looks}"
    )


def _coded(frame: pd.DataFrame, column: str, file: str) -> NDArray[np.float64]:
    """Return a column of numbers, where others may hold text."""
    found = frame[column]
    if found.dtype.kind == "O":
        raise EpidemiaError(
            f"{file}: column {column} holds text where codes are expected, for example "
            f"{found.dropna().iloc[0]!r}; export the file with its codes"
        )
    return found.to_numpy(np.float64)


def _selected(entry: Vintage, frame: pd.DataFrame, file: str) -> NDArray[np.bool_]:
    """Tell which records of a file that may hold several years are of a vintage."""
    keep = np.ones(len(frame), dtype=bool)
    for universe in entry.select:
        if universe.column in frame:
            keep &= _within(_coded(frame, universe.column, file), universe.codes)
    return keep


def _choose(
    record: Record,
    given: str | None,
    viable: list[str],
    rows: dict[str, int],
    file: str,
    names: str,
) -> str:
    """Decide which vintage a file is: as given, by its official row count, or by its name."""
    if given is not None:
        same = [name for name, entry in record.vintages.items() if entry.rows == rows[given]]
        if same and given not in same:
            raise EpidemiaError(
                f"{file} has {rows[given]:,} rows, the official count of {record.survey} "
                f"{same[0]}, not of {given} ({record.vintages[given].rows or 0:,}): pass "
                f"--vintage {same[0]} or give the {given} file"
            )
        return given
    by_rows = [name for name in rows if record.vintages[name].rows == rows[name]]
    viable = [name for name in viable if rows[name]]
    by_name = [name for name in viable if name in names]
    for candidates in (by_rows, by_name, viable):
        # Two vintages of one year are the official file and what a known subset of it allows.
        if candidates and len({record.vintages[name].year for name in candidates}) == 1:
            return candidates[0]
    raise EpidemiaError(
        f"cannot tell which vintage of {record.survey} {file} is ({max(rows.values()):,} rows): "
        f"pass --vintage {' or '.join(viable or rows)}"
    )


def _check_complete(
    record: Record, vintage: str, recorded: dict[str, Variable], columns: list[str], file: str
) -> None:
    """Refuse a file that lacks more than a known file of its vintage may lack."""
    entry = record.vintages[vintage]
    # What a joint outcome lacks is one of its two variables.
    needed = {name for name in record.used_variables(vintage) if not record.is_joint(name)}
    if lacking := sorted(needed - set(recorded) - set(entry.may_lack)):
        ways = {name: record.ways(name, vintage) for name in lacking}
        detail = "; ".join(
            f"{name} needs {' or '.join(entry.column(way.column) for way in ways[name])} "
            f"({nearest(_parts(ways[name][0].column)[0], columns)})"
            for name in lacking
        )
        raise EpidemiaError(
            f"{file} lacks columns of {record.survey} {vintage}: {detail}. Is it another vintage? "
            f"The official file is {entry.needed}: {entry.page}"
        )
    present = {column.casefold() for column in columns}
    for column in sorted(_restrictions(record, vintage)):
        if entry.column(column).casefold() not in present:
            raise EpidemiaError(
                f"{file} lacks column {entry.column(column)} ({nearest(column, columns)}), which "
                f"says who is asked in {record.survey} {vintage}"
            )


def _codes(column: pd.Series, name: str, file: str) -> NDArray[np.int64]:
    if (blank := column.isna().to_numpy()).any():
        raise EpidemiaError(f"{file}: design column {name} is missing in {rows_said(blank)}")
    return np.unique(column.to_numpy(), return_inverse=True)[1].astype(np.int64)


def _check_parts(record: Record, files: list[Path]) -> None:
    """Refuse some parts of an official file without the others."""
    here = {file.name.strip().casefold() for file in files}
    for vintage in record.vintages.values():
        for official in vintage.files:
            parts = {member.casefold() for member in official.members}
            if len(parts) > 1 and parts & here and not parts <= here:
                raise EpidemiaError(
                    f"{', '.join(sorted(parts & here))} is only a part of {official.name}: give "
                    f"{', '.join(sorted(parts - here))} too, or the archive itself"
                )


def _joined(
    files: list[Path],
    columns: dict[Path, list[str]],
    wanted: list[str],
    record: Record,
    small: list[str],
    texts: list[str],
) -> pd.DataFrame:
    """Read the wanted columns of one file, of parts one under the other, or of files joined."""
    import pandas as pd

    def here(file: Path) -> list[str]:
        present = {column.casefold() for column in columns[file]}
        return [column for column in wanted if column.casefold() in present]

    if len(files) == 1:
        return read_columns(files[0], here(files[0]), small, texts)
    if record.join is None:
        # A list of parts is only accepted where the record says that a file has parts.
        members = {
            m.casefold() for v in record.vintages.values() for f in v.files for m in f.members
        }
        if strange := [file.name for file in files if file.name.casefold() not in members]:
            raise EpidemiaError(
                f"{len(files)} files were given ({', '.join(file.name for file in files)}), but "
                f"{strange[0]} is not a part of a file of {record.survey}: give one file"
            )
        return stacked([read_columns(file, here(file), small, texts) for file in files])
    key, seen = record.join, {record.join.casefold()}
    frames: list[pd.DataFrame] = []
    for file in files:
        if key.casefold() not in {column.casefold() for column in columns[file]}:
            raise EpidemiaError(f"{file.name} lacks column {key}, by which files are joined")
        new = [column for column in here(file) if column.casefold() not in seen]
        if not new:
            continue
        seen |= {column.casefold() for column in new}
        frame = read_columns(file, [key, *new], small, texts)
        frame = frame.astype({key: object} if frame[key].dtype.kind == "O" else {}).set_index(key)
        if not frame.index.is_unique:
            raise EpidemiaError(f"{file.name}: column {key} has duplicates, so it cannot be joined")
        if frames and frame.index.dtype != frames[0].index.dtype:
            raise EpidemiaError(
                f"{file.name}: column {key} holds numbers here and text in another file, so they "
                "cannot be joined: write it alike in both"
            )
        frames.append(frame)
    # The file with the weight has everybody; the others have those who were asked or examined.
    weights = {column.casefold() for column in record.design.weight}
    frames.sort(key=lambda frame: not weights & {str(column).casefold() for column in frame})
    return pd.concat([frames[0], *(f.reindex(frames[0].index) for f in frames[1:])], axis=1)


def load_microdata(
    record: Record,
    paths: Path | Sequence[Path],
    vintage: str | None = None,
    *,
    every: bool = False,
) -> Microdata:
    """Read a survey's files as its record describes them.

    Parameters
    ----------
    record : Record
    paths : Path or sequence of Path
        The official files or subsets of their columns, in any of `read.FORMATS`, zipped or not;
        or a folder that holds them.
    vintage : str, optional
        Needed where neither the row count nor the file name tells.
    every : bool
        Read every variable of the record that the files have, not only those that tasks use.

    Returns
    -------
    Microdata

    Raises
    ------
    EpidemiaError
        Naming file, column, code and rows of what does not fit the record.
    """
    paths = [paths] if isinstance(paths, Path) else list(paths)
    name = ", ".join(path.name for path in paths)
    with open_raw(paths, record.expected_files) as files:
        _check_parts(record, files)
        columns = {file: raw_columns(file) for file in files}
        there = [column for names in columns.values() for column in names]
        present = {column.casefold() for column in there}
        viable = _viable(record, vintage, there, name)
        wanted = list(dict.fromkeys(c for v in viable for c in _wanted(record, v, present, every)))
        replicated = {v: _replicated(record.design_of(v), present) for v in viable}
        small = [c for v in viable if replicated[v] for c in record.design_of(v).replicate_columns]
        texts = _texts(record, viable, wanted)
        frame = _joined(files, columns, wanted, record, small, texts)
        names = " ".join([name, *(file.name for file in files)])
    selected = {v: _selected(record.vintages[v], frame, name) for v in viable}
    rows = {v: int(keep.sum()) for v, keep in selected.items()}
    vintage = _choose(record, vintage, viable, rows, name, names)
    if not rows[vintage]:
        raise EpidemiaError(f"{name} has no record of {record.survey} {vintage}")
    if rows[vintage] == 1:
        raise EpidemiaError(
            f"{name} has one record of {record.survey} {vintage}: shares of a population cannot be "
            "estimated from one person; give the whole file"
        )
    if rows[vintage] < len(frame):
        frame = frame[selected[vintage]]
    entry, design = record.vintages[vintage], record.design_of(vintage)
    variables = _recorded(record, vintage, present, every)
    _check_complete(record, vintage, variables, there, name)

    def values(column: str) -> NDArray[np.float64]:
        parts = [_coded(frame, entry.column(part), name) for part in _parts(column)]
        return np.sum(parts, axis=0)

    def numbers(variable: str, way: Variable) -> NDArray[np.int16]:
        if way.of_texts:
            found = _text_levels(frame[entry.column(way.column)], way, variable, name)
        else:
            found = _level_numbers(values(way.column), way, variable, name)
        for number, level in enumerate(way.levels):
            for universe in level.also:
                if universe.column in frame:
                    there = _within(values(universe.column), universe.codes)
                    found[(found == MISSING) & there] = number
        return found

    # A weight that a year does not have is blank throughout in a file of several years.
    weights = [c for c in design.weight if entry.column(c) in frame]
    valued = [c for c in weights if frame[entry.column(c)].notna().any()]
    weight_column = next(iter([*valued, *weights]), "")
    weight = values(weight_column) if weight_column else np.ones(len(frame))
    check_weights(weight, entry.column(weight_column), name)
    strata = psu = unit = replicates = None
    if design.strata and design.psu:
        strata = _codes(frame[entry.column(design.strata)], design.strata, name)
        within = _codes(frame[entry.column(design.psu)], design.psu, name)
        psu = np.unique(strata * (within.max() + 1) + within, return_inverse=True)[1]
    if design.unit:
        unit = _codes(frame[entry.column(design.unit)], design.unit, name)
    if replicated[vintage]:
        # Column by column out of the table, so that they are not held twice.
        replicates = np.empty((len(frame), len(design.replicate_columns)), dtype=np.float32)
        for number, column in enumerate(design.replicate_columns):
            replicate = frame.pop(column).to_numpy()
            _check_replicate(replicate, weight, column, name)
            replicates[:, number] = replicate
    levels = {name: numbers(name, way) for name, way in variables.items() if not way.both}
    for variable, way in variables.items():
        if way.both:
            levels[variable] = _joint_levels(*(levels[part] for part in way.both))
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
        columns={column: values(column) for column in sorted(_restrictions(record, vintage))},
        measured={
            variable: np.where(levels[variable] == MISSING, np.nan, values(way.column))
            for variable, way in variables.items()
            if way.measure is not None
        },
    )
