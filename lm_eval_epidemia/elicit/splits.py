"""One dataset split per task and way of asking, named like the task."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_epidemia.elicit.fewshot import examples
from lm_eval_epidemia.elicit.likelihood import BIN_LETTERS, BINS, asked_levels
from lm_eval_epidemia.elicit.modes import GENERATED, Mode
from lm_eval_epidemia.elicit.orderings import LETTERS, SEED, design_of, orderings
from lm_eval_epidemia.elicit.prompts import ONE_LETTER, prompt
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import store

if TYPE_CHECKING:
    import datasets

__all__ = ["split"]

#: Columns of every split, then those of each kind of question, in their order.
_COMMON = {"task": "string", "truth": "string", "cell": "int32", "given": ["string"]}
_IN_ORDER = {"order": ["int8"], "design": "string", "choices": ["string"]}
_PROBABILITY = {"level": "int8", "choices": ["string"]}
_SAMPLED = {"order": ["int8"], "sample": "int32", "n_samples": "int32", "choices": ["string"]}


def split(task: str, mode: Mode = "letters", variant: Variant | None = None) -> datasets.Dataset:
    """Return the questions of a task.

    Parameters
    ----------
    task : str
        The name of an available task, without the suffix of a mode.
    mode : str
        The way of asking, see `elicit.modes`.
    variant : Variant, optional
        How the questions are put.

    Returns
    -------
    datasets.Dataset
        One row per prompt, in a fixed order, with the columns ``task``; ``truth`` (fingerprint of
        the ground truth); ``cell`` (its number there); ``given`` (its conditions, "age: 30-34");
        ``choices`` (the letters); ``prompt``. Where answers are displayed in changing orders,
        ``order`` (level numbers by displayed position) and ``design`` (which orderings a cell is
        asked in) or, of sampled answers, ``sample`` (from 1) and ``n_samples``. Where a probability
        is asked for, ``level`` instead.
    """
    import datasets

    variant, truth = variant or Variant(), store.load(task)
    if mode == "letters":
        columns, rows = _IN_ORDER, _in_orders(truth, variant)
    elif mode == "sampled":
        columns, rows = _SAMPLED, _samples(truth, variant)
    else:
        columns, rows = _PROBABILITY, _probabilities(truth, mode in GENERATED)
    wording, found = Wording(truth), list(rows)
    given = [wording.described(cell) for cell in range(len(truth.given))]
    before = examples(task, variant.fewshot, about_probability=columns is _PROBABILITY)
    space = " " if variant.leading_space else ""
    count, letters = len(truth.levels), BIN_LETTERS
    if columns is not _PROBABILITY:
        letters = LETTERS[:count]
    values = {
        "task": [task] * len(found),
        "truth": [truth.fingerprint] * len(found),
        "cell": [row["cell"] for row in found],
        "given": [given[row["cell"]] for row in found],
        "choices": [[space + letter for letter in letters]] * len(found),
        "prompt": [before + row["prompt"] for row in found],
    }
    kinds = {**_COMMON, **columns, "prompt": "string"}
    return datasets.Dataset.from_dict(
        {name: values.get(name) or [row[name] for row in found] for name in kinds},
        features=datasets.Features(
            {
                name: datasets.Sequence(datasets.Value(kind[0]))
                if isinstance(kind, list)
                else datasets.Value(kind)
                for name, kind in kinds.items()
            }
        ),
    )


def _in_orders(truth: store.GroundTruth, variant: Variant) -> Iterator[dict[str, Any]]:
    """Each cell in every ordering of the design."""
    design = design_of(len(truth.levels), variant.orderings)
    orders, wording = orderings(len(truth.levels), design), Wording(truth)
    for cell in range(len(truth.given)):
        asked = wording.question(cell)
        for order in orders:
            text = prompt(asked, [truth.levels[level] for level in order])
            yield {"cell": cell, "order": list(order), "design": design, "prompt": text}


def _probabilities(truth: store.GroundTruth, written: bool) -> Iterator[dict[str, Any]]:
    """Each cell and asked level."""
    wording, request = Wording(truth), ONE_LETTER if written else ""
    for cell in range(len(truth.given)):
        for level in asked_levels(len(truth.levels)):
            text = prompt(wording.probability(cell, level), BINS, request=request)
            yield {"cell": cell, "level": level, "prompt": text}


def _samples(truth: store.GroundTruth, variant: Variant) -> Iterator[dict[str, Any]]:
    """Each cell as often as answers are wanted, each with its own random ordering.

    The number of the interview makes every text different: lm-eval stores responses by text, and
    would give all answers to the same text the same response when a run is taken up again.
    """
    levels, number = len(truth.levels), variant.n_samples
    wording, key = Wording(truth), zlib.crc32(truth.task.encode())
    for cell in range(len(truth.given)):
        asked = wording.question(cell)
        rng = np.random.default_rng([SEED, key, cell])
        # Row by row: the first hundred of two hundred are those of a run with one hundred.
        orders = rng.permuted(np.tile(np.arange(levels), (number, 1)), axis=1)
        for sample, order in enumerate(orders.tolist(), start=1):
            answers = [truth.levels[level] for level in order]
            text = prompt(asked, answers, f"(Interview {sample})", ONE_LETTER)
            yield {
                "cell": cell, "order": order, "sample": sample, "n_samples": number,
                "prompt": text,
            }  # fmt: skip
