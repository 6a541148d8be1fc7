"""The ways P(Y | X) is estimated from the records of a survey, and what follows for its error.

An estimator says by itself what sets it apart: what it can be fitted on, how often, how the spread
of its replicates becomes an effective size. Which of them serves a task is asked in `estimator_of`
and nowhere else. A table that an agency published has its own (`published.Published`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.estimate import bins, boosted
from lm_eval_epidemia.estimate.sampling import (
    SCHEMES,
    Scheme,
    bootstrap_weights,
    design_effective_size,
    design_variance,
    kish_size,
    replicate_draws,
    rng_of,
)
from lm_eval_epidemia.surveys.record import Task

if TYPE_CHECKING:
    from lm_eval_epidemia.estimate.prepare import Cells, Prepared

__all__ = ["Boosting", "Counts", "Estimator", "OfRecords", "estimator_of"]

Ready = TypeVar("Ready", bound="Cells")


class Estimator(ABC, Generic[Ready]):
    """From what was prepared of a task to P(Y | X) and its sampling error.

    Attributes
    ----------
    name : str
        As the registry records it.
    """

    name: ClassVar[str]

    @property
    def parameters(self) -> dict[str, Any]:
        """All numbers that a fit depends on besides the data, as the registry names them."""
        return {}

    @abstractmethod
    def fit(self, ready: Ready, weight: Array, rng: np.random.Generator) -> Array:
        """Estimate P(Y | X).

        Parameters
        ----------
        ready : Cells
            With C cells and K levels.
        weight : ndarray, shape (n,)
            Of each record: the survey's, or those of a bootstrap replicate.
        rng : Generator

        Returns
        -------
        ndarray, shape (C, K)

        Raises
        ------
        EpidemiaError
            If this estimator cannot be fitted on the task.
        """

    @abstractmethod
    def draws(self, ready: Ready, scheme: Scheme, replicates: int, p: Array) -> Array:
        """Estimate P(Y | X) anew from each bootstrap sample; shape (B, C, K)."""

    @abstractmethod
    def effective_sizes(
        self, ready: Ready, p: Array, draws: Mapping[Scheme, Array]
    ) -> dict[Scheme, Array]:
        """Effective sample size of each cell by scheme, where it is known; shape (C,) each."""


class OfRecords(Estimator["Prepared"]):
    """An estimator of microdata: every replicate is a fit to bootstrap weights."""

    #: Whether a survey's own replicate weights serve it; else its design error takes strata.
    takes_replicate_weights: ClassVar[bool] = False

    def lacks(self, units: int) -> str:
        """Say how many sampled units it takes, if these are too few; else nothing."""
        return ""

    def replicates(self, asked: int) -> int:
        """How many bootstrap replicates are drawn where a build asks for so many."""
        return asked

    def schemes(self, asked: tuple[Scheme, ...], has_strata: bool) -> tuple[Scheme, ...]:
        """Which bootstrap schemes are drawn of those that the survey allows."""
        return asked if has_strata or self.takes_replicate_weights else ("iid",)

    def draws(self, ready: Prepared, scheme: Scheme, replicates: int, p: Array) -> Array:
        if scheme == "design" and ready.sample.replicate_totals is not None:
            return replicate_draws(ready.sample, p)
        draws = np.empty((replicates, *p.shape))
        for b in range(replicates):
            rng = rng_of(ready.task.name, 1 + SCHEMES.index(scheme), b)
            draws[b] = self.fit(ready, bootstrap_weights(ready.sample, scheme, rng), rng)
        return draws


class Counts(OfRecords):
    """Weighted shares of each answer in each cell."""

    name = "bins"
    takes_replicate_weights = True

    def fit(self, ready: Prepared, weight: Array, rng: np.random.Generator) -> Array:
        return bins.count(weight, ready.cell, ready.outcome, len(ready.weights), len(ready.levels))

    def effective_sizes(
        self, ready: Prepared, p: Array, draws: Mapping[Scheme, Array]
    ) -> dict[Scheme, Array]:
        cells, levels = p.shape
        # Kish's size of a counted cell needs no bootstrap.
        kish = kish_size(ready.sample, ready.cell, cells)
        sizes: dict[Scheme, Array] = {"iid": kish}
        if "design" in draws:
            if ready.sample.stratum_of_psu is None:
                variance = ((draws["design"] - p) ** 2).mean(axis=0)
            else:
                variance = design_variance(
                    ready.sample, ready.cell, ready.outcome, p, cells, levels
                )
            sizes["design"] = design_effective_size(p, variance, kish, ready.n.astype(float))
        return sizes


class Boosting(OfRecords):
    """Cross-validated gradient boosting of a binary outcome.

    Every replicate draws its folds anew, so that the spread includes that of the estimator. A fit
    costs as much as hundreds of counts: there are half as many replicates, and none for a survey's
    own replicate weights.
    """

    name = "lightgbm"

    @property
    def parameters(self) -> dict[str, Any]:
        return boosted.settings()

    def lacks(self, units: int) -> str:
        if units >= boosted.FOLDS:
            return ""
        return f"with several conditions it takes {boosted.FOLDS}, one for each fold"

    def replicates(self, asked: int) -> int:
        return asked // 2

    def fit(self, ready: Prepared, weight: Array, rng: np.random.Generator) -> Array:
        if len(ready.levels) != 2:
            raise EpidemiaError(
                f"{ready.task.name} has {len(ready.task.given)} conditions and "
                f"{len(ready.levels)} levels: with several conditions the outcome must be binary"
            )
        import lightgbm

        fold = boosted.assign_folds(ready.sample.units, rng)
        try:
            return boosted.fit_aggregated(weight, ready.cell, ready.outcome, fold, ready.features)
        except lightgbm.basic.LightGBMError as error:
            raise EpidemiaError(
                f"{ready.task.name}: LightGBM cannot fit its {len(weight)} records "
                f"({' '.join(str(error).split())}): is the file whole, and are the weights sound?"
            ) from None

    def effective_sizes(
        self, ready: Prepared, p: Array, draws: Mapping[Scheme, Array]
    ) -> dict[Scheme, Array]:
        # A boosted cell borrows strength from its neighbours, so its size comes from the spread of
        # the whole estimator; the records of the task are all there is to borrow.
        kish = kish_size(ready.sample, ready.cell, len(p))
        everyone = np.full(len(p), float(len(np.unique(ready.sample.units))))
        return {
            scheme: design_effective_size(p, drawn.var(axis=0, ddof=1), kish, everyone)
            for scheme, drawn in draws.items()
        }


def estimator_of(task: Task) -> OfRecords:
    """Return what estimates a task of microdata: one condition is counted, several are boosted."""
    return Boosting() if len(task.given) > 1 else Counts()
