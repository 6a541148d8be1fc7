"""Read distributions from a published table, as an agency prints it.

A table is found in its workbook by the texts of its headers, wherever they are: agencies move
header rows from year to year, and add titles above and footnotes below.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import inf, isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys.raw import open_raw
from lm_eval_epidemia.surveys.read import read_grids, stem_of
from lm_eval_epidemia.surveys.record import Record, Vintage
from lm_eval_epidemia.surveys.variable import Level, TableLayout, normalise_text

Levels = Sequence[Level]

#: Published percentages are rounded: a remainder may be this far (in percent) below 0.
ROUNDING = 0.3

#: The headers of a table stand in its first rows.
HEAD = 40


class PublishedTable(NamedTuple):
    """A published distribution of one variable given another.

    Attributes
    ----------
    outcome : str
    given : tuple of str
        Variables of the record.
    levels : tuple of str, length K
    cells : tuple of tuple of str, length C
        Labels of the conditions in each row, in the order of their levels.
    weights : ndarray, shape (C,)
        Share of each row, summing to 1.
    p : ndarray, shape (C, K)
    n_eff : ndarray, shape (C,)
        From the published confidence interval; infinite if there is none.
    dropped : dict of str to int
        Rows left out, by reason.
    absent : tuple of str
        Levels of a single condition that the table has no row for.
    """

    outcome: str
    given: tuple[str, ...]
    levels: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    weights: NDArray[np.float64]
    p: NDArray[np.float64]
    n_eff: NDArray[np.float64]
    dropped: dict[str, int]
    absent: tuple[str, ...]


def _read_number(cell: Any) -> float:
    """Read a printed number; NaN for a dash or anything else that is not one."""
    try:
        return float(str(cell).replace(",", ""))
    except ValueError:
        return float("nan")


class _TablePlace(NamedTuple):
    """A table in its sheet: rows down to the headers, rows below, and which column is which."""

    head: list[list[Any]]
    rows: list[list[Any]]
    column: dict[str, int]

    @property
    def title(self) -> str:
        """The texts above the data: titles and headers."""
        return " ".join(str(cell) for row in self.head for cell in row if cell is not None)


def _find_table(
    grid: list[list[Any]], headers: dict[str, tuple[str, ...]], year: int | None = None
) -> _TablePlace | list[str]:
    """Find the table with these headers; else say which headers are missing.

    `headers` has, by the name we use, the spellings it may have. A header that stands several
    times (counts and then percentages) is the leftmost of those nearest the data. The data begin
    below the lowest header. In a file that is all of one year, this is a column of its own.
    """
    of_year = [n for n, texts in headers.items() if year and "year" in map(normalise_text, texts)]
    texts = [[normalise_text(cell) for cell in row] for row in grid]
    where: dict[str, list[tuple[int, int]]] = {}
    for name in (name for name in headers if name not in of_year):
        wanted = {*map(normalise_text, headers[name])}
        where[name] = [
            (r, c) for r, row in enumerate(texts) for c, text in enumerate(row) if text in wanted
        ]
    if missing := [name for name, places in where.items() if not places]:
        return missing
    # A row name can repeat a header's text ("Total" heads a column and names the first row), so
    # the headers are the first block in which all of them stand.
    bottom = max(places[0][0] for places in where.values())
    column = dict.fromkeys(of_year, len(grid[0]))
    for name, places in where.items():
        lowest = max(r for r, _ in places if r <= bottom)
        column[name] = min(c for r, c in places if r == lowest)
    rows = [[*row, year] for row in grid[bottom + 1 :]] if of_year else grid[bottom + 1 :]
    return _TablePlace(grid[: bottom + 1], rows, column)


def _together(places: Sequence[_TablePlace]) -> _TablePlace:
    """Put the rows of tables with the same headers one under the other."""
    names = list(places[0].column)
    rows = [[row[place.column[name]] for name in names] for place in places for row in place.rows]
    return _TablePlace([], rows, {name: n for n, name in enumerate(names)})


def _match(levels: Levels, cell: Any) -> int | None:
    """Return the number of the level that a row's name or code belongs to."""
    text, number = normalise_text(cell), _read_number(cell)
    for position, level in enumerate(levels):
        if text in map(normalise_text, level.names):
            return position
        if any(low <= number <= high for low, high in level.codes):
            return position
    return None


def _headers(record: Record, vintage: str, table: TableLayout) -> dict[str, tuple[str, ...]]:
    """List the headers of a table: of row names, of sizes, of every share, limit and filter."""
    headers = {f"rows {name}": spellings for name, spellings in table.rows.items()}
    headers |= {f"where {name}": (name,) for name in table.where}
    headers |= {f"within {name}": (name,) for name in table.within}
    if table.size:
        headers["size"] = table.size
    for level in record.readings(table.outcome, vintage)[0].levels:
        spellings = (table.shares[level.label],) if table.shares else level.names
        if "remainder" not in spellings:
            headers[f"share {level.label}"] = spellings
    if table.interval:
        headers["low"], headers["high"] = (table.interval[0],), (table.interval[1],)
    return headers


class _TableRow(NamedTuple):
    """One row of a table that belongs to a level of each condition."""

    name: str
    size: float
    shares: list[float]  # by level of the outcome, summing to 1 except for rounding
    limits: list[float]  # of the confidence interval of the first share, in percent


def _is_left_out(table: TableLayout, name: str) -> bool:
    """Tell whether a row is left out on purpose: by its text as printed or normalised."""
    texts = (" ".join(name.split()), normalise_text(name))
    return any(re.fullmatch(p, t, re.IGNORECASE) for p in table.leave_out for t in texts)


def _outside(table: TableLayout, cells: dict[str, Any]) -> str:
    """Say of the first column whose number is not where the table's rows have it; "" if none.

    A number that is not known is not there.
    """
    for header, (low, high) in table.within.items():
        if not low <= (value := _read_number(cells[f"within {header}"])) <= high:
            bounds = f"below {low:.9g}" if high == inf else f"not from {low:.9g} to {high:.9g}"
            return f"{header} " + ("not known" if isnan(value) else bounds)
    return ""


def _number_rows(
    table: TableLayout, outcome: Levels, given: Sequence[Levels], place: _TablePlace, file: str
) -> tuple[dict[tuple[int, ...], _TableRow], dict[str, int]]:
    """Read the rows of a table by the numbers of their levels; count what is left out and why."""
    rows: dict[tuple[int, ...], _TableRow] = {}
    dropped: Counter[str] = Counter()
    unknown = []
    for row in place.rows:
        cells = {header: row[column] for header, column in place.column.items()}
        names = [cells[f"rows {variable}"] for variable in table.given]
        name = ", ".join(" ".join(str(each).split()) for each in names)
        where = [(cells[f"where {header}"], text) for header, text in table.where.items()]
        other = any(normalise_text(cell) != normalise_text(text) for cell, text in where)
        printed = {
            level.label: _read_number(cells[f"share {level.label}"])
            for level in outcome
            if f"share {level.label}" in cells
        }
        size = _read_number(cells["size"]) if table.size else 1.0
        blank = np.isnan([size, *printed.values()])
        if not all(map(normalise_text, names)) or other or blank.all():
            continue  # an empty line, a footnote, or a row about something else
        matched = [_match(levels, each) for levels, each in zip(given, names, strict=True)]
        number = tuple(n for n in matched if n is not None)
        outside = _outside(table, cells)
        if len(number) < len(given) and any(_is_left_out(table, str(each)) for each in names):
            dropped["left out on purpose (headings, totals, other)"] += 1
        elif outside and not (blank.any() and outside.endswith("not known")):
            dropped[outside] += 1
        elif blank.any():
            dropped["no figures published"] += 1
        elif len(number) < len(given):
            unknown.append(name)
        elif number in rows:
            label = ", ".join(_labels(given, number))
            raise EpidemiaError(f"{file}: {rows[number].name!r} and {name!r} are both {label!r}")
        else:
            # A level without a column gets what the others leave.
            total = sum(printed.values())
            whole = 100.0 if table.unit == "percent" else total
            shares = [printed.get(level.label, whole - total) / whole for level in outcome]
            if min(shares) < -ROUNDING / 100 or abs(sum(shares) - 1) > 1e-9:
                raise EpidemiaError(f"{file}: {name!r} has no distribution: {printed}")
            limits = [_read_number(cells[limit]) for limit in ("low", "high") if table.interval]
            rows[number] = _TableRow(name, size, shares, limits)
    if unknown:
        raise EpidemiaError(
            f"{file} has {len(unknown)} rows that the record does not list, "
            f"for example {', '.join(map(repr, unknown[:5]))}: give the file of another vintage, "
            f"or add them as levels of {', '.join(table.given)} or to 'leave_out'"
        )
    if not rows:
        fault = f"{file}: no row of the table matches a level of {', '.join(table.given)}"
        raise EpidemiaError(f"{fault}: expected names such as {given[0][0].label!r}")
    return dict(sorted(rows.items())), dict(dropped)


def _labels(given: Sequence[Levels], numbers: Sequence[int]) -> tuple[str, ...]:
    """Return the labels of the conditions of a row."""
    return tuple(levels[n].label for levels, n in zip(given, numbers, strict=True))


def _read_table(
    record: Record, vintage: str, table: TableLayout, place: _TablePlace, file: str
) -> PublishedTable:
    """Put the rows of a table together."""
    given = [record.readings(name, vintage)[0].levels for name in table.given]
    outcome = record.readings(table.outcome, vintage)[0].levels
    rows, dropped = _number_rows(table, outcome, given, place, file)
    numbers = list(rows)

    def check_positive(values: NDArray[np.float64], fault: str) -> None:
        if not (values > 0).all():
            bad = ", ".join(_labels(given, numbers[int(np.argmin(np.nan_to_num(values)))]))
            raise EpidemiaError(f"{file}: the row {bad!r} has {fault.format(values.min())}")

    weights = np.array([row.size for row in rows.values()])
    total = None if table.total is None else _match(given[0], table.total)
    if total is not None and (total,) in rows:
        # The grand total stands for what no other row covers, so that everybody counts once.
        at = numbers.index((total,))
        weights[at] -= weights.sum() - weights[at]
    check_positive(weights, "a size of {:g}")
    p = np.clip([row.shares for row in rows.values()], 0, None)
    p = p / p.sum(axis=1, keepdims=True)
    n_eff = np.full(len(rows), np.inf)
    if table.interval:
        # A 95 % interval is 2 x 1.96 standard errors wide; se^2 = p (1 - p) / n_eff.
        width = np.array([row.limits[1] - row.limits[0] for row in rows.values()]) / 100
        check_positive(width, "no confidence interval")
        n_eff = p[:, 0] * (1 - p[:, 0]) / (width / 3.92) ** 2
    single = given[0] if len(given) == 1 else ()
    return PublishedTable(
        outcome=table.outcome,
        given=table.given,
        levels=tuple(level.label for level in outcome),
        cells=tuple(_labels(given, number) for number in numbers),
        weights=weights / weights.sum(),
        p=p,
        n_eff=n_eff,
        dropped=dropped,
        absent=tuple(level.label for n, level in enumerate(single) if (n,) not in rows),
    )


def _years(text: str, entry: Vintage) -> bool:
    """Tell whether a text names a vintage: by its year, or as its period is said."""
    named = re.search(rf"(?<!\d){entry.year}(?!\d)", text)
    return bool(named or (entry.period and entry.period in text))


def tables_vintage(record: Record, paths: Sequence[Path], given: str | None) -> str | None:
    """Determine the vintage of published tables; None if the files are not tables.

    By the year printed above the table, else in the file's name.
    """
    candidates = [name for name, entry in record.vintages.items() if entry.tables]
    if given is not None or not candidates:
        return given if given in candidates else None
    if len(record.vintages) == 1:
        return candidates[0]
    # Microdata, unless the files have the tables' headers; published tables are not packed.
    may_be_microdata = len(candidates) < len(record.vintages)
    if may_be_microdata and any(path.suffix.strip().lower() == ".zip" for path in paths):
        return None
    with open_raw(paths, record.expected_files) as files:
        names = [path.name for path in (*paths, *files)]
        try:
            grids = [grid for file in files for grid in read_grids(file, HEAD)]
        except EpidemiaError:
            if may_be_microdata:
                return None
            raise
    headers = [_headers(record, candidates[0], t) for t in record.vintages[candidates[0]].tables]
    places = [_find_table(grid, of_table) for grid in grids for of_table in headers]
    titles = [place.title for place in places if isinstance(place, _TablePlace)]
    if may_be_microdata and not titles:
        return None
    if len(candidates) == 1:
        return candidates[0]
    for text in (" ".join(titles), " ".join(names)):
        if len(named := [v for v in candidates if _years(text, record.vintages[v])]) == 1:
            return named[0]
    fault = f"cannot tell which vintage of {record.survey} {names[0]} is"
    raise EpidemiaError(f"{fault}: give --vintage {' or '.join(candidates)}")


def load_tables(record: Record, paths: Sequence[Path], vintage: str) -> list[PublishedTable]:
    """Read the published tables of a vintage.

    Parameters
    ----------
    record : Record
    paths : sequence of Path
        Workbooks (.xlsx, .xls) as published, or the same columns as .csv or .parquet.
    vintage : str

    Returns
    -------
    list of PublishedTable

    Raises
    ------
    EpidemiaError
        If a table, a header or a row is not as the record says.
    """
    entry, tables = record.vintages[vintage], []
    with open_raw(paths, record.expected_files) as files:
        years = _years_of(entry, [file.name for file in files])
        grids = {file.name: read_grids(file) for file in files}
        for table in entry.tables:
            chosen = [name for name in grids if table.file.casefold() in name.casefold()] or grids
            sources = [[name] for name in chosen] if years else [[*chosen]]
            places = {}
            for source in sources:
                sheets = {name: grids[name] for name in source}
                file, place = _locate(record, vintage, table, sheets, years)
                _check_year(record, vintage, place, file, years.get(file))
                places[file] = place
            together, names = _together([*places.values()]), ", ".join(places)
            tables.append(_read_table(record, vintage, table, together, names))
    return tables


def _years_of(entry: Vintage, names: Sequence[str]) -> dict[str, int]:
    """Tell the year of each file where the vintage has one per year; all must be there."""
    years = {stem: file.year for file in entry.files for stem in file.stems if file.year}
    of_names = {name: years.get(stem_of(name)) for name in names}
    if years and sorted(map(str, of_names.values())) != sorted(str(f.year) for f in entry.files):
        fault = f"given {', '.join(names)}, expected {entry.needed}"
        raise EpidemiaError(f"{fault}: one file per year, with these names, from {entry.page}")
    return {name: year for name, year in of_names.items() if year}


def _locate(
    record: Record,
    vintage: str,
    table: TableLayout,
    grids: dict[str, list[list[list[Any]]]],
    years: dict[str, int],
) -> tuple[str, _TablePlace]:
    """Find the sheet that has a table's headers; otherwise say which headers are missing."""
    entry, headers = record.vintages[vintage], _headers(record, vintage, table)
    missing: list[str] = []
    for file, sheets in grids.items():
        for grid in sheets:
            place = _find_table(grid, headers, years.get(file))
            if isinstance(place, _TablePlace):
                return file, place
            missing = place
    lacking = "; ".join(" or ".join(headers[name]) for name in missing)
    fault = f"{', '.join(grids)} has no table of {table.said} (it lacks the header {lacking})"
    raise EpidemiaError(f"{fault}: give {entry.needed} ({entry.page})")


def _check_year(
    record: Record, vintage: str, place: _TablePlace, file: str, year: int | None
) -> None:
    """Refuse a table of another year: as printed above it, else in a column, else in its name.

    The year is that of the vintage, if the file has none of its own.
    """
    own = record.vintages[vintage]
    columns = [n for n, header in enumerate(place.head[-1]) if normalise_text(header) == "year"]
    column = " ".join(dict.fromkeys(normalise_text(row[n]) for row in place.rows for n in columns))
    for head in (place.title, column, file):
        if printed := re.findall(r"(?<![\d,.])(?:19|20)\d\d(?:-\d\d)?(?!\d)", head):
            break
    said = str(year) if year else own.said
    if not printed or said in printed:
        return
    for name, entry in record.vintages.items():
        if not year and entry.tables and _years(head, entry):
            fault = f"{file} is the table of {record.survey} {name}, not {vintage}"
            raise EpidemiaError(f"{fault}: give --vintage {name}, or the {vintage} file")
    raise EpidemiaError(
        f"{file} is a table of {', '.join(dict.fromkeys(printed))}, not {said}: give the file of "
        f"{said}, or add a vintage to the record of {record.survey}"
    )
