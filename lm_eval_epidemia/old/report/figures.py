"""The catalogue of figures, with the contents and rows of each, and saving of figures.

Drawing needs the extra ``report``; listing does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.core.paths import atomic_write
from lm_eval_epidemia.old.findings import data, prior_rows, tilt, tuning_rows, world_rows
from lm_eval_epidemia.old.findings.reference import not_known
from lm_eval_epidemia.old.report.sections import plain
from lm_eval_epidemia.results.card import read_tuned


class Figure(NamedTuple):
    """A figure of the catalogue.

    Attributes
    ----------
    says : str
        Its content.
    rows : callable
        From a report (or None) and a task's name (or None) to its rows; raises an error if there
        are none.
    needs_results, needs_task : bool
    takes_task : bool
        Whether it can show one task; without a name it shows all.
    """

    says: str
    rows: Callable[[Any, str | None], list[dict[str, Any]]]
    needs_results: bool = True
    needs_task: bool = False
    takes_task: bool = False


#: By name; `charts.CHARTS` has the function that draws each.
FIGURES = {
    "leaderboard": Figure("every model's score by group", data.leaderboard_rows),
    "size": Figure("score against number of parameters", data.size_rows),
    "beside": Figure("score against other tasks in the same files", data.beside_rows),
    "surveys": Figure("every model's score by survey", data.survey_rows),
    "conditions": Figure("score against number of conditions", data.condition_rows),
    "nodes": Figure("accuracy on larger graphs against number of variables", data.node_rows),
    "paths": Figure("accuracy on larger graphs against path length", data.path_rows),
    "wins": Figure("how often stated priors beat N real answers", prior_rows.win_rows),
    "quartiles": Figure(
        "quarter of the stated prior in which the truth lies", prior_rows.quartile_rows
    ),
    "uncertainty": Figure(
        "stated against realised uncertainty of priors", prior_rows.uncertainty_rows
    ),
    "versions": Figure("base models against their instruct versions, by task", data.version_rows),
    "tuning": Figure("every task before and after fine-tuning", tuning_rows.tuning_rows),
    "losses": Figure("losses of fine-tuning, with the kept checkpoint", tuning_rows.loss_rows),
    "learning": Figure("score against number of answers trained on", tuning_rows.learning_rows),
    "closed": Figure("written answers against likelihoods on the closed subset", data.closed_rows),
    "calibration": Figure(
        "elicited against true probability, with a reliability curve",
        data.calibration_rows,
        takes_task=True,
    ),
    "order_bias": Figure(
        "probability of each displayed position relative to uniform",
        data.order_bias_rows,
        takes_task=True,
    ),
    "tilt": Figure(
        "tilt against slope of every model's calibration line", tilt.rows, takes_task=True
    ),
    "distribution": Figure(
        "truth and models in the largest cell of a task", data.distribution_rows, needs_task=True
    ),
    "curve": Figure(
        "one answer over the levels of one condition", data.curve_rows, needs_task=True
    ),
    "cells": Figure(
        "elicited against true probability in every cell of a task", data.cell_rows, needs_task=True
    ),
    "bootstrap": Figure(
        "bootstrap distances of a task, with the anchors of its scale",
        data.bootstrap_rows,
        needs_results=False,
        needs_task=True,
    ),
    "map": Figure(
        "truth, answers and errors of a task on a map of the world",
        world_rows.map_rows,
        needs_task=True,
    ),
    "regions": Figure(
        "error of models in each region of the world, and by income", world_rows.region_rows
    ),
    "years": Figure(
        "truth and answers over the years, of all outcomes or of one task",
        world_rows.year_rows,
        takes_task=True,
    ),
    "people": Figure("answers of models against guesses of Americans", world_rows.people_rows),
}


@held()
def save(
    name: str, report: Callable[[], Any], out: Path | None = None, task: str | None = None
) -> Path:
    """Write a figure.

    Parameters
    ----------
    name : str
        A key of `FIGURES`.
    report : callable
        Returns the `Report`; called only for figures that need one.
    out : Path, optional
        Its ending selects the format: .svg, .png (at 300 dots per inch), .pdf, .json (Vega-Lite);
        default ``NAME.svg``.
    task : str, optional
        For figures that show, or can show, one task.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    EpidemiaError
        If there is no such figure or no data for it, `out` cannot be written, or the extra
        ``report`` is not installed.
    """
    if name not in FIGURES:
        raise EpidemiaError(
            f"no figure {name!r} ({nearest(name, FIGURES)}): see 'epidemia plot list'"
        )
    figure = FIGURES[name]
    if figure.needs_task and not task:
        raise EpidemiaError(f"{name} shows one task: name it with --task")
    if task and not (figure.needs_task or figure.takes_task):
        of = ", ".join(known for known, f in FIGURES.items() if f.needs_task or f.takes_task)
        raise EpidemiaError(f"--task {task}: {name} does not show one task; these can: {of}")
    if task and figure.needs_results:
        data.asked_as(task)
    with needs("report", f"the figure {name}"):
        from lm_eval_epidemia.old.report.charts import WRITTEN
    out = out or Path(f"{name}.svg")
    if out.suffix not in WRITTEN:
        raise EpidemiaError(f"--out {out}: expected a name that ends in {', '.join(WRITTEN)}")
    if not out.parent.is_dir():
        raise EpidemiaError(f"--out {out}: there is no folder {out.parent}: make it first")
    if out.is_dir():
        raise EpidemiaError(f"--out {out} is a folder: give a file name")
    results = report() if figure.needs_results else None
    rows = figure.rows(results, task)
    for note in not_known(results.runs) if results and any("mean" in row for row in rows) else []:
        print(f"note: {note}", file=sys.stderr)
    _draw(name, rows, out)
    return out


def save_losses(folder: Path) -> Path:
    """Draw the losses of a training into its folder, like the figure `losses`.

    Parameters
    ----------
    folder : Path
        With a card (``epidemia_finetune.json``) and ``losses.csv``.

    Returns
    -------
    Path
        ``losses.svg`` in the folder.

    Raises
    ------
    EpidemiaError
        If card or losses cannot be read, or the extra ``report`` is not installed.
    """
    rows = tuning_rows.rows_of_losses(folder.resolve().name, read_tuned(folder), folder)
    out = folder / "losses.svg"
    _draw("losses", rows, out)
    return out


def _draw(name: str, rows: list[dict[str, Any]], out: Path) -> None:
    with needs("report", f"the figure {name}"):
        import altair as alt

        from lm_eval_epidemia.old.report.charts import CHARTS, WRITTEN
    try:
        image = WRITTEN[out.suffix](CHARTS[name](alt.Data(values=plain(rows))).to_json())
    except Exception as error:
        raise EpidemiaError(
            f"the figure {name} cannot be drawn from these results: {in_short(error)}"
        ) from error
    with atomic_write(out) as temporary:
        temporary.write_bytes(image)


def in_short(error: Exception) -> str:
    """Describe an error in drawing in one line."""
    return f"{type(error).__name__}: {shorten(str(error), 200)}"
