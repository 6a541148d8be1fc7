"""The rows behind the figures of stated priors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks import PRIOR
from lm_eval_epidemia.benchmarks.prior.judgements import JudgedTask, everything, quartiles
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
from lm_eval_epidemia.old.findings.data import Rows, some
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.means import REACH
from lm_eval_epidemia.old.findings.priors import asked_of, rates
from lm_eval_epidemia.old.findings.quantities import title
from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.score.estimates import Estimate, average

#: What to do where there are none.
NOBODY = f"no model stated priors: run {PRIOR.groups[0]}, and keep the samples that lm_eval writes"

#: Between which errors and standard deviations marks are drawn; others stand at the ends.
DRAWN = (0.01, 100.0)

#: Who is compared with N real answers, in words.
WHOSE = {False: "alone", True: "with as many answers"}


def _asked(report: Report | None) -> Iterator[tuple[Entry, str, list[JudgedTask]]]:
    for entry in report.entries if report else []:
        for group, _, several in asked_of(entry):
            yield entry, group, several


def _row(entry: Entry, group: str, says: str, part: Estimate, **more: Any) -> dict[str, Any]:
    # Of one quantity there is no error, and so no line around its mark.
    reach = 0.0 if math.isnan(part.error) else REACH * part.error
    return {
        "model": entry.name,
        "group": group,
        "metric": says,
        "lowest": 0.0,
        "highest": 1.0,
        "score": part.value,
        "low": max(part.value - reach, 0.0),
        "high": min(part.value + reach, 1.0),
        **more,
    }


def win_rows(report: Report | None, _task: str | None = None) -> Rows:
    """Rows of the figure `wins`."""
    rows = []
    for entry, group, several in _asked(report):
        part = [(known, everything(known)) for known in several]
        for after, whose in WHOSE.items():
            for size, rate in zip(SIZES, rates(part, after), strict=True):
                rows.append(_row(entry, group, "Share of quantities", rate, size=size, what=whose))
    return some(rows, NOBODY)


def quartile_rows(report: Report | None, _task: str | None = None) -> Rows:
    """Rows of the figure `quartiles`."""
    rows = []
    for entry, group, several in _asked(report):
        by_task = [quartiles(known, everything(known)) for known in several]
        for quarter, shares in enumerate(zip(*by_task, strict=True), 1):
            rows.append(_row(entry, group, "Share of truths", average(shares), quartile=quarter))
    return some(rows, NOBODY)


def uncertainty_rows(report: Report | None, _task: str | None = None) -> Rows:
    """Rows of the figure `uncertainty`, within `DRAWN`, because an error of 0 has no logarithm."""
    rows = [
        {
            "model": f"{entry.name}{group.removeprefix(PRIOR.groups[0]).replace('_', ' ')}",
            "quantity": title(q),
            "difficulty": q.difficulty,
            "stated": float(np.clip(stated, *DRAWN)),
            "error": float(np.clip(error, *DRAWN)),
        }
        for entry, group, several in _asked(report)
        for known in several
        for q, stated, error in zip(
            known.truth.quantities, known.judged.uncertainty, known.judged.ratio, strict=True
        )
        if not math.isnan(stated + error)
    ]
    return some(rows, NOBODY)
