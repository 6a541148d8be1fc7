"""Our own part of a result file: draws of each task's metrics, and recorded answers."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from lm_eval_epidemia.benchmarks.benchmark import Kept
from lm_eval_epidemia.score.joint import Draws

Bounds = tuple[float, float]

#: No draw or error of a metric is larger.
MOST = 1e9

#: Where a metric has no upper bound. Their squares are still numbers, and the sum of these.
ENDLESS = 1e150

#: What rounding may add to a bound.
ROUNDING = 1e-3

#: What may be between a metric and that of what was said, which was written exactly.
SAME = 1e-4


class OwnSection(msgspec.Struct):
    """Our own part of a result file.

    Attributes
    ----------
    replicates : dict of str to dict
        By task: ``sample``, the sample of the replicates; every metric with draws, as
        space-separated numbers; ``less_bias``, by metric, draws of the number minus its bias;
        ``asking``, by metric, its standard error from asking alone.
    said : dict of str to str
        By task, the answers to its prompts, if its benchmark keeps them.
    """

    replicates: dict[str, dict[str, Any]] = {}
    said: dict[str, str] = {}


#: What is written beside the draws of metrics.
_NOT_METRICS = ("sample", "asking", "less_bias", "uncut")


def read_draws(
    written: Mapping[str, Any], survey: str, bounds: Mapping[str, Bounds]
) -> dict[str, Draws]:
    """Read the draws of one task, by metric.

    Parameters
    ----------
    written : mapping
    survey : str
        The task's survey, which the replicates must come from; empty if it has none.
    bounds : mapping of str to (float, float)
        Cut-offs, by metric.

    Raises
    ------
    ValueError
        If they are not what `harness` writes, with the reason.
    """
    sample = written.get("sample")
    if not isinstance(sample, str):
        raise ValueError(f"sample is {reprlib.repr(sample)}, expected a text")
    if sample and not sample.startswith(f"{survey}_" if survey else ""):
        raise ValueError(f"sample is {reprlib.repr(sample)}, expected one of {survey}")
    asking, less_bias, uncut = (
        _check_parts(written, name, expected)
        for name, expected in (
            ("asking", "an error per metric"),
            ("less_bias", "draws per metric"),
            ("uncut", "a number per metric"),
        )
    )
    draws = {}
    for metric in [key for key in written if key not in _NOT_METRICS]:
        low, high = bounds.get(metric, (-MOST, MOST))
        most, unbiased, before = max(MOST, high), None, None
        at = _read_sample(metric, written[metric], sample, most)
        if metric in less_bias and len(at):
            unbiased = _read_sample(metric, less_bias[metric], sample, most)
            if len(unbiased) != len(at):
                raise ValueError(f"{len(at)} and {len(unbiased)} draws of {metric}")
        if len(at) and not (at.min() >= low - ROUNDING and at.max() <= high + ROUNDING):
            given = f"{at.min():g} to {at.max():g}"
            raise ValueError(f"draws of {metric} are {given}, expected {low:g} to {high:g}")
        if metric in uncut:  # before its cut-off at the ends of the scale
            before = _check_number(f"{metric}, uncut,", uncut[metric], -MOST, "a number")
        error = asking.get(metric)
        if not (isinstance(error, float) and math.isnan(error)):  # which means unknown
            error = _check_number(f"the error of {metric} from asking", error, 0, "0 or more")
        draws[metric] = Draws(sample, at, error, unbiased, before)
    return draws


def check_kept(kept: Kept, numbers: Mapping[str, float], primary: str) -> Kept:
    """Check the metrics in a file against those of the recorded answers.

    Raises
    ------
    ValueError
        If a metric differs.
    """
    for metric, again in kept.numbers.items():
        value = numbers.get(metric, math.nan)
        # What is not known says nothing wrong.
        if math.isnan(value) or (metric != primary and math.isnan(again)):
            continue
        if value != again and not abs(again - value) <= SAME * max(1.0, abs(value)):
            here, there = _short(value), _short(again)
            raise ValueError(f"the {metric} is {here}, but the recorded answers give {there}")
    return kept


def _short(value: float) -> str:
    return f"{value:.4f}" if abs(value) < MOST else f"{value:.4g}"


def _read_sample(metric: str, text: Any, sample: str, most: float) -> np.ndarray:
    """Read draws: at least two for a sample, none for an exact table, whose sample has no name."""
    draws = np.array([math.nan])
    if isinstance(text, str) and "," not in text:
        with suppress(ValueError):  # far faster than to split
            numbers = msgspec.json.decode(f"[{text.replace(' ', ',')}]", type=list[float])
            draws = np.array(numbers)
    if not (np.abs(draws) <= most).all():
        raise ValueError(f"draws of {metric} are {reprlib.repr(text)}, expected numbers")
    if len(draws) < 2 if sample else len(draws):
        expected = "at least 2" if sample else "none, because there is no sample"
        raise ValueError(f"{len(draws)} draws of {metric}, expected {expected}")
    return draws


def _check_parts(written: Mapping[str, Any], name: str, expected: str) -> dict[str, Any]:
    """Return what is written by metric; of errors of asking it has to be there."""
    parts = written.get(name, None if name == "asking" else {})
    if not isinstance(parts, dict):
        raise ValueError(f"{name} is {reprlib.repr(parts)}, expected {expected}")
    return parts


def _check_number(what: str, value: Any, least: float, expected: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and least <= value <= MOST):
        raise ValueError(f"{what} is {reprlib.repr(value)}, expected {expected}")
    return float(value)


def count_draws(draws: Iterable[Draws], known: Mapping[str, int]) -> dict[str, int]:
    """Return the number of draws of each sample, including those already known.

    Raises
    ------
    ValueError
        If the numbers differ for one sample, whose replicates are the same.
    """
    numbers = dict(known)
    for sample, at in ((of_task.sample, of_task.at) for of_task in draws):
        if numbers.setdefault(sample, len(at)) != len(at):
            raise ValueError(f"{len(at)} and {numbers[sample]} draws of one sample ({sample})")
    return numbers


def find_conflicts(samples: Iterable[str]) -> set[str]:
    """Return the samples of one survey and vintage that have different replicates.

    Errors of their tasks cannot be combined: they are neither joint nor independent. The name of a
    sample is survey and vintage, a space, and the hash of its replicates.
    """
    known = {sample for sample in samples if sample}
    whose = [sample.split(" ")[0] for sample in known]
    return {sample for sample in known if whose.count(sample.split(" ")[0]) > 1}
