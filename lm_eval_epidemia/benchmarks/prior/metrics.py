"""The metrics of tasks that ask for priors: how they compare with samples of real answers.

A quantity counts if all its repeats were asked. Under ``--limit`` the others are left out, and
`seen` is the share of the task that remains.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.ask.way import Way
from lm_eval_epidemia.benchmarks.benchmark import Kept, Measurement
from lm_eval_epidemia.benchmarks.prior import judged, respondents, ways
from lm_eval_epidemia.benchmarks.prior.judged import FamilyPriors, Judged, make_priors, mean_of
from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES, Quantities
from lm_eval_epidemia.benchmarks.prior.ways import WAYS
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score.estimates import NOTHING, Estimate, pool_clusters
from lm_eval_epidemia.score.joint import Draws

#: What `count_worth` says of priors worth fewer answers than the smallest sample has, and of those
#: worth more than the largest: numbers, so that lm-eval can write them.
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


def is_below(position: Array, at: float = 0.5) -> Array:
    """Return 1 for truths below a quantile of the prior, 0.5 if equal, else 0; or NaN."""
    off = np.where(np.abs(position - at) <= _ROUNDING, 0, position - at)
    return np.asarray(np.where(np.isnan(position), np.nan, np.heaviside(-off, 0.5)))


def calibration_error(position: Array) -> float:
    """Return the expected calibration error (ECE), in percentage points, 0 to 37.5.

    Mean over the quarters of |share of truths in the quarter - 25 %|, averaged over repeats. By
    chance alone it is above 0: about ``100 sqrt(3 / (8 pi Q))``, 4.0 points with 74 quantities.
    """
    return float(mean_of(100 * np.abs(mean_of(in_quarters(position), axis=0) - 0.25).mean(axis=1)))


def below_median_of(position: Array) -> float:
    """Return the share of truths below the median of the prior; one at the median counts half."""
    return float(mean_of(is_below(position).ravel()))


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


def count_worth(win_rates: Array) -> float:
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


# Of answers.


class JudgedTask(NamedTuple):
    """The judged answers about the Q quantities of a task that were asked completely.

    Attributes
    ----------
    truth : Quantities
        Those that were asked.
    stated : FamilyPriors or ndarray, shape (Q, G)
        The priors; for a grid, the log-probabilities of its points.
    judged : Judged
        Unreadable answers count as the flat prior, and not as wins.
    dropped : Judged
        Unreadable answers are dropped, as in the published numbers. The same for a grid.
    asked : ndarray of bool
        Which quantities of the whole task these are.
    """

    truth: Quantities
    stated: FamilyPriors | Array
    judged: Judged
    dropped: Judged
    asked: NDArray[np.bool_]


def judge_task(answers: Sequence[Any]) -> JudgedTask | None:
    """Judge the answers of a task; None, with a warning, if that is impossible.

    Raises
    ------
    EpidemiaError
        If the questions were made from a truth other than the installed one.
    """
    collected = collect.collect_answers(WAYS, answers)
    way, truth, values, whole = collected.way, collected.truth, collected.said, len(collected.said)
    if way.generated:
        collect.is_readable(collected, answers)
    elif collect.find_not_finite(collected).any():
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
    stated = make_priors(values) if way.generated else values[:, 0]
    return judge_stated(truth, stated, complete)


def judge_stated(
    truth: Quantities, stated: FamilyPriors | Array, asked: NDArray[np.bool_]
) -> JudgedTask:
    """Judge stated priors.

    Parameters
    ----------
    truth : Quantities
        The whole task.
    stated : FamilyPriors, of shape (Q, R), or ndarray, shape (Q, G)
    asked : ndarray of bool, shape (Q,)
        Of which quantities.
    """
    part = truth if asked.all() else judged.select_quantities(truth, asked)
    if not isinstance(stated, FamilyPriors):
        counted = judged.judge_grid(part, stated[asked])
        return JudgedTask(part, stated[asked], counted, counted, asked)
    stated = FamilyPriors(stated.family[asked], stated.a[asked], stated.b[asked])
    counted = judged.judge(part, stated)
    all_read = counted.answered.min(initial=1) == 1
    dropped = counted if all_read else judged.judge(part, stated, published=True)
    return JudgedTask(part, stated, counted, dropped, asked)


# What was said, in one line.

_INITIALS = {name[0]: number for number, name in enumerate(FAMILIES)}
_UNREAD, _UNASKED = "?", "-"


def _format_number(value: float) -> str:
    """Write a number so that it reads back as it is, and as short as that allows."""
    return repr(float(value)).removesuffix(".0")


def _format_answers(answers: Sequence[Any]) -> list[list[str]]:
    """Return what was said about every quantity, by repeat.

    In results quantities are separated by " | ", in order, and their repeats by ";": "n:100,10",
    "b:3,5" or "l:1.2,0.3"; "?" if nothing could be read, "-" if not asked. For a grid,
    log-probabilities separated by ",". `read_answers` reads it.
    """
    way = WAYS[answers[0].way]
    truth = way.load(answers[0].task)
    texts = {(answer.cell, answer.place): _text(answer.value, way) for answer in answers}
    repeats = range(way.count_prompts(truth, answers[0]))
    return [
        [texts.get((cell, place), _UNASKED) for place in repeats]
        for cell in range(len(truth.quantities))
    ]


def _text(value: Sequence[float], way: Way) -> str:
    if not way.generated:
        return ",".join(map(_format_number, value))
    family, a, b = value
    if not math.isfinite(a):
        return _UNREAD
    return f"{FAMILIES[int(family)][0]}:{_format_number(a)},{_format_number(b)}"


def read_answers(line: str, truth: Quantities) -> FamilyPriors | Array:
    """Read the line of answers that results keep.

    Parameters
    ----------
    line : str
    truth : Quantities

    Returns
    -------
    FamilyPriors or ndarray
        Priors, shapes (Q, R); for a grid its log-probabilities, shape (Q, G). NaN if not asked or
        not readable: `find_asked` distinguishes these.

    Raises
    ------
    EpidemiaError
        If the line belongs to another set of quantities, or is damaged.
    """
    parts = [quantity.split(";") for quantity in line.split(" | ")]
    if len(parts) != len(truth.quantities):
        raise EpidemiaError(
            f"the results have {len(parts)} quantities, but the task has {len(truth.quantities)}"
        )
    texts = {text for quantity in parts for text in quantity} - {_UNREAD, _UNASKED}
    try:
        if not texts or any(":" in text for text in texts):
            return make_priors(np.array([[_prior(text) for text in replies] for replies in parts]))
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
    if not families.is_valid(family, a, b):
        raise ValueError(f"{text} is not a distribution")
    return float(family), a, b


def find_asked(line: str) -> NDArray[np.bool_]:
    """Return which quantities of a line of answers were asked completely, shape (Q,)."""
    return np.array([_UNASKED not in quantity.split(";") for quantity in line.split(" | ")])


# The metrics.


def measure(answers: Sequence[Any]) -> Measurement:
    """Measure answers by every metric, and keep them."""
    about, texts = judge_task(answers), _format_answers(answers)
    line = " | ".join(map(";".join, texts))
    if about is None:
        seen = sum(_UNASKED not in repeats for repeats in texts) / len(texts)
        return Measurement({"seen": seen}, {"error_ratio": None}, line)
    return Measurement(
        list_metrics(about), {"error_ratio": draw_mean(about, about.judged.ratio)}, line
    )


def list_metrics(known: JudgedTask) -> dict[str, float]:
    """Return every metric, by name; NaN if it belongs to another way of asking."""
    judged, dropped = known.judged, known.dropped
    draws, end_mass = draw_mean(known, judged.ratio), math.nan
    if not isinstance(known.stated, FamilyPriors):
        p = np.exp(known.stated - np.logaddexp.reduce(known.stated, axis=1, keepdims=True))
        end_mass = (p[:, 0] + p[:, -1]).mean()
    wins, later = (mean_of(of, axis=0) for of in (judged.wins, judged.posterior_wins))
    with np.errstate(over="ignore"):
        error = math.nan if draws is None else draws.at.std(ddof=1)
    numbers = {
        "error_ratio": mean_of(judged.ratio),
        "error_ratio_stderr": error,
        "error_ratio_published": mean_of(dropped.ratio),
        **{f"win_rate_{size}": won for size, won in zip(SIZES, wins, strict=True)},
        **{f"posterior_win_rate_{size}": won for size, won in zip(SIZES, later, strict=True)},
        "crps": mean_of(judged.crps / known.truth.column("marginal_sd")),
        "crps_ratio": mean_of(judged.crps_ratio),
        "crps_ratio_published": mean_of(dropped.crps_ratio),
        "ece": calibration_error(judged.position),
        "below_median": below_median_of(judged.position),
        "uncertainty_rank": uncertainty_rank_of(judged),
        "worth_samples": count_worth(wins),
        "seen": known.asked.mean(),
        "end_mass": end_mass,
    }
    return {name: float(number) for name, number in numbers.items()}


def draw_mean(known: JudgedTask, of: Array) -> Draws | None:
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


#: A sample's error is about 0 if it is at most this share of what so many independent people are
#: off by: draws without replacement from a small slice come to nearly all of it.
ABOUT_0 = 0.1

#: Of how many populations who knows them is judged: the error ratio is then off by about 1 %.
POPULATIONS = 100


def win_rate(known: JudgedTask) -> float:
    """Return the headline: the share of quantities won against the smallest samples."""
    return average_quantities(known, select_all(known), known.judged.wins[:, 0]).value


def win_draws(known: JudgedTask) -> Draws | None:
    """Return the draws of the headline; see `draw_mean`."""
    return draw_mean(known, known.judged.wins[:, 0])


def find_beatable(known: JudgedTask) -> NDArray[np.bool_]:
    """Return which samples can be beaten, shape (Q, S): those whose error is not about 0.

    N independent people are off by ``sd sqrt(2 / (pi N))`` on average (of a normal mean).
    """
    usual = np.sqrt(2 / (np.pi * np.array(SIZES))) * known.truth.column("sd")[:, None]
    return np.asarray(known.judged.baseline_error > ABOUT_0 * usual)


def relative_error(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    """Return the mean error over that of five answers, both in standard deviations between people.

    ``sum_q e_q / s_q / sum_q b_q / s_q``, with s_q the `marginal_sd`. No one quantity whose five
    answers happen to be near the truth rules it, as it does a mean of ratios. Its error is that of
    a ratio of means, linearised.
    """
    sd = known.truth.column("marginal_sd")[chosen]
    mine, theirs = known.judged.error[chosen] / sd, known.judged.baseline_error[chosen, 0] / sd
    there = ~np.isnan(mine)
    if not there.any():
        return NOTHING
    ratio = mine[there].sum() / theirs[there].sum()
    moved = (mine - ratio * theirs)[there] / theirs[there].mean()
    return pool_clusters(ratio + moved, np.arange(len(moved)))


def judge_knower(truth: Quantities) -> JudgedTask:
    """Judge the simulated respondent that knows the population (the truth is only an estimate of
    it).

    `POPULATIONS` are drawn from the truths' own errors. Errors and wins are averaged over these.
    """
    drawn = [
        make_priors(respondents.simulate_priors(truth, "population", seed=seed)[:, :1])
        for seed in range(POPULATIONS)
    ]
    each = [judge_stated(truth, one, np.ones(len(truth.quantities), bool)).judged for one in drawn]
    mean_over = Judged(*(np.mean(fields, axis=0) for fields in zip(*each, strict=True)))
    several = {
        field: np.concatenate([getattr(one, field) for one in each], axis=1)
        for field in ("centre", "spread", "position")
    }
    judged = mean_over._replace(**several)
    stated = FamilyPriors(*(np.concatenate(field, axis=1) for field in zip(*drawn, strict=True)))
    return JudgedTask(truth, stated, judged, judged, np.ones(len(truth.quantities), bool))


def select_all(known: JudgedTask) -> NDArray[np.bool_]:
    return np.ones(len(known.truth.quantities), dtype=bool)


def average_quantities(known: JudgedTask, chosen: NDArray[np.bool_], of: Array) -> Estimate:
    """Average over chosen quantities, shape (Q,): sd / sqrt(n) is the error. NaN is left out."""
    kept = chosen & ~np.isnan(of)
    return pool_clusters(of[kept], np.arange(int(kept.sum())))


def share_by_quarter(known: JudgedTask, chosen: NDArray[np.bool_]) -> list[Estimate]:
    """Return the share of truths in each quarter of the stated prior; 0.25 where calibrated."""
    inside = mean_of(in_quarters(known.judged.position), axis=1)
    return [average_quantities(known, chosen, inside[:, quarter]) for quarter in range(4)]


def share_below(known: JudgedTask, chosen: NDArray[np.bool_], at: float = 0.5) -> Estimate:
    """Return the share of truths below a quantile of the stated prior; one that is it counts half.

    `at` where priors are calibrated.
    """
    return average_quantities(known, chosen, mean_of(is_below(known.judged.position, at)))


def share_inside(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    """Return the share of truths between the 5 % and 95 % quantiles of the stated prior."""
    position = known.judged.position
    outside = (is_below(position, 0.05) == 1) | (is_below(position, 0.95) == 0)
    return average_quantities(
        known, chosen, mean_of(np.where(np.isnan(position), np.nan, 1.0 - outside))
    )


def ece(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    """Return the expected calibration error, in percentage points.

    The mean over quarters of |share of the truths - 25 %|, of each repeat, averaged over repeats.
    Its error is over quantities, linearised: what a quantity adds to the shares, signed as these
    are above or below a quarter.
    """
    position = known.judged.position[chosen]
    number, repeats = position.shape
    if not number or np.isnan(value := calibration_error(position)):
        return NOTHING
    quarters = in_quarters(position)
    shares = mean_of(quarters, axis=0)
    # What is not there moves nothing.
    moved = np.nan_to_num(np.sign(shares - 0.25) * (quarters - shares))
    there = np.maximum((~np.isnan(position)).sum(axis=0), 1)
    each = 100 * (moved.mean(axis=2) / there).sum(axis=1) / repeats
    error = math.sqrt(float((each**2).sum()) * number / (number - 1)) if number > 1 else math.nan
    return Estimate(value, error, number, number - 1)


def rank(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    """Correlate by ranks (Spearman) the stated sd with the error, both free of the unit.

    Its error is that of Bonett and Wright (2000), ``(1 - r^2) sqrt((1 + r^2 / 2) / (n - 3))``.
    """
    part = Judged(*(each[chosen] for each in known.judged))
    number = int((np.isfinite(part.uncertainty) & np.isfinite(part.ratio)).sum())
    if number < 4 or math.isnan(r := uncertainty_rank_of(part)):
        return NOTHING
    spread = (1 - r * r) * math.sqrt((1 + r * r / 2) / (number - 3))
    return Estimate(r, spread, number, number - 1)


def read_kept(text: str, truth: Quantities, way: Way) -> Kept:
    """Judge what results keep of a task; see `measure`.

    Raises
    ------
    ValueError
        If it is not what `harness` writes of these quantities asked in this way, with the reason.
    """
    stated, answered = read_answers(text, truth), math.nan
    is_stated = isinstance(stated, FamilyPriors)
    got = (stated.a if isinstance(stated, FamilyPriors) else stated).shape[1]
    number = (
        way.count_prompts(truth, None) if way.generated else len(ways.points(truth.quantities[0]))
    )
    if (got, is_stated) != (number, way.generated):
        kinds = ("log-probabilities", "priors")
        expected = f"{number} {kinds[way.generated]}"
        raise ValueError(f"got {got} {kinds[is_stated]} of each quantity, expected {expected}")
    if is_stated:
        replies = [reply for reply in text.replace(" | ", ";").split(";") if reply != _UNASKED]
        answered = sum(reply != _UNREAD for reply in replies) / len(replies)
    known = judge_stated(truth, stated, find_asked(text))
    return Kept(known, {"answered": answered, **list_metrics(known)}, win_draws(known))
