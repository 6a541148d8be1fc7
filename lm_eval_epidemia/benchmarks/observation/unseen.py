"""What letters that a server did not show may do to a score.

See `elicit.within`: their probabilities are known between bounds only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.observation.metrics import against_truth
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.elicit.within import Within, bounds
from lm_eval_epidemia.score import collect

#: Points of the score, and probability of letters behind a number without a bound, that may go
#: unnoticed.
MOST, MOST_MASS = 1.0, 0.01


class Unseen(NamedTuple):
    """What was shared out among letters that were not shown, and what it does to the score.

    Attributes
    ----------
    mass : float
        Mean over prompts of the probability that letters of which nothing was shown were given, in
        [0, 1].
    effect : float
        Points by which the score can be off at most, for these and for further spellings of letters
        that were shown in one: above 0 also where `mass` is 0. NaN where there is no score, or its
        way of asking has no bound.
    """

    mass: float
    effect: float


def unseen(answers: Sequence[Any]) -> Unseen | None:
    """Say what letters that were not shown may do to a task's score, with a warning above 1 point.

    The distance moves by at most ``sum_x w_x L(x)``, where L(x) bounds the L1 distance of the
    cell's distribution from the one that the true probabilities would give; the score is monotone
    in the distance, so that it is off by most at one end of that interval.

    Parameters
    ----------
    answers : sequence of Answer

    Returns
    -------
    Unseen or None
        None where every log-probability is known.
    """
    values = [answer.value if isinstance(answer.value, tuple) else () for answer in answers]
    bounded = [[p for p in logprobs if isinstance(p, Within)] for logprobs in values]
    if not any(bounded):
        return None
    shared = [math.fsum(math.exp(p) for p in hidden if not p.shown) for hidden in bounded]
    if (way := WAYS.get(answers[0].way)) is None:  # of another benchmark: it has no such bound
        return Unseen(float(np.mean(shared)), math.nan)
    name, hidden = way.named(answers[0].task), Unseen(float(np.mean(shared)), _effect(answers))
    if hidden.effect > MOST:
        lacking = "letters are shown in one spelling and not in others"
        if hidden.mass:
            lacking = f"letters not shown have probability {hidden.mass:.2g}"
        notices.warn(
            "letters that were not shown",
            f"{name}: the server shows only its most likely tokens; the others may change the "
            f"score by up to {hidden.effect:.1f} points ({lacking}). Use a server that accepts "
            "logprob_token_ids (vLLM), or one that shows more tokens",
        )
    if hidden.mass > MOST_MASS and way.expects:
        notices.warn(
            "letters that were not shown, in score_expected",
            f"{name}: letters that the server did not show have probability {hidden.mass:.2g}; "
            "unseen_effect bounds their effect on the score, but not on score_expected",
        )
    return hidden


def _effect(answers: Sequence[Any]) -> float:
    first, moved = answers[0], WAYS[answers[0].way].moved
    if moved is None or (measured := against_truth(answers)) is None:
        return math.nan
    values = collect.collected(WAYS, answers).said
    places = tuple(np.array([(answer.cell, answer.place) for answer in answers]).T)
    low, high = np.zeros_like(values), np.ones_like(values)
    low[places], high[places] = map(np.array, zip(*(bounds(a.value) for a in answers), strict=True))
    part, l1 = measured.part, measured.l1
    cells, levels = part.complete, len(part.truth.levels)
    off = float(part.weights @ moved(values[cells], low[cells], high[cells], first, levels))
    ends = part.score_of(np.array([max(l1 - off, 0.0), l1 + off]))
    return float(np.abs(ends - measured.score).max())
