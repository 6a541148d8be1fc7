"""One line per model on the calibration of its letters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lm_eval_epidemia.old.findings.answered import Samples
from lm_eval_epidemia.old.findings.data import Calibration
from lm_eval_epidemia.old.findings.rows import Column, Finding, Row
from lm_eval_epidemia.results.entry import Entry

_MEAN = Column("", digits=4, form="plain")

COLUMNS = (
    Column("model"),
    _MEAN._replace(name="calibration error"),
    _MEAN._replace(name="order bias"),
    _MEAN._replace(name="choice mass"),
    Column("tasks"),
)


def summary(
    runs: Sequence[Entry], samples: Samples, calibrations: Mapping[str, Calibration]
) -> Finding:
    """Return the weighted distance from calibration, and means over tasks asked by letter."""
    rows = [
        _row(entry, samples, calibrations[entry.name])
        for entry in runs
        if entry.name in calibrations
    ]
    return Finding("calibration of letters", "All models", COLUMNS, rows)


def _row(entry: Entry, samples: Samples, told: Calibration) -> Row:
    scores = {asked: score for asked, score in entry.scores.items() if asked.way == "letters"}
    gaps = np.abs(told.q - told.p) * told.share.sum(axis=1)
    cells: dict[str, float | int] = {"calibration error": float(np.nansum(gaps))}
    for metric in ("order_bias", "choice_mass"):
        values = [score.metrics.get(metric, math.nan) for score in scores.values()]
        values = [value for value in values if not math.isnan(value)]
        mean = math.fsum(values) / len(values) if values else math.nan
        cells[metric.replace("_", " ")] = mean
    return Row({**cells, "tasks": sum((entry.name, asked) in samples for asked in scores)}, entry)
