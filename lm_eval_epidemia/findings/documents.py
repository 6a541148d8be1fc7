"""Two models over the documents of any lm-eval task that both answered, paired by document."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.findings.comparison import CONFIDENCE, FEWEST
from lm_eval_epidemia.findings.finding import Cell, Column, Finding, Number, known
from lm_eval_epidemia.findings.finding import Row as Line
from lm_eval_epidemia.results.documents import (
    Answered,
    Key,
    Metric,
    Row,
    Rows,
    columns_in,
    groups_in,
    rows_of,
)
from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.score.outcomes import Clustered
from lm_eval_epidemia.score.paired import MCNEMAR, Answers, Paired, paired

#: By how much a mean over documents may miss the number in the result file, by rounding.
ROUNDED = 1e-6


class OverDocuments(NamedTuple):
    """Two models in a metric of a task, or of a group of tasks.

    Attributes
    ----------
    one, other : str
    entry : Entry
        Of the first.
    task : str
        Of lm-eval; its group, of several.
    metric : Metric
    tasks : int
        1 of a task; of a group, those in it.
    rows : int
        In how many rows of samples both have a value.
    higher_is_better : bool or None
        None where lm-eval does not say.
    clustered_by : str
        The column whose values are the clusters; empty where documents are.
    in_group : bool
        Whether this is part of a group that is compared as a whole.
    paired : Paired
    """

    one: str
    other: str
    entry: Entry
    task: str
    metric: Metric
    tasks: int
    rows: int
    higher_is_better: bool | None
    clustered_by: str
    in_group: bool
    paired: Paired

    @property
    def interval(self) -> tuple[float, float]:
        """Of the difference, over documents of these tasks; NaN without."""
        return _interval(self.paired.of, self.paired.clusters)

    @property
    def over_tasks(self) -> tuple[float, float]:
        """Of the difference, over tasks; NaN below `FEWEST` of them."""
        return _interval(self.paired.over_tasks, self.tasks)

    @property
    def wins_and_losses(self) -> tuple[int, int]:
        """Rows in which the first is better, and in which it is worse."""
        wins, losses = self.paired.wins, self.paired.losses
        return (losses, wins) if self.higher_is_better is False else (wins, losses)

    @property
    def verdict(self) -> str:
        """What can be said of the first, at `CONFIDENCE`.

        ``better`` or ``worse`` in other documents of the task; of a group, in other tasks too, and
        ``better here`` or ``worse here`` in other documents of its tasks alone. ``higher`` and
        ``lower`` where nobody says which is better. Else ``not shown``.
        """
        few_clusters = self.paired.test != MCNEMAR and self.paired.clusters < FEWEST
        if few_clusters or not self.paired.p < 1 - CONFIDENCE:
            return "not shown"
        side = 1 if self.paired.of.mean > 0 else -1
        words = ("lower", "higher") if self.higher_is_better is None else ("worse", "better")
        up = side > 0 if self.higher_is_better is not False else side < 0
        low, high = self.over_tasks
        elsewhere = self.tasks == 1 or (low > 0 if side > 0 else high < 0)
        return words[up] + ("" if elsewhere else " here")


def _interval(of: Clustered, clusters: int) -> tuple[float, float]:
    reach = of.reach(CONFIDENCE) if clusters >= FEWEST else math.nan
    return of.mean - reach, of.mean + reach


class _Paired(NamedTuple):
    """Rows of a task that both models have, and what is left out.

    Attributes
    ----------
    one, other : Answered
    metrics : dict of Metric to Answers
    clustered_by : str
    alone : tuple of dict of str to None
        Documents, by doc_id, that only the first was asked, and only the second.
    no_means : list of Metric
    """

    one: Answered
    other: Answered
    metrics: dict[Metric, Answers]
    clustered_by: str
    alone: tuple[dict[str, None], dict[str, None]]
    no_means: list[Metric]


class Unlike(Exception):
    """Two runs of a task that cannot be compared, and why."""


def compare_documents(
    one: Mapping[str, Answered], other: Mapping[str, Answered], cluster: str | None = None
) -> tuple[list[OverDocuments], list[str]]:
    """Compare two models over the tasks of others that both answered.

    Parameters
    ----------
    one, other : mapping of str to Answered
        By task, as of `two_models`.
    cluster : str, optional
        A column of documents: rows that agree in it are one observation. Tasks whose documents lack
        it are clustered by document.

    Returns
    -------
    comparisons : list of OverDocuments
        Groups, then tasks that are in none, then those that are.
    notes : list of str
        Documents that only one has, and what is not compared.

    Raises
    ------
    EpidemiaError
        If no task has the column.
    """
    shared = [task for task in one if task in other]
    with_column = [task for task in shared if cluster and cluster in columns_in(one[task])]
    if cluster and shared and not with_column:
        columns = {column for task in shared for column in columns_in(one[task])}
        raise EpidemiaError(
            f"--cluster {cluster!r}: no task that both answered has such a column; "
            f"{nearest(cluster, columns)}"
        )
    pairs: dict[str, _Paired] = {}
    unlike: dict[str, list[str]] = defaultdict(list)
    for task in shared:
        by = cluster if task in with_column else None
        try:
            pairs[task] = _pair(one[task], other[task], by)
        except Unlike as why:
            unlike[str(why)].append(task)
    notes = [f"not compared: {few(of_them)}: {why}" for why, of_them in unlike.items()]
    wholes, members, of_groups = _groups(pairs)
    singles = [
        _compared(task, [pair], metric, task in members)
        for task, pair in pairs.items()
        for metric in pair.metrics
    ]
    notes += [*_left_out(list(pairs.values())), *of_groups]
    return [*wholes, *sorted(singles, key=lambda of: of.in_group)], notes


def _left_out(pairs: Sequence[_Paired]) -> list[str]:
    """Say which documents and metrics of tasks that are compared are not."""
    notes = []
    for side in (0, 1):
        tasks = {pair.one.task: list(pair.alone[side]) for pair in pairs if pair.alone[side]}
        if tasks:
            named = [f"{task}: doc_id {few(documents)}" for task, documents in tasks.items()]
            number = sum(map(len, tasks.values()))
            model = (pairs[0].one, pairs[0].other)[side].entry.model
            notes.append(
                f"left out are {number:,} documents that only {model} was "
                f"asked, in {len(tasks)} tasks ({'; '.join(named[:3])}{'; ...' * (len(named) > 3)})"
            )
    no_means: dict[Metric, list[str]] = defaultdict(list)
    for pair in pairs:
        for metric in pair.no_means:
            no_means[metric].append(pair.one.task)
    return notes + [
        f"not compared: {metric} of {few(tasks)}: the number in the result file is no mean over "
        "the documents in the samples"
        for metric, tasks in no_means.items()
    ]


def _pair(one: Answered, other: Answered, cluster: str | None) -> _Paired:
    """Match the rows of a task; `Unlike` where they were asked otherwise."""
    names = one.entry.model, other.entry.model
    for what, first, second in (
        ("number of few-shot examples", one.shots, other.shots),
        ("task version", one.version, other.version),
        ("system prompt", *(run.entry.protocol.system_prompt[:8] for run in (one, other))),
    ):
        if first != second:
            values = " and ".join(value or "none" for value in (first, second))
            raise Unlike(f"{' and '.join(names)} were asked with another {what} ({values})")
    if changed := [key for key in one.config if one.config[key] != other.config[key]]:
        raise Unlike(f"the task's files differ in {few(changed)}")
    rows, others = rows_of(one, cluster), rows_of(other, cluster)
    both = [key for key in rows.by_key if key in others.by_key]
    if not both:
        raise Unlike("no document is in both (doc_id and doc_hash): these are other data")
    _check_asked(one, other, [(rows.by_key[key], others.by_key[key]) for key in both])
    metrics: dict[Metric, Answers] = {}
    no_means = []
    for metric in (metric for metric in one.metrics if metric in other.metrics):
        mine, theirs = rows.of(metric), others.of(metric)
        if not (_is_mean(one.metrics[metric], mine) and _is_mean(other.metrics[metric], theirs)):
            no_means.append(metric)
            continue
        # Of a document that only one has under this filter, nothing can be paired.
        if keys := [key for key in mine if key in theirs]:
            metrics[metric] = Answers(
                [mine[key] for key in keys],
                [theirs[key] for key in keys],
                [_cluster(key, rows.by_key[key]) for key in keys],
            )
    alone = _only_in(rows, others), _only_in(others, rows)
    return _Paired(one, other, metrics, cluster or "", alone, no_means)


def _only_in(rows: Rows, others: Rows) -> dict[str, None]:
    return {key.doc_id: None for key in rows.by_key if key not in others.by_key}


def _check_asked(one: Answered, other: Answered, both: Sequence[tuple[Row, Row]]) -> None:
    """`Unlike` where documents of both were put into other prompts, or have other right answers."""
    # Each model has its own chat template, which is part of the model; nobody can look behind it.
    if one.template == other.template and (changed := sum(a.prompt != b.prompt for a, b in both)):
        raise Unlike(
            f"{changed} of {len(both)} rows of samples had another prompt (other examples, another "
            "lm-eval)"
        )
    if changed := sum(a.target != b.target for a, b in both):
        raise Unlike(f"{changed} of {len(both)} rows of samples have another right answer")


def _is_mean(told: float, values: Mapping[Key, float]) -> bool:
    """Whether a task's number is the mean over its documents: only such means can be paired."""
    return bool(values) and _close(math.fsum(values.values()) / len(values), told)


def _close(mean: float, told: float) -> bool:
    return abs(mean - told) <= ROUNDED * max(1.0, abs(told))


def _cluster(key: Key, row: Row) -> tuple[str, str]:
    """Documents that are the same are one observation, whatever their number or task."""
    return ("document", key.doc_hash) if row.column is None else ("column", row.column)


def _compared(
    name: str, pairs: Sequence[_Paired], metric: Metric, in_group: bool, by_size: bool = True
) -> OverDocuments:
    one, other = pairs[0].one, pairs[0].other
    answers = [pair.metrics[metric] for pair in pairs]
    return OverDocuments(
        one.entry.model,
        other.entry.model,
        one.entry,
        name,
        metric,
        len(pairs),
        sum(len(task.first) for task in answers),
        one.higher_is_better(metric.name),
        pairs[0].clustered_by,
        in_group,
        paired(answers, by_size),
    )


def _groups(pairs: Mapping[str, _Paired]) -> tuple[list[OverDocuments], set[str], list[str]]:
    """Compare groups as lm-eval averages them, the largest first.

    Returns
    -------
    comparisons : list of OverDocuments
    members : set of str
        Tasks that are in one of them.
    notes : list of str
    """
    groups: dict[str, tuple[str, ...]] = {}
    for pair in pairs.values():
        groups |= {name: tuple(tasks) for name, tasks in groups_in(pair.one.file).items()}
    wholes: list[OverDocuments] = []
    members: dict[str, None] = {}
    notes = []
    for name, tasks in sorted(groups.items(), key=lambda group: -len(group[1])):
        if not (of := [pairs[task] for task in tasks if task in pairs]):
            continue
        metrics = [metric for metric in of[0].metrics if all(metric in pair.metrics for pair in of)]
        if len(of) < len(tasks) or not (weights := _weights(name, of, metrics)):
            notes.append(
                f"{name} is not compared as a whole: not all of its tasks are paired, or its "
                "number is not their mean"
            )
            continue
        inner = set(tasks) <= members.keys()
        wholes += [
            _compared(name, of, metric, inner, by_size) for metric, by_size in weights.items()
        ]
        members |= dict.fromkeys(tasks)
    return wholes, set(members), notes


def _weights(group: str, pairs: Sequence[_Paired], metrics: Iterable[Metric]) -> dict[Metric, bool]:
    """Say of a group's metrics whether documents count alike, or tasks: what gives its numbers."""
    ways = {}
    for metric in metrics:
        fitting = {True, False}
        for runs in ([pair.one for pair in pairs], [pair.other for pair in pairs]):
            told = runs[0].metrics_of(group).get(metric, math.nan)
            values = [run.metrics.get(metric, math.nan) for run in runs]
            sizes = [run.size_of(run.task) for run in runs]
            means = {
                True: math.fsum(v * n for v, n in zip(values, sizes, strict=True))
                / math.fsum(sizes),
                False: math.fsum(values) / len(values),
            }
            fitting &= {by_size for by_size, mean in means.items() if _close(mean, told)}
        if fitting:
            ways[metric] = max(fitting)
    return ways


_COLUMNS = (
    *map(Column, ("task", "metric", "documents")),
    Column("first", digits=3, form="plain"),
    Column("second", digits=3, form="plain"),
    Column("difference", "", digits=3, signed=True),
    Column("95 % interval", digits=3, signed=True, form="range"),
    Column("over tasks", digits=3, signed=True, form="range"),
    Column("win / tie / loss"),
    Column("p", digits=4),
    Column("test"),
    Column("the first is"),
)


def finding(comparisons: Iterable[OverDocuments], title: str) -> Finding:
    """Two models over documents; in tidy rows of the kind ``documents``, named as the second."""
    note = (
        "Paired by document: difference of the first from the second, with its standard error and "
        "interval over documents of the same tasks; 'over tasks' is over tasks like these. p of "
        "McNemar's exact test, or of a paired t. Not corrected for the number of comparisons."
    )
    return Finding("documents", title, _COLUMNS, [_line_of(of) for of in comparisons], note)


def _line_of(of: OverDocuments) -> Line:
    result, (low, high), across = of.paired, of.interval, of.over_tasks
    difference = Number(result.of.mean, result.of.error, of.tasks, low, high, of.verdict)
    wins, losses = of.wins_and_losses
    ties = of.rows - wins - losses
    cells: dict[str, Cell] = {
        "task": of.task,
        "metric": str(of.metric),
        "documents": result.clusters,
        "first": result.first,
        "second": result.second,
        "difference": difference,
        "95 % interval": difference,
        "over tasks": known(Number(result.of.mean, low=across[0], high=across[1])),
        "win / tie / loss": f"{wins} / {ties} / {losses}",
        "p": known(result.p),
        "test": result.test,
        "the first is": of.verdict,
    }
    facts = {
        "group": of.task,
        "outcomes": result.clusters,
        "wins": wins,
        "ties": ties,
        "losses": losses,
        "first": result.first,
        "second": result.second,
        "freedom": result.of.freedom,
        "p": result.p,
        "test": result.test,
        "clustered_by": of.clustered_by or "document",
        "over_tasks_stderr": result.over_tasks.error,
        "over_tasks_low": across[0],
        "over_tasks_high": across[1],
    }
    metrics = {"difference": str(of.metric)}
    return Line(cells, of.entry, "", of.other, facts, metrics, of.in_group)
