"""Answers of one task against its truth: what every way of asking shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia import notices
from lm_eval_epidemia.distance import Array, distance
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import score as scoring

__all__ = [
    "Part",
    "complete_part",
    "installed_truth",
    "most_mass",
    "readable",
    "share_seen",
    "warn_of_silence",
]

#: Below this mean probability of all letters together, a model does not answer the question.
LOW_MASS = 0.1

#: Below this share of replies with a letter, the score says little about the model's beliefs.
LOW_ANSWERED = 0.9


class Part(NamedTuple):
    """The cells of a task that were answered completely, C' of C.

    Attributes
    ----------
    complete : ndarray of bool, shape (C,)
    weights : ndarray, shape (C',)
        Sums to 1.
    p : ndarray, shape (C', K)
    n_eff : ndarray, shape (C',)
    anchors : Anchors
    """

    complete: NDArray[np.bool_]
    weights: Array
    p: Array
    n_eff: Array
    anchors: scoring.Anchors

    def distance(self, q: Array) -> float:
        return float(distance(self.weights, q, self.p))

    def score(self, q: Array) -> float:
        anchors = self.anchors
        return float(scoring.scale(self.distance(q), anchors.zero, anchors.perfect))

    def sampling_error(self, q: Array) -> float:
        return scoring.sampling_error(self.weights, self.p, q, self.n_eff, self.anchors.perfect)


def installed_truth(answers: Sequence[Any]) -> store.GroundTruth:
    """Return the truth of the task asked, if the questions were made from the installed one."""
    truth = store.load(answers[0].task)
    if stale := {answer.truth for answer in answers} - {truth.fingerprint}:
        raise EpidemiaError(
            f"{answers[0].asked_as}: the questions were made from ground truth "
            f"{', '.join(sorted(stale))}, but {truth.fingerprint} is installed: export the dataset "
            "anew ('epidemia export') or install the version of lm-eval-epidemia it was exported "
            "with"
        )
    return truth


def share_seen(task: str, asked: set[tuple[int, Any]], needed: int) -> float:
    """Return the share of the population in cells all of whose prompts were answered.

    Parameters
    ----------
    task : str
    asked : set of (int, object)
        Cell and which of its prompts.
    needed : int
        Prompts per cell.
    """
    truth = store.load(task)
    complete = np.bincount([cell for cell, _ in asked], minlength=len(truth.weights)) == needed
    # Exactly 1 when nothing is missing, whatever the rounding of the sum.
    return 1.0 if complete.all() else float(truth.weights[complete].sum())


def most_mass(letters: int) -> float:
    """Return the largest sum of a prompt's probabilities that rounding explains; a bit above 1.

    Models in bfloat16 give log-probabilities of 8 significant bits. Log-softmax rounds twice, and
    the sum over a letter's tokens once more, so that l may be off by 3 |l| / 2**8 and p = exp(l)
    read as p ** (1 - 3 / 2**8). K of these, where the p sum to 1 at most, sum to K ** (3 / 2**8) at
    most, when all are equal. lm-eval's `hf` in bfloat16 was seen to give 1.0065 on 22 letters.

    Parameters
    ----------
    letters : int

    Returns
    -------
    float
        1.008 for 2 letters, 1.037 for 22.
    """
    return float(letters ** (3 / 2**8))


def readable(
    name: str, truth: store.GroundTruth, logprobs: Array, answered: NDArray[np.bool_]
) -> bool:
    """Check log-probabilities: False, with a warning, if some are not such.

    Parameters
    ----------
    name : str
        What the task was asked as.
    truth : GroundTruth
    logprobs : ndarray, shape (C, A, letters)
        Of each of the A prompts of each cell.
    answered : ndarray of bool, shape (C, A)
    """
    with np.errstate(over="ignore"):
        masses = np.exp(logprobs).sum(axis=2)
    unknown = ~np.isfinite(logprobs).all(axis=2) & answered
    impossible = (masses > most_mass(logprobs.shape[2])) & answered & ~unknown

    def first(bad: NDArray[np.bool_]) -> str:
        cell = int(np.flatnonzero(bad.any(axis=1))[0])
        return f"first in cell {cell} ({', '.join(truth.given[cell])})"

    if unknown.any():
        notices.warn(
            "log-probabilities that are not finite",
            f"{name}: {int(unknown.sum())} of {int(answered.sum())} prompts got NaN or infinite "
            f"log-probabilities, {first(unknown)}; its score is NaN",
        )
    if impossible.any():
        notices.warn(
            "probabilities that sum to more than 1",
            f"{name}: the letters of {int(impossible.sum())} of {int(answered.sum())} prompts have "
            f"probabilities that sum to more than 1, up to {masses[impossible].max():.3g}, "
            f"{first(impossible)}: these are not a model's; its score is NaN. A server that does "
            "not return the log-probabilities of the prompt (echo) gives such",
        )
    if unknown.any() or impossible.any():
        return False
    if (mass := float(masses[answered].mean())) < LOW_MASS:
        notices.warn(
            "low choice_mass",
            f"{name}: the letters together carry a probability of {mass:.3g} on average; the "
            "model hardly answers the question (try --apply_chat_template, or another prompt), or "
            "its chat template ends in a line break, which lm-eval counts as part of the answer "
            "(then the score is not affected)",
        )
    return True


def warn_of_silence(name: str, share: float) -> None:
    """Warn when too few replies held a letter.

    Parameters
    ----------
    name : str
        What the task was asked as.
    share : float
        Of the replies that did, in [0, 1].
    """
    if share < LOW_ANSWERED:
        notices.warn(
            "few answers that could be read",
            f"{name}: {share:.0%} of the replies held a letter; the others count as 'all "
            "answers equally likely' (read them with --log_samples; a model that thinks may need "
            "--gen_kwargs max_gen_toks=8192, a chat model --apply_chat_template)",
        )


def complete_part(
    name: str, truth: store.GroundTruth, answered: NDArray[np.bool_], prompts: str
) -> Part | None:
    """Select the cells all of whose prompts were answered; None, with a warning, without one.

    Parameters
    ----------
    name : str
        What the task was asked as.
    truth : GroundTruth
    answered : ndarray of bool, shape (C, A)
    prompts : str
        What the A prompts of a cell are, for the warning: "orderings".
    """
    complete = np.asarray(answered.all(axis=1))
    needed = answered.shape[1]
    if not complete.any():
        notices.warn(
            "no complete cell",
            f"{name}: {int(answered.sum())} of {answered.size} prompts were asked and no "
            f"cell has all its {needed} {prompts}, so there is no score; raise --limit to at least "
            f"{needed}",
        )
        return None
    share = truth.weights[complete]
    weights, p, n_eff = share / share.sum(), truth.p[complete], truth.n_eff[complete]
    if complete.all():
        perfect = truth.d_perfect()
    else:
        notices.warn(
            "only part of the task was seen",
            f"{name}: {int(complete.sum())} of {complete.size} cells are complete "
            f"({share.sum():.0%} of the population); the score is theirs alone",
        )
        # The stored bootstrap is of the whole task; for a part of it, draw from the cells.
        drawn = distance(weights, scoring.draw_truths(p, n_eff), p)
        perfect = float(np.quantile(drawn, store.QUANTILE))
    return Part(complete, weights, p, n_eff, scoring.anchors(weights, p, perfect))
