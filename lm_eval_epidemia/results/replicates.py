"""Our own part of a result file: draws of each task's metrics, and recorded answers."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.ask.way import Way
from lm_eval_epidemia.benchmarks import WAYS, list_leaves
from lm_eval_epidemia.benchmarks.intervention import INTERVENTION
from lm_eval_epidemia.benchmarks.intervention.metrics import grade_effects
from lm_eval_epidemia.benchmarks.prior import PRIOR, metrics
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
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


class Unusable(Exception):
    """The truth of a task is here but unusable, with the reason."""


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


class RecordedAnswers(NamedTuple):
    """The answers to the prompts of a task, in order.

    Attributes
    ----------
    odds : ndarray, shape (prompts,)
        Log-odds of yes, in nats; 1 or -1 for a written answer. NaN if no answer was asked for or
        could be read.
    asked : ndarray of bool, shape (prompts,)
    """

    odds: Array
    asked: NDArray[np.bool_]


def read_said(text: str, prompts: int, written: bool) -> RecordedAnswers:
    """Read the recorded answers of a task.

    Parameters
    ----------
    text : str
        A number for each prompt, separated by spaces; "-" if it was not asked, "?" if no answer
        could be read.
    prompts : int
        How many the task has.
    written : bool
        Whether answers were written: each is 1 or -1.

    Raises
    ------
    ValueError
        If it is not what `harness` writes, with the reason.
    """
    parts = text.split()
    if len(parts) != prompts:
        raise ValueError(f"{len(parts)} recorded answers, expected {prompts}")
    asked = np.array([part != "-" for part in parts])
    try:
        odds = np.array([math.nan if part in ("-", "?") else float(part) for part in parts])
    except ValueError:
        odds = np.array([math.inf])
    answers = odds[~np.isnan(odds)]
    named = sum(part in ("-", "?") for part in parts) == np.isnan(odds).sum()
    if not named or not (np.abs(answers) <= MOST).all():
        raise ValueError(
            f"the recorded answers are {reprlib.repr(text)}, expected numbers, - and ?"
        )
    if written and not np.isin(answers, (-1, 1)).all():
        raise ValueError(f"the recorded replies are {reprlib.repr(text)}, expected 1, -1, - and ?")
    return RecordedAnswers(odds, asked)


class Keeping(NamedTuple):
    """How to read the recorded answers of a benchmark, and recompute its metrics.

    Attributes
    ----------
    read : callable
        From a line, the truth and the way to the answers; ValueError, with the reason, if `harness`
        does not write such a line.
    again : callable
        From the line, the truth and the answers to metrics by name, including the primary one.
    draws : callable, optional
        From the answers to the draws of the headline metric, if that is not the primary metric
        (whose draws are in the file).
    """

    read: Callable[[str, Any, Way], Any]
    again: Callable[[str, Any, Any], Mapping[str, float]]
    draws: Callable[[Any], Draws | None] = lambda said: None


def _accuracy(_text: str, truth: Any, answers: RecordedAnswers) -> dict[str, float]:
    right = grade_effects(truth, *answers).right
    return {INTERVENTION.primary: float(right.mean()) if len(right) else math.nan}


#: By benchmark.
KEEPING = {
    INTERVENTION.name: Keeping(
        lambda text, truth, way: read_said(text, len(truth.prompts), way.generated), _accuracy
    ),
    PRIOR.name: Keeping(metrics.judge_line, metrics.read_metrics, metrics.win_draws),
}


def headline_draws(name: str, said: Any) -> Draws | None:
    """Return the draws of a task's headline metric from its answers; None without answers."""
    return None if said is None else KEEPING[list_leaves()[name].benchmark.name].draws(said)


def check_said(name: str, text: str, numbers: Mapping[str, float], fingerprint: Any) -> Any:
    """Read the recorded answers of a task, and check its metrics against them.

    Parameters
    ----------
    name : str
        As lm-eval names it.
    text : str
        The line that `harness` keeps.
    numbers : mapping of str to float
        The metrics in the file; the primary one is NaN if answers were not finite.
    fingerprint : optional
        Fingerprint of the truth that the questions were made from.

    Returns
    -------
    object or None
        As from `Keeping.read`; None if its prompts are unknown here.

    Raises
    ------
    ValueError
        As for `Keeping.read`, or if a metric differs.
    Unusable
        If the truth of the task is damaged here.
    """
    known, way = list_leaves()[name], WAYS[list_leaves()[name].way]
    primary = known.benchmark.primary
    if math.isnan(numbers[primary]):
        return None
    try:
        truth = way.load(known.entry.name)
    except EpidemiaError as error:
        raise Unusable(str(error)) from None
    if (fingerprint or truth.fingerprint) != truth.fingerprint:
        return None
    keeping = KEEPING[known.benchmark.name]
    try:
        answers = keeping.read(text, truth, way)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    for metric, again in keeping.again(text, truth, answers).items():
        value = numbers.get(metric, math.nan)
        # What is not known says nothing wrong.
        if math.isnan(value) or (metric != primary and math.isnan(again)):
            continue
        if value != again and not abs(again - value) <= SAME * max(1.0, abs(value)):
            here, there = _short(value), _short(again)
            raise ValueError(
                f"{name}: the {metric} is {here}, but the recorded answers give {there}"
            )
    return answers


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
