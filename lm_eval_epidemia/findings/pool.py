"""How differences in log `l1` vary between outcomes, estimated from runs asked in the same way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from lm_eval_epidemia.benchmarks import in_way, list_leaves
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.results.choose import KEY
from lm_eval_epidemia.score.outcomes import (
    SMALLEST,
    Clustered,
    Layout,
    VariancePrior,
    moderate_variance,
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


class _ModelPairs:
    """All pairs of models asked the same tasks, and how much each two differ.

    Parameters
    ----------
    layout : Layout
    models : Series of str, length N
        By run.
    logs : ndarray, shape (N, T)
        Log `l1` of each task, floored.
    """

    def __init__(self, layout: Layout, models: pd.Series, logs: Array) -> None:
        self.layout, self.logs = layout, logs
        self.rows = {run: row for row, run in enumerate(models.index)}
        #: Of which model each row is.
        self.model, names = pd.factorize(models)
        self.models = len(names)
        #: Whether any prior can be fitted.
        self.known = False
        if not (self.rows and layout.freedom):
            return
        off = layout.residuals(logs)
        # Row by row, as an array of all outcomes would be large.
        variances = np.array([((row - off) ** 2).sum(axis=-1) for row in off])
        first, other = np.triu_indices(len(models), 1)
        apart = self.model[first] != self.model[other]
        first, other = first[apart], other[apart]
        #: CR2 variances of the mean difference of log `l1` of two, as logarithms.
        known = variances[first, other]
        least = SMALLEST * float(np.median(known)) if len(known) else 0.0
        if not least > 0:
            return
        self.known, of_pair = True, np.log(np.maximum(known, least))
        self._center = float(of_pair.mean())
        off_center = of_pair - self._center
        powers = np.stack([np.ones(len(known)), off_center, off_center**2])
        self._total = powers.sum(axis=1)
        place = self.model[first] * self.models + self.model[other]
        shape = self.models, self.models
        both = [np.bincount(place, x, self.models**2).reshape(shape) for x in powers]
        #: By two models: the number of their pairs, and the sums of logarithms and squares.
        self._both = np.stack([x + x.T for x in both])

    def priors(self, one: NDArray[np.int_], other: NDArray[np.int_]) -> tuple[Array, Array]:
        """Fit the priors of pairs of models to the pairs that contain neither.

        Sums over all pairs minus sums over the pairs with either.

        Returns
        -------
        freedom, variance : ndarray
            NaN with too few pairs.
        """
        of_each = self._both.sum(axis=2)
        same = np.equal(one, other)
        without = of_each[:, one] + np.where(same, 0, of_each[:, other] - self._both[:, one, other])
        pairs, total, squares = (self._total - without.T).T
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(pairs >= LEAST_PAIRS, total / pairs, math.nan)
            variance = (squares - pairs * mean**2) / (pairs - 1)
        return priors_from(self._center + mean, variance, self.layout.freedom)


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
        here = scores.assign(log=np.log(np.maximum(l1, floors)))[l1.notna() & floors.notna()]
        self._models = here.groupby("run")["model"].last()
        self._logs = here.set_index(["run", *KEY])["log"].unstack(KEY)
        self._known: dict[tuple[tuple[str, ...], ...], _ModelPairs] = {}

    def pairs(self, asked: pd.DataFrame) -> _ModelPairs:
        """Return all pairs of the runs with known log `l1` in these tasks."""
        keys = tuple(asked[KEY].itertuples(index=False, name=None))
        if keys not in self._known:
            logs = self._logs.reindex(columns=pd.MultiIndex.from_tuples(keys)).dropna()
            clusters = [list_leaves()[in_way(task, way)].entry.outcome for task, way, _ in keys]
            models = self._models[logs.index]
            self._known[keys] = _ModelPairs(Layout(clusters), models, logs.to_numpy())
        return self._known[keys]

    def difference(self, both: pd.DataFrame) -> Clustered | None:
        """Mean difference of log `l1` with its moderated error over outcomes.

        The variance is shrunk towards that of the pool's pairs of models that contain neither of
        the two (`outcomes.moderate_variance`); runs of one model are not pairs. M models make
        M (M - 1) / 2 pairs, worth only M - 1 independent ones: degrees of freedom are at
        most M times those of a pair.

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
        pairs, runs = self.pairs(both), (both["run"].iloc[0], both["run_other"].iloc[0])
        if not pairs.known or not {*runs} <= pairs.rows.keys():
            return None
        one, other = (pairs.rows[run] for run in runs)
        two = pairs.model[[one, other]]
        prior = VariancePrior(*map(float, pairs.priors(*two)))
        if math.isnan(prior.variance):
            return None
        freedom, d = pairs.layout.freedom, pairs.logs[one] - pairs.logs[other]
        error = math.sqrt(float((pairs.layout.residuals(d) ** 2).sum()))
        own = Clustered(float(d.mean()), error, freedom)
        return moderate_variance(own, prior, (pairs.models - len({*two})) * freedom)

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
        difference, reach = np.full((2, len(runs), len(runs)), math.nan)
        here = [place for place, run in enumerate(runs) if run in pairs.rows]
        if not here or not pairs.known:
            return difference, reach
        rows = [pairs.rows[runs[place]] for place in here]
        own, freedom = pairs.layout.residuals(pairs.logs[rows]), pairs.layout.freedom
        squares = np.array([((row - own) ** 2).sum(axis=-1) for row in own])
        one, other = np.meshgrid(pairs.model[rows], pairs.model[rows], indexing="ij")
        of_prior, variance = pairs.priors(one, other)
        share = 1 / (1 + freedom / of_prior)  # of an endless freedom all
        error = np.sqrt(share * variance + (1 - share) * squares)
        most = (pairs.models - np.where(one == other, 1, 2)) * freedom
        t = special.stdtrit(np.minimum(of_prior + freedom, most), (1 + confidence) / 2)
        means = pairs.logs[rows].mean(axis=1)
        difference[np.ix_(here, here)] = np.subtract.outer(means, means)
        reach[np.ix_(here, here)] = error * t
        return difference, reach
