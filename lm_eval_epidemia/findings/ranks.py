"""Ranks of runs asked in the same way, as ranges that paired comparisons cannot narrow further."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import list_groups
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.findings.compare import (
    CONFIDENCE,
    FEWEST,
    FEWEST_ON_LOG,
    HERE,
    POPULATION,
    Pool,
    compare_scores,
    outcomes,
    population_uncut,
)
from lm_eval_epidemia.results.choose import KEY
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.score.outcomes import Clustered, Layout

#: Arrays and single pairs differ by rounding: what is nearer to a bound is decided pair by pair.
CLOSE = 1e-6


class Standing(NamedTuple):
    """The rank of a run in a group.

    Attributes
    ----------
    best, worst : float
        The possible ranks: 1 + the number of runs shown better, and the number of runs minus those
        shown worse. NaN if it is not ranked, or has nothing to be compared with.
    shared, among : float
        Number of tasks of its ranking, and of ranked runs; NaN if nothing is ranked.
    """

    best: float
    worst: float
    shared: float
    among: float


def label_asking(scores: pd.DataFrame) -> pd.Series:
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
    how = label_asking(scores)
    for _, runs in how.groupby(how, sort=False):
        asked = [run for run in runs.index if can_rank[run]]
        shared = ranked_tasks([keys[run] for run in asked]) if asked else frozenset()
        ranked = [run for run in asked if shared <= keys[run]]
        ranked = [] if list_groups()[group].predicts else ranked
        of = compare_runs(scores, group, ranked, sorted(shared), pool)
        for run in runs.index:
            best = worst = math.nan
            if run in ranked and len(ranked) > 1:
                against = of[ranked.index(run)]
                best, worst = 1 + int((against < 0).sum()), len(ranked) - int((against > 0).sum())
            placed[run] = Standing(best, worst, len(shared) or math.nan, len(ranked) or math.nan)
    return placed


def compare_runs(
    scores: pd.DataFrame, group: str, runs: Sequence[int], tasks: Sequence[Any], pool: Pool
) -> NDArray[np.int8]:
    """Compare all pairs of runs as `compare_scores` does.

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
    of_run = asked.merge(scores, on=KEY).groupby("run")
    mine = {run: of_run.get_group(run).reset_index(drop=True) for run in runs}
    number = len(set(outcomes(asked)))
    if list_groups()[group].has_samples and len(asked) == 1:
        undecided = list(combinations(range(len(runs)), 2))
    elif number < FEWEST_ON_LOG:
        return of
    else:
        of, undecided = _decided(mine, group, asked, pool if number < FEWEST else None)
    for i, j in undecided:
        made = compare_scores(mine[runs[i]], mine[runs[j]], pool)
        of[i, j] = {"better": 1, "worse": -1}.get(made.verdict if made else "", 0)
        of[j, i] = -of[i, j]
    return of


def _decided(
    mine: Mapping[int, pd.DataFrame], group: str, asked: pd.DataFrame, pool: Pool | None
) -> tuple[NDArray[np.int8], list[tuple[int, int]]]:
    """Return `compare_runs` for pairs without a close bound, and the pairs with one.

    With a pool, log `l1` decides about other outcomes, else the metric itself.
    """
    benchmark = list_groups()[group]
    values = np.array([of["value"] for of in mine.values()])
    means = values.mean(axis=1)
    draws = [[*of["draws"]] for of in mine.values()]
    errors = [_errors([[task and task.unbiased for task in row] for row in draws])]
    # By how much sampling error shifts each mean; not that of an exact table.
    at = np.array([[x.at.mean() if x and len(x.at) else math.nan for x in row] for row in draws])
    apart = [means, means - np.nan_to_num(at - values).mean(axis=1)]
    if POPULATION in benchmark.metrics(benchmark.plain):
        errors.append(_errors([[*of["population"]] for of in mine.values()]))
        uncut = [population_uncut(of["population"], of[POPULATION]) for of in mine.values()]
        apart.append(np.array(uncut).mean(axis=1))
    numbers = [np.subtract.outer(x, x) for x in apart]
    if pool is None:
        layout = Layout(outcomes(asked))
        off = layout.residuals(values)
        reach = Clustered(0.0, 1.0, layout.freedom).reach(CONFIDENCE)
        far = reach * np.array([np.sqrt(((row - off) ** 2).sum(axis=-1)) for row in off])
        across = numbers[0]
    else:
        nearer, far = pool.bounds([*mine], asked, CONFIDENCE)
        across = -nearer  # who is nearer has the higher score
    side = np.sign(numbers[0])
    # How far each number is beyond its bound. All have to be, and NaN is not.
    beyond = [side * across - far, side * numbers[0] - HERE * errors[0]]
    beyond += [side * x - HERE * error for x, error in zip(numbers[1:], errors, strict=True)]
    least = np.nan_to_num(np.min(beyond, axis=0), nan=-math.inf)
    better = 1 if benchmark.lead.higher_is_better else -1
    near = [(int(i), int(j)) for i, j in np.argwhere(np.triu(np.abs(least) <= CLOSE, 1))]
    return np.where(least > 0, better * side, 0).astype(np.int8), near


def _errors(draws: Sequence[Sequence[Draws | None]]) -> Array:
    """Return the joint standard error of each difference of means, shape (N, N).

    NaN if the two do not have the same replicates in all tasks.
    """
    kinds: dict[Any, int] = {}
    rows, kind, asking = [], [], []
    for row in draws:
        known = [task for task in row if task is not None]
        whose = tuple((task.sample, len(task.at)) for task in known)
        is_known = len(known) == len(row)
        kind.append(kinds.setdefault(whose, len(kinds)) if is_known else math.nan)
        asking.append(sum(task.asking**2 for task in known) / len(row) ** 2)
        sums: dict[str, Array] = {}
        for task in known if is_known else ():
            if len(task.at):
                sums[task.sample] = sums.get(task.sample, 0.0) + task.at / len(row)
        # Over the root of their degrees of freedom: the sum of squares is the variance.
        parts = [(x - x.mean()) / math.sqrt(len(x) - 1) for x in sums.values()]
        rows.append(np.concatenate([np.empty(0), *parts]))
    spread = np.zeros((len(rows), max(map(len, rows))))
    for place, part in enumerate(rows):
        spread[place, : len(part)] = part
    squares = (spread**2).sum(axis=1)
    variance = np.maximum(np.add.outer(squares, squares) - 2 * spread @ spread.T, 0)
    variance += np.add.outer(asking, asking)
    return np.where(np.equal.outer(kind, kind), np.sqrt(variance), math.nan)
