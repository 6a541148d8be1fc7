"""Distances between answers and truth on scales other than the score."""

from __future__ import annotations

import math

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.apart import Known, best_log_score, on_scales
from lm_eval_epidemia.findings.cells import LETTERS, cells, nothing
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, tabled
from lm_eval_epidemia.findings.mean import averaged
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.scales import agreement_by_chance

#: Cells are in an order that is not by chance where the p-value is at most this; of fewer cells no
#: order is that rare.
CHANCE, FEWEST_CELLS = 0.05, 4

COLUMNS = {
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
    "answers). Rank agreement: Spearman's correlation over the cells of a task, -1 to 1: whether "
    "the model knows which people answer so more often. In order: of the tasks with at least four "
    "cells, the per cent whose cells agree better than by chance (permutations, one-sided p at "
    f"most {CHANCE}). Empty: no ordered answers, or a single cell, as in tasks without conditions "
    "(marginal)."
)


def distances(results: Results) -> Finding:
    """Other distances: total variation, Jensen-Shannon, log score, the order of cells."""
    groups, left_out = cells(results)
    rows: list[dict[str, object]] = []
    for group in groups:
        known, chance = {}, {}
        for asked, (part, elicited) in group.tasks.items():
            numbers = {_column(name): own for name, own in on_scales(part, elicited).items()}
            known[asked] = numbers | {"best_log_score": Known(best_log_score(part), None)}
            chance[asked] = agreement_by_chance(part.p, elicited.q)
        enough = [chance[a] for a, (part, _) in group.tasks.items() if len(part.p) >= FEWEST_CELLS]
        sure = 100 * sum(p <= CHANCE for p in enough) / len(enough) if enough else math.nan
        in_order = {"in_order": sure, "in_order_tasks": len(enough)}
        rows.append(group.row | averaged([*known.values()]) | in_order)
        rows += [
            group.row
            | {"task": in_way(*asked), "tasks": 1}
            | averaged([known[asked]])
            | {"p_by_chance": p}
            for asked, p in chance.items()
        ]
    columns = {**WHO, "group": Column(), "task": Column(), "tasks": Column(), **COLUMNS}
    finding = Finding(
        "distances",
        "Other scales, from the same answers",
        tabled(rows, columns, results.runs),
        columns,
        NOTE,
        details="task",
        left_out=left_out,
    )
    return finding if rows else nothing(finding, "compare with the truth", LETTERS)


def _column(scale: str) -> str:
    return scale.lower().replace(" ", "_").replace("-", "_")
