"""Drift: how a task's truth and anchors differ between two vintages, and whether by chance.

    python benchmarks/vintages.py gss bls

prints a row per task and pair of vintages that are here, and the tests of all tasks together.

Two samples of the same population differ too. The replicates of both vintages show by how much: if
the populations were the same, the two truths would be as far apart as ``(P1^(b) - P1) - (P2^(j) -
P2)`` is from 0 for other samples b and j of each. This size is itself estimated, and roughly if a
survey has few PSUs: `unsure` allows for that, as a t distribution does in place of a normal.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.sampling import BALANCED, hadamard
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.surveys.catalogue import record
from lm_eval_epidemia.surveys.catalogue import task as declared_task

#: How often drift may be seen where there is none.
LEVEL = 0.05

#: Of the other surveys that `unsure` draws.
SEED = 20261124


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
        Score of the other vintage's truth against the first, over the common cells.
    anchors, other_anchors : Anchors
        Of each.
    samples : tuple of str
        Whose replicates the two have: tasks of equal samples are drawn together.
    chance : ndarray, shape (N,)
        Distances of two such samples of one population, over pairs of replicates; empty for two
        exact tables, and if a vintage has no replicates.
    unsure : ndarray, shape (N,)
        What each of these is multiplied by in the test, see `unsure`.
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
    samples: tuple[str | None, str | None]
    chance: Array
    unsure: Array

    @property
    def by_chance(self) -> float:
        """The mean distance of two such samples of one population."""
        return float(self.chance.mean()) if len(self.chance) else math.nan

    @property
    def p_value(self) -> float:
        """Probability that two such samples of one population are as far apart; NaN without
        replicates.
        """
        return p_value(self.distance, self.chance * self.unsure)


class SurveyDrift(NamedTuple):
    """Several tasks in the same two vintages, together.

    Attributes
    ----------
    survey, vintage, other : str
    tasks : int
    ratio : float
        The mean over tasks of distance / by_chance: about 1 without drift.
    p_value : float
        Probability that two samples of one population have such a ratio.
    """

    survey: str
    vintage: str
    other: str
    tasks: int
    ratio: float
    p_value: float


def chance(weights: Array, moved: Array, other_moved: Array) -> Array:
    """Return distances of two independent samples of one population.

    Parameters
    ----------
    weights : ndarray, shape (C,)
    moved : ndarray, shape (B, C, K)
        Deviations P^(b) - P of one sample's replicates.
    other_moved : ndarray, shape (J, C, K)
        Of the other's.

    Returns
    -------
    ndarray, shape (B J,)
        ``sum_x w_x sum_y |moved_b - other_moved_j|`` of every pair.
    """
    return np.concatenate([distance(weights, one, other_moved) for one in moved])


def unsure(weights: Array, moved: Array, other_moved: Array) -> Array:
    """Return by what factors other surveys of the two designs would have made chance larger.

    Balanced replicates b deviate by ``sum_h H_hb d_h``, H a Hadamard matrix and d_h half the
    difference of a stratum's two PSUs: ``d_h = mean_b H_hb moved_b``. The variance ``sum_h d_h^2``
    has one degree of freedom per stratum. Of d_h^2, the sampling variance is 2/3 of its square
    without bias, since E z^4 = 3: other surveys are drawn as ``sum_h g_h d_h^2``, g_h a chi-square
    of 3 degrees of freedom over 3. Of replicates drawn at random the d_h are as random, and 100 of
    them stand for 100 degrees of freedom: so many tell no more.

    Parameters
    ----------
    weights : ndarray, shape (C,)
    moved : ndarray, shape (B, C, K)
        Deviations of one sample's replicates.
    other_moved : ndarray, shape (J, C, K)
        Of the other's.

    Returns
    -------
    ndarray, shape (B J,)
        ``s / s_j``: s is the sum over cells and levels of the standard deviation of their
        difference, s_j that of another survey. 1 where a sample that varies has fewer replicates
        than H has rows.
    """
    both, number = (moved, other_moved), len(moved) * len(other_moved)
    if any(one.any() and len(one) < BALANCED for one in both):
        return np.ones(number)
    s, again = np.zeros(moved.shape[1:]), np.zeros((BALANCED, *moved.shape[1:]))
    for one, g in zip(both, _other_surveys(), strict=True):
        if one.any():
            parts = np.tensordot(hadamard() / BALANCED, one[:BALANCED], axes=1) ** 2
            s, again = s + parts.sum(axis=0), again + np.tensordot(g, parts, axes=1)
    scale, scales = (distance(weights, np.sqrt(of), np.zeros_like(s)) for of in (s, again))
    return np.resize(scale / scales if scale else np.ones(1), number)


@lru_cache(maxsize=1)
def _other_surveys() -> Array:
    """Return g of the two samples in other surveys, the same for all tasks: (2, surveys, rows)."""
    return np.random.default_rng(SEED).chisquare(3, (2, BALANCED, BALANCED)) / 3


def p_value(apart: float, by_chance: Array) -> float:
    """Return the share of numbers by chance that are no smaller than one, itself among them.

    ``(1 + #{by chance >= apart}) / (1 + N)``; NaN if one is not known, or there are none.
    """
    if math.isnan(apart) or not len(by_chance):
        return math.nan
    return float((1 + (by_chance >= apart - scoring.ROUNDING).sum()) / (1 + len(by_chance)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number (Holm, Scandinavian Journal of Statistics 6, 1979).

    Parameters
    ----------
    p_values : sequence of float
        NaN means no test: it does not count, and stays NaN.

    Returns
    -------
    list of float
        The k-th smallest of m times ``m - k + 1``, no less than those before it, at most 1. Where
        those up to a level are claimed, the chance of any false claim is at most that level.
    """
    adjusted, least = [math.nan] * len(p_values), 0.0
    tests = sorted((p, place) for place, p in enumerate(p_values) if not math.isnan(p))
    for rank, (p, place) in enumerate(tests):
        adjusted[place] = least = min(1.0, max(least, (len(tests) - rank) * p))
    return adjusted


def together(drifts: Iterable[Drift]) -> list[SurveyDrift]:
    """Test the tasks of two vintages at once: their replicates are of the same samples."""
    parts: dict[tuple[str | None, str | None], list[Drift]] = {}
    for drift in drifts:
        if drift.by_chance > 0:
            parts.setdefault(drift.samples, []).append(drift)
    tests = []
    for tasks in parts.values():
        ratio = float(np.mean([drift.distance / drift.by_chance for drift in tasks]))
        by_chance = np.mean(
            [drift.chance * drift.unsure / drift.by_chance for drift in tasks], axis=0
        )
        survey, vintages = declared_task(tasks[0].task).survey, tasks[0][1:3]
        tests.append(SurveyDrift(survey, *vintages, len(tasks), ratio, p_value(ratio, by_chance)))
    return tests


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
    apart, score, by_chance, factor = math.nan, math.nan, np.empty(0), np.empty(0)
    if common and first.levels == second.levels:
        places = [number[first.given[c]] for c in common]
        weights = first.weights[common] / first.weights[common].sum()
        apart = float(distance(weights, first.p[common], second.p[places]))
        score = float(scoring.anchors(weights, first.p[common], anchors.perfect).score(apart))
        samples = first.sample, second.sample
        if any(samples) and None not in samples and not _share_people(first, second):
            moved = _moved(first, common), _moved(second, places)
            by_chance, factor = chance(weights, *moved), unsure(weights, *moved)
    return Drift(
        task=task,
        vintage=first.vintage,
        other=second.vintage,
        cells=len(first.given),
        common=len(common),
        distance=apart,
        score=score,
        anchors=anchors,
        other_anchors=scoring.Anchors.of(second),
        samples=(first.sample, second.sample),
        chance=by_chance,
        unsure=factor,
    )


def _share_people(first: store.GroundTruth, second: store.GroundTruth) -> bool:
    """Whether the two samples are not independent, as the test takes them to be."""
    known = record(first.survey).vintages
    pairs = (first.vintage, second.vintage), (second.vintage, first.vintage)
    return any(one in known and other in known[one].same_people for one, other in pairs)


def _moved(truth: store.GroundTruth, cells: list[int]) -> Array:
    """Return how the replicates of some cells deviate; an exact table has one that does not."""
    at = truth.replicates
    moved = truth.p[None] - truth.p if at is None or not len(at) else at - truth.p
    return moved[:, cells]


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
    pairs = []
    for name in tasks:
        here = store.vintages(name)
        first = vintage or next(iter(here), None)
        pairs += [drift(name, first, other) for other in here if first and other != first]
    if not pairs:
        raise EpidemiaError(
            "none of these tasks has truths for two vintages here: build another vintage first"
        )
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("surveys", nargs="+", help="as 'epidemia show' names them")
    surveys = parser.parse_args().surveys
    tasks = [name for name in store.available() if declared_task(name).survey in surveys]
    listed = drifts(tasks)
    print("| task | vintage | other | common cells | distance | by chance | p | p, Holm | score |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for each, adjusted in zip(listed, holm([of.p_value for of in listed]), strict=True):
        numbers = f"{each.distance:.4f} | {each.by_chance:.4f} | {each.p_value:.4f}"
        print(
            f"| {each.task} | {each.vintage} | {each.other} | {each.common} of {each.cells} | "
            f"{numbers} | {adjusted:.4f} | {each.score:.1f} |"
        )
    for test in together(listed):
        print(
            f"{test.survey} {test.vintage} against {test.other}, {test.tasks} tasks together: "
            f"{test.ratio:.2f} times the distance expected by chance, p = {test.p_value:.4f}"
        )


if __name__ == "__main__":
    main()
