"""How differences in log `l1` vary between outcomes, estimated from runs asked in the same way."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from lm_eval_epidemia.benchmarks import in_way, leaves
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.store import GroundTruth
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
    models : dict of int to str, length N
        By run.
    logs : ndarray, shape (N, T)
        Log `l1` of each task, floored.
    """

    def __init__(self, layout: Layout, models: Mapping[int, Hashable], logs: Array) -> None:
        self.layout, self.logs = layout, logs
        self.rows = {run: row for row, run in enumerate(models)}
        names = {name: place for place, name in enumerate(dict.fromkeys(models.values()))}
        #: Of which model each row is.
        self.model = np.array([names[name] for name in models.values()], int)
        self.models = len(names)
        if not (models and layout.freedom):
            self.known, self.floored = np.empty(0), False
            return
        off = layout.residuals(logs)
        # Row by row, as an array of all outcomes would be large.
        variances = np.array([((row - off) ** 2).sum(axis=-1) for row in off])
        first, other = np.triu_indices(len(models), 1)
        apart = self.model[first] != self.model[other]
        first, other = first[apart], other[apart]
        order = np.argsort(variances[first, other], kind="stable")
        self._first, self._other = self.model[first[order]], self.model[other[order]]
        #: CR2 variances of the mean difference of log `l1` of two, sorted.
        self.known = variances[first, other][order]
        self._least = SMALLEST * float(np.median(self.known)) if len(self.known) else 0.0
        # What is left without two models has a median of this at most, if any at all.
        most = min(len(self.known) // 2 + 2 * len(models), len(self.known) - 1)
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

    def prior(self, run: int, other: int) -> Prior | None:
        """Fit the prior of two runs; None with too few pairs, or if half do not differ."""
        if not len(self.known):
            return None
        one, two = (int(self.model[self.rows[of]]) for of in (run, other))
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
    """Runs by which differences in log `l1` are judged.

    Parameters
    ----------
    scores : DataFrame
        Of any number of runs, with ``model``.
    noise : mapping of str to float
        D0 by task, as from `noise_of`. Tasks without one have no log `l1`.
    """

    def __init__(self, scores: pd.DataFrame, noise: Mapping[str, float]) -> None:
        floors = FLOOR * scores["task"].map(noise)
        l1 = scores.get("l1", pd.Series(math.nan, scores.index))
        here = scores[l1.notna() & floors.notna()]
        logs = np.log(np.maximum(l1[here.index], floors[here.index]))
        self._models: dict[int, Hashable] = dict(zip(here["run"], here["model"], strict=True))
        self._logs: dict[int, dict[Any, float]] = {run: {} for run in self._models}
        for run, key, log in zip(here["run"], _keys(here), logs, strict=True):
            self._logs[run][key] = log
        self._known: dict[tuple[Any, ...], _Pairs] = {}

    def pairs(self, asked: pd.DataFrame) -> _Pairs:
        """Return all pairs of the runs with known log `l1` in these tasks."""
        keys = tuple(_keys(asked))
        if keys not in self._known:
            runs = [run for run, logs in self._logs.items() if logs.keys() >= {*keys}]
            logs = np.array([[self._logs[run][key] for key in keys] for run in runs])
            clusters = [leaves()[in_way(task, way)].entry.outcome for task, way, _ in keys]
            models = {run: self._models[run] for run in runs}
            self._known[keys] = _Pairs(Layout(clusters), models, logs)
        return self._known[keys]

    def difference(self, both: pd.DataFrame) -> Clustered | None:
        """Mean difference of log `l1` with its moderated error over outcomes.

        The variance is shrunk towards that of the pool's pairs of models that contain neither of
        the two (`outcomes.moderated`); runs of one model are not pairs. M models make M (M - 1) / 2
        pairs, worth only M - 1 independent ones: degrees of freedom are at most M times those of a
        pair.

        Parameters
        ----------
        both : DataFrame
            Scores of two runs, paired: ``run`` and ``run_other``.

        Returns
        -------
        Clustered or None
            None if an `l1` is unknown, if all tasks are on one outcome, or with fewer than
            `LEAST_PAIRS` such pairs.
        """
        if "asked_as" not in both:
            return None
        pairs = self.pairs(both)
        run, other = both["run"].iloc[0], both["run_other"].iloc[0]
        if run not in pairs.rows or other not in pairs.rows:
            return None
        if (prior := pairs.prior(run, other)) is None:
            return None
        freedom = pairs.layout.freedom
        d = pairs.logs[pairs.rows[run]] - pairs.logs[pairs.rows[other]]
        error = math.sqrt(float((pairs.layout.residuals(d) ** 2).sum()))
        own = Clustered(float(d.mean()), error, freedom)
        models = pairs.models - len({self._models[run], self._models[other]})
        return moderated(own, prior, models * freedom)

    def bounds(
        self, runs: Sequence[int], asked: pd.DataFrame, confidence: float
    ) -> tuple[Array, Array]:
        """Judge all pairs of runs as `difference` does.

        Returns
        -------
        difference, reach : ndarray, shape (N, N)
            Mean difference of log `l1`, and half its interval; NaN if `difference` is None.
        """
        pairs = self.pairs(asked)
        shape = len(runs), len(runs)
        difference, reach = np.full((2, *shape), math.nan)
        here = [place for place, run in enumerate(runs) if run in pairs.rows]
        if not here or not len(pairs.known):
            return difference, reach
        rows = [pairs.rows[runs[place]] for place in here]
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


def _keys(asked: pd.DataFrame) -> list[tuple[str, str, str]]:
    return list(zip(asked["task"], asked["way"], asked["asked_as"], strict=True))
