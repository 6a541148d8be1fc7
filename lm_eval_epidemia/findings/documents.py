"""Two models over the documents of any lm-eval task that both answered, paired by document."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lm_eval_epidemia.core.errors import EpidemiaError, Option, OptionError, few, nearest, plural
from lm_eval_epidemia.findings.finding import Column
from lm_eval_epidemia.results.compare import CONFIDENCE, FEWEST
from lm_eval_epidemia.results.documents import (
    ROW,
    Answered,
    Metric,
    columns_in,
    groups_in,
    samples_of,
)
from lm_eval_epidemia.score.outcomes import Clustered
from lm_eval_epidemia.score.paired import MCNEMAR, Answers, paired

#: With fewer degrees of freedom Satterthwaite's t is too rough (Tipton 2015): a few clusters then
#: have most of the rows.
FEWEST_FREEDOM = 4

#: By how much a mean over documents may miss the number in the result file, by rounding.
ROUNDED = 1e-6

COLUMNS = {
    "task": Column(),
    "metric": Column(),
    "rows": Column(),
    "first": Column(digits=3),
    "second": Column(digits=3),
    "difference": Column(digits=3, signed=True, error="error"),
    "low": Column("95 %, from", digits=3, signed=True),
    "high": Column("to", digits=3, signed=True),
    "over_tasks_low": Column("over tasks, from", digits=3, signed=True),
    "over_tasks_high": Column("to", digits=3, signed=True),
    "wins": Column(),
    "ties": Column(),
    "losses": Column(),
    "p": Column(digits=3),
    "test": Column(),
    "verdict": Column("the first is"),
}

NOTE = (
    "The first model minus the second, paired by document, with standard error and interval over "
    "documents of the same tasks; 'over tasks' is the interval for similar tasks. p from McNemar's "
    "exact test or a paired t-test, not corrected for the number of comparisons."
)


class Matched(NamedTuple):
    """Common rows of a task, by metric, and what is left out."""

    one: Answered
    other: Answered
    metrics: dict[Metric, Answers]
    clustered_by: str
    alone: tuple[list[str], list[str]]
    no_means: list[Metric]


class Unlike(Exception):
    """Two runs of a task that cannot be compared, and why."""


def matched(one: Answered, other: Answered, names: Sequence[str], cluster: str | None) -> Matched:
    """Match the rows of a task; raise `Unlike` if they were asked differently."""
    for what, first, second in (
        ("number of few-shot examples", one.shots, other.shots),
        ("task version", one.version, other.version),
        ("system prompt", *((run.file.system_instruction_sha or "")[:8] for run in (one, other))),
    ):
        if first != second:
            values = " and ".join(value or "none" for value in (first, second))
            raise Unlike(f"{' and '.join(names)} were asked with different {what} ({values})")
    if changed := [key for key in one.config if one.config[key] != other.config[key]]:
        raise Unlike(f"the task's files differ in {few(changed)}")
    mine, theirs = samples_of(one, cluster), samples_of(other, cluster)
    both = mine.merge(theirs, on=ROW, suffixes=("", "_other"))
    if both.empty:
        raise Unlike("the two share no document (doc_id and doc_hash): the data differ")
    _check_asked(one, other, both)
    metrics: dict[Metric, Answers] = {}
    no_means = []
    for metric in (metric for metric in one.metrics if metric in other.metrics):
        tables = (mine, theirs)
        columns = [of[of["filter"] == metric.filter][metric.name] for of in tables]
        means = one.metrics[metric], other.metrics[metric]
        if not all(map(_is_mean, means, columns)):
            no_means.append(metric)
            continue
        # Of a document that only one has under this filter, nothing can be paired.
        here = both[both["filter"] == metric.filter]
        if len(here):
            pair = [*here[metric.name]], [*here[f"{metric.name}_other"]]
            metrics[metric] = Answers(*pair, [*here["cluster"]])
    keys = [[*of[ROW].itertuples(index=False, name=None)] for of in (mine, theirs)]
    alone = tuple(
        [*dict.fromkeys(key[0] for key in own if key not in rest)]
        for own, rest in ((keys[0], {*keys[1]}), (keys[1], {*keys[0]}))
    )
    return Matched(one, other, metrics, cluster or "", alone, no_means)  # type: ignore[arg-type]


def _check_asked(one: Answered, other: Answered, both: pd.DataFrame) -> None:
    """Raise `Unlike` if common documents have different prompts or right answers."""
    rows = plural(len(both), "row")
    # Each model has its own chat template, which is part of the model; nobody can look behind it.
    changed = int((both["prompt"] != both["prompt_other"]).sum())
    if one.template == other.template and changed:
        raise Unlike(
            f"{changed} of {rows} of samples had a different prompt (other examples, another "
            "lm-eval)"
        )
    if changed := int((both["target"] != both["target_other"]).sum()):
        raise Unlike(f"{changed} of {rows} of samples have a different right answer")


def _is_mean(told: float, values: pd.Series) -> bool:
    """Whether a task's score is the mean over its documents: only such means can be paired."""
    return len(values) > 0 and _is_close(math.fsum(values) / len(values), told)


def _is_close(mean: float, told: float) -> bool:
    return abs(mean - told) <= ROUNDED * max(1.0, abs(told))


def compare_documents(
    one: Mapping[str, Answered],
    other: Mapping[str, Answered],
    names: Sequence[str],
    cluster: str | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare two models over other people's tasks that both answered.

    Parameters
    ----------
    one, other : mapping of str to Answered
        By task.
    names : sequence of str
        Of the two models.
    cluster : str, optional
        A column of documents: rows with the same value are one observation. Tasks whose documents
        lack it are clustered by document.

    Returns
    -------
    rows : list of dict
        Groups, then tasks outside groups, then tasks in groups.
    notes : list of str
        Documents that only one model has, and what is not compared.

    Raises
    ------
    OptionError
        If no task has the column.
    """
    shared = [task for task in one if task in other]
    with_column = [task for task in shared if cluster and cluster in columns_in(one[task])]
    if cluster and shared and not with_column:
        columns = {column for task in shared for column in columns_in(one[task])}
        raise OptionError(
            Option("cluster", cluster),
            f": no task that both models answered has this column; {nearest(cluster, columns)}",
        )
    pairs: dict[str, Matched] = {}
    unlike: dict[str, list[str]] = defaultdict(list)
    for task in shared:
        by = cluster if task in with_column else None
        try:
            pairs[task] = matched(one[task], other[task], names, by)
        except (Unlike, EpidemiaError) as why:
            unlike[str(why)].append(task)  # samples that cannot be read are of their task alone
    notes = [f"not compared: {few(tasks)}: {why}" for why, tasks in unlike.items()]
    wholes, members, of_groups = _groups(pairs)
    singles = [
        _compared(task, [pair], metric, task in members)
        for task, pair in pairs.items()
        for metric in pair.metrics
    ]
    notes += [*_left_out([*pairs.values()], names), *of_groups]
    return [*wholes, *sorted(singles, key=lambda row: row["in_group"])], notes


def _compared(
    name: str, pairs: Sequence[Matched], metric: Metric, in_group: bool, by_size: bool = True
) -> dict[str, Any]:
    """Compare two models on a metric of a task, or of the tasks of a group."""
    answers = [pair.metrics[metric] for pair in pairs]
    result = paired(answers, by_size)
    rows = sum(len(task.first) for task in answers)
    higher = pairs[0].one.higher_is_better(metric.name)
    wins, losses = result.wins, result.losses
    wins, losses = (losses, wins) if higher is False else (wins, losses)
    low, high = _interval(result.of, result.clusters, result.most)
    across = _interval(result.over_tasks, len(pairs), result.most)
    by = pairs[0].clustered_by
    enough = _enough(result.of, result.clusters)
    # p of a t-test is not valid for few; McNemar's is for any number.
    tested = result.test == MCNEMAR or enough
    row = {
        "task": name,
        "metric": str(metric),
        "tasks": len(pairs),
        "rows": rows,
        "clusters": result.clusters,
        "clustered_by": by or "document",
        "too_few": "" if enough else f"too few {f'clusters by {by}' if by else 'documents'}",
        "first": result.first,
        "second": result.second,
        "difference": result.of.mean,
        "error": result.of.error,
        "low": low,
        "high": high,
        "freedom": result.of.freedom,
        "over_tasks_error": result.over_tasks.error,
        "over_tasks_low": across[0],
        "over_tasks_high": across[1],
        "wins": wins,
        "ties": rows - wins - losses,
        "losses": losses,
        "p": result.p if tested else math.nan,
        "test": result.test,
        "in_group": in_group,
    }
    return row | {"verdict": _verdict(row, higher)}


def _verdict(row: Mapping[str, Any], higher_is_better: bool | None) -> str:
    """Return the verdict on the first, at `CONFIDENCE`.

    ``better`` or ``worse`` in other documents of the task, and for a group in other tasks too;
    ``better here`` or ``worse here`` in other documents of a group's tasks alone. ``higher`` and
    ``lower`` if lm-eval does not say which is better. Else ``not shown``.
    """
    if not row["p"] < 1 - CONFIDENCE:
        return "not shown"
    side = 1 if row["difference"] > 0 else -1
    words = ("lower", "higher") if higher_is_better is None else ("worse", "better")
    up = side > 0 if higher_is_better is not False else side < 0
    low, high = row["over_tasks_low"], row["over_tasks_high"]
    elsewhere = row["tasks"] == 1 or (low > 0 if side > 0 else high < 0)
    return words[up] + ("" if elsewhere else " here")


def _enough(of: Clustered, clusters: int) -> bool:
    # Where the error is not known, all rows differ alike: that is not for want of clusters.
    return clusters >= FEWEST and (math.isnan(of.error) or of.freedom >= FEWEST_FREEDOM)


def _interval(of: Clustered, clusters: int, most: float) -> tuple[float, float]:
    reach = of.reach(CONFIDENCE)
    if math.isnan(reach) or not _enough(of, clusters):
        return math.nan, math.nan
    return max(of.mean - reach, -most), min(of.mean + reach, most)


def _groups(pairs: Mapping[str, Matched]) -> tuple[list[dict[str, Any]], set[str], list[str]]:
    """Compare groups as lm-eval averages them, the largest first; name their tasks, and notes."""
    groups: dict[str, tuple[str, ...]] = {}
    for pair in pairs.values():
        groups |= {name: tuple(tasks) for name, tasks in groups_in(pair.one.file).items()}
    wholes: list[dict[str, Any]] = []
    members: dict[str, None] = {}
    notes = []
    for name, tasks in sorted(groups.items(), key=lambda group: -len(group[1])):
        if not (of := [pairs[task] for task in tasks if task in pairs]):
            continue
        metrics = [metric for metric in of[0].metrics if all(metric in pair.metrics for pair in of)]
        if len(of) < len(tasks) or not (weights := _weights(name, of, metrics)):
            notes.append(
                f"{name} is not compared as a whole: not all of its tasks are paired, or its "
                "score is not their mean"
            )
            continue
        inner = {*tasks} <= members.keys()
        wholes += [_compared(name, of, metric, inner, size) for metric, size in weights.items()]
        members |= dict.fromkeys(tasks)
    return wholes, {*members}, notes


def _weights(group: str, pairs: Sequence[Matched], metrics: Iterable[Metric]) -> dict[Metric, bool]:
    """Return for each metric of a group whether its mean weights documents or tasks equally."""
    ways = {}
    for metric in metrics:
        fitting = {True, False}
        for runs in ([pair.one for pair in pairs], [pair.other for pair in pairs]):
            told = runs[0].metrics_of(group).get(metric, math.nan)
            values = [run.metrics.get(metric, math.nan) for run in runs]
            sizes = [run.size_of(run.task) for run in runs]
            weighted = math.fsum(v * n for v, n in zip(values, sizes, strict=True))
            means = {
                True: weighted / math.fsum(sizes),
                False: math.fsum(values) / len(values),
            }
            fitting &= {by_size for by_size, mean in means.items() if _is_close(mean, told)}
        if fitting:
            ways[metric] = max(fitting)
    return ways


def _left_out(pairs: Sequence[Matched], names: Sequence[str]) -> list[str]:
    """Name the documents and metrics of compared tasks that are left out."""
    notes = []
    for side, model in enumerate(names):
        tasks = {pair.one.task: pair.alone[side] for pair in pairs if pair.alone[side]}
        if tasks:
            listed = [f"{task}: doc_id {few(documents)}" for task, documents in tasks.items()]
            number = plural(sum(map(len, tasks.values())), "document")
            more = "; ..." if len(listed) > 3 else ""
            notes.append(
                f"left out: {number} that only {model} was asked, in {plural(len(tasks), 'task')} "
                f"({'; '.join(listed[:3])}{more})"
            )
    no_means: dict[Metric, list[str]] = defaultdict(list)
    for pair in pairs:
        for metric in pair.no_means:
            no_means[metric].append(pair.one.task)
    return notes + [
        f"not compared: {metric} of {few(tasks)}: the score in the result file is not a mean over "
        "the documents in the samples"
        for metric, tasks in no_means.items()
    ]
