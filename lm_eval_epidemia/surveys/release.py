"""Which vintage of a survey some files are, and what of it they have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError, few, suggest
from lm_eval_epidemia.surveys import read
from lm_eval_epidemia.surveys.catalogue import own_surveys
from lm_eval_epidemia.surveys.record import Design, Record, Vintage
from lm_eval_epidemia.surveys.variable import Codes, Rake, Variable, joint_column

if TYPE_CHECKING:
    import pandas as pd


def are_within(values: NDArray[np.float64], codes: Codes) -> NDArray[np.bool_]:
    hit = np.zeros(len(values), dtype=bool)
    for low, high in read.round_float32(np.array(codes, float).reshape(-1, 2)):
        hit |= (values >= low) & (values <= high)
    return hit


def parts_of(column: str) -> list[str]:
    """Name the columns of a sum: ``FOODHOME + FOODAWAY``."""
    return column.split(" + ")


class VintageFiles(NamedTuple):
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
        return {part.casefold() for part in parts_of(self.entry.column(column))} <= self.present

    def variables(self) -> dict[str, Variable]:
        """Choose how each variable is read: the first way whose columns are all in the files.

        A joint outcome is read as its variables are.
        """
        record, chosen = self.record, dict[str, Variable]()
        names = sorted(record.variables if self.every else record.used_variables(self.vintage))
        for name in sorted(names, key=record.is_joint):
            for way in record.readings(name, self.vintage):
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
                "also from the record"
            )
        return [] if lacking else columns

    def wanted(self) -> list[str]:
        """Name, as in the vintage, every column of the files that is of use."""
        design = self.design
        columns = [*design.weight, design.strata, design.psu, design.unit, self.record.join]
        columns += self.replicates()
        for way in self.variables().values():
            columns += [] if way.both else parts_of(way.column)
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
                keep &= are_within(read_codes(frame, universe.column, file), universe.codes)
        return keep

    def check_complete(self, columns: list[str], file: str) -> None:
        """Refuse a file that lacks more columns than a known file of its vintage."""
        record, entry = self.record, self.entry
        of = f"{record.survey} {self.vintage}"
        # What a joint outcome lacks is one of its variables.
        needed = {name for name in record.used_variables(self.vintage) if not record.is_joint(name)}
        if lacking := sorted(needed - set(self.variables()) - set(entry.may_lack)):
            ways = {name: record.readings(name, self.vintage) for name in lacking}
            detail = "; ".join(
                f"{name} needs {' or '.join(entry.column(way.column) for way in ways[name])} "
                f"({suggest(parts_of(ways[name][0].column)[0], columns)})"
                for name in lacking
            )
            raise EpidemiaError(
                f"{file} lacks columns of {of}: {detail}; give {entry.needed} ({entry.page})"
            )
        for column in sorted(self.restrictions()):
            if not self.has(column):
                hint, column = suggest(column, columns), entry.column(column)
                raise EpidemiaError(f"{file} lacks column {column} ({hint}) of {of}")


def viable_releases(
    releases: list[VintageFiles], given: str | None, columns: list[str], file: str
) -> list[VintageFiles]:
    """Choose the vintages whose design columns are all there, of the one given or of all."""
    candidates = [release for release in releases if given in (None, release.vintage)]
    if viable := [release for release in candidates if not release.lacking()]:
        return viable
    first = candidates[0]
    others = [r.vintage for r in releases if not r.lacking() and r.entry.year != first.entry.year]
    looks = "is another vintage, a subset without its weights, or not of this survey"
    if others:
        looks = f"looks like {others[0]}: give --vintage {others[0]}"
    lacks = {release.lacking()[0]: None for release in candidates}
    of = f"{first.record.survey} {' or '.join(release.vintage for release in candidates)}"
    raise EpidemiaError(
        f"{file} lacks column {' or '.join(lacks)} of {of} ({suggest(next(iter(lacks)), columns)}):"
        f" it {looks}"
    )


def choose_vintage(
    record: Record, given: str | None, rows: dict[str, int], file: str, names: str
) -> str:
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
    fault = f"cannot tell which vintage of {record.survey} {file} is ({max(rows.values()):,} rows)"
    raise EpidemiaError(f"{fault}: give --vintage {' or '.join(viable or rows)}")


def read_codes(frame: pd.DataFrame, column: str, file: str) -> NDArray[np.float64]:
    """Return a column of numbers, where others may hold text."""
    return read.convert_codes(frame[column], column, file).to_numpy(np.float64)


def check_parts(record: Record, files: list[Path]) -> None:
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
