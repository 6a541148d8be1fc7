"""What comes back for one prompt."""

from __future__ import annotations

from typing import NamedTuple

from lm_eval_epidemia.elicit.modes import Mode, asks, in_mode
from lm_eval_epidemia.surveys.record import task as declared

__all__ = ["Answer", "Estimate", "Reply", "Statement"]

#: The ways of asking whose answers are statements.
WRITTEN: tuple[Mode, ...] = ("closed", "rag")


class Answer(NamedTuple):
    """A model's answer to one prompt: the log-probability of each displayed letter.

    Attributes
    ----------
    task : str
    truth : str
        Fingerprint of the ground truth that the prompt was made from.
    cell : int
    order : tuple of int, length K
        Level number at each displayed position.
    design : str
        Which orderings the cell is asked in, see `elicit.orderings`.
    logprobs : tuple of float, length K
        Natural logarithms, by displayed position, not normalised over the letters.
    """

    task: str
    truth: str
    cell: int
    order: tuple[int, ...]
    design: str
    logprobs: tuple[float, ...]

    @property
    def asked_as(self) -> str:
        """What lm-eval calls the task."""
        return self.task


class Estimate(NamedTuple):
    """A model's answer to one question for a probability: the log-probability of each interval.

    Attributes
    ----------
    task : str
    truth : str
        Fingerprint of the ground truth that the prompt was made from.
    cell : int
    level : int
        Level whose probability was asked for.
    logprobs : tuple of float, length 22
        Natural logarithms, not normalised over the letters.
    """

    task: str
    truth: str
    cell: int
    level: int
    logprobs: tuple[float, ...]

    @property
    def asked_as(self) -> str:
        """What lm-eval calls the task."""
        return in_mode(self.task, "likelihood")


class Reply(NamedTuple):
    """One answer that a model wrote to a question.

    Attributes
    ----------
    task : str
    truth : str
        Fingerprint of the ground truth that the prompt was made from.
    cell : int
    order : tuple of int, length K
        Level number at each displayed position.
    sample : int
        Which of the cell's answers this is, from 1.
    n_samples : int
        How many it has.
    position : int or None
        The position whose letter was written; None if none could be read.
    """

    task: str
    truth: str
    cell: int
    order: tuple[int, ...]
    sample: int
    n_samples: int
    position: int | None

    @property
    def asked_as(self) -> str:
        """What lm-eval calls the task."""
        return in_mode(self.task, "sampled")


class Statement(NamedTuple):
    """A probability that a model wrote.

    Attributes
    ----------
    task : str
    truth : str
        Fingerprint of the ground truth that the prompt was made from.
    cell : int
    level : int
        Level whose probability was asked for.
    interval : int or None
        The interval whose letter was written; None if none could be read.
    """

    task: str
    truth: str
    cell: int
    level: int
    interval: int | None

    @property
    def asked_as(self) -> str:
        """What lm-eval calls the task; its rows are the same in both ways, so it may be two."""
        modes = [mode for mode in WRITTEN if asks(mode, declared(self.task))]
        return " or ".join(in_mode(self.task, mode) for mode in modes) or self.task
