"""Compare two models over the documents of any common lm-eval task, paired by document."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError, Option, OptionError, few, nearest, plural
from lm_eval_epidemia.old.findings.comparison import CONFIDENCE, FEWEST
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Number, known, p_value
from lm_eval_epidemia.old.findings.rows import Row as Line
from lm_eval_epidemia.old.findings.matching import Matched, Unlike, is_close, left_out, matched
from lm_eval_epidemia.results.documents import Answered, Metric, columns_in, groups_in
from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.score.outcomes import Clustered
from lm_eval_epidemia.score.paired import MCNEMAR, Paired, paired

#: With fewer degrees of freedom Satterthwaite's t is too rough (Tipton 2015): a few clusters then
#: have most of the rows.
FEWEST_FREEDOM = 4


class OverDocuments(NamedTuple):
    """Two models on a metric of a task or of a group.

    Attributes
    ----------
    one, other : str
    entry : Entry
        Of the first.
    task : str
        The lm-eval task, or the group of several.
    metric : Metric
    tasks : int
        The number of tasks: 1 for a task.
    rows : int
        The number of sample rows with values of both.
    higher_is_better : bool or None
        None if lm-eval does not say.
    clustered_by : str
        The column that defines the clusters; empty if documents are the clusters.
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
        """Interval of the difference over documents of these tasks, within the scale; or NaN."""
        return _interval(self.paired.of, self.paired.clusters, self.paired.most)

    @property
    def over_tasks(self) -> tuple[float, float]:
        """Interval of the difference over tasks; NaN below `FEWEST` tasks."""
        return _interval(self.paired.over_tasks, self.tasks, self.paired.most)

    @property
    def too_few(self) -> str:
        """Names what is too few for an interval; empty if there are enough."""
        if _enough(self.paired.of, self.paired.clusters):
            return ""
        by = f"clusters by {self.clustered_by}" if self.clustered_by else "documents"
        return f"too few {by} for an interval"

    @property
    def tested(self) -> bool:
        """Whether p is valid: McNemar's for any number, that of a t-test not for few."""
        return self.paired.test == MCNEMAR or not self.too_few

    @property
    def rows_are_documents(self) -> bool:
        return not self.clustered_by and self.paired.clusters == self.rows

    @property
    def counted(self) -> str:
        """The amount compared: a document may have several rows of samples."""
        if self.rows_are_documents:
            return plural(self.rows, "document")
        clusters = self.paired.clusters
        by = f", {clusters:,} by {self.clustered_by}" if self.clustered_by else ""
        return plural(self.rows, "row") + (by or f" of {plural(clusters, 'document')}")

    @property
    def wins_and_losses(self) -> tuple[int, int]:
        """The number of rows in which the first is better, and worse."""
        wins, losses = self.paired.wins, self.paired.losses
        return (losses, wins) if self.higher_is_better is False else (wins, losses)

    @property
    def verdict(self) -> str:
        """The verdict on the first, at `CONFIDENCE`.

        ``better`` or ``worse`` in other documents of the task, and for a group in other tasks too;
        ``better here`` or ``worse here`` in other documents of a group's tasks alone. ``higher``
        and ``lower`` if lm-eval does not say which is better. Else ``not shown``.
        """
        if not self.tested or not self.paired.p < 1 - CONFIDENCE:
            return "not shown"
        side = 1 if self.paired.of.mean > 0 else -1
        words = ("lower", "higher") if self.higher_is_better is None else ("worse", "better")
        up = side > 0 if self.higher_is_better is not False else side < 0
        low, high = self.over_tasks
        elsewhere = self.tasks == 1 or (low > 0 if side > 0 else high < 0)
        return words[up] + ("" if elsewhere else " here")


def _enough(of: Clustered, clusters: int) -> bool:
    # Where the error is not known, all rows differ alike: that is not for want of clusters.
    return clusters >= FEWEST and (math.isnan(of.error) or of.freedom >= FEWEST_FREEDOM)


def _interval(of: Clustered, clusters: int, most: float) -> tuple[float, float]:
    reach = of.reach(CONFIDENCE)
    if math.isnan(reach) or not _enough(of, clusters):
        return math.nan, math.nan
    return max(of.mean - reach, -most), min(of.mean + reach, most)


def compare_documents(
    one: Mapping[str, Answered], other: Mapping[str, Answered], cluster: str | None = None
) -> tuple[list[OverDocuments], list[str]]:
    """Compare two models over other people's tasks that both answered.

    Parameters
    ----------
    one, other : mapping of str to Answered
        By task, as in `two_models`.
    cluster : str, optional
        A column of documents: rows with the same value are one observation. Tasks whose documents
        lack it are clustered by document.

    Returns
    -------
    comparisons : list of OverDocuments
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
            pairs[task] = matched(one[task], other[task], by)
        except (
            Unlike,
            EpidemiaError,
        ) as why:  # samples that cannot be read are of their task alone
            unlike[str(why)].append(task)
    notes = [f"not compared: {few(of_them)}: {why}" for why, of_them in unlike.items()]
    wholes, members, of_groups = _groups(pairs)
    singles = [
        _compared(task, [pair], metric, task in members)
        for task, pair in pairs.items()
        for metric in pair.metrics
    ]
    notes += [*left_out(list(pairs.values())), *of_groups]
    return [*wholes, *sorted(singles, key=lambda of: of.in_group)], notes


def _compared(
    name: str, pairs: Sequence[Matched], metric: Metric, in_group: bool, by_size: bool = True
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


def _groups(pairs: Mapping[str, Matched]) -> tuple[list[OverDocuments], set[str], list[str]]:
    """Compare groups as lm-eval averages them, the largest first.

    Returns
    -------
    comparisons : list of OverDocuments
    members : set of str
        Tasks in these groups.
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
                "score is not their mean"
            )
            continue
        inner = set(tasks) <= members.keys()
        wholes += [
            _compared(name, of, metric, inner, by_size) for metric, by_size in weights.items()
        ]
        members |= dict.fromkeys(tasks)
    return wholes, set(members), notes


def _weights(group: str, pairs: Sequence[Matched], metrics: Iterable[Metric]) -> dict[Metric, bool]:
    """Return for each metric of a group whether its mean weights documents or tasks equally."""
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
            fitting &= {by_size for by_size, mean in means.items() if is_close(mean, told)}
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
    Column("p"),
    Column("test"),
    Column("the first is"),
)


def finding(comparisons: Iterable[OverDocuments], title: str) -> Finding:
    """Two models over documents; tidy rows have the kind ``documents`` and the second's name."""
    note = (
        "The first model minus the second, paired by document, with standard error and interval "
        "over documents of the same tasks; 'over tasks' is the interval for similar tasks. p from "
        "McNemar's exact test or a paired t-test, not corrected for the number of comparisons."
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
        "documents": of.counted,
        "first": result.first,
        "second": result.second,
        "difference": difference,
        "95 % interval": difference,
        "over tasks": known(Number(result.of.mean, low=across[0], high=across[1])),
        "win / tie / loss": f"{wins} / {ties} / {losses}",
        "p": p_value(result.p) if of.tested else "",
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
