"""The figures of findings: each a declaration in `CHARTS`, which `save` draws into a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.core.paths import atomic_write
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.finding import Finding
from lm_eval_epidemia.findings.task import asked_as
from lm_eval_epidemia.results.read import Results


@dataclass(frozen=True)
class Chart:
    """A figure of a finding.

    Attributes
    ----------
    finding : str
        Its name in `FINDINGS`, or of a function in `findings.task` and the like that takes a task.
    says : str
        What it shows.
    x, y : str
        Columns; numbers are on a scale, texts in the order of the rows.
    mark : str
        A key of `MARKS`.
    colour, facet : str
        Columns; a model is named with its settings, in column ``who``.
    interval : tuple of str
        The columns with the ends of an interval along `along`.
    along : str
        ``x`` or ``y``.
    titles : mapping of str to str
        Titles of axes, by ``x`` and ``y``.
    ends : mapping of str to (float, float) or str
        Ends of a scale by ``x`` and ``y``; ``%`` for shares, ``log`` for logarithms.
    where : str
        The rows that are drawn, as pandas' `query` takes them.
    lines : mapping of str to float
        Dashed lines, by ``x`` and ``y``; ``diagonal`` from one corner to the other.
    tick : str
        The column with a green mark beside each: knowing averages only.
    task : bool
        Whether it shows one task.
    """

    finding: str
    says: str
    x: str
    y: str
    mark: str = "dot"
    colour: str = "who"
    facet: str = ""
    interval: tuple[str, ...] = ()
    along: str = "x"
    titles: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    lines: Mapping[str, float] = field(default_factory=dict)
    tick: str = ""
    task: bool = False


SCORE = "Mean (± 1.96 standard errors)"
MEAN: dict[str, Any] = {"facet": "group", "interval": ("low", "high"), "titles": {"x": SCORE}}
UP: dict[str, Any] = {**MEAN, "along": "y", "titles": {"y": SCORE}}
SHARE = {"x": "%", "y": "%"}

#: Every figure, by name.
CHARTS = {
    "leaderboard": Chart(
        *("leaderboard", "every model's score by group", "value", "who"),
        colour="kind",
        tick="averages",
        where="run_kind",
        **MEAN,
    ),
    "size": Chart(
        *("leaderboard", "score against number of parameters", "parameters", "value"),
        where="parameters == parameters",
        ends={"x": "log"},
        **UP,
    ),
    "beside": Chart(
        *("other", "score against other tasks in the same files", "value", "score"),
        facet="other",
        where="score == score",
    ),
    "surveys": Chart("survey", "every model's score by survey", "value", "survey", **MEAN),
    "conditions": Chart(
        "dimension", "score against number of conditions", "dimension", "value", "line", **UP
    ),
    "nodes": Chart(
        *("nodes", "accuracy on larger graphs against number of variables", "nodes", "value"),
        mark="line",
        **UP,
    ),
    "versions": Chart(
        *("version-tasks", "base models against their versions, by task", "base", "value"),
        facet="group",
        lines={"diagonal": 1},
        titles={"x": "base", "y": "version"},
    ),
    "closed": Chart(
        *("closed", "written answers against likelihoods on the closed subset", "value", "who"),
        colour="asked",
        **{**MEAN, "facet": ""},
    ),
    "calibration": Chart(
        *("calibration", "elicited against true probability, with a reliability curve", "q", "p"),
        mark="heat",
        facet="who",
        lines={"diagonal": 1},
        titles={"x": "The model's answer", "y": "The survey"},
        ends=SHARE,
    ),
    "order_bias": Chart(
        *("order-bias", "probability of each displayed position relative to uniform"),
        *("position", "times", "line"),
        facet="answers",
        lines={"y": 1},
        titles={"x": "Displayed as", "y": "Probability relative to uniform"},
    ),
    "tilt": Chart(
        *("tilt", "tilt against slope of every model's calibration line", "tilt", "slope"),
        facet="group",
        where="task != task",
        lines={"x": 0, "y": 1},
        titles={"x": "Tilt, in log-odds", "y": "Slope (below 1: differences understated)"},
    ),
    "distribution": Chart(
        *("task:distribution", "truth and models in the largest cell of a task", "value", "answer"),
        mark="bar",
        interval=("low", "high"),
        titles={"x": "Probability of the answer"},
        ends={"x": "%"},
        task=True,
    ),
    "curve": Chart(
        *("task:curve", "one answer over the levels of one condition", "condition", "value"),
        mark="line",
        interval=("low", "high"),
        along="y",
        titles={"y": "Probability of the answer"},
        ends={"y": "%"},
        task=True,
    ),
    "cells": Chart(
        *("task:cells_of", "elicited against true probability in every cell of a task"),
        *("value", "truth"),
        where="kind != 'survey'",
        lines={"diagonal": 1},
        titles={"x": "The model's answer", "y": "The survey"},
        ends=SHARE,
        task=True,
    ),
    "bootstrap": Chart(
        *("task:bootstrap", "bootstrap distances of a task, with the anchors of its scale"),
        *("distance", "", "density"),
        colour="",
        titles={"x": "Distance from the truth"},
        task=True,
    ),
    "wins": Chart(
        *("wins", "how often stated priors beat N real answers", "part", "value", "line"),
        where="facet == '' and asked == '' and part.str.startswith('N =')",
        **{**UP, "lines": {"y": 0.5}, "titles": {"x": "Real answers", "y": "Share of quantities"}},
    ),
    "quartiles": Chart(
        *("quartiles", "quarter of the stated prior in which the truth lies", "part", "value"),
        mark="line",
        where="facet == '' and part.str.startswith('quarter')",
        **{**UP, "lines": {"y": 0.25}, "titles": {"y": "Share of quantities"}},
    ),
    "uncertainty": Chart(
        *("quantities", "stated against realised uncertainty of priors", "stated", "ratio"),
        facet="group",
        where="stated > 0 and ratio > 0",
        lines={"diagonal": 1},
        ends={"x": "log", "y": "log"},
        titles={"x": "Stated sd / error of 5 answers", "y": "Error / error of 5 answers"},
    ),
    "paths": Chart(
        *("interventions", "accuracy on larger graphs against path length", "asked", "value"),
        mark="line",
        where="asked.str.startswith('path of')",
        **{**UP, "facet": "part"},
    ),
    "tuning": Chart(
        *("tuning", "every task before and after fine-tuning", "", "task", "arrow"),
        facet="who",
        colour="trained_on",
        interval=("before", "after"),
        where="task != '' and seeds == 1 and not part.str.contains('cells')",
        titles={"x": "Score: hollow before, filled after"},
    ),
    "learning": Chart(
        *("learning", "score against number of answers trained on", "rows", "value", "line"),
        colour="trained_on",
        where="rows > 0",
        **{**UP, "titles": {"x": "Answers trained on", "y": SCORE}},
    ),
    "losses": Chart(
        *("losses", "losses of fine-tuning, with the kept checkpoint", "epoch", "loss", "line"),
        colour="split",
        facet="model",
    ),
    "regions": Chart(
        *("regions", "error of models in each region of the world, and by income"),
        *("off", "place"),
        facet="of",
        interval=("low", "high"),
        titles={"x": "Probability at wrong answers, %"},
    ),
    "years": Chart(
        *("course", "truth and answers over the years, by outcome", "year", "value", "line"),
        facet="series",
        interval=("low", "high"),
        along="y",
        titles={"y": "Probability of the answer"},
    ),
    "people": Chart(
        *("people", "answers of models against guesses of Americans", "answer", "question"),
        where="question != ''",
        titles={"x": "Share of the population, %"},
        tick="truth",
    ),
    "map": Chart(
        *("countries:map_of", "truth and answers of a task on a map of the world", "value", "code"),
        mark="map",
        task=True,
    ),
}


@held()
def save(name: str, results: Callable[[], Results], out: Path, task: str | None = None) -> Path:
    """Write a figure.

    Parameters
    ----------
    name : str
        A key of `CHARTS`.
    results : callable
        Returns the results; called only for figures that need them.
    out : Path
        Its ending selects the format: .svg, .png (at 300 dots per inch), .pdf, .json (Vega-Lite).
    task : str, optional
        For figures that show one task.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    EpidemiaError
        If there is no such figure or no data for it, or `out` cannot be written.
    """
    if name not in CHARTS:
        raise EpidemiaError(
            f"no figure {name!r} ({nearest(name, CHARTS)}): see 'epidemia plot list'"
        )
    chart = CHARTS[name]
    if chart.task != bool(task):
        what = "shows one task: name it with --task" if chart.task else "does not show one task"
        raise EpidemiaError(f"{name} {what}")
    if task:
        asked_as(task)
    with needs("report", f"the figure {name}"):
        from lm_eval_epidemia.report.charts import WRITTEN, prepared
    if out.suffix not in WRITTEN:
        raise EpidemiaError(f"--out {out}: expected a name that ends in {', '.join(WRITTEN)}")
    if not out.parent.is_dir():
        raise EpidemiaError(f"--out {out}: there is no folder {out.parent}: make it first")
    if out.is_dir():
        raise EpidemiaError(f"--out {out} is a folder: give a file name")
    finding = _finding(chart, results, task)
    if prepared(chart, finding.table).empty:
        why = finding.left_out or [f"there is nothing to draw for {name} in these results"]
        raise EpidemiaError("\n".join(why))
    return _write(chart, finding.table, out)


def save_losses(folder: Path) -> Path:
    """Draw the losses of a training into its folder; return the path of ``losses.svg``.

    Parameters
    ----------
    folder : Path
        With a card (``epidemia_finetune.json``) and ``losses.csv``.
    """
    from lm_eval_epidemia.findings.tuning import losses_of

    return _write(CHARTS["losses"], losses_of(folder), folder / "losses.svg")


def _finding(chart: Chart, results: Callable[[], Results], task: str | None) -> Finding:
    """Make the finding that a figure shows; of a task, from the function that takes it."""
    module, _, function = chart.finding.partition(":")
    if not function:
        return find(chart.finding)(results())
    make = getattr(import_module(f"lm_eval_epidemia.findings.{module}"), function)
    made: Finding = make(task) if function == "bootstrap" else make(results(), task)
    return made


def _write(chart: Chart, table: pd.DataFrame, out: Path) -> Path:
    """Draw a table into a file."""
    with needs("report", "figures"):
        from lm_eval_epidemia.report.charts import WRITTEN, draw, draw_map, prepared
    drawn = draw_map(prepared(chart, table)) if chart.mark == "map" else draw(chart, table)
    with atomic_write(out) as temporary:
        temporary.write_bytes(WRITTEN[out.suffix](drawn))
    return out
