"""The ways of asking, and what tasks and groups are called in each."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["MODES", "Mode", "in_mode"]

#: ``letters``: the answers in every ordering, their probabilities read from the letters.
#: ``likelihood``: the probability of each answer, asked for with 22 intervals.
Mode = Literal["letters", "likelihood"]

MODES: tuple[Mode, ...] = get_args(Mode)


def in_mode(name: str, mode: Mode) -> str:
    """Return what lm-eval knows a task or group as: ``..._likelihood``, bare for letters."""
    return name if mode == "letters" else f"{name}_{mode}"
