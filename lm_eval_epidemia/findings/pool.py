"""What runs that were asked alike say of how differences vary between outcomes: log `l1`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.results.entry import Asked, Entry, outcomes
from lm_eval_epidemia.score.outcomes import Clustered, Layout, moderated, prior_of

#: Of the mean replicate distance: a smaller `l1` counts as this, as no survey tells them apart.
FLOOR = 0.1

#: A published table is printed to a tenth of a per cent: a share is off by .00025 on average.
PRINTED = 0.00025

#: Fewer pairs than these say too little of how others vary.
LEAST_PAIRS = 10


def noise_of(truth: GroundTruth) -> float:
    """Return D0, the mean distance from a truth of other samples of its survey, in (0, 2]."""
    if truth.distances and (mean := float(truth.distances[truth.scheme].mean())) > 0:
        return mean
    return PRINTED * len(truth.levels)


class _Pairs(NamedTuple):
    """All pairs of the models that were asked some tasks.

    Attributes
    ----------
    layout : Layout
    models : ndarray of str, shape (N,)
    logs : dict of str to ndarray
        Log `l1` of each task, floored, by the entry's name.
    variances : ndarray, shape (N, N)
        CR2 variance of the mean difference of log `l1` of each two.
    """

    layout: Layout
    models: NDArray[np.str_]
    logs: dict[str, Array]
    variances: Array


class Pool:
    """Runs that were asked in the same way.

    Parameters
    ----------
    entries : iterable of Entry
        Of one protocol.
    noise : mapping of str to float
        D0 by task, as of `noise_of`. Tasks without one have no log `l1`.
    """

    def __init__(self, entries: Iterable[Entry], noise: Mapping[str, float]) -> None:
        self._entries = [entry for entry in entries if not entry.reference]
        self._noise = noise
        self._known: dict[tuple[Asked, ...], _Pairs] = {}

    def _log_l1(self, entry: Entry, tasks: Sequence[Asked]) -> Array | None:
        """Log `l1`, floored; None where that of a task is not known."""
        if not all(asked in entry.scores and asked.task in self._noise for asked in tasks):
            return None
        l1 = np.array([entry.scores[asked].l1 for asked in tasks])
        floors = FLOOR * np.array([self._noise[asked.task] for asked in tasks])
        return None if np.isnan(l1).any() else np.log(np.maximum(l1, floors))

    def _pairs(self, tasks: tuple[Asked, ...]) -> _Pairs:
        if tasks not in self._known:
            layout = Layout(outcomes(tasks))
            both = [(entry, self._log_l1(entry, tasks)) for entry in self._entries]
            here = [(entry, logs) for entry, logs in both if logs is not None]
            models = np.array([entry.model for entry, _ in here])
            logs = {entry.name: of for entry, of in here}
            if not logs or not layout.freedom:
                variances = np.empty((0, 0))
            else:
                off = layout.residuals(np.array(list(logs.values())))
                variances = ((off[:, None] - off) ** 2).sum(axis=-1)
            self._known[tasks] = _Pairs(layout, models, logs, variances)
        return self._known[tasks]

    def difference(self, entry: Entry, other: Entry, tasks: Sequence[Asked]) -> Clustered | None:
        """Mean difference of log `l1` with its moderated error over outcomes.

        The variance is shrunk towards that of the pairs of models in the pool that contain neither
        of the two (`outcomes.moderated`); rows of one model are no pair. M models make M (M - 1) /
        2 pairs, but what they say is worth M - 1 independent ones: degrees of freedom are at most M
        times those of a pair.

        Returns
        -------
        Clustered or None
            None where an `l1` is not known, the tasks are on one outcome, or there are fewer than
            `LEAST_PAIRS` such pairs.
        """
        pairs = self._pairs(tuple(tasks))
        if entry.name not in pairs.logs or other.name not in pairs.logs:
            return None
        rest = ~np.isin(pairs.models, [entry.model, other.model])
        models = pairs.models[rest]
        apart = np.triu(models[:, None] != models, 1)
        if apart.sum() < LEAST_PAIRS or not pairs.variances.size:
            return None
        freedom = pairs.layout.freedom
        prior = prior_of(pairs.variances[np.ix_(rest, rest)][apart], freedom)
        if prior is None:
            return None
        d = pairs.logs[entry.name] - pairs.logs[other.name]
        error = math.sqrt(float((pairs.layout.residuals(d) ** 2).sum()))
        own = Clustered(float(d.mean()), error, freedom)
        return moderated(own, prior, len(set(models)) * freedom)
