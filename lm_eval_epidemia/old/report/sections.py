"""Write any finding: as a table for people, as tidy rows and JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.benchmarks.prior.metrics import worth_in_words
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Number
from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.score.estimates import Estimate


class Section(NamedTuple):
    """One table of the report.

    Attributes
    ----------
    title : str
    columns : tuple of str
        The first names the model (or pair); the rest are texts, most of them numbers.
    rows : list of list of str
    note : str
        How to read it.
    named : int
        Number of columns that identify a row.
    kind : str
        Its name in ``--section KIND``.
    muted : tuple of int
        Numbers of grey rows.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    note: str = ""
    named: int = 1
    kind: str = ""
    muted: tuple[int, ...] = ()


#: A number with its error, or one without.
_Number = Number | Estimate


def with_error(number: _Number, spec: str, least: float = -1.0) -> str:
    """Write a number with its standard error: ``54.8 ± 1.2``; nothing for NaN.

    Parameters
    ----------
    number : Number or Estimate
    spec : str
        Format: ``.1f``, or ``+.1f`` with a sign.
    least : float
        Errors up to this size, and unknown ones (NaN), are not written.
    """
    if math.isnan(number.value):
        return ""
    error = f" ± {number.error:{spec.lstrip('+')}}" if number.error > least else ""
    return f"{number.value:{spec}}{error}"


def _with_interval(number: _Number, spec: str, least: float) -> str:
    known = number.error > least and _range(number, spec)
    return f"{number.value:{spec}}" + (f" ({known})" if known else "")


def _range(number: _Number, spec: str, least: float = -1.0) -> str:
    low, high = number.interval
    return "" if math.isnan(low) else f"{low:{spec}} to {high:{spec}}"


def _counted(number: _Number, spec: str, least: float) -> str:
    return f"{with_error(number, spec, least)} ({_size(number)})"


def _size(number: _Number) -> int:
    return number.samples if isinstance(number, Estimate) else number.tasks


#: What is written of a number that is known, by `Column.form`.
FORMS: dict[str, Callable[[_Number, str, float], str]] = {
    "error": with_error,
    "interval": _with_interval,
    "range": _range,
    "counted": _counted,
    "plain": lambda number, spec, least: f"{number.value:{spec}}",
    "worth": lambda number, spec, least: worth_in_words(number.value),
}


def _parts(cell: Cell) -> Sequence[Cell]:
    """Join texts for one cell."""
    return cell if isinstance(cell, tuple) and not isinstance(cell, _Number) else (cell,)


def written(cell: Cell, column: Column, group: str = "") -> str:
    """Write the cell of a column, for a row of a group."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, int):
        return f"{cell:,}"
    if not isinstance(cell, float | _Number):
        return " ".join(filter(None, (written(part, column, group) for part in cell)))
    number = Number(cell) if isinstance(cell, float) else cell
    if math.isnan(number.value):
        return column.nan.format(_size(number))
    digits = groups()[group].digits if column.digits is None else column.digits
    if column.no_minus_zero:
        number = number._replace(value=round(number.value, digits) + 0)
    spec = f"{'+' * column.signed}.{digits}f"
    return FORMS[column.form](number, spec, column.least) + column.unit


def printed(finding: Finding, long: bool = False) -> Section:
    """Return a finding as a table for people, with long rows and columns if requested."""
    rows = [row for row in finding.rows if long or not row.long]
    declared = {column.name: column for column in finding.columns}
    columns = [
        declared[name]
        for place, name in enumerate(finding.shown or declared)
        if (long or not declared[name].long)
        and (place < finding.leading or any(name in row.cells for row in rows))
    ]
    cells = [[row.cell(column.name) for column in columns] for row in rows]
    silent = any(
        isinstance(part, _Number) and part.error <= column.least
        for line in cells
        for cell, column in zip(line, columns, strict=True)
        for part in _parts(cell)
    )
    return Section(
        finding.title,
        tuple(column.title or column.name for column in columns),
        [
            [written(cell, column, row.group) for cell, column in zip(line, columns, strict=True)]
            for row, line in zip(rows, cells, strict=True)
        ],
        finding.note + finding.silent * silent,
        finding.leading,
        finding.kind,
        tuple(number for number, row in enumerate(rows) if row.muted),
    )


def tidy(finding: Finding) -> list[dict[str, Any]]:
    """Return the numbers of a finding as rows of one tidy table, see `output.as_rows`."""
    rows = []
    entries = {id(row.entry): row.entry for row in finding.rows}
    of_entry = {key: _of_entry(entry) for key, entry in entries.items()}
    for row in finding.rows:
        primary = groups()[row.group].leading if row.group else ""
        for column in finding.columns:
            cell = row.cell(column.name)
            if column.metric is None or cell is None:
                continue
            metric = row.metrics.get(column.name, column.metric)
            assert isinstance(cell, int | float | _Number)
            number = Number(float(cell)) if isinstance(cell, int | float) else cell
            known: dict[str, Any] = {"stderr": number.error}
            known["low"], known["high"] = number.interval
            if isinstance(number, Number):
                known |= {"tasks": number.tasks or math.nan, "verdict": number.verdict}
            rows.append(
                {
                    **_NOTHING,
                    "kind": finding.kind,
                    **of_entry[id(row.entry)],
                    "group": row.group,
                    "name": " / ".join(filter(None, (row.name, column.name * column.named))),
                    "metric": metric.format(primary=primary) or primary,
                    "value": number.value,
                    **known,
                    **row.facts,
                }
            )
    return rows


#: The columns of tidy rows, and what stands in them where they do not apply.
_NOTHING: dict[str, Any] = {
    "kind": "",
    "model": "",
    "protocol": "",
    "chat_template": "",
    "parameters": math.nan,
    "reference": False,
    "group": "",
    "name": "",
    "metric": "",
    "value": math.nan,
    "stderr": math.nan,
    "tasks": math.nan,
    "rank_best": math.nan,
    "rank_worst": math.nan,
    "verdict": "",
    "rank_tasks": math.nan,
    "low": math.nan,
    "high": math.nan,
    "outcomes": math.nan,
    "half_width": math.nan,
    "l1_ratio": math.nan,
    "l1_ratio_low": math.nan,
    "l1_ratio_high": math.nan,
    "corrected": math.nan,
    "corrected_stderr": math.nan,
    "wins": math.nan,
    "ties": math.nan,
    "losses": math.nan,
}


def _of_entry(entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        return {}
    return {
        "model": entry.name,
        "protocol": str(entry.protocol),
        "chat_template": entry.chat,
        "parameters": entry.parameters or math.nan,
        "reference": entry.reference,
    }


def plain(value: Any) -> Any:
    """Return a value for JSON, at any depth; numbers that are not finite become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def as_script(value: Any) -> str:
    """Write a value for the scripts of the site."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
