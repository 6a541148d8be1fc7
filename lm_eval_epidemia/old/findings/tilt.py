"""Kinds of error: the calibration lines of models and of known respondents.

The line of the answers' log-odds on those of the truth, over all cells and levels, corrected for
the truth's sampling error (`score.calibration_line`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation import respondents
from lm_eval_epidemia.benchmarks.observation.apart import Tilt, line_of
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.old.findings.data import Rows, asked_as, finite, some
from lm_eval_epidemia.old.findings.rows import Column, Finding, Number, Row
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.means import REACH
from lm_eval_epidemia.old.findings.reference import KNOWS_MARGINAL
from lm_eval_epidemia.old.findings.scales import Answered, read
from lm_eval_epidemia.results.entry import Asked

#: Respondents that are known, asked what the models were asked, as figures have them.
KNOWN: dict[str, Callable[[Part], Any]] = {
    "guesses uniformly": lambda part: _answers(part, "uniform"),
    KNOWS_MARGINAL: lambda part: _answers(part, "mean"),
}
#: Who knows the population has this line, but for the survey's error.
KNOWS_POPULATION = ("knows the population", Tilt(0.0, 1.0, 0.0, 0.0))


def _answers(part: Part, kind: str) -> Any:
    return respondents.answers(part.truth, kind)[part.complete]


def _row(group: Answered) -> Row:
    number = {"tasks": len(group.tasks)}
    cells = {**_cells(line_of(list(group.tasks.values()))), **number}
    return Row(cells, group.entry, group.group, group.group, number)


def _of_tasks(group: Answered) -> Iterator[Row]:
    for asked, task in group.tasks.items():
        name = in_way(*asked)
        cells = {"group": name, **_cells(line_of([task]))}
        yield Row(cells, group.entry, group.group, name, {"tasks": 1}, long=True)


def _cells(line: Tilt) -> dict[str, Any]:
    if math.isnan(line.slope):
        return {}
    return {
        "tilt": _number(line.tilt, line.tilt_error),
        "slope": _number(line.slope, line.slope_error),
    }


def _number(value: float, error: float) -> Number:
    reach = REACH * error
    return Number(value, error, low=value - reach, high=value + reach)


NOTE = (
    "The line logit q = tilt + slope logit p through all cells and answers of the group's tasks. "
    "q is the model's probability and p the survey's, each answer against the rest, relative to "
    "1/K. Someone who knows the population has slope 1 and tilt 0. A slope below 1 understates "
    "differences, as people do (0: no idea of them); above 1 overstates them. Tilt: how far "
    "answers lean to one side, in log-odds; with two answers, to the first. The line is corrected "
    "for the survey's sampling error, which would flatten it. Two references therefore miss 1: "
    "the survey's own figures have a slope above 1 if people are counted; in boosted tasks "
    "(several conditions) it can be below 1, because they are up to a tenth flatter than the "
    "population. Rounding in written answers bends the line: compare with kind=truth in the same "
    "way of asking. csv, json and --effects have the lines of single tasks. Empty: the truth "
    "varies by no more than its noise, for example in a single cell. Drawn answers (_sampled) are "
    "left out."
)

_COLUMNS = (
    *map(Column, ("model", "group", "tasks")),
    Column("tilt", "tilt", 2, signed=True),
    Column("slope", "slope", 2),
)


def finding(groups: Sequence[Answered], of_tasks: bool = True) -> Finding:
    """Return the table of lines, by group and, in its long form, by task."""
    rows: list[Row] = []
    for group in groups:
        rows += [_row(group), *(_of_tasks(group) if of_tasks else ())]
    return Finding("calibration line", "Tilt and slope of the answers", _COLUMNS, rows, NOTE, 2)


def figure_rows(groups: Sequence[Answered]) -> Rows:
    """Rows of the figure `tilt`: models, and in each group the known respondents.

    These answer every task that some model of the group was asked.
    """
    rows: Rows = []
    for name in dict.fromkeys(group.group for group in groups):
        here = [group for group in groups if group.group == name]
        lines = [(group.entry.name, "run", line_of(list(group.tasks.values()))) for group in here]
        parts: dict[Asked, Part] = {
            asked: part for group in here for asked, (part, _) in group.tasks.items()
        }
        for who, answers in KNOWN.items():
            told = [(part, Elicited(answers(part))) for _, part in sorted(parts.items())]
            lines.append((who, "respondent", line_of(told)))
        who, line = KNOWS_POPULATION
        lines.append((who, "respondent", line))
        rows += [
            {"model": who, "kind": kind, "group": name, **_point(line)}
            for who, kind, line in lines
            if not math.isnan(line.slope)
        ]
    return rows


def _point(line: Tilt) -> dict[str, float | None]:
    ends: dict[str, float | None] = {"tilt": line.tilt, "slope": line.slope}
    for key in ("tilt", "slope"):
        value, error = getattr(line, key), getattr(line, f"{key}_error")
        reach = 0.0 if math.isnan(error) else REACH * error
        ends |= {f"{key}_low": finite(value - reach), f"{key}_high": finite(value + reach)}
    return ends


def rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `tilt`, from the samples of a report's runs, for groups or one task."""
    groups, notes = read(report, asked_as(task) if task else None)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    lines = figure_rows([group._replace(group=task or group.group) for group in groups])
    of = task or "no group of tasks"
    return some(lines, f"{of} has no calibration line: the truth varies by no more than its noise")
