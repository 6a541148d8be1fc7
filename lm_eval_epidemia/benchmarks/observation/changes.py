"""What another build of the ground truth changes, task by task: for releases, and for builders."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score.score import Anchors, scale


class Change(NamedTuple):
    """One task of one vintage in two builds.

    Attributes
    ----------
    task, vintage : str
    cells : int
        In the new one.
    distance : float
        Between the two truths, in [0, 2]; NaN where they have other cells or answers.
    perfect, new_perfect : float
        D_perfect, as scores use it.
    mean, new_mean : float
        Score of the respondent that knows P(Y) only, in [0, 100].
    errors, new_errors : bool
        Whether there are joint replicates, or an exact table, so that scores have errors.
    """

    task: str
    vintage: str
    cells: int
    distance: float
    perfect: float
    new_perfect: float
    mean: float
    new_mean: float
    errors: bool
    new_errors: bool

    @property
    def same(self) -> bool:
        """Whether every score is what it was."""
        return self.distance == 0 and self.perfect == self.new_perfect


def changes(old: Path, new: Path) -> list[Change]:
    """Compare the truths that two folders of ground truth have in common.

    Parameters
    ----------
    old, new : Path
        Folders with a ``registry.json``.

    Raises
    ------
    EpidemiaError
        If a folder has none, or they have no task in common.
    """
    for folder in (old, new):
        if not (folder / store.REGISTRY).is_file():
            raise EpidemiaError(
                f"{folder} holds no {store.REGISTRY}: give a folder that 'epidemia groundtruth "
                "build --out' wrote, or the groundtruth/ of a release"
            )
    before, after = store.load_folder(old), store.load_folder(new)
    if not (common := [key for key in after if key in before]):
        raise EpidemiaError(f"{old} and {new} have no task of one vintage in common")
    return [_change(before[key], after[key]) for key in common]


def _change(one: store.GroundTruth, other: store.GroundTruth) -> Change:
    alike = (one.given, one.levels) == (other.given, other.levels)
    moved = distance(other.weights, one.p, other.p) if alike else np.nan
    anchors, new_anchors = Anchors.of(one), Anchors.of(other)
    return Change(
        task=other.task,
        vintage=f"{other.survey} {other.vintage}",
        cells=len(other.given),
        distance=float(moved),
        perfect=anchors.perfect,
        new_perfect=new_anchors.perfect,
        mean=_score_of_mean(anchors),
        new_mean=_score_of_mean(new_anchors),
        errors=one.sample is not None,
        new_errors=other.sample is not None,
    )


def _score_of_mean(found: Anchors) -> float:
    return float(scale(found.mean, found.zero, found.perfect))
