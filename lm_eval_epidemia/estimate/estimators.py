"""The estimators of P(Y | X) from the records of a survey, and their errors.

An estimator says by itself what sets it apart: what it can be fitted on, how often, how the spread
of its replicates becomes an effective size. Which of them serves a task is asked in `estimator_of`
and nowhere else. A table that an agency published has its own (`published.Published`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import boosted, sampling
from lm_eval_epidemia.estimate.estimator import ByScheme, Estimated, Estimator, Prepared
from lm_eval_epidemia.estimate.sampling import SCHEMES, Codes, Sample, Scheme, count_shares, rng_of
from lm_eval_epidemia.estimate.store import d_perfect
from lm_eval_epidemia.surveys.record import Task


def draw_outcomes(
    sample: Sample, cell: Codes, p: Array, correlation: float, rng: np.random.Generator
) -> Codes:
    """Draw a binary outcome of every record.

    Each sampled unit compares one uniform number with its cell's probability: with probability
    ``sqrt(correlation)`` the number that its PSU shares, else its own. Two units of a PSU with the
    same probability then have outcomes with exactly that correlation.

    Parameters
    ----------
    sample : Sample
        With n records.
    cell : ndarray of int, shape (n,)
    p : ndarray, shape (C, 2)
    correlation : float
        In [0, 1]; 0 if there are no PSUs.
    rng : Generator

    Returns
    -------
    ndarray of int, shape (n,)
        0 or 1, the number of the level.
    """
    units, first, index = np.unique(sample.units, return_index=True, return_inverse=True)
    uniform = rng.random(len(units))
    if sample.psu is not None and correlation > 0:
        shared = rng.random(int(sample.psu.max()) + 1)[sample.psu[first]]
        uniform = np.where(rng.random(len(units)) < np.sqrt(correlation), shared, uniform)
    return (uniform[index] < p[cell, 1]).astype(np.int64)


def intraclass_correlation(sample: Sample, cell: Codes, outcome: Codes, p: Array) -> float:
    """Estimate how similar the answers within a PSU are, beyond what their conditions explain.

    ``sum over pairs of a PSU's units of r_i r_j / sum over these pairs of s_i s_j``, with r the
    weighted residuals ``w (y - p)`` and s their standard deviations ``w sqrt(p (1 - p))``: the
    moment estimate from the between-cluster variance.

    Parameters
    ----------
    sample : Sample
        With n records.
    cell, outcome : ndarray of int, shape (n,)
    p : ndarray, shape (C, 2)

    Returns
    -------
    float
        In [0, 1]; 0 without PSUs.
    """
    if sample.psu is None:
        return 0.0
    chance = p[cell, 1]
    _, first, index = np.unique(sample.units, return_index=True, return_inverse=True)
    psu_of_unit = sample.psu[first]

    def pairs(of_record: Array) -> float:
        of_unit = np.bincount(index, weights=sample.weight * of_record)
        of_psu = np.bincount(psu_of_unit, weights=of_unit)
        return float((of_psu**2).sum() - (of_unit**2).sum())

    possible = pairs(np.sqrt(chance * (1 - chance)))
    return float(np.clip(pairs(outcome - chance) / possible, 0, 1)) if possible > 0 else 0.0


#: Sampled units from which on a cell can be counted, and the share of the people in such cells from
#: which on a boosted task is compared with counts.
COUNTABLE, MOST = 200, 0.9
#: Bootstrap samples that tell how far counts are from those of another survey.
RECOUNTS = 100


class Contradicted(EpidemiaError):
    """The records of a task contradict its estimate: there is no truth of it, but of others."""


def _joint_weights(ready: Prepared, number: int) -> Iterator[Array]:
    """Yield the weights of the records in each joint replicate of the survey."""
    for b in range(number):
        yield sampling.replicate_weights(ready.sample, ready.survey, b, number)


class OfRecords(Estimator[Prepared]):
    """An estimator of microdata: every replicate is a fit to other weights."""

    #: Whether totals by cell are all it needs of a survey's own replicate weights.
    takes_totals: ClassVar[bool] = False

    def lacks(self, units: int) -> str:
        """Say how many sampled units are needed, if these are too few; else nothing."""
        return ""

    def _iid(self, ready: Prepared, number: int) -> Array:
        """Fit to i.i.d. bootstrap replicates of the task by itself; shape (B, C, K)."""
        rngs = (rng_of(ready.task.name, 1 + SCHEMES.index("iid"), b) for b in range(number))
        weights = ((sampling.bootstrap_weights(ready.sample, rng), rng) for rng in rngs)
        return np.stack([self.fit(ready, weight, rng) for weight, rng in weights])


class Counts(OfRecords):
    """Weighted shares of each answer in each cell.

    The estimated population is the sample itself: another survey of it is a joint replicate.
    """

    name = "bins"
    takes_totals = True

    def fit(self, ready: Prepared, weight: Array, rng: np.random.Generator) -> Array:
        shape = len(ready.weights), len(ready.levels)
        return count_shares(weight, ready.cell, ready.outcome, *shape)

    def joint(self, ready: Prepared, p: Array, number: int) -> Estimated:
        sample, rng = ready.sample, np.random.default_rng()
        if sample.replicate_totals is not None:
            # Linear in the agency's own deviations, as its variance formula is.
            moved = sampling.replicate_draws(sample, p) - p
            mixed = sampling.mixture(ready.survey, number, len(moved)) / np.sqrt(len(moved))
            at = p + np.tensordot(mixed, moved, axes=1)
        else:
            weights = _joint_weights(ready, number)
            at = np.stack([self.fit(ready, weight, rng) for weight in weights])
        return Estimated(p, at, at)

    def draws(self, ready: Prepared, scheme: Scheme, number: int, joint: Estimated) -> Array:
        return self._iid(ready, number) if scheme == "iid" else joint.single

    def effective_sizes(self, ready: Prepared, draws: ByScheme, joint: Estimated) -> ByScheme:
        sample, cell, p = ready.sample, ready.cell, joint.p
        # Kish's size of a counted cell needs no bootstrap.
        sizes: ByScheme = {"iid": sampling.kish_size(sample, cell, len(p))}
        if "design" in draws:
            if sample.stratum_of_psu is None:
                variance = ((sampling.replicate_draws(sample, p) - p) ** 2).mean(axis=0)
            else:
                variance = sampling.design_variance(sample, cell, ready.outcome, p, *p.shape)
            n = ready.n.astype(float)
            sizes["design"] = sampling.design_effective_size(p, variance, sizes["iid"], n)
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
            what = f"{ready.task.name}: LightGBM cannot fit its {len(weight)} records"
            raise EpidemiaError(f"{what} ({error}): is the file complete?") from None

    def _fits(self, ready: Prepared, weight: Array, seeds: int, *key: int) -> Array:
        """Fit with several choices of folds; shape (S, C, 2)."""
        rngs = (rng_of(ready.task.name, *key, seed) for seed in range(seeds))
        return np.stack([self.fit(ready, weight, rng) for rng in rngs])

    def estimate(self, ready: Prepared) -> Array:
        return np.asarray(self._fits(ready, ready.record_weights, boosted.SEEDS, 0).mean(axis=0))

    def joint(self, ready: Prepared, p: Array, number: int) -> Estimated:
        seeds = boosted.seeds_of_replicate(ready.units)
        weights = _joint_weights(ready, number)
        key = 1 + len(SCHEMES)
        fits = [self._fits(ready, weight, seeds, key, b) for b, weight in enumerate(weights)]
        return Estimated(p, np.stack([fit.mean(axis=0) for fit in fits]), np.stack(fits)[:, 0])

    def draws(self, ready: Prepared, scheme: Scheme, number: int, joint: Estimated) -> Array:
        if scheme == "population":
            return self._simulated(ready, number, joint.p)
        # Without a design the joint replicates are the i.i.d. bootstrap.
        own = scheme == "iid" and ready.sample.has_design
        return self._iid(ready, number) if own else joint.single

    def _simulated(self, ready: Prepared, number: int, p: Array) -> Array:
        """Fit to surveys of a population whose P(Y | X) is the estimate."""
        sample, cell, seeds = ready.sample, ready.cell, boosted.seeds_of_survey(ready.units)
        alike, fits = intraclass_correlation(sample, cell, ready.outcome, p), []
        for b in range(number):
            key = 1 + SCHEMES.index("population"), b
            outcome = draw_outcomes(sample, cell, p, alike, rng_of(ready.task.name, *key))
            drawn = replace(ready, outcome=outcome)
            fits.append(self._fits(drawn, sample.weight, seeds, *key).mean(axis=0))
        return np.stack(fits)

    def check(self, ready: Prepared, p: Array, perfect: float) -> None:
        """Compare a fit with counts, if most people are in cells that can be counted."""
        large = ready.n >= COUNTABLE
        if ready.weights[large].sum() < MOST:
            return
        counted = count_shares(ready.record_weights, ready.cell, ready.outcome, *p.shape)
        apart = ready.weights * np.abs(counted - p).sum(axis=1)
        if (total := apart.sum()) <= perfect:
            return
        # Of many cells the counts themselves may be farther from the truth than a fit is.
        recounted = distance(ready.weights, Counts()._iid(ready, RECOUNTS), counted)
        if total <= (own := d_perfect(recounted)):
            return
        worst = [
            f"{', '.join(ready.given[c])}: {p[c, 1]:.3f}, counted {counted[c, 1]:.3f}"
            for c in np.argsort(-apart, kind="stable")[:3]
        ]
        raise Contradicted(
            f"{ready.task.name}: the boosted P({ready.levels[1]}) is {total:.4f} from the counts, "
            f"more than its own sampling error (D_perfect, {perfect:.4f}) and theirs ({own:.4f}; "
            f"most in {'; '.join(worst)}): give it fewer conditions or wider levels, or remove it"
        )

    def effective_sizes(self, ready: Prepared, draws: ByScheme, joint: Estimated) -> ByScheme:
        # A boosted cell borrows strength from its neighbours, so its size comes from the spread of
        # the whole estimator; the records of the task are all there is to borrow.
        p = joint.p
        kish = sampling.kish_size(ready.sample, ready.cell, len(p))
        everyone = np.full(len(p), float(ready.units))
        spread = {scheme: drawn for scheme, drawn in draws.items() if scheme != "population"}
        spread["design" if ready.sample.has_design else "iid"] = joint.at
        return {
            scheme: sampling.design_effective_size(p, drawn.var(axis=0, ddof=1), kish, everyone)
            for scheme, drawn in spread.items()
        }


def estimator_of(task: Task, answers: int) -> OfRecords:
    """Return the estimator for a task of microdata with this number of answers.

    Two answers under several conditions are boosted, as published; else people are counted, as
    they are where levels weigh the same whatever their people.
    """
    boosted = len(task.given) > 1 and answers == 2 and not task.equal
    return Boosting() if boosted else Counts()
