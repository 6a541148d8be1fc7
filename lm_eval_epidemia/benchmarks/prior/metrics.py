"""The metrics of tasks that ask for priors: what they are worth beside real answers.

Task files name them. Each takes the answers of one task, in any order, and returns one number. A
quantity counts when all its repeats were asked; under ``--limit`` the others are left out, and
`seen` says how much of the task that is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.prior.judged import (
    Judged,
    Stated,
    judge,
    judge_grid,
    mean_of,
    part_of,
    stated_as,
)
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


#: Probabilities that are less apart are the same: parameters went through decimal text and back.
_ROUNDING = 1e-9


# Of what was judged, for the metrics and for the report.


def in_quarters(position: Array) -> Array:
    """Say in which quarter of the prior each truth lies.

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
    """Say which truths are below a quantile of the prior: 1, one that is it 0.5, NaN without."""
    off = np.where(np.abs(position - at) <= _ROUNDING, 0, position - at)
    return np.asarray(np.where(np.isnan(position), np.nan, np.heaviside(-off, 0.5)))


def quartile_shares(position: Array) -> Array:
    """Return how the truths fall into the quarters of the priors.

    Parameters
    ----------
    position : ndarray, shape (Q, R)
        As `Judged.position`.

    Returns
    -------
    ndarray, shape (R, 4)
        Shares of the Q, of each repeat.
    """
    return mean_of(in_quarters(position), axis=0)


def calibration_error(position: Array) -> float:
    """Return the expected calibration error (ECE), in percentage points, 0 to 37.5.

    Mean over the quarters of |share of the truths in it - 25 %|, of each repeat, then averaged. By
    chance alone it is above 0: about ``100 sqrt(3 / (8 pi Q))``, 4.0 points with 74 quantities.
    """
    return float(mean_of(100 * np.abs(quartile_shares(position) - 0.25).mean(axis=1)))


def below_median_of(position: Array) -> float:
    """Return the share of truths below the median of the prior; one at the median counts half."""
    return float(mean_of(below(position).ravel()))


def uncertainty_rank_of(found: Judged) -> float:
    """Return Spearman's rank correlation of `Judged.uncertainty` and `Judged.ratio`.

    Both are relative to the same baseline, whose error alone makes them alike: compare models, not
    with 0. NaN with less than three quantities, or where one of the two does not vary.
    """
    both = np.column_stack([found.uncertainty, found.ratio])
    both = both[np.isfinite(both).all(axis=1)]
    # Equal but for rounding is equal: ranks must not come from the last digit.
    both = np.round(both, 9)
    if len(both) < 3 or (both == both[0]).all(axis=0).any():
        return math.nan
    from scipy import stats  # half of what importing the package would take

    return float(stats.spearmanr(*both.T).statistic)


def worth(win_rates: Array) -> float:
    """Return how many real answers priors are worth: where the win rate first falls to one half.

    Parameters
    ----------
    win_rates : ndarray, shape (S,)
        Against samples of each of `SIZES`.

    Returns
    -------
    float
        Between two sizes by the logarithm of their number, linearly. `FEWER` where it is below one
        half from the start, `MORE` where it never is.
    """
    if np.isnan(win_rates).any():
        return math.nan
    if win_rates[0] < 0.5:
        return FEWER
    logs = np.log(SIZES)
    for place, (one, other) in enumerate(itertools.pairwise(win_rates)):
        if other < 0.5:
            way = (one - 0.5) / (one - other)
            return float(np.exp(logs[place] + way * (logs[place + 1] - logs[place])))
    return MORE


def worth_in_words(value: float) -> str:
    """Return a number of answers as people read it: "<5", ">30", "12.3"."""
    if value == FEWER:
        return f"<{SIZES[0]}"
    return f">{SIZES[-1]}" if value == MORE else f"{value:.1f}"


# Of answers.


class Known(NamedTuple):
    """The answers to a task beside their truth.

    Attributes
    ----------
    truth : Quantities
        Those that were asked completely, Q of them.
    at : ndarray of int, shape (Q,)
        Their cells.
    whole : int
        How many the task has.
    judged : Judged
        What could not be read counts as the flat prior.
    published : Judged
        What could not be read is dropped. The same for a grid.
    end_mass : float
        Mean probability of the two ends of the grid; NaN of stated priors.
    """

    truth: Quantities
    at: NDArray[np.intp]
    whole: int
    judged: Judged
    published: Judged
    end_mass: float


@collect.once
def known(answers: Sequence[Any]) -> Known | None:
    """Judge the answers of a task; None, with a warning, where that cannot be done.

    Raises
    ------
    EpidemiaError
        If the questions were made from a truth that is not the installed one.
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
            f"{collected.name}: {int(complete.sum())} of {whole} quantities were asked completely; "
            "the score is theirs alone",
        )
    part, values, at = part_of(truth, complete), values[complete], np.flatnonzero(complete)
    if not way.generated:
        found, logs = judge_grid(part, values[:, 0]), values[:, 0]
        return Known(part, at, whole, found, found, end_mass_of(logs))
    stated = stated_as(values)
    found = judge(part, stated)
    published = judge(part, stated, published=True) if found.answered.min() < 1 else found
    return Known(part, at, whole, found, published, math.nan)


def end_mass_of(logs: Array) -> float:
    """Return the mean probability of the two ends of a grid, of log-probabilities (Q, G)."""
    p = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
    return float((p[:, 0] + p[:, -1]).mean())


def _mean_crps(found: Known) -> Array:
    sds = np.array([one.marginal_sd for one in found.truth.quantities])
    return mean_of(found.judged.crps / sds)


def _draws_of(found: Known) -> Draws | None:
    ratio, n = found.judged.ratio, len(found.at)
    if n < 2 or not np.isfinite(ratio).all():
        return None
    at = np.full(found.whole, ratio.mean())
    at[found.at] += (ratio - ratio.mean()) * math.sqrt((found.whole - 1) / (n * (n - 1)))
    return Draws(f"{found.truth.task} {found.truth.fingerprint}", at)


def _stderr(found: Known) -> float:
    draws = _draws_of(found)
    with np.errstate(over="ignore"):
        return math.nan if draws is None else float(draws.at.std(ddof=1))


def _rate(of: str, place: int) -> Callable[[Known], Any]:
    return lambda found: mean_of(getattr(found.judged, of)[:, place])


_NUMBERS: dict[str, Callable[[Known], Any]] = {
    "error_ratio": lambda found: mean_of(found.judged.ratio),
    "error_ratio_stderr": _stderr,
    "error_ratio_published": lambda found: mean_of(found.published.ratio),
    **{
        f"{of.removesuffix('s')}_rate_{size}": _rate(of, place)
        for of in ("wins", "posterior_wins")
        for place, size in enumerate(SIZES)
    },
    "crps": _mean_crps,
    "crps_ratio": lambda found: mean_of(found.judged.crps_ratio),
    "crps_ratio_published": lambda found: mean_of(found.published.crps_ratio),
    "ece": lambda found: calibration_error(found.judged.position),
    "below_median": lambda found: below_median_of(found.judged.position),
    "uncertainty_rank": lambda found: uncertainty_rank_of(found.judged),
    "worth_samples": lambda found: worth(mean_of(found.judged.wins, axis=0)),
    "end_mass": lambda found: found.end_mass,
    "seen": lambda found: len(found.at) / found.whole,
}


def numbers_of(found: Known) -> dict[str, float]:
    """Return every metric, by name; NaN where it is of another way of asking."""
    return {name: float(number(found)) for name, number in _NUMBERS.items()}


def _of(answers: Sequence[Any], name: str) -> float:
    found = known(answers)
    return math.nan if found is None else float(_NUMBERS[name](found))


def error_ratio(answers: Sequence[Answer]) -> float:
    """Error of the priors' means over that of five real answers, averaged over quantities."""
    return _of(answers, "error_ratio")


def error_ratio_draws(answers: Sequence[Answer]) -> Draws | None:
    """Return the error ratio as it would be with other quantities, joint over respondents.

    One number per quantity of the task: the mean plus the quantity's linearised share in it, scaled
    so that their variance (ddof=1) is that of the mean over the n quantities seen, variance / n.
    None with less than two quantities.
    """
    found = known(answers)
    return None if found is None else _draws_of(found)


def error_ratio_stderr(answers: Sequence[Answer]) -> float:
    """Standard error of the error ratio over quantities.

    These differ by the sampling error of their truths too, which is thereby part of it.
    """
    return _of(answers, "error_ratio_stderr")


def error_ratio_published(answers: Sequence[Answer]) -> float:
    """The error ratio with the replies dropped that could not be read, as others published it."""
    return _of(answers, "error_ratio_published")


def _win_rate(of: str, size: int) -> Callable[[Sequence[Answer]], float]:
    """Make the metric of ``Judged.wins`` or ``Judged.posterior_wins`` against a size of sample."""
    name = f"{of.removesuffix('s')}_rate_{size}"

    def win_rate(answers: Sequence[Answer]) -> float:
        return _of(answers, name)

    # lm-eval finds a metric by its name.
    win_rate.__name__ = win_rate.__qualname__ = name
    win_rate.__doc__ = (
        f"Share of quantities whose {'prior' if of == 'wins' else 'posterior'} has a smaller error "
        f"than {size} real answers."
    )
    return win_rate


_RATES = (
    win_rate_5,
    win_rate_10,
    win_rate_20,
    win_rate_30,
    posterior_win_rate_5,
    posterior_win_rate_10,
    posterior_win_rate_20,
    posterior_win_rate_30,
) = tuple(_win_rate(of, size) for of in ("wins", "posterior_wins") for size in SIZES)


def crps(answers: Sequence[Answer]) -> float:
    """Mean CRPS, each in units of the standard deviation between people: without a unit."""
    return _of(answers, "crps")


def crps_ratio(answers: Sequence[Answer]) -> float:
    """CRPS of the priors over that of the posteriors of five real answers, averaged."""
    return _of(answers, "crps_ratio")


def crps_ratio_published(answers: Sequence[Answer]) -> float:
    """The CRPS ratio with the replies dropped that could not be read."""
    return _of(answers, "crps_ratio_published")


def ece(answers: Sequence[Answer]) -> float:
    """How far the quarters of the priors are from holding a quarter of the truths, in points."""
    return _of(answers, "ece")


def below_median(answers: Sequence[Answer]) -> float:
    """Share of truths below the stated median: above one half where priors are too high."""
    return _of(answers, "below_median")


def uncertainty_rank(answers: Sequence[Answer]) -> float:
    """Rank correlation of stated uncertainty and error, both relative to five real answers."""
    return _of(answers, "uncertainty_rank")


def worth_samples(answers: Sequence[Answer]) -> float:
    """How many real answers a prior is worth; 0 means fewer than 5, 31 more than 30."""
    return _of(answers, "worth_samples")


def end_mass(answers: Sequence[Answer]) -> float:
    """Mean probability of the two ends of the grid: what may lie beyond them."""
    return _of(answers, "end_mass")


def seen(answers: Sequence[Answer]) -> float:
    """Share of the quantities that were asked completely: 1 without ``--limit``."""
    way = WAYS[answers[0].way]
    truth = way.load(answers[0].task)
    places = {(answer.cell, answer.place) for answer in answers}
    repeats, whole = way.prompts(truth, answers[0]), len(truth.quantities)
    complete = sum(
        all((cell, place) in places for place in range(repeats)) for cell in range(whole)
    )
    return complete / whole


# What was said, in one line.

_INITIALS = {name[0]: number for number, name in enumerate(FAMILIES)}
_UNREAD, _UNASKED = "?", "-"


def _number(value: float) -> str:
    """Write a number so that it reads back as it is, and as short as that allows."""
    return repr(float(value)).removesuffix(".0")


def kept(answers: Sequence[Any]) -> str:
    """Write what was said about every quantity in one line, for the report; `said` reads it.

    Quantities are parted by " | ", in their order. Of each, the repeats by ";":
    "n:100,10", "b:3,5" or "l:1.2,0.3", "?" where nothing could be read, "-" where nothing was
    asked; of a grid the log-probabilities, by ",".
    """
    way = WAYS[answers[0].way]
    truth = way.load(answers[0].task)
    repeats = way.prompts(truth, answers[0])
    texts = {(answer.cell, answer.place): _text(answer.value, way) for answer in answers}
    return " | ".join(
        ";".join(texts.get((cell, place), _UNASKED) for place in range(repeats))
        for cell in range(len(truth.quantities))
    )


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
        Priors, shapes (Q, R); of a grid its log-probabilities, shape (Q, G). NaN where nothing was
        asked or read: `asked` tells them apart.

    Raises
    ------
    EpidemiaError
        If the line is of another set of quantities, or is damaged.
    """
    if not line.strip():
        raise EpidemiaError("what was said is empty: the results are damaged")
    parts = [quantity.split(";") for quantity in line.split(" | ")]
    if len(parts) != len(truth.quantities):
        raise EpidemiaError(
            f"the results tell of {len(parts)} quantities, it has {len(truth.quantities)}: they "
            "are damaged, or of another version"
        )
    texts = [text for quantity in parts for text in quantity]
    stated = any(":" in text for text in texts) or all(
        text in (_UNREAD, _UNASKED) for text in texts
    )
    try:
        if stated:
            return stated_as(np.array([[_prior(text) for text in one] for one in parts]))
        empty = [math.nan] * len(next(text for text in texts if "," in text).split(","))
        found = np.array(
            [empty if one == _UNASKED else [*map(float, one.split(","))] for (one,) in parts]
        )
        if not np.isfinite(found[[one != [_UNASKED] for one in parts]]).all():
            raise ValueError("log-probabilities that are not finite")
        return found
    except (ValueError, KeyError, StopIteration) as error:
        raise EpidemiaError(
            f"what the results say was said cannot be read ({error}): were they changed by hand?"
        ) from None


def _prior(text: str) -> tuple[float, float, float]:
    if text in (_UNREAD, _UNASKED):
        return (math.nan, math.nan, math.nan)
    initial, _, parameters = text.partition(":")
    family = _INITIALS[initial]
    a, b = map(float, parameters.split(","))
    if not families.valid(family, a, b):
        raise ValueError(f"{text} is no distribution")
    return float(family), a, b


def asked(line: str) -> Array:
    """Return which quantities of a line that `kept` wrote were asked completely, shape (Q,)."""
    return np.array([_UNASKED not in quantity.split(";") for quantity in line.split(" | ")])


def metrics_of(way: Way) -> dict[str, Metric]:
    """Return the metrics of a way of asking, by name."""
    found = {
        "error_ratio": Metric(error_ratio, False, 0, draws=error_ratio_draws, cut=False, kept=kept),
        "error_ratio_stderr": Metric(error_ratio_stderr, False, 0),
        "error_ratio_published": Metric(error_ratio_published, False, 0),
        **{one.__name__: Metric(one, True, 0, 1) for one in _RATES},
        "crps": Metric(crps, False, 0),
        "crps_ratio": Metric(crps_ratio, False, 0),
        "crps_ratio_published": Metric(crps_ratio_published, False, 0),
        "ece": Metric(ece, False, 0, 37.5),
        "below_median": Metric(below_median, None, 0, 1),
        "uncertainty_rank": Metric(uncertainty_rank, True, -1, 1),
        "worth_samples": Metric(worth_samples, True, FEWER, MORE),
        "seen": Metric(seen, True, 0, 1),
    }
    if not way.generated:
        # Nothing is unread, so nothing is dropped.
        found = {name: one for name, one in found.items() if not name.endswith("_published")}
        found["end_mass"] = Metric(end_mass, False, 0, 1)
    return {**found, **way.diagnostics}
