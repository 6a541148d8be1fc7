"""Compare two selections of scores: models, ways of asking, wordings, before and after a training.

A selection is a part of `Results.scores`. Scores are paired by what was asked. Runs asked in the
same way have ranks: ranges that such comparisons cannot narrow further.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from lm_eval_epidemia.benchmarks import Benchmark, list_groups
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.results.choose import KEY, join_scores
from lm_eval_epidemia.results.decode import POPULATION, leaves_of
from lm_eval_epidemia.score.clustered import (
    SMALLEST,
    Clustered,
    Layout,
    average_clusters,
    priors_from,
)
from lm_eval_epidemia.score.joint import Draws, difference, joint_bias, joint_error, own_errors

#: Two-sided level of confidence of every "better".
CONFIDENCE = 0.95

#: Standard errors beyond which a difference is shown in these tasks, and by which a task is won.
HERE, WON_BY = float(special.ndtri((1 + CONFIDENCE) / 2)), 2

#: With fewer outcomes nothing is said of others from the metric itself, or from log `l1`.
FEWEST, FEWEST_ON_LOG = 8, 4


def outcomes(asked: pd.DataFrame) -> list[Hashable]:
    """Return the outcome of each task: tasks with the same outcome are one observation."""
    return [of.entry.outcome for of in leaves_of(asked)]


class Comparison(NamedTuple):
    """Two selections over what both were asked.

    Attributes
    ----------
    difference, error : float
        Mean of the first's value minus the second's; its standard error from the variation of the
        difference between outcomes (CR2, `score.clustered`). With one outcome it is NaN, unless the
        task's own questions are a sample: then from the variation between these.
    low, high, half_width : float
        Its interval at `CONFIDENCE` for other outcomes; NaN below `FEWEST`. Half its length, at
        most as large as the scale of the metric allows, is given below that, too.
    corrected, corrected_error : float
        The difference minus the mean effect of the surveys' sampling error, which shifts
        respondents that overestimate and underestimate differently; its joint standard error in
        these very tasks. NaN if a task's replicates are unknown.
    population, population_error : float
        The same of the scores against the population before the cut-off at 100; NaN also if the
        benchmark has no such score.
    l1_ratio, l1_ratio_low, l1_ratio_high : float
        Geometric mean over tasks of the first's `l1` over the second's, and its interval by a
        moderated t; NaN below `FEWEST_ON_LOG` outcomes, or without a prior.
    tasks, outcomes : int
        Outcomes of a survey; for one set of quantities, the quantities.
    wins, ties, losses : int
        Tasks in which the first is better, equal or worse, by more than `WON_BY` joint standard
        errors; a tie if that is unknown.
    verdict : str
        ``not shown``: the difference, the corrected one, or that of the scores against the
        population is within its joint error, or that is unknown. ``better here`` or ``worse here``:
        all three exceed it on the same side, in these tasks. ``better`` or ``worse``: other
        outcomes should show it too.
    """

    difference: float
    error: float
    low: float
    high: float
    half_width: float
    corrected: float
    corrected_error: float
    population: float
    population_error: float
    l1_ratio: float
    l1_ratio_low: float
    l1_ratio_high: float
    tasks: int
    outcomes: int
    wins: int
    ties: int
    losses: int
    verdict: str


def compare_scores(
    one: pd.DataFrame, other: pd.DataFrame, pool: Pool | None = None, on: Sequence[str] = KEY
) -> Comparison | None:
    """Compare two selections of scores, task by task; None if they have no task in common.

    Parameters
    ----------
    one, other : DataFrame
        Rows of `Results.scores`, each of one run, of tasks of one benchmark.
    pool : Pool, optional
        Runs by which differences in log `l1` are judged; without it they are not.
    on : sequence of str
        What has to agree, so that two scores are paired.
    """
    both = join_scores(one, other, on)
    if both.empty:
        return None
    # In two ways of asking the first has the way.
    asked = both if "way" in both else both.assign(way=both["way_x"])
    of = leaves_of(asked[:1])[0].benchmark
    across = _across(of, asked, pool)
    here = _judge_tasks(of, both)
    side = here["side"]
    verdict = "not shown"
    if side:
        verdict = "better" if (side > 0) == bool(of.lead.higher_is_better) else "worse"
        verdict += "" if across["elsewhere"] == side else " here"
    named = {name: x for name, x in {**across, **here}.items() if name in Comparison._fields}
    return Comparison(**named, tasks=len(both), verdict=verdict)


def _across(of: Benchmark, both: pd.DataFrame, pool: Pool | None) -> dict[str, Any]:
    """Return what a difference tells about other outcomes.

    ``elsewhere`` is 1 or -1 if an interval shows that the difference is above or below 0 in other
    outcomes too, else 0. With at least `FEWEST` outcomes the metric's interval decides, below that
    the one of log `l1`.
    """
    clusters = outcomes(both)
    number = len(set(clusters))
    apart = average_clusters([*(both["value"] - both["value_other"])], clusters)
    if of.has_samples and len(both) == 1:
        draws = difference(both["draws"][0], both["draws_other"][0])
        if draws is not None:
            number = round(min(both["seen"][0], both["seen_other"][0]) * len(draws.at))
            apart = Clustered(apart.mean, joint_error([draws]), number - 1)
    reach = min(apart.reach(CONFIDENCE), most := of.lead.high - of.lead.low)
    low = high = ratio = nearer = farther = math.nan
    elsewhere, far = 0, math.nan
    if pool is not None and number >= FEWEST_ON_LOG and "asked_as" in both:
        runs = [both["run"].iloc[0], both["run_other"].iloc[0]]
        apart_on_log, far = (of[0, 1] for of in pool.bounds(runs, both, CONFIDENCE))
    if not math.isnan(far):
        ratio, nearer, farther = (math.exp(apart_on_log + x) for x in (0, -far, far))
        # Whoever is nearer to the truth has the higher score.
        elsewhere = (farther < 1) - (nearer > 1)
    if number >= FEWEST:
        low, high = max(apart.mean - reach, -most), min(apart.mean + reach, most)
        elsewhere = (low > 0) - (high < 0)
    return {
        "difference": apart.mean,
        "error": apart.error,
        "low": low,
        "high": high,
        "half_width": reach,
        "l1_ratio": ratio,
        "l1_ratio_low": nearer,
        "l1_ratio_high": farther,
        "outcomes": number,
        "elsewhere": elsewhere,
    }


def _judge_tasks(of: Benchmark, both: pd.DataFrame) -> dict[str, Any]:
    """Return what a difference is in these very tasks.

    A difference is shown if it exceeds its errors with and without its bias, because the estimated
    bias has an error that in small surveys is as large as the bias; and against the population,
    because D_perfect and the cut-off at 100 may separate two equals (benchmarks/verdicts.py).
    """
    d = (both["value"] - both["value_other"]).to_numpy()
    draws = _differences(both, "draws")
    unbiased = [drawn and drawn.unbiased for drawn in draws]
    mean = math.fsum(d) / len(d)
    corrected, error = mean - joint_bias([*d], draws), joint_error(unbiased)
    side = 1 if mean > 0 else -1
    shown = min(side * mean, side * corrected) > HERE * error
    sides = _sides(d, draws, WON_BY * own_errors(unbiased))
    population = population_error = math.nan
    if POPULATION in of.metrics(of.plain):
        apart = (_uncut(both, "") - _uncut(both, "_other")).to_numpy()
        against = _differences(both, "population")
        population, population_error = math.fsum(apart) / len(d), joint_error(against)
        shown &= side * population > HERE * population_error
        sides = np.where(sides * apart > WON_BY * own_errors(against), sides, 0)
    above, below = int((sides > 0).sum()), int((sides < 0).sum())
    wins, losses = (above, below) if of.lead.higher_is_better else (below, above)
    return {
        "corrected": corrected,
        "corrected_error": error,
        "population": population,
        "population_error": population_error,
        "wins": wins,
        "ties": len(d) - wins - losses,
        "losses": losses,
        "side": side if shown else 0,
    }


def _differences(both: pd.DataFrame, name: str) -> list[Draws | None]:
    return [difference(a, b) for a, b in zip(both[name], both[f"{name}_other"], strict=True)]


def _uncut(both: pd.DataFrame, whose: str) -> pd.Series:
    if f"{POPULATION}{whose}" not in both:
        return pd.Series(math.nan, both.index)
    return population_uncut(both[f"population{whose}"], both[f"{POPULATION}{whose}"])


def population_uncut(draws: pd.Series, cut: pd.Series) -> pd.Series:
    """Return the scores against the population before the cut-off, which means are made of."""
    return pd.Series(
        [
            x if drawn is None or drawn.uncut is None else drawn.uncut
            for drawn, x in zip(draws, cut, strict=True)
        ],
        draws.index,
        dtype=float,
    )


def _sides(d: Array, draws: Sequence[Draws | None], bounds: Array) -> Array:
    """Return by task 1 or -1 if the difference exceeds a bound with and without bias, else 0."""
    corrected = [
        x - (at.at.mean() - x) if at is not None and len(at.at) else x
        for x, at in zip(d, draws, strict=True)
    ]
    side = np.where(d > 0, 1, -1)
    return np.where(np.minimum(side * d, side * np.array(corrected)) > bounds, side, 0)


#: Of the mean replicate distance: a smaller `l1` counts as this, as no survey tells them apart.
FLOOR = 0.1

#: A published table is printed to a tenth of a per cent: a share is off by .00025 on average.
PRINTED = 0.00025

#: Fewer pairs than these say too little of how others vary.
LEAST_PAIRS = 10


def noise_of(truth: GroundTruth) -> float:
    """Return D0, the mean distance between a truth and other samples of its survey, in (0, 2]."""
    if truth.distances and (mean := float(truth.distances[truth.scheme].mean())) > 0:
        return mean
    return PRINTED * len(truth.levels)


class _ModelPairs:
    """All pairs of models asked the same tasks, and how much each two differ.

    Parameters
    ----------
    layout : Layout
    models : Series of str, length N
        By run.
    logs : ndarray, shape (N, T)
        Log `l1` of each task, floored.
    """

    def __init__(self, layout: Layout, models: pd.Series, logs: Array) -> None:
        self.layout, self.logs = layout, logs
        self.rows = {run: row for row, run in enumerate(models.index)}
        #: Of which model each row is.
        self.model, names = pd.factorize(models)
        self.models = len(names)
        #: Whether any prior can be fitted.
        self.known = False
        if not (self.rows and layout.freedom):
            return
        off = layout.residuals(logs)
        # Row by row, as an array of all outcomes would be large.
        variances = np.array([((row - off) ** 2).sum(axis=-1) for row in off])
        first, other = np.triu_indices(len(models), 1)
        apart = self.model[first] != self.model[other]
        first, other = first[apart], other[apart]
        #: CR2 variances of the mean difference of log `l1` of two, as logarithms.
        known = variances[first, other]
        least = SMALLEST * float(np.median(known)) if len(known) else 0.0
        if not least > 0:
            return
        self.known, of_pair = True, np.log(np.maximum(known, least))
        self._center = float(of_pair.mean())
        off_center = of_pair - self._center
        powers = np.stack([np.ones(len(known)), off_center, off_center**2])
        self._total = powers.sum(axis=1)
        place = self.model[first] * self.models + self.model[other]
        shape = self.models, self.models
        both = [np.bincount(place, x, self.models**2).reshape(shape) for x in powers]
        #: By two models: the number of their pairs, and the sums of logarithms and squares.
        self._both = np.stack([x + x.T for x in both])

    def priors(self, one: NDArray[np.int_], other: NDArray[np.int_]) -> tuple[Array, Array]:
        """Fit the priors of pairs of models to the pairs that contain neither.

        Sums over all pairs minus sums over the pairs with either.

        Returns
        -------
        freedom, variance : ndarray
            NaN with too few pairs.
        """
        of_each = self._both.sum(axis=2)
        same = np.equal(one, other)
        without = of_each[:, one] + np.where(same, 0, of_each[:, other] - self._both[:, one, other])
        pairs, total, squares = (self._total - without.T).T
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(pairs >= LEAST_PAIRS, total / pairs, math.nan)
            variance = (squares - pairs * mean**2) / (pairs - 1)
        return priors_from(self._center + mean, variance, self.layout.freedom)


class Pool:
    """Runs by which differences in log `l1` are judged.

    Parameters
    ----------
    scores : DataFrame
        Of any number of runs, with ``model``.
    noise : mapping of str to float
        D0 by task, as from `noise_of`. Tasks without one have no log `l1`.
    """

    def __init__(self, scores: pd.DataFrame, noise: Mapping[str, float]) -> None:
        floors = FLOOR * scores["task"].map(noise)
        l1 = scores.get("l1", pd.Series(math.nan, scores.index))
        here = scores.assign(log=np.log(np.maximum(l1, floors)))[l1.notna() & floors.notna()]
        self._models = here.groupby("run")["model"].last()
        self._logs = here.set_index(["run", *KEY])["log"].unstack(KEY)
        self._known: dict[tuple[tuple[str, ...], ...], _ModelPairs] = {}

    def pairs(self, asked: pd.DataFrame) -> _ModelPairs:
        """Return all pairs of the runs with known log `l1` in these tasks."""
        keys = tuple(asked[KEY].itertuples(index=False, name=None))
        if keys not in self._known:
            logs = self._logs.reindex(columns=pd.MultiIndex.from_tuples(keys)).dropna()
            models, layout = self._models[logs.index], Layout(outcomes(asked))
            self._known[keys] = _ModelPairs(layout, models, logs.to_numpy())
        return self._known[keys]

    def bounds(
        self, runs: Sequence[int], asked: pd.DataFrame, confidence: float
    ) -> tuple[Array, Array]:
        """Judge all pairs of runs by their mean difference of log `l1`.

        The variance over outcomes is shrunk towards that of the pool's pairs of models that contain
        neither of the two: with d0 and s0^2 of `priors`, ``(d0 s0^2 + d s^2) / (d0 + d)`` with d0 +
        d degrees of freedom. Runs of one model are not pairs. M models make M (M - 1) / 2 pairs,
        worth only M - 1 independent ones: degrees of freedom are at most M times those of a pair.

        Returns
        -------
        difference, reach : ndarray, shape (N, N)
            The mean difference, and half its interval; NaN if an `l1` is unknown, if all tasks are
            on one outcome, or with fewer than `LEAST_PAIRS` such pairs.
        """
        pairs = self.pairs(asked)
        difference, reach = np.full((2, len(runs), len(runs)), math.nan)
        here = [place for place, run in enumerate(runs) if run in pairs.rows]
        if not here or not pairs.known:
            return difference, reach
        rows = [pairs.rows[runs[place]] for place in here]
        own, freedom = pairs.layout.residuals(pairs.logs[rows]), pairs.layout.freedom
        squares = np.array([((row - own) ** 2).sum(axis=-1) for row in own])
        one, other = np.meshgrid(pairs.model[rows], pairs.model[rows], indexing="ij")
        of_prior, variance = pairs.priors(one, other)
        share = 1 / (1 + freedom / of_prior)  # of an endless freedom all
        error = np.sqrt(share * variance + (1 - share) * squares)
        most = (pairs.models - np.where(one == other, 1, 2)) * freedom
        t = special.stdtrit(np.minimum(of_prior + freedom, most), (1 + confidence) / 2)
        means = pairs.logs[rows].mean(axis=1)
        difference[np.ix_(here, here)] = np.subtract.outer(means, means)
        reach[np.ix_(here, here)] = error * t
        return difference, reach


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
