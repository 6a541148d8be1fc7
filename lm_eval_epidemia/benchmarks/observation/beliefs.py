"""Reading beliefs about a task: by position, by label, or one cell at a time.

Nothing is normalised, filled in or left out: the error names anything that does not fit the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.surveys.catalogue import task as declared_task

#: How far from 1 the probabilities of a cell may sum, and how far below 0 one may lie: what
#: rounding to float32 explains.
ROUNDING = 1e-5


def believed(truth: GroundTruth, q: Any) -> Array:
    """Return beliefs about a task in the order of its truth.

    Parameters
    ----------
    truth : GroundTruth
    q : array_like of shape (C, K), DataFrame or callable
        As `api.score` takes it.

    Returns
    -------
    ndarray, shape (C, K)
        Rows sum to 1.

    Raises
    ------
    EpidemiaError
        If `q` lacks a cell or answer, has one twice, or one that the truth does not have; if a
        value is not a probability; if a cell does not sum to 1.
    """
    if isinstance(q, pd.Series):
        raise EpidemiaError("q is a Series: give a DataFrame, q.rename('q').reset_index()")
    if isinstance(q, pd.DataFrame):
        beliefs = _from_frame(truth, q)
    else:
        beliefs = _from_function(truth, q) if callable(q) else _from_array(truth, q)
    _check(truth, beliefs)
    return beliefs


def _conditions(truth: GroundTruth) -> tuple[str, ...]:
    return declared_task(truth.task).given


def _from_array(truth: GroundTruth, q: Any) -> Array:
    cells, levels = truth.p.shape
    expected = f"expected {cells} cells x {levels} answers, a DataFrame or a function"
    try:
        given = np.ma.array(q)
        if given.dtype.kind not in "fiuO":
            raise TypeError(f"its values have type {given.dtype}")
        # What is masked is not known: it becomes NaN, which is refused.
        values: Array = np.asarray(np.ma.filled(given.astype(float), np.nan))
    except (TypeError, ValueError, RuntimeError) as error:  # torch's tensors raise the last
        raise EpidemiaError(f"q is not an array of numbers ({error}): {expected}") from None
    if values.shape != truth.p.shape:
        raise EpidemiaError(f"q has shape {values.shape}: {expected}")
    return values


def _from_function(truth: GroundTruth, q: Callable[[dict[str, str]], Any]) -> Array:
    names = _conditions(truth)
    cells = (dict(zip(names, given, strict=True)) for given in truth.given)
    return np.array([_row(truth, cell, q(given)) for cell, given in enumerate(cells)])


def _row(truth: GroundTruth, cell: int, given: Any) -> list[float]:
    """Read what a function said of one cell."""
    levels, where = truth.levels, _named(truth, truth.given[cell])
    if isinstance(given, (Mapping, pd.Series)):
        answers, given = list(map(str, given.keys())), {str(k): p for k, p in given.items()}
        if len(given) < len(answers):
            raise EpidemiaError(f"q({where}) contains an answer twice: {few(answers)}")
        if wrong := [answer for answer in given if answer not in levels]:
            hint = nearest(wrong[0], levels)
            raise EpidemiaError(
                f"q({where}) contains {few(wrong)}, which is not an answer ({hint})"
            )
        if lacking := [level for level in levels if level not in given]:
            raise EpidemiaError(f"q({where}) lacks {few(lacking)}")
        given = [given[level] for level in levels]
    try:
        row = [number(value) for value in ([given] if np.ndim(given) == 0 else given)]
    except (TypeError, ValueError):
        raise EpidemiaError(
            f"q({where}) is {given!r}: expected {len(levels)} probabilities"
            + (f" or that of {levels[0]!r}" if len(levels) == 2 else "")
        ) from None
    if np.ndim(given) == 0 and len(levels) == 2:
        row.append(1 - row[0])
    if len(row) != len(levels):
        raise EpidemiaError(f"q({where}) has {len(row)} numbers: expected {len(levels)}")
    return row


def number(value: Any) -> float:
    """Read a number; texts and True are refused, though Python would convert them."""
    if isinstance(value, str | bytes | bool | np.bool_):
        raise TypeError
    return float(value)


def _from_frame(truth: GroundTruth, frame: pd.DataFrame) -> Array:
    """Read a frame, long or wide, by its labels."""
    conditions = list(_conditions(truth))
    numbered = isinstance(frame.index, (pd.RangeIndex, pd.MultiIndex))
    if len(conditions) == 1 and conditions[0] not in frame and not numbered:
        frame = frame.rename_axis(index=str(frame.index.name or conditions[0]))
    if set(frame.index.names) & set(conditions):
        if twice := [str(name) for name in frame.index.names if name in frame]:
            raise EpidemiaError(f"q has {few(twice)} both as index and as column: keep one")
        frame = frame.reset_index()
    long = "q" in frame or "answer" in frame
    needed = [*conditions, *(["answer", "q"] if long else truth.levels)]
    columns = list(map(str, frame.columns))
    if lacking := [name for name in needed if name not in columns]:
        if lacking == ["q"] and "p" in columns:
            raise EpidemiaError("q has a column p but no column q: to score p, rename it to q")
        raise EpidemiaError(
            f"q has no column {few(lacking)} (it has {few(columns)}): expected "
            f"{', '.join(conditions)}, with answer and q or with a column per answer"
        )
    if twice := [name for name in needed if columns.count(name) > 1]:
        raise EpidemiaError(f"q has two columns named {few(twice)}: keep one")
    if not long and (more := [name for name in columns if name not in needed]):
        hint = nearest(more[0], truth.levels)
        raise EpidemiaError(f"q has a column {few(more)}, which is not an answer ({hint})")
    frame = frame.set_axis(columns, axis="columns")
    keys = [tuple(map(str, row)) for row in frame[conditions].itertuples(index=False)]
    answers = [(str(answer),) for answer in frame["answer"]] if long else [truth.levels] * len(keys)
    rows = frame[["q"] if long else list(truth.levels)].itertuples(index=False)
    values = (
        ((*key, answer), value)
        for key, named, row in zip(keys, answers, rows, strict=True)
        for answer, value in zip(named, row, strict=True)
    )
    return _aligned(truth, values)


def _aligned(truth: GroundTruth, labelled: Iterable[tuple[tuple[str, ...], Any]]) -> Array:
    """Put values where their labels belong; each place is to get exactly one."""
    place = {
        (*given, level): (cell, k)
        for cell, given in enumerate(truth.given)
        for k, level in enumerate(truth.levels)
    }
    variables = (*_conditions(truth), "answer")

    def shown(labels: tuple[str, ...]) -> str:
        return _named(truth, labels[:-1], f"answer {labels[-1]}")

    values: dict[tuple[str, ...], Any] = {}
    for labels, value in labelled:
        if labels not in place:
            known = [dict.fromkeys(column) for column in zip(*place, strict=True)]
            hint = next(
                (
                    f"no {name} {label!r}; {nearest(label, of)}"
                    for name, label, of in zip(variables, labels, known, strict=True)
                    if label not in of
                ),
                "nobody in the survey has this combination of conditions: leave it out",
            )
            raise EpidemiaError(f"{truth.task} has no cell for q's {shown(labels)} ({hint})")
        if labels in values:
            raise EpidemiaError(
                f"q contains {shown(labels)} twice: {values[labels]!r} and {value!r}"
            )
        values[labels] = value
    if lacking := [shown(labels) for labels in place if labels not in values]:
        raise EpidemiaError("q lacks " + _listed(lacking))
    aligned = np.empty(truth.p.shape)
    for labels, value in values.items():
        try:
            aligned[place[labels]] = number(value)
        except (TypeError, ValueError):
            raise EpidemiaError(f"q of {shown(labels)} is {value!r}: expected a number") from None
    return aligned


def _check(truth: GroundTruth, q: Array) -> None:
    """Refuse what is no distribution, by the cell's name and value."""
    if wrong := np.argwhere(~(np.isfinite(q) & (q >= -ROUNDING))).tolist():
        cells = [
            f"{_named(truth, truth.given[c])}, answer {truth.levels[k]}: {q[c, k]:g}"
            for c, k in wrong
        ]
        raise EpidemiaError(f"q contains values outside 0 to 1: {_listed(cells)}")
    sums = q.sum(axis=1)
    if off := np.flatnonzero(abs(sums - 1) > ROUNDING).tolist():
        cells = [f"{_named(truth, truth.given[c])}: {sums[c]:.6g}" for c in off]
        raise EpidemiaError(f"q does not sum to 1 over the answers: {_listed(cells)}")


def _named(truth: GroundTruth, labels: Sequence[str], *more: str) -> str:
    pairs = zip(_conditions(truth), labels, strict=True)
    return ", ".join([*(f"{name}={label}" for name, label in pairs), *more])


def _listed(cells: list[str]) -> str:
    more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
    return "; ".join(cells[:3]) + more
