"""How a task's truth and anchors differ between two vintages of a survey."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import score as scoring


class Drift(NamedTuple):
    """One task in two vintages.

    Attributes
    ----------
    task : str
    vintage, other : str
    cells, common : int
        Cells of the first vintage, and how many of them the other has too.
    distance : float
        Between the two truths over the common cells, weighted as in the first; in [0, 2]. NaN if
        their answers differ.
    score : float
        What the other vintage's truth scores against the first, over the common cells.
    anchors, other_anchors : Anchors
        Of each.
    """

    task: str
    vintage: str
    other: str
    cells: int
    common: int
    distance: float
    score: float
    anchors: scoring.Anchors
    other_anchors: scoring.Anchors


def drift(task: str, vintage: str, other: str) -> Drift:
    """Compare the truth of a task in two vintages.

    Raises
    ------
    EpidemiaError
        If one of them is not here.
    """
    first, second = store.load(task, vintage), store.load(task, other)
    anchors = scoring.Anchors.of(first)
    number = {given: c for c, given in enumerate(second.given)}
    common = [c for c, given in enumerate(first.given) if given in number]
    moved = score = math.nan
    if common and first.levels == second.levels:
        weights, p = first.weights[common] / first.weights[common].sum(), first.p[common]
        moved = float(distance(weights, p, second.p[[number[first.given[c]] for c in common]]))
        score = float(scoring.anchors(weights, p, anchors.perfect).score(moved))
    return Drift(
        task=task,
        vintage=first.vintage,
        other=second.vintage,
        cells=len(first.given),
        common=len(common),
        distance=moved,
        score=score,
        anchors=anchors,
        other_anchors=scoring.Anchors.of(second),
    )


def drifts(tasks: Iterable[str], vintage: str | None = None) -> list[Drift]:
    """Compare each task with every other vintage of its truth that is here.

    Parameters
    ----------
    tasks : iterable of str
    vintage : str, optional
        The first of each pair; by default the one that scores use.

    Raises
    ------
    EpidemiaError
        If no task is here in two vintages.
    """
    places, pairs = store.all_places(), []
    for name in tasks:
        here = list(dict.fromkeys(place.vintage for place in places.get(name, [])))
        first = vintage or (here[0] if here else None)
        pairs += [drift(name, first, other) for other in here if first and other != first]
    if not pairs:
        raise EpidemiaError("no task asked for is here in two vintages: build another one first")
    return pairs
