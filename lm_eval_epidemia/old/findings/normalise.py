"""Other scales for the same distance, all derived from a task's `l1` and its anchors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lm_eval_epidemia.score.score import Anchors, scale


def _without_perfect(distance: float, anchors: Anchors) -> float:
    # A zero of the scale that is the truth itself: only the truth reaches it.
    if anchors.zero == 0:
        return 100.0 if distance == 0 else 0.0
    return 100 * max(1 - distance / anchors.zero, 0.0)


#: By name: from a distance in [0, 2] and the anchors to 0..100.
NORMALISATIONS: dict[str, Callable[[float, Anchors], float]] = {
    "score": lambda d, anchors: float(scale(d, anchors.zero, anchors.perfect)),
    "against uniform": lambda d, anchors: float(scale(d, anchors.uniform, anchors.perfect)),
    "against mean": lambda d, anchors: float(scale(d, anchors.mean, anchors.perfect)),
    "without D_perfect": _without_perfect,
}


def normalise(distance: float, anchors: Anchors, how: str) -> float:
    """Put a distance on one of the scales.

    Parameters
    ----------
    distance : float
        `l1` of a task, in [0, 2] (of sampled answers, up to Monte Carlo error); NaN gives NaN.
    anchors : Anchors
    how : str
        ``score``: 0 is the better of uniform and, of a binary outcome, the commoner answer; 100 is
        `D_perfect`. ``against uniform``: 0 is the uniform answer. ``against mean``: 0 is the
        respondent that knows averages only. ``without D_perfect``: as the score, but 100 is the
        truth itself: ``100 max(1 - D / D_zero, 0)``.

    Returns
    -------
    float
        In [0, 100].
    """
    return float("nan") if np.isnan(distance) else NORMALISATIONS[how](distance, anchors)
