"""``likelihood``: the probability of each answer, asked for with 22 intervals.

"What is the probability that ...?", "A. 0%", "B. 0%-5%", ...: the likeliest interval is the answer.
``closed`` and ``rag`` are the same for a subset each, but the model writes the letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.ask.bounds import bound_change
from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.ask.prompts import ONE_LETTER, Wording, prompt
from lm_eval_epidemia.ask.replies.letters import read_letter
from lm_eval_epidemia.ask.responses import CHOICE_MASS, WRITTEN, logprobs_of, softmax
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import Answer, DistributionWay, Elicited, Metric
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.surveys.catalogue import official_cells
from lm_eval_epidemia.surveys.record import Task

#: A. 0%, B. 0%-5%, ..., U. 95%-100%, V. 100%.
BINS = ("0%", *(f"{low}%-{low + 5}%" for low in range(0, 100, 5)), "100%")

BIN_LETTERS = LETTERS[: len(BINS)]

#: The probability for each answer: the interval's midpoint, 0 and 1 at the ends.
MIDPOINTS: Array = np.array([0.0, *((low + 2.5) / 100 for low in range(0, 100, 5)), 1.0])


def asked_levels(levels: int) -> tuple[int, ...]:
    """Return which levels are asked about: of two only the first, since it determines both."""
    return (0,) if levels == 2 else tuple(range(levels))


def bin_of(p: float) -> int:
    """Return the number of the answer that contains a probability.

    Parameters
    ----------
    p : float
        In [0, 1]. 0 and 1 have answers of their own; a boundary belongs to the lower interval.
    """
    if p <= 0:
        return 0
    if p >= 1:
        return len(BINS) - 1
    # Rounded, so that 0.15, which is a little more in binary, is not above its boundary.
    return min(max(int(np.ceil(round(p * 20, 9))), 1), len(BINS) - 2)


def distribution(probabilities: Array, levels: int) -> Array:
    """Turn stated probabilities of the asked levels into a distribution over all levels.

    Parameters
    ----------
    probabilities : ndarray, shape (..., A)
        By asked level, see `asked_levels`.
    levels : int
        K.

    Returns
    -------
    ndarray, shape (..., K)
        Of two levels: p and 1 - p. Of more: divided by their sum; uniform if all are 0.
    """
    if levels == 2:
        return np.concatenate([probabilities, 1 - probabilities], axis=-1)
    total = probabilities.sum(axis=-1, keepdims=True)
    return np.where(total > 0, probabilities / np.where(total > 0, total, 1.0), 1 / levels)


def bin_mass(answers: Sequence[Answer]) -> float:
    """Mean probability of the chosen interval, among the letters; in [1/22, 1]."""
    over_bins = softmax(np.array([answer.value for answer in answers]))
    return float(over_bins.max(axis=-1).mean())


class Likelihood(DistributionWay):
    """The probability of each asked level in each cell, by the log-probabilities of intervals."""

    name = "likelihood"
    suffix = "_likelihood"
    parted = ()
    columns = {"level": "int8", "choices": ["string"]}
    prompts_are = "levels"
    diagnostics = {"choice_mass": CHOICE_MASS, "bin_mass": Metric(True, 0, 1, bin_mass)}
    expects = True

    def rows(self, truth: GroundTruth, variant: Variant) -> Iterator[dict[str, Any]]:
        """Ask for the probability of each asked level in each cell."""
        wording = Wording(truth, variant.wording)
        for cell in range(len(truth.given)):
            for level in asked_levels(len(truth.levels)):
                text = prompt(wording.probability(cell, level), BINS, request=self.request)
                yield {"cell": cell, "level": level, "prompt": text}

    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read the log-probabilities of the intervals."""
        return self.answer(row, logprobs_of(responses, row), row.level)

    def choices(self, truth: GroundTruth) -> Sequence[str]:
        return BIN_LETTERS

    def count_prompts(self, truth: GroundTruth, first: Answer) -> int:
        return len(asked_levels(len(truth.levels)))

    def check(self, answer: Answer, first: Answer, truth: GroundTruth) -> None:
        """Refuse a level that is not asked: an answer's place is its level."""
        if answer.place not in asked_levels(len(truth.levels)):
            raise ValueError(f"level {answer.place} is not asked")

    def distribution(self, values: Array, first: Answer, levels: int) -> Elicited:
        """Take the middle of the likeliest interval; beside it, that of all, by probability."""
        over_bins = softmax(values)
        return Elicited(
            distribution(MIDPOINTS[over_bins.argmax(axis=-1)], levels),
            expected=distribution(over_bins @ MIDPOINTS, levels),
        )

    def moved(self, values: Array, low: Array, high: Array, first: Answer, levels: int) -> Array:
        """Bound how far a cell's distribution may be off: other intervals may be likeliest."""
        may = high >= low.max(axis=-1, keepdims=True)
        p = MIDPOINTS[values.argmax(axis=-1)]
        least = np.minimum(np.where(may, MIDPOINTS, 1.0).min(axis=-1), p)
        most = np.maximum(np.where(may, MIDPOINTS, 0.0).max(axis=-1), p)
        if levels == 2:
            return np.asarray(2 * np.maximum(most - p, p - least)[:, 0])
        farthest = bound_change(*(of[:, None] for of in (distribution(p, levels), least, most)))
        # Where all may be 0 they count as equally likely, which no bound on shares knows.
        return np.where((least.sum(axis=-1) == 0) & (most.sum(axis=-1) > 0), 2.0, farthest)

    def question(self, wording: Wording, cell: int, level: int) -> str:
        return wording.probability(cell, level)

    def answers(self, truth: GroundTruth) -> Sequence[str]:
        return BINS

    def example(self, truth: GroundTruth, cell: int, rng: np.random.Generator) -> str:
        """Answer the question for a level with the interval that holds its probability."""
        level = int(rng.choice(asked_levels(len(truth.levels))))
        asked = prompt(Wording(truth).probability(cell, level), BINS)
        return f"{asked} {BIN_LETTERS[bin_of(float(truth.p[cell, level]))]}"

    def believed(self, belief: Array, row: Any) -> Array:
        """Be sure of the interval that holds the level's probability."""
        return np.eye(len(BINS))[bin_of(belief[row.level])]

    def told(self, p: Array) -> Array:
        """Round a distribution to the midpoints of its intervals."""
        middles = [MIDPOINTS[bin_of(float(p[level]))] for level in asked_levels(len(p))]
        return distribution(np.array(middles), len(p))


#: The closed subset: high-dimensional tasks that have at most this many cells with the levels of
#: the official file, so that it is the same for every vintage.
CLOSED_CELLS = 250


class Written(Likelihood):
    """As `Likelihood`, but the model writes the letter of an interval."""

    diagnostics = WRITTEN
    expects = False
    request = ONE_LETTER
    # A probability is written once, as the model thinks most likely.
    temperature = 0.0
    revision = 1

    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read the letter that was written: the middle of its interval."""
        interval = read_letter(str(responses[0]), len(row.choices))
        middle = None if interval is None else float(MIDPOINTS[interval])
        return self.answer(row, middle, row.level)

    def distribution(self, values: Array, first: Answer, levels: int) -> Elicited:
        """Take the intervals' middles; a cell with an answer that could not be read is uniform."""
        silent = np.isnan(values).any(axis=1, keepdims=True)
        return Elicited(np.where(silent, 1 / levels, distribution(np.nan_to_num(values), levels)))


class Closed(Written):
    """The closed subset."""

    name = "closed"
    suffix = "_closed"

    def asks(self, task: Task) -> bool:
        return task.kind == "high" and official_cells(task) <= CLOSED_CELLS


class Rag(Written):
    """The subset whose conditions can be looked up."""

    name = "rag"
    suffix = "_rag"

    def asks(self, task: Task) -> bool:
        return task.retrieval


WAY, CLOSED, RAG = Likelihood(), Closed(), Rag()
