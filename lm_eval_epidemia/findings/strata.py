"""A task laid out for a comparison: its cells by two levels of X, the same Z in both.

And P(x | z), made of the answers to a task that asks for it.
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
from lm_eval_epidemia.findings.contrasts import Propensity
from lm_eval_epidemia.surveys.catalogue import task as declared_task


class Strata(NamedTuple):
    """The cells of a task by two levels of X and by Z, where both levels occur.

    Attributes
    ----------
    compared : (str, str)
        The commonest level of X and the next; the effect is that of the second against the first.
    levels : list of tuple of str, length S
        Of Z, in the order of the cells.
    cells : ndarray of int, shape (2, S)
    joint : ndarray, shape (2, S)
        P(x, z).
    everybody : ndarray, shape (S,)
        P(z), of all people, whatever X they have.
    share : float
        Of the population, that these levels of Z are: 1 where positivity holds throughout.
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
    """Lay a task out for a comparison.

    Parameters
    ----------
    truth : GroundTruth
    x : str
        One of the task's conditions. The two levels that most people have are compared: a rule, so
        that none is picked for its effect, and the one that leaves most people to compare.
    answered : iterable of int, optional
        Cells; all by default.
    within : callable, optional
        Tells which levels of Z are wanted.

    Returns
    -------
    Strata or None
        None where no such level of Z occurs with both.
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
    """How P(x | z) is made of the answers to the task that asks for it.

    Attributes
    ----------
    truth : GroundTruth
        Of that task.
    ages : ndarray, shape (S, C)
        Weights of its cells in each stratum; rows sum to 1.
    answers : ndarray, shape (K, 2)
        1 where an answer is of the level of X.
    """

    truth: store.GroundTruth
    ages: Array
    answers: Array

    def of(self, q: Array, cells: Sequence[int] | slice = slice(None)) -> Array:
        """Return P(x | z), shape (..., 2, S), from distributions in cells, shape (..., C, K)."""
        return np.asarray(np.swapaxes(self.ages[:, cells] @ q @ self.answers, -1, -2))


def _years(label: str) -> list[str]:
    """Return the single years of an age group, as labels; none of an open one."""
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
    """Lay a task out where P(x | z) is known: in ages all of whose years were asked for it.

    Parameters
    ----------
    asks : Propensity
    truth : GroundTruth
        Of the task that asks for Y.
    x : str
    answered, other_answered : iterable of int, optional
        Cells of that task, and of the one that asks for P(x | z); all by default.

    Returns
    -------
    (Strata, Mixture) or None
        None where there are no such ages, or a level that is compared is no answer there.
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
