"""One dataset split per task and way of asking, named like the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_eval_epidemia.elicit.likelihood import BIN_LETTERS, BINS, asked_levels
from lm_eval_epidemia.elicit.orderings import LETTERS, design_of, orderings
from lm_eval_epidemia.elicit.prompts import likelihood_question, prompt, question
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.record import Variable, record
from lm_eval_epidemia.surveys.record import task as declared_task

if TYPE_CHECKING:
    import datasets

__all__ = ["likelihood_split", "split", "ways_of"]


def ways_of(truth: store.GroundTruth) -> dict[str, Variable]:
    """Return how each variable of a task was recorded in its ground truth."""
    survey = record(truth.survey)
    return {name: survey.way(name, column, truth.vintage) for name, column in truth.columns.items()}


def _described(truth: store.GroundTruth) -> list[list[str]]:
    """Say the conditions of each cell: "age: 30-34"."""
    given = declared_task(truth.task).given
    return [
        [f"{name}: {label}" for name, label in zip(given, labels, strict=True)]
        for labels in truth.given
    ]


def split(task: str, asked: str | int | None = None) -> datasets.Dataset:
    """Return the questions of a task.

    Parameters
    ----------
    task : str
        The name of an available task.
    asked : str or int, optional
        The design of the orderings, see `orderings.design_of`.

    Returns
    -------
    datasets.Dataset
        One row per cell and ordering, cells and orderings in a fixed order, with the columns
        ``task``; ``truth`` (fingerprint of the ground truth); ``cell`` (its number there);
        ``given`` (its conditions, "age: 30-34"); ``order`` (level numbers by displayed position);
        ``design`` (which orderings a cell is asked in);
        ``choices`` (the letters); ``prompt``.
    """
    import datasets

    truth, declared = store.load(task), declared_task(task)
    survey, ways = record(truth.survey), ways_of(truth)
    design = design_of(len(truth.levels), asked)
    orders = orderings(len(truth.levels), design)
    prompts = []
    for given in truth.given:
        asked = question(survey, truth.vintage, declared, ways, given)
        prompts += [prompt(asked, [truth.levels[level] for level in order]) for order in orders]
    described = _described(truth)
    rows, cells = len(prompts), range(len(truth.given))
    features = datasets.Features(
        {
            "task": datasets.Value("string"),
            "truth": datasets.Value("string"),
            "cell": datasets.Value("int32"),
            "given": datasets.Sequence(datasets.Value("string")),
            "order": datasets.Sequence(datasets.Value("int8")),
            "design": datasets.Value("string"),
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
            "design": [design] * rows,
            "choices": [list(LETTERS[: len(truth.levels)])] * rows,
            "prompt": prompts,
        },
        features=features,
    )


def likelihood_split(task: str) -> datasets.Dataset:
    """Return the questions of a task for the probabilities themselves.

    Parameters
    ----------
    task : str
        The name of an available task, without suffix.

    Returns
    -------
    datasets.Dataset
        One row per cell and asked level, with the columns of `split`, but ``level`` (its number)
        instead of ``order`` and ``design``.
    """
    import datasets

    truth, declared = store.load(task), declared_task(task)
    survey, ways = record(truth.survey), ways_of(truth)
    levels = asked_levels(len(truth.levels))
    asked = [(cell, level) for cell in range(len(truth.given)) for level in levels]
    described = _described(truth)
    features = datasets.Features(
        {
            "task": datasets.Value("string"),
            "truth": datasets.Value("string"),
            "cell": datasets.Value("int32"),
            "given": datasets.Sequence(datasets.Value("string")),
            "level": datasets.Value("int8"),
            "choices": datasets.Sequence(datasets.Value("string")),
            "prompt": datasets.Value("string"),
        }
    )
    return datasets.Dataset.from_dict(
        {
            "task": [task] * len(asked),
            "truth": [truth.fingerprint] * len(asked),
            "cell": [cell for cell, _ in asked],
            "given": [described[cell] for cell, _ in asked],
            "level": [level for _, level in asked],
            "choices": [list(BIN_LETTERS)] * len(asked),
            "prompt": [
                prompt(
                    likelihood_question(
                        survey, truth.vintage, declared, ways, truth.given[cell], level
                    ),
                    BINS,
                )
                for cell, level in asked
            ],
        },
        features=features,
    )
