"""Read a model's answers to the questions of a task from a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.responses import LOG_ZERO, most_mass
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import Answer, Way
from lm_eval_epidemia.benchmarks import WAYS, list_leaves
from lm_eval_epidemia.benchmarks.benchmark import Leaf
from lm_eval_epidemia.benchmarks.observation.beliefs import ROUNDING, check_number
from lm_eval_epidemia.benchmarks.splits import list_choices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few, suggest
from lm_eval_epidemia.score.joint import Draws

#: What a model answered to exported questions, in one of these columns.
GIVEN = ("logprobs", "p", "reply")

_NONE_SHOWN = (
    " (where no letter was shown, give each an equal part of what the shown tokens leave of 1, but "
    "no more than the least likely of them has)"
)


class Scored(NamedTuple):
    """The primary metric of a task."""

    leaf: Leaf
    value: float
    draws: Draws | None


def check_truth(name: str, rows: Sequence[Mapping[str, Any]], fingerprint: str) -> None:
    """Refuse answers to questions made from another truth."""
    if others := {row.get("truth", fingerprint) for row in rows} - {fingerprint}:
        raise EpidemiaError(
            f"{name}: the answers refer to ground truth {', '.join(sorted(map(str, others)))}, but "
            f"{fingerprint} is installed: export again, or install the version that exported it"
        )


def score_task(rows: Sequence[Mapping[str, Any]]) -> Scored:
    """Score the answers to the questions of a task."""
    leaf = _leaf(str(rows[0]["task"]), str(rows[0]["way"]))
    way = WAYS[leaf.way]
    column, truth = _column(way, rows[0]), way.load(leaf.entry.name)
    name = way.named(truth.task)
    check_truth(name, rows, truth.fingerprint)
    answers = []
    for row in rows:
        try:
            answers.append(_answer(way, row, column))
        except ValueError as error:
            raise EpidemiaError(f"{name}, row {row['row']}: {error}") from None
    _check_whole(way, truth, answers)
    check_asked(leaf, truth, rows, answers)
    measured, primary = leaf.benchmark.measure(answers), leaf.benchmark.primary
    return Scored(leaf, measured.numbers.get(primary, math.nan), measured.draws.get(primary))


def _leaf(task: str, name: str) -> Leaf:
    """Return a task in a way of asking, given both names."""
    if name not in WAYS:
        raise EpidemiaError(f"no way of asking {name!r} ({suggest(name, WAYS)})")
    asked = {
        leaf.entry.name: leaf
        for leaf in list_leaves().values()
        if leaf.way == name and WAYS[name].asks(leaf.entry.declared)
    }
    if task not in asked:
        raise EpidemiaError(f"no task {task!r} in the way {name!r} ({suggest(task, asked)})")
    if not asked[task].benchmark.scored:
        raise EpidemiaError(f"{task} has no truth, so answers to it have no score")
    return asked[task]


def _column(way: Way, row: Mapping[str, Any]) -> str:
    """Return the column with the answers to a task."""
    needed = [*GIVEN[:2]] if not way.generated else ["reply", "p"][: 1 + (way.name == "stated")]
    columns = [name for name in GIVEN if name in row]
    if len(columns) > 1:
        raise EpidemiaError(
            f"{way.named(row['task'])} has both {' and '.join(columns)}: keep in each row "
            "only the column of its own way"
        )
    if not columns or columns[0] not in needed:
        raise EpidemiaError(
            f"{way.named(row['task'])} has {columns[0] if columns else 'no answers'}: for the "
            f"way {way.name!r} give {' or '.join(needed)}"
        )
    return columns[0]


def _answer(way: Way, row: Mapping[str, Any], column: str) -> Answer:
    """Read the answer to a question in the same way as one that lm-eval returns."""
    asked, value = way.of_row(row), row[column]
    if column == "reply":
        if not isinstance(value, str):
            raise ValueError(f"reply is {value!r}: expected a text, empty where none was written")
        return way.read(asked, [value])
    try:
        if not isinstance(value, list) or len(value) != len(asked.choices):
            raise ValueError(
                f"expected a list of {len(asked.choices)} numbers, one for each of its choices"
            )
        values = to_numbers(value)
        if way.generated:
            return _as_written(way, asked, values)
        logprobs = _logprobs(values, column)
    except ValueError as error:
        raise ValueError(f"{column} is {to_python(value)!r}: {error}") from None
    return way.read(asked, [(logprob, False) for logprob in logprobs])


def _as_written(way: Way, asked: Any, shares: Array) -> Answer:
    """Return shares as they would be read from a reply that states them exactly."""
    if not are_probabilities(shares):
        raise ValueError("expected probabilities, from 0 to 1")
    if abs(total := float(shares.sum()) - 1) > ROUNDING:
        raise ValueError(f"expected shares that sum to 1, not to {1 + total:.6g}")
    p = shares.tolist()
    by_level = tuple(p[asked.order.index(level)] for level in range(len(p)))
    unread = way.read(asked, [""])
    return unread._replace(value=by_level, numbers=tuple(100 * share for share in p))


def _logprobs(values: Array, column: str) -> list[float]:
    """Return the log-probability of each choice."""
    with np.errstate(over="ignore"):
        p: Array = np.exp(values) if column == "logprobs" else values
    if not are_probabilities(p):
        raise ValueError(
            "expected log-probabilities, at most 0"
            if column == "logprobs"
            else "expected probabilities, numbers from 0 to 1"
        )
    if not 0 < (total := float(p.sum())) <= most_mass(len(p)):
        raise ValueError(
            f"expected probabilities that sum to more than 0 and at most 1: {total:g}"
            + ("" if total else _NONE_SHOWN)
        )
    logs = values if column == "logprobs" else np.log(np.maximum(p, np.finfo(float).tiny))
    logprobs: list[float] = np.maximum(logs, LOG_ZERO).tolist()
    return logprobs


def to_numbers(values: Sequence[Any]) -> Array:
    """Return values as an array of numbers; NaN for anything else: a text, True, nothing."""

    def read(value: Any) -> float:
        try:
            return check_number(value)
        except (TypeError, ValueError):
            return np.nan

    return np.array([read(value) for value in values])


def are_probabilities(p: Array) -> bool:
    """Whether all numbers are from 0 to 1, up to rounding."""
    return bool(((p >= -ROUNDING) & (p <= 1 + ROUNDING)).all())


def to_python(value: Any) -> Any:
    """Return a value as Python writes it: 0.4 instead of ``np.float64(0.4)``."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return [to_python(each) for each in value] if isinstance(value, list | tuple) else value


def _check_whole(way: Way, truth: Any, answers: Sequence[Any]) -> None:
    """Refuse answers unless each prompt of the task has exactly one."""
    name, first = way.named(truth.task), answers[0]
    for answer in answers:
        try:
            way.check(answer, first, truth)
        except ValueError as error:
            raise EpidemiaError(f"{name}, cell {answer.cell}: {error}") from None
    prompts, cells = way.count_prompts(truth, first), len(truth.given)
    counts = Counter((answer.cell, answer.place) for answer in answers)
    if beyond := [cell for cell, _ in counts if cell not in range(cells)]:
        raise EpidemiaError(f"{name} has no cell {beyond[0]}: expected 0 to {cells - 1}")
    if wrong := [place for _, place in counts if place not in range(prompts)]:
        raise EpidemiaError(f"{name} has no place {wrong[0]}: expected 0 to {prompts - 1}")
    if twice := [cell for (cell, _), times in counts.items() if times > 1]:
        raise EpidemiaError(f"{name}: a prompt of cell {twice[0]} is answered twice: keep one")
    answered = Counter(cell for cell, _ in counts)
    lacking = [
        f"cell {cell} ({', '.join(truth.given[cell])}) has {answered[cell]}"
        for cell in range(cells)
        if answered[cell] != prompts
    ]
    if lacking:
        raise EpidemiaError(
            f"{name} is not answered completely: {few(lacking)} of {prompts} "
            f"{way.prompts_are}; answer every row of the split test"
        )


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
    return suggest(repr(given), map(repr, conditions))


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
    name, prompts = way.named(truth.task), way.count_prompts(truth, answers[0])
    places = [answer.cell * prompts + answer.place for answer in answers]
    if "given" in rows[0]:
        conditions = [", ".join(given) for given in way.described(truth)]
        for row in rows:
            check_given(name, row, conditions)
    questions = _find_questions(leaf, truth, rows[0], places[0], prompts)
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


def _find_questions(
    leaf: Leaf, truth: Any, row: Mapping[str, Any], place: int, prompts: int
) -> list[dict[str, Any]]:
    """Return the questions of a task in the wording closest to that of a row."""
    way = WAYS[leaf.way]
    of_row, asked = way.of_row(row), Variant()
    asked = asked._replace(
        orderings=getattr(of_row, "design", asked.orderings),
        n_samples=getattr(of_row, "n_samples", asked.n_samples),
    )
    heeded: dict[str, Any] = {key: values for key, values in _WORDINGS.items() if leaf.heeds(key)}
    changes = (dict(zip(heeded, values, strict=True)) for values in product(*heeded.values()))
    wordings = ([*way.rows(truth, asked._replace(**change))] for change in changes)
    questions = next(wordings)  # in the usual wording
    if "prompt" in row and not _is_same("prompt", row["prompt"], questions[place]["prompt"]):
        lines = {*str(row["prompt"]).split("\n")}

        def fit(each: list[dict[str, Any]]) -> tuple[bool, int]:
            prompt = each[place]["prompt"]
            return _is_same("prompt", row["prompt"], prompt), len(lines & {*prompt.split("\n")})

        questions = max([questions, *wordings], key=fit)
    letters = way.choices(truth)
    for at, question in enumerate(questions):
        question["ordering"] = at % prompts
        question.setdefault("choices", list(letters))
    if "answers" in row:
        levels = leaf.benchmark.cells(truth).get("levels")
        shown = list_choices(way, truth, questions, levels) or ()
        for question, answers in zip(questions, shown, strict=False):
            question["answers"] = answers
    return questions


def _is_same(column: str, value: Any, expected: Any) -> bool:
    if column == "prompt":
        return isinstance(value, str) and value.endswith(expected)
    if column == "choices" and isinstance(value, list) and value != expected:
        # A space may be before them.
        value, expected = ([str(choice).strip() for choice in each] for each in (value, expected))
    return bool(value == expected)


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
