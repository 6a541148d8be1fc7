"""A page per model: its scores, its answers in its worst and best tasks, its use of letters."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval_epidemia.old.findings import model_rows, profile, words
from lm_eval_epidemia.old.findings.answered import Samples
from lm_eval_epidemia.old.findings.rows import Finding, Number
from lm_eval_epidemia.old.findings.leaderboard import Report, by_benchmark
from lm_eval_epidemia.old.findings.means import REACH, answers, choice_mass, group_mean, tasks_in
from lm_eval_epidemia.old.findings.overview import size
from lm_eval_epidemia.old.findings.reference import known_scores
from lm_eval_epidemia.old.report.marks import Mark, curve, strip
from lm_eval_epidemia.old.report.pages.start import ENDS
from lm_eval_epidemia.old.report.sections import with_error
from lm_eval_epidemia.results.entry import Entry, leaf
from lm_eval_epidemia.results.models import Model, chips, is_averages


def files_of(models: Sequence[Model]) -> dict[str, str]:
    """Return the page of every model, by the model's name; file names are short and plain."""
    files: dict[str, str] = {}
    for model in models:
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", model.name).strip("-.")[:60] or "model"
        taken, number = {name.lower() for name in files.values()}, 1
        while (name := f"model-{plain}{f'-{number}' * (number > 1)}.html").lower() in taken:
            number += 1
        files.setdefault(model.name, name)
    return files


def shown(
    report: Report,
    model: Model,
    samples: Samples,
    lines: Finding | None,
    positions: Sequence[dict[str, Any]],
    can_open: Mapping[str, str],
) -> dict[str, Any]:
    """Return the contents of a model's page.

    Parameters
    ----------
    report : Report
    model : Model
    samples : dict
        As of `answered.read_samples`.
    lines : Finding or None
        Calibration lines of all runs.
    positions : sequence of dict
        Of `data.rows_of_order_bias`.
    can_open : mapping
        Tasks that have a page.
    """
    run = model.shown
    groups = {leaf(asked).group for asked in run.scores}
    columns = [column for column in report.columns if column in groups]
    tasks = profile.tasks_of(report, run)
    worst, best = profile.ends(report, run, tasks, samples)
    mass = choice_mass(run, run.scores)
    return {
        "name": model.name,
        "chips": chips(run),
        "facts": {
            "size": size(run.parameters),
            "choice mass": "" if math.isnan(mass) else f"{mass:.2f}",
            "tasks": str(len(tasks)),
        },
        "silent": not any(answers(run, column) for column in columns),
        "published": run.reference,
        "panels": _panels(report, run, columns),
        "averages": is_averages(run),
        "ends": [
            {"title": title, "tasks": [_drawn(task) for task in part]}
            for title, part in (("Worst tasks", worst), ("Best tasks", best))
            if part
        ],
        "sampled": any(task.curve for task in (*worst, *best)),
        "positions": profile.positions(positions, run),
        "lines": _lines(lines, run),
        "tasks": tasks,
        "can_open": can_open,
        "all_runs": [
            {
                "chips": chips(other),
                "cells": [with_error(Number(*_mean(other, c)), ".1f") for c in columns],
            }
            for other in model.runs
        ],
        "columns": [(column, words.plain_name(column)) for column in columns],
    }


def _mean(run: Entry, column: str) -> tuple[float, float]:
    mean = group_mean(run, column)
    return mean.value, mean.error


def _panels(report: Report, run: Entry, columns: Sequence[str]) -> list[dict[str, Any]]:
    # Beside its own scores, the respondent that knows averages only has no mark for these.
    known = {} if is_averages(run) else known_scores(run, report.runs)
    parts, panels = by_benchmark(columns), []
    for benchmark, several in parts.items():
        for column in several:
            measure, tasks = benchmark.measure, tasks_in(run, column)
            values = {"all": group_mean(run, column)}
            by_survey = profile.by_survey(run, [column]).get(column, {})
            marks = []
            for name, mean in {**values, **by_survey}.items():
                if math.isnan(mean.value):
                    continue
                here = [
                    a for a in tasks if name == "all" or leaf(a).entry.facets.get("survey") == name
                ]
                told = [known[asked] for asked in here if asked in known]
                reach = 0.0 if math.isnan(mean.error) else REACH * mean.error
                marks.append(
                    Mark(
                        f"{name if name == 'all' else name.upper()} ({mean.tasks})",
                        mean.value,
                        max(mean.value - reach, measure.low),
                        min(mean.value + reach, measure.high),
                        math.fsum(told) / len(told) if told and len(told) == len(here) else None,
                        with_error(mean, f".{benchmark.digits}f"),
                    )
                )
            if not marks:
                continue
            ends = [m for mark in marks for m in (mark.low, mark.high)]
            low = measure.low if math.isfinite(measure.low) else min(ends)
            high = measure.high if math.isfinite(measure.high) else max(ends)
            panels.append(
                {
                    "title": words.plain_name(column),
                    "name": column,
                    "drawing": strip(
                        marks, ENDS.get(benchmark.name, ()), low, high, benchmark.digits
                    ),
                }
            )
    return panels


def _drawn(task: profile.ScoredTask) -> dict[str, Any]:
    return {"task": task, "svg": curve(task.curve) if task.curve else ""}


def _lines(lines: Finding | None, run: Entry) -> list[dict[str, str]]:
    names = {part.name for part in model_rows.parts_of(run)}
    said = []
    for row in lines.rows if lines else ():
        if row.entry is not None and row.entry.name in names:
            slope, tilt = row.cells.get("slope"), row.cells.get("tilt")
            if isinstance(slope, Number) and isinstance(tilt, Number):
                said.append(
                    {
                        "group": words.plain_name(row.group),
                        "slope": with_error(slope, ".2f"),
                        "tilt": with_error(tilt, "+.2f"),
                    }
                )
    return said
