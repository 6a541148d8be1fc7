"""Whether stated probabilities are true: they stand in bins beside what a survey measured.

Tasks have equal weight, cells their share of the population, answers of a cell equal weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.findings.cells import group_answers
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.mean import REACH, add_metrics
from lm_eval_epidemia.findings.scales import fit_line
from lm_eval_epidemia.results.decode import LeafKey, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.joint import Draws, correct_bias, cut_noise, draw_beyond, joint_error
from lm_eval_epidemia.score.score import ordering_error

#: Bins of stated probabilities.
BINS = 10

#: What one respondent answered: the asked cells of tasks, and the elicited answers.
Answered = Sequence[tuple[Part, Elicited]]


def calibration(results: Results) -> Finding:
    """Stated probabilities against measured ones: calibration error, tilt and slope of letters.

    Returns
    -------
    Finding
        A row per run over all tasks that it answered by letter; in its details (``part``) a row per
        topic, and per bin of the stated probability: the mean stated ``q`` and measured ``p``, the
        joint error of their difference (``p_error``) and the bin's ``share`` of the weight.
    """
    groups, left_out = group_answers(results, lambda asked: asked.way == "letters")
    asked: dict[int, dict[LeafKey, tuple[Part, Elicited]]] = {}
    for group in groups:
        asked.setdefault(group.run, {}).update(group.tasks)
    beside = ["order_bias", "choice_mass", "answered"]
    scores = add_metrics(results.scores, beside)
    means = scores[scores["way"] == "letters"].groupby("run")[beside].mean()
    rows: list[Mapping[str, object]] = []
    for run, tasks in asked.items():
        topics: dict[str, list[tuple[Part, Elicited]]] = {}
        for key, task in tasks.items():
            facets = dict(leaf(key).entry.facets)
            topics.setdefault(str(facets.get("domain", "other")), []).append(task)
        whole = [*tasks.values()]
        rows.append({"run": run, **means.loc[run], **measure_calibration(whole)})
        rows += [
            {"run": run, "part": topic, **measure_calibration(of)}
            for topic, of in sorted(topics.items())
        ]
        rows += [{"run": run, **row} for row in bin_rows(whole)]
    return make_finding("calibration", rows, results.runs, left_out)


class Binned(NamedTuple):
    """Answers in bins of the stated probability.

    Attributes
    ----------
    share : ndarray, shape (BINS,)
        Of the weight; sums to 1.
    q, p : ndarray, shape (BINS,)
        Stated and measured probabilities times the weight, summed: in an empty bin 0.
    moved : dict of str to ndarray, shape (B, BINS)
        What `p` moves by at the replicates of each sample.
    at : list of ndarray, shape (C * K, BINS)
        Of each task, the weight of each answer in its bin.
    """

    share: Array
    q: Array
    p: Array
    moved: dict[str, Array]
    at: list[Array]


def bin_answers(answered: Answered) -> Binned:
    """Put the answers to some tasks into bins."""
    sums, at = np.zeros((3, BINS)), list[Array]()
    moved: dict[str, Array] = {}
    for part, elicited in answered:
        q = elicited.q.ravel()
        weights = part.weights.repeat(len(q) // len(part.weights)) / len(q) * len(part.weights)
        bins = (q * BINS).astype(int).clip(max=BINS - 1)
        at.append(np.eye(BINS)[bins] * weights[:, None] / len(answered))
        sums += np.stack([np.ones_like(q), q, part.p.ravel()]) @ at[-1]
        if len(part.noise):
            of = part.noise.reshape(len(part.noise), -1) @ at[-1]
            moved[part.truth.sample] = moved.get(part.truth.sample, 0.0) + of
    return Binned(sums[0], sums[1], sums[2], moved, at)


def _asking(answered: Answered, at: Sequence[Array]) -> float:
    """Error from sampled orderings of a sum of stated probabilities, each as often as `at` says."""

    def weigh(of: Array) -> Callable[[Array], Array]:
        return lambda q: q.reshape(len(q), -1) @ of

    errors = [
        ordering_error(told.by_order, weigh(of))
        for (_, told), of in zip(answered, at, strict=True)
        if told.by_order is not None
    ]
    return math.hypot(*errors)


def measure_calibration(answered: Answered) -> dict[str, float]:
    """Return the calibration error of answers, their tilt and slope, with joint errors.

    The calibration error (ECE) is the mean distance of q from p over bins, by their shares. The
    survey's own noise adds to it, and `cut_noise` takes that off, as off a distance from the
    population; what is below 0 counts as 0.
    """
    binned = bin_answers(answered)
    off, moved = binned.q - binned.p, binned.moved

    def total(off: Array) -> Array:
        return np.asarray(np.abs(off).sum(axis=-1))

    # Surveys are independent: replicate b of one goes with replicate b of any other.
    number = min(map(len, moved.values()), default=0)
    again = off - sum(of[:number] for of in moved.values()) if moved else off
    plain = float(total(off))
    asking = _asking(answered, [of @ np.sign(off) for of in binned.at])
    draws = [Draws("", np.empty(0), asking)]
    for sample, of in moved.items():
        at = off - of
        draws.append(Draws(sample, correct_bias(total(at), total(draw_beyond(off, at)))))
    ece = max(float(cut_noise(plain, total(again).mean())), 0.0)
    known = {"ece": ece, "ece_error": joint_error(draws, [1.0] * len(draws)), "ece_plain": plain}
    return {"tasks": len(answered), **known, **fit_line(answered)}


def bin_rows(answered: Answered) -> list[dict[str, object]]:
    """Return a row for each bin that has answers, with the joint error of p - q."""
    binned, rows = bin_answers(answered), list[dict[str, object]]()
    for b in np.flatnonzero(binned.share):
        asking = _asking(answered, [of[:, b] for of in binned.at])
        draws = [Draws(sample, of[:, b]) for sample, of in binned.moved.items()]
        draws.append(Draws("", np.empty(0), asking))
        share = binned.share[b]
        q, p = binned.q[b] / share, binned.p[b] / share
        error = joint_error(draws, [1.0] * len(draws)) / share
        low, high = np.clip([p - REACH * error, p + REACH * error], 0, 1)
        row = {"part": f"{100 * b // BINS} to {100 * (b + 1) // BINS} %", "q": q, "p": p}
        rows.append({**row, "p_error": error, "p_low": low, "p_high": high, "share": share})
    return rows
