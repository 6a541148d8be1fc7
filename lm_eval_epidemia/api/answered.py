"""The answers to the questions of a task, from a table of what a model returned or wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import WAYS, leaves
from lm_eval_epidemia.benchmarks.benchmark import Leaf
from lm_eval_epidemia.benchmarks.observation.beliefs import ROUNDING
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.elicit.responses import most_mass
from lm_eval_epidemia.elicit.way import Answer, Way
from lm_eval_epidemia.score.joint import Draws

#: What a model answered to exported questions, in one of these columns.
GIVEN = ("logprobs", "p", "reply")

#: Of a choice that is never given: no log-probability of a model is as low.
LOG_ZERO = -1e4


class Scored(NamedTuple):
    """The primary metric of a task."""

    leaf: Leaf
    value: float
    draws: Draws | None


def check_truth(name: str, rows: Sequence[Mapping[str, Any]], fingerprint: str) -> None:
    """Refuse answers to questions that were made from another truth."""
    if others := {row.get("truth", fingerprint) for row in rows} - {fingerprint}:
        raise EpidemiaError(
            f"{name}: the answers are to ground truth {', '.join(sorted(map(str, others)))}, but "
            f"{fingerprint} is installed: export anew, or install the version that exported it"
        )


def answered(rows: Sequence[Mapping[str, Any]], column: str) -> Scored:
    """Score the answers to the questions of a task."""
    task, name = str(rows[0]["task"]), str(rows[0]["way"])
    if name not in WAYS:
        raise EpidemiaError(f"no way of asking {name!r} ({nearest(name, WAYS)})")
    way = WAYS[name]
    asked = {
        leaf.entry.name: leaf
        for leaf in leaves().values()
        if leaf.way == name and way.asks(leaf.entry.declared)
    }
    if (leaf := asked.get(task)) is None:
        raise EpidemiaError(f"no task {task!r} in the way {name!r} ({nearest(task, asked)})")
    needed = [*GIVEN[:2]] if not way.generated else ["reply", "p"][: 1 + (name == "stated")]
    if column not in needed:
        raise EpidemiaError(
            f"{way.named(task)} has {column}: of the way {name!r} give {' or '.join(needed)}"
        )
    truth = way.load(task)
    check_truth(way.named(task), rows, truth.fingerprint)
    answers = []
    for row in rows:
        try:
            answers.append(_answer(way, row, column))
        except ValueError as error:
            raise EpidemiaError(f"{way.named(task)}, row {row['row']}: {error}") from None
    _check_whole(way, truth, answers)
    metric = leaf.metrics[leaf.benchmark.primary]
    return Scored(leaf, metric.of(answers), metric.draws(answers) if metric.draws else None)


def _answer(way: Way, row: Mapping[str, Any], column: str) -> Answer:
    """Read the answer to a question, as what lm-eval returns is read."""
    plain = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in row.items()
    }
    asked, said = way.of_row(plain), plain[column]
    if column == "reply":
        if not isinstance(said, str):
            raise ValueError(f"reply is {said!r}: expected a text, empty where none was written")
        return way.read(asked, [said])
    try:
        p = _probabilities(len(asked.choices), said, column, way.generated)
    except ValueError as error:
        raise ValueError(f"{column} is {said!r}: {error}") from None
    if not way.generated:
        return way.read(asked, [(logprob, False) for logprob in p])
    # As the reply that says so would be read, if it could be written exactly.
    by_level = tuple(p[asked.order.index(level)] for level in range(len(p)))
    unread: Any = way.read(asked, [""])
    answer: Answer = unread._replace(value=by_level, numbers=tuple(100 * share for share in p))
    return answer


def _probabilities(number: int, said: Any, column: str, written: bool) -> tuple[float, ...]:
    """Return the log-probability of each choice; of shares that were written, these."""
    try:
        values = np.array(said, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (number,):
        raise ValueError(f"expected a list of {number} numbers, one for each of its choices")
    p: Array = np.exp(values) if column == "logprobs" else values
    if not ((p >= 0) & (p <= 1 + ROUNDING)).all():
        raise ValueError(
            "expected log-probabilities, at most 0"
            if column == "logprobs"
            else "expected probabilities, from 0 to 1"
        )
    total = float(p.sum())
    if written:
        if abs(total - 1) > ROUNDING:
            raise ValueError(f"expected shares that sum to 1, not to {total:.6g}")
        return tuple(p.tolist())
    if not 0 < total <= most_mass(number):
        raise ValueError(f"expected probabilities that sum to more than 0 and at most 1: {total:g}")
    logs = values if column == "logprobs" else np.log(np.maximum(p, np.finfo(float).tiny))
    return tuple(np.maximum(logs, LOG_ZERO).tolist())


def _check_whole(way: Way, truth: Any, answers: Sequence[Any]) -> None:
    """Refuse answers that are not one to each prompt of the task."""
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
    if twice := [cell for (cell, _), number in counts.items() if number > 1]:
        raise EpidemiaError(f"{name}: a prompt of cell {twice[0]} is answered twice: keep one")
    answered = Counter(cell for cell, _ in counts)
    lacking = [
        f"cell {cell} ({', '.join(truth.given[cell])}) has {answered[cell]}"
        for cell in range(cells)
        if answered[cell] != prompts
    ]
    if lacking:
        raise EpidemiaError(
            f"{name} is not answered whole: {few(lacking)} of {prompts} {way.prompts_are}; answer "
            "every row of the split test"
        )
