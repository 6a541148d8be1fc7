"""Raw survey files in every format agencies publish: one function per kind of content.

`read_columns` reads columns of microdata as numbers, `read_grids` the sheets of a workbook as
printed; `raw` finds the files.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import contextmanager, suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.core.extras import install
from lm_eval_epidemia.surveys import factbook

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd


#: Suffix -> the pyreadstat function that reads it; None if pandas, pyarrow or we do.
#: Every command reads all of them, and names them in its errors.
FORMATS: dict[str, str | None] = {
    ".parquet": None,
    ".csv": None,
    ".xlsx": None,
    ".xls": None,
    ".dta": "read_dta",
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".xpt": "read_xport",
    ".sas7bdat": "read_sas7bdat",
    ".dat": None,
}

#: Of which the first sheet is read.
WORKBOOKS = (".xlsx", ".xls")

#: Beside an ASCII file (.dat): the agency's Stata or SAS statements, which give the positions.
SETUP = ".txt"


#: Formats of columns that hold numbers of days or seconds: of Stata, and of SPSS and SAS.
_DATES = re.compile(
    r"%-?(t[cCd]|d)\S*|(([AEJS]|DT)?DATE|D?TIME|DATETIME|YMDHMS|WEEKDAT[EX]|HHMM|TOD"
    r"|(MMDDYY|DDMMYY|YYMMDD)[BCDNPS]?|(IS|[EB])8601[DT][ATNM]|(DATE|MDY|TIME)AMPM)\d*(\.\d*)?"
)

#: What parquet files call text; bytes are text if they are UTF-8.
TEXTS = re.compile("(large_)?(string|binary)(_view)?")

#: Smaller numbers are zero: pandas.read_sas takes the zero of SAS for 5.4e-79.
TINY = 1e-70

#: Rows of a parquet file that are looked at together.
BATCH = 2**16


def suffix_of(name: str) -> str:
    """Return the suffix of a file's name, in lower case."""
    # BRFSS publishes 'LLCP2023.XPT ', with a space at the end.
    return Path(name.strip()).suffix.lower()


def stem_of(name: str) -> str:
    """Return a file's name without its suffix, in lower case."""
    return Path(name.strip()).stem.casefold()


def read_labelled(path: Any, /, **options: Any) -> tuple[pd.DataFrame, Any]:
    """Read an SPSS, Stata or SAS file, and what it says of its columns.

    Parameters
    ----------
    path : Path
        As given by `raw.open_raw`.
    **options
        Of pyreadstat's function for the format. Without ``encoding``, what is not in the encoding
        that the file claims is read as Western European.

    Returns
    -------
    DataFrame, pyreadstat's metadata
    """
    import pyreadstat

    if suffix_of(path.name) == ".xpt" and path.stat().st_size % 80:
        # Transport files consist of 80-byte records; the reader takes a cut one for a short one.
        size = "its size is not a multiple of 80 bytes"
        raise EpidemiaError(f"{path.name} is incomplete ({size}): download it again")
    reader = getattr(pyreadstat, FORMATS[suffix_of(path.name)] or "")
    # One date beyond the year 9999, in whatever column, would make all of them unreadable.
    options["disable_datetime_conversion"] = True
    try:
        return reader(str(path), **options)
    except (UnicodeDecodeError, pyreadstat.ReadstatError) as error:
        # Some agencies write labels in a Western European encoding and call it UTF-8.
        if "encoding" in options or not re.search("decode|invalid byte", str(error)):
            raise
        return reader(str(path), encoding="LATIN1", **options)


def has_dates(told: Any, column: str) -> bool:
    """Tell whether a column of a labelled file holds dates or times, from what the file says."""
    return bool(_DATES.fullmatch(told.original_variable_types.get(column) or ""))


def round_float32(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers as they were meant: 3.3 where 3.299999952316284 is, which is 3.3 in float32.

    A number that single precision holds gets its fewest digits there; a tiny one is zero.
    """
    values = np.where(np.abs(values) < TINY, 0.0, values)
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
    held = (single == values) & (values != np.round(values))
    kinds, of_value = np.unique(single[held], return_inverse=True)
    values[held] = kinds.astype(str).astype(np.float64)[of_value]
    return values


def parquet_column(column: Any) -> pd.Series:
    """Return a column of a parquet file as pandas has it, with bytes of UTF-8 as text."""
    held = getattr(column.type, "value_type", column.type)
    series = column.to_pandas()
    if "binary" in str(held):
        with suppress(UnicodeDecodeError):
            return series.map(lambda text: text.decode() if isinstance(text, bytes) else text)
    return series


@contextmanager
def name_bad_file(path: Path) -> Iterator[None]:
    """Turn any exception of a reader on a damaged file into an error that names the file."""
    try:
        yield
    except EpidemiaError:
        raise
    except ImportError as error:
        raise EpidemiaError(f"cannot read {path.name} ({error}): {install('build')}") from None
    except Exception as error:
        # A reader may quote what it could not read: several lines of it, or control characters.
        text = "".join(c if c.isprintable() else "?" for c in " ".join(str(error).split()))
        raise EpidemiaError(
            f"{path.name} cannot be read as {suffix_of(path.name)} ({type(error).__name__}: "
            f"{text}): download it again, or save it in another format"
        ) from error


#: ``int AGE53X 135-136`` after infix (Stata), ``@135 AGE53X 2.0`` (SAS), positions from 1.
_INFIX = re.compile(r"\binfix\b(.*?)\busing\b", re.DOTALL | re.IGNORECASE)
_STATA = re.compile(r"\b(?:byte|int|long|float|double|str\d*)\s+(\w+)\s+(\d+)(?:\s*-\s*(\d+))?")
_SAS = re.compile(r"@\s*(\d+)\s+(\w+)\s+\$?\s*(\d+)(?:\.\d*)?")


def _positions(path: Path) -> dict[str, tuple[int, int]]:
    """Find where an ASCII file's columns are: half-open, from 0, as its statements say."""
    positions: dict[str, tuple[int, int]] = {}
    for setup in sorted(path.parent.iterdir()):
        if suffix_of(setup.name) != SETUP or not stem_of(setup.name).startswith(stem_of(path.name)):
            continue
        text = setup.read_text(encoding="latin-1")
        if infix := _INFIX.search(text):
            for name, first, last in _STATA.findall(infix[1]):
                positions[name] = (int(first) - 1, int(last or first))
        else:
            for start, name, width in _SAS.findall(text):
                positions[name] = (int(start) - 1, int(start) - 1 + int(width))
    if not positions:
        raise EpidemiaError(
            f"{path.name} is plain text without column positions: put the agency's Stata or SAS "
            f"statements next to it (for example {stem_of(path.name)}stu.txt)"
        )
    return positions


def raw_columns(path: Path) -> list[str]:
    """Return the column names of an unpacked data file, as written there."""
    suffix = suffix_of(path.name)
    with name_bad_file(path):
        if suffix == ".parquet":
            import pyarrow.parquet

            return list(pyarrow.parquet.read_schema(path).names)
        if suffix in (".csv", *WORKBOOKS):
            return head_of(path).names
        if suffix == ".dat":
            return list(_positions(path))
        return list(read_labelled(path, metadataonly=True)[1].column_names)


def _read_csv(
    path: Path, every: list[str], names: list[str], small: set[str], texts: set[str]
) -> pd.DataFrame:
    """Read the columns called `names` of a csv file whose header is `every`."""
    import pandas as pd

    def held(name: str, column: Any) -> Any:
        if name.casefold() in texts:
            return column.dictionary_encode().to_pandas()
        return parse_numbers(column, name.casefold() in small)

    places = [every.index(name) for name in names]
    parts = [
        pd.DataFrame(dict(zip(names, map(held, names, batch.columns), strict=True)), copy=False)
        for batch in csv_batches(path, places, len(every), bool(texts))
    ]
    return stack_tables(parts) if parts else pd.DataFrame(columns=names)


def read_untyped(path: Path, names: list[str]) -> pd.DataFrame:
    """Read columns of a workbook, or of an ASCII file by its statements, as pandas takes them."""
    import pandas as pd

    if suffix_of(path.name) == ".dat":
        spans = [_positions(path)[name] for name in names]
        return pd.read_fwf(path, colspecs=spans, names=names, header=None)
    head = head_of(path)
    places = [head.names.index(name) for name in names]
    frame = pd.read_excel(path, header=None, skiprows=head.rows, usecols=sorted(places))
    return frame.reindex(columns=places).set_axis(names, axis=1)


def read_columns(
    path: Path, columns: Iterable[str], small: Collection[str] = (), texts: Collection[str] = ()
) -> pd.DataFrame:
    """Read some columns of an unpacked data file as numbers.

    Parameters
    ----------
    path : Path
        As given by `raw.open_raw`.
    columns : iterable of str
        Official names; upper and lower case do not matter, since agencies change it between
        formats of one file.
    small : collection of str
        Those to hold in single precision (80 replicate weights of 3.4 million records).
    texts : collection of str
        Those that may hold text.

    Returns
    -------
    DataFrame
        The columns under the names asked for, float64 (float32 if `small`), blanks as NaN; of
        `texts`, those of which not all are numbers as categories, without the spaces around them.

    Raises
    ------
    EpidemiaError
        If a column is missing or not numeric, the file cannot be read or has no rows.
    """
    import pandas as pd

    wanted = list(dict.fromkeys(columns))
    every = raw_columns(path)
    present = {name.casefold(): name for name in every}
    if missing := [name for name in wanted if name.casefold() not in present]:
        hints = "; ".join(f"{name}: {suggest(name, present.values())}" for name in missing)
        raise EpidemiaError(f"{path.name} lacks column {', '.join(missing)} ({hints})")
    times = Counter(name.casefold() for name in every)
    if twice := [name for name in wanted if times[name.casefold()] > 1]:
        same = [name for name in every if name.casefold() == twice[0].casefold()]
        raise EpidemiaError(f"{path.name} has several columns {' and '.join(same)}: keep one")
    names = [present[name.casefold()] for name in wanted]
    suffix, dated = suffix_of(path.name), set[str]()
    with name_bad_file(path):
        if suffix == ".parquet":
            import pyarrow.parquet

            with pyarrow.parquet.ParquetFile(path) as file:
                table = file.read(columns=names)
                frame = pd.DataFrame({name: parquet_column(table[name]) for name in names})
        elif suffix == ".csv":
            folded = ({name.casefold() for name in some} for some in (small, texts))
            frame = _read_csv(path, every, names, *folded)
        elif FORMATS[suffix] is None:
            frame = read_untyped(path, names)
        else:
            # The transport reader cannot select columns.
            options = {} if suffix == ".xpt" else {"usecols": names}
            frame, told = read_labelled(path, **options)
            frame = frame[names]
            dated = {name for name in wanted if has_dates(told, present[name.casefold()])}
    frame.columns = pd.Index(wanted)
    if frame.empty:
        raise EpidemiaError(f"{path.name} has zero rows")
    for name in wanted:
        precision = np.float32 if name in small else np.float64
        if name in dated.difference(texts) or frame[name].dtype.kind in "mM":
            raise EpidemiaError(
                f"{path.name}: column {name} contains dates or times: export the file with codes"
            )
        if name in texts and frame[name].dtype.kind == "O":
            if (words := _words(frame[name])) is not None:
                frame[name] = words
                continue
            frame[name] = frame[name].where(~frame[name].isin(NO_NUMBERS))
        if frame[name].dtype != precision:
            numbers = convert_codes(frame[name], name, path.name)
            with np.errstate(over="ignore"):  # too large for single precision: infinite
                frame[name] = numbers.to_numpy(precision, na_value=np.nan)
        if name not in small:
            frame[name] = round_float32(frame[name].to_numpy())
        if (endless := np.isinf(frame[name].to_numpy())).any():
            fault = f"{path.name}: column {name} is infinite in {format_rows(endless)}"
            raise EpidemiaError(f"{fault}: use the official file")
    return frame


def _words(column: pd.Series) -> pd.Series | None:
    """Return a column of text as categories, blanks as NaN; None if all are numbers."""
    import pandas as pd

    # Millions of records have few distinct texts.
    numbers, distinct = pd.factorize(column)
    texts = pd.Series([str(text).strip() for text in distinct], dtype=object)
    if pd.to_numeric(texts[~texts.isin(NO_NUMBERS)], errors="coerce").notna().all():
        return None
    kinds, names = pd.factorize(texts.where(texts != ""))
    # One more place, which -1 (blank) finds.
    codes: NDArray[np.int64] = np.append(kinds, -1)[numbers]
    return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(names)), column.index)


def format_rows(where: NDArray[np.bool_]) -> str:
    """Name up to five rows, counting from 1 as a data viewer does."""
    rows = np.flatnonzero(where)
    shown = ", ".join(str(int(row) + 1) for row in rows[:5])
    return f"{len(rows)} rows: {shown}{', ...' if len(rows) > 5 else ''}"


def convert_codes(column: pd.Series, name: str, file: str) -> pd.Series:
    """Turn codes into numbers; '01' and ' 1' are codes, 'Male' is not."""
    import pandas as pd

    if column.dtype.kind in "biuf":
        return column
    column = pd.Series(column.tolist(), column.index)
    numbers = pd.to_numeric(column, errors="coerce")
    blank = column.isna() | column.map(lambda code: isinstance(code, str) and not code.strip())
    if (words := numbers.isna() & ~blank).any():
        raise EpidemiaError(
            f"{file}: column {name} contains text such as {column[words].iloc[0]!r} "
            f"({format_rows(words.to_numpy())}), expected numeric codes: export the file with codes"
        )
    return numbers


def stack_tables(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables with the same columns, emptying them column by column."""
    import pandas as pd

    if len(parts) == 1:
        return parts[0]
    return pd.DataFrame(
        {
            name: pd.concat([part.pop(name) for part in parts], ignore_index=True)
            for name in list(parts[0].columns)
        },
        copy=False,
    )


def read_grids(path: Path, rows: int | None = None) -> list[list[list[Any]]]:
    """Read a published table as it is printed: sheets of rows of cells (text, number or None).

    Only the first `rows`, if given: enough to see whether it is a table at all.
    """
    import pandas as pd

    suffix = suffix_of(path.name)
    with name_bad_file(path):
        if suffix in WORKBOOKS:
            book = pd.read_excel(path, sheet_name=None, header=None, dtype=object, nrows=rows)
            sheets = list(book.values())
        elif suffix == ".csv":
            sheets = [pd.read_csv(path, header=None, dtype=object, nrows=rows)]
        elif suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet

            with pyarrow.parquet.ParquetFile(path) as file:
                batches = islice(file.iter_batches(rows or BATCH), 1 if rows else None)
                table = pa.Table.from_batches(batches, file.schema_arrow)
            frame = table.to_pandas().astype(object)
            sheets = [pd.DataFrame([list(frame.columns), *frame.to_numpy().tolist()], dtype=object)]
        elif path.name == factbook.FILE:
            sheets = [pd.DataFrame(sheet[:rows], dtype=object) for sheet in factbook.sheets(path)]
        else:
            known = f".xlsx, .xls, .csv, .parquet or {factbook.FILE}"
            raise EpidemiaError(f"{path.name} is not a table (given {suffix}, expected {known})")
    return [sheet.where(sheet.notna(), None).to_numpy().tolist() for sheet in sheets]


#: Bytes of a csv file that are parsed at once, which no row may exceed.
BLOCK = 16 * 2**20

#: What programs write in place of a number that is not known. In a column of words each may be an
#: answer ("None") or a code ("NA" for Namibia), so there it is read as it stands.
_UNKNOWN = (
    "None <NA> NULL null NA #NA N/A n/a #N/A NaN nan -NaN -nan 1.#IND -1.#IND 1.#QNAN -1.#QNAN"
    " . - -- ?"
)
NO_NUMBERS = frozenset({"", "#N/A N/A", *_UNKNOWN.split()})


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


def head_of(path: Path) -> CsvHeader:
    """Read what stands above the people in a csv file or a workbook, without reading these."""
    if suffix_of(path.name) in WORKBOOKS:
        import pandas as pd

        # Without a header, since pandas would make two columns of one name differ.
        head = pd.read_excel(path, header=None, nrows=4, dtype=object)
        cells = [[str(cell) for cell in row] for row in head.where(head.notna(), "").to_numpy()]
        return find_platform_rows(cells) if cells else CsvHeader([], [])

    def first_rows(encoding: str) -> list[list[str]]:
        with path.open(encoding=encoding, errors="replace", newline="") as file:
            return list(islice(csv.reader(file), 4))

    rows = first_rows("utf-8-sig")
    if any("\ufffd" in name for row in rows for name in row):
        rows = first_rows(encoding_of(path))
    if not rows or not rows[0]:
        raise EpidemiaError(f"{path.name} is empty: expected column names in the first line")
    if any("\0" in name for name in rows[0]):
        raise EpidemiaError(f"{path.name} contains NUL bytes in its header: save it as UTF-8 text")
    if len(rows[0]) == 1 and (other := re.search(r"[;\t|]", rows[0][0])):
        raise EpidemiaError(f"{path.name} is separated by {other[0]!r}: save it with commas")
    found = find_platform_rows(rows)
    if len(rows) <= found.rows:
        raise EpidemiaError(f"{path.name} has zero rows")
    return found


def find_platform_rows(rows: list[list[str]]) -> CsvHeader:
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
        skip_rows_after_names=head_of(path).rows,
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


def parse_numbers(texts: Any, small: bool = False) -> NDArray[Any]:
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
