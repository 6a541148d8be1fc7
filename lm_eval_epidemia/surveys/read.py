"""Raw survey files in every format agencies publish: one function per kind of content.

`open_raw` finds the data files in the user's paths (files, folders, archives); `read_columns` reads
columns of microdata as numbers, `read_grids` the sheets of a workbook as printed.
"""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.core.extras import install
from lm_eval_epidemia.core.paths import sha256_of
from lm_eval_epidemia.surveys import factbook
from lm_eval_epidemia.surveys.csv_text import (
    BLANKS,
    NO_NUMBERS,
    CsvHeader,
    csv_batches,
    header,
    of_platform,
    parsed,
)

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

#: An archive that unpacks to more than this, or that is packed more tightly, is refused. The
#: largest official one (ACS, both halves of the nation) unpacks to 3 GiB, packed 6 times.
MAX_UNPACKED = 20 * 2**30
MAX_RATIO = 200
SMALL = 50 * 2**20

#: What readers raise on a file that is cut off or not what its name says; anything else is a file
#: that they do not understand.
_DAMAGED = "ReadstatError ArrowInvalid OSError BadZipFile EOFError XLRDError CompDocError error"

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


def _is_data(name: str) -> bool:
    """Tell whether a file may hold data: by its format, or as the Factbook by its name."""
    return suffix_of(name) in FORMATS or name == factbook.FILE


def _stem(name: str) -> str:
    return Path(name.strip()).stem.casefold()


def _unpack(path: Path, expected: Collection[str], folder: Path) -> list[Path]:
    """Unpack the data files of an archive, under their bare names, into `folder`."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(path.name, archive, expected)
            setups = [item for item in archive.infolist() if suffix_of(item.filename) == SETUP]
            wanted = members + [item for item in setups if not item.is_dir()]
            unpacked = sum(item.file_size for item in wanted)
            packed = max(sum(item.compress_size for item in wanted), 1)
            if unpacked > MAX_UNPACKED or (unpacked > SMALL and unpacked / packed > MAX_RATIO):
                raise EpidemiaError(
                    f"{path.name} would unpack to {unpacked / 2**30:.1f} GiB, "
                    f"{unpacked / packed:.0f} times its size, too large for a survey file: "
                    "download it again"
                )
            # Only bare names are used, so that nothing lands outside the folder.
            targets = [folder / Path(item.filename.strip()).name for item in wanted]
            for item, target in zip(wanted, targets, strict=True):
                if target.exists():
                    raise EpidemiaError(
                        f"{path.name} contains two files called {target.name}: unpack it and give "
                        "the right one"
                    )
                with archive.open(item) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
            return targets[: len(members)]
    except (NotImplementedError, RuntimeError) as error:
        raise EpidemiaError(
            f"{path.name} uses a compression that cannot be read here ({error}): unpack it with "
            "another program and give the file itself"
        ) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise EpidemiaError(
                f"{path.name} cannot be unpacked in {tempfile.gettempdir()} ({error}): free some "
                "space there, or set TMPDIR to a folder with more"
            ) from None
        raise EpidemiaError(
            f"{path.name} is not a complete zip archive ({error}): download it again"
        ) from None


def _members(
    name: str, archive: zipfile.ZipFile, expected: Collection[str]
) -> list[zipfile.ZipInfo]:
    """Choose the data files of an archive: those of official names, or the only one."""
    inside = [item for item in archive.infolist() if not item.is_dir()]
    members = [item for item in inside if suffix_of(item.filename) in FORMATS]
    official = [item for item in members if _stem(item.filename) in expected]
    if len(members) != 1 and not official:
        raise EpidemiaError(
            f"{name} must contain exactly one data file ({', '.join(FORMATS)}); found "
            f"{', '.join(item.filename for item in members) or 'none'}. Unpack it and give the "
            "file itself"
        )
    return official or members


def _lay_beside(folder: Path, files: Iterable[Path]) -> None:
    """Put the agency's statements where the ASCII file they belong to was unpacked."""
    for file in files:
        if suffix_of(file.name) == SETUP and not (folder / file.name).exists():
            (folder / file.name).symlink_to(file.resolve())


def _once(files: list[Path]) -> list[Path]:
    """Take a file that lies there packed and unpacked once; refuse two of one name otherwise."""
    names: dict[str, Path] = {}
    for file in files:
        name = file.name.strip().casefold()
        if (other := names.get(name)) is None:
            names[name] = file
        elif file.stat().st_size != other.stat().st_size or sha256_of(file) != sha256_of(other):
            raise EpidemiaError(
                f"two different files are called {file.name.strip()}: give only one"
            )
    stems = [Path(name).stem for name in names]
    if twice := sorted({stem for stem in stems if stems.count(stem) > 1}):
        raise EpidemiaError(f"{twice[0]} exists in several formats: give only one")
    return list(names.values())


def raw_files(paths: Sequence[Path], expected: Collection[str] = ()) -> list[Path]:
    """Replace folders by the survey's files in them.

    Parameters
    ----------
    paths : sequence of Path
        Files or folders.
    expected : collection of str
        Names of the survey's official files, lower case, without suffix.

    Raises
    ------
    EpidemiaError
        If a path does not exist or cannot be read, or a folder contains none of the files.
    """
    files: list[Path] = []
    for path in paths:
        try:
            here = _files_in(path, expected) if path.is_dir() else [path]
            for file in here:
                if not file.exists():
                    raise EpidemiaError(f"no file {file}")
                if not file.is_file():
                    raise EpidemiaError(
                        f"{file} is a folder, a pipe or a device: give a regular file"
                    )
                with file.open("rb") as opened:
                    opened.read(1)
        except OSError as error:
            raise EpidemiaError(f"{path} cannot be read: {error.strerror or error}") from None
        files += here
    return files


def _files_in(folder: Path, expected: Collection[str]) -> list[Path]:
    named = [file for file in sorted(folder.iterdir()) if _stem(file.name) in expected]
    if files := [file for file in named if _is_data(file.name) or suffix_of(file.name) == ".zip"]:
        return files
    raise EpidemiaError(
        f"the folder {folder} contains none of the survey's files: expected "
        f"{', '.join(sorted(expected))}, packed or not; give a file of another name by itself, "
        "--raw FILE"
    )


@contextmanager
def open_raw(paths: Sequence[Path], expected: Collection[str] = ()) -> Iterator[list[Path]]:
    """Yield readable data files for some paths; archives are unpacked while the block runs.

    Parameters
    ----------
    paths : sequence of Path
        Files in one of `FORMATS`, zip archives of such files, or folders.
    expected : collection of str
        Names of the survey's official files, lower case, without suffix: which files of a folder
        or archive to take.

    Raises
    ------
    EpidemiaError
        If there is no such file, a format is unknown, or an archive is damaged or ambiguous.
    """
    files = raw_files(paths, expected)
    data: list[Path] = []
    statements = [path for path in files if suffix_of(path.name) == SETUP]
    with tempfile.TemporaryDirectory(prefix="epidemia-") as folder:
        for number, path in enumerate(files):
            suffix, own = suffix_of(path.name), Path(folder) / str(number)
            if not _is_data(path.name) and suffix not in (".zip", SETUP):
                raise EpidemiaError(
                    f"{path.name} is not in a known format (given {path.suffix or 'no suffix'}, "
                    f"expected one of {', '.join([*FORMATS, '.zip'])})"
                )
            own.mkdir()
            here = [path] if _is_data(path.name) else []
            if suffix == ".zip":
                here = _unpack(path, expected, own)
            elif suffix == ".dat":
                here = [own / path.name]
                here[0].symlink_to(path.resolve())
            if any(suffix_of(file.name) == ".dat" for file in here):
                _lay_beside(own, [*statements, *path.parent.iterdir()])
            data += here
        data = _once(data)
        if not data:
            raise EpidemiaError(
                f"no data file among {', '.join(path.name for path in paths)}: expected one of "
                f"{', '.join([*FORMATS, '.zip'])}"
            )
        yield data


def read_labelled(path: Path, **options: Any) -> tuple[pd.DataFrame, Any]:
    """Read an SPSS, Stata or SAS file, and what it says of its columns.

    Parameters
    ----------
    path : Path
        As given by `open_raw`.
    **options
        Of pyreadstat's function for the format. Without ``encoding``, what is not in the encoding
        that the file claims is read as Western European.

    Returns
    -------
    DataFrame, pyreadstat's metadata
    """
    try:
        import pyreadstat
    except ImportError:
        raise EpidemiaError(
            f"reading {path.suffix} files needs pyreadstat: {install('build')}"
        ) from None
    if suffix_of(path.name) == ".xpt" and path.stat().st_size % 80:
        # Transport files consist of 80-byte records; the reader takes a cut one for a short one.
        raise EpidemiaError(
            f"{path.name} is incomplete (its size is not a multiple of 80 bytes): download it again"
        )
    reader = getattr(pyreadstat, FORMATS[suffix_of(path.name)] or "")
    # One date beyond the year 9999, in whatever column, would make all of them unreadable.
    options["disable_datetime_conversion"] = True
    try:
        return reader(str(path), **options)
    except (UnicodeDecodeError, pyreadstat.ReadstatError) as error:
        # Some agencies write labels in a Western European encoding and call it UTF-8.
        if "encoding" in options or (
            "decode" not in str(error) and "invalid byte" not in str(error)
        ):
            raise
        return reader(str(path), encoding="LATIN1", **options)


def has_dates(told: Any, column: str) -> bool:
    """Tell whether a column of a labelled file holds dates or times, from what the file says."""
    return bool(_DATES.fullmatch(told.original_variable_types.get(column) or ""))


def as_meant(values: NDArray[np.float64]) -> NDArray[np.float64]:
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
def naming(path: Path) -> Iterator[None]:
    """Turn any exception of a reader on a damaged file into an error that names the file."""
    try:
        yield
    except EpidemiaError:
        raise
    except ImportError as error:
        # pandas names the missing module only in the error that caused its own.
        cause = error.__cause__ or error.__context__
        name = error.name or getattr(cause, "name", None) or str(error)
        raise EpidemiaError(
            f"reading {path.suffix} files needs {name}: {install('build')}"
        ) from None
    except Exception as error:
        # A reader may quote what it could not read: several lines of it, or control characters.
        text = "".join(c if c.isprintable() else "?" for c in " ".join(str(error).split()))
        kind = type(error).__name__
        way_out = (
            "it may be truncated or in another format; download it again"
            if kind in _DAMAGED.split() and suffix_of(path.name) != ".csv"
            else "save it anew with the program that it comes from, if need be in another format"
        )
        raise EpidemiaError(
            f"{path.name} cannot be read as {suffix_of(path.name)} ({kind}: {text}): {way_out}"
        ) from error


#: ``int AGE53X 135-136`` after infix (Stata), ``@135 AGE53X 2.0`` (SAS), positions from 1.
_INFIX = re.compile(r"\binfix\b(.*?)\busing\b", re.DOTALL | re.IGNORECASE)
_STATA = re.compile(r"\b(?:byte|int|long|float|double|str\d*)\s+(\w+)\s+(\d+)(?:\s*-\s*(\d+))?")
_SAS = re.compile(r"@\s*(\d+)\s+(\w+)\s+\$?\s*(\d+)(?:\.\d*)?")


def _positions(path: Path) -> dict[str, tuple[int, int]]:
    """Find where an ASCII file's columns are: half-open, from 0, as its statements say."""
    positions: dict[str, tuple[int, int]] = {}
    for setup in sorted(path.parent.iterdir()):
        if suffix_of(setup.name) != SETUP or not _stem(setup.name).startswith(_stem(path.name)):
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
            f"statements next to it (for example {_stem(path.name)}stu.txt)"
        )
    return positions


def raw_columns(path: Path) -> list[str]:
    """Return the column names of an unpacked data file, as written there."""
    suffix = suffix_of(path.name)
    with naming(path):
        if suffix == ".parquet":
            import pyarrow.parquet

            return list(pyarrow.parquet.read_schema(path).names)
        if suffix in (".csv", *WORKBOOKS):
            names = head_of(path).names
            if len(names) == 1 and (other := re.search(r"[;\t|]", names[0])):
                raise EpidemiaError(
                    f"{path.name} is separated by {other[0]!r}, expected ',': save it with commas"
                )
            return names
        if suffix == ".dat":
            return list(_positions(path))
        return list(read_labelled(path, metadataonly=True)[1].column_names)


def head_of(path: Path) -> CsvHeader:
    """Read what stands above the people in a csv file or a workbook, without reading these."""
    import pandas as pd

    if suffix_of(path.name) not in WORKBOOKS:
        return header(path)
    # Without a header, since pandas would make two columns of one name differ.
    rows = pd.read_excel(path, header=None, nrows=4, dtype=object)
    cells = [[str(cell) for cell in row] for row in rows.where(rows.notna(), "").to_numpy()]
    return of_platform(cells) if cells else CsvHeader([], [])


def _read_csv(
    path: Path, every: list[str], names: list[str], small: set[str], texts: set[str]
) -> pd.DataFrame:
    """Read the columns called `names` of a csv file whose header is `every`."""
    import pandas as pd

    def held(name: str, column: Any) -> Any:
        if name.casefold() in texts:
            return column.dictionary_encode().to_pandas()
        return parsed(column, name.casefold() in small)

    places = [every.index(name) for name in names]
    parts = [
        pd.DataFrame(dict(zip(names, map(held, names, batch.columns), strict=True)), copy=False)
        for batch in csv_batches(path, places, len(every), bool(texts))
    ]
    return stacked(parts) if parts else pd.DataFrame(columns=names)


def untyped(path: Path, names: list[str]) -> pd.DataFrame:
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
        As given by `open_raw`.
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
        hints = "; ".join(f"{name}: {nearest(name, present.values())}" for name in missing)
        raise EpidemiaError(f"{path.name} lacks column {', '.join(missing)} ({hints})")
    times = Counter(name.casefold() for name in every)
    if twice := [name for name in wanted if times[name.casefold()] > 1]:
        same = [name for name in every if name.casefold() == twice[0].casefold()]
        raise EpidemiaError(
            f"{path.name} has {len(same)} columns called {' and '.join(same)}: keep only the "
            "right one"
        )
    names = [present[name.casefold()] for name in wanted]
    suffix = suffix_of(path.name)
    with naming(path):
        if suffix == ".parquet":
            import pyarrow.parquet

            with pyarrow.parquet.ParquetFile(path) as file:
                table = file.read(columns=names)
                frame = pd.DataFrame({name: parquet_column(table[name]) for name in names})
        elif suffix == ".csv":
            folded = ({name.casefold() for name in some} for some in (small, texts))
            frame = _read_csv(path, every, names, *folded)
        elif FORMATS[suffix] is None:
            frame = untyped(path, names)
        else:
            # The transport reader cannot select columns.
            options = {} if suffix == ".xpt" else {"usecols": names}
            frame, told = read_labelled(path, **options)
            frame = frame[names]
            for name, column in zip(wanted, names, strict=True):
                if has_dates(told, column) and name not in texts:
                    raise EpidemiaError(
                        f"{path.name}: column {name} contains dates or times, expected numeric "
                        "codes: export the file with codes"
                    )
    frame.columns = pd.Index(wanted)
    if frame.empty:
        raise EpidemiaError(f"{path.name} has zero rows")
    for name in wanted:
        precision = np.float32 if name in small else np.float64
        if name in texts and frame[name].dtype.kind == "O":
            if (words := _words(frame[name])) is not None:
                frame[name] = words
                continue
            frame[name] = frame[name].where(~frame[name].isin(NO_NUMBERS))
        if frame[name].dtype != precision:
            numbers = _numbers(frame[name], name, path)
            with np.errstate(over="ignore"):  # too large for single precision: infinite
                frame[name] = numbers.to_numpy(precision, na_value=np.nan)
        if name not in small:
            frame[name] = as_meant(frame[name].to_numpy())
        if (endless := np.isinf(frame[name].to_numpy())).any():
            raise EpidemiaError(
                f"{path.name}: column {name} is infinite in {rows_said(endless)}; the file was "
                "damaged or badly converted; use the official one"
            )
    return frame


def _words(column: pd.Series) -> pd.Series | None:
    """Return a column of text as categories, blanks as NaN; None if all are numbers."""
    import pandas as pd

    # Millions of records have few distinct texts.
    numbers, distinct = pd.factorize(column)
    texts = pd.Series([str(text).strip() for text in distinct], dtype=object)
    if pd.to_numeric(texts[~texts.isin(NO_NUMBERS)], errors="coerce").notna().all():
        return None
    kinds, names = pd.factorize(texts.where(~texts.isin(BLANKS)))
    # One more place, which -1 (blank) finds.
    codes: NDArray[np.int64] = np.append(kinds, -1)[numbers]
    return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(names)), column.index)


def rows_said(where: NDArray[np.bool_]) -> str:
    """Name up to five rows, counting from 1 as a data viewer does."""
    rows = np.flatnonzero(where)
    shown = ", ".join(str(int(row) + 1) for row in rows[:5])
    return f"{len(rows)} rows: {shown}{', ...' if len(rows) > 5 else ''}"


def _numbers(column: pd.Series, name: str, path: Path) -> pd.Series:
    """Turn codes into numbers; '01' and ' 1' are codes, 'Male' is not."""
    import pandas as pd

    if column.dtype.kind in "mM":  # pandas would count nanoseconds
        raise EpidemiaError(
            f"{path.name}: column {name} contains dates such as {column.iloc[0]}, expected "
            "numeric codes: export the file with codes"
        )
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = pd.Series(column.tolist(), column.index)
    numbers = pd.to_numeric(column, errors="coerce")
    blank = column.isna() | column.map(lambda code: isinstance(code, str) and not code.strip())
    if (words := numbers.isna() & ~blank).any():
        raise EpidemiaError(
            f"{path.name}: column {name} contains text such as {column[words].iloc[0]!r} "
            f"({rows_said(words.to_numpy())}), expected numeric codes: export the file with "
            "codes, not value labels"
        )
    return numbers


def stacked(parts: list[pd.DataFrame]) -> pd.DataFrame:
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
    with naming(path):
        if suffix in WORKBOOKS:
            book = pd.read_excel(path, sheet_name=None, header=None, dtype=object, nrows=rows)
            sheets = list(book.values())
        elif suffix == ".csv":
            header(path)
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
            raise EpidemiaError(
                f"{path.name} is not a table (given {suffix}, expected .xlsx, .xls, .csv, .parquet "
                f"or {factbook.FILE})"
            )
    return [sheet.where(sheet.notna(), None).to_numpy().tolist() for sheet in sheets]
