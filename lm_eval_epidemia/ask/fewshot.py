"""Solved examples before a question, drawn from the truths of other surveys' tasks."""

from __future__ import annotations

import zlib

import numpy as np

from lm_eval_epidemia.ask.orderings import SEED
from lm_eval_epidemia.ask.way import DistributionWay, Way
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: Tasks with more answers would make the examples longer than the question.
MOST_LEVELS = 8


def examples(task: str, number: int, way: Way) -> str:
    """Return solved examples for a task, the same for all its questions.

    Each comes from a task of another survey, so that no outcome or condition of this task is given
    away. Only shipped truths are used, whatever was built here, so that runs with the same protocol
    get the same examples. A cell is drawn by its share of the population; the way words question
    and answer.

    Parameters
    ----------
    task : str
        The task asked.
    number : int
        How many.
    way : Way
        The way of asking.

    Returns
    -------
    str
        Each example followed by an empty line. Empty without examples, and for ways of asking
        without any; a run with only such tasks is refused before (`harness.arguments`).
    """
    if not (number and isinstance(way, DistributionWay)):
        return ""
    survey = all_tasks()[task].survey
    others = [
        truth
        for name, declared in all_tasks().items()
        if declared.survey != survey and declared.kind not in store.APART
        if store.vintages(name, "shipped")
        if len((truth := store.load_truth(name, state="shipped")).levels) <= MOST_LEVELS
    ]
    rng = np.random.default_rng([SEED, zlib.crc32(task.encode())])
    solved = []
    for chosen in rng.choice(len(others), number, replace=False):
        truth = others[chosen]
        cell = int(rng.choice(len(truth.weights), p=truth.weights / truth.weights.sum()))
        solved.append(f"{way.example(truth, cell, rng)}\n\n")
    return "".join(solved)
