"""The figures of findings: each a declaration in `CHARTS`, which `save` draws into a file."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.core.paths import atomic_write
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.task import asked_as
from lm_eval_epidemia.results.read import Results


class Axis(NamedTuple):
    """The axis of a column.

    Attributes
    ----------
    title : str
        Of numbers, their column if empty.
    ends : str
        ``%`` for shares, ``log`` for logarithms.
    line : float, optional
        Where a dashed line crosses it.
    """

    title: str = ""
    ends: str = ""
    line: float | None = None


class Chart(NamedTuple):
    """A figure of a finding.

    Attributes
    ----------
    finding : str
        Its name in `FINDINGS`, or of a function in `findings.task` and the like that takes a task.
    x, y : str
        Columns; numbers are on a scale, texts in the order of the rows.
    mark : str
        A key of `MARKS`.
    facet, colour : str
        Columns; a model is named with its settings, in column ``who``.
    where : str
        The rows that are drawn, as pandas' `query` takes them.
    diagonal : bool
        Whether a dashed line goes from one corner to the other.
    interval : tuple of str
        The columns with the ends of an interval, where the table has them.
    tick : str
        The column with a green mark beside each: knowing averages only.
    only_runs : bool
        Whether respondents are left out beside models.
    """

    finding: str
    x: str
    y: str
    mark: str = "dot"
    facet: str = ""
    colour: str = "who"
    where: str = ""
    diagonal: bool = False
    interval: tuple[str, ...] = ("low", "high")
    tick: str = ""
    only_runs: bool = False

    @property
    def task(self) -> bool:
        """Whether it shows one task."""
        return ":" in self.finding

    def axis(self, column: str) -> Axis:
        """Return the axis of a column."""
        return AXES.get((self.finding, column)) or AXES.get(("", column)) or Axis()


#: Every figure, by name, and what it shows.
SAYS = {
    "leaderboard": "every model's score by group",
    "size": "score against number of parameters",
    "beside": "score against other tasks in the same files",
    "surveys": "every model's score by survey",
    "conditions": "score against number of conditions",
    "nodes": "accuracy on larger graphs against number of variables",
    "versions": "base models against their versions, by task",
    "closed": "written answers against likelihoods on the closed subset",
    "calibration": "elicited against true probability, with a reliability curve",
    "order_bias": "probability of each displayed position relative to uniform",
    "tilt": "tilt against slope of every model's calibration line",
    "distribution": "truth and models in the largest cell of a task",
    "curve": "one answer over the levels of one condition",
    "cells": "elicited against true probability in every cell of a task",
    "bootstrap": "bootstrap distances of a task, with the anchors of its scale",
    "wins": "how often stated priors beat N real answers",
    "quartiles": "quarter of the stated prior in which the truth lies",
    "uncertainty": "stated against realised uncertainty of priors",
    "paths": "accuracy on larger graphs against path length",
    "tuning": "every task before and after fine-tuning",
    "learning": "score against number of answers trained on",
    "losses": "losses of fine-tuning, with the kept checkpoint",
    "regions": "error of models in each region of the world, and by income",
    "years": "truth and answers over the years, by outcome",
    "people": "answers of models against guesses of Americans",
    "map": "truth and answers of a task on a map of the world",
}

#: The axes of columns of a finding, or of any.
AXES = {
    ("", "value"): Axis("Mean (± 1.96 standard errors)"),
    ("", "before"): Axis("Score: hollow before, filled after"),
    ("", "parameters"): Axis(ends="log"),
    ("", "q"): Axis("The model's answer", "%"),
    ("", "p"): Axis("The survey", "%"),
    ("", "position"): Axis("Displayed as"),
    ("", "times"): Axis("Probability relative to uniform", line=1),
    ("", "tilt"): Axis("Tilt, in log-odds", line=0),
    ("", "slope"): Axis("Slope (below 1: differences understated)", line=1),
    ("", "distance"): Axis("Distance from the truth"),
    ("", "stated"): Axis("Stated sd / error of 5 answers", "log"),
    ("", "ratio"): Axis("Error / error of 5 answers", "log"),
    ("", "rows"): Axis("Answers trained on"),
    ("", "off"): Axis("Probability at wrong answers, %"),
    ("other", "value"): Axis(),
    ("version-tasks", "value"): Axis("version"),
    ("task:distribution", "value"): Axis("Probability of the answer", "%"),
    ("task:curve", "value"): Axis("Probability of the answer", "%"),
    ("task:cells_of", "value"): Axis("The model's answer", "%"),
    ("task:cells_of", "truth"): Axis("The survey", "%"),
    ("wins", "part"): Axis("Real answers"),
    ("wins", "value"): Axis("Share of quantities", line=0.5),
    ("quartiles", "value"): Axis("Share of quantities", line=0.25),
    ("course", "value"): Axis("Probability of the answer"),
    ("people", "answer"): Axis("Share of the population, %"),
}

#: How every figure is drawn: the finding, its columns on x and y, mark, facet, colour.
CHARTS = {
    "leaderboard": Chart(
        *("leaderboard", "value", "who", "dot", "group", "kind"), tick="averages", only_runs=True
    ),
    "size": Chart(
        *("leaderboard", "parameters", "value", "dot", "group"), where="parameters == parameters"
    ),
    "beside": Chart("other", "value", "score", "dot", "other", where="score == score"),
    "surveys": Chart("survey", "value", "survey", "dot", "group"),
    "conditions": Chart("dimension", "dimension", "value", "line", "group"),
    "nodes": Chart("nodes", "nodes", "value", "line", "group"),
    "versions": Chart("version-tasks", "base", "value", "dot", "group", diagonal=True),
    "closed": Chart("closed", "value", "who", colour="asked"),
    "calibration": Chart("calibration", "q", "p", "heat", "who", diagonal=True),
    "order_bias": Chart("order-bias", "position", "times", "line", "answers"),
    "tilt": Chart("tilt", "tilt", "slope", "dot", "group", where="task != task"),
    "distribution": Chart("task:distribution", "value", "answer", "bar"),
    "curve": Chart("task:curve", "condition", "value", "line"),
    "cells": Chart(
        *("task:cells_of", "value", "truth"), where="kind != 'survey'", diagonal=True, interval=()
    ),
    "bootstrap": Chart("task:bootstrap", "distance", "", "area", colour=""),
    "wins": Chart(
        *("wins", "part", "value", "line", "group"),
        where="facet == '' and asked == '' and part.str.startswith('N =')",
    ),
    "quartiles": Chart(
        *("quartiles", "part", "value", "line", "group"),
        where="facet == '' and part.str.startswith('quarter')",
    ),
    "uncertainty": Chart(
        *("quantities", "stated", "ratio", "dot", "group"),
        where="stated > 0 and ratio > 0",
        diagonal=True,
    ),
    "paths": Chart(
        *("interventions", "asked", "value", "line", "part"),
        where="asked.str.startswith('path of')",
    ),
    "tuning": Chart(
        *("tuning", "before", "task", "arrow", "who", "trained_on"),
        where="task != '' and seeds == 1 and not part.str.contains('cells')",
        interval=("before", "after"),
    ),
    "learning": Chart("learning", "rows", "value", "line", "group", "trained_on", "rows > 0"),
    "losses": Chart("losses", "epoch", "loss", "line", "model", "split"),
    "regions": Chart("regions", "off", "place", facet="of"),
    "years": Chart("course", "year", "value", "line", "series"),
    "people": Chart("people", "answer", "question", where="question != ''", tick="truth"),
    "map": Chart("countries:map_of", "value", "code", "map"),
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
        near = nearest(name, CHARTS)
        raise EpidemiaError(f"no figure {name!r} ({near}): see 'epidemia plot list'")
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
    module, _, function = chart.finding.partition(":")
    if function:
        make = getattr(import_module(f"lm_eval_epidemia.findings.{module}"), function)
        finding = make(task) if function == "bootstrap" else make(results(), task)
    else:
        finding = find(chart.finding)(results())
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


def _write(chart: Chart, table: pd.DataFrame, out: Path) -> Path:
    """Draw a table into a file."""
    with needs("report", "figures"):
        from lm_eval_epidemia.report.charts import WRITTEN, draw, draw_map, prepared
    drawn = draw_map(prepared(chart, table)) if chart.mark == "map" else draw(chart, table)
    with atomic_write(out) as temporary:
        temporary.write_bytes(WRITTEN[out.suffix](drawn))
    return out
