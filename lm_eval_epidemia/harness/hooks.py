"""What lm-eval calls: the questions of a task, and the reading of one prompt's answer."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lm_eval_epidemia import notices
from lm_eval_epidemia.elicit.answers import Answer, Estimate
from lm_eval_epidemia.elicit.modes import Mode, in_mode
from lm_eval_epidemia.elicit.splits import likelihood_split, split
from lm_eval_epidemia.harness.yamls import ASKED

if TYPE_CHECKING:
    import datasets

__all__ = ["load", "process_likelihood", "process_results"]


class _NoMetadataHint(logging.Filter):
    """Drop the hint that lm-eval logs for every task with a `custom_dataset`.

    It tells of an option that these tasks do not need, once per task; lm-eval's own tasks keep it.
    """

    def filter(self, entry: logging.LogRecord) -> bool:
        text = str(entry.msg)
        return not (text.startswith("epidemia_") and "Custom kwargs can be passed" in text)


# This module is imported while lm-eval reads a task file of ours, just before the hint is logged.
logging.getLogger("lm_eval.api.task").addFilter(_NoMetadataHint())


def load(
    epidemia_task: str,
    epidemia_mode: Mode = "letters",
    orderings: str | int | None = None,
    **_: Any,
) -> dict[str, datasets.Dataset]:
    """Give lm-eval the questions of a task (`custom_dataset`).

    Parameters
    ----------
    epidemia_task : str
        From `dataset_kwargs` of the task file: the task's name without suffix.
    epidemia_mode : {"letters", "likelihood"}
        From the same place: the way of asking.
    orderings : str or int, optional
        From ``--metadata``: the design of the orderings, see `elicit.orderings`.
    **_
        lm-eval passes the task's metadata and the model's arguments along; they do not matter.
    """
    # lm-eval loads all tasks of a run before it scores any: the next model gets its own warnings.
    notices.forget()
    if epidemia_mode == "letters":
        return {epidemia_task: split(epidemia_task, orderings)}
    return {in_mode(epidemia_task, epidemia_mode): likelihood_split(epidemia_task)}


def process_results(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Read the answer to one prompt; the metrics put a task's answers together.

    Parameters
    ----------
    doc : dict
        A row of the split.
    results : sequence of (float, bool)
        Log-probability of each letter, and whether it is the likeliest token.

    Returns
    -------
    dict
        By metric name what its aggregation needs.
    """
    answer = Answer(
        task=doc["task"],
        truth=doc["truth"],
        cell=int(doc["cell"]),
        order=tuple(doc["order"]),
        design=doc["design"],
        logprobs=_logprobs(results),
    )
    return _for_metrics(answer, "letters")


def process_likelihood(
    doc: dict[str, Any], results: Sequence[tuple[float, bool]]
) -> dict[str, Any]:
    """Read the answer to one question for a probability; see `process_results`."""
    estimate = Estimate(
        task=doc["task"],
        truth=doc["truth"],
        cell=int(doc["cell"]),
        level=int(doc["level"]),
        logprobs=_logprobs(results),
    )
    return _for_metrics(estimate, "likelihood")


def _logprobs(results: Sequence[tuple[float, bool]]) -> tuple[float, ...]:
    return tuple(float(logprob) for logprob, _ in results)


def _for_metrics(answer: Answer | Estimate, mode: Mode) -> dict[str, Any]:
    """Give every metric of the task file the answer, and `choice_mass` its number."""
    mass = math.fsum(math.exp(logprob) for logprob in answer.logprobs)
    return {**dict.fromkeys(ASKED[mode].metrics, answer), "choice_mass": mass}
