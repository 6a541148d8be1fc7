"""How a task's truth and anchors differ between two vintages of a survey."""

from __future__ import annotations

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
    mean, other_mean, perfect, other_perfect : float
        D_mean and D_perfect of each.
    """

    task: str
    vintage: str
    other: str
    cells: int
    common: int
    distance: float
    score: float
    mean: float
    other_mean: float
    perfect: float
    other_perfect: float


def drift(task: str, vintage: str, other: str) -> Drift:
    """Compare the truth of a task in two vintages.

    Raises
    ------
    EpidemiaError
        If one of them is not here.
    """
    first, second = store.load(task, vintage), store.load(task, other)
    of_first = scoring.Anchors.of(first)
    of_second = scoring.Anchors.of(second)
    number = {given: c for c, given in enumerate(second.given)}
    common = [c for c, given in enumerate(first.given) if given in number]
    moved = value = float("nan")
    if common and first.levels == second.levels:
        weights = first.weights[common] / first.weights[common].sum()
        p = first.p[common]
        q = second.p[[number[first.given[c]] for c in common]]
        moved = float(distance(weights, p, q))
        within = scoring.anchors(weights, p, of_first.perfect)
        value = float(scoring.scale(moved, within.zero, within.perfect))
    return Drift(
        task=task,
        vintage=first.vintage,
        other=second.vintage,
        cells=len(first.given),
        common=len(common),
        distance=moved,
        score=value,
        mean=of_first.mean,
        other_mean=of_second.mean,
        perfect=of_first.perfect,
        other_perfect=of_second.perfect,
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
    places, found = store.all_places(), []
    for name in tasks:
        here = list(dict.fromkeys(place.vintage for place in places.get(name, [])))
        first = vintage or (here[0] if here else None)
        found += [drift(name, first, other) for other in here if first and other != first]
    if not found:
        raise EpidemiaError("no task asked for is here in two vintages: build another one first")
    return found
