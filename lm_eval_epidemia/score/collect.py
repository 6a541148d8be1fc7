"""Collect the answers of one task by cell and prompt, check them, and select complete cells."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.ask.responses import most_mass
from lm_eval_epidemia.ask.way import Answer, Way
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError

#: Below this mean probability of all letters together, a model does not answer the question.
LOW_MASS = 0.1

#: Below this share of replies with a letter, the score says little about the model's beliefs.
LOW_ANSWERED = 0.9


T = TypeVar("T")


def cache_last(put_together: Callable[[Sequence[Any]], T]) -> Callable[[Sequence[Any]], T]:
    """Cache the result for the answers collected last.

    All metrics of a task need it, one after the other and with the same answers.
    """
    last: list[tuple[Sequence[Any], T]] = []

    @functools.wraps(put_together)
    def kept(answers: Sequence[Any]) -> T:
        # The same objects: comparing what these hold would take longer.
        if not last or [*map(id, last[0][0])] != [*map(id, answers)]:
            last[:] = [(list(answers), put_together(answers))]
        return last[0][1]

    return kept


class Collected(NamedTuple):
    """The answers of a task by cell and prompt; C cells, A prompts of each.

    Attributes
    ----------
    way : Way
    truth : object
        The installed truth, from which the questions were made.
    said : ndarray, shape (C, A, ...)
        The answer to each of the A prompts of each cell; NaN if there was none.
    answered : ndarray of bool, shape (C, A)
    """

    way: Way
    truth: Any
    said: Array
    answered: NDArray[np.bool_]

    @property
    def name(self) -> str:
        """lm-eval's name of the task."""
        return self.way.named(self.truth.task)


def collect_answers(ways: Mapping[str, Way], answers: Sequence[Answer]) -> Collected:
    """Arrange the answers of a task by the cells of its truth.

    Parameters
    ----------
    ways : mapping of str to Way
        Ways of the benchmark. Their truths have a ``task``, and the cells' conditions in ``given``.
    answers : sequence of Answer
        Of one task, in any order.

    Raises
    ------
    EpidemiaError
        If the questions were made from a truth other than the installed one.
    """
    first = answers[0]
    way = ways[first.way]
    truth = way.load(first.task)
    if stale := {answer.truth for answer in answers} - {truth.fingerprint}:
        raise EpidemiaError(
            f"{way.named(first.task)}: the questions were made from ground truth "
            f"{', '.join(sorted(stale))}, but {truth.fingerprint} is installed: export them again"
        )
    values = np.array([answer.value for answer in answers], dtype=float)
    answered = np.zeros((len(truth.given), way.count_prompts(truth, first)), dtype=bool)
    said = np.full((*answered.shape, *values.shape[1:]), np.nan)
    places = tuple(np.array([(answer.cell, answer.place) for answer in answers]).T)
    said[places], answered[places] = values, True
    return Collected(way, truth, said, answered)


def complete_cells(asked: Collected, cell: str = "cell") -> NDArray[np.bool_]:
    """Return which cells have all their prompts answered, with a warning if none has.

    Parameters
    ----------
    asked : Collected
    cell : str
        The word for a cell in the warning.

    Returns
    -------
    ndarray of bool, shape (C,)
    """
    answered, needed = asked.answered, asked.answered.shape[1]
    complete = np.asarray(answered.all(axis=1))
    if not complete.any():
        notices.warn(
            "no complete cell",
            f"{asked.name}: {int(answered.sum())} of {answered.size} prompts were asked, and "
            f"no {cell} has all its {needed} {asked.way.prompts_are}, so there is no score: "
            "--limit N asks all prompts of N cells",
        )
    return complete


def is_readable(asked: Collected, answers: Sequence[Answer]) -> bool:
    """Check the answers: False, with a warning, if they allow no score."""
    way, name, answered = asked.way, asked.name, asked.answered
    if way.generated:
        if (share := way.diagnostics["answered"].of_answers(answers)) < LOW_ANSWERED:
            notices.warn(
                "few answers that could be read",
                f"{name}: {share:.0%} of the replies contained an answer; the others count "
                f"as {way.unread}",
                " (look at them with --log_samples; a model that thinks may need --gen_kwargs "
                "max_gen_toks=8192, an instruct model needs --apply_chat_template)",
                " (each prompt says how to reply; a truncated reply has no answer: allow a model "
                "that thinks 8,192 tokens or more)",
            )
        return True
    with np.errstate(over="ignore"):
        masses = np.exp(asked.said).sum(axis=2)
    unknown = find_not_finite(asked)
    impossible = (masses > most_mass(asked.said.shape[2])) & answered & ~unknown
    if impossible.any():
        notices.warn(
            "probabilities that sum to more than 1",
            f"{name}: the letters of {int(impossible.sum())} of {int(answered.sum())} prompts "
            f"have probabilities that sum to more than 1, up to {masses[impossible].max():.3g}, "
            f"{_first(impossible, asked)}; its score is NaN. A server that does not return the "
            "log-probabilities of the prompt (echo) causes this",
        )
    if unknown.any() or impossible.any():
        return False
    if (mass := float(masses[answered].mean())) < LOW_MASS:
        notices.warn(
            "low choice_mass",
            f"{name}: the letters together have a probability of only {mass:.3g} on average: the "
            "model rarely answers with one of the answers it is shown",
            " (asked by lm-eval, an instruct model needs --apply_chat_template), or its chat "
            "template ends in a line break, which lm-eval counts as part of the answer (the score "
            "is then correct)",
            ", or the wrong tokens were read: expected ' A' after plain text, 'A' in a chat",
        )
    return True


def find_not_finite(asked: Collected) -> NDArray[np.bool_]:
    """Return which prompts got NaN or infinite log-probabilities, with a warning if any did.

    Returns
    -------
    ndarray of bool, shape (C, A)
    """
    unknown = ~np.isfinite(asked.said).all(axis=2) & asked.answered
    if unknown.any():
        notices.warn(
            "log-probabilities that are not finite",
            f"{asked.name}: {int(unknown.sum())} of {int(asked.answered.sum())} prompts got NaN or "
            f"infinite log-probabilities, {_first(unknown, asked)}; its score is NaN",
        )
    return unknown


def _first(bad: NDArray[np.bool_], asked: Collected) -> str:
    cell = int(np.flatnonzero(bad.any(axis=1))[0])
    return f"first in cell {cell} ({', '.join(asked.truth.given[cell])})"
