"""The tables that commands print, where these take more than a few lines."""

from __future__ import annotations

import math
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

    from lm_eval_epidemia.benchmarks.observation.changes import TruthChange
    from lm_eval_epidemia.benchmarks.observation.drift import Drift
    from lm_eval_epidemia.benchmarks.observation.scales import Scale


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
    from lm_eval_epidemia.benchmarks.observation.scales import by_group

    rows = []
    for group, members in by_group(listed, unions()).items():
        barely = sum(scale.anchors.barely for scale in members)
        mean = sum(scale.anchors.score_of_mean for scale in members) / len(members)
        rows.append((group, len(members), barely, mean))
    numbers = {"tasks": "", "barely informative": "", "score of mean": ".2f"}
    return _table("", ["group"], numbers, rows)


def drifts(listed: Sequence[Drift]) -> Table:
    """Whether the truth changed between two vintages, and what the other vintage's truth scores."""
    from lm_eval_epidemia.benchmarks.observation.drift import LEVEL, holm

    numbers = {
        "cells": "",
        "common": "",
        "distance": ".4f",
        "by chance": "",
        "p": "",
        "p, Holm": "",
        "drift": "",
    }
    numbers |= {"score": ".1f"}
    numbers |= dict.fromkeys(("D_mean", "other D_mean", "D_perfect", "other D_perfect"), ".4f")
    rows = []
    for drift, adjusted in zip(listed, holm([drift.p_value for drift in listed]), strict=True):
        test = ("", "", "", "")
        if not math.isnan(adjusted):
            seen = "seen" if adjusted <= LEVEL else "not seen"
            p = (f"{drift.p_value:.4f}", f"{adjusted:.4f}")
            test = (f"{drift.by_chance:.4f}", *p, seen)
        means = (drift.anchors.mean, drift.other_anchors.mean)
        perfects = (drift.anchors.perfect, drift.other_anchors.perfect)
        rows.append((*drift[:6], *test, drift.score, *means, *perfects))
    return _table("Another vintage's truth", ["task", "vintage", "other"], numbers, rows)


def drift_notes(listed: Sequence[Drift]) -> list[str]:
    """The number of tests, and the joint result over the tasks of two vintages."""
    from lm_eval_epidemia.benchmarks.observation.drift import LEVEL, holm, together

    tests = sum(not math.isnan(drift.p_value) for drift in listed)
    notes = []
    if tests:
        notes.append(
            f"{tests} tests. 'by chance': the mean distance between two such samples of one "
            "population; p: the probability that chance alone puts them as far apart as these. "
            f"Drift is seen if p, adjusted for the number of tests (Holm), is at most {LEVEL:g}."
        )
    pairs = together(listed)
    for test, adjusted in zip(pairs, holm([test.p_value for test in pairs]), strict=True):
        seen = "drift seen" if adjusted <= LEVEL else "no drift seen"
        tasks = plural(test.tasks, "task")
        notes.append(
            f"{test.survey} {test.vintage} against {test.other}, {tasks} together: "
            f"{test.ratio:.2f} times the distance expected by chance, p = {test.p_value:.4f} "
            f"({adjusted:.4f} for {len(pairs)} such tests): {seen}"
        )
    if untested := len(listed) - tests:
        notes.append(
            f"{untested} comparisons could not be tested: tables without sampling error, truths "
            "without replicates, different answers in the two vintages, or samples that share "
            "people"
        )
    return notes


def changes(listed: Iterable[TruthChange]) -> Table:
    """What changes with another build of the truth."""
    numbers = {"cells": "", **dict.fromkeys(("distance", "D_perfect", "new D_perfect"), ".4f")}
    numbers |= {"score of mean": ".1f", "new score of mean": ".1f"}
    rows = []
    for change in listed:
        perfects = (change.anchors.perfect, change.new_anchors.perfect)
        means = (change.anchors.score_of_mean, change.new_anchors.score_of_mean)
        rows.append((*change[:4], *perfects, *means))
    return _table("What the other build changes", ["task", "vintage"], numbers, rows)


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
