"""Ground truth taken unchanged from an agency's published table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.estimator import (
    ByScheme,
    Cells,
    Estimated,
    Estimator,
    equalise_levels,
)
from lm_eval_epidemia.estimate.sampling import SCHEMES, Scheme, rng_of
from lm_eval_epidemia.surveys.record import Record, Task
from lm_eval_epidemia.surveys.tables import load_tables


@dataclass(frozen=True)
class Shares(Cells):
    """The shares of a published table.

    Attributes
    ----------
    p : ndarray, shape (C, K)
    n_eff : ndarray, shape (C,)
        From the published confidence intervals; infinite if there are none.
    """

    p: Array
    n_eff: Array

    @property
    def marginal(self) -> Array:
        return self.weights @ self.p

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """The agency's intervals are of its design; without them there is no sampling error."""
        return ("design", "population") if np.isfinite(self.n_eff).all() else ()


class Published(Estimator[Shares]):
    """The shares of the table; its replicates are simulated from the agency's intervals."""

    name = "published table"

    def fit(self, ready: Shares, weight: Array, rng: np.random.Generator) -> Array:
        return ready.p

    def joint(self, ready: Shares, p: Array, number: int) -> Estimated:
        drawn = self._drawn(ready, number)
        return Estimated(p, drawn, drawn)

    def draws(self, ready: Shares, scheme: Scheme, number: int, joint: Estimated) -> Array:
        return self._drawn(ready, number)

    def _drawn(self, ready: Shares, number: int) -> Array:
        """Draw each row from a multinomial sample of its effective size; of exact tables, none."""
        if not ready.schemes:
            return np.empty((0, *ready.p.shape))
        rng = rng_of(ready.task.name, 1 + SCHEMES.index("design"))
        size = np.maximum(np.round(ready.n_eff), 1).astype(np.int64)
        return np.stack([rng.multinomial(size, ready.p) / size[:, None] for _ in range(number)])

    def effective_sizes(self, ready: Shares, draws: ByScheme, joint: Estimated) -> ByScheme:
        return {"design" if draws else "iid": ready.n_eff}


def load_shares(
    entry: Record, vintage: str, raws: Sequence[Path], tasks: Sequence[Task]
) -> dict[Task, Shares]:
    """Read the published tables of a vintage; returns those of the tasks that have one."""
    tables = {(of.outcome, of.given): of for of in load_tables(entry, raws, vintage)}
    shares, survey = {}, f"{entry.survey}_{vintage}"
    for task in tasks:
        if (table := tables.get((task.outcome, task.given))) is None:
            continue
        weights = equalise_levels(table.weights, table.cells, task, survey)
        shares[task] = Shares(
            survey=survey,
            task=task,
            estimator=Published(),
            levels=table.levels,
            given=list(table.cells),
            columns={v: entry.readings(v, vintage)[0].column for v in (task.outcome, *task.given)},
            # Shares of people sum to 1 up to rounding.
            weights=weights / weights.sum() if task.equal else weights,
            dropped=table.dropped,
            absent=list(table.absent),
            adjustments=[],
            p=table.p,
            n_eff=table.n_eff,
        )
    return shares
