"""Whether a drafted record works, and its tasks have people."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from lm_eval_epidemia.surveys.draft.tasks import TaskPlan
from lm_eval_epidemia.surveys.load import load_record
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata
from lm_eval_epidemia.surveys.record import Record

#: A task has people enough.
PEOPLE = 30

#: What two variables share of what the lesser of them tells, from which one recodes the other.
SAME = 0.9


def recorded(text: str) -> Record:
    """Load the text of a record as anybody would.

    Raises
    ------
    EpidemiaError
        Naming line and field of what is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="epidemia-") as folder:
        path = Path(folder) / "draft.yaml"
        path.write_text(text, encoding="utf-8")
        return load_record(path)


def possible(data: Microdata) -> Callable[[TaskPlan], bool]:
    """Return what tells whether a task can be estimated from the records, and is worth it."""

    def is_possible(plan: TaskPlan) -> bool:
        columns = np.array([data.levels[name] for name in (plan.outcome, *plan.given)])
        keep = (data.weight > 0) & (columns != MISSING).all(axis=0)
        outcome, *given = columns[:, keep]
        if keep.sum() < PEOPLE or any(len(np.unique(column)) < 2 for column in columns[:, keep]):
            return False
        return all(
            _information(outcome, condition, data.weight[keep]) < SAME for condition in given
        )

    return is_possible


def _information(
    first: NDArray[np.int16], other: NDArray[np.int16], weight: NDArray[np.float64]
) -> float:
    """Return the mutual information of two variables, over the lesser of their entropies."""
    table = np.zeros((first.max() + 1, other.max() + 1))
    np.add.at(table, (first, other), weight)
    p = table / table.sum()
    rows, columns, both = (
        float(entr(shares).sum()) for shares in (p.sum(axis=1), p.sum(axis=0), p)
    )
    least = min(rows, columns)
    return (rows + columns - both) / least if least > 0 else 1.0
