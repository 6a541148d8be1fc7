"""The ways P(Y | X) is estimated from the records of a survey, and what follows for its error.

An estimator says by itself what sets it apart: what it can be fitted on, how often, how the spread
of its replicates becomes an effective size. Which of them serves a task is asked in `estimator_of`
and nowhere else. A table that an agency published has its own (`published.Published`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import bins, boosted
from lm_eval_epidemia.estimate.joint import mixture, replicate_weights
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
from lm_eval_epidemia.estimate.simulate import draw_outcomes, intraclass_correlation
from lm_eval_epidemia.surveys.record import Task

if TYPE_CHECKING:
    from lm_eval_epidemia.estimate.prepare import Cells, Prepared

Ready = TypeVar("Ready", bound="Cells")


class Joint(NamedTuple):
    """P(Y | X) in each joint replicate of a survey.

    Attributes
    ----------
    at : ndarray, shape (B, C, K)
        Estimated as the estimate itself is, up to what that costs.
    single : ndarray, shape (B, C, K)
        By one fit, as the published protocol has D_perfect from.
    """

    at: Array
    single: Array


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

    def replicates(self, asked: int) -> int:
        """How many replicates D_perfect is from where a build asks for so many."""
        return asked

    def estimate(self, ready: Ready) -> Array:
        """Estimate P(Y | X) as it is handed on; shape (C, K)."""
        return self.fit(ready, ready.record_weights, rng_of(ready.task.name, 0))

    @abstractmethod
    def joint(self, ready: Ready, p: Array, number: int) -> Joint:
        """Estimate P(Y | X) anew in each joint replicate of the survey."""

    def draws(self, ready: Ready, scheme: Scheme, replicates: int, p: Array, joint: Joint) -> Array:
        """Estimate P(Y | X) anew for D_perfect; shape (B, C, K). By default in joint replicates."""
        return joint.single

    @abstractmethod
    def effective_sizes(
        self, ready: Ready, p: Array, draws: Mapping[Scheme, Array], joint: Joint
    ) -> dict[Scheme, Array]:
        """Effective sample size of each cell by scheme, where it is known; shape (C,) each."""


class OfRecords(Estimator["Prepared"]):
    """An estimator of microdata: every replicate is a fit to other weights."""

    #: Whether totals by cell are all it needs of a survey's own replicate weights.
    takes_totals: ClassVar[bool] = False

    def lacks(self, units: int) -> str:
        """Say how many sampled units it takes, if these are too few; else nothing."""
        return ""

    def _iid(self, ready: Prepared, replicates: int, p: Array) -> Array:
        found = np.empty((replicates, *p.shape))
        for b in range(replicates):
            rng = rng_of(ready.task.name, 1 + SCHEMES.index("iid"), b)
            found[b] = self.fit(ready, bootstrap_weights(ready.sample, rng), rng)
        return found


class Counts(OfRecords):
    """Weighted shares of each answer in each cell.

    The estimated population is the sample itself: another survey of it is a joint replicate.
    """

    name = "bins"
    takes_totals = True

    def fit(self, ready: Prepared, weight: Array, rng: np.random.Generator) -> Array:
        return bins.count(weight, ready.cell, ready.outcome, len(ready.weights), len(ready.levels))

    def joint(self, ready: Prepared, p: Array, number: int) -> Joint:
        sample, rng = ready.sample, np.random.default_rng()
        if sample.replicate_totals is not None:
            # Linear in the agency's own deviations, as its variance formula is.
            moved = replicate_draws(sample, p) - p
            mixed = mixture(ready.survey, number, len(moved)) / np.sqrt(len(moved))
            found = p + np.tensordot(mixed, moved, axes=1)
        else:
            found = np.stack(
                [
                    self.fit(ready, replicate_weights(sample, ready.survey, b, number), rng)
                    for b in range(number)
                ]
            )
        return Joint(found, found)

    def draws(
        self, ready: Prepared, scheme: Scheme, replicates: int, p: Array, joint: Joint
    ) -> Array:
        return self._iid(ready, replicates, p) if scheme == "iid" else joint.single

    def effective_sizes(
        self, ready: Prepared, p: Array, draws: Mapping[Scheme, Array], joint: Joint
    ) -> dict[Scheme, Array]:
        cells, levels = p.shape
        # Kish's size of a counted cell needs no bootstrap.
        kish = kish_size(ready.sample, ready.cell, cells)
        sizes: dict[Scheme, Array] = {"iid": kish}
        if "design" in draws:
            if ready.sample.stratum_of_psu is None:
                variance = ((replicate_draws(ready.sample, p) - p) ** 2).mean(axis=0)
            else:
                variance = design_variance(
                    ready.sample, ready.cell, ready.outcome, p, cells, levels
                )
            sizes["design"] = design_effective_size(p, variance, kish, ready.n.astype(float))
        return sizes


class Boosting(OfRecords):
    """Cross-validated gradient boosting of a binary outcome.

    The estimate is the mean over several choices of folds, and so is, over fewer, each joint
    replicate. D_perfect follows the published protocol: one fit to each bootstrap sample, with
    folds of its own. A fit costs as much as hundreds of counts: there are half as many.
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
        import lightgbm

        fold = boosted.assign_folds(ready.sample.units, rng)
        try:
            return boosted.fit_aggregated(weight, ready.cell, ready.outcome, fold, ready.features)
        except lightgbm.basic.LightGBMError as error:
            raise EpidemiaError(
                f"{ready.task.name}: LightGBM cannot fit its {len(weight)} records "
                f"({' '.join(str(error).split())}): is the file whole, and are the weights sound?"
            ) from None

    def _fits(self, ready: Prepared, weight: Array, seeds: int, *key: int) -> Array:
        """Fit with several choices of folds; shape (S, C, 2)."""
        return np.stack(
            [self.fit(ready, weight, rng_of(ready.task.name, *key, seed)) for seed in range(seeds)]
        )

    def estimate(self, ready: Prepared) -> Array:
        return np.asarray(self._fits(ready, ready.record_weights, boosted.SEEDS, 0).mean(axis=0))

    def joint(self, ready: Prepared, p: Array, number: int) -> Joint:
        seeds = boosted.seeds_of_replicate(ready.units)
        single, mean = np.empty((number, *p.shape)), np.empty((number, *p.shape))
        for b in range(number):
            weight = replicate_weights(ready.sample, ready.survey, b, number)
            fits = self._fits(ready, weight, seeds, 1 + len(SCHEMES), b)
            single[b], mean[b] = fits[0], fits.mean(axis=0)
        return Joint(mean, single)

    def draws(
        self, ready: Prepared, scheme: Scheme, replicates: int, p: Array, joint: Joint
    ) -> Array:
        if scheme == "population":
            return self._simulated(ready, replicates, p)
        # Without a design the joint replicates are the i.i.d. bootstrap.
        own = scheme == "iid" and ready.sample.has_design
        return self._iid(ready, replicates, p) if own else joint.single

    def _simulated(self, ready: Prepared, replicates: int, p: Array) -> Array:
        """Fit to surveys of a population whose P(Y | X) is the estimate."""
        sample, cell = ready.sample, ready.cell
        alike = intraclass_correlation(sample, cell, ready.outcome, p)
        found, seeds = np.empty((replicates, *p.shape)), boosted.seeds_of_survey(ready.units)
        for b in range(replicates):
            key = 1 + SCHEMES.index("population"), b
            outcome = draw_outcomes(sample, cell, p, alike, rng_of(ready.task.name, *key))
            drawn = replace(ready, outcome=outcome)
            found[b] = self._fits(drawn, sample.weight, seeds, *key).mean(axis=0)
        return found

    def effective_sizes(
        self, ready: Prepared, p: Array, draws: Mapping[Scheme, Array], joint: Joint
    ) -> dict[Scheme, Array]:
        # A boosted cell borrows strength from its neighbours, so its size comes from the spread of
        # the whole estimator; the records of the task are all there is to borrow.
        kish = kish_size(ready.sample, ready.cell, len(p))
        everyone = np.full(len(p), float(ready.units))
        spread = {scheme: draws[scheme] for scheme in draws if scheme != "population"}
        spread["design" if ready.sample.has_design else "iid"] = joint.at
        return {
            scheme: design_effective_size(p, drawn.var(axis=0, ddof=1), kish, everyone)
            for scheme, drawn in spread.items()
        }


def estimator_of(task: Task, answers: int) -> OfRecords:
    """Return what estimates a task of microdata that has so many answers.

    Two answers under several conditions are boosted, as published; else people are counted.
    """
    return Boosting() if len(task.given) > 1 and answers == 2 else Counts()
