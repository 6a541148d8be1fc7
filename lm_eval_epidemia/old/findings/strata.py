"""The cells of a task arranged for a comparison: two levels of X, with the same Z in both.

Also P(x | z), from the answers to a task that asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.observation.standardised import overlap
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings.contrasts import Propensity
from lm_eval_epidemia.surveys.catalogue import task as declared_task


class Strata(NamedTuple):
    """The cells of a task by two levels of X and by Z, for those Z with both levels.

    Attributes
    ----------
    compared : (str, str)
        The commonest level of X and the next; the effect is that of the second against the first.
    levels : list of tuple of str, length S
        Levels of Z, in the order of the cells.
    cells : ndarray of int, shape (2, S)
    joint : ndarray, shape (2, S)
        P(x, z).
    everybody : ndarray, shape (S,)
        P(z) among all people, whatever their X.
    share : float
        Share of the population in these levels of Z: 1 if positivity holds everywhere.
    """

    compared: tuple[str, str]
    levels: list[tuple[str, ...]]
    cells: NDArray[np.int64]
    joint: Array
    everybody: Array
    share: float


def strata(
    truth: store.GroundTruth,
    x: str,
    answered: Iterable[int] | None = None,
    within: Callable[[tuple[str, ...]], bool] = lambda z: True,
) -> Strata | None:
    """Arrange the cells of a task for a comparison.

    Parameters
    ----------
    truth : GroundTruth
    x : str
        One of the task's conditions. Its two most common levels are compared. This rule selects no
        level by its effect, and keeps most people in the comparison.
    answered : iterable of int, optional
        Cells; all by default.
    within : callable, optional
        Selects levels of Z.

    Returns
    -------
    Strata or None
        None if no such level of Z occurs with both.
    """
    place = declared_task(truth.task).given.index(x)
    of_x: dict[str, float] = {}
    of_z: dict[tuple[str, ...], float] = {}
    cells: dict[tuple[str, tuple[str, ...]], int] = {}
    for cell, (given, weight) in enumerate(zip(truth.given, truth.weights, strict=True)):
        level, z = given[place], (*given[:place], *given[place + 1 :])
        of_x[level] = of_x.get(level, 0.0) + weight
        of_z[z] = of_z.get(z, 0.0) + weight
        cells[level, z] = cell
    # A cell that nobody is in, or that was not answered, weighs nothing.
    weights = truth.weights
    if answered is not None:
        weights = np.zeros_like(weights)
        weights[list(answered)] = truth.weights[list(answered)]
    weights = np.append(weights, 0.0)
    first, second, *_ = sorted(of_x, key=lambda level: -of_x[level])
    joint = weights[[[cells.get((level, z), -1) for z in of_z] for level in (first, second)]]
    kept = overlap(joint) & [within(z) for z in of_z]
    if not kept.any():
        return None
    levels = [z for z, is_so in zip(of_z, kept, strict=True) if is_so]
    everybody = np.array([of_z[z] for z in levels])
    return Strata(
        (first, second),
        levels,
        np.array([[cells[level, z] for z in levels] for level in (first, second)]),
        joint[:, kept],
        everybody,
        float(everybody.sum()),
    )


class Mixture(NamedTuple):
    """How to compute P(x | z) from the answers to the task that asks for it.

    Attributes
    ----------
    truth : GroundTruth
        The truth of that task.
    ages : ndarray, shape (S, C)
        Weights of its cells in each stratum; rows sum to 1.
    answers : ndarray, shape (K, 2)
        1 where an answer belongs to the level of X.
    """

    truth: store.GroundTruth
    ages: Array
    answers: Array

    def of(self, q: Array, cells: Sequence[int] | slice = slice(None)) -> Array:
        """Return P(x | z), shape (..., 2, S), from distributions in cells, shape (..., C, K)."""
        return np.asarray(np.swapaxes(self.ages[:, cells] @ q @ self.answers, -1, -2))


def _years(label: str) -> list[str]:
    """Return the single years of an age group, as labels; empty for an open one."""
    ages = re.fullmatch(r"(\d+)(?:-(\d+))?", label)
    years = range(int(ages[1]), int(ages[2] or ages[1]) + 1) if ages else ()
    return [str(year) for year in years]


def mixture(
    asks: Propensity,
    truth: store.GroundTruth,
    x: str,
    answered: Iterable[int] | None = None,
    other_answered: Iterable[int] | None = None,
) -> tuple[Strata, Mixture] | None:
    """Arrange a task for ages with known P(x | z): those whose every year was asked for it.

    Parameters
    ----------
    asks : Propensity
    truth : GroundTruth
        Truth of the task that asks for Y.
    x : str
    answered, other_answered : iterable of int, optional
        Answered cells of that task, and of the one that asks for P(x | z); all by default.

    Returns
    -------
    (Strata, Mixture) or None
        None if there are no such ages, or a compared level is not an answer there.
    """
    other = store.load(asks.task)
    cells = range(len(other.given)) if other_answered is None else other_answered
    place = {other.given[cell][0]: cell for cell in cells}

    def covered(z: tuple[str, ...]) -> bool:
        years = _years(z[0])
        return bool(years) and all(year in place for year in years)

    here = strata(truth, x, answered, covered)
    if here is None or not all(level in asks.answers for level in here.compared):
        return None
    ages = np.zeros((len(here.levels), len(other.given)))
    for row, (label,) in zip(ages, here.levels, strict=True):
        years = [place[year] for year in _years(label)]
        row[years] = other.weights[years] / other.weights[years].sum()
    answers = [
        [level in asks.answers[x_level] for x_level in here.compared] for level in other.levels
    ]
    return here, Mixture(other, ages, np.array(answers, dtype=float))
