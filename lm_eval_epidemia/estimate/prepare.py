"""The records a task is estimated from: who is kept, in which cell, with which weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.estimate import boosted
from lm_eval_epidemia.estimate.adjust import adjust
from lm_eval_epidemia.estimate.sampling import Codes, Sample
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata
from lm_eval_epidemia.surveys.record import Task, Variable

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """The records one task is estimated from.

    Attributes
    ----------
    task : Task
    levels : tuple of str, length K
    given : list of tuple of str, length C
        Labels of the conditions of each cell, cells in the order of the levels.
    features : ndarray of int, shape (C, d)
        Level numbers of the conditions of each cell.
    columns : dict of str to str
    sample : Sample
        With n records.
    cell, outcome : ndarray of int, shape (n,)
    weights : ndarray, shape (C,)
        P(X = x).
    dropped : dict of str to int
        Records left out, by reason.
    absent : list of str
        Levels of a single condition that no record has.
    adjustments : list of dict
        What was done to the weights.
    """

    task: Task
    levels: tuple[str, ...]
    given: list[tuple[str, ...]]
    features: NDArray[Any]
    columns: dict[str, str]
    sample: Sample
    cell: Codes
    outcome: Codes
    weights: Array
    dropped: dict[str, int]
    absent: list[str]
    adjustments: list[dict[str, Any]]


def prepare(data: Microdata, task: Task) -> Prepared:
    """Select the records of a task and number their cells.

    Records outside the universe, without an answer to the outcome or a condition, or with zero
    weight are dropped and counted. Cells are the combinations that occur.
    """
    keep = np.ones(len(data), dtype=bool)
    dropped: dict[str, int] = {}

    def drop(reason: str, without: NDArray[np.bool_]) -> None:
        nonlocal keep
        if lost := int((keep & without).sum()):
            dropped[reason] = lost
        keep = keep & ~without

    for universe in (*data.record.universe, *task.universe):
        drop(f"{universe.column} missing", np.isnan(data.columns[universe.column]))
        drop(f"outside the universe ({universe.column})", ~data.within(universe))
    for name in (task.outcome, *task.given):
        drop(f"{name} missing", data.levels[name] == MISSING)
    entry = data.record.vintages[data.vintage]
    adjusted = adjust(data, entry.adjustments, task)
    drop("weight zero", (adjusted.weight == 0) | (adjusted.cell_weight == 0))
    if not keep.any():
        raise EpidemiaError(f"{data.name}: no record is left for {task.name} (dropped: {dropped})")

    units = int(keep.sum()) if data.unit is None else len(np.unique(data.unit[keep]))
    if len(task.given) > 1 and units < boosted.FOLDS:
        raise EpidemiaError(
            f"{data.name}: {task.name} has {units} sampled units (dropped: {dropped}), and with "
            f"several conditions it takes {boosted.FOLDS}, one for each fold: is the file whole?"
        )
    conditions = np.column_stack([data.levels[name][keep] for name in task.given])
    features, cell = _numbered(conditions)
    ways = [data.variables[name] for name in task.given]
    outcome = data.levels[task.outcome][keep].astype(np.int64)
    levels = data.variables[task.outcome].levels
    totals = np.bincount(cell, weights=adjusted.cell_weight[keep])
    stratum_of_psu = replicate_totals = None
    if data.has_strata:
        assert data.psu is not None and data.strata is not None
        stratum_of_psu = np.empty(int(data.psu.max()) + 1, dtype=np.int64)
        stratum_of_psu[data.psu] = data.strata
    elif data.replicates is not None and len(task.given) == 1:
        flat, size = cell * len(levels) + outcome, len(totals) * len(levels)
        # What adjusted a record's weight adjusts its replicates too.
        weight = data.weight[keep]
        ratio = np.divide(
            adjusted.weight[keep], weight, out=np.zeros(len(weight)), where=weight > 0
        )
        replicate_totals = np.stack(
            [
                np.bincount(flat, weights=column[keep] * ratio, minlength=size)
                .astype(float)
                .reshape(-1, len(levels))
                for column in data.replicates.T
            ]
        )
    return Prepared(
        task=task,
        levels=tuple(level.label for level in levels),
        given=[
            tuple(way.levels[int(number)].label for way, number in zip(ways, row, strict=True))
            for row in features
        ],
        features=features,
        columns={
            name: entry.column(data.variables[name].column) for name in (task.outcome, *task.given)
        },
        sample=Sample(
            weight=adjusted.weight[keep],
            unit=None if data.unit is None else np.unique(data.unit[keep], return_inverse=True)[1],
            psu=None if data.psu is None else data.psu[keep],
            stratum_of_psu=stratum_of_psu,
            replicate_totals=replicate_totals,
            replicate_scale=data.record.design_of(data.vintage).replicate_scale,
        ),
        cell=cell,
        outcome=outcome,
        weights=totals / totals.sum(),
        dropped=dropped,
        absent=_absent(task, ways, features),
        adjustments=adjusted.notes,
    )


def _absent(task: Task, ways: list[Variable], features: NDArray[Any]) -> list[str]:
    """Name the levels of a single condition that no record has and that the universe allows."""
    if len(ways) > 1 or ways[0].column in {universe.column for universe in task.universe}:
        return []
    return [level.label for n, level in enumerate(ways[0].levels) if n not in set(features[:, 0])]


def _numbered(conditions: NDArray[np.int16]) -> tuple[NDArray[Any], Codes]:
    """Number the combinations of levels that occur, in their order: (C, d) and (n,)."""
    sizes = conditions.max(axis=0).astype(np.int64) + 1
    flat = np.ravel_multi_index(tuple(conditions.T.astype(np.int64)), tuple(sizes))
    found, cell = np.unique(flat, return_inverse=True)
    features = np.column_stack(np.unravel_index(found, tuple(sizes)))
    return features.astype(conditions.dtype), cell.ravel()
