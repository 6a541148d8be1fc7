"""Compare two selections of scores: models, ways of asking, wordings, before and after a training.

A selection is a part of `Results.scores`. Scores are paired by what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from lm_eval_epidemia.benchmarks import Benchmark, in_way, list_leaves
from lm_eval_epidemia.benchmarks.prior import PRIOR
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.findings.pool import Pool
from lm_eval_epidemia.results.choose import KEY, join_scores
from lm_eval_epidemia.results.decode import POPULATION
from lm_eval_epidemia.score.joint import Draws, difference, joint_bias, joint_error, own_errors
from lm_eval_epidemia.score.outcomes import Clustered, average_clusters

#: Two-sided level of confidence of every "better".
CONFIDENCE = 0.95

#: Standard errors beyond which a difference is shown in these tasks, and by which a task is won.
HERE, WON_BY = float(special.ndtri((1 + CONFIDENCE) / 2)), 2

#: With fewer outcomes nothing is said of others from the metric itself, or from log `l1`.
FEWEST, FEWEST_ON_LOG = 8, 4


def outcomes(asked: pd.DataFrame) -> list[Hashable]:
    """Return the outcome of each task: tasks with the same outcome are one observation."""
    known = list_leaves()
    return [
        known[in_way(task, way)].entry.outcome
        for task, way in zip(asked["task"], asked["way"], strict=True)
    ]


class Comparison(NamedTuple):
    """Two selections over what both were asked.

    Attributes
    ----------
    difference, error : float
        Mean of the first's value minus the second's; its standard error from the variation of the
        difference between outcomes (CR2, `score.outcomes`). With one outcome it is NaN, unless the
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
    of = list_leaves()[in_way(asked["task"][0], asked["way"][0])].benchmark
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
    if of is PRIOR and len(both) == 1:
        # Of one set of quantities these are what is sampled.
        draws = difference(both["draws"][0], both["draws_other"][0])
        if draws is not None:
            number = round(min(both["seen"][0], both["seen_other"][0]) * len(draws.at))
            apart = Clustered(apart.mean, joint_error([draws]), number - 1)
    reach = min(apart.reach(CONFIDENCE), most := of.lead.high - of.lead.low)
    low = high = ratio = nearer = farther = math.nan
    elsewhere = 0
    on_log = pool.difference(both) if pool is not None else None
    if on_log is not None and number >= FEWEST_ON_LOG:
        far = on_log.reach(CONFIDENCE)
        ratio, nearer, farther = (math.exp(on_log.mean + x) for x in (0, -far, far))
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
