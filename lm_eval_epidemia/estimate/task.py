"""One task is estimated: its truth, its sampling error, and what is written of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lm_eval_epidemia.distance import distance
from lm_eval_epidemia.estimate import sampling
from lm_eval_epidemia.estimate.prepare import Cells
from lm_eval_epidemia.estimate.sampling import SCHEMES, Scheme, rng_of

__all__ = ["estimate_task"]


def estimate_task(ready: Cells, schemes: Iterable[Scheme], replicates: int) -> dict[str, Any]:
    """Estimate the truth of a task and its sampling error.

    Parameters
    ----------
    ready : Cells
        As `prepare` or `published.take` returns it.
    schemes : iterable of {"iid", "design"}
    replicates : int
        Bootstrap replicates per scheme; a survey's own replicate weights are as many as they are.

    Returns
    -------
    dict
        ``cells`` (rows of the cells file), ``distances`` (by scheme) and ``entry`` (for the
        registry), all plain JSON values.

    Raises
    ------
    EpidemiaError
        If the task's estimator cannot be fitted on it.
    """
    estimator = ready.estimator
    p = estimator.fit(ready, ready.record_weights, rng_of(ready.task.name, 0))
    draws = {scheme: estimator.draws(ready, scheme, replicates, p) for scheme in schemes}
    n, n_eff = ready.n, estimator.effective_sizes(ready, p, draws)
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
                for scheme in SCHEMES
            },
            "p": p[c].tolist(),
        }
        for c in range(len(p))
    ]
    distances = {
        scheme: distance(ready.weights, drawn, p).tolist() for scheme, drawn in draws.items()
    }
    return {"cells": rows, "distances": distances, "entry": entry}
