"""Compare two builds of the ground truth, task by task."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score.score import Anchors


class TruthChange(NamedTuple):
    """One task of one vintage in two builds.

    Attributes
    ----------
    task, vintage : str
    cells : int
        In the new one.
    distance : float
        Between the two truths, in [0, 2]; NaN if they have other cells or answers.
    anchors, new_anchors : Anchors
        As scores use them.
    errors, new_errors : bool
        Whether there are joint replicates, or an exact table, so that scores have errors.
    """

    task: str
    vintage: str
    cells: int
    distance: float
    anchors: Anchors
    new_anchors: Anchors
    errors: bool
    new_errors: bool

    @property
    def same(self) -> bool:
        """Whether every score is what it was."""
        return self.distance == 0 and self.anchors.perfect == self.new_anchors.perfect


def changes(old: Path, new: Path) -> list[TruthChange]:
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
                f"{folder} contains no {store.REGISTRY}: give a folder that 'epidemia groundtruth "
                "build --out' wrote, or the groundtruth/ of a release"
            )
    before, after = store.load_folder(old), store.load_folder(new)
    if not (common := [key for key in after if key in before]):
        raise EpidemiaError(f"{old} and {new} have no task of the same vintage in common")
    return [_change(before[key], after[key]) for key in common]


def _change(old: store.GroundTruth, new: store.GroundTruth) -> TruthChange:
    alike = (old.given, old.levels) == (new.given, new.levels)
    return TruthChange(
        task=new.task,
        vintage=f"{new.survey} {new.vintage}",
        cells=len(new.given),
        distance=float(distance(new.weights, old.p, new.p)) if alike else math.nan,
        anchors=Anchors.of(old),
        new_anchors=Anchors.of(new),
        errors=old.sample is not None,
        new_errors=new.sample is not None,
    )
