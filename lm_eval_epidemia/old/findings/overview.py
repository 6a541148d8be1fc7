"""The first tables of the report: leaderboards, other scales, slices, other tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from lm_eval_epidemia.benchmarks import OBSERVATION, Benchmark, groups, in_way
from lm_eval_epidemia.benchmarks.observation.written import CLOSED_CELLS
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.old.findings.comparison import CONFIDENCE
from lm_eval_epidemia.old.findings.rows import ALIKE, ALIKE_NOTE, Cell, Column, Finding, Number, Row
from lm_eval_epidemia.old.findings.leaderboard import (
    CHANGED,
    Report,
    by_benchmark,
    closed_subset,
    whole,
)
from lm_eval_epidemia.old.findings.means import (
    SCALES,
    answers,
    facets,
    group_mean,
    is_silent,
    mean_over,
    normalised_means,
    population_mean,
    slices,
    tasks_in,
    worth,
)
from lm_eval_epidemia.old.findings.published import mark_of
from lm_eval_epidemia.old.findings.ranks import Standing, correlation
from lm_eval_epidemia.old.findings.reference import KNOWS_POPULATION, population_known_over
from lm_eval_epidemia.results.entry import POPULATION, Entry, leaf
from lm_eval_epidemia.score.joint import joint_error


def of_group(column: str, name: str = "") -> Column:
    """Declare a column with means of a group; survey truths may be exact."""
    benchmark = groups()[column]
    least = -1.0 if benchmark is OBSERVATION else ALIKE
    return Column(name or column, digits=benchmark.digits, least=least)


def size(parameters: float | None) -> str:
    """Write a number of parameters: ``7.6B``."""
    if not parameters:
        return ""
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if parameters >= unit:
            return f"{parameters / unit:.3g}{letter}"
    return f"{parameters:.0f}"


def ranks(standing: Standing) -> str:
    """Write the possible ranks: ``2 of 5``, ``2-4 of 5``, or nothing."""
    if standing.best is None:
        return ""
    best = f"{standing.best}" + ("" if standing.best == standing.worst else f"-{standing.worst}")
    return f"{best} of {standing.among}"


def leaderboards(report: Report) -> dict[Benchmark, Finding]:
    """Return the table that ranks models, for each benchmark asked."""
    parts = by_benchmark(report.columns)
    return {benchmark: _leaderboard(report, benchmark, parts[benchmark]) for benchmark in parts}


def _leaderboard(report: Report, benchmark: Benchmark, columns: Sequence[str]) -> Finding:
    standings = {column: report.standings[column] for column in columns}
    most = {column: most_tasks(report, column) for column in columns}
    # How many tasks ranks are over, in every group and protocol.
    over: dict[str, None] = {}

    def order(entry: Entry) -> tuple[Any, ...]:
        return entry.reference, [worth(entry, c) for c in columns], entry.protocol

    entries = [e for e in report.entries if any(e.name in s for s in standings.values())]
    rows, partial, changed = [], False, False
    for entry in sorted(entries, key=order):
        cells: dict[str, Cell] = {"size": size(entry.parameters)}
        for column in columns:
            cells |= {column: None, f"rank {column}": None}
            if (standing := standings[column].get(entry.name)) is None:
                continue
            # Another number than ranks are over, or than most were asked here.
            number = standing.mean.tasks
            other = number != most[column] if standing.shared in (0, number) else True
            partial = partial or other
            is_changed = report.is_changed(entry, column)
            changed = changed or is_changed
            cells[column] = (
                standing.mean,
                "‡" * is_changed,
                f"({plural(number, 'task')})" * other,
            )
            silent = not entry.reference and not answers(entry, column)
            cells[f"rank {column}"] = "does not answer" if silent else ranks(standing)
            if standing.best is not None:
                where = "; ".join(filter(None, (column, str(entry.protocol))))
                over[f"{standing.shared} in {where}"] = None
        cells |= predictions(entry) if benchmark.predicted else {}
        rows.append(Row(cells, entry, muted=is_silent(entry, columns)))
    note = (
        f"A rank is a range ('2 of 5': second of five): paired comparisons at {CONFIDENCE:.0%} "
        "cannot narrow it further. Ranked together: models asked in the same way and with the "
        f"same --limit, over the tasks that all of them share ({', '.join(over) or 'none'}). A "
        "model is ranked if it shares at least half of the tasks of the model asked most."
    )
    if benchmark.predicted:
        note = "These are predictions, without ranks and comparisons."
    if partial:
        note += (
            " (n tasks): a mean over another number of tasks; do not compare it with the other "
            "rows."
        )
    if changed:
        note += f" {CHANGED}"
    if any(entry.reference for entry in entries):
        note += f" (published): {mark_of(benchmark)}; over the tasks asked here."
    asked = {task for entry in report.runs for task in entry.scores}
    here = {task.task for task in asked if leaf(task).group in columns}
    if barely := [task for task in report.barely if task in here]:
        note += (
            f" {plural(len(barely), 'task')} {'is' if len(barely) == 1 else 'are'} barely "
            f"informative ({few(barely)}); --informative leaves them out."
        )
    title = benchmark.heading + (" (± standard error)" if benchmark.has_error else "")
    declared = [Column("model"), Column("size")]
    for column in columns:
        rank = Column(f"rank {column}", title="rank")
        declared += [of_group(column)] if benchmark.predicted else [of_group(column), rank]
    if benchmark.predicted:
        names = dict.fromkeys(name for row in rows for name in predictions(row.entry))
        declared += [of_group(columns[0], name) for name in names]
    return Finding("leaderboard", title, declared, rows, note, silent=ALIKE_NOTE)


def predictions(entry: Entry | None) -> dict[str, Number]:
    """Return the scores predicted by a run's quick looks, by group."""
    asked = [a for a in (entry.scores if entry else ()) if leaf(a).benchmark.predicted]
    return {
        f"predicted {leaf(a).entry.declared.group}": mean_over(entry, [a])
        for a in sorted(asked, reverse=True)
        if entry
    }


def most_tasks(report: Report, column: str) -> int:
    """Return the largest number of a group's tasks that any entry was asked."""
    return max((place.mean.tasks for place in report.standings[column].values()), default=0)


def population(report: Report) -> Finding:
    """The score against the population, of the runs and groups that have it."""
    means = [
        (entry, {c: population_mean(entry, tasks_in(entry, c)) for c in report.columns})
        for entry in report.runs
    ]
    means = [pair for pair in means if any(_is_known(mean) for mean in pair[1].values())]
    most = {c: max((of[c].tasks for _, of in means), default=0) for c in report.columns}
    rows = []
    for entry, of in sorted(means, key=lambda pair: [-_or_last(x) for x in pair[1].values()]):
        cells: dict[str, Cell] = {
            c: (mean, f"({plural(mean.tasks, 'task')})") if 0 < mean.tasks < most[c] else mean
            for c, mean in of.items()
        }
        rows.append(Row(cells, entry))
    if rows:
        known = known_population(report)
        rows.append(Row({"model": f"{KNOWS_POPULATION} (baseline)", **known}))
    shown = [c for c in report.columns if any(_is_known(row.cells.get(c)) for row in rows)]
    columns = [of_group(column)._replace(form="interval") for column in shown]
    return Finding(
        "population",
        "Score against the population, 0 to 100 (interval of 95 %)",
        (Column("model"), *columns),
        rows,
        (
            "These scores subtract the distance that sampling error alone would cause. The "
            "interval is the mean ± 1.96 joint standard errors, cut off at 0 and 100. Someone who "
            "knows the population gets 100 up to chance; as no score can exceed 100, the average "
            "is lower. The last row shows the mean and 95 % range of that respondent over surveys "
            "of this size, asked for letters."
        )
        + _of_before(report),
    )


def known_population(report: Report) -> dict[str, Number]:
    """Return the scores of the respondent that knows the population, by group."""
    return {c: population_known_over(population_tasks(report, c)) for c in report.columns}


def _or_last(number: Number) -> float:
    return -math.inf if math.isnan(number.value) else number.value


def _is_known(cell: Cell) -> bool:
    if isinstance(cell, tuple) and not isinstance(cell, Number):
        return _is_known(cell[0])
    return isinstance(cell, Number) and not math.isnan(cell.value)


def _of_before(report: Report) -> str:
    """Name the runs whose score against the population uses the earlier formula."""
    before = [
        entry.name
        for entry in report.runs
        if any(
            not math.isnan(score.metrics.get(POPULATION, math.nan))
            and (score.population is None or score.population.uncut is None)
            for score in entry.scores.values()
        )
    ]
    if not before:
        return ""
    return (
        " Computed with the formula before task version 3, which is too low near 100: "
        f"{few(before)}."
    )


def population_tasks(report: Report, column: str) -> set[str]:
    """Return the letter tasks of a group in which a run has a score against the population.

    Written answers are rounded and drawn ones are few, so even this respondent would score lower.
    """
    return {
        asked.task
        for entry in report.runs
        for asked in tasks_in(entry, column)
        if asked.way == OBSERVATION.plain.name
        and asked.task in report.anchors
        and POPULATION in entry.scores[asked].metrics
    }


#: How a facet is said where the tables of its slices are headed.
FACETS = {
    "dimension": "By number of conditions",
    "subset": f"Tasks of at most {CLOSED_CELLS} cells",
    "nodes": "By number of variables",
}


def sliced(report: Report) -> Iterator[Finding]:
    """Groups cut by a facet of their tasks, such as the survey."""
    kinds = [kind for column in report.columns for kind in facets(report.entries, column)]
    for kind in dict.fromkeys(kinds):
        for column in report.columns:
            parts = {entry.name: slices(entry, column, kind) for entry in report.entries}
            labels = sorted({label for means in parts.values() for label in means})
            if not labels or (kind != "subset" and len(labels) < 2):
                continue
            most = {
                label: max(means[label].tasks for means in parts.values() if label in means)
                for label in labels
            }
            rows = []
            for entry in report.entries:
                cells: dict[str, Cell] = {
                    label: (mean, f"({mean.tasks})" * (mean.tasks != most[label]))
                    for label, mean in parts[entry.name].items()
                }
                rows += [Row(cells, entry)] if cells else []
            columns = [of_group(column, x)._replace(title=f"{x} ({most[x]})") for x in labels]
            title = f"{FACETS.get(kind, f'By {kind}')}, {column}"
            note = "In brackets: the number of tasks."
            yield Finding(kind, title, (Column("model"), *columns), rows, note)


def closed(report: Report) -> Finding:
    """The closed subset: models that only write, and models with known log-probabilities."""
    rows = [
        Row({"asked in": way, "score": mean, "tasks": mean.tasks}, entry)
        for entry, way, mean in closed_subset(report)
    ]
    columns = (
        *map(Column, ("model", "asked in")),
        of_group("epidemia_high", "score"),
        Column("tasks"),
    )
    return Finding(
        "closed",
        f"{FACETS['subset']}: written answers and likelihoods",
        columns,
        rows,
        "Tasks with several conditions (the closed subset); the same questions in both ways. In "
        "'closed' the model writes the interval that contains the probability; in 'likelihood' "
        "the likeliest interval is its answer. Do not compare means over different numbers of "
        "tasks; published means are over the tasks asked here.",
    )


#: How to read means on other scales.
SCALES_NOTE = (
    "'another survey': 100 is the score that 95 % of other surveys of the same population reach; "
    "empty if a task's truth was built without it. ± if the joint error is known."
)


def scales(report: Report) -> Iterator[Finding]:
    """Means on other scales, of each group."""
    for column in report.columns:
        rows = []
        for entry in report.runs:
            if means := normalised_means(entry, column, report.anchors, report.another):
                rows.append(Row({scale: means.get(scale) for scale in SCALES}, entry))
        columns = (Column("model"), *(of_group(column, scale) for scale in SCALES))
        yield Finding("scale", f"On other scales, {column}", columns, rows, SCALES_NOTE)


def by_size(report: Report) -> Finding:
    """Means by the number of parameters, if models differ in it."""
    known = sorted(
        (entry for entry in report.runs if entry.parameters),
        key=lambda entry: entry.parameters or 0,
    )
    rows = []
    if len({entry.parameters for entry in known}) > 1:
        for entry in known:
            means = {column: group_mean(entry, column) for column in report.columns}
            rows.append(Row({"size": size(entry.parameters), **means}, entry))
    columns = (Column("model"), Column("size"), *map(of_group, report.columns))
    return Finding("size", "By model size", columns, rows)


def _others(report: Report) -> list[str]:
    return list(dict.fromkeys(name for entry in report.runs for name in entry.others))


def beside(report: Report) -> Finding:
    """Other tasks in the same files."""
    others = _others(report)
    rows = []
    for entry in report.runs:
        if entry.others:
            cells: dict[str, Cell] = {c: group_mean(entry, c) for c in report.columns}
            cells |= {other: as_lm_eval(value) for other, value in entry.others.items()}
            rows.append(Row(cells, entry))
    return Finding(
        "other",
        "Beside other tasks",
        (Column("model"), *map(of_group, report.columns), *map(Column, others)),
        rows,
        "Our scores run from 0 to 100; the others are as lm-eval prints them, so that an accuracy "
        "of 65 % is 0.6500.",
    )


def as_lm_eval(value: float) -> str:
    """Write a number with the digits of lm-eval's own table; shorten huge perplexities."""
    return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.4g}"


def correlations(report: Report) -> Finding:
    """Correlation of ranks in other tasks with ours."""
    others, rows = _others(report), []
    for column in report.columns if others else ():
        ranked = whole(report, column)
        cells = {}
        for other in others:
            coefficient, models = correlation(ranked, column, other)
            cells[other] = Number(coefficient, tasks=models)
        rows.append(Row(cells, group=column, facts={"tasks": math.nan}))
    return Finding(
        "correlation",
        "Rank correlation with other tasks (Spearman, number of models)",
        (
            Column("group"),
            *(Column(o, "", 2, form="counted", nan="({})", named=True) for o in others),
        ),
        rows,
        "Over the ranked models asked in the default way and the tasks that they share; empty "
        "below three models. If lower is better, agreement is negative.",
    )


#: So many rows at a time: of a thousand models there are a million.
_AT_A_TIME = 1000


def numbers(report: Report) -> Iterator[Finding]:
    """Yield every mean and score for programs, part by part; rows have their kind as a fact."""
    rows = _numbers(report)
    while part := list(islice(rows, _AT_A_TIME)):
        yield Finding("", "", (Column("value", ""),), part)


def _numbers(report: Report) -> Iterator[Row]:
    def row(kind: str, entry: Entry, group: str, name: str, value: Cell, **facts: Any) -> Row:
        return Row({"value": value}, entry, group, name, {"kind": kind, **facts})

    for entry in report.entries:
        for column in report.columns:
            if (standing := report.standings[column].get(entry.name)) is None:
                continue
            ranked = {}
            if standing.best:
                ranked = {
                    "rank_best": standing.best,
                    "rank_worst": standing.worst,
                    "rank_tasks": standing.shared,
                }
            yield row("group", entry, column, column, standing.mean, **ranked)
            for kind in facets([entry], column):
                for label, mean in slices(entry, column, kind).items():
                    yield row(kind, entry, column, label, mean)
            means = normalised_means(entry, column, report.anchors, report.another)
            for scale, mean in means.items():
                metric = POPULATION if scale == "population" else groups()[column].leading
                yield row("scale", entry, column, scale, mean, metric=metric)
        for asked, score in sorted(entry.scores.items()):
            group, name = leaf(asked).group, in_way(*asked)
            if leaf(asked).benchmark.scored:
                yield row("task", entry, group, name, Number(score.value, score.error, 1))
            for metric, value in score.metrics.items():
                error = joint_error([score.population]) if metric == POPULATION else math.nan
                yield row("task", entry, group, name, Number(value, error, 1), metric=metric)
        for other, value in entry.others.items():
            yield row("other", entry, "", other, value)
    for column, number in known_population(report).items():
        if _is_known(number):
            facts = {"kind": "reference", "model": KNOWS_POPULATION, "reference": True}
            facts["metric"] = POPULATION
            yield Row({"value": number}, None, column, column, facts)
    for entry, way, mean in closed_subset(report):
        yield row("closed", entry, in_way("epidemia_high", way), way, mean)
