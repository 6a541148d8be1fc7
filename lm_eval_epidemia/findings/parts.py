"""Findings on parts: a row per respondent, group, subject and part, with a number and its error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from lm_eval_epidemia.findings import FINDINGS
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.mean import ALIKE
from lm_eval_epidemia.score.estimates import Estimate

ALIKE_NOTE = " Without ± or interval where all samples agree: the error is not known."

#: What every row has: whose it is and what it is about, and the number.
ROW = ("run", "model", "kind", "group", "asked", "part", "value", "error", "low", "high", "samples")


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


def to_estimate(value: float, error: float = math.nan) -> Estimate:
    """Return a number of which no samples are known."""
    return Estimate(value, error, 0, 0)


def in_parts(
    name: str, rows: Iterable[Mapping[str, Any]], runs: pd.DataFrame, instead: Sequence[str] = ()
) -> Finding:
    """Return a finding that has a column per part, for people.

    Parameters
    ----------
    name, runs, instead
        As for `make_finding`.
    rows : iterable of mapping
        As from `part_rows`; numbers that are NaN are left out.
    """
    table = pd.DataFrame(list(rows))
    details = FINDINGS[name].get("details", "asked")
    texts = [*dict.fromkeys(("group", "part", "asked", details))]
    table = table.reindex(columns=list(dict.fromkeys([*ROW, *texts, *table])))
    table = table[table["value"].notna()].reset_index(drop=True)
    table[texts] = table[texts].astype(object).fillna("")
    made = make_finding(name, table, runs, instead=instead)
    printed = FINDINGS[name].get("printed", "")
    note = made.note + (
        f" {printed}" if (made.table["kind"] == "published").any() and printed else ""
    )
    if (table["error"].isna() & (table["samples"] > 1)).any():
        note += ALIKE_NOTE
    return replace(made, note=note)
