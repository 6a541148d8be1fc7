"""The scales of tasks: the distances that score 0 and 100, and the score of knowing P(Y)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import task as declared_task
from lm_eval_epidemia.surveys.fresh import FreshTask


class Scale(NamedTuple):
    """The scale of one task.

    Attributes
    ----------
    task, survey, vintage : str
    cells : int
    anchors : Anchors
    """

    task: str
    survey: str
    vintage: str
    cells: int
    anchors: Anchors


def scales(
    tasks: Iterable[str],
    quantile: float = store.QUANTILE,
    scheme: Scheme | None = None,
    vintage: str | None = None,
) -> list[Scale]:
    """Return the scale of each task, by default as scores use it.

    Parameters
    ----------
    tasks : iterable of str
    quantile : float
        Of the bootstrap distances, between 0 and 1.
    scheme : {"iid", "design"}, optional
        Of the bootstrap.
    vintage : str, optional

    Raises
    ------
    EpidemiaError
        If a task has no such vintage or bootstrap here.
    """
    truths = ((name, store.load(name, vintage)) for name in tasks)
    return [
        Scale(name, t.survey, t.vintage, len(t.weights), Anchors.of(t, quantile, scheme))
        for name, t in truths
    ]


def has_bootstrap(task: str, scheme: Scheme, vintage: str | None = None) -> bool:
    """Return whether a bootstrap gives a task's D_perfect; for an exact table it is always 0."""
    truth = store.load(task, vintage)
    return not truth.distances or scheme in truth.distances


def by_group(
    scales: Iterable[Scale], unions: Mapping[str, Collection[str]]
) -> dict[str, list[Scale]]:
    """Sort scales into the groups of their tasks, and those into the order of their names.

    Unions of which every task is there come first; they are given by name, with their tasks.
    """
    groups, of_task = defaultdict(list), dict[str, Scale]()
    for scale in scales:
        task = declared_task(scale.task)
        part = task.part if isinstance(task, FreshTask) else f"{task.group}_{scale.survey}"
        for name in (task.group, part):
            groups[name].append(scale)
        of_task[scale.task] = scale
    whole = {
        name: [of_task[task] for task in sorted(tasks)]
        for name, tasks in unions.items()
        if of_task.keys() >= set(tasks)
    }
    return whole | dict(sorted(groups.items()))
