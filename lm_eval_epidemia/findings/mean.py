"""Means over tasks with joint errors, of groups and of any part of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import in_way, list_unions
from lm_eval_epidemia.benchmarks.observation.other_scales import ScaleValue
from lm_eval_epidemia.findings.compare import POPULATION, population_uncut
from lm_eval_epidemia.results.decode import leaves_of
from lm_eval_epidemia.score.collect import LOW_MASS
from lm_eval_epidemia.score.joint import joint_error

#: Up to here, but for rounding, an error is 0: all samples say the same, and none tells how far
#: another one would be.
ALIKE = 1e-9

#: 1.96 standard errors to either side are an interval of 95 %.
REACH = 1.96


def average(scores: pd.DataFrame, by: Sequence[str], beside: Sequence[str] = ()) -> pd.DataFrame:
    """Average the scores of tasks with equal weight, over what agrees in some columns.

    Returns
    -------
    DataFrame
        The columns `by`, ``value``, ``error`` (joint for these tasks; NaN if that of one is
        unknown, or all samples of questions agree), ``low`` and ``high`` (1.96 errors to either
        side, within the scale), ``tasks``, ``choice_mass`` and ``answered`` (over the tasks that
        have them), and the means of the columns `beside`, NaN if that of one task is.
    """
    known = add_metrics(scores[scores["value"].notna()], ("choice_mass", "answered"))
    parts = known.groupby([*by], sort=False, dropna=True)
    table = parts.agg(
        value=("value", lambda values: math.fsum(values) / len(values)),
        error=("draws", lambda draws: joint_error(list(draws))),
        tasks=("task", "size"),
        choice_mass=("choice_mass", "mean"),
        answered=("answered", "mean"),
        first=("task", lambda of: of.index[0]),
        **{name: (name, lambda of: of.sum(skipna=False) / len(of)) for name in beside},
    ).reset_index()
    asked = known.loc[table["first"], ["task", "way"]].set_axis(table.index)
    of_scores = add_interval(table.drop(columns=["first", *beside]), asked)
    return pd.concat([of_scores, table[[*beside]]], axis=1)


def average_columns(tasks: Sequence[Mapping[str, ScaleValue]]) -> dict[str, float]:
    """Average numbers that were computed task by task: columns NAME, NAME_error, NAME_tasks.

    A number is averaged over the tasks that have it, with their joint error.
    """
    row: dict[str, float] = {}
    for name in dict.fromkeys(name for task in tasks for name in task):
        known = [task[name] for task in tasks if name in task]
        row[name] = math.fsum(number.value for number in known) / len(known)
        row[f"{name}_error"] = joint_error([number.draws for number in known])
        row[f"{name}_tasks"] = len(known)
    return row


def add_metrics(scores: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Add metrics that no run has, as NaN."""
    return scores.assign(**{name: math.nan for name in names if name not in scores})


def add_interval(table: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """Add ``low`` and ``high``: 1.96 standard errors to either side, within the scale.

    Where all samples of questions agree, the error is not known.
    """
    of = [each.benchmark for each in leaves_of(asked)]
    low, high = (np.array([getattr(x.lead, end) for x in of], float) for end in ("low", "high"))
    of_survey = np.array([each.of_surveys for each in of], bool)
    error = table["error"].where(of_survey | ~(table["error"] <= ALIKE))
    value, reach = table["value"], REACH * error.fillna(0)
    return table.assign(
        error=error, low=(value - reach).clip(lower=low), high=(value + reach).clip(upper=high)
    )


def group_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of benchmarks that have any, and once more those of unions.

    A union, such as all tasks of a way, counts only for runs that were asked all of it, because a
    part mixes its groups differently.
    """
    names = pd.Series([*map(in_way, scores["task"], scores["way"])], scores.index, dtype=object)
    is_scored = [of.benchmark.scored for of in leaves_of(scores)]
    parts = [scores[np.array(is_scored, bool)]]
    for union, members in list_unions().items():
        within = scores[names.isin(members)]
        asked = within.groupby("run")["value"].transform("count")
        parts.append(within[asked == len(members)].assign(group=union))
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def add_facets(scores: pd.DataFrame, names: Sequence[str] = ()) -> pd.DataFrame:
    """Add what tasks are cut by: survey, domain, dimension, subset, nodes; NaN without it."""
    facets = pd.DataFrame([dict(of.entry.facets) for of in leaves_of(scores)], scores.index)
    return pd.concat([scores, facets.reindex(columns=[*names]) if names else facets], axis=1)


def population_mean(scores: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Average the scores against the population.

    The mean and its 95 % interval are cut off at 0 and 100, but tasks are not: a respondent that
    knows the population is above 100 in some and below in others. A part with a task without such a
    score has none.
    """
    known = add_metrics(scores[scores["value"].notna()], (POPULATION,))
    known = known.assign(uncut=population_uncut(known["population"], known[POPULATION]))
    parts = known.groupby([*by], sort=False)
    table = parts.agg(
        value=("uncut", lambda values: math.fsum(values) / len(values)),
        error=("population", lambda draws: joint_error(list(draws))),
        tasks=("task", "size"),
    ).reset_index()
    table = table[table["value"].notna()]
    value, reach = table["value"].clip(upper=100), REACH * table["error"]
    return table.assign(
        value=value, low=(value - reach).clip(lower=0), high=(value + reach).clip(upper=100)
    )


def is_silent(means: pd.DataFrame) -> Any:
    """Whether a run does not answer a group's questions: its score shows no knowledge.

    The mean of ``choice_mass``, or of ``answered``, the share of replies that could be read, is
    low.
    """
    return (means["choice_mass"] < LOW_MASS) | (means["answered"] < LOW_MASS)
