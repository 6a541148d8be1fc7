"""What comes back for one prompt."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Answer"]


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
    logprobs : tuple of float, length K
        Natural logarithms, by displayed position, not normalised over the letters.
    """

    task: str
    truth: str
    cell: int
    order: tuple[int, ...]
    logprobs: tuple[float, ...]
