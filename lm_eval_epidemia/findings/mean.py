"""Means over tasks with joint errors, of groups and of any part of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from lm_eval_epidemia.benchmarks import in_way, leaves, unions
from lm_eval_epidemia.benchmarks.observation.apart import Known
from lm_eval_epidemia.results.compare import POPULATION, population_uncut
from lm_eval_epidemia.score.collect import LOW_MASS
from lm_eval_epidemia.score.joint import joint_error

#: 1.96 standard errors to either side are an interval of 95 %.
REACH = 1.96


def mean(scores: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Average the scores of tasks with equal weight, over what agrees in some columns.

    Returns
    -------
    DataFrame
        The columns `by`, ``value``, ``error`` (joint for these tasks; NaN if that of one is
        unknown), ``low`` and ``high`` (1.96 errors to either side, within the scale), ``tasks``,
        ``choice_mass`` and ``answered`` (over the tasks that have them).
    """
    known = with_columns(scores[scores["value"].notna()], ("choice_mass", "answered"))
    parts = known.groupby([*by], sort=False, dropna=True)
    table = parts.agg(
        value=("value", lambda values: math.fsum(values) / len(values)),
        error=("draws", lambda draws: joint_error(list(draws))),
        tasks=("task", "size"),
        choice_mass=("choice_mass", "mean"),
        answered=("answered", "mean"),
        first=("task", lambda of: of.index[0]),
    ).reset_index()
    asked = known.loc[table["first"], ["task", "way"]].set_axis(table.index)
    return with_interval(table.drop(columns="first"), asked)


def averaged(tasks: Sequence[Mapping[str, Known]]) -> dict[str, float]:
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


def with_columns(scores: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Add metrics that no run has, as NaN."""
    return scores.assign(**{name: math.nan for name in names if name not in scores})


def with_interval(table: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """Add ``low`` and ``high``: 1.96 standard errors to either side, within the scale."""
    known = leaves()
    measures = [
        known[in_way(task, way)].benchmark.measure
        for task, way in zip(asked["task"], asked["way"], strict=True)
    ]
    reach = REACH * table["error"].fillna(0)
    low = pd.Series([measure.low for measure in measures], table.index, dtype=float)
    high = pd.Series([measure.high for measure in measures], table.index, dtype=float)
    return table.assign(
        low=(table["value"] - reach).clip(lower=low), high=(table["value"] + reach).clip(upper=high)
    )


def grouped(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of benchmarks that have any, and once more those of unions.

    A union, such as all tasks of a way, counts only for runs that were asked all of it, because a
    part mixes its groups differently.
    """
    known = leaves()
    names = [in_way(task, way) for task, way in zip(scores["task"], scores["way"], strict=True)]
    is_scored = pd.Series(
        [known[name].benchmark.scored for name in names], scores.index, dtype=bool
    )
    parts = [scores[is_scored]]
    for union, members in unions().items():
        within = scores[pd.Series(names, scores.index, dtype=object).isin(members)]
        here = within[within["value"].notna()]
        asked = here.groupby("run")["task"].transform("size")
        whole = within["run"].isin(here["run"][asked == len(members)])
        parts.append(within[whole].assign(group=union))
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def with_facets(scores: pd.DataFrame, names: Sequence[str] = ()) -> pd.DataFrame:
    """Add what tasks are cut by: survey, domain, dimension, subset, nodes; NaN without it."""
    known = leaves()
    facets = pd.DataFrame(
        [
            dict(known[in_way(task, way)].entry.facets)
            for task, way in zip(scores["task"], scores["way"], strict=True)
        ],
        index=scores.index,
    )
    return pd.concat([scores, facets if not names else facets.reindex(columns=[*names])], axis=1)


def population_mean(scores: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Average the scores against the population.

    The mean and its 95 % interval are cut off at 0 and 100, but tasks are not: a respondent that
    knows the population is above 100 in some and below in others. A part with a task without such a
    score has none.
    """
    known = with_columns(scores[scores["value"].notna()], (POPULATION,))
    known = known.assign(uncut=population_uncut(known["population"], known[POPULATION]))
    table = (
        known.groupby([*by], sort=False)
        .agg(
            value=("uncut", lambda values: math.fsum(values) / len(values)),
            error=("population", lambda draws: joint_error(list(draws))),
            tasks=("task", "size"),
        )
        .reset_index()
    )
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
