"""How differences in log `l1` vary between outcomes, estimated from runs asked in the same way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.results.entry import Asked, Entry, outcomes
from lm_eval_epidemia.score.outcomes import (
    SMALLEST,
    Clustered,
    Layout,
    Prior,
    moderated,
    prior_of,
    priors_from,
)

#: Of the mean replicate distance: a smaller `l1` counts as this, as no survey tells them apart.
FLOOR = 0.1

#: A published table is printed to a tenth of a per cent: a share is off by .00025 on average.
PRINTED = 0.00025

#: Fewer pairs than these say too little of how others vary.
LEAST_PAIRS = 10


def noise_of(truth: GroundTruth) -> float:
    """Return D0, the mean distance between a truth and other samples of its survey, in (0, 2]."""
    if truth.distances and (mean := float(truth.distances[truth.scheme].mean())) > 0:
        return mean
    return PRINTED * len(truth.levels)


class _Pairs:
    """All pairs of models asked the same tasks, and how much each two differ.

    The prior of two models is fitted to the pairs that contain neither: sums over all pairs minus
    sums over the pairs with either.

    Parameters
    ----------
    layout : Layout
    entries : sequence of Entry, length N
    logs : ndarray, shape (N, T)
        Log `l1` of each task, floored.
    """

    def __init__(self, layout: Layout, entries: Sequence[Entry], logs: Array) -> None:
        self.layout, self.logs = layout, logs
        self.rows = {entry.name: row for row, entry in enumerate(entries)}
        names = list(dict.fromkeys(entry.model for entry in entries))
        #: Of which model each row is.
        self.model = np.array([names.index(entry.model) for entry in entries], int)
        self.models = len(names)
        if not (entries and layout.freedom):
            self.known, self.floored = np.empty(0), False
            return
        off = layout.residuals(logs)
        # Row by row, as an array of all outcomes would be large.
        variances = np.array([((row - off) ** 2).sum(axis=-1) for row in off])
        first, other = np.triu_indices(len(entries), 1)
        apart = self.model[first] != self.model[other]
        first, other = first[apart], other[apart]
        order = np.argsort(variances[first, other], kind="stable")
        self._first, self._other = self.model[first[order]], self.model[other[order]]
        #: CR2 variances of the mean difference of log `l1` of two, sorted.
        self.known = variances[first, other][order]
        self._least = SMALLEST * float(np.median(self.known)) if len(self.known) else 0.0
        # What is left without two models has a median of this at most, if any at all.
        most = min(len(self.known) // 2 + 2 * len(entries), len(self.known) - 1)
        #: Whether the smallest count for more than they are, so that sums do not tell priors.
        self.floored = len(self.known) > 0 and bool(self.known[0] <= SMALLEST * self.known[most])
        self._sum()

    def _sum(self) -> None:
        """Sum the counts of pairs, their logarithms and the squares of these, by model."""
        if not self._least > 0:
            return
        logs = np.log(np.maximum(self.known, self._least))
        self._center = float(logs.mean())
        powers = np.stack([np.ones(len(logs)), logs - self._center, (logs - self._center) ** 2])
        self._total = powers.sum(axis=1)
        shape = self.models, self.models
        place = self._first * self.models + self._other
        both = [np.bincount(place, x, self.models**2).reshape(shape) for x in powers]
        #: By two models: the sums over their pairs.
        self._both = np.stack([x + x.T for x in both])

    def _rest(self, one: Any, other: Any) -> Array:
        """Return the three sums over pairs that contain neither of two models."""
        of_each = self._both.sum(axis=2)
        same = np.equal(one, other)
        without = of_each[:, one] + np.where(same, 0, of_each[:, other] - self._both[:, one, other])
        total = self._total.reshape(3, *(1,) * np.ndim(one))
        return np.asarray(total - without)

    def _moments(self, sums: Array) -> tuple[Array, Array]:
        pairs, total, squares = sums
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(pairs >= LEAST_PAIRS, total / pairs, math.nan)
            return self._center + mean, (squares - pairs * mean**2) / (pairs - 1)

    def prior(self, entry: Entry, other: Entry) -> Prior | None:
        """Fit the prior of two entries; None with too few pairs, or if half do not differ."""
        if not len(self.known):
            return None
        one, two = (int(self.model[self.rows[row.name]]) for row in (entry, other))
        if not self.floored:
            mean, variance = self._moments(self._rest(one, two))
            prior = Prior(*map(float, priors_from(mean, variance, self.layout.freedom)))
            return None if math.isnan(prior.variance) else prior
        theirs = (self._first == one) | (self._other == one)
        theirs |= (self._first == two) | (self._other == two)
        left = len(self.known) - int(theirs.sum())
        if left < LEAST_PAIRS:
            return None
        return prior_of(self.known[~theirs], self.layout.freedom)

    def priors(self) -> tuple[Array, Array]:
        """Fit the priors of all pairs of models: freedom and variance, NaN where `prior` is None.

        The smallest variances are raised as among all pairs (`outcomes.SMALLEST`).

        Returns
        -------
        freedom, variance : ndarray, shape (M, M)
        """
        if not (len(self.known) and self._least > 0):
            return (np.full((self.models, self.models), math.nan),) * 2
        sums = self._rest(*np.indices((self.models, self.models)))
        return priors_from(*self._moments(sums), self.layout.freedom)


class Pool:
    """Runs that were asked in the same way.

    Parameters
    ----------
    entries : iterable of Entry
        Of one protocol.
    noise : mapping of str to float
        D0 by task, as from `noise_of`. Tasks without one have no log `l1`.
    """

    def __init__(self, entries: Iterable[Entry], noise: Mapping[str, float]) -> None:
        self._entries = [entry for entry in entries if not entry.reference]
        self._noise = noise
        self._known: dict[tuple[Asked, ...], _Pairs] = {}

    def _log_l1(self, entry: Entry, tasks: Sequence[Asked]) -> Array | None:
        """Log `l1`, floored; None if a task's is unknown."""
        if not all(asked in entry.scores and asked.task in self._noise for asked in tasks):
            return None
        l1 = np.array([entry.scores[asked].l1 for asked in tasks])
        floors = FLOOR * np.array([self._noise[asked.task] for asked in tasks])
        return None if np.isnan(l1).any() else np.log(np.maximum(l1, floors))

    def pairs(self, tasks: tuple[Asked, ...]) -> _Pairs:
        """Return all pairs of the runs with known log `l1` in these tasks."""
        if tasks not in self._known:
            both = [(entry, self._log_l1(entry, tasks)) for entry in self._entries]
            here = [(entry, logs) for entry, logs in both if logs is not None]
            logs = np.array([logs for _, logs in here])
            self._known[tasks] = _Pairs(Layout(outcomes(tasks)), [row for row, _ in here], logs)
        return self._known[tasks]

    def difference(self, entry: Entry, other: Entry, tasks: Sequence[Asked]) -> Clustered | None:
        """Mean difference of log `l1` with its moderated error over outcomes.

        The variance is shrunk towards that of the pool's pairs of models that contain neither of
        the two (`outcomes.moderated`); rows of one model are not pairs. M models make M (M - 1) / 2
        pairs, worth only M - 1 independent ones: degrees of freedom are at most M times those of a
        pair.

        Returns
        -------
        Clustered or None
            None if an `l1` is unknown, if all tasks are on one outcome, or with fewer than
            `LEAST_PAIRS` such pairs.
        """
        pairs = self.pairs(tuple(tasks))
        if entry.name not in pairs.rows or other.name not in pairs.rows:
            return None
        if (prior := pairs.prior(entry, other)) is None:
            return None
        freedom = pairs.layout.freedom
        d = pairs.logs[pairs.rows[entry.name]] - pairs.logs[pairs.rows[other.name]]
        error = math.sqrt(float((pairs.layout.residuals(d) ** 2).sum()))
        own = Clustered(float(d.mean()), error, freedom)
        models = pairs.models - len({entry.model, other.model})
        return moderated(own, prior, models * freedom)

    def bounds(
        self, entries: Sequence[Entry], tasks: Sequence[Asked], confidence: float
    ) -> tuple[Array, Array]:
        """Judge all pairs of entries as `difference` does.

        Returns
        -------
        difference, reach : ndarray, shape (N, N)
            Mean difference of log `l1`, and half its interval; NaN if `difference` is None.
        """
        pairs = self.pairs(tuple(tasks))
        shape = len(entries), len(entries)
        difference, reach = np.full((2, *shape), math.nan)
        here = [place for place, entry in enumerate(entries) if entry.name in pairs.rows]
        if not here or not len(pairs.known):
            return difference, reach
        rows = [pairs.rows[entries[place].name] for place in here]
        own, freedom = pairs.layout.residuals(pairs.logs[rows]), pairs.layout.freedom
        squares = np.array([((row - own) ** 2).sum(axis=-1) for row in own])
        of_prior, variance = (
            x[np.ix_(pairs.model[rows], pairs.model[rows])] for x in pairs.priors()
        )
        share = 1 / (1 + freedom / of_prior)  # of an endless freedom all
        error = np.sqrt(share * variance + (1 - share) * squares)
        same = np.equal.outer(pairs.model[rows], pairs.model[rows])
        most = (pairs.models - np.where(same, 1, 2)) * freedom
        t = special.stdtrit(np.minimum(of_prior + freedom, most), (1 + confidence) / 2)
        means = pairs.logs[rows].mean(axis=1)
        difference[np.ix_(here, here)] = np.subtract.outer(means, means)
        reach[np.ix_(here, here)] = error * t
        return difference, reach
