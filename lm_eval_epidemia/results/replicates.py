"""Our own part of a result file: draws of each task's metrics, and recorded answers."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping
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
    sample, asking = written.get("sample"), written.get("asking")
    less_bias, uncut = written.get("less_bias", {}), written.get("uncut", {})
    if not isinstance(sample, str):
        raise ValueError(f"sample is {reprlib.repr(sample)}, expected a text")
    if sample and not sample.startswith(f"{survey}_" if survey else ""):
        raise ValueError(f"sample is {reprlib.repr(sample)}, expected one of {survey}")
    if not isinstance(asking, dict):
        raise ValueError(f"asking is {reprlib.repr(asking)}, expected an error per metric")
    if not isinstance(less_bias, dict):
        raise ValueError(f"less_bias is {reprlib.repr(less_bias)}, expected draws per metric")
    if not isinstance(uncut, dict):
        raise ValueError(f"uncut is {reprlib.repr(uncut)}, expected a number per metric")
    draws = {}
    for metric in [key for key in written if key not in _NOT_METRICS]:
        low, high = bounds.get(metric, (-MOST, MOST))
        most, unbiased = max(MOST, high), None
        at = _read_sample(metric, written[metric], sample, most)
        if metric in less_bias and len(at):
            unbiased = _read_sample(metric, less_bias[metric], sample, most)
            if len(unbiased) != len(at):
                raise ValueError(f"{len(at)} and {len(unbiased)} draws of {metric}")
        if len(at) and not (at.min() >= low - ROUNDING and at.max() <= high + ROUNDING):
            given = f"{at.min():g} to {at.max():g}"
            raise ValueError(f"draws of {metric} are {given}, expected {low:g} to {high:g}")
        before = _read_uncut(metric, uncut[metric]) if metric in uncut else None
        draws[metric] = Draws(sample, at, _asking(metric, asking), unbiased, before)
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
    try:
        # A file that was decoded has arrays where its texts were numbers.
        draws = text if isinstance(text, np.ndarray) else np.array(text.split(), dtype=float)
    except (AttributeError, ValueError):
        draws = np.array([math.nan])
    if not (np.abs(draws) <= most).all():
        raise ValueError(f"draws of {metric} are {reprlib.repr(text)}, expected numbers")
    if len(draws) < 2 if sample else len(draws):
        expected = "at least 2" if sample else "none, because there is no sample"
        raise ValueError(f"{len(draws)} draws of {metric}, expected {expected}")
    return draws


def _read_uncut(metric: str, uncut: Any) -> float:
    """Read a number before its cut-off at the ends of the scale."""
    number = isinstance(uncut, (int, float)) and not isinstance(uncut, bool)
    if not (number and abs(uncut) <= MOST):
        raise ValueError(f"{metric}, uncut, is {reprlib.repr(uncut)}, expected a number")
    return float(uncut)


def _asking(metric: str, asking: Mapping[str, Any]) -> float:
    """Read the error from asking; NaN means unknown and stays."""
    error: Any = asking.get(metric)
    number = isinstance(error, (int, float)) and not isinstance(error, bool)
    if not (number and (0 <= error <= MOST or math.isnan(error))):
        given = reprlib.repr(error)
        raise ValueError(f"the error of {metric} from asking is {given}, expected 0 or more")
    return float(error)


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
