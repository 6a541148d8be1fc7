"""Distances between answers and truth on scales other than the score, from the same samples.

Task by task, and the mean over the tasks of a group (`benchmarks.observation.apart`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.apart import (
    SCALES,
    Known,
    best_log_score,
    on_scales,
)
from lm_eval_epidemia.old.findings import answered
from lm_eval_epidemia.old.findings.answered import LETTERS, Answered, required
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Number, Row, known
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.means import mean
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.score.joint import joint_error
from lm_eval_epidemia.score.scales import agreement_by_chance

#: Cells are in an order that is not by chance where the p-value is at most this; of fewer cells no
#: order is that rare.
CHANCE, FEWEST_CELLS = 0.05, 4


def read(report: Report, task: Asked | None = None) -> tuple[list[Answered], list[str]]:
    """Read the samples of all runs, or of one task, and join them with the truths.

    Returns
    -------
    groups : list of Answered
    notes : list of str
        What is left out; see `answered.read`.

    Raises
    ------
    EpidemiaError
        If there are no probabilities of answers to survey tasks.
    """
    samples, notes = answered.read(
        report, lambda asked: task in (None, asked), "compared with the truth on other scales"
    )
    groups = answered.by_group(report, samples)
    return required(groups, "compare with the truth", LETTERS, notes), notes


def _rows(group: Answered) -> Iterator[Row]:
    by_task = {asked: on_scales(*task) for asked, task in group.tasks.items()}
    by_chance = {
        asked: agreement_by_chance(part.p, elicited.q)
        for asked, (part, elicited) in group.tasks.items()
    }
    cells: dict[str, Cell] = {"tasks": len(by_task)}
    for scale in SCALES:
        of_tasks = [numbers[scale] for numbers in by_task.values() if scale in numbers]
        if of_tasks:
            cells[scale] = mean([n.value for n in of_tasks], [n.draws for n in of_tasks])
    best = [best_log_score(part) for part, _ in group.tasks.values()]
    cells["best"] = math.fsum(best) / len(best)
    enough = (a for a, (part, _) in group.tasks.items() if len(part.p) >= FEWEST_CELLS)
    compared = [by_chance[asked] for asked in enough]
    if compared:
        share = sum(p <= CHANCE for p in compared) / len(compared)
        cells["in order"] = Number(100 * share, tasks=len(compared))
    yield Row(cells, group.entry, group.group, group.group, {"tasks": len(by_task)})
    for asked, numbers in by_task.items():
        yield Row(
            {
                "group": in_way(*asked),
                **{scale: _number(of_task) for scale, of_task in numbers.items()},
                "best": best_log_score(group.tasks[asked][0]),
                "by chance": known(by_chance[asked]),
            },
            group.entry,
            group.group,
            in_way(*asked),
            {"tasks": 1},
            long=True,
        )


def _number(of_task: Known) -> Number:
    return Number(of_task.value, joint_error([of_task.draws]), 1)


NOTE = (
    "Computed from the samples; none of these is the score. Total variation: the share of the "
    "probability given to wrong answers, half of l1. Jensen-Shannon: how much one answer tells "
    "whether it came from the model or the survey, in bits (0 to 1). Log score: the mean "
    "log-probability of the survey's answers, in nats; higher is better. Model answers are mixed "
    "with 1/K as finely as the survey can resolve. Best: the log score of the survey's own "
    "figures. Wasserstein-1: how far probability must move along ordered answers, as a share of "
    "the scale (in brackets: tasks with such answers). Rank agreement: Spearman's correlation "
    "over the cells of a task, -1 to 1: whether the model knows which people answer so more "
    "often. In order: of the tasks with at least four cells, the per cent whose cells agree "
    f"better than by chance (permutations, one-sided p at most {CHANCE}). Empty: no ordered "
    "answers, or a single cell, as in tasks without conditions (marginal). Drawn answers "
    "(_sampled) are left out."
)

_COLUMNS = (
    *map(Column, ("model", "group", "tasks")),
    Column("total variation", "total variation", 3),
    Column("Jensen-Shannon", "Jensen-Shannon", 4),
    Column("log score", "log score", 3),
    Column("best", "best log score", 3, form="plain"),
    Column("Wasserstein-1", "Wasserstein-1", 4, form="counted"),
    Column("rank agreement", "rank agreement", 2),
    Column("in order", "in order", 0, unit=" %"),
    Column("by chance", "p by chance", 3, title="p", long=True),
)


def finding(groups: Sequence[Answered]) -> Finding:
    """Return the table of other scales, by group and, in its long form, by task."""
    rows = [row for group in groups for row in _rows(group)]
    title = "Other scales, from the same samples"
    return Finding("other scales", title, _COLUMNS, rows, NOTE, 2)
