"""The metrics of tasks that ask for priors: how they compare with samples of real answers.

Task files name them. Each takes the answers of one task, in any order, and returns one number. A
quantity counts if all its repeats were asked. Under ``--limit`` the others are left out, and `seen`
is the share of the task that remains.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.prior import judged
from lm_eval_epidemia.benchmarks.prior.judged import Judged, Stated, mean_of, stated_as
from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES, Quantities
from lm_eval_epidemia.benchmarks.prior.ways import WAYS
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.way import Answer, Metric, Way
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score.joint import Draws

#: What `worth` says of priors worth fewer answers than the smallest sample has, and of those worth
#: more than the largest: numbers, so that lm-eval can write them.
FEWER, MORE = 0.0, SIZES[-1] + 1.0


#: Probabilities closer than this are equal: parameters went through decimal text and back.
_ROUNDING = 1e-9


# Of what was judged, for the metrics and for the report.


def in_quarters(position: Array) -> Array:
    """Return in which quarter of the prior each truth lies.

    Parameters
    ----------
    position : ndarray
        As `Judged.position`; a truth at a quartile lies above it.

    Returns
    -------
    ndarray, shape (..., 4)
        1 in its quarter and 0 in the others; NaN without a prior.
    """
    quarter = np.minimum(np.floor(4 * (position + _ROUNDING)), 3)
    inside = (quarter[..., None] == np.arange(4)).astype(float)
    return np.where(np.isnan(position)[..., None], np.nan, inside)


def below(position: Array, at: float = 0.5) -> Array:
    """Return 1 for truths below a quantile of the prior, 0.5 if equal, else 0; or NaN."""
    off = np.where(np.abs(position - at) <= _ROUNDING, 0, position - at)
    return np.asarray(np.where(np.isnan(position), np.nan, np.heaviside(-off, 0.5)))


def quartile_shares(position: Array) -> Array:
    """Return the shares of truths in the quarters of the priors.

    Parameters
    ----------
    position : ndarray, shape (Q, R)
        As `Judged.position`.

    Returns
    -------
    ndarray, shape (R, 4)
        Shares of the Q truths, for each repeat.
    """
    return mean_of(in_quarters(position), axis=0)


def calibration_error(position: Array) -> float:
    """Return the expected calibration error (ECE), in percentage points, 0 to 37.5.

    Mean over the quarters of |share of truths in the quarter - 25 %|, averaged over repeats. By
    chance alone it is above 0: about ``100 sqrt(3 / (8 pi Q))``, 4.0 points with 74 quantities.
    """
    return float(mean_of(100 * np.abs(quartile_shares(position) - 0.25).mean(axis=1)))


def below_median_of(position: Array) -> float:
    """Return the share of truths below the median of the prior; one at the median counts half."""
    return float(mean_of(below(position).ravel()))


def uncertainty_rank_of(judged: Judged) -> float:
    """Return Spearman's rank correlation of `Judged.uncertainty` and `Judged.ratio`.

    Both are relative to the same baseline, whose error alone correlates them: compare models with
    each other, not with 0. NaN with fewer than three quantities, or if one of the two does not
    vary.
    """
    both = np.column_stack([judged.uncertainty, judged.ratio])
    both = both[np.isfinite(both).all(axis=1)]
    # Values that differ only by rounding are equal: ranks must not depend on the last digit.
    both = np.round(both, 9)
    if len(both) < 3 or (both == both[0]).all(axis=0).any():
        return math.nan
    import pandas as pd  # half of what importing the package would take

    return float(np.corrcoef(pd.DataFrame(both).rank(), rowvar=False)[0, 1])


def worth(win_rates: Array) -> float:
    """Return how many real answers priors are worth: the size at which the win rate falls to 1/2.

    Parameters
    ----------
    win_rates : ndarray, shape (S,)
        Against samples of each of `SIZES`.

    Returns
    -------
    float
        Interpolated linearly in the logarithm of the size. `FEWER` if the win rate is below one
        half from the start, `MORE` if it never is.
    """
    if np.isnan(win_rates).any():
        return math.nan
    if win_rates[0] < 0.5:
        return FEWER
    logs = np.log(SIZES)
    for place, (rate, next_rate) in enumerate(itertools.pairwise(win_rates)):
        if next_rate < 0.5:
            way = (rate - 0.5) / (rate - next_rate)
            return float(np.exp(logs[place] + way * (logs[place + 1] - logs[place])))
    return MORE


def worth_in_words(value: float) -> str:
    """Return a number of answers as text: "<5", ">30", "12.3"."""
    if value == FEWER:
        return f"<{SIZES[0]}"
    return f">{SIZES[-1]}" if value == MORE else f"{value:.1f}"


# Of answers.


class JudgedTask(NamedTuple):
    """The judged answers about the Q quantities of a task that were asked completely.

    Attributes
    ----------
    truth : Quantities
        Those that were asked.
    stated : Stated or ndarray, shape (Q, G)
        The priors; for a grid, the log-probabilities of its points.
    judged : Judged
        Unreadable answers count as the flat prior, and not as wins.
    dropped : Judged
        Unreadable answers are dropped, as in the published numbers. The same for a grid.
    asked : ndarray of bool
        Which quantities of the whole task these are.
    """

    truth: Quantities
    stated: Stated | Array
    judged: Judged
    dropped: Judged
    asked: NDArray[np.bool_]


@collect.once
def known(answers: Sequence[Any]) -> JudgedTask | None:
    """Judge the answers of a task; None, with a warning, if that is impossible.

    Raises
    ------
    EpidemiaError
        If the questions were made from a truth other than the installed one.
    """
    collected = collect.collected(WAYS, answers)
    way, truth, values, whole = collected.way, collected.truth, collected.said, len(collected.said)
    if way.generated:
        collect.readable(collected, answers)
    elif collect.not_finite(collected).any():
        return None
    complete = collect.complete_cells(collected, "quantity")
    if not complete.any():
        return None
    if not complete.all():
        notices.warn(
            "only part of the task was seen",
            f"{collected.name}: {int(complete.sum())} of {whole} quantities were asked "
            "completely; the score is for these",
        )
    stated = stated_as(values) if way.generated else values[:, 0]
    return known_of(truth, stated, complete)


def known_of(truth: Quantities, stated: Stated | Array, asked: NDArray[np.bool_]) -> JudgedTask:
    """Judge stated priors.

    Parameters
    ----------
    truth : Quantities
        The whole task.
    stated : Stated, of shape (Q, R), or ndarray, shape (Q, G)
    asked : ndarray of bool, shape (Q,)
        Of which quantities.
    """
    part = truth if asked.all() else judged.part_of(truth, asked)
    if not isinstance(stated, Stated):
        counted = judged.judge_grid(part, stated[asked])
        return JudgedTask(part, stated[asked], counted, counted, asked)
    stated = Stated(stated.family[asked], stated.a[asked], stated.b[asked])
    counted = judged.judge(part, stated)
    all_read = counted.answered.min(initial=1) == 1
    dropped = counted if all_read else judged.judge(part, stated, published=True)
    return JudgedTask(part, stated, counted, dropped, asked)


# What was said, in one line.

_INITIALS = {name[0]: number for number, name in enumerate(FAMILIES)}
_UNREAD, _UNASKED = "?", "-"


def _number(value: float) -> str:
    """Write a number so that it reads back as it is, and as short as that allows."""
    return repr(float(value)).removesuffix(".0")


def kept(answers: Sequence[Any]) -> str:
    """Write the answers about all quantities in one line, for the report; `said` reads it.

    Quantities are separated by " | ", in order, and their repeats by ";": "n:100,10", "b:3,5" or
    "l:1.2,0.3"; "?" if nothing could be read, "-" if not asked. For a grid, log-probabilities
    separated by ",".
    """
    return " | ".join(map(";".join, _said_of(answers)))


def _said_of(answers: Sequence[Any]) -> list[list[str]]:
    """Return what was said about every quantity, by repeat."""
    way = WAYS[answers[0].way]
    truth = way.load(answers[0].task)
    texts = {(answer.cell, answer.place): _text(answer.value, way) for answer in answers}
    repeats = range(way.prompts(truth, answers[0]))
    return [
        [texts.get((cell, place), _UNASKED) for place in repeats]
        for cell in range(len(truth.quantities))
    ]


def _text(value: Sequence[float], way: Way) -> str:
    if not way.generated:
        return ",".join(map(_number, value))
    family, a, b = value
    if not math.isfinite(a):
        return _UNREAD
    return f"{FAMILIES[int(family)][0]}:{_number(a)},{_number(b)}"


def said(line: str, truth: Quantities) -> Stated | Array:
    """Read what `kept` wrote.

    Parameters
    ----------
    line : str
    truth : Quantities

    Returns
    -------
    Stated or ndarray
        Priors, shapes (Q, R); for a grid its log-probabilities, shape (Q, G). NaN if not asked or
        not readable: `asked` distinguishes these.

    Raises
    ------
    EpidemiaError
        If the line belongs to another set of quantities, or is damaged.
    """
    if not line.strip():
        raise EpidemiaError("the stored answers are empty: the results are damaged")
    parts = [quantity.split(";") for quantity in line.split(" | ")]
    if len(parts) != len(truth.quantities):
        raise EpidemiaError(
            f"the results have {len(parts)} quantities, but the task has {len(truth.quantities)}: "
            "the results are damaged, or from another version"
        )
    texts = {text for quantity in parts for text in quantity} - {_UNREAD, _UNASKED}
    try:
        if not texts or any(":" in text for text in texts):
            return stated_as(np.array([[_prior(text) for text in replies] for replies in parts]))
        unasked = [math.nan] * len(next(text for text in texts if "," in text).split(","))
        logs = np.array(
            [unasked if text == _UNASKED else [*map(float, text.split(","))] for (text,) in parts]
        )
        if not np.isfinite(logs[[replies != [_UNASKED] for replies in parts]]).all():
            raise ValueError("log-probabilities that are not finite")
        return logs
    except (ValueError, KeyError, StopIteration) as error:
        raise EpidemiaError(
            f"the stored answers in the results cannot be read ({error}): were they edited by hand?"
        ) from None


def _prior(text: str) -> tuple[float, float, float]:
    if text in (_UNREAD, _UNASKED):
        return (math.nan, math.nan, math.nan)
    initial, _, parameters = text.partition(":")
    family = _INITIALS[initial]
    a, b = map(float, parameters.split(","))
    if not families.valid(family, a, b):
        raise ValueError(f"{text} is not a distribution")
    return float(family), a, b


def asked(line: str) -> NDArray[np.bool_]:
    """Return which quantities of a line that `kept` wrote were asked completely, shape (Q,)."""
    return np.array([_UNASKED not in quantity.split(";") for quantity in line.split(" | ")])


# The metrics: functions of what is known here, of answers where lm-eval calls them.

_NUMBERS: dict[str, Callable[[JudgedTask], Any]] = {}
_METRICS: dict[str, Metric] = {}


def numbers_of(known: JudgedTask) -> dict[str, float]:
    """Return every metric, by name; NaN if it belongs to another way of asking."""
    return {name: float(number(known)) for name, number in _NUMBERS.items()}


def draws_of(known: JudgedTask, of: Array) -> Draws | None:
    """Return the draws of a mean over quantities, joint over models.

    One number per quantity of the task: the mean plus the quantity's linearised share in it, scaled
    so that their variance (ddof=1) is that of the mean over the n quantities seen, variance / n.
    None with less than two quantities.

    Parameters
    ----------
    known : JudgedTask
    of : ndarray, shape (n,)
        What is averaged.
    """
    n, whole = len(known.truth.quantities), len(known.asked)
    if n < 2 or not np.isfinite(of).all():
        return None
    at = np.full(whole, of.mean())
    at[known.asked] += (of - of.mean()) * math.sqrt((whole - 1) / (n * (n - 1)))
    return Draws(f"{known.truth.task} {known.truth.fingerprint}", at)


def error_ratio_draws(answers: Sequence[Answer]) -> Draws | None:
    """Return the draws of the error ratio; see `draws_of`."""
    about = known(answers)
    return None if about is None else draws_of(about, about.judged.ratio)


def _metric(
    higher_is_better: bool | None = False, low: float = 0, high: float = math.inf, **more: Any
) -> Callable[[Callable[[JudgedTask], Any]], Callable[[Sequence[Answer]], float]]:
    """Make a metric of a number; `more` is as in `Metric`."""

    def declare(number: Callable[[JudgedTask], Any]) -> Callable[[Sequence[Answer]], float]:
        @functools.wraps(number)
        def metric(answers: Sequence[Answer]) -> float:
            about = known(answers)
            return math.nan if about is None else float(number(about))

        _NUMBERS[number.__name__] = number
        _METRICS[number.__name__] = Metric(metric, higher_is_better, low, high, **more)
        return metric

    return declare


@_metric(draws=error_ratio_draws, cut=False, kept=kept)
def error_ratio(known: JudgedTask) -> Any:
    """Error of the priors' means divided by that of five real answers; mean over quantities."""
    return mean_of(known.judged.ratio)


@_metric()
def error_ratio_stderr(known: JudgedTask) -> Any:
    """Standard error of the error ratio over quantities.

    Quantities also differ by the sampling error of their truths, so this is included.
    """
    draws = draws_of(known, known.judged.ratio)
    with np.errstate(over="ignore"):
        return math.nan if draws is None else draws.at.std(ddof=1)


@_metric()
def error_ratio_published(known: JudgedTask) -> Any:
    """The error ratio without unreadable replies, as in published results."""
    return mean_of(known.dropped.ratio)


def _win_rate(of: str, place: int) -> Callable[[Sequence[Answer]], float]:
    """Make the metric of ``Judged.wins`` or ``Judged.posterior_wins`` against a size of sample."""

    def win_rate(known: JudgedTask) -> Any:
        return mean_of(getattr(known.judged, of)[:, place])

    # lm-eval finds a metric by its name.
    win_rate.__name__ = win_rate.__qualname__ = f"{of.removesuffix('s')}_rate_{SIZES[place]}"
    win_rate.__doc__ = (
        f"Share of quantities whose {'prior' if of == 'wins' else 'posterior'} has a smaller error "
        f"than {SIZES[place]} real answers."
    )
    return _metric(True, high=1)(win_rate)


for _of, _place in itertools.product(("wins", "posterior_wins"), range(len(SIZES))):
    _made = _win_rate(_of, _place)
    globals()[_made.__name__] = _made


@_metric()
def crps(known: JudgedTask) -> Any:
    """Mean CRPS in units of the standard deviation between people."""
    return mean_of(known.judged.crps / known.truth.column("marginal_sd"))


@_metric()
def crps_ratio(known: JudgedTask) -> Any:
    """Mean ratio of the CRPS of priors to that of posteriors from five real answers."""
    return mean_of(known.judged.crps_ratio)


@_metric()
def crps_ratio_published(known: JudgedTask) -> Any:
    """The CRPS ratio without unreadable replies."""
    return mean_of(known.dropped.crps_ratio)


@_metric(None, high=37.5)
def ece(known: JudgedTask) -> Any:
    """Mean absolute difference from 25 % of the share of truths per quarter of the priors.

    Neither end is best: stating the truth gives 34, and knowing only how people differ gives 8.
    """
    return calibration_error(known.judged.position)


@_metric(None, high=1)
def below_median(known: JudgedTask) -> Any:
    """Share of truths below the stated median; above 1/2 if priors are too high."""
    return below_median_of(known.judged.position)


@_metric(True, -1, 1)
def uncertainty_rank(known: JudgedTask) -> Any:
    """Rank correlation of stated uncertainty and error, both relative to five real answers."""
    return uncertainty_rank_of(known.judged)


@_metric(True, FEWER, MORE)
def worth_samples(known: JudgedTask) -> Any:
    """How many real answers a prior is worth; 0 means fewer than 5, 31 means more than 30."""
    return worth(mean_of(known.judged.wins, axis=0))


def seen(answers: Sequence[Answer]) -> float:
    """Share of the quantities that were asked completely; 1 without ``--limit``."""
    texts = _said_of(answers)
    return sum(_UNASKED not in repeats for repeats in texts) / len(texts)


# Where none was there is nothing known, and the share is 0.
_NUMBERS["seen"] = lambda known: known.asked.mean()
_METRICS["seen"] = Metric(seen, True, 0, 1)


@_metric(high=1)
def end_mass(known: JudgedTask) -> Any:
    """Mean probability of the two ends of the grid, which include all values beyond."""
    if isinstance(known.stated, Stated):
        return math.nan
    p = np.exp(known.stated - np.logaddexp.reduce(known.stated, axis=1, keepdims=True))
    return (p[:, 0] + p[:, -1]).mean()


def metrics_of(way: Way) -> dict[str, Metric]:
    """Return the metrics of a way of asking, by name."""
    # Of a grid nothing is unread, so nothing is dropped.
    others = "end_mass" if way.generated else "_published"
    metrics = {name: metric for name, metric in _METRICS.items() if not name.endswith(others)}
    return {**metrics, **way.diagnostics}
