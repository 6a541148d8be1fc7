"""The columns of survey files, from their metadata, and what a user wishes of a draft of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError, few, suggest
from lm_eval_epidemia.surveys import read
from lm_eval_epidemia.surveys.draft.words import IDENTIFIER, asks_nothing, clean_text, like_others
from lm_eval_epidemia.surveys.read import FORMATS, suffix_of

#: Characters of a label that are looked at: no question is longer.
LONGEST = 600

Kind = Literal["numbers", "texts", "dates", "other"]


class FileColumn(NamedTuple):
    """A column as its file describes it.

    Attributes
    ----------
    name : str
        As written there.
    file : int
        In which of the files.
    place : int
        Its position there, from 1.
    label : str
        In words; empty if the file has none.
    labels : dict
        Of its values, by code (a number, or a text in a column of texts).
    missing : tuple of (float, float)
        Ranges of codes that the file declares missing (SPSS).
    kind : str
        What it holds; of a csv file all columns are texts before they are read.
    """

    name: str
    file: int
    place: int
    label: str = ""
    labels: dict[float | str, str] = {}
    missing: tuple[tuple[float, float], ...] = ()
    kind: Kind = "numbers"

    @property
    def silent(self) -> list[float]:
        """Codes of no answer by their labels: -9 "missing", and between such -7 "proxy"."""
        codes = {code: label for code, label in self.labels.items() if not isinstance(code, str)}
        every = [*codes.values()]
        said = [c for c, one in codes.items() if asks_nothing(one) and not like_others(one, every)]
        below = [code for code in said if code < 0]
        highest = max(below) if len(below) > 1 else -math.inf
        return [code for code in codes if code in said or code < highest]

    @property
    def missing_ranges(self) -> list[tuple[float, float]]:
        """Ranges of codes that mean no answer, as declared or by their labels."""
        return [*self.missing, *((code, code) for code in self.silent)]

    @property
    def answers(self) -> dict[float, str]:
        """Labels of numbers that mean an answer: if there are none, its numbers are numbers."""
        return {
            code: label
            for code, label in self.labels.items()
            if not isinstance(code, str) and label and not is_in_ranges(code, self.missing_ranges)
        }


def is_in_ranges(code: float, ranges: Iterable[tuple[float, float]]) -> bool:
    """Tell whether a code is in one of the ranges."""
    return any(low <= code <= high for low, high in ranges)


class Header(NamedTuple):
    """The metadata of a file: its columns, and a title."""

    columns: list[FileColumn]
    title: str = ""


def header_of(path: Path, file: int = 0, encoding: str | None = None) -> Header:
    """Read a file's metadata of its columns.

    Parameters
    ----------
    path : Path
        As given by `open_raw`.
    file : int
        Its number among several.
    encoding : str, optional
        Of the labels, where the file is wrong about it.

    Raises
    ------
    EpidemiaError
        If it is in no format with columns, or cannot be read.
    """
    suffix = read.suffix_of(path.name)
    with read.name_bad_file(path):
        if suffix == ".parquet":
            return _of_parquet(path, file)
        if read.FORMATS[suffix] is None:
            has_head = suffix in (".csv", *read.WORKBOOKS)
            names, labels = read.head_of(path)[:2] if has_head else (read.raw_columns(path), [])
            told = zip_longest(names, map(clean_text, labels), fillvalue="")
            kind: Kind = "texts" if suffix == ".csv" else "numbers"
            return Header(
                [FileColumn(a, file, n, b, kind=kind) for n, (a, b) in enumerate(told, 1)]
            )
        options: dict[str, Any] = {"encoding": encoding} if encoding else {}
        if read.FORMATS[suffix] == "read_sav":
            options["user_missing"] = True  # or the ranges are not told
        _, told = read.read_labelled(path, metadataonly=True, **options)
    return Header(_of_labelled(told, file), clean_text(told.file_label))


def _of_parquet(path: Path, file: int) -> Header:
    import pyarrow as pa
    import pyarrow.parquet

    types = pa.types

    def kind(held: Any) -> Kind:
        if isinstance(held, pa.DictionaryType):
            held = held.value_type
        if read.TEXTS.fullmatch(str(held)):
            return "texts"
        if types.is_temporal(held):
            return "dates"
        number = types.is_primitive(held) or types.is_null(held) or types.is_decimal(held)
        return "numbers" if number else "other"

    with pyarrow.parquet.ParquetFile(path) as opened:
        fields = enumerate(opened.schema_arrow, 1)
        columns = [FileColumn(field.name, file, n, kind=kind(field.type)) for n, field in fields]
        return Header(columns)


def _of_labelled(told: Any, file: int) -> list[FileColumn]:
    labels, missing = told.variable_value_labels, getattr(told, "missing_ranges", None) or {}
    columns = []
    for place, name in enumerate(told.column_names, 1):
        of_texts = told.readstat_variable_types[name] == "string"
        ranges = [(span["lo"], span["hi"]) for span in missing.get(name, ())]
        column = FileColumn(
            name=name,
            file=file,
            place=place,
            label=clean_text(told.column_names_to_labels.get(name))[:LONGEST],
            labels=_labels(labels.get(name, {}), of_texts),
            missing=tuple((float(lo), float(hi)) for lo, hi in ranges if not isinstance(lo, str)),
            kind="dates" if read.has_dates(told, name) else "texts" if of_texts else "numbers",
        )
        columns.append(column)
    return columns


def _labels(given: dict[Any, Any], of_texts: bool) -> dict[float | str, str]:
    """Clean the labels of a column's values, in the order of their codes."""
    if of_texts:
        texts: dict[Any, str] = {
            str(code).strip(): clean_text(given[code])[:LONGEST] for code in sorted(given)
        }
        # If all of its texts are numbers, the column is read as numbers.
        return texts | {float(code): texts[code] for code in texts if re.fullmatch(r"-?\d+", code)}
    # Stata's .a to .z, which are blank where they are read, have labels by letter.
    coded = {code: label for code, label in given.items() if not isinstance(code, str)}
    labels = {float(code): label for code, label in coded.items() if math.isfinite(code)}
    return {code: clean_text(labels[code])[:LONGEST] for code in sorted(labels)}


def find_unusable(columns: Sequence[FileColumn], join: str) -> LeftOut:
    """Find columns that no record can name, by the reason.

    Parameters
    ----------
    columns : sequence of Field
        Of all files.
    join : str
        The one that several files share; empty if there is one file.
    """
    times = Counter((column.file, column.name.casefold()) for column in columns)
    left_out: LeftOut = {}
    seen: set[str] = set()
    for column in columns:
        name = column.name.casefold()
        reasons = {
            "without a name": not name.strip(),
            "name shared by several columns (ignoring case)": times[column.file, name] > 1,
            "name not allowed in a record ('+', '{yy}', control characters)": " + " in name
            or "{yy}" in name
            or not name.isprintable(),
            "also in another file, which is used": name in seen and name != join.casefold(),
            "dates or times": column.kind == "dates",
            "neither numbers nor text": column.kind == "other",
        }
        seen.add(name)
        if any(reasons.values()):
            left_out.setdefault(next(filter(reasons.get, reasons)), []).append(column)
    return left_out


def shared_column(headers: Sequence[Header], names: Sequence[str], given: str | None) -> str:
    """Guess the column by which several files are joined.

    Parameters
    ----------
    headers : sequence of Header
    names : sequence of str
        Of the files.
    given : str, optional
        What the user says it is.

    Returns
    -------
    str
        Empty if there is a single file.

    Raises
    ------
    EpidemiaError
        If the files share no column that could be one, or not the one given.
    """
    if len(headers) == 1:
        return ""
    others = [{column.name.casefold() for column in header.columns} for header in headers[1:]]
    shared = [
        column
        for column in headers[0].columns
        if all(column.name.casefold() in other for other in others)
    ]
    common, files = [column.name for column in shared], ", ".join(names)
    if given is not None:
        best = [name for name in common if name.casefold() == given.casefold()]
        fault = f"--join {given}: not every file of {files} has this column"
    else:
        best = [column.name for column in shared if IDENTIFIER.fits(column)]
        best = best or [name for name in common if re.search(r"id|no|num|seq|key", name.lower())]
        fault = f"{files} share no column that looks like an identifier of persons: give --join"
    if not best:
        raise EpidemiaError(f"{fault} (common columns: {few(common) or 'none'})")
    return best[0]


#: Says that a column shall not be used.
NONE = "none"


class DraftOptions(NamedTuple):
    """The user's options for a draft; others are guessed and marked.

    Attributes
    ----------
    name : str, optional
    weight, strata, psu : str, optional
        A column, or "none".
    outcomes, given : sequence of str, optional
        Columns.
    join, encoding : str, optional
    year : int, optional
    accept : bool
        Use what is guessed; else a guessed weight is an error, and strata and PSUs are only named.
    """

    name: str | None = None
    weight: str | None = None
    strata: str | None = None
    psu: str | None = None
    outcomes: Sequence[str] | None = None
    given: Sequence[str] | None = None
    join: str | None = None
    encoding: str | None = None
    year: int | None = None
    accept: bool = False


#: Columns that are not drafted, by the reason; those that options name, by option.
LeftOut = dict[str, list[FileColumn]]
Named = Mapping[str, Sequence[FileColumn]]


class Files(NamedTuple):
    """Files, what they say of themselves, and which of their columns are left out."""

    paths: list[Path]
    given: list[Path]
    headers: list[Header]
    columns: list[FileColumn]
    join: str
    left_out: LeftOut

    @property
    def names(self) -> str:
        return ", ".join(path.name for path in self.given)

    @property
    def usable(self) -> list[FileColumn]:
        """The columns that are not left out so far."""
        gone = {id(column) for columns in self.left_out.values() for column in columns}
        return [column for column in self.columns if id(column) not in gone]

    def column(self, name: str, option: str) -> FileColumn:
        """Find a column that an option names."""
        for column in self.columns:
            if column.name.casefold() == name.casefold():
                for reason, gone in self.left_out.items():
                    if column in gone:
                        fault = f"this column cannot be used: {reason}"
                        raise EpidemiaError(f"{option} {name}: {fault}")
                return column
        hint = suggest(name, [column.name for column in self.columns])
        raise EpidemiaError(f"{option} {name}: {self.names} has no such column ({hint})")


def describe_files(given: list[Path], unpacked: list[Path], wishes: DraftOptions) -> Files:
    if twice := [path.name for n, path in enumerate(given) if path in given[:n]]:
        raise EpidemiaError(f"{twice[0]} is given twice: give each file once")
    others = [path.name for path in unpacked if not FORMATS.get(suffix_of(path.name))]
    if wishes.encoding and others:
        raise EpidemiaError(
            f"--encoding applies only to SPSS, Stata and SAS files: save {others[0]} as UTF-8"
        )
    headers = [header_of(path, n, wishes.encoding) for n, path in enumerate(unpacked)]
    columns = [column for header in headers for column in header.columns]
    join = shared_column(headers, [path.name for path in unpacked], wishes.join)
    return Files(unpacked, given, headers, columns, join, find_unusable(columns, join))
