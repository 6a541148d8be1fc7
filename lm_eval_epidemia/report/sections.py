"""How any finding is written: as a table for people, and as tidy rows for programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.benchmarks.prior.metrics import worth_in_words
from lm_eval_epidemia.findings.finding import Cell, Column, Finding, Number
from lm_eval_epidemia.findings.section import Section
from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.score.estimates import Estimate

#: A number with its error, or one without.
_Number = Number | Estimate


def with_error(number: _Number, spec: str, least: float = -1.0) -> str:
    """Write a number with its standard error: ``54.8 ± 1.2``; nothing for NaN.

    Parameters
    ----------
    number : Number or Estimate
    spec : str
        How the number is written: ``.1f``, or ``+.1f`` where a sign is always written.
    least : float
        An error must be above it to be written; one that is not known (NaN) never is.
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
    samples = number.samples if isinstance(number, Estimate) else number.tasks
    return f"{with_error(number, spec, least)} ({samples})"


#: What is written of a number that is known, by `Column.form`.
FORMS: dict[str, Callable[[_Number, str, float], str]] = {
    "error": with_error,
    "interval": _with_interval,
    "range": _range,
    "counted": _counted,
    "plain": lambda number, spec, least: f"{number.value:{spec}}",
    "worth": lambda number, spec, least: worth_in_words(number.value),
}


def written(cell: Cell, column: Column, group: str = "") -> str:
    """Write what stands in a column, in a row of a group."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, tuple) and not isinstance(cell, _Number):
        return " ".join(filter(None, (written(part, column, group) for part in cell)))
    number = Number(cell) if isinstance(cell, float) else cell
    if math.isnan(number.value):
        return column.nan
    digits = groups()[group].digits if column.digits is None else column.digits
    if column.no_minus_zero:
        number = number._replace(value=round(number.value, digits) + 0)
    spec = f"{'+' * column.signed}.{digits}f"
    return FORMS[column.form](number, spec, column.least) + column.unit


def printed(finding: Finding, long: bool = False) -> Section:
    """Return a finding as a table for people, with its long rows and columns where wished for."""
    rows = [row for row in finding.rows if long or not row.long]
    declared = {column.name: column for column in finding.columns}
    columns = [
        declared[name]
        for place, name in enumerate(finding.shown or declared)
        if (long or not declared[name].long)
        and (place < finding.leading or any(name in row.cells for row in rows))
    ]
    cells = [
        [written(row.cell(column.name), column, row.group) for column in columns] for row in rows
    ]
    silent = finding.silent and any(
        isinstance(cell, _Number) and cell.error <= column.least
        for row in rows
        for column in columns
        for cell in (row.cell(column.name),)
    )
    return Section(
        finding.title,
        tuple(column.title or column.name for column in columns),
        cells,
        finding.note + (finding.silent if silent else ""),
        finding.leading,
    )


def tidy(finding: Finding) -> list[dict[str, Any]]:
    """Return the numbers of a finding as rows of one tidy table, see `output.as_rows`."""
    rows = []
    for row in finding.rows:
        for column in finding.columns:
            cell = row.cell(column.name)
            if column.metric is None or cell is None:
                continue
            assert isinstance(cell, int | float | _Number)
            number = Number(float(cell)) if isinstance(cell, int | float) else cell
            low, high = number.interval
            known = {"stderr": number.error, "low": low, "high": high}
            if metric := row.metrics.get(column.name, column.metric):
                known["metric"] = metric
            if isinstance(number, Number):
                known |= {"tasks": number.tasks} if number.tasks else {}
                known |= {"verdict": number.verdict} if number.verdict else {}
            name = " / ".join(filter(None, (row.name, column.name if column.named else "")))
            rows.append(
                tidy_row(
                    finding.kind, row.entry, row.group, name, number.value, **{**known, **row.facts}
                )
            )
    return rows


def tidy_row(
    kind: str, entry: Entry | None, group: str, name: str, value: float, **more: Any
) -> dict[str, Any]:
    """Return one tidy row; what `more` does not give is NaN or empty."""
    return {
        "kind": kind,
        "model": entry.name if entry else "",
        "protocol": str(entry.protocol) if entry else "",
        "chat_template": entry.chat if entry else "",
        "parameters": (entry.parameters if entry else None) or math.nan,
        "reference": entry.reference if entry else False,
        "group": group,
        "name": name,
        "metric": groups()[group].primary if group else "",
        "value": value,
        "stderr": math.nan,
        "tasks": math.nan,
        "rank_best": math.nan,
        "rank_worst": math.nan,
        "verdict": "",
        "rank_tasks": math.nan,
        "low": math.nan,
        "high": math.nan,
        "corrected": math.nan,
        "corrected_stderr": math.nan,
        "wins": math.nan,
        "ties": math.nan,
        "losses": math.nan,
        **more,
    }
