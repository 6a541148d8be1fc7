"""The tables that commands print, where these take more than a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from lm_eval_epidemia.cli.printing import table_of
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.surveys.catalogue import all_tasks, how_to_build
from lm_eval_epidemia.surveys.fresh import GROUP
from lm_eval_epidemia.surveys.record import Kind

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.table import Table

    from lm_eval_epidemia.benchmarks.observation.respondents import Scale


def _table(
    title: str, names: Sequence[str], numbers: Mapping[str, str], rows: Iterable[Sequence[Any]]
) -> Table:
    """Return a table with columns of names, then of numbers; `numbers` maps headings to formats.

    Surplus values of a row are ignored.
    """
    table = table_of(title, *names, *numbers, right=tuple(numbers))
    formats = [*[""] * len(names), *numbers.values()]
    for row in rows:
        table.add_row(*map(format, row, formats))
    return table


def scales(listed: Iterable[Scale]) -> Table:
    """The scale of each task: the distances that fix it, and what knowing P(Y) scores."""
    distances = dict.fromkeys(("D_uniform", "D_zero_one", "D_mean", "D_perfect"), ".4f")
    rows = []
    for scale in listed:
        note = f" ({scale.anchors.said})" if scale.anchors.said else ""
        rows.append(
            (
                scale.task,
                scale.cells,
                *scale.anchors[:4],
                f"{scale.anchors.score_of_mean:.6f}{note}",
            )
        )
    return _table("", ["task"], {"cells": "", **distances, "score of mean": ""}, rows)


def groups_of_scales(listed: Iterable[Scale]) -> Table:
    """The same by group: means, and how many tasks are barely informative."""
    from lm_eval_epidemia.benchmarks import unions
    from lm_eval_epidemia.benchmarks.observation.respondents import by_group

    rows = []
    for group, members in by_group(listed, unions()).items():
        barely = sum(scale.anchors.barely for scale in members)
        mean = sum(scale.anchors.score_of_mean for scale in members) / len(members)
        rows.append((group, len(members), barely, mean))
    numbers = {"tasks": "", "barely informative": "", "score of mean": ".2f"}
    return _table("", ["group"], numbers, rows)


def tasks_summary(declared: DataFrame) -> Table:
    """The number of tasks per survey and state; `declared` as `api.tasks` returns it."""
    groups = {f"epidemia_{kind}": kind for kind in get_args(Kind)}
    if (declared.group == GROUP).any():
        groups[GROUP] = "fresh"
    states = {"shipped": "shipped", "built here": "built", "waiting": "waiting"}
    numbers = (*groups.values(), *states.values())
    title = "Declared tasks: shipped, built here, or waiting for a file"
    table = table_of(title, "survey", *numbers, "vintage", "waiting for", right=numbers)

    def add(name: str, tasks: Any, *about: str) -> None:
        counts = [sum(tasks.group == group) for group in groups]
        counts += [sum(tasks.state == state) for state in states]
        table.add_row(name, *map(str, counts), *about)

    for name, tasks in declared.groupby("survey"):
        columns = (tasks[column].unique() for column in ("vintage", "needs"))
        add(str(name), tasks, *(", ".join(filter(None, column)) for column in columns))
    table.add_section()
    add("all", declared, "", "")
    return table


def waiting(declared: DataFrame) -> list[str]:
    """Say which files tasks wait for, survey by survey; `declared` as `api.tasks` returns it."""
    of = declared[declared.state == "waiting"].groupby("survey").size()
    return [
        f"{plural(number, 'task')} of {name} wait: {how_to_build(str(name))}"
        for name, number in of.items()
    ]


def standins(declared: DataFrame) -> list[str]:
    """Describe the stand-ins in a list, if there are any."""
    from lm_eval_epidemia.benchmarks.observation import OBSERVATION, STANDIN

    return [f"{STANDIN}: {OBSERVATION.unions[STANDIN]}"] * any(declared.stands_for)


def published(declared: DataFrame) -> list[str]:
    """Count the listed tasks of the published study that have a truth, if any are listed."""
    study = Counter(f"epidemia_{task.kind}" for task in all_tasks().values() if task.number)
    here = Counter(declared.group[declared.state != "waiting"])
    listed = [group for group in study if group in {*declared.group}]
    available = sum(here[group] for group in listed)
    of = ", ".join(f"{here[group]} of {study[group]} in {group}" for group in listed)
    return [
        f"available from the published study: {available} of {study.total()} tasks ({of})"
    ] * bool(listed)
