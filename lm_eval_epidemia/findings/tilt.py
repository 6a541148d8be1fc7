"""What kind of wrong: the calibration lines of models, and of respondents that are known.

Log-odds of the answers on those of the truth, over all cells and levels, with the truth's sampling
error taken off (`score.calibration_line`).
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
from lm_eval_epidemia.findings.data import Rows, asked_as, finite, some
from lm_eval_epidemia.findings.finding import Column, Finding, Number, Row
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.means import REACH
from lm_eval_epidemia.findings.reference import KNOWS_MARGINAL
from lm_eval_epidemia.findings.scales import Answered, read
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
    "The line logit q = tilt + slope logit p through all cells and answers of the group's tasks, "
    "q the model's and p the survey's, each answer against the rest, counted from 1/K. Who knows "
    "the population has slope 1 and tilt 0. A slope below 1: differences are understated, as by "
    "people, and 0 is no idea of them; above 1: overstated. Tilt: how far answers stand to one "
    "side, in log-odds; of two answers towards the first. The survey's sampling error, which would "
    "flatten the line, is taken off; who answers with the survey's own figures has its errors too, "
    "and a slope above 1 where people are counted; in boosted tasks (several conditions), which "
    "are flatter than the population by up to a tenth, it can be below 1. Written answers are "
    "rounded, which bends the line: see what kind=truth has in that way. Lines of single tasks "
    "are in csv and json, and with --effects. Empty: the truth varies by no more than its noise, "
    "as where there is one cell. Drawn answers (_sampled) are left out."
)

_COLUMNS = (
    *map(Column, ("model", "group", "tasks")),
    Column("tilt", "tilt", 2, signed=True),
    Column("slope", "slope", 2),
)


def finding(groups: Sequence[Answered], of_tasks: bool = True) -> Finding:
    """Return the table of lines: of groups, and in its long form of every task, if wished for."""
    rows: list[Row] = []
    for group in groups:
        rows += [_row(group), *(_of_tasks(group) if of_tasks else ())]
    return Finding("calibration line", "Tilt and slope of the answers", _COLUMNS, rows, NOTE, 2)


def figure_rows(groups: Sequence[Answered]) -> Rows:
    """Rows of the figure `tilt`: models, and in each group the respondents that are known.

    These are asked all that some model was asked in the group.
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
    """Rows of the figure `tilt`, from the samples of a report's runs: of groups, or of one task."""
    groups, notes = read(report, asked_as(task) if task else None)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    lines = figure_rows([group._replace(group=task or group.group) for group in groups])
    of = task or "no group of tasks"
    return some(lines, f"{of} has no calibration line: the truth varies by no more than its noise")
