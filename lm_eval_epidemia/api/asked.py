"""Check that the rows of a table are the questions of their task: `check_asked`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product, zip_longest
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
    """Whether a cell of a table is empty."""
    return np.ndim(value) == 0 and bool(pd.isna(value))


def check_given(name: str, row: Mapping[str, Any], conditions: Sequence[str]) -> None:
    """Refuse a row whose conditions differ from those of its cell.

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
        its = f"no cell of the task ({nearest_cell(given, conditions)})"
        if given in conditions:
            its = f"cell {conditions.index(given)}"
        raise EpidemiaError(
            f"{name}, row {row['row']}: cell is {cell} ({conditions[cell]}), but given is "
            f"{given!r}, which is {its}: correct the wrong one, or leave given out"
        )


def nearest_cell(given: str, conditions: Sequence[str]) -> str:
    """Return a hint naming the closest cells, each in quotes because conditions contain commas."""
    return nearest(repr(given), map(repr, conditions))


def as_text(given: Any) -> str:
    """Return conditions as one text: ``["age: 30-34", "sex: Female"]``, joined by ", "."""
    return ", ".join(map(str, given)) if isinstance(given, list) else str(given)


def check_asked(
    leaf: Leaf, truth: Any, rows: Sequence[Mapping[str, Any]], answers: Sequence[Answer]
) -> None:
    """Refuse rows whose columns differ from the task's questions.

    Missing columns are not checked. A prompt may have text before it, such as solved examples.

    Parameters
    ----------
    leaf : Leaf
    truth : object
        Which the questions were made from.
    rows : sequence of mapping
        With their labels in ``row``.
    answers : sequence of Answer
        Read from the rows, one for each prompt of the task.
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
                has, should = f"{column} has {value!r}", f"has {expected!r}"
                mend = "" if column in way.columns else f", or leave {column} out"
                if column == "prompt":
                    has, should = _difference(str(value), expected)
                    mend += " if you asked in your own words"
                where = " and ".join(f"{key} {row[key]}" for key in _KEYS if key in row)
                raise EpidemiaError(
                    f"{name}, row {row['row']}: {has}, but for {where} it {should}, so one of "
                    f"these or way ({way.name!r}) was changed: give the rows as `epidemia "
                    f"export` or `questions` made them{mend}"
                )


def _questions(
    leaf: Leaf, truth: Any, row: Mapping[str, Any], place: int, prompts: int
) -> list[dict[str, Any]]:
    """Return the questions of a task in the wording closest to that of a row."""
    way = WAYS[leaf.way]
    of_row, asked = way.of_row(row), Variant()
    asked = asked._replace(
        orderings=getattr(of_row, "design", asked.orderings),
        n_samples=getattr(of_row, "n_samples", asked.n_samples),
    )
    wordings = ([*way.rows(truth, asked._replace(**words))] for words in _wordings(leaf))
    questions = next(wordings)
    if "prompt" in row and not _is_same("prompt", row["prompt"], questions[place]["prompt"]):
        lines = {*str(row["prompt"]).split("\n")}

        def fit(each: list[dict[str, Any]]) -> tuple[bool, int]:
            prompt = each[place]["prompt"]
            return _is_same("prompt", row["prompt"], prompt), len(lines & {*prompt.split("\n")})

        questions = max([questions, *wordings], key=fit)
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
    """Yield the wordings of a task, the usual one first."""
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


def _difference(prompt: str, expected: str) -> tuple[str, str]:
    """Say where and how a prompt first differs from its expected ending."""
    if prompt.rstrip().endswith(expected.rstrip()):
        last = expected.rstrip().split("\n")[-1]
        ends = [repr(last + text[len(text.rstrip()) :]) for text in (prompt, expected)]
        return f"prompt ends with {ends[0]}", f"ends with {ends[1]} (the white space differs)"
    lines, wanted = prompt.split("\n"), expected.split("\n")
    # What was told first may have the same line.
    starts = [number for number, line in enumerate(lines) if line == wanted[0]]
    start = starts[-1] if starts else max(0, len(lines) - len(wanted))
    pairs = enumerate(zip_longest(lines[start:], wanted), start + 1)
    number, texts = next((number, pair) for number, pair in pairs if pair[0] != pair[1])
    has, should = ("is missing" if text is None else f"is {text!r}" for text in texts)
    return f"line {number} of prompt {has}", should
