"""Whether the rows of a table are the questions of their task: `check_asked`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product, zip_longest
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.benchmark import Leaf
from lm_eval_epidemia.benchmarks.splits import displayed
from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import Answer

#: What changes a prompt and is told by no other column.
_WORDINGS = {"wording": ("", "bare"), "structured": ("", "json"), "names": ("", "letters")}

#: What tells which of a task's questions a row has.
_KEYS = ("cell", "order", "level", "sample", "place")


def is_missing(value: Any) -> bool:
    """Whether a cell of a table holds nothing."""
    return np.ndim(value) == 0 and bool(pd.isna(value))


def check_given(name: str, row: Mapping[str, Any], conditions: Sequence[str]) -> None:
    """Refuse a row whose conditions are not those of its cell.

    Parameters
    ----------
    name : str
        Of the task.
    row : mapping
        With ``cell`` and ``given``, and its label in ``row``.
    conditions : sequence of str
        Of each cell, as one text.
    """
    cell, given = int(row["cell"]), as_text(row["given"])
    if given != conditions[cell]:
        its = f"no cell of the task ({nearest(given, conditions)})"
        if given in conditions:
            its = f"cell {conditions.index(given)}"
        raise EpidemiaError(
            f"{name}, row {row['row']}: cell is {cell} ({conditions[cell]}), but given is "
            f"{given!r}, which is {its}: correct the wrong one, or leave given out"
        )


def as_text(given: Any) -> str:
    """Return conditions as one text: ``["age: 30-34", "sex: Female"]``, joined by ", "."""
    return ", ".join(map(str, given)) if isinstance(given, list) else str(given)


def check_asked(
    leaf: Leaf, truth: Any, rows: Sequence[Mapping[str, Any]], answers: Sequence[Answer]
) -> None:
    """Refuse rows whose columns are not those of the task's questions.

    Columns that are left out are not checked. A prompt may have text before it: solved examples, or
    what else the model was told first.

    Parameters
    ----------
    leaf : Leaf
    truth : object
        Which the questions were made from.
    rows : sequence of mapping
        With their labels in ``row``.
    answers : sequence of Answer
        What was read from each row; one to each prompt of the task.
    """
    way = WAYS[leaf.way]
    name, prompts = way.named(truth.task), way.prompts(truth, answers[0])
    places = [answer.cell * prompts + answer.place for answer in answers]
    if "given" in rows[0]:
        conditions = [", ".join(given) for given in way.described(truth)]
        for row in rows:
            check_given(name, row, conditions)
    questions = _questions(leaf, truth, rows[0], places[0], prompts)
    for column in [name for name in questions[0] if name in rows[0] and name != "cell"]:
        for row, place in zip(rows, places, strict=True):
            value, expected = row[column], questions[place][column]
            if not _is_same(column, value, expected):
                if column == "prompt":
                    value, expected = _last_difference(str(value), expected)
                where = " and ".join(f"{key} {row[key]}" for key in _KEYS if key in row)
                mend = "" if column in way.columns else f", or leave {column} out"
                if column == "prompt":
                    mend += " if you asked in words of your own"
                raise EpidemiaError(
                    f"{name}, row {row['row']}: {column} has {value!r}, but of {where} it has "
                    f"{expected!r}, so one of these was changed: give the rows as `epidemia "
                    f"export` or `questions` made them{mend}"
                )


def _questions(
    leaf: Leaf, truth: Any, row: Mapping[str, Any], place: int, prompts: int
) -> list[dict[str, Any]]:
    """Return the questions of a task in the wording of a row, else in the usual one."""
    way = WAYS[leaf.way]
    of_row, asked = way.of_row(row), Variant()
    asked = asked._replace(
        orderings=getattr(of_row, "design", asked.orderings),
        n_samples=getattr(of_row, "n_samples", asked.n_samples),
    )
    wordings = ([*way.rows(truth, asked._replace(**words))] for words in _wordings(leaf))
    questions = usual = next(wordings)
    if "prompt" in row:
        fitting = (
            each
            for each in chain([usual], wordings)
            if _is_same("prompt", row["prompt"], each[place]["prompt"])
        )
        questions = next(fitting, usual)
    letters = way.choices(truth)
    for number, question in enumerate(questions):
        question["ordering"] = number % prompts
        question.setdefault("choices", list(letters))
    if "answers" in row:
        levels = leaf.benchmark.cells(truth).get("levels")
        for question, answers in zip(
            questions, displayed(way, truth, questions, levels) or (), strict=False
        ):
            question["answers"] = answers
    return questions


def _wordings(leaf: Leaf) -> Iterator[dict[str, Any]]:
    """Yield the wordings in which a task is asked, the usual one first."""
    heeded = [key for key in _WORDINGS if leaf.heeds(key)]
    for values in product(*(_WORDINGS[key] for key in heeded)):
        yield dict(zip(heeded, values, strict=True))


def _is_same(column: str, value: Any, expected: Any) -> bool:
    if column == "prompt":
        return isinstance(value, str) and value.endswith(expected)
    if column == "choices" and isinstance(value, list) and value != expected:
        # A space may be before them.
        value, expected = ([str(choice).strip() for choice in each] for each in (value, expected))
    same: bool = value == expected
    return same


def _last_difference(prompt: str, expected: str) -> tuple[str, str]:
    """Return the last line in which a prompt is not what it should end with, and that line."""
    pairs = zip_longest(prompt.split("\n")[::-1], expected.split("\n")[::-1], fillvalue="")
    return next((line, wanted) for line, wanted in pairs if line != wanted)
