"""The ways of asking: a file each, and one line each in the table below.

A `Way` says what the prompts are, how a response is read, and how the answers of a task become a
distribution. Task files, hooks, samples, export, cost, report and site go through the table.
"""

from lm_eval_epidemia.elicit.ways import (
    grid,
    intervention,
    letters,
    likelihood,
    priors,
    sampled,
    stated,
    written,
)
from lm_eval_epidemia.elicit.ways.way import Answer, Way

__all__ = ["WAYS", "Way", "asked_as", "in_way"]

#: By name, in the order in which they are listed everywhere.
WAYS: dict[str, Way] = {
    way.name: way
    for way in (
        letters.WAY, likelihood.WAY, sampled.WAY, stated.WAY, written.CLOSED, written.RAG,
        *intervention.ALL, *priors.ALL, grid.WAY,
    )
}  # fmt: skip


def in_way(name: str, way: str) -> str:
    """Return what lm-eval knows a task or group as: ``..._likelihood``, bare in a plain way."""
    return name + WAYS[way].suffix


def asked_as(answer: Answer) -> str:
    """Return what lm-eval calls the task that was asked."""
    return in_way(answer.task, answer.way)
