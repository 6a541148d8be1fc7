"""The choice of outcomes and conditions, and the tasks made of them that have people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from lm_eval_epidemia.surveys.draft.variables import Draft
from lm_eval_epidemia.surveys.draft.words import ABOUT_INTERVIEW, DEMOGRAPHIC
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata
from lm_eval_epidemia.surveys.record import MAX_LEVELS

#: Cells of a condition; answers that are easily asked for; what hardly differs.
CELLS = 60
EASY = range(2, 11)
ONE_SIDED = 0.98

#: A draft has at most so many tasks.
TASKS = 40
#: Of ten tasks, so many may have two conditions; an outcome has at most so many tasks at first.
OF_TEN = 1
EACH = 2


class TaskPlan(NamedTuple):
    """A task: an outcome and its conditions, by the names of their variables."""

    outcome: str
    given: tuple[str, ...]


def conditions_of(drafts: Sequence[Draft]) -> list[Draft]:
    """Propose conditions: one variable per demographic kind, the most suitable one.

    Parameters
    ----------
    drafts : sequence of Draft
    """
    proposed = []
    for kind in DEMOGRAPHIC:
        of_kind = [d for d in drafts if d.kind == kind and 2 <= len(d.levels) <= CELLS]
        proposed += [max(of_kind, key=_as_condition)] if of_kind else []
    return proposed


def _as_condition(draft: Draft) -> tuple[bool, bool, bool, float]:
    return (draft.known > 0.8, len(draft.levels) <= 12, draft.labelled, -draft.most)


def outcomes_of(drafts: Sequence[Draft], conditions: Sequence[Draft], most: int) -> list[Draft]:
    """Propose outcomes: labelled ones of 2 to 10 answers first, from all over the file.

    Parameters
    ----------
    drafts : sequence of Draft
        In the order of the file.
    conditions : sequence of Draft
        Which, with others of their kind, are none.
    most : int
        How many at most.
    """
    kinds = {condition.kind for condition in conditions} - {""}
    able = [
        draft
        for draft in drafts
        if draft not in conditions
        and draft.kind not in kinds
        and len(draft.levels) <= MAX_LEVELS
        and draft.most <= ONE_SIDED
        and not ABOUT_INTERVIEW.fits(draft.column)
    ]
    chosen: list[Draft] = []
    for wanted in product((True, False), (True, False)):
        alike = [d for d in able if (len(d.levels) in EASY, d.labelled) == wanted]
        left = min(most - len(chosen), len(alike))
        # Neighbours in a questionnaire are about one thing, so they are spread.
        chosen += [alike[n * len(alike) // left] for n in range(left)]
    return sorted(chosen, key=list(drafts).index)


def plan_tasks(
    outcomes: Sequence[Draft],
    conditions: Sequence[Draft],
    most: int,
    possible: Callable[[TaskPlan], bool] = lambda plan: True,
) -> list[TaskPlan]:
    """Plan tasks: mostly with one condition, a few with two if the outcome is yes or no.

    Parameters
    ----------
    outcomes, conditions : sequence of Draft
    most : int
        How many at most.
    possible : callable
        Tells whether a task has people enough.

    Returns
    -------
    list of TaskPlan
        Those of one condition first, each outcome's together.
    """
    pairs = [
        TaskPlan(outcome.name, (first.name, second.name))
        for outcome in outcomes
        if len(outcome.levels) == 2
        for first, second in combinations(conditions, 2)
        if outcome.name not in (first.name, second.name)
    ]
    # Round by round, so that every outcome has a task before one has three.
    rounds = product(range(len(conditions)), enumerate(outcomes))
    given = [(out, conditions[(place + n) % len(conditions)]) for n, (place, out) in rounds]
    single = [
        TaskPlan(out.name, (condition.name,))
        for out, condition in given
        if out.name != condition.name
    ]
    of_two = min(len(pairs), most * OF_TEN // 10)
    kept: dict[str, TaskPlan] = {}

    def take(plans: Sequence[TaskPlan], until: int) -> None:
        for plan in plans:
            name = f"{plan.outcome}_by_{'_'.join(plan.given)}"
            if len(kept) < until and name not in kept and possible(plan):
                kept[name] = plan

    take(single, most - of_two)
    # Spread over the outcomes.
    step = max(len(pairs) // max(of_two, 1), 1)
    take([*pairs[::step], *pairs], len(kept) + of_two)
    order = {outcome.name: n for n, outcome in enumerate(outcomes)}
    return sorted(kept.values(), key=lambda plan: (len(plan.given), order[plan.outcome]))


#: A task has people enough.
PEOPLE = 30

#: What two variables share of what the lesser of them tells, from which one recodes the other.
SAME = 0.9


def is_possible(data: Microdata, plan: TaskPlan) -> bool:
    """Tell whether a task can be estimated from the records, and is worth it."""
    columns = np.array([data.levels[name] for name in (plan.outcome, *plan.given)])
    keep = (data.weight > 0) & (columns != MISSING).all(axis=0)
    outcome, *given = columns[:, keep]
    if keep.sum() < PEOPLE or any(len(np.unique(column)) < 2 for column in columns[:, keep]):
        return False
    return all(_information(outcome, condition, data.weight[keep]) < SAME for condition in given)


def _information(
    first: NDArray[np.int16], other: NDArray[np.int16], weight: NDArray[np.float64]
) -> float:
    """Return the mutual information of two variables, over the lesser of their entropies."""
    table = np.zeros((first.max() + 1, other.max() + 1))
    np.add.at(table, (first, other), weight)
    p = table / table.sum()
    rows, columns, both = (entr(of).sum() for of in (p.sum(axis=1), p.sum(axis=0), p))
    least = min(rows, columns)
    return float((rows + columns - both) / least) if least > 0 else 1.0
