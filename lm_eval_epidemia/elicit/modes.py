"""The ways of asking, what tasks and groups are called in each, and which tasks each asks."""

from __future__ import annotations

from typing import Literal, get_args

from lm_eval_epidemia.surveys.record import Task, official_cells

__all__ = ["CLOSED_CELLS", "GENERATED", "MODES", "Mode", "asks", "in_mode"]

#: ``letters``: the answers in every ordering, their probabilities read from the letters.
#: ``likelihood``: the probability of each answer, asked for with 22 intervals.
#: ``sampled``: as letters, but the model writes its answer, many times per cell.
#: ``closed`` and ``rag``: as likelihood, but the model writes the letter; a subset each.
Mode = Literal["letters", "likelihood", "sampled", "closed", "rag"]

MODES: tuple[Mode, ...] = get_args(Mode)

#: The ways in which the model writes text instead of being asked for log-probabilities.
GENERATED: tuple[Mode, ...] = ("sampled", "closed", "rag")

#: The closed subset: high-dimensional tasks that have at most this many cells with the levels of
#: the official file, so that it is the same for every vintage.
CLOSED_CELLS = 250


def in_mode(name: str, mode: Mode) -> str:
    """Return what lm-eval knows a task or group as: ``..._likelihood``, bare for letters."""
    return name if mode == "letters" else f"{name}_{mode}"


def asks(mode: Mode, task: Task) -> bool:
    """Tell whether a task exists in a way of asking."""
    if mode == "closed":
        return task.kind == "high" and official_cells(task) <= CLOSED_CELLS
    return task.retrieval if mode == "rag" else True
