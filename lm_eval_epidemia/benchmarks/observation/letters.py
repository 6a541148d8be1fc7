"""``letters``: every question in several orderings of its answers, read from the letters.

``sampled`` is the same, but the model writes its answer, many times for each cell.
"""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lm_eval_epidemia.ask.bounds import bound_change
from lm_eval_epidemia.ask.orderings import LETTERS, SEED, design_of, orderings
from lm_eval_epidemia.ask.prompts import ONE_LETTER, Wording, prompt
from lm_eval_epidemia.ask.replies.letters import read_letter
from lm_eval_epidemia.ask.responses import (
    CHOICE_MASS,
    WRITTEN,
    logprobs_of,
    softmax,
    uniform_distance,
)
from lm_eval_epidemia.ask.variants import MOST_SAMPLES, Variant
from lm_eval_epidemia.ask.way import Answer, DistributionWay, Elicited, Metric, Way
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.store import GroundTruth


def place_of(order: Sequence[int], orders: Sequence[Sequence[int]], lacks: str) -> int:
    """Return which of some orderings one is.

    Raises
    ------
    ValueError
        If it is none of them: it `lacks` what they have.
    """
    if order not in orders:
        raise ValueError(f"the order {list(order)} is {lacks}")
    return orders.index(order)


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


def mean_by_position(answers: Sequence[Answer]) -> Array:
    """Average over prompts what each displayed position got."""
    return np.asarray(softmax(np.array([answer.value for answer in answers])).mean(axis=0))


def order_bias(answers: Sequence[Answer]) -> float:
    """Position bias: total variation distance of the mean probability by position from uniform.

    In [0, 1): 0 if all letters have the same mean probability, 1 - 1/K if the same letter is always
    chosen. It is meaningful if every level was shown equally often in every position, as under all
    orderings.
    """
    return uniform_distance(mean_by_position(answers))


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

    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read the log-probabilities of a row's letters, by displayed position."""
        place, logprobs = _place(row.order, row.design), logprobs_of(responses, row)
        return self.answer(row, logprobs, place, order=row.order, design=row.design)

    def choices(self, truth: Any) -> Sequence[str]:
        return LETTERS[: len(truth.levels)]

    def count_prompts(self, truth: Any, first: Answer) -> int:
        return len(orderings(len(truth.levels), str(first.design)))

    def check(self, answer: Answer, first: Answer, truth: Any) -> None:
        """Refuse an ordering of other levels, and another design than the first's."""
        if answer.design != first.design:
            raise ValueError("it was asked in another way than the first")
        if len(answer.order) != len(truth.levels):
            order, design = list(answer.order), answer.design
            raise ValueError(f"the order {order} is not of the design {design!r}")

    def by_position(self, answers: Sequence[Answer]) -> Array | None:
        return mean_by_position(answers)

    def by_order(self, values: Array, first: Answer, levels: int) -> Array:
        """Return what each level got under each ordering, shape (C, M, K)."""
        return by_level(softmax(values), np.array(orderings(levels, first.design)))

    def believed(self, belief: Array, row: Any) -> Array:
        """Give each displayed level its probability."""
        return belief[list(row.order)]


class SurveyQuestion(DistributionWay):
    """The question of a survey, with its answers."""

    def question(self, wording: Wording, cell: int, level: int) -> str:
        return wording.question(cell)

    def answers(self, truth: GroundTruth) -> Sequence[str]:
        return truth.levels


class Letters(InOrders, SurveyQuestion):
    """The answers of a survey's question, and the probability of each."""

    name = "letters"

    def questions(self, truth: GroundTruth, variant: Variant) -> Iterable[str]:
        return map(Wording(truth, variant.wording).question, range(len(truth.given)))

    def distribution(self, values: Array, first: Answer, levels: int) -> Elicited:
        """Average over the orderings what each level got."""
        by_order = self.by_order(values, first, levels)
        return Elicited(by_order.mean(axis=1), by_order=by_order)

    def moved(self, values: Array, low: Array, high: Array, first: Answer, levels: int) -> Array:
        """Bound how far each cell's distribution, the mean over its orderings, may be off."""
        orders = np.array(orderings(levels, first.design))
        return bound_change(*(by_level(seen, orders) for seen in (softmax(values), low, high)))

    def example(self, truth: GroundTruth, cell: int, rng: np.random.Generator) -> str:
        """Answer a question in a random order of its answers as a person of the cell might."""
        order = rng.permutation(len(truth.levels))
        asked = prompt(Wording(truth).question(cell), [truth.levels[level] for level in order])
        p = truth.p[cell, order]
        return f"{asked} {LETTERS[int(rng.choice(len(order), p=p / p.sum()))]}"


def written_by_position(answers: Sequence[Answer]) -> Array | None:
    """Return the share of each displayed position among the letters written; None without one."""
    written = [answer.order.index(answer.value) for answer in answers if answer.is_read]
    if not written:
        return None
    counts = np.bincount(written, minlength=len(answers[0].order)).astype(float)
    return np.asarray(counts / counts.sum())


def written_order_bias(answers: Sequence[Answer]) -> float:
    """Position bias: total variation distance of the letters written from uniform, in [0, 1).

    NaN when none could be read. Letters are drawn, so it is above 0 by chance too.
    """
    shares = written_by_position(answers)
    return math.nan if shares is None else uniform_distance(shares)


class Sampled(Letters):
    """As `Letters`, but the model writes its answer, many times for each cell."""

    name = "sampled"
    suffix = "_sampled"
    parted = ()
    columns = {"order": ["int8"], "sample": "int32", "n_samples": "int32", "choices": ["string"]}
    prompts_are = "answers"
    diagnostics = {**WRITTEN, "order_bias": Metric(False, 0, 1, written_order_bias)}
    request = ONE_LETTER
    temperature = 1.0
    # As many answers as a run wants: only the package makes these.
    exported = False
    revision = 1

    def rows(self, truth: GroundTruth, variant: Variant) -> Iterator[dict[str, Any]]:
        """Ask each cell as often as answers are wanted, each time in a random ordering of its own.

        The number of the interview makes every text different: lm-eval stores responses by text,
        and would give all answers to the same text the same response when a run is taken up again.
        """
        levels, number = len(truth.levels), variant.n_samples
        key = zlib.crc32(truth.task.encode())
        for cell, asked in enumerate(self.questions(truth, variant)):
            rng = np.random.default_rng([SEED, key, cell])
            # Row by row: the first hundred of two hundred are those of a run with one hundred.
            orders = rng.permuted(np.tile(np.arange(levels), (number, 1)), axis=1)
            for sample, order in enumerate(orders.tolist(), start=1):
                answers = [truth.levels[level] for level in order]
                text = prompt(asked, answers, f"(Interview {sample})", ONE_LETTER)
                row = {"cell": cell, "order": order, "sample": sample}
                yield {**row, "n_samples": number, "prompt": text}

    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read the letter that was written: the level that it stands for."""
        position = read_letter(str(responses[0]), len(row.order))
        level = None if position is None else row.order[position]
        return self.answer(row, level, row.sample - 1, order=row.order, design=row.n_samples)

    def count_prompts(self, truth: GroundTruth, first: Answer) -> int:
        return int(first.design)

    def check(self, answer: Answer, first: Answer, truth: GroundTruth) -> None:
        """Refuse what is no ordering of the levels, and another number of answers."""
        sample, number, levels = answer.place + 1, int(answer.design), len(truth.levels)
        if answer.design != first.design:
            raise ValueError("it was asked in another way than the first")
        if sorted(answer.order) != list(range(levels)):
            raise ValueError(f"the order {list(answer.order)} is not one of {levels} answers")
        if not 1 <= sample <= number <= MOST_SAMPLES:
            raise ValueError(f"answer {sample} of {number}")

    def distribution(self, values: Array, first: Answer, levels: int) -> Elicited:
        """Count the answers; one that could not be read stands for all levels alike."""
        numbers = np.where(np.isnan(values), levels, values)
        counts = (numbers[:, :, None] == np.arange(levels + 1)).sum(axis=1)
        shares = counts / counts.sum(axis=1, keepdims=True)
        return Elicited(shares[:, :-1] + shares[:, -1:] / levels, counts=counts)

    def by_position(self, answers: Sequence[Answer]) -> Array | None:
        return written_by_position(answers)


WAY, SAMPLED = Letters(), Sampled()
