"""Two models over the documents of any lm-eval task that both answered, paired by document."""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lm_eval_epidemia.core.errors import EpidemiaError, Option, OptionError, few, plural, suggest
from lm_eval_epidemia.findings.compare import CONFIDENCE, FEWEST
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.results import documents
from lm_eval_epidemia.results.decode import to_text
from lm_eval_epidemia.results.documents import AnsweredTask, MetricKey
from lm_eval_epidemia.score.clustered import MCNEMAR, Clustered, PairedAnswers, compare_paired

#: With fewer degrees of freedom Satterthwaite's t is too rough (Tipton 2015): a few clusters then
#: have most of the rows.
FEWEST_FREEDOM = 4

#: By how much a mean over documents may miss the number in the result file, by rounding.
ROUNDED = 1e-6


class Matched(NamedTuple):
    """Common rows of a task, by metric, and what is left out."""

    one: AnsweredTask
    other: AnsweredTask
    metrics: dict[MetricKey, PairedAnswers]
    clustered_by: str
    alone: Sequence[Sequence[str]]
    no_means: list[MetricKey]


def match_documents(
    one: AnsweredTask, other: AnsweredTask, names: Sequence[str], cluster: str
) -> Matched:
    """Match the rows of a task; raise an error if it was asked differently."""
    sides = one, other
    for what, told in (
        ("number of few-shot examples", [to_text(of.file.shots.get(of.task)) for of in sides]),
        ("task version", [of.version for of in sides]),
        ("system prompt", [(of.file.system_instruction_sha or "")[:8] for of in sides]),
    ):
        if told[0] != told[1]:
            listed = " and ".join(value or "none" for value in told)
            raise EpidemiaError(
                f"{' and '.join(names)} were asked with different {what} ({listed})"
            )
    if changed := [key for key in one.config if one.config[key] != other.config[key]]:
        raise EpidemiaError(f"the task's files differ in {few(changed)}")
    tables = [documents.samples_of(of, cluster) for of in sides]
    both = tables[0].merge(tables[1], on=documents.ROW, suffixes=("", "_other"))
    if both.empty:
        raise EpidemiaError("the two share no document (doc_id and doc_hash): the data differ")
    rows = plural(len(both), "row")
    # Each model has its own chat template, which is part of the model; nobody can look behind it.
    changed = (both["prompt"] != both["prompt_other"]).sum()
    if one.template == other.template and changed:
        raise EpidemiaError(
            f"{changed} of {rows} of samples had a different prompt (other examples, another "
            "lm-eval)"
        )
    if changed := (both["target"] != both["target_other"]).sum():
        raise EpidemiaError(f"{changed} of {rows} of samples have a different right answer")
    metrics: dict[MetricKey, PairedAnswers] = {}
    no_means = []
    mine, theirs = one.metrics(), other.metrics()
    for metric in [metric for metric in mine if metric in theirs]:
        values = [of.loc[of["filter"] == metric.filter, metric.name] for of in tables]
        means = [math.fsum(column) / len(column) if len(column) else math.nan for column in values]
        # Of a document that only one has under this filter, nothing can be paired.
        here = both[both["filter"] == metric.filter]
        if not (_is_close(means[0], mine[metric]) and _is_close(means[1], theirs[metric])):
            no_means.append(metric)
        elif len(here):
            columns = metric.name, f"{metric.name}_other", "cluster"
            metrics[metric] = PairedAnswers(*([*here[column]] for column in columns))
    keys = [of.set_index(documents.ROW).index for of in tables]
    alone = [[*own[~own.isin(rest)].unique("doc_id")] for own, rest in (keys, reversed(keys))]
    return Matched(one, other, metrics, cluster, alone, no_means)


def _is_close(mean: float, told: float) -> bool:
    """Whether a score is the mean over documents: only such scores can be paired."""
    return abs(mean - told) <= ROUNDED * max(1.0, abs(told))


def compare_documents(
    one: Mapping[str, AnsweredTask],
    other: Mapping[str, AnsweredTask],
    names: Sequence[str],
    cluster: str | None = None,
) -> tuple[Finding, list[str]]:
    """Compare two models over other people's tasks that both answered.

    Parameters
    ----------
    one, other : mapping of str to AnsweredTask
        By task.
    names : sequence of str
        Of the two models.
    cluster : str, optional
        A column of documents: rows with the same value are one observation. Tasks whose documents
        lack it are clustered by document.

    Returns
    -------
    Finding
        Groups, then tasks outside groups, then tasks in groups.
    list of str
        Documents that only one model has, and what is not compared.

    Raises
    ------
    OptionError
        If no task has the column.
    """
    shared = [t for t in one if t in other and one[t].has_samples and other[t].has_samples]
    columns = {task: documents.columns_in(one[task]) if cluster else [] for task in shared}
    if cluster and shared and not any(cluster in of for of in columns.values()):
        raise OptionError(
            Option("cluster", cluster),
            ": no task that both models answered has this column; "
            f"{suggest(cluster, {name for of in columns.values() for name in of})}",
        )
    pairs: dict[str, Matched] = {}
    unlike: dict[str, list[str]] = defaultdict(list)
    for task in shared:
        by = cluster if cluster and cluster in columns[task] else ""
        try:
            pairs[task] = match_documents(one[task], other[task], names, by)
        except EpidemiaError as why:
            unlike[str(why)].append(task)  # samples that cannot be read are of their task alone
    notes = [f"not compared: {few(tasks)}: {why}" for why, tasks in unlike.items()]
    wholes, members, of_groups = _groups(pairs)
    singles = [
        _compared(task, [pair], metric, task in members)
        for task, pair in pairs.items()
        for metric in pair.metrics
    ]
    notes += [*_list_left_out([*pairs.values()], names), *of_groups]
    rows = [*wholes, *sorted(singles, key=lambda row: row["in_group"])]
    table = pd.DataFrame([{"model": names[0], "other": names[1], **row} for row in rows])
    title = f"{names[0]} less {names[1]}: tasks of others"
    return make_finding("documents", table, title=title), notes


def _compared(
    name: str, pairs: Sequence[Matched], metric: MetricKey, in_group: bool, by_size: bool = True
) -> dict[str, Any]:
    """Compare two models on a metric of a task, or of the tasks of a group."""
    answers = [pair.metrics[metric] for pair in pairs]
    result, by = compare_paired(answers, by_size), pairs[0].clustered_by
    rows, one = sum(len(task.first) for task in answers), pairs[0].one
    # None if the file does not say.
    higher = (one.file.higher_is_better.get(one.task) or {}).get(metric.name)
    above = result.wins, result.losses
    wins, losses = reversed(above) if higher is False else above
    low, high = _interval(result.of, result.clusters, result.most)
    across = _interval(result.over_tasks, len(pairs), result.most)
    enough = _enough(result.of, result.clusters)
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
        # p of a t-test is not valid for few; McNemar's is for any number.
        "p": result.p if enough or result.test == MCNEMAR else math.nan,
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
    above = row["difference"] > 0
    words = ("lower", "higher") if higher_is_better is None else ("worse", "better")
    elsewhere = row["over_tasks_low"] > 0 if above else row["over_tasks_high"] < 0
    here = "" if elsewhere or row["tasks"] == 1 else " here"
    return words[above == (higher_is_better is not False)] + here


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
    groups: dict[str, list[str]] = {}
    for pair in pairs.values():
        groups |= documents.groups_in(pair.one.file)
    wholes: list[dict[str, Any]] = []
    members: set[str] = set()
    notes = []
    for name, tasks in sorted(groups.items(), key=lambda group: -len(group[1])):
        of = [pairs[task] for task in tasks if task in pairs]
        if not of:
            continue
        metrics = [metric for metric in of[0].metrics if all(metric in pair.metrics for pair in of)]
        weights = {metric: by for metric in metrics for by in _weights(name, of, metric)[:1]}
        if len(of) < len(tasks) or not weights:
            notes.append(
                f"{name} is not compared as a whole: not all of its tasks are paired, or its "
                "score is not their mean"
            )
            continue
        inner = {*tasks} <= members
        wholes += [_compared(name, of, metric, inner, by) for metric, by in weights.items()]
        members |= {*tasks}
    return wholes, members, notes


def _weights(group: str, pairs: Sequence[Matched], metric: MetricKey) -> list[bool]:
    """Return whether a group's score weights documents (True) or tasks equally; empty if neither.

    Both, if it is the same.
    """
    fitting = [True, False]
    for runs in ([pair.one for pair in pairs], [pair.other for pair in pairs]):
        told = runs[0].metrics(group).get(metric, math.nan)
        values = [run.metrics()[metric] for run in runs]
        sizes = [run.counts[0] for run in runs]
        weighted = math.fsum(map(operator.mul, values, sizes)) / math.fsum(sizes)
        means = {True: weighted, False: math.fsum(values) / len(values)}
        fitting = [by_size for by_size in fitting if _is_close(means[by_size], told)]
    return fitting


def _list_left_out(pairs: Sequence[Matched], names: Sequence[str]) -> list[str]:
    """Name the documents and metrics of compared tasks that are left out."""
    notes = []
    for side, model in enumerate(names):
        alone = {pair.one.task: pair.alone[side] for pair in pairs if pair.alone[side]}
        if alone:
            listed = [f"{task}: doc_id {few(of)}" for task, of in alone.items()]
            listed[3:] = ["..."] if len(listed) > 3 else []
            notes.append(
                f"left out: {plural(sum(map(len, alone.values())), 'document')} that only {model} "
                f"was asked, in {plural(len(alone), 'task')} ({'; '.join(listed)})"
            )
    for metric in dict.fromkeys(metric for pair in pairs for metric in pair.no_means):
        tasks = [pair.one.task for pair in pairs if metric in pair.no_means]
        notes.append(
            f"not compared: {metric} of {few(tasks)}: the score in the result file is not a mean "
            "over the documents in the samples"
        )
    return notes
