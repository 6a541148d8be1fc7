"""Random tasks of a survey, and the rules for keeping them.

A draw is an outcome and its conditions. It is kept if the survey can estimate its truth, and the
record does not declare it; all of this is determined by counting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate.cells import Estimated
from lm_eval_epidemia.estimate.estimators import Counts
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.estimate.store import d_perfect
from lm_eval_epidemia.score.score import zero
from lm_eval_epidemia.surveys.fresh import FreshTask
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata
from lm_eval_epidemia.surveys.record import MAX_LEVELS, Record
from lm_eval_epidemia.surveys.variable import Rake, Universe

#: Sampled units that make a cell large, and the share of the people in such cells, at least.
LARGE, IN_LARGE = 30, 0.9
#: The share of the way from knowing nothing to the truth that is beyond sampling error, more than.
TOLD = 0.5
#: No answer is that of more people.
COMMON = 0.98
#: Variables that tell each other so far, as a share of what there is to tell, are one recoded.
SAME = 0.9

#: As a set records them.
RULES = {
    "units of a large cell": LARGE,
    "share in large cells": IN_LARGE,
    "scale beyond sampling error": TOLD,
    "share of one answer": COMMON,
    "normalised mutual information": SAME,
}

#: Why a draw is refused, by the rule that it breaks; the first in this order counts.
REASONS = {
    "declared": "the survey declares a task of the same variables",
    "recoded": f"two of its variables are one recoded (mutual information from {SAME} on)",
    "part": "a condition is known of a part of the population only",
    "empty": "no record has all of its variables, or all are in one cell",
    "common": f"one answer is that of more than {COMMON:.0%}",
    "small": f"less than {IN_LARGE:.0%} of the people are in cells of {LARGE} or more",
    "short": f"not more than {TOLD:.0%} of its scale is beyond sampling error",
}


class Draw(NamedTuple):
    """An outcome and its conditions, in the record's order."""

    outcome: str
    given: tuple[str, ...]


class Space(NamedTuple):
    """What can be drawn.

    Attributes
    ----------
    outcomes : tuple of str
    conditions : tuple of str
        Some are outcomes too.
    dimensions : tuple of int
        Numbers of conditions.
    """

    outcomes: tuple[str, ...]
    conditions: tuple[str, ...]
    dimensions: tuple[int, ...]

    @property
    def sizes(self) -> dict[tuple[str, int], int]:
        """How many draws there are of each outcome with each number of conditions, if any."""
        return {
            (outcome, number): size
            for outcome in self.outcomes
            for number in self.dimensions
            if (size := comb(len(set(self.conditions) - {outcome}), number))
        }


def draws(space: Space, rng: np.random.Generator) -> Iterator[Draw]:
    """Give every draw of a space once, at random.

    Outcomes and numbers of conditions are as likely as each other while draws of them are left,
    although there are many more draws with more conditions.
    """
    left = space.sizes
    seen: set[Draw] = set()
    while left:
        outcome, number = list(left)[rng.integers(len(left))]
        others = [name for name in space.conditions if name != outcome]
        chosen = sorted(rng.choice(len(others), number, replace=False))
        drawn = Draw(outcome, tuple(others[place] for place in chosen))
        if drawn not in seen:
            seen.add(drawn)
            left[outcome, number] -= 1
            left = {kind: count for kind, count in left.items() if count}
            yield drawn


def _form(subject: str) -> str:
    """Return the word that conditions follow: "who" or "in" of "living in {conditions}"."""
    return (subject.partition("{conditions}")[0].split() or [""])[-1]


def who_is_asked(record: Record, outcome: str) -> tuple[tuple[Universe, ...], str | None] | None:
    """Return universe and subject of fresh tasks of an outcome.

    Those that most of its declared tasks have; of equally many, the first. Only subjects after
    whose word the phrases of any condition fit are taken ("who {conditions}", not "living in
    {conditions}"): where all are others, and no universe is declared, the record's own.

    Returns
    -------
    (tuple of Universe, str or None) or None
        None if nobody can say who is asked.
    """
    declared = [(t.universe, t.subject) for t in record.declared if t.outcome == outcome]
    usual = _form(record.subject)
    fitting = [asked for asked in declared if _form(asked[1] or record.subject) == usual]
    if fitting:
        return Counter(fitting).most_common(1)[0][0]
    return None if any(universe for universe, _ in declared) else ((), None)


def _is_phrased(record: Record, name: str) -> bool:
    """Tell whether a variable's phrases fit the record's subject, as far as declared tasks say."""
    usual = _form(record.subject)
    forms = {_form(t.subject or record.subject) for t in record.declared if name in t.given}
    return not forms or usual in forms


def space_of(data: Microdata, dimensions: Sequence[int], outcomes: Sequence[str] = ()) -> Space:
    """Return what can be drawn from a survey's file.

    Outcomes have a question, at most `MAX_LEVELS` answers, and it is known who is asked;
    conditions have phrases that fit the record's subject. Estimated outcomes are neither: their two
    variables are drawn.
    """
    record, ways = data.record, data.variables
    here = [name for name in record.variables if name in ways and not record.is_joint(name)]
    lettered = [
        name for name in here if ways[name].question and len(ways[name].levels) <= MAX_LEVELS
    ]
    wanted = [name for name in lettered if name in outcomes] if outcomes else lettered
    asked = [name for name in wanted if who_is_asked(record, name)]
    conditions = [name for name in here if _is_phrased(record, name)]
    return Space(tuple(asked), tuple(conditions), tuple(dimensions))


def normalised_information(joint: Array) -> float:
    """Return the mutual information of two variables, as a share of the smaller entropy.

    ``I(X; Y) / min(H(X), H(Y))``: 1 if one is a function of the other, however coarse.

    Parameters
    ----------
    joint : ndarray, shape (K, L)
        Weights of their levels.

    Returns
    -------
    float
        In [0, 1]; 0 if one has a single level.
    """
    p = joint / joint.sum()
    x, y = p.sum(axis=1), p.sum(axis=0)
    least = min(_entropy(x), _entropy(y))
    if least <= 0:
        return 0.0
    return float(np.clip((_entropy(x) + _entropy(y) - _entropy(p.ravel())) / least, 0, 1))


def _entropy(p: Array) -> float:
    some = p[p > 0]
    return float(-(some * np.log(some)).sum())


class Informed:
    """How far the variables of a survey tell each other, each pair found out once."""

    def __init__(self, data: Microdata) -> None:
        self._data = data
        self._known: dict[frozenset[str], float] = {}
        self._asked = data.weight > 0
        for universe in data.record.universe:
            self._asked &= data.within(universe)

    def __call__(self, first: str, second: str) -> float:
        if (pair := frozenset((first, second))) not in self._known:
            levels, ways = self._data.levels, self._data.variables
            both = self._asked & (levels[first] != MISSING) & (levels[second] != MISSING)
            shape = len(ways[first].levels), len(ways[second].levels)
            flat = levels[first][both].astype(np.int64) * shape[1] + levels[second][both]
            weight = np.bincount(flat, self._data.weight[both], minlength=shape[0] * shape[1])
            joint = weight.astype(np.float64).reshape(shape)
            self._known[pair] = normalised_information(joint) if both.any() else 0.0
        return self._known[pair]


def _is_part(data: Microdata, drawn: Draw) -> bool:
    """Tell whether weights speak for the population where the outcome, but no condition, is known.

    A file may hold some variables of a part of the population only, and rake its weights for
    tasks with these outcomes.
    """
    rules = data.record.vintages[data.vintage].adjustments
    raked = [set(rule.outcomes) for rule in rules if isinstance(rule, Rake)]
    return any(drawn.outcome not in names and names & set(drawn.given) for names in raked)


def short(zero: float, perfect: float) -> bool:
    """Return whether too little of a scale exceeds sampling error."""
    return not zero - perfect > TOLD * zero


def refusal(data: Microdata, task: FreshTask, informed: Informed, replicates: int) -> str | None:
    """Return the reason against a drawn task, a key of `REASONS`; None if it is kept.

    D_zero and D_perfect are those of the counted truth, whatever estimates the task: a fit, which
    draws cells together, has hardly less of its scale beyond sampling error.

    Parameters
    ----------
    data : Microdata
    task : FreshTask
    informed : Informed
        Of the same data.
    replicates : int
        Of the bootstrap of records that D_perfect is from.
    """
    variables = [task.outcome, *task.given]
    # P(A and B | X) tells P(A | B, X), and P(A and B) of everybody P(A | B).
    declared = ({*data.record.parts(t.outcome), *t.given} for t in data.record.all_tasks)
    if set(variables) in declared:
        return "declared"
    pairs = ((a, b) for n, a in enumerate(variables) for b in variables[:n])
    if any(informed(*pair) >= SAME for pair in pairs):
        return "recoded"
    if _is_part(data, Draw(task.outcome, task.given)):
        return "part"
    try:
        ready = prepare(data, task)
    except EpidemiaError:
        return "empty"
    if len(ready.weights) < 2:
        return "empty"
    if ready.marginal.max() > COMMON:
        return "common"
    if ready.weights[ready.n >= LARGE].sum() < IN_LARGE:
        return "small"
    counts, rng = Counts(), np.random.default_rng()
    p = counts.fit(ready, ready.record_weights, rng)
    drawn = counts.draws(ready, "iid", replicates, Estimated(p, p[None], p[None]))
    perfect = d_perfect(distance(ready.weights, drawn, p))
    return "short" if short(float(zero(ready.weights, p)), perfect) else None
