"""Whether models know change: scores over the years, whether answers follow, error by year.

From the samples, beside respondents that are known and asked the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.findings import answered
from lm_eval_epidemia.findings.answered import Answered, required
from lm_eval_epidemia.findings.finding import Cell, Column, Finding, Number, Row
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.results.entry import Asked, Entry

#: Respondents that are known, and what they answer.
KNOWN: dict[str, Callable[[Part, Years], Array]] = {
    "knows the average over the years": averages,
    "knows today's": todays,
}


class _Task(NamedTuple):
    """A task over several years, and what was answered there."""

    part: Part
    years: Years
    q: Array


def read(report: Report) -> tuple[list[Answered], list[str]]:
    """Read the samples of tasks over several years.

    Returns
    -------
    groups : list of Answered
    notes : list of str
        What is left out.

    Raises
    ------
    EpidemiaError
        If no run was asked about several years, with samples.
    """
    samples, notes = answered.read(report, lambda asked: True, "compared over the years")
    groups = [
        group._replace(tasks=tasks)
        for group in answered.by_group(report, samples)
        if (tasks := {a: task for a, task in group.tasks.items() if years_of(task[0])})
    ]
    return required(groups, "compare over the years", "epidemia_years", notes), notes


def _tasks(
    tasks: Mapping[Asked, tuple[Part, Elicited]], answers: Callable[[Part, Years], Array] | None
) -> list[_Task]:
    """Put beside every task its years and what is answered, by a model or by somebody known."""
    known = ((part, years_of(part), elicited.q) for part, elicited in tasks.values())
    return [
        _Task(part, years, answers(part, years) if answers else q)
        for part, years, q in known
        if years
    ]


def _agreement(tasks: Sequence[_Task]) -> float:
    """Average Spearman's correlation over the years, of every series and answer of every task."""
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
    """Yield years, how many tasks have each, and how far off answers are: mean over these."""
    off: dict[int, list[float]] = {}
    for task in tasks:
        for year, value in off_by_year(*task).items():
            off.setdefault(year, []).append(value)
    for year in sorted(off):
        yield year, len(off[year]), float(np.mean(off[year]))


def _rows(groups: Sequence[Answered]) -> Iterator[tuple[Entry | None, str, str, list[_Task]]]:
    """Yield who answered in which group, and the tasks: models, then who is known."""
    for group in groups:
        yield group.entry, "", group.group, _tasks(group.tasks, None)
    for name in dict.fromkeys(group.group for group in groups):
        # Asked all that some model was asked.
        asked = {a: t for group in groups if group.group == name for a, t in group.tasks.items()}
        for who, answers in KNOWN.items():
            yield None, who, name, _tasks(asked, answers)


NOTE = (
    "Slope: by how much answers change from year to year where the truth changes by 1, over all "
    "series (men, a state, everybody) and answers of the tasks, ± a standard error of the survey's "
    "sampling; the truth's own sampling error is subtracted. 1: they follow; 0: they stay where "
    "they are, as those of who knows the average over the years or today's. Who answers with the "
    "survey's own figures has its errors too, and a slope above 1. Agreement: Spearman's "
    "correlation of answers and truth over the years, -1 to 1, averaged. --effects, csv and json "
    "have the error of every year."
)

_COLUMNS = (
    *map(Column, ("model", "group", "tasks")),
    Column("score", "score", 1, form="plain"),
    Column("slope", "slope over the years", 2, no_minus_zero=True),
    Column("agreement", "rank agreement over the years", 2, form="plain"),
)


def findings(groups: Sequence[Answered]) -> list[Finding]:
    """Return the table of models and, longer, that of single years."""
    rows, by_year = [], []
    for entry, who, group, tasks in _rows(groups):
        named: dict[str, Cell] = {"group": group}
        facts: dict[str, object] = {"tasks": len(tasks)}
        if entry is None:
            named["model"] = f"{who} (baseline)"
            facts |= {"model": who, "reference": True}
        rows.append(Row(named | _cells(tasks), entry, group, group, facts))
        for year, number, off in _by_year(tasks):
            cells: dict[str, Cell] = named | {"year": str(year), "tasks": number, "off": 100 * off}
            at = facts | {"tasks": number}
            by_year.append(Row(cells, entry, group, str(year), at, long=True))
    columns = (
        *map(Column, ("model", "group", "year", "tasks")),
        Column("off", "probability at wrong answers", 1, form="plain", unit=" %"),
    )
    says = "Off: the share of the probability that stands at wrong answers."
    return [
        Finding("years", "Whether answers follow the years", _COLUMNS, rows, NOTE, 2),
        Finding("year", "Year by year", columns, by_year, says, 3),
    ]
