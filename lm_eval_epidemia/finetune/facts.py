"""Sample people from a survey's file, with the facts for their notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.estimate.adjust import adjust
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata
from lm_eval_epidemia.surveys.record import Task
from lm_eval_epidemia.surveys.variable import Variable


@dataclass(frozen=True)
class Facts:
    """The variables that notes state.

    Attributes
    ----------
    conditions, outcomes : tuple of str
    implied : dict of str to str
        Conditions that follow from a stated one of the same column, such as age groups from age.
    """

    conditions: tuple[str, ...]
    outcomes: tuple[str, ...]
    implied: dict[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.conditions, *self.outcomes)

    def states(self, task: Task) -> bool:
        """Return whether notes tell about a task: its outcome with its conditions."""
        known = {*self.conditions, *self.implied}
        return task.outcome in self.outcomes and known >= set(task.given)


@dataclass(frozen=True)
class People:
    """Sampled people.

    Attributes
    ----------
    variables : dict of str to Variable
        Variables of the facts, as recorded.
    levels : dict of str to ndarray of int16, shape (n,)
        Level of each person, `MISSING` if unknown or not to be stated.
    """

    variables: dict[str, Variable]
    levels: dict[str, NDArray[np.int16]]

    def repeated(self, times: int) -> People:
        """Repeat each person this many times, one after the other."""
        levels = {name: np.repeat(level, times) for name, level in self.levels.items()}
        return People(self.variables, levels)

    def __len__(self) -> int:
        return len(next(iter(self.levels.values())))

    def stated(self, person: int) -> dict[str, int]:
        """Return the facts of a person: level numbers by variable."""
        return {
            name: int(levels[person])
            for name, levels in self.levels.items()
            if levels[person] != MISSING
        }


def tasks_of(data: Microdata, tasks: Iterable[Task]) -> list[Task]:
    """Choose the tasks whose variables notes state by default.

    These are the published tasks with two answers; if the file lacks the outcome of one, also the
    survey's extra tasks, for the outcomes that it has.
    """
    published = [task for task in data.record.declared if task.kind in ("low", "high")]
    lacks = [task for task in published if task.outcome not in data.variables]
    kinds = {"low", "high"} if published and not lacks else {"low", "high", "extra"}
    return [
        task
        for task in tasks
        if task.kind in kinds
        and data.can_estimate(task)
        and len(data.variables[task.outcome].levels) == 2
    ]


def facts_of(data: Microdata, tasks: Iterable[Task]) -> Facts:
    """Return the facts in a file that notes about some tasks state.

    Conditions come first, then outcomes, each in the order of the survey's record. A variable that
    is both is a condition. Of several conditions read from one column, the finest is stated.

    Raises
    ------
    EpidemiaError
        If the file has none of their conditions or none of their outcomes.
    """
    tasks = list(tasks)
    order = list(data.record.variables)
    known = [name for name in order if name in data.variables]
    given = {name for task in tasks for name in task.given}
    outcomes = [n for n in known if n in {task.outcome for task in tasks} and n not in given]
    conditions = [name for name in known if name in given]
    if not tasks:
        raise EpidemiaError(
            f"{data.name} answers no task of {data.record.survey} that asks yes or no: choose "
            "others with --tasks, or take another survey, as nsduh"
        )
    if not conditions or not outcomes:
        asked = sorted(given | {task.outcome for task in tasks}, key=order.index)
        raise EpidemiaError(
            f"{data.name} has no {'outcome' if conditions else 'condition'} to state in notes "
            f"(of {', '.join(asked)}): give the official file, or other --tasks"
        )
    implied = {}
    for name in conditions:
        same = [n for n in conditions if data.variables[n].column == data.variables[name].column]
        finest = max(same, key=lambda n: len(data.variables[n].levels))
        if finest != name:
            implied[name] = finest
    return Facts(tuple(n for n in conditions if n not in implied), tuple(outcomes), implied)


def draw_people(
    data: Microdata,
    facts: Facts,
    tasks: Iterable[Task],
    n: int,
    rng: np.random.Generator,
    unsaid: Mapping[str, Iterable[str]] | None = None,
) -> People:
    """Draw people by survey weight, with replacement, so that shares match the survey's.

    Unknown facts are not stated. People without a known condition or a known outcome, and those
    outside the universe, are not drawn. An outcome is stated only for people whom a task asks.

    Parameters
    ----------
    data : Microdata
    facts : Facts
    tasks : iterable of Task
        The tasks that notes are about.
    n : int
    rng : Generator
    unsaid : mapping of str to iterable of str, optional
        By condition, the labels of held-out levels: notes do not state the condition for people
        with one. Such people are drawn like others, so that notes stay true about other conditions.

    Raises
    ------
    EpidemiaError
        If no one is left to draw.
    """
    tasks = [task for task in tasks if facts.states(task)]
    asked = _within(data, data.record.universe)
    levels: dict[str, NDArray[np.int16]] = {}
    for name in facts.names:
        levels[name] = data.levels[name].copy()
        if name in facts.outcomes:
            insides = [_within(data, task.universe) for task in tasks if task.outcome == name]
            levels[name][~np.any(insides, axis=0)] = MISSING
    for name, labels in (unsaid or {}).items():
        way = data.variables[name]
        out = [k for k, level in enumerate(way.levels) if level.label in set(labels)]
        levels[facts.implied.get(name, name)][np.isin(data.levels[name], out)] = MISSING
    for names in (facts.conditions, facts.outcomes):
        asked &= np.any([levels[name] != MISSING for name in names], axis=0)
    weight = np.where(asked, _weight(data, tasks), 0.0)
    if not weight.any():
        raise EpidemiaError(
            f"{data.name}: no person has both a known condition and a known outcome"
        )
    drawn = rng.choice(len(data), size=n, p=weight / weight.sum())
    return People(
        {name: data.variables[name] for name in facts.names},
        {name: level[drawn] for name, level in levels.items()},
    )


def _within(data: Microdata, universes: Iterable[Any]) -> NDArray[np.bool_]:
    """Return which people are in all universes."""
    inside = [data.within(universe) for universe in universes]
    return np.all([np.ones(len(data), dtype=bool), *inside], axis=0)


def _weight(data: Microdata, tasks: list[Task]) -> Array:
    """Return the weights of records for P(Y | X), which must be equal for all tasks."""
    adjustments = data.record.vintages[data.vintage].adjustments
    if not adjustments:
        return data.weight
    by_outcome = {task.outcome: adjust(data, adjustments, task).weight for task in tasks}
    first = next(iter(by_outcome.values()))
    if differ := [name for name, own in by_outcome.items() if not np.allclose(own, first)]:
        raise EpidemiaError(
            f"the weights of {data.record.survey} {data.vintage} are adjusted separately for "
            f"each outcome, so no person can be drawn for all of {few([*by_outcome])}: with "
            f"--tasks choose only {few(differ)}, or none of them"
        )
    return first


def shuffle_people(people: People, facts: Facts, rng: np.random.Generator) -> People:
    """Give each person all outcomes of another person.

    Relations between outcomes stay, relations with conditions are lost: P(Y | X) of the notes is
    P(Y).
    """
    order = rng.permutation(len(people))
    moved = {name: people.levels[name][order] for name in facts.outcomes}
    return People(people.variables, {**people.levels, **moved})
