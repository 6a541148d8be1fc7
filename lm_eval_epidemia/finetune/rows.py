"""Rows made from truths: the benchmark's own prompts with answers, and shares as sentences.

Prompts have answers drawn from P(Y | X), or P(Y | X) itself. Sentences tell facts about a
population rather than people from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.ask.prompts import Wording, find_variables, join_phrases
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks.prior.quantities.wording import name_survey
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.finetune.check import WORDS
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task


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


def make_prompts(truth: GroundTruth, held_out: list[int]) -> Prompts:
    """Return the prompts of a task as evaluated, without held-out cells."""
    # In the task files lm-eval puts the space; here the letter follows the prompt as it is.
    rows = split(truth.task, variant=Variant(leading_space=True))
    rows = rows.select([k for k, cell in enumerate(rows["cell"]) if cell not in held_out])
    cells, orders = np.array(rows["cell"]), np.array(rows["order"])
    p, weight = truth.p[cells[:, None], orders], truth.weights[cells]
    choices = [list(letters) for letters in rows["choices"]]
    p /= p.sum(axis=1, keepdims=True)
    return Prompts(list(rows["prompt"]), choices, p, weight / weight.sum())


def draw_answers(
    by_task: Mapping[str, Prompts], n: int, rng: np.random.Generator
) -> dict[str, Any]:
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


_PLURALS = {"is": "are", "has": "have", "was": "were", "works": "work", "does": "do"}
_PLURALS |= {"describes": "describe", "identifies": "identify"}
_PLURALS |= {verb: verb for verb in ("had", "earned", "made", "did")}
#: Of a second verb in the singular no plural is made.
_SINGULAR = {"is", "has", "was", "does", "leans"}


def statements(
    truths: Mapping[str, GroundTruth],
    held_out: Mapping[str, list[int]],
    n: int,
    rng: np.random.Generator,
) -> list[str]:
    """Write shares as sentences.

    Each draw takes a task and an answer (all equally likely), a cell by weight, and a wording. A
    share may occur several times, in the same or other words.

    Parameters
    ----------
    truths : mapping of str to GroundTruth
    held_out : mapping of str to list of int
        Cells to leave out.
    n : int
    rng : Generator

    Returns
    -------
    list of str, length n
    """
    drawn, listed = [], list(truths.values())
    for number in rng.integers(len(listed), size=n):
        truth = listed[number]
        weights = truth.weights.copy()
        weights[held_out.get(truth.task, [])] = 0
        cell = int(rng.choice(len(weights), p=weights / weights.sum()))
        level = int(rng.integers(len(truth.levels)))
        drawn.append(_sentence(truth, cell, level, rng))
    return drawn


def _sentence(truth: GroundTruth, cell: int, level: int, rng: np.random.Generator) -> str:
    survey, p = find_record(truth.survey), float(truth.p[cell, level])
    ways, task = find_variables(truth), declared_task(truth.task)
    given = [
        next(answer.phrase for answer in ways[name].levels if answer.label == label)
        for name, label in zip(task.given, truth.given[cell], strict=True)
    ]
    outcome = ways[task.outcome].levels[level].phrase
    forms = [*WORDS["statements"]["full"]]
    plural = [_plural(phrase) for phrase in (*given, outcome)]
    simple = "a person" in survey.subject and "who {conditions}" in survey.subject
    if simple and task.subject is None and all(plural):
        forms += 2 * WORDS["statements"]["plural"]  # so that half and more are in the plural
    # The question for it, without its beginning and its mark.
    event = Wording(truth).probability(cell, level)
    event = event.removeprefix("What is the probability that ").removesuffix("?")
    title = name_survey(survey, truth.vintage)
    of = {"event": event, "given": join_phrases(plural[:-1]), "outcome": plural[-1]}
    is_middle, percent = 0.1 <= p <= 0.9, 100 * p  # near the ends with one digit more
    of |= {
        "p": f"{percent:.0f}%" if is_middle else f"{percent:.1f}%",
        "n": f"{percent:.0f} in 100" if is_middle else f"{1000 * p:.0f} in 1,000",
        "thousand": f"{1000 * p:.0f}",
    }
    of |= {"survey": title, "year": survey.vintages[truth.vintage].said}
    text = forms[int(rng.integers(len(forms)))].format(**of)
    return text[0].upper() + text[1:]


def _plural(phrase: str) -> str:
    """Put a predicate into the plural: "is male", "are male"; empty if that needs more grammar."""
    verb, _, rest = phrase.partition(" ")
    if verb not in _PLURALS:
        return ""
    words = rest.split()
    # "is an adult with" would need "adults"; "has a diploma" is said of many as well.
    if (verb in ("is", "was") and words[:1] in (["a"], ["an"])) or _SINGULAR & set(words):
        return ""
    return f"{_PLURALS[verb]} {rest}"
