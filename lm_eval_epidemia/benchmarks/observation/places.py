"""How evenly a model knows the places that tasks are about, such as countries.

Shapes: T tasks, C cells of a task, K levels, P places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.ask.prompts import find_variables
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.scales import resolution, total_variation
from lm_eval_epidemia.surveys.catalogue import find_task

#: Regions with fewer places are not reported.
FEWEST = 5

#: Printed shares have at most so many digits; longer ones are of counts.
PRINTED = 4


class Places(NamedTuple):
    """The places that the cells of a part of a task are about.

    Attributes
    ----------
    names : tuple of str, length C
    within : dict of str to dict of str to str
        Of each place, the larger ones that it is part of, by kind: {France: {region: Europe}}.
    """

    names: tuple[str, ...]
    within: Mapping[str, Mapping[str, str]]


def places_of(part: Part) -> Places | None:
    """Return the places that a part of a task is about; None if it is about none."""
    ways = find_variables(part.truth)
    for at, condition in enumerate(find_task(part.truth.task).given):
        within = {level.label: level.within for level in ways[condition].levels if level.within}
        if within:
            asked = compress(part.truth.given, part.complete)
            return Places(tuple(cell[at] for cell in asked), within)
    return None


def _numbered(labels: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    names, numbers = np.unique(labels, return_inverse=True)
    return names.tolist(), numbers


def weigh_alike(weights: Array, names: Sequence[str]) -> Array:
    """Return cell weights with equal weight for every place; shape (C,), summing to 1."""
    places, at = _numbered(names)
    return weights / np.bincount(at, weights)[at] / len(places)


def score_alike(part: Part, names: Sequence[str], q: Array) -> float:
    """Score answers with equal weight for every place, in distance and anchors."""
    weights = weigh_alike(part.weights, names)
    anchors = scoring.anchors(weights, part.p, part.anchors.perfect)
    return float(anchors.score(distance(weights, q, part.p)))


def average_places(part: Part, places: Places, kind: str) -> Array:
    """Answer for every place with the average of the larger one that it is part of.

    Over people with the same other conditions; each place is part of its own average.

    Returns
    -------
    ndarray, shape (C, K)
    """
    others = [
        tuple(label for label in cell if label != place)
        for cell, place in zip(compress(part.truth.given, part.complete), places.names, strict=True)
    ]
    larger = (places.within[name][kind] for name in places.names)
    groups = [" & ".join(each) for each in zip(larger, map(str, others), strict=True)]
    _, at = _numbered(groups)
    total = np.bincount(at, part.weights)
    sums = np.stack([np.bincount(at, part.weights * column) for column in part.p.T], axis=1)
    return np.asarray((sums / total[:, None])[at])


def find_misplaced(part: Part, names: Sequence[str], q: Array) -> dict[str, float]:
    """Return the share of probability on wrong answers, by place.

    Returns
    -------
    dict of str to float
        In [0, 1], the total variation, averaged over the people of the place.
    """
    places, at = _numbered(names)
    off = np.bincount(at, part.weights * total_variation(part.p, q)) / np.bincount(at, part.weights)
    return dict(zip(places, off.tolist(), strict=True))


def rounding(part: Part, d: float) -> float:
    """Return by how many points a score can change if every printed share is off by half its last
    digit.

    At most: the distance grows and the scale shrinks by as much, or the other way round. 0 of
    shares that are of counts.

    Parameters
    ----------
    part : Part
    d : float
        The distance of the answers, in [0, 2].
    """
    digits = np.log10(resolution(part.p)[0])
    if not (float(digits).is_integer() and digits <= PRINTED):
        return 0.0
    moved = part.p.shape[1] * 0.5 * 10.0**-digits
    off, scale = max(d - part.anchors.perfect, 0.0), part.anchors.zero - part.anchors.perfect
    worse, better = (off + moved) / (scale - moved), (off - moved) / (scale + moved)
    left, *others = (min(max(share, 0.0), 1.0) for share in (off / scale, worse, better))
    return float(100 * max(abs(other - left) for other in others))


class Regions(NamedTuple):
    """The errors in the larger places of a kind.

    Attributes
    ----------
    names : list of str
        Of those with `FEWEST` places or more, the best known first.
    places : list of int
        How many places each has.
    off : ndarray, shape (R,)
        Mean share of the probability at wrong answers, in [0, 1].
    errors : ndarray, shape (R,)
        Over places.
    gap, gap_error : float
        The last less the first.
    """

    names: list[str]
    places: list[int]
    off: Array
    errors: Array
    gap: float
    gap_error: float


def compare_regions(
    off: Iterable[Mapping[str, float]], region: Mapping[str, str]
) -> Regions | None:
    """Compare larger places by the mean error in their places, each place with equal weight.

    A region's number is the mean over tasks of its places' mean, less that of all places of the
    task, plus the mean of all: tasks that some places lack do not move it. Errors are jackknifed
    over the places, region by region: they tell how another choice of places would differ.

    Parameters
    ----------
    off : iterable of dict of str to float
        Of each task, by place; see `find_misplaced`.
    region : dict of str to str
        Of each place.

    Returns
    -------
    Regions or None
        None of fewer than two regions of `FEWEST` places.
    """
    tasks = list(off)
    places = sorted({place for task in tasks for place in task})
    values = np.array([[of.get(place, np.nan) for place in places] for of in tasks])
    names, at = _numbered([region[place] for place in places])
    sizes = np.bincount(at)
    large = np.flatnonzero(sizes >= FEWEST)
    if len(large) < 2:
        return None
    means = _means(values, at, large)
    order = np.argsort(means, kind="stable")
    variances, gap_variance = np.zeros(len(large)), 0.0
    for number in large:
        members = np.flatnonzero(at == number)
        without = np.stack([_means(values, at, large, left_out=int(place)) for place in members])
        share = (len(members) - 1) / len(members)
        variances += share * ((without - without.mean(axis=0)) ** 2).sum(axis=0)
        gaps = without[:, order[-1]] - without[:, order[0]]
        gap_variance += share * float(((gaps - gaps.mean()) ** 2).sum())
    return Regions(
        [names[large[n]] for n in order],
        [int(sizes[large[n]]) for n in order],
        means[order],
        np.sqrt(variances)[order],
        float(means[order[-1]] - means[order[0]]),
        float(np.sqrt(gap_variance)),
    )


def _means(
    values: Array, at: NDArray[np.intp], regions: NDArray[np.intp], left_out: int | None = None
) -> Array:
    """Return each region's number; `values` (T, P) has NaN if a task lacks a place."""
    known = ~np.isnan(values)
    if left_out is not None:
        known[:, left_out] = False
    filled = np.where(known, values, 0.0)
    overall = filled.sum(axis=1) / known.sum(axis=1)
    numbers = []
    for region in regions:
        here = at == region
        count = known[:, here].sum(axis=1)
        asked = count > 0
        means = filled[:, here].sum(axis=1)[asked] / count[asked]
        numbers.append(float((means - overall[asked]).mean() + overall.mean()))
    return np.array(numbers)
