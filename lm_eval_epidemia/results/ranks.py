"""Ranks of runs asked in the same way, as ranges that paired comparisons cannot narrow further."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import PRIOR, groups
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.results.compare import (
    CONFIDENCE,
    FEWEST,
    FEWEST_ON_LOG,
    HERE,
    KEY,
    POPULATION,
    compare,
    outcomes,
    population_uncut,
)
from lm_eval_epidemia.results.pool import Pool
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.score.outcomes import Clustered, Layout

#: Arrays and single pairs differ by rounding: what is nearer to a bound is decided pair by pair.
CLOSE = 1e-6

#: How many runs are held against all others at once.
_BLOCK = 64


class Standing(NamedTuple):
    """The rank of a run in a group.

    Attributes
    ----------
    best, worst : int or None
        The possible ranks: 1 + the number of runs shown better, and the number of runs minus those
        shown worse. None if it is not ranked, or has nothing to be compared with.
    shared : int
        Number of tasks of its ranking; 0 if nothing is ranked.
    among : int
        Number of ranked runs.
    complete : bool
        Whether it was asked all tasks of the ranking.
    """

    best: int | None = None
    worst: int | None = None
    shared: int = 0
    among: int = 0
    complete: bool = False


def alike(scores: pd.DataFrame) -> pd.Series:
    """Return by run how it was asked the tasks of a group: runs that agree are ranked together."""
    return scores.groupby("run", sort=False)["asked_as"].agg(lambda of: "|".join(sorted({*of})))


def ranked_tasks(asked: Sequence[frozenset[Any]]) -> frozenset[Any]:
    """Return the tasks of a ranking: those that the ranked runs share.

    Runs are added, most tasks first, as long as they all share at least half of the first one's
    tasks. So no run drops out because another was asked one more task, and a run of a single task
    does not reduce the ranking to that task.

    Parameters
    ----------
    asked : sequence of frozenset
        What each run was asked; at least one.
    """
    count = Counter(asked)
    # Of equally many tasks, those that more runs were asked.
    ordered = sorted(count, key=lambda tasks: (-len(tasks), -count[tasks], sorted(tasks)))
    shared = ordered[0]
    for tasks in ordered:
        if 2 * len(shared & tasks) >= len(ordered[0]):
            shared &= tasks
    return shared


def standings(
    scores: pd.DataFrame, group: str, can_rank: Mapping[int, bool], pool: Pool
) -> dict[int, Standing]:
    """Rank the runs that were asked a group; only those that were asked in the same way.

    Parameters
    ----------
    scores : DataFrame
        All scores of the group that are numbers.
    group : str
    can_rank : mapping of int to bool
        By run: who does not answer, and who only is beside the models, is not ranked.
    pool : Pool
    """
    placed: dict[int, Standing] = {}
    keys = {
        run: frozenset(of[KEY].itertuples(index=False, name=None))
        for run, of in scores.groupby("run", sort=False)
    }
    how = alike(scores)
    for _, runs in how.groupby(how, sort=False):
        asked = [run for run in runs.index if can_rank[run]]
        shared = ranked_tasks([keys[run] for run in asked]) if asked else frozenset()
        complete = {run for run in runs.index if shared <= keys[run]}
        ranked = [run for run in asked if run in complete and not groups()[group].predicted]
        of = verdicts(scores, group, ranked, sorted(shared), pool)
        for run in runs.index:
            standing = Standing(None, None, len(shared), len(ranked), run in complete)
            if run in ranked and len(ranked) > 1:
                against = of[ranked.index(run)]
                best, worst = 1 + int((against < 0).sum()), len(ranked) - int((against > 0).sum())
                standing = standing._replace(best=best, worst=worst)
            placed[run] = standing
    return placed


def verdicts(
    scores: pd.DataFrame, group: str, runs: Sequence[int], tasks: Sequence[Any], pool: Pool
) -> NDArray[np.int8]:
    """Compare all pairs of runs as `compare` does.

    Parameters
    ----------
    scores : DataFrame
    group : str
    runs : sequence of int, length N
        Each with a score in every task.
    tasks : sequence of (str, str, str)
        Task, way, and how it was asked.
    pool : Pool

    Returns
    -------
    ndarray, shape (N, N)
        1 if the verdict on the first of the two is "better", -1 if "worse", else 0.
    """
    of: NDArray[np.int8] = np.zeros((len(runs),) * 2, np.int8)
    if len(runs) < 2:
        return of
    asked = pd.DataFrame(tasks, columns=KEY)
    mine = {run: asked.merge(scores[scores["run"] == run], on=KEY) for run in runs}
    number = len(set(outcomes(asked)))
    if groups()[group] is PRIOR and len(asked) == 1:  # quantities are what is sampled
        undecided = list(combinations(range(len(runs)), 2))
    elif number < FEWEST_ON_LOG:
        return of
    else:
        of, undecided = _decided(mine, group, asked, pool if number < FEWEST else None)
    for i, j in undecided:
        made = compare(mine[runs[i]], mine[runs[j]], pool)
        of[i, j] = {"better": 1, "worse": -1}.get(made.verdict if made else "", 0)
        of[j, i] = -of[i, j]
    return of


def _decided(
    mine: Mapping[int, pd.DataFrame], group: str, asked: pd.DataFrame, pool: Pool | None
) -> tuple[NDArray[np.int8], list[tuple[int, int]]]:
    """Return `verdicts` for pairs without a close bound, and the pairs with one.

    With a pool, log `l1` decides about other outcomes, else the metric itself.
    """
    benchmark = groups()[group]
    values = np.array([of["value"] for of in mine.values()])
    means = values.mean(axis=1)
    joint = [_joint([of["draws"] for of in mine.values()], unbiased=True)]
    at = [means, means - joint[0].bias(values)]
    if POPULATION in benchmark.metrics(benchmark.plain):
        joint.append(_joint([of["population"] for of in mine.values()]))
        uncut = [population_uncut(of["population"], of[POPULATION]) for of in mine.values()]
        at.append(np.array(uncut).mean(axis=1))
    if pool is None:
        layout = Layout(outcomes(asked))
        off = layout.residuals(values)
        reach = Clustered(0.0, 1.0, layout.freedom).reach(CONFIDENCE)
        far = reach * np.array([np.sqrt(((row - off) ** 2).sum(axis=-1)) for row in off])
        across = np.subtract.outer(means, means)
    else:
        nearer, far = pool.bounds([*mine], asked, CONFIDENCE)
        across = -nearer  # who is nearer has the higher score
    better = 1 if benchmark.measure.higher_is_better else -1
    of: NDArray[np.int8] = np.zeros((len(mine),) * 2, np.int8)
    undecided: list[tuple[int, int]] = []
    for start in range(0, len(mine), _BLOCK):
        block = slice(start, start + _BLOCK)
        apart = [np.subtract.outer(numbers[block], numbers) for numbers in at]
        bounds = [HERE * of_joint.errors(block) for of_joint in joint]
        side = np.sign(apart[0])
        # How far each number is beyond its bound. All have to be, and NaN is not.
        beyond = [side * across[block] - far[block]]
        beyond += [
            side * number - bound for number, bound in zip(apart, [bounds[0], *bounds], strict=True)
        ]
        least = np.nan_to_num(np.min(beyond, axis=0), nan=-math.inf)
        of[block] = np.where(least > 0, better * side, 0)
        near = np.argwhere(np.abs(least) <= CLOSE)
        undecided += [(start + int(i), int(j)) for i, j in near if start + i < j]
    return of, undecided


class _Joint(NamedTuple):
    """The means of all runs at joint replicates.

    Attributes
    ----------
    spread : ndarray, shape (N, R)
        Its draws minus their mean, sample by sample, over the root of their degrees of freedom: the
        sum of squares of a difference is its variance.
    asking : ndarray, shape (N,)
        Variance of the mean from asking alone.
    kind : ndarray of int, shape (N,)
        Equal for runs with the same replicates in all tasks; below 0 if some are unknown.
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


def _joint(draws: Sequence[Iterable[Draws | None]], unbiased: bool = False) -> _Joint:
    """Combine the draws of every run, task by task; the spread uses unbiased draws."""
    kinds: dict[tuple[tuple[str, int], ...], int] = {}
    rows = []
    for of_run in draws:
        row = [*of_run]
        known = [task for task in row if task is not None]
        whose = tuple((task.sample, len(task.at)) for task in known)
        kind = kinds.setdefault(whose, len(kinds)) if len(known) == len(row) else -1
        sums: dict[str, Array] = {}
        for task in known if kind >= 0 else ():
            if len(task.at):
                drawn = (task.unbiased if unbiased else task).at / len(row)
                sums[task.sample] = sums.get(task.sample, 0.0) + drawn
        parts = [(x - x.mean()) / math.sqrt(len(x) - 1) for x in sums.values()]
        at = [x.at.mean() if x is not None and len(x.at) else math.nan for x in row]
        asking = sum(task.asking**2 for task in known) / len(row) ** 2
        rows.append((np.concatenate([np.empty(0), *parts]), asking, kind, at))
    spread = np.zeros((len(rows), max(len(row[0]) for row in rows)))
    for place, (part, *_) in enumerate(rows):
        spread[place, : len(part)] = part
    return _Joint(spread, *map(np.array, zip(*(row[1:] for row in rows), strict=True)))
