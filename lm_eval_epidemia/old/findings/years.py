"""Whether models know change: scores over the years, slopes of answers, error by year.

From the samples, with known respondents asked the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.years import (
    Years,
    averages,
    change,
    off_by_year,
    slope,
    todays,
    years_of,
)
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.old.findings.answered import Answered, Respondent, read_groups, with_known
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Number, in_groups
from lm_eval_epidemia.old.findings.leaderboard import Report


class _Task(NamedTuple):
    """A task over several years, with its answers."""

    part: Part
    years: Years
    q: Array


def _tasks(who: Respondent) -> list[_Task]:
    known = ((part, years_of(part), elicited.q) for part, elicited in who.tasks.values())
    return [_Task(part, years, q) for part, years, q in known if years]


#: Respondents that are known, and what they answer.
KNOWN: dict[str, Callable[[Part], Array]] = {
    "knows the average over the years": averages,
    "knows today's": todays,
}


def read(report: Report) -> tuple[list[Answered], list[str]]:
    """Read the samples of tasks over several years; see `read_groups`."""
    return read_groups(report, years_of, "compare over the years", "epidemia_years")


def _agreement(tasks: Sequence[_Task]) -> float:
    """Average Spearman's correlation over the years, for every series and answer of every task."""
    from scipy.stats import spearmanr

    of_tasks = []
    for part, years, q in tasks:
        ranks = []
        for series in np.unique(years.series):
            here = years.series == series
            for true, told in zip(part.p[here].T, q[here].T, strict=True):
                if len(true) > 2 and np.ptp(true) > 0:
                    ranks.append(spearmanr(true, told).statistic if np.ptp(told) > 0 else 0.0)
        of_tasks += [float(np.mean(ranks))] if ranks else []
    return float(np.mean(of_tasks)) if of_tasks else float("nan")


def _cells(tasks: Sequence[_Task]) -> dict[str, Cell]:
    value, error = slope([change(*task) for task in tasks])
    return {
        "tasks": len(tasks),
        "score": float(np.mean([t.part.score_of(t.part.distance(t.q)) for t in tasks])),
        "slope": Number(value, error),
        "agreement": _agreement(tasks),
    }


def _by_year(tasks: Sequence[_Task]) -> Iterator[tuple[int, int, float]]:
    """Yield years, the number of tasks with each, and the mean error of answers over these."""
    off: dict[int, list[float]] = {}
    for task in tasks:
        for year, value in off_by_year(*task).items():
            off.setdefault(year, []).append(value)
    for year in sorted(off):
        yield year, len(off[year]), float(np.mean(off[year]))


NOTE = (
    "Slope: how much answers change from year to year if the truth changes by 1, over all series "
    "(men, a state, everybody) and answers of the tasks, ± a standard error of the survey's "
    "sampling; it is corrected for the truth's own sampling error. 1: answers follow the years; "
    "0: they stay the same, like those of someone who knows only the average over the years or "
    "today's values. The survey's own figures contain its errors, so their slope is above 1. "
    "Agreement: Spearman's correlation of answers and truth over the years, -1 to 1, averaged. "
    "--effects, csv and json have the error of every year."
)

_COLUMNS = (
    *map(Column, ("model", "group", "tasks")),
    Column("score", "score", 1, form="plain"),
    Column("slope", "slope over the years", 2, no_minus_zero=True),
    Column("agreement", "rank agreement over the years", 2, form="plain"),
)


def findings(groups: Sequence[Answered]) -> list[Finding]:
    """Return the table of models and the longer one of single years."""
    rows, by_year = [], []
    for who in with_known(groups, KNOWN):
        tasks = _tasks(who)
        rows.append(who.row(_cells(tasks)))
        by_year += [
            who.row(
                {"year": str(year), "tasks": number, "off": 100 * off},
                str(year),
                {"tasks": number},
                long=True,
            )
            for year, number, off in _by_year(tasks)
        ]
    columns = (
        *map(Column, ("model", "group", "year", "tasks")),
        Column("off", "probability at wrong answers", 1, form="plain", unit=" %"),
    )
    says = "Off: the share of the probability given to wrong answers."
    return [
        in_groups(Finding("years", "Whether answers follow the years", _COLUMNS, rows, NOTE, 2)),
        in_groups(Finding("year", "Year by year", columns, by_year, says, 3)),
    ]
