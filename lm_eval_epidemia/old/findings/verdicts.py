"""Verdicts on all pairs of many runs at once, with arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import PRIOR
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.old.findings.comparison import (
    CONFIDENCE,
    FEWEST,
    FEWEST_ON_LOG,
    HERE,
    across_outcomes,
    benchmark_of,
    compare_entries,
)
from lm_eval_epidemia.old.findings.pool import Pool
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, outcomes
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.score.outcomes import Clustered, Layout

#: Arrays and single pairs differ by rounding: what is nearer to a bound is decided pair by pair.
CLOSE = 1e-6

#: How many runs are held against all others at once.
_BLOCK = 64


def verdicts(
    entries: Sequence[Entry], column: str, tasks: Sequence[Asked], pool: Pool
) -> NDArray[np.int8]:
    """Compare all pairs of entries as `compare_entries` does.

    Parameters
    ----------
    entries : sequence of Entry, length N
        Each with a score in every task.
    column : str
    tasks : sequence of Asked
    pool : Pool

    Returns
    -------
    ndarray, shape (N, N)
        1 if the verdict on the first of the two is "better", -1 if "worse", else 0.
    """
    number = len(set(outcomes(tasks)))
    if len(entries) < 2:
        return np.zeros((len(entries),) * 2, np.int8)
    if benchmark_of(column) is PRIOR and len(tasks) == 1:  # quantities are what is sampled
        of = np.zeros((len(entries),) * 2, np.int8)
        undecided = list(combinations(range(len(entries)), 2))
    elif number < FEWEST_ON_LOG:
        return np.zeros((len(entries),) * 2, np.int8)
    else:
        of, undecided = _decided(entries, column, tasks, pool if number < FEWEST else None)
    for i, j in undecided:
        pair = entries[i], entries[j]
        # The cheap half first: of all pairs of many models most end here.
        if not across_outcomes(*pair, column, tasks, pool).elsewhere:
            continue
        verdict = compare_entries(*pair, column, tasks, pool).verdict
        of[i, j] = {"better": 1, "worse": -1}.get(verdict, 0)
        of[j, i] = -of[i, j]
    return of


def _decided(
    entries: Sequence[Entry], column: str, tasks: Sequence[Asked], pool: Pool | None
) -> tuple[NDArray[np.int8], list[tuple[int, int]]]:
    """Return `verdicts` for pairs without a close bound, and the pairs with one.

    With a pool, log `l1` decides about other outcomes, else the metric itself.
    """
    benchmark = benchmark_of(column)
    scores = [[entry.scores[asked] for asked in tasks] for entry in entries]
    values = np.array([[score.value for score in row] for row in scores])
    means = values.mean(axis=1)
    joint = [_joint([[score.draws for score in row] for row in scores], unbiased=True)]
    at = [means, means - joint[0].bias(values)]
    if POPULATION in benchmark.metrics(benchmark.plain):
        joint.append(_joint([[score.population for score in row] for row in scores]))
        at.append(np.array([[s.population_uncut for s in row] for row in scores]).mean(axis=1))
    close = CLOSE
    if pool is None:
        layout = Layout(outcomes(tasks))
        off = layout.residuals(values)
        reach = Clustered(0.0, 1.0, layout.freedom).reach(CONFIDENCE)
        errors = np.array([np.sqrt(((row - off) ** 2).sum(axis=-1)) for row in off])
        across = np.subtract.outer(means, means), reach * errors
    else:
        nearer, far = pool.bounds(entries, tasks, CONFIDENCE)
        across = -nearer, far  # who is nearer has the higher score
        # Then bounds are not exact: two of many models move a median by little.
        close = 1 / len(entries) if pool.pairs(tuple(tasks)).floored else CLOSE
    better = 1 if benchmark.measure.higher_is_better else -1
    of: NDArray[np.int8] = np.zeros((len(entries),) * 2, np.int8)
    undecided: list[tuple[int, int]] = []
    for start in range(0, len(entries), _BLOCK):
        block = slice(start, start + _BLOCK)
        apart = [np.subtract.outer(numbers[block], numbers) for numbers in at]
        bounds = [HERE * of_joint.errors(block) for of_joint in joint]
        side = np.sign(apart[0])
        # How far each number is beyond its bound. All have to be, and NaN is not.
        beyond = [
            side * number - bound
            for number, bound in zip(
                [across[0][block], *apart],
                [across[1][block], bounds[0], *bounds],
                strict=True,
            )
        ]
        least = np.nan_to_num(np.min(beyond, axis=0), nan=-math.inf)
        of[block] = np.where(least > 0, better * side, 0)
        near = np.argwhere(np.abs(least) <= close)
        undecided += [(start + int(i), int(j)) for i, j in near if start + i < j]
    return of, undecided


class _Joint(NamedTuple):
    """The means of all entries at joint replicates.

    Attributes
    ----------
    spread : ndarray, shape (N, R)
        Its draws minus their mean, sample by sample, over the root of their degrees of freedom: the
        sum of squares of a difference is its variance.
    asking : ndarray, shape (N,)
        Variance of the mean from asking alone.
    kind : ndarray of int, shape (N,)
        Equal for entries with the same replicates in all tasks; below 0 if some are unknown.
    at : ndarray, shape (N, T)
        Mean of the draws; NaN for an exact table.
    """

    spread: Array
    asking: Array
    kind: NDArray[np.int_]
    at: Array

    def bias(self, values: Array) -> Array:
        """Return the shift by sampling error in the means of values, shape (N, T)."""
        return np.asarray(np.nan_to_num(self.at - values).sum(axis=1) / values.shape[1])

    def errors(self, block: slice) -> Array:
        """Return the standard error of each difference of some from all; NaN if unknown."""
        spread, mine = self.spread, self.spread[block]
        squares = np.add.outer((mine**2).sum(axis=1), (spread**2).sum(axis=1))
        variance = np.maximum(squares - 2 * mine @ spread.T, 0)
        variance += np.add.outer(self.asking[block], self.asking)
        known = (self.kind[block, None] == self.kind) & (self.kind >= 0)
        return np.where(known, np.sqrt(variance), math.nan)


def _joint(draws: Sequence[Sequence[Draws | None]], unbiased: bool = False) -> _Joint:
    """Combine the draws of every entry, task by task; the spread uses unbiased draws."""
    kinds: dict[tuple[tuple[str, int], ...], int] = {}
    rows = []
    for row in draws:
        known = [task for task in row if task is not None]
        whose = tuple((task.sample, len(task.at)) for task in known)
        kind = kinds.setdefault(whose, len(kinds)) if len(known) == len(row) else -1
        sums: dict[str, Array] = {}
        for task in known if kind >= 0 else ():
            if len(task.at):
                sums[task.sample] = sums.get(task.sample, 0.0) + (
                    task.unbiased if unbiased else task
                ).at / len(row)
        parts = [(x - x.mean()) / math.sqrt(len(x) - 1) for x in sums.values()]
        at = [x.at.mean() if x is not None and len(x.at) else math.nan for x in row]
        asking = sum(task.asking**2 for task in known) / len(row) ** 2
        rows.append((np.concatenate([np.empty(0), *parts]), asking, kind, at))
    spread = np.zeros((len(rows), max(len(row[0]) for row in rows)))
    for place, (part, *_) in enumerate(rows):
        spread[place, : len(part)] = part
    return _Joint(spread, *map(np.array, zip(*(row[1:] for row in rows), strict=True)))
