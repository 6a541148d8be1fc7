"""Kinds of error: the calibration lines of runs and of known respondents.

The line of the answers' log-odds on those of the truth, over all cells and levels, corrected for
the truth's sampling error (`score.calibration_line`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.apart import Tilt, line_of
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS, answers
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.findings.cells import RUN_LETTERS, Answered, cells, finding_of, with_known
from lm_eval_epidemia.findings.finding import Column, Finding
from lm_eval_epidemia.findings.mean import REACH
from lm_eval_epidemia.findings.references import AVERAGES, KNOWS_MARGINAL, KNOWS_POPULATION, UNIFORM
from lm_eval_epidemia.results.read import Results

#: Respondents that are known, asked what the runs were asked.
KNOWN = {
    RESPONDENTS[UNIFORM]: lambda part: answers(part.truth, UNIFORM)[part.complete],
    KNOWS_MARGINAL: lambda part: answers(part.truth, AVERAGES)[part.complete],
    KNOWS_POPULATION: lambda part: part.p,
}

COLUMNS = {
    **{name: Column() for name in ("group", "task", "tasks")},
    "tilt": Column("", 2, signed=True, error="tilt_error"),
    "slope": Column("", 2, error="slope_error"),
}

NOTE = (
    "The line logit q = tilt + slope logit p through all cells and answers of the group's tasks. "
    "q is the model's probability and p the survey's, each answer against the rest, relative to "
    "1/K. Someone who knows the population has slope 1 and tilt 0. A slope below 1 understates "
    "differences, as people do (0: no idea of them); above 1 overstates them. Tilt: how far "
    "answers lean to one side, in log-odds; with two answers, to the first. Corrected for the "
    "survey's sampling error, which would flatten the line; so the survey's own figures have a "
    "slope above 1 if people are counted, and may be below 1 in boosted tasks (several "
    "conditions), which are up to a tenth flatter than the population. Rounding in written answers "
    "bends the line: compare with kind=truth in the same way of asking. Empty: the truth varies by "
    "no more than its noise, for example in a single cell."
)


def tilt(results: Results) -> Finding:
    """Calibration lines: whether answers lean to one side, and differences are too small."""
    groups, left_out = cells(results)
    rows: list[dict[str, object]] = []
    for group in with_known(groups, KNOWN):
        rows.append(group.row | _line(group, [*group.tasks.values()]))
        rows += [
            group.row | {"task": in_way(*asked), "tasks": 1} | _line(group, [task])
            for asked, task in group.tasks.items()
        ]
    ends = [f"{name}_{end}" for name in ("tilt", "slope") for end in ("low", "high")]
    title, lacks = "Tilt and slope of the answers", f"compare with the truth: {RUN_LETTERS}"
    return finding_of(results, "tilt", title, rows, COLUMNS, NOTE, left_out, lacks, "task", ends)


def _line(of: Answered, tasks: Sequence[tuple[Part, Elicited]]) -> dict[str, float]:
    """Return the columns of a line; none if the truth varies no more than its noise."""
    # Who knows the population has this line, but for the survey's error.
    line = Tilt(0.0, 1.0, 0.0, 0.0) if of.who == KNOWS_POPULATION else line_of(tasks)
    if math.isnan(line.slope):
        return {}
    row = line._asdict()
    for name in ("tilt", "slope"):
        reach = REACH * row[f"{name}_error"]
        row |= {f"{name}_low": row[name] - reach, f"{name}_high": row[name] + reach}
    return row
