"""Which variables are outcomes, which are conditions, and the tasks that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

from lm_eval_epidemia.surveys.draft.variables import Draft
from lm_eval_epidemia.surveys.draft.words import ABOUT_INTERVIEW, DEMOGRAPHIC
from lm_eval_epidemia.surveys.record import MAX_LEVELS

#: Cells of a condition; answers that are easily asked for; what hardly differs.
CELLS = 60
EASY = range(2, 11)
ONE_SIDED = 0.98

#: Of ten tasks, so many may have two conditions; an outcome has at most so many tasks at first.
OF_TEN = 1
EACH = 2


class Plan(NamedTuple):
    """A task: an outcome and its conditions, by the names of their variables."""

    outcome: str
    given: tuple[str, ...]


def conditions_of(drafts: Sequence[Draft]) -> list[Draft]:
    """Propose conditions: of each demographic kind one variable, that which tells people apart.

    Parameters
    ----------
    drafts : sequence of Draft
    """
    found = []
    for kind in DEMOGRAPHIC:
        of_kind = [one for one in drafts if one.kind == kind and 2 <= len(one.levels) <= CELLS]
        if of_kind:
            found.append(max(of_kind, key=_as_condition))
    return found


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
    kinds = {one.kind for one in conditions} - {""}
    able = [
        one
        for one in drafts
        if one not in conditions
        and one.kind not in kinds
        and len(one.levels) <= MAX_LEVELS
        and one.most <= ONE_SIDED
        and not ABOUT_INTERVIEW.fits(one.column.name, one.column.label)
    ]
    found: list[Draft] = []
    for easy in (True, False):
        for labelled in (True, False):
            alike = [
                one
                for one in able
                if (len(one.levels) in EASY) == easy and one.labelled == labelled
            ]
            left = most - len(found)
            if len(alike) > left:
                # Neighbours in a questionnaire are about one thing.
                alike = [alike[n * len(alike) // left] for n in range(left)] if left else []
            found += alike
    return sorted(found, key=list(drafts).index)


def planned(
    outcomes: Sequence[Draft],
    conditions: Sequence[Draft],
    most: int,
    possible: Callable[[Plan], bool] = lambda plan: True,
) -> list[Plan]:
    """Plan tasks: mostly of one condition, a few of two where the outcome is yes or no.

    Parameters
    ----------
    outcomes, conditions : sequence of Draft
    most : int
        How many at most.
    possible : callable
        Tells whether a task has people enough.

    Returns
    -------
    list of Plan
        Those of one condition first, each outcome's together.
    """
    pairs = [
        Plan(outcome.name, (first.name, second.name))
        for outcome in outcomes
        if len(outcome.levels) == 2
        for first, second in combinations(conditions, 2)
        if outcome.name not in (first.name, second.name)
    ]
    single: list[Plan] = []
    # Round by round, so that every outcome has a task before one has three.
    for round_ in range(len(conditions)):
        for place, outcome in enumerate(outcomes):
            given = conditions[(place + round_) % len(conditions)]
            if given.name != outcome.name:
                single.append(Plan(outcome.name, (given.name,)))
    of_two = min(len(pairs), most * OF_TEN // 10)
    kept: list[Plan] = []
    names: set[str] = set()

    def take(plans: Sequence[Plan], until: int) -> None:
        for plan in plans:
            name = f"{plan.outcome}_by_{'_'.join(plan.given)}"
            if len(kept) < until and name not in names and possible(plan):
                names.add(name)
                kept.append(plan)

    take(single, most - of_two)
    # Spread over the outcomes.
    step = max(len(pairs) // of_two, 1) if of_two else 1
    take([*pairs[::step], *pairs], len(kept) + of_two)
    order = {outcome.name: n for n, outcome in enumerate(outcomes)}
    return sorted(kept, key=lambda plan: (len(plan.given), order[plan.outcome]))
