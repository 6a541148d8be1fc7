"""Simulated respondents with known answers, and the scales of tasks, whose ends some of them are.

Shapes as in `distance`: ``weights`` (C,), distributions (..., C, K)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.score.score import Anchors, answer_marginal, answer_uniformly, zero_one

#: The name of each kind in reports.
RESPONDENTS = {
    "truth": "knows the truth",
    "uniform": "guesses uniformly",
    "mean": "knows averages only",
    "zero_one": "gives everybody the commoner answer",
    "noisy": "knows the truth with noise",
}
KINDS = tuple(RESPONDENTS)


def simulate_answers(truth: GroundTruth, kind: str, noise: float = 1.0, seed: int = 0) -> Array:
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
        return answer_uniformly(p)
    if kind == "mean":
        return answer_marginal(weights, p)
    if kind == "zero_one":
        return zero_one(weights, p)
    if kind == "noisy":
        rng = np.random.default_rng([seed, zlib.crc32(truth.task.encode())])
        perturbed = p * np.exp(noise * rng.standard_normal(p.shape))
        return perturbed / perturbed.sum(axis=1, keepdims=True)
    raise EpidemiaError(f"there is no baseline kind={kind!r} ({suggest(kind, KINDS)})")


class TaskScale(NamedTuple):
    """The scale of one task.

    Attributes
    ----------
    task, survey, vintage : str
    cells : int
    anchors : Anchors
    """

    task: str
    survey: str
    vintage: str
    cells: int
    anchors: Anchors


def list_scales(
    tasks: Iterable[str],
    quantile: float = store.QUANTILE,
    scheme: Scheme | None = None,
    vintage: str | None = None,
) -> list[TaskScale]:
    """Return the scale of each task, by default as scores use it.

    Parameters
    ----------
    tasks : iterable of str
    quantile : float
        Of the bootstrap distances, between 0 and 1.
    scheme : {"iid", "design"}, optional
        Of the bootstrap.
    vintage : str, optional

    Raises
    ------
    EpidemiaError
        If a task has no such vintage or bootstrap here.
    """
    truths = ((name, store.load_truth(name, vintage)) for name in tasks)
    return [
        TaskScale(name, t.survey, t.vintage, len(t.weights), Anchors.of(t, quantile, scheme))
        for name, t in truths
    ]


def has_bootstrap(task: str, scheme: Scheme, vintage: str | None = None) -> bool:
    """Return whether a bootstrap gives a task's D_perfect; for an exact table it is always 0."""
    truth = store.load_truth(task, vintage)
    return not truth.distances or scheme in truth.distances
