"""The judged answers about a task's quantities, and their means over quantities with errors."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.prior import metrics, respondents, ways
from lm_eval_epidemia.benchmarks.prior.judged import Judged, Stated, mean_of, stated_as
from lm_eval_epidemia.benchmarks.prior.metrics import JudgedTask, known_of
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES, Quantities
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.way import Way
from lm_eval_epidemia.score.estimates import NOTHING, Estimate, pooled
from lm_eval_epidemia.score.joint import Draws

#: A sample's error is about 0 if it is at most this share of what so many independent people are
#: off by: draws without replacement from a small slice come to nearly all of it.
ABOUT_0 = 0.1

#: Of how many populations who knows them is judged: the error ratio is then off by about 1 %.
POPULATIONS = 100


def win_rate(known: JudgedTask) -> float:
    """Return the headline: the share of quantities won against the smallest samples."""
    return mean(known, everything(known), known.judged.wins[:, 0]).value


def win_draws(known: JudgedTask) -> Draws | None:
    """Return the draws of the headline; see `metrics.draws_of`."""
    return metrics.draws_of(known, known.judged.wins[:, 0])


def beatable(known: JudgedTask) -> NDArray[np.bool_]:
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
    return pooled(ratio + moved, np.arange(len(moved)))


def knower(truth: Quantities) -> JudgedTask:
    """Judge the simulated respondent that knows the population (the truth is only an estimate of
    it).

    `POPULATIONS` are drawn from the truths' own errors. Errors and wins are averaged over these.
    """
    drawn = [
        stated_as(respondents.answers(truth, "population", seed=seed)[:, :1])
        for seed in range(POPULATIONS)
    ]
    each = [known_of(truth, one, np.ones(len(truth.quantities), bool)).judged for one in drawn]
    mean_over = Judged(*(np.mean(fields, axis=0) for fields in zip(*each, strict=True)))
    several = {
        field: np.concatenate([getattr(one, field) for one in each], axis=1)
        for field in ("centre", "spread", "position")
    }
    judged = mean_over._replace(**several)
    stated = Stated(*(np.concatenate(field, axis=1) for field in zip(*drawn, strict=True)))
    return JudgedTask(truth, stated, judged, judged, np.ones(len(truth.quantities), bool))


def everything(known: JudgedTask) -> NDArray[np.bool_]:
    return np.ones(len(known.truth.quantities), dtype=bool)


def mean(known: JudgedTask, chosen: NDArray[np.bool_], of: Array) -> Estimate:
    """Average over chosen quantities, shape (Q,): sd / sqrt(n) is the error. NaN is left out."""
    kept = chosen & ~np.isnan(of)
    return pooled(of[kept], np.arange(int(kept.sum())))


def quartiles(known: JudgedTask, chosen: NDArray[np.bool_]) -> list[Estimate]:
    """Return the share of truths in each quarter of the stated prior; 0.25 where calibrated."""
    inside = mean_of(metrics.in_quarters(known.judged.position), axis=1)
    return [mean(known, chosen, inside[:, quarter]) for quarter in range(4)]


def below(known: JudgedTask, chosen: NDArray[np.bool_], at: float = 0.5) -> Estimate:
    """Return the share of truths below a quantile of the stated prior; one that is it counts half.

    `at` where priors are calibrated.
    """
    return mean(known, chosen, mean_of(metrics.below(known.judged.position, at)))


def inside(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    """Return the share of truths between the 5 % and 95 % quantiles of the stated prior."""
    position = known.judged.position
    outside = (metrics.below(position, 0.05) == 1) | (metrics.below(position, 0.95) == 0)
    return mean(known, chosen, mean_of(np.where(np.isnan(position), np.nan, 1.0 - outside)))


def ece(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    """Return the expected calibration error, in percentage points.

    The mean over quarters of |share of the truths - 25 %|, of each repeat, averaged over repeats.
    Its error is over quantities, linearised: what a quantity adds to the shares, signed as these
    are above or below a quarter.
    """
    position = known.judged.position[chosen]
    number, repeats = position.shape
    if not number or np.isnan(value := metrics.calibration_error(position)):
        return NOTHING
    quarters = metrics.in_quarters(position)
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
    if number < 4 or math.isnan(r := metrics.uncertainty_rank_of(part)):
        return NOTHING
    spread = (1 - r * r) * math.sqrt((1 + r * r / 2) / (number - 3))
    return Estimate(r, spread, number, number - 1)


def known_in(text: str, truth: Quantities, way: Way) -> JudgedTask:
    """Judge what results keep of a task; see `benchmarks.prior.metrics.measure`.

    Raises
    ------
    ValueError
        If it is not what `harness` writes of these quantities asked in this way, with the reason.
    """
    try:
        stated, asked = metrics.said(text, truth), metrics.asked(text)
    except EpidemiaError as error:
        raise ValueError(str(error)) from None
    if isinstance(stated, Stated) != way.generated:
        kinds = ("log-probabilities", "priors")
        raise ValueError(f"got {kinds[not way.generated]}, expected {kinds[way.generated]}")
    if isinstance(stated, Stated):
        number, expected, what = stated.a.shape[1], way.prompts(truth, None), way.prompts_are
    else:
        number, expected = stated.shape[1], len(ways.points(truth.quantities[0]))
        what = "log-probabilities"
    if number != expected:
        raise ValueError(f"got {number} {what} of each quantity, expected {expected}")
    return known_of(truth, stated, asked)


def numbers_again(text: str, _truth: Quantities, known: JudgedTask) -> dict[str, float]:
    """Return the metrics of a task, as lm-eval has them, of what `known_in` made of a line."""
    answered = math.nan
    if isinstance(known.stated, Stated):
        replies = [reply for reply in text.replace(" | ", ";").split(";") if reply != "-"]
        answered = sum(reply != "?" for reply in replies) / len(replies)
    return {"answered": answered, **metrics.numbers_of(known)}
