"""Findings on parts: a row per respondent, group, subject and part, with a number and its error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from lm_eval_epidemia.findings.finding import WHO, Column, Finding, who
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.estimates import Estimate

#: Up to here, but for rounding, an error is 0: all samples say the same, and none tells how far
#: another one would be.
ALIKE = 1e-9
ALIKE_NOTE = " Without ± or interval where all samples agree: the error is not known."

#: What every row has: whose it is and what it is about, and the number.
ROW = ("run", "model", "kind", "group", "asked", "part", "value", "error", "low", "high", "samples")

#: How a number is written, unless a finding says otherwise.
SHARE = Column("", 3, error="error")


def numbers_of(of: Estimate) -> dict[str, float]:
    """Return an estimate with its error and interval, without these if all samples agree."""
    known = of if of.error > ALIKE else of._replace(error=math.nan)
    low, high = known.interval
    return {"value": of.value, "error": known.error, "low": low, "high": high}


def part_rows(whose: Mapping[str, Any], cells: Mapping[str, Estimate]) -> list[dict[str, Any]]:
    """Return a row for each part."""
    return [
        {**whose, "part": part, **numbers_of(of), "samples": of.samples or math.nan}
        for part, of in cells.items()
    ]


def number(value: float, error: float = math.nan) -> Estimate:
    """Return a number of which no samples are known."""
    return Estimate(value, error, 0, 0)


def in_parts(
    results: Results,
    name: str,
    title: str,
    rows: Iterable[Mapping[str, Any]],
    note: str,
    otherwise: str,
    subject: str = "",
    details: str = "",
    printed: str = "",
    written: Column = SHARE,
    left_out: Sequence[str] = (),
) -> Finding:
    """Return a finding that has a column per part, for people.

    Parameters
    ----------
    results : Results
    name, title, note, details, left_out
        As in `Finding`.
    rows : iterable of mapping
        As from `part_rows`; numbers that are NaN are left out.
    otherwise : str
        What to run where there are no rows.
    subject : str
        Heading of the column ``asked``, which says what a row is about.
    printed : str
        What else is said if there are published numbers.
    written : Column
        How numbers are written.
    """
    table = pd.DataFrame(list(rows))
    texts = [text for text in dict.fromkeys(("group", "part", "asked", details)) if text]
    table = table.reindex(columns=list(dict.fromkeys([*ROW, *texts, *table])))
    table = table[table["value"].notna()].reset_index(drop=True)
    table[texts] = table[texts].astype(object).fillna("")
    columns = {**WHO, "group": Column("group"), "asked": Column(subject), "value": written}
    table = who(table, results.runs)
    note += printed * bool((table["kind"] == "published").any())
    note += ALIKE_NOTE * bool((table["error"].isna() & (table["samples"] > 1)).any())
    says = left_out or [otherwise] * table.empty
    return Finding(name, title, table, columns, note, "part", details, says)
