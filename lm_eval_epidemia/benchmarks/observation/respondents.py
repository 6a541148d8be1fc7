"""Simulated respondents with known answers: anchors of the scale, shown next to models.

Shapes as in `distance`: ``weights`` (C,), distributions (..., C, K).
"""

from __future__ import annotations

import zlib

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.score.score import mean, uniform, zero_one

#: The name of each kind in reports.
RESPONDENTS = {
    "truth": "knows the truth",
    "uniform": "guesses uniformly",
    "mean": "knows averages only",
    "zero_one": "gives everybody the commoner answer",
    "noisy": "knows the truth with noise",
}
KINDS = tuple(RESPONDENTS)


def answers(truth: GroundTruth, kind: str, noise: float = 1.0, seed: int = 0) -> Array:
    """Return P(Y | X) as a simulated respondent believes it to be.

    Parameters
    ----------
    truth : GroundTruth
    kind : {"truth", "uniform", "mean", "zero_one", "noisy"}
        ``truth`` knows the survey's figures, ``uniform`` gives all answers the same probability,
        ``mean`` knows P(Y) only, ``zero_one`` always gives the more common answer, ``noisy`` adds
        normal noise to the log-probabilities of the truth.
    noise : float
        Standard deviation of the noise.
    seed : int
        Seed of the noise, which also depends on the task's name.

    Returns
    -------
    ndarray, shape (C, K)
    """
    weights, p = truth.weights, truth.p
    if kind == "truth":
        return p
    if kind == "uniform":
        return uniform(p)
    if kind == "mean":
        return mean(weights, p)
    if kind == "zero_one":
        return zero_one(weights, p)
    if kind == "noisy":
        rng = np.random.default_rng([seed, zlib.crc32(truth.task.encode())])
        perturbed = p * np.exp(noise * rng.standard_normal(p.shape))
        return perturbed / perturbed.sum(axis=1, keepdims=True)
    raise EpidemiaError(f"there is no baseline kind={kind!r} ({nearest(kind, KINDS)})")
