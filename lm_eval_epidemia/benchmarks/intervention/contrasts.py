"""Means over the effects of interventions, and their differences, each with its error.

Its draws are of scenes (`metrics.clustered`), see `score.estimates`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.intervention.metrics import Graded, clustered, clusters
from lm_eval_epidemia.benchmarks.intervention.questions import Questions
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.score.estimates import NOTHING, Estimate, paired


def picked(graded: Graded, chosen: NDArray[np.bool_]) -> Graded:
    """Return the effects that are chosen, shape (N,)."""
    return Graded._make(each[chosen] for each in graded)


def shared(one: Graded, other: Graded) -> tuple[Graded, Graded]:
    """Return the effects that are in both, as each has them."""
    return (
        picked(one, np.isin(one.numbers, other.numbers)),
        picked(other, np.isin(other.numbers, one.numbers)),
    )


def mean(truth: Questions, graded: Graded, of: Any) -> Estimate:
    """Average over effects.

    Parameters
    ----------
    truth : Questions
    graded : Graded
        N effects of it.
    of : ndarray, shape (N,)
        What is averaged.

    Returns
    -------
    Estimate
        With all effects there, of one graph and intervened variable: the mean over queries of each
        sample, averaged over the samples, and their standard deviation over the root of how many
        they are.
    """
    of = np.asarray(of, dtype=float)
    if not len(of):
        return NOTHING
    ids, strata = clusters(truth, graded)
    at, there = clustered(truth, graded, of), np.unique(ids)
    freedom = len(there) - len(np.unique(strata[there]))
    return Estimate(float(of.mean()), float(at.std(ddof=1)), len(there), freedom, at)


def noticed(truth: Questions, graded: Graded, odds: Array) -> tuple[Estimate, Estimate, Estimate]:
    """Return how an intervention changes the log-odds of yes, where it matters and where it does
    not.

    Parameters
    ----------
    truth : Questions
    graded : Graded
    odds : ndarray, shape (prompts,)

    Returns
    -------
    same, changed, difference : Estimate
        The change from the question before to that after the intervention, in nats: where kappa is
        0, where it is 1, and the second minus the first. A model that ignores the intervention has
        a difference of 0; one that sees which edges it deletes has a negative difference, whatever
        its bias to yes.
    """
    moved = np.array(
        [odds[truth.pairs[n].post] - odds[truth.pairs[n].base] for n in graded.numbers], dtype=float
    )
    same, changed = (
        mean(truth, picked(graded, graded.kappa == kappa), moved[graded.kappa == kappa])
        for kappa in (0, 1)
    )
    return same, changed, paired(changed, same)


def known_scenes(graded: Graded) -> NDArray[np.int64]:
    """Return the scenes with all prompts answered correctly."""
    return np.setdiff1d(graded.scene, graded.scene[~graded.right])
