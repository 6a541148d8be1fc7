"""Findings of paired comparisons: two models, two ways, two wordings, two versions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from lm_eval_epidemia.old.findings.comparison import (
    AND,
    FEWEST,
    TOO_FEW,
    Comparison,
    benchmark_of,
    compare_entries,
)
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Number, Row, known
from lm_eval_epidemia.old.findings.leaderboard import Report, compared
from lm_eval_epidemia.old.findings.means import shared_tasks
from lm_eval_epidemia.old.findings.ways import Ways
from lm_eval_epidemia.results.entry import Entry

_COLUMNS = (
    *map(Column, ("tasks", "win / tie / loss", "the first is")),
    Column("difference", "", signed=True),
    Column("95 % interval", form="range"),
    Column("here, corrected", signed=True),
    Column("here, population", signed=True),
    Column("l1, ratio", metric=None, digits=2, form="interval"),
)
_SHOWN = (
    "tasks",
    "difference",
    "95 % interval",
    "here, corrected",
    "here, population",
    "l1, ratio",
    "win / tie / loss",
    "the first is",
)


def _row(pair: Comparison, entry: Entry, where: str = "", long: bool = False, **more: str) -> Row:
    """Return a comparison as a row; tidy rows have the name of the second."""
    across, tasks = pair.across, pair.tasks
    mean, error = across.difference, across.error
    difference = Number(mean, error, tasks, across.low, across.high, pair.verdict)
    # Errors of logarithms have no place on the scale of the ratio: its interval says all.
    ratio = Number(across.ratio, 0.0, tasks, across.ratio_low, across.ratio_high)
    cells: dict[str, Cell] = {
        "pair": f"{pair.one} / {pair.other}",
        "group": pair.column + where,
        "tasks": tasks,
        "difference": difference,
        "95 % interval": difference if across.clusters >= FEWEST else _too_few(pair),
        "here, corrected": _here(pair.corrected, pair.here),
        "here, population": _here(pair.population, pair.population_here),
        "l1, ratio": known(ratio),
        "win / tie / loss": f"{pair.wins} / {pair.ties} / {pair.losses}",
        "the first is": pair.verdict,
    }
    facts = {
        "group": pair.column,
        "outcomes": across.clusters,
        "half_width": across.half_width,
        "corrected": pair.corrected,
        "corrected_stderr": pair.here,
        "population": _or_nan(pair.population),
        "population_stderr": _or_nan(pair.population_here),
        "l1_ratio": across.ratio,
        "l1_ratio_low": across.ratio_low,
        "l1_ratio_high": across.ratio_high,
        "wins": pair.wins,
        "ties": pair.ties,
        "losses": pair.losses,
        **more,
    }
    # Of several groups the first says how numbers are written.
    return Row(cells, entry, pair.column.split(AND)[0], pair.other, facts, long=long)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _here(value: float | None, error: float | None) -> Number | None:
    if value is None or error is None or math.isnan(error):
        return None
    return Number(value, error)


def _too_few(pair: Comparison) -> str:
    """State the possible size of the difference in other outcomes, if nothing more is known."""
    digits = benchmark_of(pair.column).digits
    reach = pair.across.half_width
    far = "" if math.isnan(reach) else f"± {reach:.{digits}f}: "
    return far + TOO_FEW


def _finding(kind: str, rows: list[Row], what: str, title: str, note: str) -> Finding:
    columns = (Column("pair", title=what), Column("group"), *_COLUMNS)
    return Finding(kind, title, columns, rows, note, shown=("pair", "group", *_SHOWN))


_MODELS_NOTE = (
    "The first minus the second, over the tasks that both were asked. The interval treats "
    "tasks on one outcome as one observation (in sets of quantities: each quantity). 'here' "
    "means: better in these tasks, but too unevenly over outcomes to generalise. It requires "
    "that three differences exceed 1.96 joint standard errors: that of the scores, the same "
    "corrected for sampling error, and that of the scores against the population. A task is "
    "won if all three exceed twice their errors in it. 'l1, ratio': the first's distance "
    "divided by the second's, below 1 if the first is closer to the truth; with fewer than "
    f"{FEWEST} outcomes it decides. Not corrected for the number of comparisons."
)


def models(report: Report, comparisons: Iterable[Comparison]) -> list[Finding]:
    """Two models over their common tasks, a table for each group.

    Parameters
    ----------
    report : Report
    comparisons : iterable of Comparison
        Each of two runs, as from `leaderboard.comparisons`.
    """
    return of_pairs(report.entries, comparisons)


def of_pairs(entries: Iterable[Entry], comparisons: Iterable[Comparison]) -> list[Finding]:
    """Two runs of these entries over their common tasks, a table for each group."""
    by_name, rows = {entry.name: entry for entry in entries}, dict[str, list[Row]]()
    for pair in comparisons:
        if pair.tasks:
            rows.setdefault(pair.column, []).append(_row(pair, by_name[pair.one]))
    return [
        _finding("pair", of_column, "pair", f"Pairs of models, {column}", _MODELS_NOTE)._replace(
            shown=("pair", *_SHOWN)
        )
        for column, of_column in rows.items()
    ]


def two_ways(asked_in: Iterable[Ways]) -> Finding:
    """One model in two ways of asking, over the tasks asked in both."""
    return _finding(
        "ways",
        [_row(pair, ways.entry) for ways in asked_in for pair in ways.differences],
        "model: way / other way",
        "One model asked in two ways",
        "Paired by task, over the tasks asked in both ways, as for two models. The ways need "
        "different skills: to give one answer, or to say how many people give it.",
    )


def two_wordings(entries: Iterable[Entry], comparisons: Iterable[Comparison]) -> Finding:
    """One model asked in bare and in usual wording, over the common tasks."""
    by_name = {entry.name: entry for entry in entries}
    return _finding(
        "wording",
        [_row(pair, by_name[pair.one]) for pair in comparisons],
        "other / usual wording",
        "One model in two wordings",
        "Paired by task, as for two models: the effect of other words. 'bare' leaves out place, "
        "year and universe.",
    )


def versions_compared(report: Report) -> Iterator[tuple[Entry, Comparison, Comparison | None]]:
    """Compare instruct and retrieving versions with the plain model, group by group.

    Yields
    ------
    version : Entry
    all_of_them : Comparison
        Over the common tasks, at least one.
    unknown : Comparison or None
        Over the tasks on which the plain model scores 0; None if there are none.
    """
    pools = report.pools()
    for column in compared(report.columns):
        for base, version in report.pairs:
            tasks = shared_tasks([base, version], column)
            unknown = [asked for asked in tasks if base.scores[asked].value <= 0]
            if tasks:
                pool = pools[base.protocol]
                yield (
                    version,
                    compare_entries(version, base, column, tasks, pool),
                    compare_entries(version, base, column, unknown, pool) if unknown else None,
                )


def versions(report: Report) -> Finding:
    """Instruct and retrieving versions against the plain model.

    In tidy rows, the tasks on which the plain model scores 0 have the kind ``version at 0``.
    """
    rows = []
    for version, all_of_them, unknown in versions_compared(report):
        rows.append(_row(all_of_them, version))
        if unknown is not None:
            # What is shown of all tasks is not shown again.
            again = unknown.tasks == all_of_them.tasks
            where = ", where the second has 0"
            rows.append(_row(unknown, version, where, again, kind="version at 0"))
    return _finding(
        "version",
        rows,
        "pair",
        "Instruct or retrieving version / plain model",
        "Tasks on which the plain model scores 0 were selected by that score, which cannot be "
        "lower: chance alone makes the difference there positive.",
    )
