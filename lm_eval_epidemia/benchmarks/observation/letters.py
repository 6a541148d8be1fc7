"""``letters``: every question in several orderings of its answers, read from the letters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.observation.response import Response, place_of, response_to
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.orderings import LETTERS, design_of, orderings
from lm_eval_epidemia.elicit.prompts import prompt
from lm_eval_epidemia.elicit.responses import CHOICE_MASS, logprobs_of, softmax, uneven
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import DistributionWay, Elicited, Metric, Way
from lm_eval_epidemia.elicit.within import most_moved
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate.store import GroundTruth


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


def mean_by_position(answers: Sequence[Response]) -> Array:
    """Average over prompts what each displayed position got."""
    displayed: Array = softmax(np.array([answer.value for answer in answers])).mean(axis=0)
    return displayed


def order_bias(answers: Sequence[Response]) -> float:
    """Position bias: total variation distance of the mean probability by position from uniform.

    In [0, 1): 0 if all letters have the same mean probability, 1 - 1/K if the same letter is always
    chosen. It is meaningful if every level was shown equally often in every position, as under all
    orderings.
    """
    return uneven(mean_by_position(answers))


@lru_cache(maxsize=4096)
def _place(order: tuple[int, ...], design: str) -> int:
    lacks = f"not of the design {design!r}"
    return place_of(order, orderings(len(order), design) if len(order) > 1 else (), lacks)


class InOrders(Way):
    """Every question in several orderings of its answers, read from the letters."""

    columns = {"order": ["int8"], "design": "string", "choices": ["string"]}
    prompts_are = "orderings"
    diagnostics = {"choice_mass": CHOICE_MASS, "order_bias": Metric(False, 0, 1, order_bias)}

    @abstractmethod
    def questions(self, truth: Any, variant: Variant) -> Iterable[str]:
        """Word the question of each cell."""

    def rows(self, truth: Any, variant: Variant) -> Iterator[dict[str, Any]]:
        """Ask each cell in every ordering of the design."""
        design = design_of(len(truth.levels), variant.orderings)
        orders = orderings(len(truth.levels), design)
        for cell, asked in enumerate(self.questions(truth, variant)):
            for order in orders:
                text = prompt(asked, [truth.levels[level] for level in order])
                yield {"cell": cell, "order": list(order), "design": design, "prompt": text}

    def read(self, row: Any, responses: Sequence[Any]) -> Response:
        """Read the log-probabilities of a row's letters, by displayed position."""
        place, logprobs = _place(row.order, row.design), logprobs_of(responses, row)
        return response_to(self.name, row, place, logprobs, order=row.order, design=row.design)

    def choices(self, truth: Any) -> Sequence[str]:
        return LETTERS[: len(truth.levels)]

    def prompts(self, truth: Any, first: Response) -> int:
        return len(orderings(len(truth.levels), str(first.design)))

    def check(self, answer: Response, first: Response, truth: Any) -> None:
        """Refuse an ordering of other levels, and another design than the first's."""
        if answer.design != first.design:
            raise ValueError("it was asked in another way than the first")
        if len(answer.order) != len(truth.levels):
            raise ValueError(
                f"the order {list(answer.order)} is not of the design {answer.design!r}"
            )

    def by_position(self, answers: Sequence[Response]) -> Array | None:
        return mean_by_position(answers)

    def by_order(self, values: Array, first: Response, levels: int) -> Array:
        """Return what each level got under each ordering, shape (C, M, K)."""
        return by_level(softmax(values), np.array(orderings(levels, first.design)))

    def believed(self, belief: Array, row: Any) -> Array:
        """Give each displayed level its probability."""
        return belief[list(row.order)]


class Asked(DistributionWay):
    """The question of a survey, with its answers."""

    def question(self, wording: Wording, cell: int, level: int) -> str:
        return wording.question(cell)

    def answers(self, truth: GroundTruth) -> Sequence[str]:
        return truth.levels


class Letters(InOrders, Asked):
    """The answers of a survey's question, and the probability of each."""

    name = "letters"

    def questions(self, truth: GroundTruth, variant: Variant) -> Iterable[str]:
        return map(Wording(truth, variant.wording).question, range(len(truth.given)))

    def distribution(self, values: Array, first: Response, levels: int) -> Elicited:
        """Average over the orderings what each level got."""
        by_order = self.by_order(values, first, levels)
        return Elicited(by_order.mean(axis=1), by_order=by_order)

    def moved(self, values: Array, low: Array, high: Array, first: Response, levels: int) -> Array:
        """Bound how far each cell's distribution, the mean over its orderings, may be off."""
        orders = np.array(orderings(levels, first.design))
        return most_moved(*(by_level(seen, orders) for seen in (softmax(values), low, high)))

    def example(self, truth: GroundTruth, cell: int, rng: np.random.Generator) -> str:
        """Answer a question in a random order of its answers as a person of the cell might."""
        order = rng.permutation(len(truth.levels))
        asked = prompt(Wording(truth).question(cell), [truth.levels[level] for level in order])
        p = truth.p[cell, order]
        return f"{asked} {LETTERS[int(rng.choice(len(order), p=p / p.sum()))]}"
