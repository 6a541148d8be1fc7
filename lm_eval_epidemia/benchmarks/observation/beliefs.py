"""Reading beliefs about a task: by position, by label, or one cell at a time.

Nothing is normalised, filled in or left out: the error names anything that does not fit the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few, suggest
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task

#: How far from 1 the probabilities of a cell may sum, and how far below 0 one may lie: what
#: rounding to float32 explains.
ROUNDING = 1e-5


def read_beliefs(truth: GroundTruth, q: Any) -> Array:
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
    _check_beliefs(truth, beliefs)
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
    labelled, names = [], _conditions(truth)
    for cell in truth.given:
        labelled += _by_answer(truth, cell, q(dict(zip(names, cell, strict=True))))
    return align_beliefs(truth, labelled)


def _by_answer(
    truth: GroundTruth, cell: tuple[str, ...], said: Any
) -> list[tuple[tuple[str, ...], Any]]:
    """Label what a function said of one cell."""
    levels = truth.levels
    if not isinstance(said, (Mapping, pd.Series)):
        row: Any = [said, 1 - said] if isinstance(said, Real) and len(levels) == 2 else said
        if np.ndim(row) != 1 or len(row) != len(levels):
            raise EpidemiaError(
                f"q({_named(truth, cell)}) is {said!r}: expected {len(levels)} probabilities"
                + (f" or that of {levels[0]!r}" if len(levels) == 2 else "")
            )
        said = dict(zip(levels, row, strict=True))
    return [((*cell, str(answer)), p) for answer, p in said.items()]


def check_number(value: Any) -> float:
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
        frame = frame.reset_index(allow_duplicates=True)
    frame = frame.rename(columns=str)
    is_long = "q" in frame or "answer" in frame
    needed, columns = [*conditions, *(["answer", "q"] if is_long else truth.levels)], [*frame]
    if lacking := [name for name in needed if name not in columns]:
        raise EpidemiaError(f"q has no column {few(lacking)} (it has {few(columns)}): add it")
    if twice := [name for name in needed if columns.count(name) > 1]:
        raise EpidemiaError(f"q has two columns named {few(twice)}: keep one")
    if not is_long:
        frame = frame.melt(conditions, var_name="answer", value_name="q")
    labels = frame[[*conditions, "answer"]].astype(str).itertuples(index=False, name=None)
    return align_beliefs(truth, zip(labels, frame["q"], strict=True))


def align_beliefs(truth: GroundTruth, labelled: Iterable[tuple[tuple[str, ...], Any]]) -> Array:
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
                    f"no {name} {label!r}; {suggest(label, of)}"
                    for name, label, of in zip(variables, labels, known, strict=True)
                    if label not in of
                ),
                "nobody in the survey has this combination of conditions: leave it out",
            )
            raise EpidemiaError(f"{truth.task} has no cell for {shown(labels)} ({hint})")
        if labels in values:
            both = f"{values[labels]!r} and {value!r}"
            raise EpidemiaError(f"beliefs contain {shown(labels)} twice: {both}")
        values[labels] = value
    if lacking := [shown(labels) for labels in place if labels not in values]:
        raise EpidemiaError("beliefs lack " + _join_cells(lacking))
    aligned = np.empty(truth.p.shape)
    for labels, value in values.items():
        try:
            aligned[place[labels]] = check_number(value)
        except (TypeError, ValueError):
            raise EpidemiaError(f"q of {shown(labels)} is {value!r}: expected a number") from None
    return aligned


def _check_beliefs(truth: GroundTruth, q: Array) -> None:
    """Refuse what is no distribution, by the cell's name and value."""
    if wrong := np.argwhere(~(np.isfinite(q) & (q >= -ROUNDING))).tolist():
        cells = [
            f"{_named(truth, truth.given[c])}, answer {truth.levels[k]}: {q[c, k]:g}"
            for c, k in wrong
        ]
        raise EpidemiaError(f"beliefs contain values outside 0 to 1: {_join_cells(cells)}")
    sums = q.sum(axis=1)
    if off := np.flatnonzero(abs(sums - 1) > ROUNDING).tolist():
        cells = [f"{_named(truth, truth.given[c])}: {sums[c]:.6g}" for c in off]
        raise EpidemiaError(f"beliefs do not sum to 1 over the answers: {_join_cells(cells)}")


def _named(truth: GroundTruth, labels: Sequence[str], *more: str) -> str:
    pairs = zip(_conditions(truth), labels, strict=True)
    return ", ".join([*(f"{name}={label}" for name, label in pairs), *more])


def _join_cells(cells: list[str]) -> str:
    more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
    return "; ".join(cells[:3]) + more
