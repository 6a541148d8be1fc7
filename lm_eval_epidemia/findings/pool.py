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
from lm_eval_epidemia.score.outcomes import (
    SMALLEST,
    Clustered,
    Layout,
    Prior,
    moderated,
    prior_from,
    prior_of,
)

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
        CR2 variance of the mean difference of log `l1` of each two; NaN of two rows of one model.
    sums : ndarray, shape (3, N)
        Of each row: how many pairs it is in, and the sums of their log variances, less `center`,
        and of the squares of these.
    center : float
        NaN where the smallest variances may count for more than they are (`outcomes.SMALLEST`),
        so that no sum tells.
    """

    layout: Layout
    models: NDArray[np.str_]
    logs: dict[str, Array]
    variances: Array
    sums: Array
    center: float

    def prior(self, models: Sequence[str]) -> Prior | None:
        """Fit the prior of variances to the pairs that contain none of some models.

        From sums over all pairs less those over theirs, in time that grows with N and not with N^2.
        """
        out = np.isin(self.models, models)
        if math.isnan(self.center):
            rest = self.variances[np.ix_(~out, ~out)]
            known = rest[np.triu(~np.isnan(rest), 1)]
            return None if len(known) < LEAST_PAIRS else prior_of(known, self.layout.freedom)
        among = self._logs(self.variances[np.ix_(out, out)])
        both = np.array([(~np.isnan(among)).sum(), np.nansum(among), np.nansum(among**2)]) / 2
        pairs, total, squares = self.sums.sum(axis=1) / 2 - self.sums[:, out].sum(axis=1) + both
        if pairs < LEAST_PAIRS:
            return None
        mean = total / pairs
        variance = (squares - pairs * mean**2) / (pairs - 1)
        return prior_from(self.center + mean, variance, self.layout.freedom)

    def _logs(self, variances: Array) -> Array:
        return np.asarray(np.log(variances) - self.center)


def _pairs_of(layout: Layout, models: NDArray[np.str_], logs: dict[str, Array]) -> _Pairs:
    """Return what is known of all pairs, row by row: an array of all outcomes would be large."""
    if not logs or not layout.freedom:
        return _Pairs(layout, models, logs, np.empty((0, 0)), np.empty((3, 0)), math.nan)
    off = layout.residuals(np.array(list(logs.values())))
    variances = np.array([((row - off) ** 2).sum(axis=-1) for row in off])
    variances[models[:, None] == models] = math.nan
    known = np.sort(variances[np.triu(~np.isnan(variances), 1)])
    pairs = _Pairs(layout, models, logs, variances, np.empty((3, 0)), math.nan)
    # The median of what is left when two models are taken out is no larger than this.
    most = min(len(known) // 2 + len(models) + 1, len(known) - 1)
    if len(known) and known[0] > SMALLEST * known[most]:
        pairs = pairs._replace(center=float(np.log(known).mean()))
        at = pairs._logs(variances)
        sums = [(~np.isnan(at)).sum(axis=1), np.nansum(at, axis=1), np.nansum(at**2, axis=1)]
        pairs = pairs._replace(sums=np.array(sums, dtype=float))
    return pairs


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
            self._known[tasks] = _pairs_of(layout, models, logs)
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
        prior = pairs.prior([entry.model, other.model]) if pairs.variances.size else None
        if prior is None:
            return None
        freedom = pairs.layout.freedom
        d = pairs.logs[entry.name] - pairs.logs[other.name]
        error = math.sqrt(float((pairs.layout.residuals(d) ** 2).sum()))
        own = Clustered(float(d.mean()), error, freedom)
        models = {*pairs.models} - {entry.model, other.model}
        return moderated(own, prior, len(models) * freedom)
