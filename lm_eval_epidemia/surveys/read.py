"""Raw survey files in every format agencies publish: one function, one DataFrame."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_epidemia.errors import EpidemiaError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

__all__ = ["FORMATS", "open_raw", "raw_columns", "read_columns"]

#: Suffix -> the pyreadstat function that reads it; None where pandas or pyarrow does.
FORMATS: dict[str, str | None] = {
    ".parquet": None,
    ".csv": None,
    ".dta": "read_dta",
    ".sav": "read_sav",
    ".xpt": "read_xport",
    ".sas7bdat": "read_sas7bdat",
}


@contextmanager
def open_raw(path: Path) -> Iterator[Path]:
    """Give the path of a readable data file, unpacking a zip archive for as long as needed.

    Parameters
    ----------
    path : Path
        A file in one of `FORMATS`, or a zip archive that holds exactly one such file.

    Raises
    ------
    EpidemiaError
        If there is no such file, the format is unknown, or the archive is damaged or ambiguous.
    """
    if not path.is_file():
        raise EpidemiaError(f"no file {path}")
    if path.suffix.lower() != ".zip":
        if path.suffix.lower() not in FORMATS:
            raise EpidemiaError(
                f"{path.name} is not in a known format (given {path.suffix or 'no suffix'}, "
                f"expected one of {', '.join([*FORMATS, '.zip'])})"
            )
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="epidemia-") as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                members = [
                    item
                    for item in archive.infolist()
                    if Path(item.filename).suffix.lower() in FORMATS and not item.is_dir()
                ]
                if len(members) != 1:
                    found = ", ".join(item.filename for item in members) or "none"
                    raise EpidemiaError(
                        f"{path.name} must hold exactly one data file ({', '.join(FORMATS)}); "
                        f"found {found}. Unpack it and give the file itself"
                    )
                member = Path(folder) / Path(members[0].filename).name
                with archive.open(members[0]) as packed, member.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
        except (zipfile.BadZipFile, EOFError, OSError) as error:
            raise EpidemiaError(
                f"{path.name} is not a whole zip archive ({error}): download it again"
            ) from None
        yield member


def _pyreadstat(path: Path, **options: Any) -> tuple[pd.DataFrame, Any]:
    try:
        import pyreadstat
    except ImportError:
        raise EpidemiaError(
            f"reading {path.suffix} files needs pyreadstat: pip install 'lm-eval-epidemia[build]'"
        ) from None
    reader = getattr(pyreadstat, FORMATS[path.suffix.lower()] or "")
    return reader(str(path), **options)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn whatever a reader raises on a damaged file into an error that names the file."""
    try:
        yield
    except EpidemiaError:
        raise
    except Exception as error:
        raise EpidemiaError(
            f"{path.name} cannot be read as {path.suffix.lower()} ({type(error).__name__}: {error})"
            ": it may be truncated or in another format; download it again"
        ) from error


def raw_columns(path: Path) -> list[str]:
    """Return the column names of an unpacked data file, as written there."""
    suffix = path.suffix.lower()
    with _naming(path):
        if suffix == ".parquet":
            import pyarrow.parquet

            return list(pyarrow.parquet.read_schema(path).names)
        if suffix == ".csv":
            import pandas as pd

            return list(pd.read_csv(path, nrows=0).columns)
        return list(_pyreadstat(path, metadataonly=True)[1].column_names)


def read_columns(path: Path, columns: Iterable[str]) -> pd.DataFrame:
    """Read some columns of an unpacked data file as numbers.

    Parameters
    ----------
    path : Path
        As given by `open_raw`.
    columns : iterable of str
        Official names; upper and lower case do not matter, since agencies change it between
        formats of one file.

    Returns
    -------
    DataFrame
        The columns under the names asked for, float64, blanks as NaN.

    Raises
    ------
    EpidemiaError
        If a column is missing or not numeric, the file cannot be read or has no rows.
    """
    import pandas as pd

    wanted = list(dict.fromkeys(columns))
    present = {name.casefold(): name for name in raw_columns(path)}
    if missing := [name for name in wanted if name.casefold() not in present]:
        hints = "; ".join(f"{name}: {nearest(name, present.values())}" for name in missing)
        raise EpidemiaError(f"{path.name} lacks column {', '.join(missing)} ({hints})")
    names = [present[name.casefold()] for name in wanted]
    suffix = path.suffix.lower()
    with _naming(path):
        if suffix == ".parquet":
            frame = pd.read_parquet(path, columns=names)
        elif suffix == ".csv":
            frame = pd.read_csv(path, usecols=names, low_memory=False)[names]
        elif suffix == ".xpt":
            # The transport reader cannot select columns.
            frame = _pyreadstat(path)[0][names]
        else:
            frame = _pyreadstat(path, usecols=names, apply_value_formats=False)[0][names]
    frame.columns = pd.Index(wanted)
    if frame.empty:
        raise EpidemiaError(f"{path.name} has zero rows")
    for name in wanted:
        numbers = pd.to_numeric(frame[name], errors="coerce")
        if (words := numbers.isna() & frame[name].notna()).any():
            rows = [int(row) + 1 for row in words.to_numpy().nonzero()[0][:5]]
            raise EpidemiaError(
                f"{path.name}: column {name} holds text where codes are expected, "
                f"for example {frame[name][words].iloc[0]!r} ({int(words.sum())} rows: "
                f"{', '.join(map(str, rows))}{', ...' if words.sum() > 5 else ''})"
            )
        frame[name] = numbers.astype("float64")
    return frame
