"""A quantity, a set of them, how a survey tells of each, and what N real answers would have told.

All estimates are for a *domain*: the people who meet the conditions and whose answer is known.
Samples of N real answers are sums over the people of a draw, weighted once or twice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, FiniteFloat
from scipy import special

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.sampling import taylor_variance

#: A grid has one point more.
STEPS = 40

_MANTISSAS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


def span(mean: float, sd: float, least: float | None = None) -> tuple[float, float]:
    """Return ends that hold the marginal's mean and two standard deviations on each side.

    Equally spaced points between them, `STEPS` steps apart, have few digits.

    Parameters
    ----------
    mean, sd : float
        Of the base variable among all people. Nothing else: what is asked for must not show.
    least : float, optional
        Below which no value can be.

    Returns
    -------
    low, high : float
    """
    low, high = mean - 2 * sd, mean + 2 * sd
    if least is not None:
        low = max(low, least)
    exponent = math.floor(math.log10((high - low) / STEPS))
    # A step of ten times the size is always large enough.
    for power, mantissa in product((exponent, exponent + 1), _MANTISSAS):
        digits = max(0, 1 - power)
        step = round(mantissa * 10.0**power, digits)
        first = math.floor(low / step + 1e-9) * step
        if first + STEPS * step >= high - 1e-9 * step:
            break
    return round(first, digits), round(first + STEPS * step, digits)


#: By the number of conditions.
DIFFICULTIES = ("base", "easy", "medium", "hard")

#: How many real answers a baseline has seen, and how often it was drawn.
SIZES = (5, 10, 20, 30)
DRAWS = 25

#: People in a slice, at least.
FEWEST = 30

Family = Literal["normal", "beta", "lognormal"]
#: On these scales the interval of a truth is symmetric, and cannot leave what is possible; with
#: their derivatives and inverses.
_SCALES = {
    "normal": (lambda x: x, lambda x: np.ones_like(x), lambda x: x),
    "beta": (special.logit, lambda x: 1 / (x * (1 - x)), special.expit),
    "lognormal": (np.log, lambda x: 1 / x, np.exp),
}

_AtLeast0 = Annotated[FiniteFloat, Field(ge=0)]


class Condition(NamedTuple):
    """What is known of the people: one level of a variable.

    Attributes
    ----------
    variable : str
    level : str
        Its label: "Yes", "2nd quarter".
    phrase : str
        As it stands in the wording, with thresholds as used: "whose weight is more than 66.5 and at
        most 78.9 kg".
    """

    variable: str
    level: str
    phrase: str


class Quantity(NamedTuple):
    """A mean or a proportion among the people whom some conditions describe.

    Attributes
    ----------
    name : str
        Unique in its set: "easy_3".
    base : str
        The variable that is averaged.
    conditions : tuple of Condition
        Up to three.
    family : str
        Of the prior that is asked for: "beta" for a proportion, else "normal" or "lognormal".
    unit : str
        "cm"; empty for a proportion.
    wording : str
        A noun phrase that says it all, people, survey and year too.
    mean, se : float
        The truth, and its standard error under the survey's design. Proportions lie in [0, 1].
    sd : float
        Standard deviation between people.
    n : int
        How many people of the survey are in the slice.
    marginal_mean, marginal_sd : float
        Mean and standard deviation between people of the base variable without conditions.
    low, high : float
        Ends of the grid of candidate values; they follow from the marginal alone.
    df : int or None
        Degrees of freedom of `se`; None if they were not published.
    """

    name: str
    base: str
    conditions: Annotated[tuple[Condition, ...], Field(max_length=len(DIFFICULTIES) - 1)]
    family: Family
    unit: str
    wording: str
    mean: FiniteFloat
    se: _AtLeast0
    sd: _AtLeast0
    n: Annotated[int, Field(ge=FEWEST)]
    marginal_mean: FiniteFloat
    marginal_sd: Annotated[FiniteFloat, Field(gt=0)]
    low: FiniteFloat
    high: FiniteFloat
    df: Annotated[int, Field(ge=1)] | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the truth; see `quantile`."""
        return self.at(0.025), self.at(0.975)

    def at(self, share: float) -> float:
        """Return a quantile of what the population's value may be; see `quantile`."""
        if not self.se:
            return self.mean
        df = np.inf if self.df is None else self.df
        return float(quantile(self.family, self.mean, self.se, df, share))

    @property
    def difficulty(self) -> str:
        return DIFFICULTIES[len(self.conditions)]


def quantile(
    family: Family, mean: ArrayLike, se: ArrayLike, df: ArrayLike, share: ArrayLike
) -> Array:
    """Return quantiles of what estimated means may be.

    A t of the design's degrees of freedom, on the scale of the family: log-odds for a proportion
    (as `svyciprop` of R's survey has it by default), logarithms for "lognormal".

    Parameters
    ----------
    family : {"normal", "beta", "lognormal"}
    mean, se : ndarray
        Proportions strictly between 0 and 1, means of "lognormal" above 0.
    df : ndarray
        At least 1; infinite for a normal distribution.
    share : ndarray
        Probability of values up to the quantile.
    """
    to, slope, back = _SCALES[family]
    mean = np.asarray(mean, dtype=float)
    reach = special.stdtrit(df, share) * np.asarray(se) * slope(mean)
    return np.asarray(back(to(mean) + reach))


class Samples(NamedTuple):
    """What samples of N real answers say about Q quantities, each drawn `DRAWS` times.

    Attributes
    ----------
    mean : ndarray, shape (Q, len(SIZES), DRAWS)
        Of the answers in a draw; a share for a proportion.
    variance : ndarray, same shape
        Between them, with their number as the divisor.
    size : ndarray, same shape
        How many answers the draw counts as.
    """

    mean: Array
    variance: Array
    size: Array


class Quantities(NamedTuple):
    """A set of quantities: one task.

    Attributes
    ----------
    task : str
        Its name: ``epidemia_prior_nhanes``.
    survey : str
        Short name in the catalogue: "nhanes".
    vintage : str
        "2017-2018".
    title : str
        For headings.
    about : mapping of str to str
        Where it comes from: source, licence, citation, seed, hash of the raw files.
    quantities : tuple of Quantity
        Each is a cell.
    baselines : mapping of str to Samples
        "corrected": N people drawn in proportion to their weight, then counted alike.
        "published": drawn so, and weighted once more, until Kish's effective size is N.
    scored : str
        Which of them scores are relative to.
    fingerprint : str
        Twelve hexadecimal digits that change with any of it.
    """

    task: str
    survey: str
    vintage: str
    title: str
    about: Mapping[str, str]
    quantities: tuple[Quantity, ...]
    baselines: Mapping[str, Samples]
    scored: str
    fingerprint: str

    @property
    def given(self) -> list[list[str]]:
        """What each quantity is about, in words."""
        return [
            [f"quantity: {base}", *(f"{name}: {level}" for name, level, _ in conditions)]
            for _, base, conditions, *_ in self.quantities
        ]

    def column(self, field: str) -> Array:
        """Return one field of each quantity, shape (Q,)."""
        return np.array([getattr(quantity, field) for quantity in self.quantities])

    @property
    def baseline(self) -> Samples:
        """The draws that scores are relative to."""
        return self.baselines[self.scored]


#: Fields of a quantity that are exported, in their order.
_EXPORTED = (
    *("name", "wording", "family", "unit", "mean", "se", "df", "sd", "n"),
    *("marginal_mean", "marginal_sd"),
)


def cells_of(truth: Quantities) -> dict[str, Sequence[Any]]:
    """Return the truth of each quantity and what samples said of it, as it is exported.

    Returns
    -------
    dict of str to list
        Fields of `Quantity`, and of the baseline that scores are relative to ``baseline_n``, how
        many answers each of its samples has, with their ``baseline_mean``, ``baseline_variance``
        and ``baseline_size``: for each of these numbers a list of draws.
    """
    number, drawn = len(truth.quantities), truth.baseline._asdict()
    return {
        **{name: [getattr(each, name) for each in truth.quantities] for name in _EXPORTED},
        "baseline_n": [SIZES] * number,
        **{f"baseline_{name}": draws.tolist() for name, draws in drawn.items()},
    }


Mask = NDArray[np.bool_]


class SampleDesign(NamedTuple):
    """How people were sampled.

    Attributes
    ----------
    weight : ndarray, shape (n,)
    strata, psu : ndarray of int, shape (n,), or None
        A PSU's code is unique across strata. Without strata there is one; without PSUs each record
        was sampled by itself.
    replicates : ndarray, shape (n, R), or None
        Replicate weights; they are used where there are no strata and PSUs.
    scale : float
        Variance = this times the sum of squared deviations of the replicates.
    """

    weight: Array
    strata: NDArray[np.int64] | None = None
    psu: NDArray[np.int64] | None = None
    replicates: NDArray[np.float32] | None = None
    scale: float = 0.0

    def of(self, domain: Mask) -> SampleDesign:
        """Return the design of some records, as if there were no others."""
        columns = {name: getattr(self, name) for name in ("weight", "strata", "psu", "replicates")}
        return self._replace(**{n: x[domain] for n, x in columns.items() if x is not None})


class DomainStats(NamedTuple):
    """What a survey says about a domain.

    Attributes
    ----------
    mean : float
        Sum of w y over sum of w.
    sd : float
        Between people: the root of the weighted mean of squared deviations (divisor sum of w).
    se : float
        Standard error of the mean under the design.
    df : int or None
        Degrees of freedom of that error: PSUs with members of the domain, less strata with any.
        None if they are not known.
    told : float
        Share of the weight that the standard error says something about: the rest is in strata
        with one PSU.
    """

    mean: float
    sd: float
    se: float
    df: int | None = None
    told: float = 1.0


def estimate_domain(value: Array, domain: Mask, design: SampleDesign) -> DomainStats:
    """Estimate the mean in a domain, with its error.

    Parameters
    ----------
    value : ndarray, shape (n,)
        Looked at in the domain only.
    domain : ndarray of bool, shape (n,)
        With weight in it.
    design : SampleDesign
        Of all records of the survey, those outside the domain too.

    Returns
    -------
    DomainStats
        Its standard error is Taylor-linearised: the root of `taylor_variance` of the sums of
        w (y - mean) over the domain's members in each PSU, over sum of w. PSUs without members
        count as sums of 0: how many members a PSU has is chance too. With replicate weights only,
        the variance is `scale` times the sum of squared deviations of the R replicates' means, and
        `df` R - 1.
    """
    y, w = value[domain], design.weight[domain]
    total = w.sum()
    mean = float((w * y).sum() / total)
    sd = float(np.sqrt((w * (y - mean) ** 2).sum() / total))
    if design.psu is None and design.replicates is not None:
        each = design.replicates[domain].astype(np.float64)
        means = (each * y[:, None]).sum(axis=0) / each.sum(axis=0)
        se = float(np.sqrt(design.scale * ((means - mean) ** 2).sum()))
        return DomainStats(mean, sd, se, len(means) - 1)
    people = np.arange(len(value)) if design.psu is None else design.psu
    _, first, psu = np.unique(people, return_index=True, return_inverse=True)
    stratum = np.zeros(len(first), dtype=np.int64)
    if design.strata is not None:
        stratum = np.unique(design.strata[first], return_inverse=True)[1]
    sums = np.bincount(psu[domain], w * (y - mean), len(first)).astype(np.float64)
    se = float(np.sqrt(taylor_variance(sums, stratum)) / total)
    here = np.unique(psu[domain])
    df = len(here) - len(np.unique(stratum[here]))
    several = np.bincount(stratum)[stratum] > 1
    return DomainStats(mean, sd, se, df, float(w[several[psu[domain]]].sum() / total))


def list_numbers(
    told: DomainStats, n: int, marginal: DomainStats, family: Family, least: float | None = 0.0
) -> dict[str, Any]:
    """Return the numbers of a `Quantity`, by field: its truth, its marginal, its grid's ends.

    Parameters
    ----------
    told, marginal : DomainStats
        What the survey says of the slice, and of all people.
    n : int
        People in the slice.
    family : {"normal", "beta", "lognormal"}
        The grid of a proportion ("beta") goes from 0 to 1.
    least : float, optional
        Below which no value can be.
    """
    low, high = (0.0, 1.0) if family == "beta" else span(marginal.mean, marginal.sd, least)
    return {
        **{"mean": told.mean, "se": told.se, "sd": told.sd, "n": n, "df": told.df},
        **{"marginal_mean": marginal.mean, "marginal_sd": marginal.sd, "low": low, "high": high},
    }


class Sums(NamedTuple):
    """A draw: the mean of its answers, their variance (divisor: their number), and their number."""

    mean: float
    variance: float
    size: float


def kish(weight: Array) -> float:
    """Return Kish's effective size, (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def weight_twice(value: Array, weight: Array) -> Sums:
    """Weight a draw once more, as the published baselines do, though it was drawn by weight.

    Parameters
    ----------
    value, weight : ndarray, shape (rows,)
        All rows that were drawn until Kish's effective size reached N.
    """
    mean = float(np.average(value, weights=weight))
    return Sums(mean, float(np.average((value - mean) ** 2, weights=weight)), kish(weight))


def count_alike(value: Array) -> Sums:
    """Count each of the N people of a draw alike.

    Parameters
    ----------
    value : ndarray, shape (N,)
    """
    return Sums(float(value.mean()), float(value.var()), float(len(value)))


def draw_samples(
    value: Array, weight: Array, rng: np.random.Generator
) -> dict[str, list[list[Sums]]]:
    """Draw people of a slice, for each size `DRAWS` times, in both manners.

    Corrected: N people with replacement, in proportion to their weight, counted alike. Published:
    people without replacement, in proportion to their weight, one more until Kish's effective size
    is N or nobody is left, then weighted again (``nhanes_generation.py`` of OpenEstimate).

    Parameters
    ----------
    value, weight : ndarray, shape (n,)
        Of the people of the slice; weights above 0.
    rng : numpy.random.Generator

    Returns
    -------
    dict of str to list
        By manner, for each of `SIZES` its draws.
    """
    share = weight / weight.sum()
    sums: dict[str, list[list[Sums]]] = {"corrected": [], "published": []}
    for size in SIZES:
        people = rng.choice(len(value), (DRAWS, size), p=share)
        sums["corrected"].append([count_alike(value[chosen]) for chosen in people])
        sums["published"].append([_until(value, weight, share, size, rng) for _ in range(DRAWS)])
    return sums


def _until(value: Array, weight: Array, share: Array, size: int, rng: np.random.Generator) -> Sums:
    # Each attempt draws again, one more than the last.
    for rows in range(min(size, len(value)), len(value) + 1):
        people = rng.choice(len(value), rows, replace=False, p=share)
        if rows == len(value) or kish(weight[people]) >= size:
            break
    return weight_twice(value[people], weight[people])


def stack_draws(draws: list[list[list[Sums]]]) -> Samples:
    """Put the draws of Q quantities, by size and draw, into arrays (Q, len(SIZES), DRAWS)."""
    mean, variance, size = np.moveaxis(np.array(draws, dtype=np.float64), -1, 0)
    return Samples(mean, variance, size)
