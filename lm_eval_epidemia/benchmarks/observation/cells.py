"""The true values in each cell, for export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.observation.quick import QuickTruth
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.score import anchors


def cells_of(truth: GroundTruth) -> Mapping[str, Sequence[Any]]:
    """Return P(X), P(Y | X) with its intervals, and the two ends of the task's scale."""
    number, ends = len(truth.given), anchors(truth.weights, truth.p, truth.d_perfect())
    return {
        "weight": truth.weights.tolist(),
        **_distributions([truth.levels] * number, truth.p, truth.n, truth.n_eff),
        "d_zero": [ends.zero] * number,
        "d_perfect": [ends.perfect] * number,
    }


def quick_cells_of(truth: QuickTruth) -> Mapping[str, Sequence[Any]]:
    """Return the same of the cells of a quick look, and whose they are.

    ``weight`` is per unit of distance; see `quick`.
    """
    columns: dict[str, list[Any]] = {
        "of_task": [own.task for own, *_ in truth.asked],
        "of_cell": [cell for _, cell, _ in truth.asked],
        "weight": [cell.weight for cell in truth.choice.cells],
    }
    for own, cell, _ in truth.asked:
        at = [cell]
        known = _distributions([own.levels], own.p[at], own.n[at], own.n_eff[at])
        for name, values in known.items():
            columns.setdefault(name, []).extend(values)
    return columns


def _distributions(
    levels: list[tuple[str, ...]], p: Array, n: Any, n_eff: Array
) -> Mapping[str, Sequence[Any]]:
    low, high = interval(p, n_eff)
    return {
        "n": np.asarray(n).tolist(),
        "n_eff": n_eff.tolist(),
        "levels": levels,
        "p": p.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }
