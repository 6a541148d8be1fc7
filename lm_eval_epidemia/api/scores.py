"""Measure how close beliefs are to the truth: `score`, `other_scales`, `calibration_line`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from lm_eval_epidemia.api.truths import Truth, load_truth
from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks.observation.beliefs import read_beliefs
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.benchmarks.observation.other_scales import (
    SCALES,
    Tilt,
    compare_on_scales,
    fit_tilt,
    scaled_cells,
)
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.score.joint import Draws, joint_error
from lm_eval_epidemia.score.score import Anchors


@dataclass(frozen=True, repr=False)
class Score:
    """How close beliefs are to the truth of a task.

    Attributes
    ----------
    task, vintage : str
    score : float
        From 0 (no better than knowing nothing) to 100 (as close as another sample).
    error : float
        Standard error of `score` from the survey's sampling error, for this task alone. Use `draws`
        for means and differences.
    l1 : float
        Weighted L1 distance from the truth, in [0, 2].
    anchors : Anchors
        The distances that fix the scale.
    population, population_error : float
        Score against the population instead of the survey, and its standard error. Cut off at
        100; for means over tasks use ``population_draws.uncut``, which is not.
    l1_population : float
        Its distance, which can be below 0.
    draws, population_draws : Draws
        `score` and `population` for other samples of the survey: ``draws.at``, shape (B,); empty
        for an exact table.

    Examples
    --------
    Tasks of one survey share sampling errors, so errors of means and differences come from the
    draws: `joint_error` takes those of several tasks, `difference` those of two respondents in one
    task.

    >>> from lm_eval_epidemia.api import difference, joint_error, score
    >>> tasks = [f"epidemia_low_nsduh_{name}_ever_by_age" for name in ("cocaine", "heroin")]
    >>> half = [score(task, lambda condition: 0.5) for task in tasks]
    >>> tenth = [score(task, lambda condition: 0.1) for task in tasks]
    >>> mean_error = joint_error([found.draws for found in tenth])
    >>> pairs = [difference(one.draws, other.draws) for one, other in zip(tenth, half)]
    >>> difference_error = joint_error(pairs)
    """

    task: str
    vintage: str
    score: float
    error: float
    l1: float
    anchors: Anchors
    population: float
    population_error: float
    l1_population: float
    draws: Draws = field(compare=False)
    population_draws: Draws = field(compare=False)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `population`, cut off at 0 and 100."""
        half = 1.96 * self.population_error
        # Of NaN, max and min return what stands first.
        return max(self.population - half, 0.0), min(self.population + half, 100.0)

    def __repr__(self) -> str:
        anchors, (low, high) = self.anchors, self.interval
        error = "" if math.isnan(self.error) else f" ± {self.error:.1f}"
        more = "" if anchors.informative else "; uninformative"
        if not math.isnan(low):
            more += f"; against the population {self.population:.1f}, 95 % {low:.1f} to {high:.1f}"
        return (
            f"{self.task} ({self.vintage}): {self.score:.1f}{error} of 100 "
            f"(distance {self.l1:.4f}; {anchors.zero:.4f} scores 0, {anchors.perfect:.4f} scores "
            f"100, knowing averages only is {anchors.mean:.4f}{more})"
        )


def score(task: str | Truth, q: Any) -> Score:
    """Score beliefs about a task in the same way as lm-eval's results.

    Parameters
    ----------
    task : str or Truth
        Name of a task, or its truth in another vintage.
    q : array_like, DataFrame or callable
        P~(Y | X), rows summing to 1 (nothing is ever normalised):

        - an array, shape (C, K), in the order of ``truth.given`` and ``truth.levels``;
        - a DataFrame, aligned by its labels: long, with a column per condition, ``answer`` and
          ``q`` (others are ignored), or wide, with a column per answer and the conditions as index
          or as columns;
        - a function of the condition, called with ``{variable: label}`` for each cell. It returns K
          probabilities in the order of the levels, or ``{answer: probability}``; for a binary
          outcome it may return one number, the probability of the *first* level
          (``truth.levels[0]``, mostly "Yes").

        An array has no labels: pass a frame itself, because its columns may be in another order.

    Returns
    -------
    Score

    Raises
    ------
    EpidemiaError
        If the task has no truth here; if `q` lacks a cell or answer, repeats one, or has one that
        the truth lacks; if a value is not a probability; if a cell does not sum to 1. Rounding to
        float32 is allowed: sums may be off, and values below 0, by less than 1e-5; they are used
        unchanged.

    Examples
    --------
    One number for everybody, and the truth itself:

    >>> from lm_eval_epidemia.api import load_truth, score
    >>> task = "epidemia_low_nsduh_cocaine_ever_by_age"
    >>> found = score(task, lambda condition: 0.12)
    >>> 0 < found.score < 100, found.l1 > found.anchors.perfect
    (True, True)
    >>> score(task, load_truth(task).p).score
    100.0

    A frame is aligned by its labels, in any order:

    >>> frame = load_truth(task).to_frame().assign(q=lambda rows: rows.p)
    >>> score(task, frame.sample(frac=1, random_state=1)).score
    100.0
    >>> score(task, frame.pivot(index="age", columns="answer", values="p")).score
    100.0
    >>> score(task, frame.query("age != '12-13' or answer == 'No'"))
    Traceback (most recent call last):
    lm_eval_epidemia.core.errors.EpidemiaError: beliefs lack age=12-13, answer Yes
    """
    truth = task if isinstance(task, Truth) else load_truth(task)
    part = part_of(truth)
    measured = Measured(part, Elicited(read_beliefs(truth, q)))
    draws, population_draws = measured.score_draws, measured.score_population_draws
    return Score(
        task=truth.task,
        vintage=truth.vintage,
        score=measured.score,
        error=joint_error([draws]),
        l1=measured.l1,
        anchors=part.anchors,
        population=measured.score_population,
        population_error=joint_error([population_draws]),
        l1_population=measured.l1_population,
        draws=draws,
        population_draws=population_draws,
    )


def other_scales(task: str | Truth, q: Any, cells: bool = False) -> pd.DataFrame:
    """Compare beliefs with the truth of a task on other scales than the score.

    Parameters
    ----------
    task : str or Truth
    q : callable, DataFrame or array_like
        As `score` takes it.
    cells : bool
        Whether to return every cell instead of their weighted means.

    Returns
    -------
    DataFrame
        A row per scale: ``value``; ``error``, its standard error from the survey's sampling;
        ``draws``, for `joint_error`. ``total variation`` and ``Wasserstein-1`` (of more than
        two ordered answers) are in [0, 1], ``Jensen-Shannon`` in bits, ``log score`` in nats
        (higher is better), ``rank agreement`` in [-1, 1]. With `cells` a row per cell: its
        conditions, ``weight``, and a column per scale except the last.

    Examples
    --------
    >>> from lm_eval_epidemia.api import other_scales
    >>> shown = other_scales("epidemia_low_gss_party_by_race", lambda race: [0.4, 0.3, 0.3])
    >>> shown.value.round(3)
    total variation    0.156
    Jensen-Shannon     0.024
    log score         -1.089
    Wasserstein-1      0.112
    rank agreement     0.000
    Name: value, dtype: float64
    """
    truth = task if isinstance(task, Truth) else load_truth(task)
    part, elicited = part_of(truth), Elicited(read_beliefs(truth, q))
    if cells:
        labels = zip(*truth.given, strict=True)
        columns = dict(zip(truth.conditions, labels, strict=True))
        return pd.DataFrame({**columns, "weight": truth.weights, **scaled_cells(part, elicited.q)})
    known = compare_on_scales(part, elicited)
    names = [name for name in SCALES if name in known]
    frame = pd.DataFrame({"value": [known[name].value for name in names]}, index=names)
    frame["error"] = [joint_error([known[name].draws]) for name in names]
    frame["draws"] = [known[name].draws for name in names]
    return frame


def calibration_line(beliefs: Mapping[str, Any]) -> Tilt:
    """Return the line logit q = tilt + slope logit p through the beliefs about one or more tasks.

    Parameters
    ----------
    beliefs : mapping of str to callable, DataFrame or array_like
        By task; each as in `score`. Tasks have equal weight.

    Returns
    -------
    Tilt
        ``tilt``, ``slope`` and their errors; see docs/evidence/scales.md. Beliefs equal to the
        population have slope 1 and tilt 0; the survey's own figures contain its errors, and have a
        slope above 1.

    Examples
    --------
    >>> from lm_eval_epidemia.api import calibration_line, load_truth
    >>> names = ["epidemia_low_nsduh_cocaine_ever_by_age", "epidemia_low_nsduh_heroin_ever_by_age"]
    >>> halfway = {name: (load_truth(name).p + 0.5) / 2 for name in names}
    >>> calibration_line(halfway).slope < 1
    True
    """
    if not isinstance(beliefs, Mapping) or not beliefs:
        raise EpidemiaError(
            "calibration_line takes beliefs by task: {'epidemia_low_gss_party_by_race': q}"
        )
    truths = {name: load_truth(name) for name in beliefs}
    return fit_tilt(
        [(part_of(t), Elicited(read_beliefs(t, beliefs[name]))) for name, t in truths.items()]
    )
