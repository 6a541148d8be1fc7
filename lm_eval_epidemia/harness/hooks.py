"""The functions that lm-eval calls: load a task's questions, read the answer to a prompt."""

from __future__ import annotations

import logging
import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lm_eval_epidemia.ask.bounds import is_withheld
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import Metric
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, Way, in_way
from lm_eval_epidemia.benchmarks.benchmark import Measurement
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.written_replies import Tried, choose_reply
from lm_eval_epidemia.score.collect import cache_last


def _is_no_hint(entry: logging.LogRecord) -> bool:
    """Drop the hint that lm-eval logs for every task with a `custom_dataset`.

    It tells of an option that these tasks do not need, once per task; lm-eval's own tasks keep it.
    """
    text = str(entry.msg)
    return not (text.startswith("epidemia_") and "Custom kwargs can be passed" in text)


# This module is imported while lm-eval reads a task file of ours, just before the hint is logged.
logging.getLogger("lm_eval.api.task").addFilter(_is_no_hint)


class Hook:
    """A function named in a task file, which prints as its name.

    lm-eval writes the source text of plain functions into every result file.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{__name__}.{self.name}"

    def __reduce__(self) -> str:
        return self.name  # pickled as what this module calls so


class MeasuredHook(Hook):
    """One of the numbers that a benchmark measures together, by its `measure`."""

    def __init__(self, name: str, measure: Callable[[Sequence[Any]], Measurement], of: str) -> None:
        super().__init__(name, lambda answers: measure(answers).numbers.get(of, math.nan))
        self.measure = measure


def _load(
    epidemia_task: str,
    epidemia_way: str = "letters",
    epidemia_variant: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """Give lm-eval the questions of a task (`custom_dataset`): a split of `datasets`, by name.

    Parameters
    ----------
    epidemia_task : str
        From the task file's `dataset_kwargs`: the task's name without suffix.
    epidemia_way : str
        From the same place: the way of asking, a key of `WAYS`.
    epidemia_variant : dict, optional
        From the same place: the part of the variant that is written in the task file.
    **metadata
        ``--metadata``, which selects the variant, and what else lm-eval passes: the task's own
        metadata and the model's arguments.
    """
    # lm-eval loads all tasks of a run before it scores any: the next model gets its own warnings.
    from lm_eval_epidemia.harness.discovery import check_lm_eval

    notices.forget()
    check_lm_eval()
    variant, name = Variant.of(metadata), in_way(epidemia_task, epidemia_way)
    if variant.in_task_files != (epidemia_variant or {}):
        raise EpidemiaError(
            f"--metadata asks for {variant.in_task_files}, but the task file of {name} is for "
            f"{epidemia_variant or 'neither'}: use the start-up hook (unset EPIDEMIA_AUTOLOAD) or "
            "'epidemia run', and no --include_path to our files"
        )
    # Read for the errors at the end: a damaged file shall be known before the model is asked.
    getattr(WAYS[epidemia_way].load(epidemia_task), "replicates", None)
    return {name: split(epidemia_task, epidemia_way, variant)}


def _process(way: Way, metrics: Mapping[str, Metric]) -> Callable[[Any, Any], dict[str, Any]]:
    def process_results(doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """Read the answer to one prompt; the metrics then combine a task's answers.

        Parameters
        ----------
        doc : dict
            A row of the split.
        results : sequence
            Pairs (float, bool) of a letter's log-probability and whether it is the most likely
            token; or the one text that the model wrote.

        Returns
        -------
        dict
            By metric name, the input of its aggregation.
        """
        if is_withheld(results):
            return {}  # as if it had not been asked
        try:
            answer = way.read(way.of_row(doc), results)
        except ValueError as error:
            name, reply = in_way(doc["task"], way.name), reprlib.repr(results)
            raise EpidemiaError(f"{name}: the model answered {reply}: {error}") from None
        written = results[0] if results else None
        read = {
            name: metric.of_text(str(written))
            if metric.of_text
            else (answer if metric.of_one is None else metric.of_one(answer))
            for name, metric in metrics.items()
        }
        return {**read, "tries": written.tries} if isinstance(written, Tried) else read

    return process_results


def _make_filter(way: Way) -> Callable[..., Any]:
    def filter_fn(resps: Sequence[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[str]:
        """Select the reply that counts among several to each prompt (a filter of lm-eval)."""
        return [choose_reply(way, doc, each) for each, doc in zip(resps, docs, strict=True)]

    return filter_fn


def __getattr__(name: str) -> Hook:
    """Return a hook; only the benchmarks up to its own are imported."""
    while not name.startswith("__") and name not in _made and (hook := next(_more, None)):
        _made[hook.name] = hook
    if name in _made:
        return _made[name]
    if name in ("process_results", "process_written"):
        raise EpidemiaError(
            "these task files are from version 0.1.0: write them again, or leave out --include_path"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _hooks() -> Iterator[Hook]:
    """What task files name: ``load``, and for each way ``process_letters``, ``letters_score``..."""
    yield Hook("load", _load)
    for benchmark in BENCHMARKS.values():
        measure = cache_last(benchmark.measure)
        for name, way in benchmark.ways.items():
            metrics = benchmark.metrics(way)
            yield Hook(f"process_{name}", _process(way, metrics))
            if way.generated:
                yield Hook(f"first_read_{name}", _make_filter(way))
            for of, metric in metrics.items():
                named = f"{name}_{of}"
                yield Hook(named, metric.of) if metric.of else MeasuredHook(named, measure, of)


_made: dict[str, Hook] = {}
_more = _hooks()
