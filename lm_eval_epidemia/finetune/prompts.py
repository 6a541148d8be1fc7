"""The benchmark's own prompts, with answers drawn from P(Y | X), or with P(Y | X) itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.estimate.store import GroundTruth


class Prompts(NamedTuple):
    """The prompts of a task for training: every cell not held out, in every ordering.

    Attributes
    ----------
    prompt : list of str, length R
    choices : list of list of str, length R
        The letters, as they follow the prompt: " A", " B".
    p : ndarray, shape (R, K)
        P(Y | X) by displayed position; rows sum to 1.
    weight : ndarray, shape (R,)
        P(X) of the cell among the cells kept, divided over orderings; sums to 1.
    """

    prompt: list[str]
    choices: list[list[str]]
    p: Array
    weight: Array


def prompts_of(truth: GroundTruth, held_out: list[int]) -> Prompts:
    """Return the prompts of a task as evaluated, without held-out cells."""
    # In the task files lm-eval puts the space; here the letter follows the prompt as it is.
    rows = split(truth.task, variant=Variant(leading_space=True))
    rows = rows.select([k for k, cell in enumerate(rows["cell"]) if cell not in held_out])
    cells, orders = np.array(rows["cell"]), np.array(rows["order"])
    p, weight = truth.p[cells[:, None], orders], truth.weights[cells]
    choices = [list(letters) for letters in rows["choices"]]
    p /= p.sum(axis=1, keepdims=True)
    return Prompts(list(rows["prompt"]), choices, p, weight / weight.sum())


def answers(by_task: Mapping[str, Prompts], n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Answer prompts as people of the cells would.

    Each draw takes a task (all equally likely), a cell by weight, an ordering, and a letter from
    P(Y | X).

    Parameters
    ----------
    by_task : mapping of str to Prompts
    n : int
    rng : Generator

    Returns
    -------
    dict of str to list
        The columns ``prompt`` and ``completion`` (" A").
    """
    prompts = list(by_task.values())
    cells = [np.cumsum(task_.weight) for task_ in prompts]
    letters = [np.cumsum(task_.p, axis=1) for task_ in prompts]
    rows: dict[str, Any] = {"prompt": [], "completion": []}
    for task in rng.integers(len(prompts), size=n):
        own = prompts[task]
        row = _place(cells[task], rng.random())
        letter = _place(letters[task][row], rng.random())
        rows["prompt"].append(own.prompt[row])
        rows["completion"].append(own.choices[row][letter])
    return rows


def _place(sums: Array, u: float) -> int:
    """Return the first position whose cumulative probability exceeds u of the total."""
    return int(np.searchsorted(sums, u * sums[-1], side="right").clip(max=len(sums) - 1))


def distributions(
    by_task: Mapping[str, Prompts], n: int | None, rng: np.random.Generator
) -> dict[str, Any]:
    """Give prompts with P(Y | X) over their letters.

    Parameters
    ----------
    by_task : mapping of str to Prompts
    n : int, optional
        Number of prompts, drawn without replacement; default: every prompt once.
    rng : Generator

    Returns
    -------
    dict of str to list
        The columns ``prompt``, ``choices`` (" A", " B") and ``p``, by displayed position.

    Raises
    ------
    EpidemiaError
        If there are fewer prompts.
    """
    every = [
        (prompt, choices, p.tolist())
        for own in by_task.values()
        for prompt, choices, p in zip(own.prompt, own.choices, own.p, strict=True)
    ]
    if n is not None:
        if n > len(every):
            raise EpidemiaError(
                f"--n {n}: there are only {len(every)} different prompts; leave --n out to "
                "take all of them"
            )
        every = [every[k] for k in sorted(rng.permutation(len(every))[:n])]
    prompt, choices, p = zip(*every, strict=True)
    return {"prompt": list(prompt), "choices": list(choices), "p": list(p)}
