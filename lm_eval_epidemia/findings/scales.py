"""Answers against the truth on scales other than the score: distances, lines, recalibrated ones.

*tilt*: the line of the answers' log-odds on those of the truth, over all cells and levels,
corrected for the truth's sampling error (`score.calibration_line`).

*recalibrated*: how well a model knows who answers what, apart from how common each answer is. Its
answers are recalibrated to the survey's P(Y) and scored again
(`benchmarks.observation.recalibrated`). The score for knowing averages only on the same cells is
the comparison: only the excess shows knowledge of how Y depends on X.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.apart import (
    Known,
    Tilt,
    best_log_score,
    line_of,
    on_scales,
)
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.recalibrated import marginal, parts, recalibrate
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS, answers
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.findings.cells import RUN_LETTERS, Answered, cells, finding_of, with_known
from lm_eval_epidemia.findings.finding import Column, Finding
from lm_eval_epidemia.findings.mean import REACH, averaged
from lm_eval_epidemia.findings.references import AVERAGES, KNOWS_MARGINAL, KNOWS_POPULATION, UNIFORM
from lm_eval_epidemia.results.entry import leaf
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

#: What to run for these.
RUN = f"compare with the truth: {RUN_LETTERS}"

OF_TASKS = {name: Column() for name in ("group", "task", "tasks")}

DISTANCES = (
    "None of these is the score. Total variation: the share of the probability given to wrong "
    "answers, half of l1. Jensen-Shannon: how much one answer tells whether it came from the model "
    "or the survey, in bits (0 to 1). Log score: the mean log-probability of the survey's answers, "
    "in nats; higher is better. Model answers are mixed with 1/K as finely as the survey can "
    "resolve. Best: the log score of the survey's own figures. Wasserstein-1: how far probability "
    "must move along ordered answers, as a share of the scale (in brackets: tasks with such "
    "answers). Rank agreement: Spearman's correlation over the cells of a task, -1 to 1. In order: "
    "the per cent of tasks with at least four cells whose cells agree better than by chance "
    f"(permutations, one-sided p at most {CHANCE}). Empty: no ordered answers, or a single cell."
)


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
    columns = {
        **OF_TASKS,
        "total_variation": Column("total variation", 3, error="total_variation_error"),
        "jensen_shannon": Column("Jensen-Shannon", 4, error="jensen_shannon_error"),
        "log_score": Column("log score", 3, error="log_score_error"),
        "best_log_score": Column("best", 3),
        "wasserstein_1": Column(
            "Wasserstein-1", 4, error="wasserstein_1_error", count="wasserstein_1_tasks"
        ),
        "rank_agreement": Column("rank agreement", 2, error="rank_agreement_error"),
        "in_order": Column("in order", 0, unit=" %", count="in_order_tasks"),
        "p_by_chance": Column("p", 3),
    }
    title = "Other scales, from the same answers"
    return finding_of(results, "distances", title, rows, columns, DISTANCES, left_out, RUN, "task")


TILT = (
    "The line logit q = tilt + slope logit p through all cells and answers of the group's tasks: q "
    "the model's probability and p the survey's, each answer against the rest, relative to 1/K. "
    "Someone who knows the population has slope 1 and tilt 0. A slope below 1 understates "
    "differences, as people do (0: no idea of them); above 1 overstates them. Tilt: how far "
    "answers lean to one side, in log-odds; with two answers, to the first. Corrected for the "
    "survey's sampling error: its own figures have a slope above 1 if people are counted, and may "
    "be below 1 in boosted tasks (several conditions), up to a tenth flatter than the population. "
    "Rounding in written answers bends the line: compare with kind=truth in the same way of "
    "asking. Empty: the truth varies by no more than its noise, for example in a single cell."
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
    columns = {
        **OF_TASKS,
        "tilt": Column("", 2, signed=True, error="tilt_error"),
        "slope": Column("", 2, error="slope_error"),
    }
    ends = [f"{name}_{end}" for name in ("tilt", "slope") for end in ("low", "high")]
    title = "Tilt and slope of the answers"
    return finding_of(results, "tilt", title, rows, columns, TILT, left_out, RUN, "task", ends)


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


RECALIBRATED = (
    "Recalibrated: each answer's probability is multiplied by one factor, the same for everybody, "
    "so that the overall mix equals the survey's P(Y); odds ratios between groups of people do not "
    "change. Averages only: P(Y) as the answer about everybody. Difference: what the model knows "
    "about who answers what; below 0 if its differences between people mislead. l1: the distance "
    "as answered; 'of P(Y)': of its overall mix; 'left': what remains when the mix is right. ± "
    "covers the survey's sampling error, with P(Y) of every replicate, and sampled orderings. Left "
    "out: tasks without conditions (marginal), which contain nothing but P(Y)."
)


def recalibrated(results: Results) -> Finding:
    """Scores of answers rescaled to the survey's averages: who answers what, and nothing else."""
    groups, left_out = cells(results, lambda asked: leaf(asked).entry.declared.given)
    rows = [
        group.row | averaged([_of_task(*of) for of in group.tasks.values()]) for group in groups
    ]
    columns = {
        "group": Column(),
        "tasks": Column(),
        "score": Column("", 1, error="score_error"),
        "recalibrated": Column("", 1, error="recalibrated_error"),
        "averages": Column("averages only", 1, error="averages_error"),
        "gain": Column("difference", 1, signed=True, error="gain_error"),
        "l1": Column("", 3),
        "l1_marginal": Column("of P(Y)", 3),
        "l1_conditional": Column("left", 3),
    }
    title = "Who answers what, apart from how common answers are"
    note, lacks = RECALIBRATED, f"recalibrate: {RUN_LETTERS}"
    return finding_of(results, "recalibrated", title, rows, columns, note, left_out, lacks)


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
