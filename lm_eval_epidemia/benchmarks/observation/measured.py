"""Answers measured against a truth: distances, scores, and their draws over the replicates.

All errors start here: the metrics in lm-eval's tables and `api.score` use the same `Measured`.
Shapes: C' cells, K levels, B joint replicates of the survey.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import joint, monte_carlo
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import Draws


@dataclass(frozen=True, eq=False)
class Part:
    """The cells of a task that were answered completely, C' of C.

    Attributes
    ----------
    truth : GroundTruth
    complete : ndarray of bool, shape (C,)
    weights : ndarray, shape (C',)
        Sums to 1.
    p : ndarray, shape (C', K)
    anchors : Anchors
    """

    truth: store.GroundTruth
    complete: NDArray[np.bool_]
    weights: Array
    p: Array
    anchors: scoring.Anchors

    def distance(self, q: Array) -> Array:
        return distance(self.weights, q, self.p)

    def score_of(self, d: Array | float) -> Array:
        return self.anchors.score(d)

    @cached_property
    def replicates(self) -> Array:
        """P(Y | X) of the part at each joint replicate, shape (B, C', K); 0 of an exact table."""
        replicates = self.truth.replicates
        return replicates if self.complete.all() else replicates[:, self.complete]

    @cached_property
    def beyond(self) -> Array:
        """Samples drawn from the replicates, shape (J, B, C', K); see `joint.draw_beyond`."""
        return joint.draw_beyond(self.p, self.replicates)

    @cached_property
    def noise(self) -> Array:
        """Deviations of the replicates from their mean, shape (B, C', K).

        Boosting shrinks a replicate once more: their mean is off, and that is no sampling error.
        """
        at = self.replicates
        return at - at.mean(axis=0) if len(at) else at

    @cached_property
    def noise_twice(self) -> Array:
        """Deviations of samples drawn from the replicates, shape (J, B, C', K), as in `noise`.

        A replicate is off by its mean less P, and a sample drawn from it by that twice.
        """
        return self.beyond - (2 * self.replicates.mean(axis=0) - self.p)

    @cached_property
    def _zeros_population(self) -> Array:
        """The distance that scores 0 in the survey with its noise once more, shape (B,)."""
        return scoring.zero_distance(self.weights, self.p + self.noise)

    @cached_property
    def zero_population(self) -> float:
        """The distance from the population that scores 0."""
        zero = self.anchors.zero
        # Far from the truth: the bootstrap's correction (Efron and Tibshirani 1993, section 10.6).
        return 2 * zero - float(self._zeros_population.mean()) if len(self.noise) else zero

    @cached_property
    def zeros_population(self) -> Array:
        """The same at each replicate, shape (B,)."""
        again = scoring.zero_distance(self.weights, self.p + self.noise_twice)
        return joint.correct_bias(self._zeros_population, again)

    def distance_population(self, d: float, off: Array) -> float:
        """Turn a distance from the survey into one from the population: `joint.cut_noise`.

        Parameters
        ----------
        d : float
            D, or what it is less the excess of answers that were drawn.
        off : ndarray, shape (C', K)
            q - P.

        Returns
        -------
        float
        """
        if not len(self.noise):
            return d
        excess = d - float(distance(self.weights, off, np.zeros_like(off)))
        return float(joint.cut_noise(d, distance(self.weights, self.noise, off).mean() + excess))


def part_of(truth: store.GroundTruth, complete: NDArray[np.bool_] | None = None) -> Part:
    """Return the cells of a task by which somebody is measured.

    Parameters
    ----------
    truth : GroundTruth
    complete : ndarray of bool, shape (C,), optional
        All of them by default. Of a part, D_perfect is that of surveys drawn cell by cell: what is
        stored is of the whole task.
    """
    if complete is None:
        complete = np.ones(len(truth.weights), dtype=bool)
    if complete.all():
        return Part(truth, complete, truth.weights, truth.p, scoring.Anchors.of(truth))
    share = truth.weights[complete]
    weights, p = share / share.sum(), truth.p[complete]
    drawn = distance(weights, scoring.draw_truths(p, truth.n_eff[complete]), p)
    perfect = store.d_perfect(drawn)
    return Part(truth, complete, weights, p, scoring.anchors(weights, p, perfect))


@dataclass(frozen=True, eq=False)
class Measured:
    """The answers to a part of a task, and their distance from the truth.

    Attributes
    ----------
    part : Part
    elicited : Elicited
        In the cells of the part.
    """

    part: Part
    elicited: Elicited

    @cached_property
    def l1(self) -> float:
        """Weighted L1 distance from the truth.

        For sampled answers it estimates the distance of the distribution that they are drawn from,
        and Monte Carlo error can make it negative.
        """
        part, counts = self.part, self.elicited.counts
        if counts is not None:
            return float(part.weights @ monte_carlo.distances(part.p, counts))
        return float(part.distance(self.elicited.q))

    @cached_property
    def excess(self) -> float:
        """What drawn answers add to the distance, below 0; subtracted at every replicate too."""
        return self.l1 - float(self.part.distance(self.elicited.q))

    @cached_property
    def l1_at(self) -> Array:
        """The distance at each replicate, shape (B,)."""
        return distance(self.part.weights, self.part.replicates, self.elicited.q) + self.excess

    @property
    def l1_population(self) -> float:
        """Distance from the population. Below 0 by chance."""
        return self.part.distance_population(self.l1, self.elicited.q - self.part.p)

    @property
    def score(self) -> float:
        """From 0 to 100."""
        return float(self.part.score_of(self.l1))

    @property
    def score_expected(self) -> float:
        """Of the second distribution; NaN if there is none."""
        part, expected = self.part, self.elicited.expected
        return math.nan if expected is None else float(part.score_of(part.distance(expected)))

    @property
    def score_population(self) -> float:
        """Score against the population, from 0 to 100."""
        return min(self.score_population_uncut, 100.0)

    @property
    def score_population_uncut(self) -> float:
        """Score against the population before it is cut off at 100; from 0 to 200.

        It exceeds 100 if answers are closer to the truth than its noise. If each task were cut off,
        the mean score of a model that knows the population would be too low.
        """
        on_scale = scoring.position(self.l1_population, self.part.zero_population)
        return float(np.clip(on_scale, 0, 200))

    @cached_property
    def score_draws(self) -> Draws:
        """The score at each replicate: its zero moves along, D_perfect is kept."""
        part, perfect = self.part, self.part.anchors.perfect
        l1_again = distance(part.weights, part.beyond, self.elicited.q) + self.excess
        zeros, zeros_again = (
            scoring.zero_distance(part.weights, p) for p in (part.replicates, part.beyond)
        )
        at = scoring.scale_distance(self.l1_at, zeros, perfect)
        again = scoring.scale_distance(l1_again, zeros_again, perfect)
        # Cut off where the score is; inside, those without one ordering may lie beyond the ends.
        inside = 0 < self.score < 100

        def score_of(q: Array) -> Array:
            l1 = part.distance(q)
            if not inside:
                return part.score_of(l1)
            return scoring.position(l1 - perfect, np.array(part.anchors.zero - perfect))

        draws = self._draws(at, score_of, part.anchors.zero - perfect)
        return draws._replace(less_bias=joint.correct_bias(at, again)) if len(at) else draws

    @property
    def l1_draws(self) -> Draws:
        """The distance at each replicate, with the error of asking."""
        return self._draws(self.l1_at, self.part.distance, 100.0)

    @cached_property
    def score_population_draws(self) -> Draws:
        """The score against the population in other samples of that population.

        The answers are assumed to be as far from the population as estimated, in the direction of q
        - P. Each replicate deviates from there as from P, and is corrected like the survey. Not cut
        off at 100, so their spread is that of the distance.
        """
        part, off = self.part, self.elicited.q - self.part.p
        uncut, zero = self.score_population_uncut, part.zero_population
        # Cut off where the number is; inside, other samples and orderings may lie beyond the ends.
        ends = (-math.inf, math.inf) if 0 < uncut < 200 else (0, 200)

        def score_of(q: Array) -> Array:
            l1 = [part.distance_population(float(part.distance(each)), each - part.p) for each in q]
            return np.clip(scoring.position(np.array(l1), zero), *ends)

        at = np.empty(0)
        if len(part.noise):
            share = float(np.clip(self.l1_population / self.l1, 0, 1)) if self.l1 > 0 else 0.0
            at, again = (
                distance(part.weights, noise, share * off) + share * self.excess
                for noise in (part.noise, part.noise_twice)
            )
            l1 = joint.cut_noise(at, joint.mean_beyond(at, again))
            at = np.clip(scoring.position(l1, part.zeros_population), *ends)
        return self._draws(at, score_of, zero)._replace(uncut=uncut)

    def _draws(self, at: Array, score_of: Callable[[Array], Array], width: float) -> Draws:
        """Put draws of a number together with the error of its asking.

        Parameters
        ----------
        at : ndarray, shape (B,)
        score_of : callable
            As `score.ordering_error` takes it.
        width : float
            The distance between 0 and 100 on its scale, by which an error of the distance from the
            number of answers is divided.
        """
        by_order, counts = self.elicited.by_order, self.elicited.counts
        ordering = 0.0 if by_order is None else scoring.ordering_error(by_order, score_of)
        drawn = 0.0
        if counts is not None and width > scoring.ROUNDING:
            error = monte_carlo.distance_error(self.part.weights, self.part.p, counts)
            drawn = min(100.0, 100 * error / width)
        return Draws(self.part.truth.sample, at, math.hypot(ordering, drawn))
