"""One dataset split per task, named like the task: every cell in every ordering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_eval_epidemia.elicit.orderings import LETTERS, orderings
from lm_eval_epidemia.elicit.prompts import prompt, question
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.record import Variable, record
from lm_eval_epidemia.surveys.record import task as declared_task

if TYPE_CHECKING:
    import datasets

__all__ = ["split", "ways_of"]


def ways_of(truth: store.GroundTruth) -> dict[str, Variable]:
    """Return how each variable of a task was recorded in its ground truth."""
    survey = record(truth.survey)
    return {name: survey.way(name, column, truth.vintage) for name, column in truth.columns.items()}


def split(task: str) -> datasets.Dataset:
    """Return the questions of a task.

    Parameters
    ----------
    task : str
        The name of an available task.

    Returns
    -------
    datasets.Dataset
        One row per cell and ordering, cells and orderings in a fixed order, with the columns
        ``task``; ``truth`` (fingerprint of the ground truth); ``cell`` (its number there);
        ``given`` (its conditions, "age: 30-34"); ``order`` (level numbers by displayed position);
        ``choices`` (the letters); ``prompt``.
    """
    import datasets

    truth, declared = store.load(task), declared_task(task)
    survey, ways = record(truth.survey), ways_of(truth)
    orders = orderings(len(truth.levels))
    prompts = []
    for given in truth.given:
        asked = question(survey, truth.vintage, declared, ways, given)
        prompts += [prompt(asked, [truth.levels[level] for level in order]) for order in orders]
    described = [
        [f"{name}: {label}" for name, label in zip(declared.given, given, strict=True)]
        for given in truth.given
    ]
    rows, cells = len(prompts), range(len(truth.given))
    features = datasets.Features(
        {
            "task": datasets.Value("string"),
            "truth": datasets.Value("string"),
            "cell": datasets.Value("int32"),
            "given": datasets.Sequence(datasets.Value("string")),
            "order": datasets.Sequence(datasets.Value("int8")),
            "choices": datasets.Sequence(datasets.Value("string")),
            "prompt": datasets.Value("string"),
        }
    )
    return datasets.Dataset.from_dict(
        {
            "task": [task] * rows,
            "truth": [truth.fingerprint] * rows,
            "cell": [cell for cell in cells for _ in orders],
            "given": [described[cell] for cell in cells for _ in orders],
            "order": [list(order) for _ in cells for order in orders],
            "choices": [list(LETTERS[: len(truth.levels)])] * rows,
            "prompt": prompts,
        },
        features=features,
    )
