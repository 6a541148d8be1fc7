"""What lm-eval calls: the questions of a task, and the reading of one prompt's answer."""

from __future__ import annotations

import logging
import math
import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lm_eval_epidemia import notices
from lm_eval_epidemia.elicit.answers import Answer, Estimate, Reply, Statement
from lm_eval_epidemia.elicit.modes import Mode, in_mode
from lm_eval_epidemia.elicit.replies import letter
from lm_eval_epidemia.elicit.splits import split
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.harness.pin import check_lm_eval
from lm_eval_epidemia.harness.yamls import ASKED

if TYPE_CHECKING:
    import datasets

__all__ = [
    "load",
    "process_likelihood",
    "process_results",
    "process_sampled",
    "process_written",
]


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
    epidemia_variant: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, datasets.Dataset]:
    """Give lm-eval the questions of a task (`custom_dataset`).

    Parameters
    ----------
    epidemia_task : str
        From `dataset_kwargs` of the task file: the task's name without suffix.
    epidemia_mode : str
        From the same place: the way of asking, see `elicit.modes`.
    epidemia_variant : dict, optional
        From the same place: the part of the variant that the task file follows.
    **metadata
        ``--metadata``, from which the variant is read, and what else lm-eval passes along: the
        task's own metadata and the model's arguments.
    """
    # lm-eval loads all tasks of a run before it scores any: the next model gets its own warnings.
    notices.forget()
    check_lm_eval()
    variant, name = Variant.of(metadata), in_mode(epidemia_task, epidemia_mode)
    if variant.in_task_files != (epidemia_variant or {}):
        raise EpidemiaError(
            f"--metadata asks for {variant.in_task_files}, but the file of {name} was "
            f"written for {epidemia_variant or 'neither'}: these need the start-up hook (unset "
            "EPIDEMIA_AUTOLOAD) or 'epidemia run', and no --include_path to our files"
        )
    return {name: split(epidemia_task, epidemia_mode, variant)}


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
        **_asked(doc),
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
        **_asked(doc),
        level=int(doc["level"]),
        logprobs=_logprobs(results),
    )
    return _for_metrics(estimate, "likelihood")


def process_sampled(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Read one written answer; see `process_results`."""
    reply = Reply(
        **_asked(doc),
        order=tuple(doc["order"]),
        sample=int(doc["sample"]),
        n_samples=int(doc["n_samples"]),
        position=letter(results[0], len(doc["order"])),
    )
    return dict.fromkeys(ASKED["sampled"].metrics, reply)


def process_written(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Read one written probability; see `process_results`."""
    statement = Statement(
        **_asked(doc),
        level=int(doc["level"]),
        interval=letter(results[0], len(doc["choices"])),
    )
    return dict.fromkeys(ASKED["closed"].metrics, statement)


def _asked(doc: dict[str, Any]) -> dict[str, Any]:
    """What every kind of answer keeps of the row it was asked from."""
    return {"task": doc["task"], "truth": doc["truth"], "cell": int(doc["cell"])}


def _logprobs(results: Sequence[tuple[float, bool]]) -> tuple[float, ...]:
    try:
        return tuple(float(logprob) for logprob, _ in results)
    except (TypeError, ValueError):
        raise EpidemiaError(
            f"the model answered {reprlib.repr(results)}: expected a log-probability and whether "
            "it is greedy, (float, bool), for each letter"
        ) from None


def _for_metrics(answer: Answer | Estimate, mode: Mode) -> dict[str, Any]:
    """Give every metric of the task file the answer, and `choice_mass` its number."""
    try:
        mass = math.fsum(math.exp(logprob) for logprob in answer.logprobs)
    except OverflowError:  # nothing a model can mean: the metrics will say so
        mass = math.inf
    return {**dict.fromkeys(ASKED[mode].metrics, answer), "choice_mass": mass}
