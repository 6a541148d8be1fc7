"""The text of csv files: header and columns, some rows at a time."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: No survey file is wider: older SAS and Stata stop here, the GSS of 50 years has 6,900 columns.
MAX_COLUMNS = 32_767

#: Characters of a csv file that its header is looked for in; bytes that are parsed at once, which
#: no row may exceed.
HEADER = 4 * 2**20
BLOCK = 16 * 2**20

#: What is no answer, in numbers or in words.
BLANKS = ("",)

#: What programs write in place of a number that is not known. In a column of words each may be an
#: answer ("None") or a code ("NA" for Namibia), so there it is read as it stands.
_UNKNOWN = (
    "None <NA> NULL null NA #NA N/A n/a #N/A NaN nan -NaN -nan 1.#IND -1.#IND 1.#QNAN -1.#QNAN"
    " . - -- ?"
)
NO_NUMBERS = frozenset({*BLANKS, "#N/A N/A", *_UNKNOWN.split()})


class CsvHeader(NamedTuple):
    """The rows of a csv file above the people.

    Attributes
    ----------
    names, labels : list of str
        Of the columns; labels only where there is a row with the questions.
    rows : int
        How many rows these are: platforms for surveys write two or three.
    """

    names: list[str]
    labels: list[str]
    rows: int = 1


def header(path: Path) -> CsvHeader:
    """Read what stands above the people in a csv file, without reading these."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        head = file.read(HEADER)
    if "\0" in head.partition("\n")[0]:
        raise EpidemiaError(f"{path.name} contains NUL bytes in its header: save it as UTF-8 text")
    rows = list(islice(csv.reader(io.StringIO(head, newline="")), 4))
    if any("\ufffd" in name for row in rows for name in row):
        with path.open(encoding=encoding_of(path), newline="") as file:
            rows = list(islice(csv.reader(io.StringIO(file.read(HEADER), newline="")), 4))
    if not rows or not rows[0]:
        wrong = "does not begin with a header" if head.strip() else "is empty"
        raise EpidemiaError(f"{path.name} {wrong}: expected column names in the first line")
    if len(rows[0]) > MAX_COLUMNS:
        raise EpidemiaError(
            f"{path.name} has more than {MAX_COLUMNS:,} columns, more than any survey file: are "
            "rows and columns swapped? Otherwise save only the columns that the survey record "
            "names"
        )
    found = of_platform(rows)
    if len(rows) <= found.rows and len(head) < HEADER:
        raise EpidemiaError(f"{path.name} has zero rows")
    return found


def of_platform(rows: list[list[str]]) -> CsvHeader:
    """Recognise the header rows that Qualtrics and SurveyMonkey write."""
    names, *below = rows
    for n, row in enumerate(below):
        if row and all(cell.startswith('{"ImportId"') for cell in row):
            return CsvHeader(names, below[0][: len(names)] if n else [], n + 2)
    if below and ("ResponseId", "Response ID") in zip(names, below[0], strict=False):
        return CsvHeader(names, below[0][: len(names)], 2)
    if names[0] == "Respondent ID" and below and below[0][:1] == [""]:
        # A question stands above the first of its columns, each with an answer of its own below.
        heads, question = [], ""
        for name, answer in zip_longest(names, below[0], fillvalue=""):
            question = name or question
            whole = answer in ("", "Response", "Open-Ended Response")
            heads.append(" ".join((question if whole else f"{question}: {answer}").split()))
        return CsvHeader(heads, [], 2)
    return CsvHeader(names, [])


def csv_batches(path: Path, places: list[int], width: int, of_texts: bool) -> Iterator[Any]:
    """Read columns of a csv file as text, some rows at a time.

    A row that is wider or narrower than the header is an error here; pandas would accept it, with
    codes in the wrong columns.

    Parameters
    ----------
    path : Path
    places : list of int
        Columns by position, since unused columns may share a name.
    width : int
        How many the header has.
    of_texts : bool
        Whether their text matters, and therefore their encoding.

    Yields
    ------
    pyarrow.RecordBatch
        The columns in the order of `places`, empty texts as null.
    """
    import pyarrow as pa
    import pyarrow.csv as arrow

    names = [str(place) for place in places]
    reading = arrow.ReadOptions(
        column_names=[str(place) for place in range(width)],
        skip_rows_after_names=header(path).rows,
        block_size=BLOCK,
        use_threads=False,  # or an error would not say in which row
        encoding=encoding_of(path) if of_texts else "utf8",
    )
    converting = arrow.ConvertOptions(
        include_columns=names,
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],  # Arrow's own include NA and null, which may be answers
        strings_can_be_null=True,
    )
    parsing = arrow.ParseOptions(newlines_in_values=True)
    yield from arrow.open_csv(path, reading, parsing, converting)


def encoding_of(path: Path) -> str:
    """Return the encoding of a csv file: UTF-8, or else Western European.

    The latter is ``cp1252``, as Windows writes it, or ``latin-1`` if a byte is undefined there.
    """
    for encoding in ("utf8", "cp1252"):
        with suppress(UnicodeDecodeError), path.open(encoding=encoding, newline="") as file:
            while file.read(BLOCK):
                pass
            return encoding
    return "latin-1"


def parsed(texts: Any, small: bool = False) -> NDArray[Any]:
    """Convert the texts of a csv column to numbers; if one is not a number, leave all unchanged."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(texts)
    try:
        blank = pc.is_in(trimmed, value_set=pa.array(sorted(NO_NUMBERS)))
        numbers = pc.if_else(blank, None, trimmed).cast(pa.float64())
    except pa.ArrowInvalid:
        return texts.to_numpy(zero_copy_only=False)
    values = numbers.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):  # too large for single precision: infinite
        return values.astype(np.float32) if small else values
