"""The metrics of a task asked for probabilities, from the answers to its prompts.

Each takes the answers of one task, in any order, and returns one number. A cell counts when all
its levels were asked; see `metrics` for what happens under ``--limit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.elicit.answers import Estimate
from lm_eval_epidemia.elicit.likelihood import MIDPOINTS, asked_levels, distribution
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.metrics import choice_mass

__all__ = [
    "against_truth",
    "bin_mass",
    "choice_mass",
    "l1",
    "score",
    "score_expected",
    "score_stderr",
    "seen",
]


class _Estimated(NamedTuple):
    """The complete cells of a task, C' of them."""

    part: collect.Part
    over_bins: Array  # (C', A, 22), probability of each interval for each asked level

    @property
    def q(self) -> Array:
        """The distribution made of the midpoints of the likeliest intervals; (C', K)."""
        return distribution(MIDPOINTS[self.over_bins.argmax(axis=-1)], self.part.p.shape[1])

    @property
    def expected(self) -> Array:
        """The distribution made of the probability-weighted midpoints; (C', K)."""
        return distribution(self.over_bins @ MIDPOINTS, self.part.p.shape[1])


def against_truth(estimates: Sequence[Estimate]) -> _Estimated | None:
    """Put answers against the truth; None when no score can be given, with a warning saying why."""
    truth = collect.installed_truth(estimates)
    levels = asked_levels(len(truth.levels))
    logprobs = np.full((len(truth.weights), len(levels), len(MIDPOINTS)), np.nan)
    answered = np.zeros(logprobs.shape[:2], dtype=bool)
    cells = np.array([estimate.cell for estimate in estimates])
    asked = np.array([levels.index(estimate.level) for estimate in estimates])
    logprobs[cells, asked] = np.array([estimate.logprobs for estimate in estimates], dtype=float)
    answered[cells, asked] = True
    if not collect.readable(estimates[0].asked_as, truth, logprobs, answered):
        return None
    if (part := collect.complete_part(estimates[0].asked_as, truth, answered, "levels")) is None:
        return None
    return _Estimated(part, scoring.softmax(logprobs[part.complete]))


def l1(estimates: Sequence[Estimate]) -> float:
    """Weighted L1 distance of stated from true distributions, in [0, 2]; NaN without score."""
    if (found := against_truth(estimates)) is None:
        return float("nan")
    return found.part.distance(found.q)


def score(estimates: Sequence[Estimate]) -> float:
    """Score from 0 to 100 of the midpoints of the likeliest intervals."""
    if (found := against_truth(estimates)) is None:
        return float("nan")
    return found.part.score(found.q)


def score_expected(estimates: Sequence[Estimate]) -> float:
    """Score from 0 to 100 of the probability-weighted midpoints."""
    if (found := against_truth(estimates)) is None:
        return float("nan")
    return found.part.score(found.expected)


def score_stderr(estimates: Sequence[Estimate]) -> float:
    """Standard error of the score: the survey's sampling error; nothing else is sampled."""
    if (found := against_truth(estimates)) is None:
        return float("nan")
    return found.part.sampling_error(found.q)


def seen(estimates: Sequence[Estimate]) -> float:
    """Share of the population in cells that were asked completely: 1 without ``--limit``."""
    truth = store.load(estimates[0].task)
    asked = {(estimate.cell, estimate.level) for estimate in estimates}
    return collect.share_seen(truth.task, asked, len(asked_levels(len(truth.levels))))


def bin_mass(estimates: Sequence[Estimate]) -> float:
    """Mean probability, among the letters, of the interval that is chosen; in [1/22, 1]."""
    over_bins = scoring.softmax(np.array([estimate.logprobs for estimate in estimates]))
    return float(over_bins.max(axis=-1).mean())
