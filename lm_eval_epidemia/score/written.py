"""The metrics of a task whose probabilities a model wrote, one interval per question.

Each takes the answers of one task, in any order, and returns one number. See `likelihood`, from
which it differs in that a reply may hold no answer: its cell then counts as uniform.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.elicit.answers import Statement
from lm_eval_epidemia.elicit.likelihood import MIDPOINTS, asked_levels, distribution
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import collect

__all__ = ["against_truth", "answered", "l1", "score", "score_stderr", "seen"]


class _Stated(NamedTuple):
    """The complete cells of a task, C' of them."""

    part: collect.Part
    q: Array  # (C', K)


def against_truth(statements: Sequence[Statement]) -> _Stated | None:
    """Put answers against the truth; None when no score can be given, with a warning saying why."""
    truth = collect.installed_truth(statements)
    levels, count = asked_levels(len(truth.levels)), len(truth.levels)
    stated = np.full((len(truth.weights), len(levels)), np.nan)
    asked = np.zeros(stated.shape, dtype=bool)
    for one in statements:
        place = one.cell, levels.index(one.level)
        asked[place] = True
        if one.interval is not None:
            stated[place] = MIDPOINTS[one.interval]
    collect.warn_of_silence(statements[0].asked_as, answered(statements))
    if (part := collect.complete_part(statements[0].asked_as, truth, asked, "levels")) is None:
        return None
    found = stated[part.complete]
    silent = np.isnan(found).any(axis=1, keepdims=True)
    q = np.where(silent, 1 / count, distribution(np.nan_to_num(found), count))
    return _Stated(part, q)


def l1(statements: Sequence[Statement]) -> float:
    """Weighted L1 distance of stated from true distributions, in [0, 2]; NaN without score."""
    if (found := against_truth(statements)) is None:
        return float("nan")
    return found.part.distance(found.q)


def score(statements: Sequence[Statement]) -> float:
    """Score from 0 to 100 of the midpoints of the written intervals."""
    if (found := against_truth(statements)) is None:
        return float("nan")
    return found.part.score(found.q)


def score_stderr(statements: Sequence[Statement]) -> float:
    """Standard error of the score: the survey's sampling error; each question is asked once."""
    if (found := against_truth(statements)) is None:
        return float("nan")
    return found.part.sampling_error(found.q)


def seen(statements: Sequence[Statement]) -> float:
    """Share of the population in cells that were asked completely: 1 without ``--limit``."""
    truth = store.load(statements[0].task)
    asked = {(one.cell, one.level) for one in statements}
    return collect.share_seen(truth.task, asked, len(asked_levels(len(truth.levels))))


def answered(statements: Sequence[Statement]) -> float:
    """Share of the replies in which an interval's letter could be read; in [0, 1]."""
    return float(np.mean([one.interval is not None for one in statements]))
