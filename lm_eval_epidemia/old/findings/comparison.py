"""Paired comparisons of two models, or two ways of asking one, over their common tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from lm_eval_epidemia.benchmarks import PRIOR, Benchmark, groups
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.old.findings.means import shared_tasks
from lm_eval_epidemia.old.findings.pool import Pool
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, TaskScore, outcomes
from lm_eval_epidemia.score.joint import Draws, difference, joint_bias, joint_error, own_errors
from lm_eval_epidemia.score.outcomes import Clustered, clustered

#: Two-sided level of confidence of every "better".
CONFIDENCE = 0.95

#: Standard errors beyond which a difference is shown in these tasks.
HERE = float(stats.norm.ppf((1 + CONFIDENCE) / 2))

#: Standard errors by which a task is won or lost.
WON_BY = 2

#: With fewer outcomes nothing is said of others from the metric itself, or from log `l1`.
FEWEST, FEWEST_ON_LOG = 8, 4

#: What is said then.
TOO_FEW = "too few outcomes to generalise"

#: Between the groups that are compared together.
AND = " + "


class Across(NamedTuple):
    """What a difference tells about other outcomes.

    Attributes
    ----------
    clusters : int
        Outcomes (of a survey) among the tasks; for one set of quantities, the quantities.
    difference : float
        Mean of the first's value minus the second's.
    error : float
        Its standard error, from the variation of the difference between outcomes. With one outcome
        it is NaN, unless the task's own questions are a sample: then from the variation between
        these.
    half_width : float
        Half the length of its interval at `CONFIDENCE`, at most as large as the metric's scale
        allows.
    low, high : float
        The interval, cut off at the scale's limits; NaN below `FEWEST` outcomes.
    ratio, ratio_low, ratio_high : float
        Geometric mean over tasks of the first's `l1` over the second's, and its interval by a
        moderated t; NaN below `FEWEST_ON_LOG` outcomes, or without a prior.
    elsewhere : int
        1 or -1 if an interval shows that the difference is above or below 0 in other outcomes too,
        else 0. With at least `FEWEST` outcomes the metric's interval decides, below that the one of
        log `l1`.
    """

    clusters: int
    difference: float
    error: float
    half_width: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    elsewhere: int


class Comparison(NamedTuple):
    """Two models over the tasks both were asked.

    Attributes
    ----------
    one, other : str
    column : str
        A group, or several joined by `AND`.
    tasks : int
        Tasks in common.
    higher_is_better : bool
        Of the metric compared.
    across : Across
        What the difference tells about other outcomes.
    corrected : float
        The difference minus the mean effect of the surveys' sampling error, which shifts
        respondents that overestimate and underestimate differently. NaN if a task's replicates are
        unknown.
    here : float
        Joint standard error of `corrected` in these very tasks; NaN likewise.
    population, population_here : float or None
        Difference of the scores against the population before the cut-off at 100 (as in their
        means), and its joint standard error; NaN likewise. None if the benchmark has no such score.
    wins, ties, losses : int
        Tasks in which the first is better than the second, equal, or worse, by more than twice the
        joint standard error; a tie if that is unknown.
    """

    one: str
    other: str
    column: str
    tasks: int
    higher_is_better: bool
    across: Across
    corrected: float
    here: float
    population: float | None
    population_here: float | None
    wins: int
    ties: int
    losses: int

    @property
    def verdict(self) -> str:
        """The verdict on the first, at `CONFIDENCE`.

        ``not shown``: the difference, the corrected one, or that of the scores against the
        population is within its joint error, or that error is unknown. ``better here`` or ``worse
        here``: all three exceed it on the same side, in these tasks. ``better`` or ``worse``:
        `across.elsewhere` is also on this side, so other outcomes should show it too.
        """
        population = self.population, self.population_here
        side = Here(self.across.difference, self.corrected, self.here, *population).side(HERE)
        if not side:
            return "not shown"
        which = "better" if (side > 0) == self.higher_is_better else "worse"
        return which if self.across.elsewhere == side else f"{which} here"

    def flat(self) -> dict[str, Any]:
        """Return all fields by name, with those of `across` and the verdict."""
        parts = {**self._asdict(), **self.across._asdict(), "verdict": self.verdict}
        del parts["across"]
        return parts


class Here(NamedTuple):
    """A difference in these very tasks; attributes as in `Comparison`."""

    difference: float
    corrected: float
    error: float
    population: float | None
    population_error: float | None

    def side(self, errors: float) -> int:
        """Return 1 or -1 if the difference exceeds this many standard errors, else 0.

        It must do so with and without its bias, because the estimated bias has an error that in
        small surveys is as large as the bias; and against the population, because D_perfect and the
        cut-off at 100 may separate two equals (benchmarks/verdicts.py).
        """
        side = 1 if self.difference > 0 else -1
        shown = min(side * self.difference, side * self.corrected) > errors * self.error
        if self.population is not None and self.population_error is not None:
            shown &= side * self.population > errors * self.population_error
        return side if shown else 0


def compare_entries(
    entry: Entry,
    other: Entry,
    column: str,
    tasks: Iterable[Asked] | None = None,
    pool: Pool | None = None,
) -> Comparison:
    """Compare two entries, task by task.

    Tasks on the same outcome of a survey, with different conditions, are similar and count as one
    observation of the difference: the standard error is CR2 over outcomes, with Satterthwaite's
    degrees of freedom (`score.outcomes`). Verdicts on these very tasks, wins and losses use the
    joint replicates of their surveys instead (`score.joint`).

    Quantities are a sample of possible questions, and draws have one number for each: within one
    set, the interval is over quantities instead, with one degree of freedom less.

    Parameters
    ----------
    entry, other : Entry
    column : str
        A group, as lm-eval knows it, or several joined by `AND`.
    tasks : iterable of Asked, optional
        Tasks in the group that both were asked; all by default.
    pool : Pool, optional
        Runs used to judge log `l1`; without them it is not judged.
    """
    common = _common(entry, other, column, tasks)
    pairs = [(entry.scores[asked], other.scores[asked]) for asked in common]
    across = across_outcomes(entry, other, column, common, pool)
    return _compared(entry.name, other.name, column, pairs, across)


def across_outcomes(
    entry: Entry,
    other: Entry,
    column: str,
    tasks: Iterable[Asked] | None = None,
    pool: Pool | None = None,
) -> Across:
    """Compare two entries for other outcomes only; parameters as for `compare_entries`."""
    common = _common(entry, other, column, tasks)
    pairs = [(entry.scores[asked], other.scores[asked]) for asked in common]
    log_l1 = None if pool is None else pool.difference(entry, other, common)
    return _across(column, common, pairs, log_l1)


def compare_ways(
    entry: Entry, column: str, tasks: Sequence[str], way: str, other: str
) -> Comparison:
    """Compare two ways of asking a model the same tasks, as for two models.

    Parameters
    ----------
    entry : Entry
    column : str
        A group of the first way, as lm-eval knows it.
    tasks : sequence of str
        Asked in both ways.
    way, other : str
    """
    asked = [Asked(task, way) for task in tasks]
    pairs = [(entry.scores[a], entry.scores[a._replace(way=other)]) for a in asked]
    across = _across(column, asked, pairs, None)
    return _compared(f"{entry.name}: {way}", other, column, pairs, across)


def benchmark_of(column: str) -> Benchmark:
    """Return the benchmark of a group, or of several compared together."""
    return groups()[column.split(AND)[0]]


def _common(entry: Entry, other: Entry, column: str, tasks: Iterable[Asked] | None) -> list[Asked]:
    if tasks is not None:
        return sorted(tasks)
    return [asked for part in column.split(AND) for asked in shared_tasks([entry, other], part)]


def _across(
    column: str,
    tasks: Sequence[Asked],
    pairs: Sequence[tuple[TaskScore, TaskScore]],
    log_l1: Clustered | None,
) -> Across:
    """Compare two scores of each task, for other outcomes."""
    benchmark = benchmark_of(column)
    if not tasks:
        return Across(0, *(math.nan,) * 8, 0)
    clusters = outcomes(tasks)
    number = len(set(clusters))
    of = clustered([first.value - second.value for first, second in pairs], clusters)
    if benchmark is PRIOR and len(pairs) == 1:
        # Of one set of quantities these are what is sampled.
        draws = difference(pairs[0][0].draws, pairs[0][1].draws)
        if draws is not None:
            number = round(min(score.seen for score in pairs[0]) * len(draws.at))
            of = Clustered(of.mean, joint_error([draws]), number - 1)
    measure = benchmark.measure
    reach = min(of.reach(CONFIDENCE), most := measure.high - measure.low)
    low = high = ratio = nearer = farther = math.nan
    elsewhere = 0
    if log_l1 is not None and number >= FEWEST_ON_LOG:
        far = log_l1.reach(CONFIDENCE)
        ratio, nearer, farther = (math.exp(log_l1.mean + x) for x in (0, -far, far))
        # Whoever is nearer to the truth has the higher score.
        elsewhere = (farther < 1) - (nearer > 1)
    if number >= FEWEST:
        low, high = max(of.mean - reach, -most), min(of.mean + reach, most)
        elsewhere = (low > 0) - (high < 0)
    return Across(number, of.mean, of.error, reach, low, high, ratio, nearer, farther, elsewhere)


def _compared(
    name: str,
    other: str,
    column: str,
    pairs: Sequence[tuple[TaskScore, TaskScore]],
    across: Across,
) -> Comparison:
    """Compare two scores of each task, for these very tasks."""
    benchmark = benchmark_of(column)
    populated = POPULATION in benchmark.metrics(benchmark.plain)
    higher = bool(benchmark.measure.higher_is_better)
    d = [first.value - second.value for first, second in pairs]
    draws = [difference(first.draws, second.draws) for first, second in pairs]
    against = [difference(first.population, second.population) for first, second in pairs]
    apart = [first.population_uncut - second.population_uncut for first, second in pairs]

    unbiased = [drawn and drawn.unbiased for drawn in draws]
    whole = Here(*(math.nan,) * 5)
    if d:
        mean = math.fsum(d) / len(d)
        whole = Here(mean, mean - joint_bias(d, draws), joint_error(unbiased), None, None)
        if populated:
            population = math.fsum(apart) / len(d)
            whole = whole._replace(population=population, population_error=joint_error(against))
    sides = _sides(np.array(d), draws, WON_BY * own_errors(unbiased))
    if populated:
        beyond = sides * np.array(apart) > WON_BY * own_errors(against)
        sides = np.where(beyond, sides, 0)
    above, below = int((sides > 0).sum()), int((sides < 0).sum())
    wins, losses = (above, below) if higher else (below, above)
    return Comparison(
        name,
        other,
        column,
        len(d),
        higher,
        across,
        *whole[1:],
        wins=wins,
        ties=len(d) - wins - losses,
        losses=losses,
    )


def _sides(d: Array, draws: Sequence[Draws | None], bounds: Array) -> Array:
    """Return `Here.side` task by task, without the population."""
    # The difference less its bias.
    corrected = [
        x - (at.at.mean() - x) if at is not None and len(at.at) else x
        for x, at in zip(d, draws, strict=True)
    ]
    side = np.where(d > 0, 1, -1)
    return np.where(np.minimum(side * d, side * np.array(corrected)) > bounds, side, 0)
