"""The tables that commands print, where these take more than a few lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from lm_eval_epidemia.cli.printing import plain, table_of
from lm_eval_epidemia.surveys.fresh import GROUP
from lm_eval_epidemia.surveys.record import Kind

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.table import Table

    from lm_eval_epidemia.benchmarks.observation.changes import TruthChange
    from lm_eval_epidemia.benchmarks.observation.drift import Drift
    from lm_eval_epidemia.benchmarks.observation.scales import Scale
    from lm_eval_epidemia.findings.ways import SideBySide


def scales(found: Iterable[Scale]) -> Table:
    """The scale of each task: the distances that fix it, and what knowing P(Y) scores."""
    numbers = ("cells", "D_uniform", "D_zero_one", "D_mean", "D_perfect", "score of mean")
    table = table_of("", "task", *numbers, right=numbers)
    for one in found:
        distances = (f"{distance:.4f}" for distance in one.anchors)
        note = f" ({one.anchors.said})" if one.anchors.said else ""
        table.add_row(
            one.task, str(one.cells), *distances, f"{one.anchors.score_of_mean:.6f}{note}"
        )
    return table


def groups_of_scales(found: Iterable[Scale]) -> Table:
    """The same by group: means, and how many tasks are barely informative."""
    from lm_eval_epidemia.benchmarks.observation.scales import by_group

    numbers = ("tasks", "barely informative", "score of mean")
    table = table_of("", "group", *numbers, right=numbers)
    for group, members in by_group(found).items():
        mean = sum(one.anchors.score_of_mean for one in members) / len(members)
        barely = sum(one.anchors.barely for one in members)
        table.add_row(group, str(len(members)), str(barely), f"{mean:.2f}")
    return table


def drifts(found: Iterable[Drift]) -> Table:
    """What the truth of another vintage scores."""
    numbers = (
        "cells",
        "common",
        "distance",
        "score",
        "D_mean",
        "other D_mean",
        "D_perfect",
        "other D_perfect",
    )
    table = table_of(
        "What another vintage's truth scores", "task", "vintage", "other", *numbers, right=numbers
    )
    for one in found:
        table.add_row(
            one.task,
            one.vintage,
            one.other,
            str(one.cells),
            str(one.common),
            f"{one.distance:.4f}",
            f"{one.score:.1f}",
            f"{one.anchors.mean:.4f}",
            f"{one.other_anchors.mean:.4f}",
            f"{one.anchors.perfect:.4f}",
            f"{one.other_anchors.perfect:.4f}",
        )
    return table


def changes(found: Iterable[TruthChange]) -> Table:
    """What another build of the truth moves."""
    numbers = (
        "cells",
        "distance",
        "D_perfect",
        "new D_perfect",
        "score of mean",
        "new score of mean",
    )
    table = table_of("What the other build changes", "task", "vintage", *numbers, right=numbers)
    for one in found:
        table.add_row(
            one.task,
            one.vintage,
            str(one.cells),
            f"{one.distance:.4f}",
            f"{one.anchors.perfect:.4f}",
            f"{one.new_anchors.perfect:.4f}",
            f"{one.anchors.score_of_mean:.1f}",
            f"{one.new_anchors.score_of_mean:.1f}",
        )
    return table


def tasks_summary(found: DataFrame) -> Table:
    """How many tasks each survey has, and of which state; `found` as `api.tasks` returns it."""
    groups = {f"epidemia_{kind}": kind for kind in get_args(Kind)}
    if (found.group == GROUP).any():
        groups[GROUP] = "fresh"
    states = {"shipped": "shipped", "built here": "built", "waiting": "waiting"}
    numbers = (*groups.values(), *states.values())
    table = table_of(
        "Tasks declared, with a truth that ships or was built here, and waiting for a file",
        "survey",
        *numbers,
        "vintage",
        "waiting for",
        right=numbers,
    )

    def row(name: str, tasks: Any, *told: str) -> None:
        counted = [sum(tasks.group == group) for group in groups]
        counted += [sum(tasks.state == state) for state in states]
        table.add_row(name, *map(str, counted), *told)

    for name, tasks in found.groupby("survey"):
        told = (
            ", ".join(filter(None, dict.fromkeys(tasks[column]))) for column in ("vintage", "needs")
        )
        row(str(name), tasks, *told)
    table.add_section()
    row("all", found, "", "")
    return table


def ways_compared(rows: Sequence[SideBySide]) -> Table:
    """A model's mean scores in all of its ways, side by side."""
    from lm_eval_epidemia.benchmarks import WAYS, groups
    from lm_eval_epidemia.findings.overview import of_group
    from lm_eval_epidemia.report.sections import written

    asked = [way for way in WAYS if any(way in row.means for row in rows)]
    headings = " / ".join(dict.fromkeys(groups()[row.group].heading for row in rows))
    title = f"{headings}: over the tasks asked in all of a model's ways (± standard error)"
    table = table_of(title, "model", "group", "tasks", *asked, right=("tasks", *asked))
    for row in rows:
        shown = [written(row.means.get(way), of_group(row.group)) for way in asked]
        table.add_row(plain(row.model), row.group, str(row.tasks), *shown)
    return table
