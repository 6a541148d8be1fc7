"""``closed`` and ``rag``: as likelihood, but the model writes the letter; a subset each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.observation.likelihood import Likelihood
from lm_eval_epidemia.benchmarks.observation.response import Response, response_to
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.intervals import MIDPOINTS, distribution
from lm_eval_epidemia.elicit.prompts import ONE_LETTER
from lm_eval_epidemia.elicit.replies.letters import letter
from lm_eval_epidemia.elicit.responses import WRITTEN
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.surveys.catalogue import official_cells
from lm_eval_epidemia.surveys.record import Task

#: The closed subset: high-dimensional tasks that have at most this many cells with the levels of
#: the official file, so that it is the same for every vintage.
CLOSED_CELLS = 250


class Written(Likelihood):
    """As `Likelihood`, but the model writes the letter of an interval."""

    diagnostics = WRITTEN
    expects = False
    request = ONE_LETTER
    # A probability is written once, as the model thinks most likely.
    temperature = 0.0
    revision = 1

    def read(self, row: Any, responses: Sequence[Any]) -> Response:
        """Read the letter that was written: the middle of its interval."""
        interval = letter(str(responses[0]), len(row.choices))
        middle = None if interval is None else float(MIDPOINTS[interval])
        return response_to(self.name, row, row.level, middle)

    def distribution(self, values: Array, first: Response, levels: int) -> Elicited:
        """Take the intervals' middles; a cell with an answer that could not be read is uniform."""
        silent = np.isnan(values).any(axis=1, keepdims=True)
        return Elicited(np.where(silent, 1 / levels, distribution(np.nan_to_num(values), levels)))


class Closed(Written):
    """The closed subset."""

    name = "closed"
    suffix = "_closed"

    def asks(self, task: Task) -> bool:
        return task.kind == "high" and official_cells(task) <= CLOSED_CELLS


class Rag(Written):
    """The subset whose conditions can be looked up."""

    name = "rag"
    suffix = "_rag"

    def asks(self, task: Task) -> bool:
        return task.retrieval
