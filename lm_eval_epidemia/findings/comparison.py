"""Paired comparisons: two models over the tasks that both were asked, or two ways of one model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scipy import stats

from lm_eval_epidemia.benchmarks import PRIOR, groups
from lm_eval_epidemia.findings.means import shared_tasks
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore, leaf
from lm_eval_epidemia.score.joint import difference, joint_bias, joint_error

#: Two-sided level of confidence of every "better".
CONFIDENCE = 0.95

#: Standard errors by which a task is won or lost.
WON_BY = 2


class Comparison(NamedTuple):
    """Two models over the tasks both were asked.

    Attributes
    ----------
    one, other : str
    column : str
    tasks, clusters : int
        Tasks in common, and outcomes (of a survey) among them.
    higher_is_better : bool
        Of the metric compared.
    difference : float
        Mean of the first's value less the second's.
    error : float
        Its standard error, from how the difference varies between outcomes. NaN with one outcome,
        unless the task's own questions are a sample: then as it varies between these.
    low, high : float
        Confidence interval at `CONFIDENCE`.
    corrected : float
        The difference less what the surveys' sampling error adds to it on average: it moves two
        respondents differently, of whom one errs upward and one downward. NaN where the replicates
        of a task are not known.
    here : float
        Joint standard error of `corrected`, in these very tasks; NaN likewise.
    wins, ties, losses : int
        Tasks in which the first is shown better than the second, neither, or worse: both by the
        difference and the corrected one, by more than twice its joint standard error. Where that is
        not known, a tie.
    """

    one: str
    other: str
    column: str
    tasks: int
    clusters: int
    higher_is_better: bool
    difference: float
    error: float
    low: float
    high: float
    corrected: float
    here: float
    wins: int
    ties: int
    losses: int

    @property
    def verdict(self) -> str:
        """What can be said of the first, at `CONFIDENCE`.

        ``not shown``: the difference, or the corrected one, is within its joint error, or that is
        not known. ``better here`` or ``worse here``: both exceed it, in these tasks. ``better`` or
        ``worse``: besides, the interval leaves out 0 to the same side, so other outcomes of this
        kind would be expected to show it too.
        """
        reach = float(stats.norm.ppf((1 + CONFIDENCE) / 2)) * self.here
        if not (side := _shown(self.difference, self.corrected, reach)):
            return "not shown"
        which = "better" if (side > 0) == self.higher_is_better else "worse"
        elsewhere = self.low > 0 if side > 0 else self.high < 0
        return which if elsewhere else f"{which} here"


def _shown(difference: float, corrected: float, reach: float) -> int:
    """Return 1 or -1 where a difference is beyond what error can reach, else 0.

    Both with its bias and without: the estimate of the bias has an error of its own, which in small
    surveys is as large as the bias (benchmarks/coverage.py).
    """
    side = 1 if difference > 0 else -1
    return side if min(side * difference, side * corrected) > reach else 0


def compare_entries(
    entry: Entry, other: Entry, column: str, tasks: Iterable[Asked] | None = None
) -> Comparison:
    """Compare two entries, task by task.

    The standard error is cluster-robust: tasks that ask for the same outcome of a survey, given
    different conditions, are alike and count as one observation of how the two models differ
    (``sqrt(G / (G - 1) sum_g (sum_{t in g} (d_t - d))^2) / T``, G outcomes, T tasks); the interval
    takes Student's t with G - 1 degrees of freedom. What holds in these very tasks is judged by
    the joint replicates of their surveys instead (`score.joint`), as are wins and losses.

    Quantities are a sample of what could be asked, and draws have one number for each: where they
    are of one set, the interval is over these instead, with one degree of freedom less.

    Parameters
    ----------
    entry, other : Entry
    column : str
        A group, as lm-eval knows it.
    tasks : iterable of Asked, optional
        Of those in the group that both were asked; all of these if not given.
    """
    common = shared_tasks([entry, other], column) if tasks is None else sorted(tasks)
    pairs = [(entry.scores[asked], other.scores[asked]) for asked in common]
    return _compared(entry.name, other.name, column, common, pairs)


def compare_ways(
    entry: Entry, column: str, tasks: Sequence[str], way: str, other: str
) -> Comparison:
    """Compare two ways in which a model was asked the same tasks, as two models are compared.

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
    return _compared(f"{entry.name}: {way}", other, column, asked, pairs)


def _compared(
    name: str,
    other: str,
    column: str,
    common: Sequence[Asked],
    pairs: Sequence[tuple[TaskScore, TaskScore]],
) -> Comparison:
    """Compare two scores of each task."""
    higher = bool(groups()[column].measure.higher_is_better)
    if not common:
        nothing = (math.nan,) * 6
        return Comparison(name, other, column, 0, 0, higher, *nothing, 0, 0, 0)
    d = [first.value - second.value for first, second in pairs]
    outcomes = [leaf(asked).entry.outcome for asked in common]
    clusters = list(dict.fromkeys(outcomes))
    mean, error, freedom = math.fsum(d) / len(d), math.nan, 0
    draws = [difference(first.draws, second.draws) for first, second in pairs]
    if (number := len(clusters)) > 1:
        sums = [
            sum(x - mean for x, place in zip(d, outcomes, strict=True) if place == cluster)
            for cluster in clusters
        ]
        error = math.sqrt(number / (number - 1) * math.fsum(x * x for x in sums)) / len(d)
        freedom = number - 1
    elif groups()[column] is PRIOR and draws[0] is not None and len(draws) == 1:
        seen = min(score.seen for score in pairs[0])
        error, freedom = joint_error(draws), round(seen * len(draws[0].at)) - 1
    # Of one alone there is no interval.
    reach = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) if freedom else math.nan
    low, high = mean - reach, mean + reach
    unbiased = [drawn and drawn.unbiased for drawn in draws]
    shown = [
        _shown(x, x - joint_bias([x], [drawn]), WON_BY * joint_error([error]))
        for x, drawn, error in zip(d, draws, unbiased, strict=True)
    ]
    above, below = shown.count(1), shown.count(-1)
    wins, losses = (above, below) if higher else (below, above)
    return Comparison(
        name,
        other,
        column,
        len(d),
        number,
        higher,
        mean,
        error,
        low,
        high,
        mean - joint_bias(d, draws),
        joint_error(unbiased),
        wins,
        len(d) - wins - losses,
        losses,
    )
