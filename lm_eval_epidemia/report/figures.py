"""The figures of findings: each a declaration in `figures.yaml`, which `save` draws into a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.core.paths import atomic_write, read_yaml
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.cells import find_asked
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
    says : str
        What it shows.
    finding : str
        Its name in `FINDINGS`, or of a function in `findings.cells` and the like that takes a task.
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
    axes : mapping of str to mapping
        By column, what its axis has here.
    """

    says: str
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
    axes: Mapping[str, Mapping[str, Any]] = {}

    @property
    def task(self) -> bool:
        """Whether it shows one task."""
        return ":" in self.finding

    def axis(self, column: str) -> Axis:
        """Return the axis of a column: its own, or that of every figure."""
        return Axis(**self.axes.get(column, _DECLARED["axes"].get(column, {})))


_DECLARED: dict[str, Any] = read_yaml(__package__, "figures.yaml")

#: Figures whose rows come from the script of a page, as Vega-Lite.
SCRIPTED: dict[str, dict[str, Any]] = read_yaml(__package__, "pages.yaml")

#: Every figure, by name.
CHARTS = {name: Chart(**how) for name, how in _DECLARED["figures"].items()}


def save(
    name: str, results: Callable[[], Results], out: Path, task: str | None = None, width: int = 504
) -> Path:
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
    width : int
        In points: a column of a paper has about 240, a page 504. Letters have 8 points.

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
        near = suggest(name, CHARTS)
        raise EpidemiaError(f"no figure {name!r} ({near}): see 'epidemia plot list'")
    chart = CHARTS[name]
    if chart.task != bool(task):
        what = "shows one task: name it with --task" if chart.task else "does not show one task"
        raise EpidemiaError(f"{name} {what}")
    if task:
        find_asked(task)
    with needs("report", f"the figure {name}"):
        from lm_eval_epidemia.report.charts import WRITTEN, prepare_rows
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
    if prepare_rows(chart, finding.table).empty:
        empty = f"there is nothing to draw for {name} in these results ({chart.says})"
        why = finding.left_out if finding.table.empty else []
        raise EpidemiaError("\n".join(why or [empty]))
    return _write_figure(chart, finding.table, out, width)


def save_losses(folder: Path) -> Path:
    """Draw the losses of a training into its folder; return the path of ``losses.svg``.

    Parameters
    ----------
    folder : Path
        With a card (``epidemia_finetune.json``) and ``losses.csv``.
    """
    from lm_eval_epidemia.findings.tuning import losses_of

    return _write_figure(CHARTS["losses"], losses_of(folder), folder / "losses.svg")


def _write_figure(chart: Chart, table: pd.DataFrame, out: Path, width: int = 504) -> Path:
    """Draw a table into a file."""
    with needs("report", "figures"):
        from lm_eval_epidemia.report.charts import WRITTEN, draw, draw_map, prepare_rows
    wide, is_map = int(width / (2 if chart.facet else 1)), chart.mark == "map"
    drawn = draw_map(prepare_rows(chart, table)) if is_map else draw(chart, table, wide=wide)
    with atomic_write(out) as temporary:
        temporary.write_bytes(WRITTEN[out.suffix](drawn, width))
    return out
