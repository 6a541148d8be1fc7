"""How answers follow a truth over the years.

Shapes: C cells of a task, K levels, B joint replicates of the survey. A *series* is a set of cells
that differ only in the year: those of men, of a state, of everybody.
"""

from __future__ import annotations

from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.score.scales import total_variation
from lm_eval_epidemia.surveys.catalogue import find_task

#: The condition that is a year, in every record.
YEAR = "year"


class Years(NamedTuple):
    """The years of the cells of a part of a task, and which series each cell is in.

    Attributes
    ----------
    of : ndarray of int, shape (C,)
    series : ndarray of int, shape (C,)
    """

    of: NDArray[np.int64]
    series: NDArray[np.int64]


def years_of(part: Part) -> Years | None:
    """Return the years of a part of a task; None if it is about no or one year."""
    given = find_task(part.truth.task).given
    if YEAR not in given:
        return None
    at = given.index(YEAR)
    cells = [*compress(part.truth.given, part.complete)]
    years = np.array([int(cell[at]) for cell in cells])
    numbers: dict[tuple[str, ...], int] = {}
    series = [numbers.setdefault((*cell[:at], *cell[at + 1 :]), len(numbers)) for cell in cells]
    return Years(years, np.array(series)) if len(set(years.tolist())) > 1 else None


def answer_latest(part: Part) -> Array:
    """Answer for every year with the latest of its series; shape (C, K)."""
    years = years_of(part)
    assert years is not None
    latest = {}
    for cell in np.argsort(years.of, kind="stable"):
        latest[years.series[cell]] = cell
    return np.asarray(part.p[[latest[series] for series in years.series]])


def average_years(part: Part) -> Array:
    """Answer for every year with the mean over the years of its series; shape (C, K)."""
    years = years_of(part)
    assert years is not None
    return _means(part.p, years.series)


def _means(values: Array, series: NDArray[np.int64]) -> Array:
    """Return for every cell the mean of its series; `values` is (..., C, K)."""
    means = np.empty_like(values)
    for number in np.unique(series):
        here = series == number
        means[..., here, :] = values[..., here, :].mean(axis=-2, keepdims=True)
    return means


def _changes(values: Array, series: NDArray[np.int64]) -> Array:
    """Return how far cells are from the mean of their series; `values` is (..., C, K)."""
    return values - _means(values, series)


class Change(NamedTuple):
    """Sums over the cells of a task of which the slope of several tasks is made.

    Attributes
    ----------
    together, truth : float
        Of the products of the answers' and the truth's changes; of the truth's squared.
    noise : float
        Of the squared changes that sampling error alone would make.
    at : ndarray, shape (B, 2)
        `together` and `truth` at each replicate; empty of an exact table.
    sample : str
        Names the survey's replicates.
    """

    together: float
    truth: float
    noise: float
    at: Array
    sample: str


def change(part: Part, years: Years, q: Array) -> Change:
    """Sum the changes over the years of answers and truth, each task by its mean square."""
    asked, true = _changes(q, years.series), _changes(part.p, years.series)
    # A task counts once, whatever its cells.
    number = q.size
    together, truth = float((asked * true).sum()) / number, float((true**2).sum()) / number
    if not len(part.replicates):
        return Change(together, truth, 0.0, np.empty((0, 2)), "")
    moved = _changes(part.replicates, years.series)
    noise = float(((moved - true) ** 2).sum(axis=(1, 2)).mean()) / number
    at = np.stack([(asked * moved).sum(axis=(1, 2)), (moved**2).sum(axis=(1, 2))], axis=1) / number
    return Change(together, truth, noise, at, part.truth.sample)


def slope(changes: list[Change]) -> tuple[float, float]:
    """Return the slope of the answers' changes on the truth's, and its standard error.

    1: the answers follow the truth; 0: they stay where they are. The truth's sampling error, which
    would flatten the slope, is subtracted: ``sum(dq dp) / (sum(dp^2) - noise)``; a replicate of a
    truth has it twice. Its error is the spread over joint replicates, surveys being independent;
    NaN if no change of the truth is left.
    """
    noise = sum(each.noise for each in changes)
    total = sum(each.truth for each in changes) - noise
    if total <= noise:  # not distinguishable from no change
        return float("nan"), float("nan")
    value = sum(each.together for each in changes) / total
    variance = 0.0
    for sample in {each.sample for each in changes if len(each.at)}:
        own = [each for each in changes if each.sample == sample and len(each.at)]
        together = sum(each.at[:, 0] - each.together for each in own)
        truth = sum(each.at[:, 1] - each.truth - each.noise for each in own)
        # To first order, so that surveys add up: d(slope) = (d together - slope d truth) / total.
        variance += float(np.var((together - value * truth) / total, ddof=1))
    return float(value), variance**0.5


def off_by_year(part: Part, years: Years, q: Array) -> dict[int, float]:
    """Return the mean share of the probability at wrong answers, by year, in [0, 1]."""
    off = total_variation(part.p, q)
    return {int(year): float(off[years.of == year].mean()) for year in np.unique(years.of)}
