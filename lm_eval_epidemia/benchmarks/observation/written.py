"""``closed`` and ``rag``: as likelihood, but the model writes the letter; a subset each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.observation import likelihood
from lm_eval_epidemia.benchmarks.observation.response import Response, response_to
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.intervals import MIDPOINTS, distribution
from lm_eval_epidemia.elicit.prompts import ONE_LETTER
from lm_eval_epidemia.elicit.replies.letters import letter
from lm_eval_epidemia.elicit.responses import WRITTEN
from lm_eval_epidemia.elicit.way import Elicited, Way
from lm_eval_epidemia.surveys.catalogue import official_cells

#: The closed subset: high-dimensional tasks that have at most this many cells with the levels of
#: the official file, so that it is the same for every vintage.
CLOSED_CELLS = 250


def elicited(values: Array, _first: Response, levels: int) -> Elicited:
    """Take the intervals' middles; a cell with an answer that could not be read is uniform."""
    silent = np.isnan(values).any(axis=1, keepdims=True)
    return Elicited(np.where(silent, 1 / levels, distribution(np.nan_to_num(values), levels)))


def _written(name: str, asks: Any) -> Way:
    def read(row: Any, responses: Sequence[Any]) -> Response:
        interval = letter(str(responses[0]), len(row.choices))
        middle = None if interval is None else float(MIDPOINTS[interval])
        return response_to(name, row, row.level, middle)

    return replace(
        likelihood.WAY,
        name=name,
        suffix=f"_{name}",
        rows=lambda truth, variant: likelihood.rows(truth, variant, ONE_LETTER),
        read=read,
        distribution=elicited,
        expects=False,
        diagnostics=WRITTEN,
        request=ONE_LETTER,
        # A probability is written once, as the model thinks most likely.
        temperature=0.0,
        revision=1,
        asks=asks,
    )


CLOSED = _written(
    "closed", lambda task: task.kind == "high" and official_cells(task) <= CLOSED_CELLS
)
RAG = _written("rag", lambda task: task.retrieval)
