"""The data that a task is estimated from, what an estimator is, and what it gives: `estimate_task`.

`prepare` and `published` put the data together; `estimators` and `published` have the estimators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import sampling
from lm_eval_epidemia.estimate.sampling import Codes, Sample, Scheme, count_shares, quantised
from lm_eval_epidemia.estimate.store import d_perfect
from lm_eval_epidemia.surveys.record import Task

Ready = TypeVar("Ready", bound="Cells")
ByScheme = dict[Scheme, Array]


def equalise_levels(weights: Array, given: ArrayLike, task: Task, source: str) -> Array:
    """Scale weights so that all levels of the condition that a task compares weigh the same.

    Parameters
    ----------
    weights : ndarray, shape (C,)
        Returned as they are where the task compares none.
    given : array_like, shape (C, d)
        The conditions of each cell, labels or numbers.
    task : Task
    source : str
        What an error is about.

    Raises
    ------
    EpidemiaError
        If there is one level alone.
    """
    if not task.equal:
        return weights
    labels = np.asarray(given)[:, task.given.index(task.equal)]
    names, level = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        of = f"{task.name} compares every {task.equal}"
        raise EpidemiaError(f"{source}: {of}, but the file has only one: give a complete file")
    return weights / np.bincount(level, weights)[level]


class Estimated(NamedTuple):
    """P(Y | X), and what it is in each joint replicate of a survey.

    Attributes
    ----------
    p : ndarray, shape (C, K)
        The estimate itself.
    at : ndarray, shape (B, C, K)
        Estimated as that is, up to what it costs.
    single : ndarray, shape (B, C, K)
        By one fit, as the published protocol has D_perfect from.
    """

    p: Array
    at: Array
    single: Array


class Estimator(ABC, Generic[Ready]):
    """Estimates P(Y | X) and its sampling error from the prepared data of a task.

    Attributes
    ----------
    name : str
        As the registry records it.
    """

    name: ClassVar[str]

    @property
    def parameters(self) -> dict[str, Any]:
        """All numbers that a fit depends on besides the data, as the registry names them."""
        return {}

    @abstractmethod
    def fit(self, ready: Ready, weight: Array, rng: np.random.Generator) -> Array:
        """Estimate P(Y | X).

        Parameters
        ----------
        ready : Cells
            With C cells and K levels.
        weight : ndarray, shape (n,)
            Of each record: the survey's, or those of a bootstrap replicate.
        rng : Generator

        Returns
        -------
        ndarray, shape (C, K)

        Raises
        ------
        EpidemiaError
            If this estimator cannot be fitted on the task.
        """

    def replicates(self, asked: int) -> int:
        """How many replicates D_perfect is from where a build asks for so many."""
        return asked

    def estimate(self, ready: Ready) -> Array:
        """Estimate P(Y | X) as it is handed on; shape (C, K)."""
        return self.fit(ready, ready.record_weights, sampling.rng_of(ready.task.name, 0))

    @abstractmethod
    def joint(self, ready: Ready, p: Array, number: int) -> Estimated:
        """Estimate P(Y | X) (`p` here) in each joint replicate of the survey."""

    def draws(self, ready: Ready, scheme: Scheme, number: int, joint: Estimated) -> Array:
        """Re-estimate P(Y | X) for D_perfect; shape (B, C, K). By default in joint replicates."""
        return joint.single

    def check(self, ready: Ready, p: Array, perfect: float) -> None:
        """Refuse an estimate that differs from the records by more than D_perfect.

        Raises
        ------
        EpidemiaError
            Naming the cells.
        """

    @abstractmethod
    def effective_sizes(self, ready: Ready, draws: ByScheme, joint: Estimated) -> ByScheme:
        """Effective sample size of each cell by scheme, where it is known; shape (C,) each."""


@dataclass(frozen=True)
class Cells(ABC):
    """The data of a task before it is estimated, from any source.

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
    def record_weights(self) -> Array:
        """Weight of each record; shape (n,), empty if there are none."""
        return np.empty(0)

    @property
    def n(self) -> Codes:
        """Sampled units in each cell; shape (C,). 0 if it is not known how many were asked."""
        return np.zeros(len(self.weights), dtype=np.int64)

    @property
    @abstractmethod
    def marginal(self) -> Array:
        """P(Y) as the source itself gives it, not as a fit does; shape (K,)."""

    @property
    def marginal_se(self) -> Array | None:
        """Standard error of `marginal` under the survey's design, where that is known."""
        return None


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
        return sampling.unit_count(self.sample, self.cell, len(self.weights))

    @property
    def marginal(self) -> Array:
        everyone = np.zeros_like(self.cell)
        return count_shares(self.sample.weight, everyone, self.outcome, 1, len(self.levels))[0]

    @property
    def marginal_se(self) -> Array | None:
        if self.sample.stratum_of_psu is None:
            return None
        everyone, p = np.zeros_like(self.cell), self.marginal[None]
        variance = sampling.design_variance(self.sample, everyone, self.outcome, p, *p.shape)
        return np.sqrt(variance)[0]


def estimate_task(ready: Cells, schemes: Iterable[Scheme], replicates: int) -> dict[str, Any]:
    """Estimate the truth of a task and its sampling error.

    Parameters
    ----------
    ready : Cells
        As `prepare` or `published.load_shares` returns it.
    schemes : iterable of {"iid", "design", "population"}
        The bootstraps that D_perfect may be taken from.
    replicates : int
        Of each of these, for a counted task. A boosted one has half as many, and so many are the
        joint replicates of all tasks.

    Returns
    -------
    dict
        ``cells`` (rows of the cells file), ``replicates`` (rows of the replicates file),
        ``distances`` (by scheme) and ``entry`` (for the registry), all plain JSON values.

    Raises
    ------
    EpidemiaError
        If the task's estimator cannot be fitted, or the records contradict its result.
    """
    estimator = ready.estimator
    p = estimator.estimate(ready)
    joint = estimator.joint(ready, p, replicates // 2)
    number = estimator.replicates(replicates)
    draws = {scheme: estimator.draws(ready, scheme, number, joint) for scheme in schemes}
    distances = {scheme: distance(ready.weights, at, p) for scheme, at in draws.items()}
    if distances:  # an exact table has none
        first = distances.get("iid", next(iter(distances.values())))
        estimator.check(ready, p, d_perfect(first))
    sizes = estimator.effective_sizes(ready, draws, joint)
    known = {scheme: size.tolist() for scheme, size in sizes.items()}
    columns: dict[str, Any] = {
        "cell": range(len(p)),
        "given": [list(labels) for labels in ready.given],
        "weight": ready.weights.tolist(),
        "n": ready.n.tolist(),
        "n_eff_iid": known.get("iid", [None] * len(p)),
        "n_eff_design": known.get("design", [None] * len(p)),
        "p": p.tolist(),
    }
    cells = zip(*columns.values(), strict=True)
    entry: dict[str, Any] = {
        "estimator": estimator.name,
        "parameters": estimator.parameters,
        "columns": ready.columns,
        "levels": list(ready.levels),
        "cells": len(p),
        "records": len(ready.record_weights),
        "dropped": ready.dropped,
        "absent": ready.absent,
        "adjustments": ready.adjustments,
        "marginal": ready.marginal.tolist(),
        "bootstrap": {s: {"replicates": len(at), "seed": sampling.SEED} for s, at in draws.items()},
    }
    kept: list[dict[str, Any]] = []
    if len(joint.at):
        steps, step = quantised(p, joint.at)
        entry["replicates"] = {"number": len(joint.at), "seed": sampling.SEED, "step": step}
        kept = [{"cell": c, "steps": row.ravel().tolist()} for c, row in enumerate(steps)]
    if (error := ready.marginal_se) is not None:
        entry["marginal_se"] = error.tolist()
    return {
        "cells": [dict(zip(columns, row, strict=True)) for row in cells],
        "replicates": kept,
        "distances": {scheme: of.tolist() for scheme, of in distances.items()},
        "entry": entry,
    }
