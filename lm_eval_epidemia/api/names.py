"""Names of tasks, as the functions of `api` take them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS, in_way, leaves, unions
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import all_tasks


def task_name(task: Any) -> str:
    """Return the name of a task or of a truth's task; refuse groups."""
    if isinstance(task, store.GroundTruth):
        return task.task
    if not isinstance(task, str):
        raise EpidemiaError(f"task {task!r}: expected the name of a task, see tasks()")
    if task not in leaves() and task in members_of_groups():
        listed = few(sorted(members_of_groups()[task]))
        raise EpidemiaError(f"{task} is a group: name one of its tasks ({listed})")
    return task


def with_distribution(task: Any) -> str:
    """Return the name of a task; refuse tasks that are not about a distribution."""
    name = task_name(task)
    if name not in all_tasks() and (leaf := leaves().get(name)):
        if leaf.benchmark is OBSERVATION:
            raise EpidemiaError(
                f"{name}: give the task's name, {leaf.entry.name!r}; the truth is the same in "
                "every way"
            )
        raise EpidemiaError(
            f"{name} is about {leaf.benchmark.heading.lower()}, so it has no distribution; "
            f"questions({leaf.entry.name!r}, way={leaf.way!r}) has its prompts"
        )
    return name


def members_of_groups() -> dict[str, set[str]]:
    """Return the task names of every group that lm-eval knows."""
    groups = defaultdict(set)
    for leaf in leaves().values():
        if WAYS[leaf.way].asks(leaf.entry.declared):
            for name in leaf.entry.groups:
                groups[in_way(name, leaf.way)].add(leaf.entry.name)
    for name, members in unions().items():
        groups[name] = {leaves()[task].entry.name for task in members}
    return groups
