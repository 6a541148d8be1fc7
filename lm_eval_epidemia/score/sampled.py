"""The metrics of a task whose answers a model wrote, many per cell.

Each takes the replies of one task, in any order, and returns one number. A cell counts when all its
replies are there; see `metrics` for what happens under ``--limit``. `monte_carlo` says how a
distance is estimated from answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.elicit.answers import Reply
from lm_eval_epidemia.score import collect, monte_carlo
from lm_eval_epidemia.score import score as scoring

__all__ = ["against_truth", "answered", "l1", "order_bias", "score", "score_stderr", "seen"]


class _Sampled(NamedTuple):
    """The complete cells of a task, C' of them."""

    part: collect.Part
    counts: NDArray[np.int64]  # (C', K + 1), answers by level; last, those not read

    @property
    def q(self) -> Array:
        levels = self.counts.shape[1] - 1
        shares = self.counts / self.counts.sum(axis=1, keepdims=True)
        q: Array = shares[:, :-1] + shares[:, -1:] / levels
        return q

    @property
    def l1(self) -> float:
        return float(self.part.weights @ monte_carlo.distances(self.part.p, self.counts))


def against_truth(replies: Sequence[Reply]) -> _Sampled | None:
    """Put answers against the truth; None when no score can be given, with a warning saying why."""
    truth = collect.installed_truth(replies)
    levels, number = len(truth.levels), replies[0].n_samples
    said = np.zeros((len(truth.weights), number), dtype=np.int64)
    asked = np.zeros(said.shape, dtype=bool)
    cells = np.array([reply.cell for reply in replies])
    samples = np.array([reply.sample for reply in replies]) - 1
    said[cells, samples] = [
        levels if reply.position is None else reply.order[reply.position] for reply in replies
    ]
    asked[cells, samples] = True
    collect.warn_of_silence(replies[0].asked_as, answered(replies))
    if (part := collect.complete_part(replies[0].asked_as, truth, asked, "answers")) is None:
        return None
    chosen = said[part.complete]
    counts = (chosen[:, :, None] == np.arange(levels + 1)).sum(axis=1)
    return _Sampled(part, counts)


def l1(replies: Sequence[Reply]) -> float:
    """Weighted L1 distance from the truth of what the answers are drawn from.

    In [0, 2] up to Monte Carlo error, which can take it below 0; NaN without score.
    """
    if (found := against_truth(replies)) is None:
        return float("nan")
    return found.l1


def score(replies: Sequence[Reply]) -> float:
    """Score from 0 (no better than knowing nothing) to 100 (cannot be told from the truth)."""
    if (found := against_truth(replies)) is None:
        return float("nan")
    anchors = found.part.anchors
    return float(scoring.scale(found.l1, anchors.zero, anchors.perfect))


def score_stderr(replies: Sequence[Reply]) -> float:
    """Standard error of the score: the survey's sampling error and that of the answers.

    The second is of the distance before the scale is cut off at 0 and 100: a distance that answers
    put beyond an end is not for that known exactly.
    """
    if (found := against_truth(replies)) is None:
        return float("nan")
    part, anchors = found.part, found.part.anchors
    drawn = monte_carlo.draw_counts(found.counts)
    distances = monte_carlo.distances(part.p, drawn) @ part.weights
    width = anchors.zero - anchors.perfect
    error = min(100.0, 100 * distances.std(ddof=1) / width) if anchors.informative else 0.0
    return float(np.hypot(part.sampling_error(found.q), error))


def seen(replies: Sequence[Reply]) -> float:
    """Share of the population in cells that were asked completely: 1 without ``--limit``."""
    asked = {(reply.cell, reply.sample) for reply in replies}
    return collect.share_seen(replies[0].task, asked, replies[0].n_samples)


def answered(replies: Sequence[Reply]) -> float:
    """Share of the replies in which the letter of an answer could be read; in [0, 1]."""
    return float(np.mean([reply.position is not None for reply in replies]))


def order_bias(replies: Sequence[Reply]) -> float:
    """Preference for a letter as such: total variation of the letters written from uniform.

    In [0, 1); NaN when none could be read. Letters are drawn, so it is above 0 by chance too.
    """
    written = [reply.position for reply in replies if reply.position is not None]
    if not written:
        return float("nan")
    levels = len(replies[0].order)
    return scoring.order_bias(np.eye(levels)[written])
