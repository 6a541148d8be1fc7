"""Answers against the truth on scales other than the score: distances and lines.

*tilt*: the line of the answers' log-odds on those of the truth, over all cells and levels,
corrected for the truth's sampling error (`score.calibration_line`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from lm_eval_epidemia.ask import orderings
from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.other_scales import (
    ScaleValue,
    Tilt,
    best_log_score,
    compare_on_scales,
    fit_tilt,
)
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS, simulate_answers
from lm_eval_epidemia.findings.cells import AnsweredGroup, add_known, collect_answers, group_answers
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.mean import REACH, average_columns
from lm_eval_epidemia.findings.references import AVERAGES, KNOWS_MARGINAL, KNOWS_POPULATION, UNIFORM
from lm_eval_epidemia.results.read import Results

#: Respondents that are known, asked what the runs were asked.
KNOWN = {
    RESPONDENTS[UNIFORM]: lambda part: simulate_answers(part.truth, UNIFORM)[part.complete],
    KNOWS_MARGINAL: lambda part: simulate_answers(part.truth, AVERAGES)[part.complete],
    KNOWS_POPULATION: lambda part: part.p,
}


def distances(results: Results) -> Finding:
    """Other distances: total variation, Jensen-Shannon, log score, the order of cells."""
    groups, left_out = group_answers(results)
    rows: list[dict[str, object]] = []
    for group in groups:
        known, details = [], []
        for asked, (part, elicited) in group.tasks.items():
            numbers = {
                name.lower().replace(" ", "_").replace("-", "_"): number
                for name, number in compare_on_scales(part, elicited).items()
            }
            known.append(numbers | {"best_log_score": ScaleValue(best_log_score(part), None)})
            of_task = {"task": in_way(*asked), "tasks": 1}
            details.append(group.row | average_columns(known[-1:]) | of_task)
        rows += [group.row | average_columns(known), *details]
    return make_finding("distances", rows, results.runs, left_out)


def tilt(results: Results) -> Finding:
    """Calibration lines: whether answers lean to one side, and differences are too small."""
    groups, left_out = group_answers(results)
    rows: list[dict[str, object]] = []
    for group in add_known(groups, KNOWN):
        rows.append(group.row | _line_of(group, [*group.tasks.values()]))
        rows += [
            group.row | {"task": in_way(*asked), "tasks": 1} | _line_of(group, [task])
            for asked, task in group.tasks.items()
        ]
    return make_finding("tilt", rows, results.runs, left_out)


def _line_of(group: AnsweredGroup, tasks: Sequence[tuple[Part, Elicited]]) -> dict[str, float]:
    """Return the columns of a respondent's line."""
    # Who knows the population has this line, but for the survey's error.
    known = Tilt(0.0, 1.0, 0.0, 0.0) if group.who == KNOWS_POPULATION else None
    return fit_line(tasks, known)


def fit_line(tasks: Sequence[tuple[Part, Elicited]], known: Tilt | None = None) -> dict[str, float]:
    """Return the columns of a line; none if the truth varies no more than its noise."""
    line = known or fit_tilt(tasks)
    if math.isnan(line.slope):
        return {}
    row = line._asdict()
    for name in ("tilt", "slope"):
        reach = REACH * row[f"{name}_error"]
        row |= {f"{name}_low": row[name] - reach, f"{name}_high": row[name] + reach}
    return row


def order_bias(results: Results) -> Finding:
    """Probability of each displayed position, relative to uniform, by number of answers."""
    made, left_out = collect_answers(results, lambda asked: asked.way == "letters")
    shares = pd.DataFrame(
        [
            (run, len(own.by_position), letter, share)
            for (run, _), own in sorted(made.items())
            if own.by_position is not None
            for letter, share in zip(orderings.LETTERS, own.by_position, strict=False)
        ],
        columns=["run", "answers", "position", "times"],
    )
    rows = shares.groupby(["run", "answers", "position"], as_index=False)["times"].mean()
    rows["times"] *= rows["answers"]
    return make_finding("order-bias", rows, results.runs, left_out)
