"""Respondents of many kinds, for `choose_quick.py`: what they believe, and how they answer.

An outcome's tasks are asked of the same respondent, so that its errors are shared: of the outcome
as a whole, of each value of each condition, and of each cell. Every prompt adds noise of its own,
and every displayed position a preference.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from lm_eval_epidemia.ask.orderings import orderings
from lm_eval_epidemia.ask.responses import softmax
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.score.score import Anchors, scale_distance

#: Pairs of orderings among which each cell has one, and orderings that stand for all of a cell.
PAIRS, ORDERS = 6, 24

TINY = 1e-4


def balanced_pairs(levels: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return disjoint pairs of a task's orderings under which levels have their mean place.

    Up to 5 answers all orderings are asked, each with its reverse; of more, the 120 random ones
    hold no reverses, and the most balanced pairs are taken.
    """
    every = np.argsort(np.array(orderings(levels)), axis=1)  # place of each level
    pairs = np.array(list(combinations(range(len(every)), 2)))
    off = ((every[pairs].mean(axis=1) - (levels - 1) / 2) ** 2).sum(axis=1)
    chosen: list[tuple[int, int]] = []
    for first, second in pairs[np.lexsort((rng.random(len(pairs)), off.round(9)))]:
        if len(chosen) < PAIRS and not {first, second} & set(np.ravel(chosen).tolist()):
            chosen.append((int(first), int(second)))
    return chosen


@dataclass(frozen=True, eq=False)
class Outcome:
    """The tasks of a group that ask for one outcome; C cells in all of them together."""

    name: str
    truths: tuple[GroundTruth, ...]
    seed: int

    @cached_property
    def p(self) -> np.ndarray:
        return np.concatenate([truth.p for truth in self.truths])

    @cached_property
    def task(self) -> np.ndarray:
        """Number of each cell's task, shape (C,)."""
        return np.repeat(np.arange(len(self.truths)), [len(truth.p) for truth in self.truths])

    @cached_property
    def weights(self) -> np.ndarray:
        """Share of each cell in its task, shape (C,)."""
        return np.concatenate([truth.weights for truth in self.truths])

    @cached_property
    def mean(self) -> np.ndarray:
        return np.average(self.p, axis=0, weights=self.weights)

    @cached_property
    def sampling(self) -> np.ndarray:
        """Standard error of the truth's log-probabilities, shape (C, K)."""
        n = np.concatenate([truth.n_eff for truth in self.truths])[:, None]
        p = np.maximum(self.p, np.maximum(1 / (1 + n), TINY))
        return np.sqrt(np.maximum(1 - p, 0) / p / n)

    @cached_property
    def anchors(self) -> list[Anchors]:
        return [Anchors.of(truth) for truth in self.truths]

    @cached_property
    def values(self) -> list[np.ndarray]:
        """Numbers of the conditions' values that each cell has, one array per condition."""
        labels = [
            [f"{place} {label}" for place, label in enumerate(given)]
            for truth in self.truths
            for given in truth.given
        ]
        names = {
            label: number for number, label in enumerate(sorted({x for r in labels for x in r}))
        }
        most = max(map(len, labels))
        rows = [
            [names[label] for label in row] + [len(names)] * (most - len(row)) for row in labels
        ]
        return list(np.array(rows).T)

    @cached_property
    def orders(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Orderings that stand for all; the pair of each cell among them, and by its true numbers;
        and the share of the pair in all."""
        levels, rng = self.p.shape[1], np.random.default_rng(self.seed)
        every = orderings(levels)
        pairs = balanced_pairs(levels, rng)
        first = [number for pair in pairs for number in pair]
        others = rng.permutation([n for n in range(len(every)) if n not in first])
        listed = [*first, *others[: max(ORDERS - len(first), 0)]]
        of_cell = rng.integers(len(pairs), size=len(self.p))
        inside = 2 * of_cell[:, None] + np.arange(2)
        return (
            np.array([every[n] for n in listed]),
            inside,
            np.array(pairs)[of_cell],
            2 / len(every),
        )

    def distances(self, q: np.ndarray) -> np.ndarray:
        """L1 distance in each cell, shape (C,)."""
        return np.abs(q - self.p).sum(axis=1)

    def of_tasks(self, d: np.ndarray) -> np.ndarray:
        """Distance of each task."""
        return np.bincount(self.task, weights=self.weights * d)

    def scores(self, d: np.ndarray) -> np.ndarray:
        """Score of each task, from the distances in cells."""
        pairs = zip(self.of_tasks(d), self.anchors, strict=True)
        return np.array([float(scale_distance(of, a.zero, a.perfect)) for of, a in pairs])

    def asked(
        self, believed: np.ndarray, bias: np.ndarray, noise: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ask in all orderings, and in the pair of each cell.

        Parameters
        ----------
        believed : ndarray, shape (C, K)
        bias : ndarray, shape (K,)
            Added to the log-odds of each displayed position.
        noise : float
            Standard deviation of what each prompt adds to each log-probability.

        Returns
        -------
        full, pair : ndarray, shape (C, K)
        apart : ndarray, shape (C,)
            Half the L1 distance between what was said under the two orderings.
        """
        if not noise and not bias.any():
            return believed, believed, np.zeros(len(believed))
        orders, inside, _, share = self.orders
        place = np.argsort(orders, axis=1)
        logits = np.log(np.maximum(believed, TINY))[:, None, :] + bias[place]
        logits = logits + noise * rng.standard_normal(logits.shape, dtype=np.float32)
        q = softmax(logits)
        both = np.take_along_axis(q, inside[:, :, None], axis=1)
        pair, apart = both.mean(axis=1), np.abs(both[:, 0] - both[:, 1]).sum(axis=1) / 2
        if len(orders) == 2:
            return pair, pair, apart
        others = (q.sum(axis=1) - 2 * pair) / (len(orders) - 2)
        return share * pair + (1 - share) * others, pair, apart


# -- what respondents believe ------------------------------------------------------------------


def normal(p: np.ndarray) -> np.ndarray:
    return p / p.sum(axis=1, keepdims=True)


def drawn(
    outcome: Outcome,
    size: float,
    rng: np.random.Generator,
    lost: float = 0.25,
    unlike: float = 0.0,
    sampled: float = 0.0,
) -> np.ndarray:
    """Believe what a respondent of a random kind does, wrong by about `size`.

    Slope over conditions, sharpness over levels, and errors of the scale, the outcome, tasks,
    values and cells, each of its own random share; now and then nothing of how cells differ.

    Parameters
    ----------
    outcome : Outcome
    size : float
    rng : Generator
    lost : float
        Probability of being, in part or wholly, at a loss.
    unlike : float
        Standard deviation of the logarithm of how much more is wrong in one task than in another.
    sampled : float
        Sampling errors as those of the survey, times this.
    """
    log_p, log_m = np.log(np.maximum(outcome.p, TINY)), np.log(np.maximum(outcome.mean, TINY))
    levels, cells = log_p.shape[1], len(log_p)
    shares = 2 * size * rng.dirichlet(np.full(7, 0.3))
    slope = 0.0 if rng.random() < 0.05 else max(0.0, 1 + shares[0] * rng.normal())
    sharp = float(np.exp(min(shares[1], 1.5) * rng.normal()))
    logits = sharp * (log_m + slope * (log_p - log_m))
    logits = logits + shares[2] * rng.normal() * np.linspace(-1, 1, levels)
    logits = logits + shares[3] * rng.normal(size=levels)
    logits = logits + shares[4] * rng.normal(size=(len(outcome.truths), levels))[outcome.task]
    for values in outcome.values:
        effects = rng.normal(size=(values.max() + 1, levels))
        logits = logits + shares[5] * effects[values] / np.sqrt(len(outcome.values))
    if unlike:
        more = np.exp(unlike * rng.normal(size=(len(outcome.truths), 1)))[outcome.task]
        logits = log_p + more * (logits - log_p)
    noise = np.hypot(shares[6], sampled * outcome.sampling)
    believed = softmax(logits + noise * rng.normal(size=(cells, levels)))
    if rng.random() < lost:
        mixed = 1.0 if rng.random() < 0.6 else rng.random()
        believed = (1 - mixed) * believed + mixed / levels
    return believed


def bias_of(levels: int, size: float, rng: np.random.Generator) -> np.ndarray:
    """A preference for displayed positions: a lean to one end, and of each place its own."""
    return size * (rng.normal() * np.linspace(-1, 1, levels) + 0.5 * rng.normal(size=levels))


def mixed(outcome: Outcome, q: np.ndarray, share: float) -> np.ndarray:
    return (1 - share) * outcome.p + share * q


def powered(p: np.ndarray, power: float) -> np.ndarray:
    return normal(np.maximum(p, TINY) ** power)


def tilted(outcome: Outcome, strength: float) -> np.ndarray:
    """Lean to the last levels of a scale by so many standard deviations of their number."""
    z = np.arange(outcome.p.shape[1], dtype=float)
    return normal(outcome.p * np.exp(strength * (z - z.mean()) / z.std()))


def overstated(outcome: Outcome, by: float) -> np.ndarray:
    """Make more of how cells differ, in log-probabilities."""
    log_m = np.log(np.maximum(outcome.mean, TINY))
    return softmax(log_m + by * (np.log(np.maximum(outcome.p, TINY)) - log_m))


def noisy(outcome: Outcome, size: float, rng: np.random.Generator) -> np.ndarray:
    return normal(outcome.p * np.exp(size * rng.standard_normal(outcome.p.shape)))


def population(outcome: Outcome, rng: np.random.Generator) -> np.ndarray:
    """The truth as another sample of the survey finds it."""
    parts = []
    number = int(rng.integers(2**31))
    for truth in outcome.truths:
        replicates = truth.replicates
        exact = replicates is None or not len(replicates)
        parts.append(truth.p if exact else replicates[number % len(replicates)])
    return np.concatenate(parts)


#: What has no part in choosing: classes of `claims.md`, from an outcome and a random generator.
TESTED = {
    "knows the population": population,
    "noise .05": lambda o, rng: noisy(o, 0.05, rng),
    "noise .1": lambda o, rng: noisy(o, 0.1, rng),
    "noise .3": lambda o, rng: noisy(o, 0.3, rng),
    "noise 1": lambda o, rng: noisy(o, 1.0, rng),
    "tilt up": lambda o, rng: tilted(o, 0.3),
    "tilt down": lambda o, rng: tilted(o, -0.3),
    "flattened": lambda o, rng: powered(o.p, 0.5),
    "overstated": lambda o, rng: overstated(o, 2.0),
    "sharpened": lambda o, rng: powered(o.p, 2.0),
    "knows averages only": lambda o, rng: np.broadcast_to(o.mean, o.p.shape).copy(),
    "half uniform": lambda o, rng: mixed(o, np.full_like(o.p, 1 / o.p.shape[1]), 0.5),
    "uniform": lambda o, rng: np.full_like(o.p, 1 / o.p.shape[1]),
    "commonest answer": lambda o, rng: np.eye(o.p.shape[1])[[o.mean.argmax()] * len(o.p)],
}


#: D / D_zero of the 61 tasks in which SmolLM2-135M-Instruct scores 0 (docs/results/real-model): the
#: shares of them, and their quantiles.
BEYOND = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1), (1.0, 1.01, 1.03, 2.18, 3.17, 6.33, 20.53)


def to_scores(outcome: Outcome, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Err in a random way, in each task by as much as its score says.

    ``log q = log p + t (log e - log p)``, with e what a respondent of a random kind believes; t is
    found by bisection. A score of 0 is a distance beyond that which scores 0 by a factor
    `BEYOND`, one for the outcome; a score of 100 anything below D_perfect; where e does not lead so
    far, as far as t = 4.
    """
    log_p = np.log(np.maximum(outcome.p, TINY))
    moved = np.log(np.maximum(drawn(outcome, 1.5, rng), TINY)) - log_p
    aims, beyond = [], float(np.interp(rng.random(), *BEYOND))
    for score, a in zip(scores, outcome.anchors, strict=True):
        u = rng.random()
        inside = a.zero - score / 100 * (a.zero - a.perfect)
        aims.append(a.zero * beyond if score <= 0 else a.perfect * u if score >= 100 else inside)
    low, high = np.zeros(len(aims)), np.full(len(aims), 4.0)
    for _ in range(14):
        middle = (low + high) / 2
        q = softmax(log_p + middle[outcome.task][:, None] * moved)
        far = outcome.of_tasks(outcome.distances(q)) > np.array(aims)
        low, high = np.where(far, low, middle), np.where(far, middle, high)
    return softmax(log_p + low[outcome.task][:, None] * moved)
