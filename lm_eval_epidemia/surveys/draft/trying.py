"""Whether a drafted record works, and its tasks have people."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.surveys.draft.tasks import Plan
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


def possible(data: Microdata) -> Callable[[Plan], bool]:
    """Return what tells whether a task can be estimated from the records, and is worth it."""

    def is_possible(plan: Plan) -> bool:
        names = (plan.outcome, *plan.given)
        keep = data.weight > 0
        for name in names:
            keep = keep & (data.levels[name] != MISSING)
        if keep.sum() < PEOPLE:
            return False
        columns = [data.levels[name][keep] for name in names]
        if any(len(np.unique(column)) < 2 for column in columns):
            return False
        weight = data.weight[keep]
        return all(_information(columns[0], given, weight) < SAME for given in columns[1:])

    return is_possible


def _information(
    one: NDArray[np.int16], other: NDArray[np.int16], weight: NDArray[np.float64]
) -> float:
    """Return the mutual information of two variables, over the lesser of their entropies."""
    table = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(table, (one, other), weight)
    p = table / table.sum()
    rows, columns = p.sum(axis=1), p.sum(axis=0)

    def entropy(shares: NDArray[np.float64]) -> float:
        positive = shares[shares > 0]
        return float(-(positive * np.log(positive)).sum())

    least = min(entropy(rows), entropy(columns))
    return (entropy(rows) + entropy(columns) - entropy(p.ravel())) / least if least > 0 else 1.0
