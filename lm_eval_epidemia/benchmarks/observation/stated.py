"""``stated``: the model writes the whole distribution in one reply, of 100 such people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.ask.orderings import LETTERS, mirrored
from lm_eval_epidemia.ask.prompts import Wording, prompt
from lm_eval_epidemia.ask.replies.shares import normalise_shares, read_shares
from lm_eval_epidemia.ask.responses import WRITTEN
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import Answer, Elicited, Metric
from lm_eval_epidemia.benchmarks.observation.letters import SurveyQuestion, place_of
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.store import GroundTruth

_SUM = "The numbers add up to 100. Write nothing else."

#: What a model is asked for, by the structure that its server holds it to.
REQUESTS = {
    "": f"Reply with one line for each answer: its letter, a colon and the number. {_SUM}",
    "json": "Reply with a JSON object that has the letter of each answer as a key and the number "
    f"as its value. {_SUM}",
}
REQUESTS["regex"] = REQUESTS[""]

#: The largest reported distance of a sum from 100.
FARTHEST = 100.0


def sum_error(answers: Sequence[Answer]) -> float:
    """Mean distance of the numbers' sum from 100; in [0, 100], NaN without numbers.

    Over all replies with a number for every answer, including those whose sum is too far from 100;
    a distance above 100 counts as 100. A group's value is the mean over the tasks that have one.
    """
    sums = [math.fsum(answer.numbers) for answer in answers if answer.numbers is not None]
    if not sums:
        return math.nan
    return float(np.minimum(np.abs(np.array(sums) - 100), FARTHEST).mean())


SUM_ERROR = Metric(False, 0, FARTHEST, sum_error)


def round_to_hundred(p: Array) -> list[int]:
    """Round a distribution to whole numbers of 100 that sum to 100, by the largest remainders.

    Parameters
    ----------
    p : ndarray, shape (K,)

    Returns
    -------
    list of int
        Each less than 1 away from 100 p; together, with u of the K rounded up, at most
        ``2 u (K - u) / K``. Of equal remainders the first is rounded up.
    """
    # Rounded, so that 0.29 * 100, which is a little less than 29, is 29.
    exact = np.round(100 * np.asarray(p, dtype=float), 9)
    whole = np.floor(exact)
    up = np.argsort(whole - exact, kind="stable")[: 100 - int(whole.sum())]
    whole[up] += 1
    return [int(number) for number in whole]


def _lines(p: Array, order: Sequence[int]) -> str:
    numbers, pairs = round_to_hundred(p), zip(LETTERS, order, strict=False)
    return "\n".join(f"{letter}: {numbers[level]}" for letter, level in pairs)


class Stated(SurveyQuestion):
    """The whole distribution in one reply, of each question twice: as listed and reversed."""

    name = "stated"
    suffix = "_stated"
    parted = ("epidemia_low", "epidemia_high")
    columns = {"order": ["int8"], "choices": ["string"]}
    prompts_are = "orderings"
    diagnostics = {**WRITTEN, "sum_error": SUM_ERROR}
    request = REQUESTS[""]
    is_structured = True
    temperature = 0.0
    revision = 1

    def rows(self, truth: GroundTruth, variant: Variant) -> Iterator[dict[str, Any]]:
        """Ask each cell twice, the answers as listed and reversed."""
        wording, request = Wording(truth, variant.wording), REQUESTS[variant.structured]
        for cell in range(len(truth.given)):
            for order in mirrored(len(truth.levels)):
                shown = [truth.levels[level] for level in order]
                text = prompt(wording.question(cell), shown, wording.hundred(), request)
                yield {"cell": cell, "order": list(order), "choices": shown, "prompt": text}

    def structure(self, truth: GroundTruth, variant: Variant) -> dict[str, Any]:
        """Return what a server is asked to hold the reply to, as ``generation_kwargs``."""
        shown = LETTERS[: len(truth.levels)]
        if variant.structured == "regex":
            lines = [rf"{letter}: (100|[1-9]?[0-9])" for letter in shown]
            return {"structured_outputs": {"regex": r"\n".join(lines)}}
        if variant.structured == "json":
            number = {"type": "integer", "minimum": 0, "maximum": 100}
            schema = {
                "type": "object",
                "properties": dict.fromkeys(shown, number),
                "required": list(shown),
                "additionalProperties": False,
            }
            named = {"name": "answer", "strict": True, "schema": schema}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        return {}

    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read the numbers that were written: the share of each level."""
        order, numbers = row.order, read_shares(str(responses[0]), row.choices)
        place = place_of(order, mirrored(len(order)), "neither as listed nor reversed")
        written = (numbers and normalise_shares(numbers)) or (None,) * len(order)
        by_level = tuple(written[order.index(level)] for level in range(len(order)))
        return self.answer(row, by_level, place, order=order, numbers=numbers)

    def choices(self, truth: GroundTruth) -> Sequence[str]:
        return truth.levels

    def count_prompts(self, truth: GroundTruth, first: Answer) -> int:
        return 2

    def check(self, answer: Answer, first: Answer, truth: GroundTruth) -> None:
        """Refuse an ordering of other levels."""
        if len(answer.order) != len(truth.levels):
            raise ValueError(f"the order {list(answer.order)} is neither as listed nor reversed")

    def distribution(self, values: Array, first: Answer, levels: int) -> Elicited:
        """Average over the two orderings; a reply that could not be read is uniform."""
        by_order = np.where(np.isnan(values), 1 / levels, values)
        return Elicited(by_order.mean(axis=1), by_order=by_order)

    def writes(self, belief: Array, row: Any) -> str:
        """Write a distribution as the prompt asks for it, in whole per cents."""
        return _lines(belief, row.order)

    def example(self, truth: GroundTruth, cell: int, rng: np.random.Generator) -> str:
        """Answer a question, in one of its orders, with the truth."""
        wording, order = Wording(truth), mirrored(len(truth.levels))[int(rng.integers(2))]
        shown = [truth.levels[level] for level in order]
        asked = prompt(wording.question(cell), shown, wording.hundred(), REQUESTS[""])
        return f"{asked}\n{_lines(truth.p[cell], order)}"

    def told(self, p: Array) -> Array:
        """Round a distribution to whole per cents."""
        return np.array(round_to_hundred(p)) / 100


WAY = Stated()
