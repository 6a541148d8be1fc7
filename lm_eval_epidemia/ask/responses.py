"""A model's response to a prompt, before a way of asking turns it into an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.ask.bounds import Within
from lm_eval_epidemia.ask.replies.forms import strip_thought
from lm_eval_epidemia.ask.way import Answer, Metric
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.surveys.record import MAX_LEVELS

#: Stands for log 0: finite, as a model's log-probabilities are, and exp() of it is exactly 0.
LOG_ZERO = -1e4


def logprobs_of(responses: Sequence[Any], row: Any) -> tuple[float, ...]:
    """Read the log-probability of each letter of a row.

    Parameters
    ----------
    responses : sequence of (float, bool)
        Log-probability of each letter, and whether it is the likeliest token.
    row : struct
        With as many `choices`.

    Raises
    ------
    ValueError
        If the responses have another form.
    """
    try:
        logprobs = tuple(p if isinstance(p, Within) else float(p) for p, _greedy in responses)
    except (TypeError, ValueError):
        raise ValueError("expected for each letter a pair (log-probability, is greedy)") from None
    if len(logprobs) != len(row.choices):
        raise ValueError(f"{len(logprobs)} log-probabilities, expected {len(row.choices)}")
    return logprobs


def softmax(logprobs: Array) -> Array:
    """Normalise log-probabilities along the last axis; NaN if one is NaN or +inf."""
    with np.errstate(invalid="ignore"):
        shifted = np.exp(logprobs - logprobs.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def uniform_distance(shares: Array) -> float:
    """Total variation distance from uniform of the share of each displayed position."""
    return float(np.abs(shares - 1 / len(shares)).sum() / 2)


def choice_mass(masses: Sequence[float]) -> float:
    """Mean total probability of the letters, before normalisation: 1 at most, but for rounding."""
    return float(np.mean(masses))


def _mass(answer: Answer) -> float:
    try:
        return math.fsum(math.exp(logprob) for logprob in answer.value)
    except OverflowError:  # nothing a model can mean: the metrics will say so
        return math.inf


def most_mass(letters: int) -> float:
    """Return the largest sum of a prompt's probabilities that rounding can explain, slightly above
    1.

    Models in bfloat16 give log-probabilities of 8 significant bits. Log-softmax rounds twice, and
    the sum over a letter's tokens once more, so that l may be off by 3 |l| / 2**8 and p = exp(l)
    read as p ** (1 - 3 / 2**8). K of these, where the p sum to 1 at most, sum to K ** (3 / 2**8) at
    most, when all are equal. lm-eval's `hf` in bfloat16 was seen to give 1.0065 on 22 letters.

    Parameters
    ----------
    letters : int

    Returns
    -------
    float
        1.008 for 2 letters, 1.037 for 22.
    """
    return float(letters ** (3 / 2**8))


CHOICE_MASS = Metric(True, 0, most_mass(MAX_LEVELS), choice_mass, _mass)


def answered_share(answers: Sequence[Any]) -> float:
    """Share of the replies in which an answer could be read; in [0, 1]."""
    return float(np.mean([answer.is_read for answer in answers]))


def truncated_share(cut: Sequence[float]) -> float:
    """Share of the replies that were cut in their thought: allow more tokens; in [0, 1]."""
    return float(np.mean(cut))


#: Of every way in which a model writes.
WRITTEN = {
    "answered": Metric(True, 0, 1, answered_share),
    "truncated": Metric(
        False, 0, 1, truncated_share, of_text=lambda reply: strip_thought(reply)[1]
    ),
}
