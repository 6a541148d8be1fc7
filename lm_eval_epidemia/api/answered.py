"""Read a model's answers to the questions of a task from a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.api.asked import check_asked
from lm_eval_epidemia.benchmarks import WAYS, leaves
from lm_eval_epidemia.benchmarks.benchmark import Leaf
from lm_eval_epidemia.benchmarks.observation.beliefs import ROUNDING, number
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.elicit.responses import most_mass
from lm_eval_epidemia.elicit.way import Answer, Way
from lm_eval_epidemia.score.joint import Draws

#: What a model answered to exported questions, in one of these columns.
GIVEN = ("logprobs", "p", "reply")

_NONE_SHOWN = (
    ". Where no letter was shown, give each an equal part of what the shown tokens leave of 1, but "
    "no more than the least likely of them has"
)

#: Of a choice that is never given: no log-probability of a model is as low.
LOG_ZERO = -1e4


class Scored(NamedTuple):
    """The primary metric of a task."""

    leaf: Leaf
    value: float
    draws: Draws | None


def check_truth(name: str, rows: Sequence[Mapping[str, Any]], fingerprint: str) -> None:
    """Refuse answers to questions made from another truth."""
    if others := {row.get("truth", fingerprint) for row in rows} - {fingerprint}:
        raise EpidemiaError(
            f"{name}: the answers refer to ground truth "
            f"{', '.join(sorted(map(str, others)))}, but {fingerprint} is installed: export "
            "again, or install the version that exported it"
        )


def answered(rows: Sequence[Mapping[str, Any]]) -> Scored:
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
        raise EpidemiaError(f"no way of asking {name!r} ({nearest(name, WAYS)})")
    asked = {
        leaf.entry.name: leaf
        for leaf in leaves().values()
        if leaf.way == name and WAYS[name].asks(leaf.entry.declared)
    }
    if task not in asked:
        raise EpidemiaError(f"no task {task!r} in the way {name!r} ({nearest(task, asked)})")
    if not asked[task].benchmark.scored:
        raise EpidemiaError(f"{task} has no truth, so answers to it have no score")
    return asked[task]


def _column(way: Way, row: Mapping[str, Any]) -> str:
    """Return the column with the answers to a task."""
    needed = [*GIVEN[:2]] if not way.generated else ["reply", "p"][: 1 + (way.name == "stated")]
    columns = [name for name in GIVEN if name in row]
    if len(columns) > 1:
        raise EpidemiaError(
            f"{way.named(row['task'])} has both {' and '.join(columns)}: keep one. In a table "
            "of several ways, each row has a value only in its own way's column"
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
        values = numbers(value)
        if way.generated:
            return _as_written(way, asked, values)
        logprobs = _logprobs(values, column)
    except ValueError as error:
        raise ValueError(f"{column} is {plain(value)!r}: {error}") from None
    return way.read(asked, [(logprob, False) for logprob in logprobs])


def _as_written(way: Way, asked: Any, shares: Array) -> Answer:
    """Return shares as they would be read from a reply that states them exactly."""
    if not are_probabilities(shares):
        raise ValueError("expected probabilities, from 0 to 1")
    if abs(total := float(shares.sum()) - 1) > ROUNDING:
        raise ValueError(f"expected shares that sum to 1, not to {1 + total:.6g}")
    p = shares.tolist()
    by_level = tuple(p[asked.order.index(level)] for level in range(len(p)))
    unread: Any = way.read(asked, [""])
    answer: Answer = unread._replace(value=by_level, numbers=tuple(100 * share for share in p))
    return answer


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


def numbers(values: Sequence[Any]) -> Array:
    """Return values as an array of numbers; NaN for anything else: a text, True, nothing."""

    def read(value: Any) -> float:
        try:
            return number(value)
        except (TypeError, ValueError):
            return np.nan

    return np.array([read(value) for value in values])


def are_probabilities(p: Array) -> bool:
    """Whether all numbers are from 0 to 1, up to rounding."""
    return bool(((p >= -ROUNDING) & (p <= 1 + ROUNDING)).all())


def plain(value: Any) -> Any:
    """Return a value as Python writes it: 0.4 instead of ``np.float64(0.4)``."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def _check_whole(way: Way, truth: Any, answers: Sequence[Any]) -> None:
    """Refuse answers unless each prompt of the task has exactly one."""
    name, first = way.named(truth.task), answers[0]
    for answer in answers:
        try:
            way.check(answer, first, truth)
        except ValueError as error:
            raise EpidemiaError(f"{name}, cell {answer.cell}: {error}") from None
    prompts, cells = way.prompts(truth, first), len(truth.given)
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
