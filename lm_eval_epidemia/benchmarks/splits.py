"""One dataset split per task and way of asking, named like the task."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_epidemia.ask.orderings import SEED
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import COMMON, DistributionWay, Way
from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import all_tasks

if TYPE_CHECKING:
    import datasets


def split(task: str, way: str = "letters", variant: Variant | None = None) -> datasets.Dataset:
    """Return the questions of a task.

    Parameters
    ----------
    task : str
        The name of an available task, without the suffix of a way.
    way : str
        The way of asking, a key of `benchmarks.WAYS`.
    variant : Variant, optional
        The variant of the prompts.

    Returns
    -------
    datasets.Dataset
        One row per prompt, in a fixed order, with the columns ``task``; ``truth`` (fingerprint of
        the ground truth); ``cell`` (its number there); ``given`` (its conditions, "age: 30-34");
        ``choices`` (the letters, or what else may follow); ``prompt``; and those of the way. Where
        answers are displayed in changing orders, ``order`` (level numbers by displayed position)
        and ``design`` (which orderings a cell is asked in) or, of sampled answers, ``sample`` (from
        1) and ``n_samples``.
        Where a probability is asked for, ``level`` instead; where a prior is to be written,
        ``sample``, and ``family`` and ``unit`` of the quantity.
    """
    import datasets

    from lm_eval_epidemia.ask.rows import Rows

    how, variant = WAYS[way], variant or Variant()
    truth = how.load(task)
    rows, given = list(how.rows(truth, variant)), how.described(truth)
    before = draw_examples(task, variant.fewshot, how)
    # A model that writes reads its choices from the prompt, where no space precedes them.
    space = " " if variant.leading_space and not how.generated else ""
    letters = how.choices(truth)
    values = {
        "task": [task] * len(rows),
        "truth": [truth.fingerprint] * len(rows),
        "given": [given[row["cell"]] for row in rows],
        "choices": [[space + choice for choice in row.get("choices", letters)] for row in rows],
        "prompt": [before + row["prompt"] for row in rows],
    }
    kinds = {**COMMON, **how.columns, "prompt": "string"}
    columns = {name: values.get(name) or [row[name] for row in rows] for name in kinds}

    def feature(kind: Any) -> Any:
        is_list = isinstance(kind, list)
        return datasets.Sequence(feature(kind[0])) if is_list else datasets.Value(kind)

    features = datasets.Features({name: feature(kind) for name, kind in kinds.items()})
    return Rows.of(columns, features)


#: Tasks with more answers would make the examples longer than the question.
MOST_LEVELS = 8


def draw_examples(task: str, number: int, way: Way) -> str:
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


def list_choices(
    way: Way, truth: Any, rows: Sequence[Mapping[str, Any]], levels: Sequence[Any] | None
) -> list[list[str]] | None:
    """Return the answers that each prompt displays, in the order of display.

    Parameters
    ----------
    way : Way
    truth : object
    rows : sequence of mapping
        Of a split, with ``cell``, and ``order`` and ``choices`` where the split has them.
    levels : sequence, optional
        The answers in each cell, in their natural order.

    Returns
    -------
    list of list of str, or None
        None if prompts display no answers.
    """
    if "order" in way.columns and levels is not None:
        return [[levels[row["cell"]][level] for level in row["order"]] for row in rows]
    if isinstance(way, DistributionWay):
        return [list(way.answers(truth))] * len(rows)
    choices = [[choice.strip() for choice in row.get("choices", ())] for row in rows]
    return choices if any(choices) else None
