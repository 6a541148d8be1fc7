"""Save a figure of a finding as a file."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pandas as pd

from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.core.paths import atomic_write
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.finding import Finding
from lm_eval_epidemia.findings.tuning import losses_of
from lm_eval_epidemia.report.charts import CHARTS, WRITTEN, Chart, draw, draw_map, prepared
from lm_eval_epidemia.results.read import Results

__all__ = ["CHARTS", "save", "save_losses"]


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
    drawn = draw_map(prepared(chart, table)) if chart.mark == "map" else draw(chart, table)
    with atomic_write(out) as temporary:
        temporary.write_bytes(WRITTEN[out.suffix](drawn))
    return out
