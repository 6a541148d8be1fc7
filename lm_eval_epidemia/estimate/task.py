"""One task is estimated: its truth, its sampling error, and what is written of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.estimate import sampling
from lm_eval_epidemia.estimate.joint import quantised
from lm_eval_epidemia.estimate.prepare import Cells
from lm_eval_epidemia.estimate.sampling import Scheme


def estimate_task(ready: Cells, schemes: Iterable[Scheme], replicates: int) -> dict[str, Any]:
    """Estimate the truth of a task and its sampling error.

    Parameters
    ----------
    ready : Cells
        As `prepare` or `published.take` returns it.
    schemes : iterable of {"iid", "design", "population"}
        Of the bootstraps that D_perfect can be had from.
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
        If the task's estimator cannot be fitted on it.
    """
    estimator = ready.estimator
    p = estimator.estimate(ready)
    joint = estimator.joint(ready, p, replicates // 2)
    number = estimator.replicates(replicates)
    draws = {scheme: estimator.draws(ready, scheme, number, p, joint) for scheme in schemes}
    n, n_eff = ready.n, estimator.effective_sizes(ready, p, draws, joint)
    steps, step = quantised(p, joint.at)
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
    if len(joint.at):
        entry["replicates"] = {"number": len(joint.at), "seed": sampling.SEED, "step": step}
    if (error := ready.marginal_se) is not None:
        entry["marginal_se"] = error.tolist()
    rows = [
        {
            "cell": c,
            "given": list(ready.given[c]),
            "weight": float(ready.weights[c]),
            "n": int(n[c]),
            **{
                f"n_eff_{scheme}": float(n_eff[scheme][c]) if scheme in n_eff else None
                for scheme in ("iid", "design")
            },
            "p": p[c].tolist(),
        }
        for c in range(len(p))
    ]
    distances = {
        scheme: distance(ready.weights, drawn, p).tolist() for scheme, drawn in draws.items()
    }
    return {
        "cells": rows,
        "replicates": [
            {"cell": c, "steps": steps[c].ravel().tolist()} for c in range(len(p)) if len(joint.at)
        ],
        "distances": distances,
        "entry": entry,
    }
