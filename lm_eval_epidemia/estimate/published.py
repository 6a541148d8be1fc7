"""Ground truth that an agency published as a table: taken as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from lm_eval_epidemia.distance import distance
from lm_eval_epidemia.surveys.tables import PublishedTable

__all__ = ["estimate_table"]


def estimate_table(
    table: PublishedTable, columns: dict[str, str], replicates: int, rng: np.random.Generator,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Put a published table into the form of an estimated truth.

    Parameters
    ----------
    table : PublishedTable
    columns : dict of str to str
        Official column of the outcome and the condition.
    replicates : int
        Draws of what the agency might have published, where it gives confidence intervals: the
        share of each row from a binomial sample of its effective size. Without intervals there is
        no sampling error, and D_perfect is 0.
    rng : Generator
    seed : int
        For the registry.

    Returns
    -------
    dict
        As `build.estimate_task` returns it. `n` is 0: how many were asked is not published.
    """
    cells = len(table.cells)
    distances: dict[str, list[float]] = {}
    if np.isfinite(table.n_eff).all():
        size = np.maximum(np.round(table.n_eff), 1).astype(np.int64)
        draws = np.stack(
            [rng.multinomial(size, table.p) / size[:, None] for _ in range(replicates)]
        )
        distances["design"] = distance(table.weights, draws, table.p).tolist()
    rows = [
        {
            "cell": c,
            "given": [table.cells[c]],
            "weight": float(table.weights[c]),
            "n": 0,
            "n_eff_iid": None if distances else float(table.n_eff[c]),
            "n_eff_design": float(table.n_eff[c]) if distances else None,
            "p": table.p[c].tolist(),
        }
        for c in range(cells)
    ]
    entry: dict[str, Any] = {
        "estimator": "published table",
        "parameters": {},
        "columns": columns,
        "levels": list(table.levels),
        "cells": cells,
        "records": 0,
        "dropped": table.dropped,
        "absent": list(table.absent),
        "adjustments": [],
        "marginal": (table.weights @ table.p).tolist(),
        "bootstrap": {scheme: {"replicates": replicates, "seed": seed} for scheme in distances},
    }
    return {"cells": rows, "distances": distances, "entry": entry}
