"""Distances between answers and truth on scales other than the score."""

from __future__ import annotations

import math

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.apart import Known, best_log_score, on_scales
from lm_eval_epidemia.findings.cells import RUN_LETTERS, cells, finding_of
from lm_eval_epidemia.findings.finding import Column, Finding
from lm_eval_epidemia.findings.mean import averaged
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.scales import agreement_by_chance

#: Cells are in an order that is not by chance where the p-value is at most this; of fewer cells no
#: order is that rare.
CHANCE, FEWEST_CELLS = 0.05, 4

COLUMNS = {
    **{name: Column() for name in ("group", "task", "tasks")},
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

NOTE = (
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
    title, lacks = "Other scales, from the same answers", f"compare with the truth: {RUN_LETTERS}"
    return finding_of(results, "distances", title, rows, COLUMNS, NOTE, left_out, lacks, "task")
