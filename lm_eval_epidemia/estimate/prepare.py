"""Prepare the records of a task: which are kept, in which cell, with which weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate.adjust import adjust
from lm_eval_epidemia.estimate.estimator import Prepared, equalise_levels
from lm_eval_epidemia.estimate.estimators import estimator_of
from lm_eval_epidemia.estimate.sampling import Codes, Sample
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata
from lm_eval_epidemia.surveys.record import Task
from lm_eval_epidemia.surveys.variable import Variable


def prepare(data: Microdata, task: Task) -> Prepared:
    """Select the records of a task and number their cells.

    Records outside the universe, without an answer to the outcome or a condition, or with zero
    weight are dropped and counted. Cells are the combinations that occur.

    Parameters
    ----------
    data : Microdata
    task : Task

    Raises
    ------
    EpidemiaError
        If no records are left, or too few for the task's estimator.
    """
    entry = data.record.vintages[data.vintage]
    adjusted = adjust(data, entry.adjustments, task)
    keep, dropped = _select_records(
        data, task, (adjusted.weight == 0) | (adjusted.cell_weight == 0)
    )
    if not keep.any():
        raise EpidemiaError(f"{data.name}: no row is left for {task.name} (dropped: {dropped})")
    levels = tuple(level.label for level in data.variables[task.outcome].levels)
    estimator = estimator_of(task, len(levels))
    units = int(keep.sum()) if data.unit is None else len(np.unique(data.unit[keep]))
    if lacks := estimator.lacks(units):
        has = f"{task.name} has {units} sampled units (dropped: {dropped}), and {lacks}"
        raise EpidemiaError(f"{data.name}: {has}: give a complete file")
    features, cell = _numbered(data, task, keep)
    ways = [data.variables[name] for name in task.given]
    outcome = data.levels[task.outcome][keep].astype(np.int64)
    totals: NDArray[Any] = np.bincount(cell, weights=adjusted.cell_weight[keep])
    totals = equalise_levels(totals, features, task, data.name)
    design: dict[str, Any] = {"size": len(data), "row": np.flatnonzero(keep)}
    if data.unit is not None:
        design = {"size": int(data.unit.max()) + 1, "unit": data.unit[keep]}
    if data.psu is not None and data.strata is not None:
        stratum_of_psu = np.empty(int(data.psu.max()) + 1, dtype=np.int64)
        stratum_of_psu[data.psu] = data.strata
        design |= {"psu": data.psu[keep], "stratum_of_psu": stratum_of_psu}
    elif data.replicates is not None:
        # What adjusted a record's weight adjusts its replicates too.
        before, after = data.weight[keep], adjusted.weight[keep]
        ratio = np.divide(after, before, out=np.zeros_like(before), where=before > 0)
        if estimator.takes_totals:
            flat, size = cell * len(levels) + outcome, len(totals) * len(levels)
            columns = [np.bincount(flat, col[keep] * ratio, size) for col in data.replicates.T]
            design["replicate_totals"] = np.stack(columns).reshape(-1, len(totals), len(levels))
        else:
            design["replicate_weights"] = data.replicates[keep] * ratio[:, None]
    scale = data.record.design_of(data.vintage).replicate_scale
    asked, labels = (task.outcome, *task.given), [[x.label for x in way.levels] for way in ways]
    given = [tuple(of[n] for of, n in zip(labels, row, strict=True)) for row in features]
    return Prepared(
        survey=data.key,
        task=task,
        estimator=estimator,
        levels=levels,
        given=given,
        columns={name: entry.column(data.variables[name].column) for name in asked},
        weights=totals / totals.sum(),
        dropped=dropped,
        absent=_absent(task, ways, features),
        adjustments=adjusted.notes,
        features=features,
        sample=Sample(adjusted.weight[keep], **design, replicate_scale=scale),
        cell=cell,
        outcome=outcome,
    )


def _select_records(
    data: Microdata, task: Task, weightless: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Tell which records a task keeps, and how many it drops, each for the first reason it has."""
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
    drop("weight zero", weightless)
    return keep, dropped


def _absent(task: Task, ways: list[Variable], features: NDArray[Any]) -> list[str]:
    """Name the levels of a single condition that no record has and that the universe allows."""
    if len(ways) != 1 or ways[0].column in {universe.column for universe in task.universe}:
        return []
    return [level.label for n, level in enumerate(ways[0].levels) if n not in features]


def _numbered(data: Microdata, task: Task, keep: NDArray[np.bool_]) -> tuple[NDArray[Any], Codes]:
    """Number the combinations of levels that occur, in their order: (C, d) and (n,)."""
    if not task.given:  # everybody is in the one cell
        return np.zeros((1, 0), dtype=np.int16), np.zeros(int(keep.sum()), dtype=np.int64)
    conditions = np.column_stack([data.levels[name][keep] for name in task.given])
    sizes = conditions.max(axis=0).astype(np.int64) + 1
    flat = np.ravel_multi_index(tuple(conditions.T.astype(np.int64)), tuple(sizes))
    present, cell = np.unique(flat, return_inverse=True)
    features = np.column_stack(np.unravel_index(present, tuple(sizes)))
    return features.astype(conditions.dtype), cell.ravel()
