"""The answers of one task are collected: by cell and prompt, checked, the complete cells chosen."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.responses import most_mass
from lm_eval_epidemia.elicit.way import Answer, Way

#: Below this mean probability of all letters together, a model does not answer the question.
LOW_MASS = 0.1

#: Below this share of replies with a letter, the score says little about the model's beliefs.
LOW_ANSWERED = 0.9


T = TypeVar("T")


def once(put_together: Callable[[Sequence[Any]], T]) -> Callable[[Sequence[Any]], T]:
    """Keep what came of the answers that were put together last.

    All metrics of a task ask for it, one after the other and with the same answers.
    """
    last: list[tuple[Sequence[Any], T]] = []

    @functools.wraps(put_together)
    def kept(answers: Sequence[Any]) -> T:
        if not (last and _the_same(last[0][0], answers)):
            last[:] = [(list(answers), put_together(answers))]
        return last[0][1]

    return kept


def _the_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether they hold the same objects: comparing what these hold would take longer."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


def installed_truth(way: Way, answers: Sequence[Answer]) -> Any:
    """Return the truth of the task asked, if the questions were made from the installed one."""
    truth = way.load(answers[0].task)
    if stale := {answer.truth for answer in answers} - {truth.fingerprint}:
        raise EpidemiaError(
            f"{way.named(answers[0].task)}: the questions were made from ground truth "
            f"{', '.join(sorted(stale))}, but {truth.fingerprint} is installed: export the dataset "
            "anew ('epidemia export') or install the version of lm-eval-epidemia it was exported "
            "with"
        )
    return truth


def laid_out(answers: Sequence[Answer], shape: tuple[int, int]) -> tuple[Array, NDArray[np.bool_]]:
    """Put answers into the places of their cells and prompts.

    Parameters
    ----------
    answers : sequence of Answer
    shape : (int, int)
        How many cells C there are, and prompts A of each.

    Returns
    -------
    said : ndarray, shape (C, A, ...)
        What was said to each of the A prompts of each cell; NaN where nothing was.
    answered : ndarray of bool, shape (C, A)
    """
    values = np.array([answer.value for answer in answers], dtype=float)
    said, answered = np.full((*shape, *values.shape[1:]), np.nan), np.zeros(shape, dtype=bool)
    places = tuple(np.array([(answer.cell, answer.place) for answer in answers]).T)
    said[places], answered[places] = values, True
    return said, answered


def readable(
    way: Way,
    answers: Sequence[Answer],
    given: Sequence[Sequence[str]],
    said: Array,
    answered: NDArray[np.bool_],
) -> bool:
    """Check what was said: False, with a warning, where no score can come of it.

    Parameters
    ----------
    way : Way
    answers : sequence of Answer
    given : sequence of sequence of str
        What is known in each cell.
    said, answered : ndarray
        As `laid_out` returns them.
    """
    name = way.named(answers[0].task)
    if way.generated:
        _warn_of_silence(name, way.diagnostics["answered"].of(answers), way.unread)
        return True
    with np.errstate(over="ignore"):
        masses = np.exp(said).sum(axis=2)
    unknown = not_finite(name, given, said, answered)
    impossible = (masses > most_mass(said.shape[2])) & answered & ~unknown
    if impossible.any():
        notices.warn(
            "probabilities that sum to more than 1",
            f"{name}: the letters of {int(impossible.sum())} of {int(answered.sum())} prompts have "
            f"probabilities that sum to more than 1, up to {masses[impossible].max():.3g}, "
            f"{_first(impossible, given)}: these are not a model's; its score is NaN. A server "
            "that does not return the log-probabilities of the prompt (echo) gives such",
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


def not_finite(
    name: str, given: Sequence[Sequence[str]], said: Array, answered: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which prompts got log-probabilities that are no numbers, with a warning for any.

    Parameters
    ----------
    name : str
        What the task was asked as.
    given, said, answered
        As of `readable`.

    Returns
    -------
    ndarray of bool, shape (C, A)
    """
    unknown = ~np.isfinite(said).all(axis=2) & answered
    if unknown.any():
        notices.warn(
            "log-probabilities that are not finite",
            f"{name}: {int(unknown.sum())} of {int(answered.sum())} prompts got NaN or infinite "
            f"log-probabilities, {_first(unknown, given)}; its score is NaN",
        )
    return unknown


def _first(bad: NDArray[np.bool_], given: Sequence[Sequence[str]]) -> str:
    cell = int(np.flatnonzero(bad.any(axis=1))[0])
    return f"first in cell {cell} ({', '.join(given[cell])})"


def _warn_of_silence(name: str, share: float, unread: str) -> None:
    """Warn when too few replies held an answer.

    Parameters
    ----------
    name : str
        What the task was asked as.
    share : float
        Of the replies that did, in [0, 1].
    unread : str
        What the others count as.
    """
    if share < LOW_ANSWERED:
        notices.warn(
            "few answers that could be read",
            f"{name}: {share:.0%} of the replies held an answer; the others count as "
            f"{unread} (read them with --log_samples; a model that thinks may need "
            "--gen_kwargs max_gen_toks=8192, a chat model --apply_chat_template)",
        )
