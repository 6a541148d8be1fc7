"""How much letters that a server did not show may change a score.

See `elicit.within`: only bounds of their probabilities are known.
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
    """The probability assigned to letters that were not shown, and its effect on the score.

    Attributes
    ----------
    mass : float
        Mean over prompts of the probability assigned to letters that were not shown at all, in [0,
        1].
    effect : float
        The most points by which the score can be wrong because of these letters, and of other
        spellings of letters shown in one; it can exceed 0 even if `mass` is 0. NaN if there is no
        score, or the way of asking has no bound.
    """

    mass: float
    effect: float


def unseen(answers: Sequence[Any]) -> Unseen | None:
    """Bound how much letters that were not shown may change a task's score; warn above 1 point.

    The distance changes by at most ``sum_x w_x L(x)``, where L(x) bounds the L1 distance between
    the cell's distribution and the one from the true probabilities. The score is monotone in the
    distance, so its error is largest at one end of that interval.

    Parameters
    ----------
    answers : sequence of Answer

    Returns
    -------
    Unseen or None
        None if every log-probability is known.
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
    first, way = answers[0], WAYS[answers[0].way]
    if (measured := against_truth(answers)) is None:
        return math.nan
    values = collect.collected(WAYS, answers).said
    places = tuple(np.array([(answer.cell, answer.place) for answer in answers]).T)
    low, high = np.zeros_like(values), np.ones_like(values)
    low[places], high[places] = map(np.array, zip(*(bounds(a.value) for a in answers), strict=True))
    part, l1 = measured.part, measured.l1
    cells, levels = part.complete, len(part.truth.levels)
    off = float(part.weights @ way.moved(values[cells], low[cells], high[cells], first, levels))
    ends = part.score_of(np.array([max(l1 - off, 0.0), l1 + off]))
    return float(np.abs(ends - measured.score).max())
