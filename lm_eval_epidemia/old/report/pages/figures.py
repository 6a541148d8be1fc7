"""Pages of figures: scores in several cuts, priors, fine-tuning, calibration."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
from markupsafe import Markup

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.old.findings import (
    calibration,
    data,
    tuning,
    tuning_rows,
    tuning_tables,
)
from lm_eval_epidemia.old.findings.answered import Samples
from lm_eval_epidemia.old.findings.rows import Finding
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.report import charts, figures
from lm_eval_epidemia.old.report.drawings import drawings
from lm_eval_epidemia.old.report.output import of_priors
from lm_eval_epidemia.old.report.sections import Section, plain, printed

#: What the page of figures shows, with what is to be said of each.
SHOWN = {
    "surveys": "Means over the tasks of each survey.",
    "conditions": "Means over the tasks with one condition, with two, and so on. Models may have "
    "been asked different tasks.",
    "nodes": "Effects of interventions on generated graphs. Half of the answers change from yes to "
    "no, a quarter stay yes, a quarter stay no.",
    "paths": "The same effects by the distance from U to V before the intervention, if the answer "
    "then is yes. Graphs of all sizes; they are the clusters of the error.",
    "versions": "Every task of a base model and its instruct version. Above the line, the instruct "
    "version's value is higher. Diamonds are means.",
    "closed": "Models that only write their answers, and models with known log-probabilities, over "
    "the same tasks.",
}

#: What the page of priors shows.
OF_PRIORS = {
    "wins": "Posterior: the prior together with N answers, against the same N answers alone. Bars "
    "are 1.96 standard errors over quantities.",
    "quartiles": "Above the dashed line in the first quarter and below it in the last: the model "
    "overestimates quantities. High at both ends: priors are too narrow.",
    "uncertainty": "A mark per quantity; both axes are relative to the error of 5 real answers. On "
    "the dashed line the error of the prior's mean equals its standard deviation. Values "
    "below 0.01 and above 100 are at the edge.",
}

#: What the page of fine-tuning shows.
OF_TUNING = {
    "tuning": "A line per task, from the hollow mark (before) to the filled one (after).",
    "losses": "The training loss may keep falling after the validation loss has started to rise.",
    "learning": "Over the tasks that all of these models were asked.",
}

#: What is below the figure of calibration lines.
TILT = "A mark per model, with 1.96 standard errors. A model that knows the population is where "
TILT += (
    "the dashed lines cross. Below: differences are understated, or not known; above: overstated."
)
TILT += " Drawn answers (_sampled) are left out."


#: How many models a figure shows; tables have them all.
DRAWN = 24

NO_NAMES: Mapping[str, str] = {}


#: A group or a task.
CODE = re.compile(r"\bepidemia_\w+")


class _PageRow(NamedTuple):
    cells: list[str]
    kind: str = ""


def published(report: Report) -> set[str]:
    """Return the names of published rows."""
    return {entry.name for entry in report.entries if entry.reference}


def rows_of(
    section: Section, published: Collection[str] = (), names: Mapping[str, str] = NO_NAMES
) -> dict[str, Any]:
    """Return a table for pages, whose rows are marked if published.

    Parameters
    ----------
    section : Section
    published : collection of str
        Names of published rows.
    names : mapping of str to str
        What models, groups and tasks are called on pages, by their names.
    """

    def said(text: str) -> str:
        return names.get(text) or CODE.sub(lambda code: names.get(code[0], code[0]), text)

    rows = [
        _PageRow([*map(said, row)], "reference" * (row[0] in published)) for row in section.rows
    ]
    columns = [*map(said, section.columns)]
    return {**section._asdict(), "title": said(section.title), "columns": columns, "rows": rows}


def shown(report: Report, chosen: Mapping[str, str], names: Mapping[str, str]) -> dict[str, Any]:
    """Draw the figures with rows, and say why the others are not drawn.

    Parameters
    ----------
    report : Report
    chosen : mapping of str to str
        The caption of each.
    names : mapping of str to str
        What models are called on pages, by their names.
    """
    found, missing = [], []
    for name, says in chosen.items():
        figure = figures.FIGURES[name]
        try:
            rows = figure.rows(report, None)
        except EpidemiaError as error:
            missing.append(f"{figure.says}: {error}")
        else:
            if name == "tuning":
                rows, says = _moved(rows, says)
            rows, says = first(rows, says)
            rows = [_named(row, names) for row in rows]
            found.append({"name": name, "title": figure.says, **drawn(name, says, rows)})
    return {"found": found, "missing": missing}


def _named(row: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    codes = ("model", "group")
    return {key: names.get(text, text) if key in codes else text for key, text in row.items()}


def first(rows: list[dict[str, Any]], says: str) -> tuple[list[dict[str, Any]], str]:
    """Keep only the first `DRAWN` models, which were asked most and score best."""
    models = dict.fromkeys(
        row["model"] for row in rows if "model" in row and row.get("kind", "run") == "run"
    )
    left = set(list(models)[DRAWN:])
    if left:
        says += (
            f" Only the first {DRAWN} of {len(models)} models are shown; epidemia plot draws all."
        )
    return [row for row in rows if row.get("model") not in left], says


def _moved(rows: list[dict[str, Any]], says: str) -> tuple[list[dict[str, Any]], str]:
    """Leave out panels whose tasks all stay at the same end of the scale."""
    ends: dict[str, set[float]] = {}
    for row in rows:
        ends.setdefault(row["panel"], set()).update((row["before"], row["after"]))
    still = [panel for panel, values in ends.items() if len(values) == 1]
    if still and len(still) < len(ends):
        says += f" Not drawn, because all tasks are still at {min(ends[still[0]]):g}: {few(still)}."
        rows = [row for row in rows if row["panel"] not in still]
    return rows, says


def drawn(name: str, says: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw a figure; if that fails, leave it out, and say so on the page and on stderr.

    Parameters
    ----------
    name : str
        A key of `charts.CHARTS`.
    says : str
        Its caption.
    rows : list of dict
    """
    title = figures.FIGURES[name].says
    chart: Callable[[Any], alt.TopLevelMixin] = charts.CHARTS[name]
    try:
        panels = drawings(chart(alt.Data(values=plain(rows))), title)
    except Exception as error:  # whatever rows, Altair and Vega may come to
        why = f"not drawn: {title} ({figures.in_short(error)})"
        print(f"note: {why}", file=sys.stderr)
        return {"says": why, "panels": []}
    notes = dict.fromkeys(panel.note for panel in panels if panel.note)
    said = " ".join([says, *(f"{note[:1].upper()}{note[1:]}." for note in notes)])
    return {"says": said, "panels": [(p.title, Markup(p.svg), p.width) for p in panels]}


def priors(report: Report, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the contents of the page of priors."""
    sections = [rows_of(table, published(report), names) for table in of_priors(report, True)]
    return {**shown(report, OF_PRIORS, names), "sections": sections}


def tuned(report: Report, samples: Samples, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the contents of the page of fine-tuning."""
    study = tuning.study(report, samples)
    findings = [*tuning_tables.tables(study, long=True), *tuning_rows.learning_table(report)]
    return {
        **shown(report, OF_TUNING, names),
        "sections": [rows_of(printed(finding), (), names) for finding in findings],
        "notes": tuning.lacking(report, samples),
    }


def calibrated(
    report: Report,
    samples: Samples,
    lines: list[dict[str, Any]],
    tables: Sequence[Finding],
    positions: list[dict[str, Any]],
    names: Mapping[str, str],
    write: Callable[[str, str, Any], None],
) -> dict[str, Any]:
    """Return the contents of the page of calibration.

    Parameters
    ----------
    report : Report
    samples : dict
        As of `answered.read_samples`.
    lines : list of dict
        Of `tilt.figure_rows`.
    tables : sequence of Finding
    positions : list of dict
        Of `data.rows_of_order_bias`.
    names : mapping of str to str
        What models are called on pages, by their names.
    write : callable
        Receives the data of each model: file name, model name, contents.
    """
    by_model = data.calibrations(report, samples)
    summary = printed(calibration.summary(report.runs, samples, by_model))
    files = {names[name]: f"calibration-{place}" for place, name in enumerate(by_model)}
    for (name, of_model), file in zip(by_model.items(), files.values(), strict=True):
        letters = [row for row in positions if row["model"] == name]
        write(file, file, data.calibration_data(of_model, letters))
    lines, said = first(lines, TILT)
    return {
        "tilt": drawn("tilt", said, [_named(row, names) for row in lines]) if lines else None,
        "sections": [rows_of(printed(table), (), names) for table in tables if table.rows],
        "files": files,
        "summary": rows_of(summary, (), names),
        "figures": {name: charts.specification(name) for name in ("calibration", "order_bias")},
    }
