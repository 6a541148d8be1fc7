"""Answers against the truth on scales other than the score: distances, lines, recalibrated ones.

*tilt*: the line of the answers' log-odds on those of the truth, over all cells and levels,
corrected for the truth's sampling error (`score.calibration_line`).

*recalibrated*: how well a model knows who answers what, apart from how common each answer is. Its
answers are recalibrated to the survey's P(Y) and scored again
(`benchmarks.observation.standardised`). The score for knowing averages only on the same cells is
the comparison: only the excess shows knowledge of how Y depends on X.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.apart import (
    Known,
    Tilt,
    best_log_score,
    line_of,
    on_scales,
)
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS, answers
from lm_eval_epidemia.benchmarks.observation.standardised import marginal, parts, recalibrate
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.findings.cells import Answered, cells, with_known
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.mean import REACH, averaged
from lm_eval_epidemia.findings.references import AVERAGES, KNOWS_MARGINAL, KNOWS_POPULATION, UNIFORM
from lm_eval_epidemia.results.decode import leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import Draws, difference
from lm_eval_epidemia.score.scales import agreement_by_chance

#: Cells are in an order that is not by chance where the p-value is at most this; of fewer cells no
#: order is that rare.
CHANCE, FEWEST_CELLS = 0.05, 4

#: Respondents that are known, asked what the runs were asked.
KNOWN = {
    RESPONDENTS[UNIFORM]: lambda part: answers(part.truth, UNIFORM)[part.complete],
    KNOWS_MARGINAL: lambda part: answers(part.truth, AVERAGES)[part.complete],
    KNOWS_POPULATION: lambda part: part.p,
}


def distances(results: Results) -> Finding:
    """Other distances: total variation, Jensen-Shannon, log score, the order of cells."""
    groups, left_out = cells(results)
    rows: list[dict[str, object]] = []
    for group in groups:
        known, details, chances = [], [], []
        for asked, (part, elicited) in group.tasks.items():
            numbers = {
                name.lower().replace(" ", "_").replace("-", "_"): number
                for name, number in on_scales(part, elicited).items()
            }
            known.append(numbers | {"best_log_score": Known(best_log_score(part), None)})
            p = agreement_by_chance(part.p, elicited.q)
            if len(part.p) >= FEWEST_CELLS:
                chances.append(p)
            of_task = {"task": in_way(*asked), "tasks": 1, "p_by_chance": p}
            details.append(group.row | averaged(known[-1:]) | of_task)
        sure = 100 * sum(p <= CHANCE for p in chances) / len(chances) if chances else math.nan
        in_order = {"in_order": sure, "in_order_tasks": len(chances)}
        rows += [group.row | averaged(known) | in_order, *details]
    return make_finding("distances", rows, results.runs, left_out)


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
    return make_finding("tilt", rows, results.runs, left_out)


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


def recalibrated(results: Results) -> Finding:
    """Scores of answers rescaled to the survey's averages: who answers what, and nothing else."""
    groups, left_out = cells(results, lambda asked: leaf(asked).entry.declared.given)
    rows = [
        group.row | averaged([_of_task(*of) for of in group.tasks.values()]) for group in groups
    ]
    return make_finding("recalibrated", rows, results.runs, left_out)


def _of_task(part: Part, answers: Elicited) -> dict[str, Known]:
    """Return three scores of the answers to a task, their gain, and three distances."""
    weights, at, true = part.weights, part.replicates, marginal(part.weights, part.p)

    def distances(p: Array) -> dict[str, Array]:
        """Return the distances from the truth, or from each replicate of it."""
        of = parts(weights, p, answers.q)
        averages = distance(weights, p, marginal(weights, p)[..., None, :])
        scored = {"score": of.total, "recalibrated": of.conditional, "averages": averages}
        l1 = {"l1": of.total, "l1_marginal": of.marginal, "l1_conditional": of.conditional}
        return scored | l1

    def asking(changed: Callable[[Array], Array]) -> float:
        """Return the error of a score from sampled orderings."""
        if answers.by_order is None:
            return 0.0
        return scoring.ordering_error(
            answers.by_order,
            lambda q: part.score_of(part.distance(np.asarray([changed(each) for each in q]))),
        )

    now, known = distances(part.p), {}
    then = None if at is None else distances(at)
    for name, error in {
        "score": asking(lambda q: q),
        "recalibrated": asking(lambda q: recalibrate(weights, q, true)),
        "averages": 0.0,
    }.items():
        draws = None
        if then is not None and part.zeros is not None:
            drawn = scoring.scale(then[name], part.zeros, part.anchors.perfect)
            draws = Draws(part.truth.sample or "", drawn, error)
        known[name] = Known(float(part.score_of(now[name])), draws)
    told, alone = known["recalibrated"], known["averages"]
    known["gain"] = Known(told.value - alone.value, difference(told.draws, alone.draws))
    return known | {name: Known(float(d), None) for name, d in now.items() if name not in known}
