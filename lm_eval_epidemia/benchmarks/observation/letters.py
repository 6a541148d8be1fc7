"""``letters``: every question in several orderings of its answers, read from the letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.orderings import LETTERS, design_of, orderings
from lm_eval_epidemia.elicit.prompts import prompt
from lm_eval_epidemia.elicit.responses import CHOICE_MASS, logprobs_of, softmax, uneven
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import Elicited, Metric, Way
from lm_eval_epidemia.elicit.within import most_moved
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate.store import GroundTruth


class Letters(NamedTuple):
    """A model's answer to one prompt: the log-probability of each displayed letter.

    Attributes
    ----------
    way, task, truth, cell
        As of every `Answer`.
    order : tuple of int, length K
        Level number at each displayed position.
    design : str
        Which orderings the cell is asked in, see `elicit.orderings`.
    logprobs : tuple of float, length K
        Natural logarithms, by displayed position, not normalised over the letters.
    """

    way: str
    task: str
    truth: str
    cell: int
    order: tuple[int, ...]
    design: str
    logprobs: tuple[float, ...]

    @property
    def place(self) -> int:
        return _places(len(self.order), self.design)[self.order]

    @property
    def value(self) -> tuple[float, ...]:
        return self.logprobs


@lru_cache(maxsize=64)
def _places(levels: int, design: str) -> dict[tuple[int, ...], int]:
    return {order: place for place, order in enumerate(orderings(levels, design))}


def rows(truth: GroundTruth, variant: Variant) -> Iterator[dict[str, Any]]:
    """Ask each cell in every ordering of the design."""
    design = design_of(len(truth.levels), variant.orderings)
    orders, wording = orderings(len(truth.levels), design), Wording(truth, variant.wording)
    for cell in range(len(truth.given)):
        asked = wording.question(cell)
        for order in orders:
            text = prompt(asked, [truth.levels[level] for level in order])
            yield {"cell": cell, "order": list(order), "design": design, "prompt": text}


def read(row: Any, responses: Sequence[Any]) -> Letters:
    """Read the log-probabilities of a row's letters."""
    return Letters(
        "letters", row.task, row.truth, row.cell, row.order, row.design, logprobs_of(responses, row)
    )


def check(answer: Letters, first: Letters, truth: GroundTruth) -> None:
    """Refuse an ordering that is none of the design, and another design than the first's."""
    if answer.design != first.design:
        raise ValueError("it was asked in another way than the first")
    if answer.order not in _places(len(truth.levels), answer.design):
        raise ValueError(f"the order {list(answer.order)} is not of the design {answer.design!r}")


def by_level(displayed: Array, orders: np.ndarray[Any, Any]) -> Array:
    """Bring probabilities from displayed positions back to levels.

    Parameters
    ----------
    displayed : ndarray, shape (..., M, K)
        Probability of each displayed position under each ordering.
    orders : ndarray of int, shape (M, K)
        Level number at each displayed position.

    Returns
    -------
    ndarray, shape (..., M, K)
        Probability of each level under each ordering; average over M to get P~.
    """
    position_of_level = np.argsort(orders, axis=-1)
    target = np.broadcast_to(position_of_level, displayed.shape)
    return np.take_along_axis(displayed, target, axis=-1)


def distribution(said: Array, one: Letters, levels: int) -> Elicited:
    """Average over the orderings what each level got."""
    found = by_level(softmax(said), np.array(orderings(levels, one.design)))
    return Elicited(found.mean(axis=1), by_order=found)


def moved(said: Array, low: Array, high: Array, one: Letters, levels: int) -> Array:
    """Bound how far each cell's distribution, the mean over its orderings, may be off."""
    orders = np.array(orderings(levels, one.design))
    return most_moved(*(by_level(seen, orders) for seen in (softmax(said), low, high)))


def by_position(answers: Sequence[Letters]) -> Array:
    """Average over prompts what each displayed position got."""
    displayed: Array = softmax(np.array([answer.logprobs for answer in answers])).mean(axis=0)
    return displayed


def order_bias(answers: Sequence[Letters]) -> float:
    """Position bias: total variation distance of the mean probability by position from uniform.

    In [0, 1): 0 when every letter is as probable as any other on average, 1 - 1/K when the same
    letter is always chosen. It says something where every level was shown equally often in every
    position, as it is under all orderings.
    """
    return uneven(by_position(answers))


ORDER_BIAS = Metric(order_bias, False, 0, 1)


def example(truth: GroundTruth, cell: int, rng: np.random.Generator) -> str:
    """Answer a question in a random order of its answers as a person of the cell might."""
    order = rng.permutation(len(truth.levels))
    asked = prompt(Wording(truth).question(cell), [truth.levels[level] for level in order])
    p = truth.p[cell, order]
    return f"{asked} {LETTERS[int(rng.choice(len(order), p=p / p.sum()))]}"


def believed(p: Array, row: Any) -> Array:
    """Give each displayed level its probability."""
    return p[list(row.order)]


WAY = Way(
    name="letters",
    suffix="",
    columns={"order": ["int8"], "design": "string", "choices": ["string"]},
    rows=rows,
    prompts=lambda truth, one: len(orderings(len(truth.levels), one.design)),
    prompts_are="orderings",
    choices=lambda truth: LETTERS[: len(truth.levels)],
    read=read,
    check=check,
    distribution=distribution,
    moved=moved,
    diagnostics={"choice_mass": CHOICE_MASS, "order_bias": ORDER_BIAS},
    by_position=by_position,
    question=lambda wording, cell, _level: wording.question(cell),
    answers=lambda truth: truth.levels,
    example=example,
    believed=believed,
)
