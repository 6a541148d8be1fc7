"""``sampled``: as letters, but the model writes its answer, many times for each cell."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.observation.letters import Letters
from lm_eval_epidemia.benchmarks.observation.response import Response, response_to
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.orderings import SEED
from lm_eval_epidemia.elicit.prompts import ONE_LETTER, prompt
from lm_eval_epidemia.elicit.replies.letters import letter
from lm_eval_epidemia.elicit.responses import WRITTEN, uneven
from lm_eval_epidemia.elicit.variants import MOST_SAMPLES, Variant
from lm_eval_epidemia.elicit.way import Elicited, Metric
from lm_eval_epidemia.estimate.store import GroundTruth


def written_by_position(answers: Sequence[Response]) -> Array | None:
    """Return the share of each displayed position among the letters written; None without one."""
    written = [answer.order.index(answer.value) for answer in answers if answer.is_read]
    if not written:
        return None
    counts = np.bincount(written, minlength=len(answers[0].order)).astype(float)
    shares: Array = counts / counts.sum()
    return shares


def order_bias(answers: Sequence[Response]) -> float:
    """Position bias: total variation distance of the letters written from uniform, in [0, 1).

    NaN when none could be read. Letters are drawn, so it is above 0 by chance too.
    """
    shares = written_by_position(answers)
    return math.nan if shares is None else uneven(shares)


class Sampled(Letters):
    """As `Letters`, but the model writes its answer, many times for each cell."""

    name = "sampled"
    suffix = "_sampled"
    columns = {"order": ["int8"], "sample": "int32", "n_samples": "int32", "choices": ["string"]}
    prompts_are = "answers"
    diagnostics = {**WRITTEN, "order_bias": Metric(False, 0, 1, order_bias)}
    request = ONE_LETTER
    temperature = 1.0
    # As many answers as a run wants: only the package makes these.
    exported = False
    revision = 1

    def rows(self, truth: GroundTruth, variant: Variant) -> Iterator[dict[str, Any]]:
        """Ask each cell as often as answers are wanted, each time in a random ordering of its own.

        The number of the interview makes every text different: lm-eval stores responses by text,
        and would give all answers to the same text the same response when a run is taken up again.
        """
        levels, number = len(truth.levels), variant.n_samples
        key = zlib.crc32(truth.task.encode())
        for cell, asked in enumerate(self.questions(truth, variant)):
            rng = np.random.default_rng([SEED, key, cell])
            # Row by row: the first hundred of two hundred are those of a run with one hundred.
            orders = rng.permuted(np.tile(np.arange(levels), (number, 1)), axis=1)
            for sample, order in enumerate(orders.tolist(), start=1):
                answers = [truth.levels[level] for level in order]
                text = prompt(asked, answers, f"(Interview {sample})", ONE_LETTER)
                row = {"cell": cell, "order": order, "sample": sample}
                yield {**row, "n_samples": number, "prompt": text}

    def read(self, row: Any, responses: Sequence[Any]) -> Response:
        """Read the letter that was written: the level that it stands for."""
        position = letter(str(responses[0]), len(row.order))
        level = None if position is None else row.order[position]
        more = {"order": row.order, "design": row.n_samples}
        return response_to(self.name, row, row.sample - 1, level, **more)

    def prompts(self, truth: GroundTruth, first: Response) -> int:
        return int(first.design)

    def check(self, answer: Response, first: Response, truth: GroundTruth) -> None:
        """Refuse what is no ordering of the levels, and another number of answers."""
        sample, number, levels = answer.place + 1, int(answer.design), len(truth.levels)
        if answer.design != first.design:
            raise ValueError("it was asked in another way than the first")
        if sorted(answer.order) != list(range(levels)):
            raise ValueError(f"the order {list(answer.order)} is not one of {levels} answers")
        if not 1 <= sample <= number <= MOST_SAMPLES:
            raise ValueError(f"answer {sample} of {number}")

    def distribution(self, values: Array, first: Response, levels: int) -> Elicited:
        """Count the answers; one that could not be read stands for all levels alike."""
        numbers = np.where(np.isnan(values), levels, values)
        counts = (numbers[:, :, None] == np.arange(levels + 1)).sum(axis=1)
        shares = counts / counts.sum(axis=1, keepdims=True)
        return Elicited(shares[:, :-1] + shares[:, -1:] / levels, counts=counts)

    def by_position(self, answers: Sequence[Response]) -> Array | None:
        return written_by_position(answers)
