"""``likelihood``: the probability of each answer, asked for with 22 intervals.

"What is the probability that ...?", "A. 0%", "B. 0%-5%", ...: the likeliest interval is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.observation.response import Response, response_to
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.intervals import (
    BIN_LETTERS,
    BINS,
    MIDPOINTS,
    asked_levels,
    bin_of,
    distribution,
)
from lm_eval_epidemia.elicit.prompts import prompt
from lm_eval_epidemia.elicit.responses import CHOICE_MASS, logprobs_of, softmax
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import Elicited, Metric, Way
from lm_eval_epidemia.elicit.within import most_moved
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate.store import GroundTruth


def rows(truth: GroundTruth, variant: Variant, request: str = "") -> Iterator[dict[str, Any]]:
    """Ask for the probability of each asked level in each cell."""
    wording = Wording(truth, variant.wording)
    for cell in range(len(truth.given)):
        for level in asked_levels(len(truth.levels)):
            text = prompt(wording.probability(cell, level), BINS, request=request)
            yield {"cell": cell, "level": level, "prompt": text}


def read(row: Any, responses: Sequence[Any]) -> Response:
    """Read the log-probabilities of the intervals."""
    return response_to("likelihood", row, row.level, logprobs_of(responses, row))


def check(answer: Response, _first: Response, truth: GroundTruth) -> None:
    """Refuse a level that is not asked: an answer's place is its level."""
    if answer.place not in asked_levels(len(truth.levels)):
        raise ValueError(f"level {answer.place} is not asked")


def elicited(values: Array, _first: Response, levels: int) -> Elicited:
    """Take the middle of the likeliest interval; beside it, that of all, by their probability."""
    over_bins = softmax(values)
    return Elicited(
        distribution(MIDPOINTS[over_bins.argmax(axis=-1)], levels),
        expected=distribution(over_bins @ MIDPOINTS, levels),
    )


def moved(values: Array, low: Array, high: Array, _first: Response, levels: int) -> Array:
    """Bound how far each cell's distribution may be off: other intervals that may be likeliest."""
    may = high >= low.max(axis=-1, keepdims=True)
    p = MIDPOINTS[values.argmax(axis=-1)]
    least = np.minimum(np.where(may, MIDPOINTS, 1.0).min(axis=-1), p)
    most = np.maximum(np.where(may, MIDPOINTS, 0.0).max(axis=-1), p)
    if levels == 2:
        apart: Array = 2 * np.maximum(most - p, p - least)[:, 0]
        return apart
    farthest = most_moved(*(of[:, None] for of in (distribution(p, levels), least, most)))
    # Where all may be 0 they count as equally likely, which no bound on shares knows.
    return np.where((least.sum(axis=-1) == 0) & (most.sum(axis=-1) > 0), 2.0, farthest)


def bin_mass(answers: Sequence[Response]) -> float:
    """Mean probability of the chosen interval, among the letters; in [1/22, 1]."""
    over_bins = softmax(np.array([answer.value for answer in answers]))
    return float(over_bins.max(axis=-1).mean())


def example(truth: GroundTruth, cell: int, rng: np.random.Generator) -> str:
    """Answer the question for a level with the interval that holds its probability."""
    level = int(rng.choice(asked_levels(len(truth.levels))))
    asked = prompt(Wording(truth).probability(cell, level), BINS)
    return f"{asked} {BIN_LETTERS[bin_of(float(truth.p[cell, level]))]}"


def believed(p: Array, row: Any) -> Array:
    """Be sure of the interval that holds the level's probability."""
    return np.eye(len(BINS))[bin_of(p[row.level])]


def told(p: Array) -> Array:
    """Round a distribution to the midpoints of its intervals."""
    middles = [MIDPOINTS[bin_of(float(p[level]))] for level in asked_levels(len(p))]
    return distribution(np.array(middles), len(p))


WAY = Way(
    name="likelihood",
    suffix="_likelihood",
    columns={"level": "int8", "choices": ["string"]},
    rows=rows,
    prompts=lambda truth, _first: len(asked_levels(len(truth.levels))),
    prompts_are="levels",
    choices=lambda _truth: BIN_LETTERS,
    read=read,
    check=check,
    distribution=elicited,
    moved=moved,
    expects=True,
    diagnostics={"choice_mass": CHOICE_MASS, "bin_mass": Metric(bin_mass, True, 0, 1)},
    question=lambda wording, cell, level: wording.probability(cell, level),
    answers=lambda _truth: BINS,
    example=example,
    believed=believed,
    told=told,
)
