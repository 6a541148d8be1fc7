"""What a task is estimated from: which records are kept, in which cell, with which weight."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import bins
from lm_eval_epidemia.estimate.adjust import adjust
from lm_eval_epidemia.estimate.estimators import Estimator, estimator_of
from lm_eval_epidemia.estimate.sampling import Codes, Sample, design_variance, unit_count
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata
from lm_eval_epidemia.surveys.record import Task
from lm_eval_epidemia.surveys.variable import Variable


@dataclass(frozen=True)
class Cells(ABC):
    """What is known of a task before it is estimated, from whatever source.

    Attributes
    ----------
    survey : str
        With its vintage, as the registry has it: ``nsduh_2022``. Joint replicates are drawn for it.
    task : Task
    estimator : Estimator
        That serves it.
    levels : tuple of str, length K
    given : list of tuple of str, length C
        Labels of the conditions of each cell, cells in the order of the levels.
    columns : dict of str to str
        The official column of each variable.
    weights : ndarray, shape (C,)
        P(X = x).
    dropped : dict of str to int
        Records (or rows of a table) left out, by reason.
    absent : list of str
        Levels of a single condition that no record has.
    adjustments : list of dict
        What was done to the weights.
    """

    survey: str
    task: Task
    estimator: Estimator[Any]
    levels: tuple[str, ...]
    given: list[tuple[str, ...]]
    columns: dict[str, str]
    weights: Array
    dropped: dict[str, int]
    absent: list[str]
    adjustments: list[dict[str, Any]]

    @property
    @abstractmethod
    def record_weights(self) -> Array:
        """Weight of each record; shape (n,), empty where there are none."""

    @property
    @abstractmethod
    def n(self) -> Codes:
        """Sampled units in each cell; shape (C,)."""

    @property
    @abstractmethod
    def marginal(self) -> Array:
        """P(Y) as the source itself gives it, not as a fit does; shape (K,)."""

    @property
    @abstractmethod
    def marginal_se(self) -> Array | None:
        """Standard error of `marginal` under the survey's design, where that is known."""


@dataclass(frozen=True)
class Prepared(Cells):
    """The records one task is estimated from.

    Attributes
    ----------
    features : ndarray of int, shape (C, d)
        Level numbers of the conditions of each cell.
    sample : Sample
        With n records.
    cell, outcome : ndarray of int, shape (n,)
    """

    features: NDArray[Any]
    sample: Sample
    cell: Codes
    outcome: Codes

    @property
    def record_weights(self) -> Array:
        return self.sample.weight

    @property
    def units(self) -> int:
        """Sampled units of the task."""
        return len(np.unique(self.sample.units))

    @property
    def n(self) -> Codes:
        return unit_count(self.sample, self.cell, len(self.weights))

    @property
    def marginal(self) -> Array:
        everyone = np.zeros_like(self.cell)
        return bins.count(self.sample.weight, everyone, self.outcome, 1, len(self.levels))[0]

    @property
    def marginal_se(self) -> Array | None:
        if self.sample.stratum_of_psu is None:
            return None
        everyone, marginal = np.zeros_like(self.cell), self.marginal[None]
        variance = design_variance(
            self.sample, everyone, self.outcome, marginal, 1, len(self.levels)
        )
        return np.sqrt(variance[0])


def prepare(data: Microdata, task: Task) -> Prepared:
    """Select the records of a task and number their cells.

    Records outside the universe, without an answer to the outcome or a condition, or with zero
    weight are dropped and counted. Cells are the combinations that occur.

    Raises
    ------
    EpidemiaError
        If no records are left, or too few for the task's estimator.
    """
    entry = data.record.vintages[data.vintage]
    adjusted = adjust(data, entry.adjustments, task)
    keep, dropped = _kept(data, task, (adjusted.weight == 0) | (adjusted.cell_weight == 0))
    if not keep.any():
        raise EpidemiaError(f"{data.name}: no record is left for {task.name} (dropped: {dropped})")
    levels = data.variables[task.outcome].levels
    estimator = estimator_of(task, len(levels))
    units = int(keep.sum()) if data.unit is None else len(np.unique(data.unit[keep]))
    if lacks := estimator.lacks(units):
        raise EpidemiaError(
            f"{data.name}: {task.name} has {units} sampled units (dropped: {dropped}), and "
            f"{lacks}: is the file whole?"
        )
    features, cell = _numbered(data, task, keep)
    ways = [data.variables[name] for name in task.given]
    outcome = data.levels[task.outcome][keep].astype(np.int64)
    totals = np.bincount(cell, weights=adjusted.cell_weight[keep])
    stratum_of_psu = replicate_totals = replicated = None
    if data.has_strata:
        assert data.psu is not None and data.strata is not None
        stratum_of_psu = np.empty(int(data.psu.max()) + 1, dtype=np.int64)
        stratum_of_psu[data.psu] = data.strata
    elif data.replicates is not None:
        flat, shape = cell * len(levels) + outcome, (len(totals), len(levels))
        # What adjusted a record's weight adjusts its replicates too.
        weight = data.weight[keep]
        ratio = np.divide(
            adjusted.weight[keep], weight, out=np.zeros(len(weight)), where=weight > 0
        )
        if estimator.takes_totals:
            replicate_totals = _replicate_totals(data.replicates, keep, ratio, flat, shape)
        else:
            replicated = data.replicates[keep] * ratio[:, None]
    return Prepared(
        survey=data.key,
        task=task,
        estimator=estimator,
        levels=tuple(level.label for level in levels),
        given=[
            tuple(way.levels[int(number)].label for way, number in zip(ways, row, strict=True))
            for row in features
        ],
        columns={
            name: entry.column(data.variables[name].column) for name in (task.outcome, *task.given)
        },
        weights=totals / totals.sum(),
        dropped=dropped,
        absent=_absent(task, ways, features),
        adjustments=adjusted.notes,
        features=features,
        sample=Sample(
            weight=adjusted.weight[keep],
            unit=None if data.unit is None else data.unit[keep],
            row=np.flatnonzero(keep) if data.unit is None else None,
            size=len(data) if data.unit is None else int(data.unit.max()) + 1,
            psu=None if data.psu is None else data.psu[keep],
            stratum_of_psu=stratum_of_psu,
            replicate_totals=replicate_totals,
            replicate_weights=replicated,
            replicate_scale=data.record.design_of(data.vintage).replicate_scale,
        ),
        cell=cell,
        outcome=outcome,
    )


def _kept(
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


def _replicate_totals(
    replicates: NDArray[np.float32],
    keep: NDArray[np.bool_],
    ratio: Array,
    flat: Codes,
    shape: tuple[int, int],
) -> Array:
    """Sum each of the survey's replicate weights by cell and level: (R, C, K)."""
    return np.stack(
        [
            np.bincount(flat, weights=column[keep] * ratio, minlength=shape[0] * shape[1])
            .astype(float)
            .reshape(shape)
            for column in replicates.T
        ]
    )


def _absent(task: Task, ways: list[Variable], features: NDArray[Any]) -> list[str]:
    """Name the levels of a single condition that no record has and that the universe allows."""
    if len(ways) != 1 or ways[0].column in {universe.column for universe in task.universe}:
        return []
    return [level.label for n, level in enumerate(ways[0].levels) if n not in set(features[:, 0])]


def _numbered(data: Microdata, task: Task, keep: NDArray[np.bool_]) -> tuple[NDArray[Any], Codes]:
    """Number the combinations of levels that occur, in their order: (C, d) and (n,)."""
    if not task.given:  # everybody is in the one cell
        return np.zeros((1, 0), dtype=np.int16), np.zeros(int(keep.sum()), dtype=np.int64)
    conditions = np.column_stack([data.levels[name][keep] for name in task.given])
    sizes = conditions.max(axis=0).astype(np.int64) + 1
    flat = np.ravel_multi_index(tuple(conditions.T.astype(np.int64)), tuple(sizes))
    found, cell = np.unique(flat, return_inverse=True)
    features = np.column_stack(np.unravel_index(found, tuple(sizes)))
    return features.astype(conditions.dtype), cell.ravel()
