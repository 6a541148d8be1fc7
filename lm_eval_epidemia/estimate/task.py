"""Estimate one task: its truth, its sampling error, and the rows to write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.estimate import sampling
from lm_eval_epidemia.estimate.cells import Cells
from lm_eval_epidemia.estimate.joint import quantised
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.estimate.store import d_perfect


def estimate_task(ready: Cells, schemes: Iterable[Scheme], replicates: int) -> dict[str, Any]:
    """Estimate the truth of a task and its sampling error.

    Parameters
    ----------
    ready : Cells
        As `prepare` or `published.take` returns it.
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
    columns = {
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
        "bootstrap": {
            scheme: {"replicates": len(drawn), "seed": sampling.SEED}
            for scheme, drawn in draws.items()
        },
    }
    steps, step = quantised(p, joint.at)
    replicated = len(joint.at) > 0
    if replicated:
        entry["replicates"] = {"number": len(joint.at), "seed": sampling.SEED, "step": step}
    if (error := ready.marginal_se) is not None:
        entry["marginal_se"] = error.tolist()
    kept = [{"cell": c, "steps": row.ravel().tolist()} for c, row in enumerate(steps)]
    return {
        "cells": [
            {"cell": c, **dict(zip(columns, row, strict=True))} for c, row in enumerate(cells)
        ],
        "replicates": kept if replicated else [],
        "distances": {scheme: of.tolist() for scheme, of in distances.items()},
        "entry": entry,
    }
