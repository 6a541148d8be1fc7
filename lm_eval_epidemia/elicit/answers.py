"""What comes back for one prompt."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Answer", "Estimate"]


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
