"""Comparison of answers with a truth on scales other than the score, with joint errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.score import calibration_line, scales
from lm_eval_epidemia.score.calibration_line import log_odds, mean_over
from lm_eval_epidemia.score.joint import Draws, joint_error
from lm_eval_epidemia.score.score import ordering_error
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task


class Scale(NamedTuple):
    """A scale on which answers are compared with a truth.

    Attributes
    ----------
    of : callable
        Maps p (..., C, K), q (C, K) and n (C,) (see `score.scales.fill_sizes`) to one number per
        cell, (..., C); or, if it `compares` the cells, to one number for all, (...).
    compares : bool
    asks : callable
        Whether the scale is meaningful for a truth of C cells and K levels, ordered or not.
    """

    of: Callable[[Array, Array, Array], Array]
    compares: bool = False
    asks: Callable[[int, int, bool], bool] = lambda cells, levels, ordered: True


#: By name, as tables have them.
SCALES = {
    "total variation": Scale(lambda p, q, n: scales.total_variation(p, q)),
    "Jensen-Shannon": Scale(lambda p, q, n: scales.jensen_shannon(p, q)),
    "log score": Scale(scales.log_score),
    "Wasserstein-1": Scale(
        lambda p, q, n: scales.wasserstein(p, q),
        # Of two levels it is the total variation.
        asks=lambda cells, levels, ordered: ordered and levels > 2,
    ),
    "rank agreement": Scale(
        lambda p, q, n: scales.rank_agreement(p, q),
        compares=True,
        asks=lambda cells, levels, ordered: cells > 1,
    ),
}


class ScaleValue(NamedTuple):
    """A number and its draws; None if it has none."""

    value: float
    draws: Draws | None


#: The most levels of a score at decision endpoints.
MOST_LEVELS = 10


def is_ordered(task: str) -> bool:
    """Tell whether the answers of a task are ordered, according to its record."""
    declared = declared_task(task)
    return any(way.ordered for way in find_record(declared.survey).variables[declared.outcome])


def is_typed(typed: str, task: str, options: Sequence[str]) -> bool:
    """Tell whether ``--metadata typed`` makes another type of question of one with these options.

    Parameters
    ----------
    typed : {"", "yes-no", "score"}
    task : str
    options : sequence of str
    """
    if typed == "score":
        return 2 < len(options) <= MOST_LEVELS and is_ordered(task)
    return typed == "yes-no" and {*options} == {"Yes", "No"}


def asked_scales(part: Part) -> dict[str, Scale]:
    """Return the scales that are meaningful for a part of a task."""
    (cells, levels), here = part.p.shape, is_ordered(part.truth.task)
    return {name: scale for name, scale in SCALES.items() if scale.asks(cells, levels, here)}


def sizes(part: Part) -> Array:
    """Return how finely each cell of a part is resolved, shape (C',)."""
    truth = part.truth
    return scales.fill_sizes(truth.p, truth.n_eff)[part.complete]


def compare_on_scales(part: Part, elicited: Elicited) -> dict[str, ScaleValue]:
    """Compare elicited answers with a truth, on every scale that is meaningful there.

    Returns
    -------
    dict of str to Known
        By the names of `SCALES`; scales per cell are averaged over cells, weighted.
    """
    n, known = sizes(part), {}
    for name, scale in asked_scales(part).items():

        def of(p: Array, q: Array, scale: Scale = scale) -> Array:
            values = scale.of(p, q, n)
            return values if scale.compares else np.asarray(values @ part.weights)

        def of_answers(by_order: Array, of: Callable[[Array, Array], Array] = of) -> Array:
            return np.array([of(part.p, q) for q in by_order])

        by_order = elicited.by_order
        asking = 0.0 if by_order is None else ordering_error(by_order, of_answers)
        draws = Draws(part.truth.sample, of(part.replicates, elicited.q), asking)
        known[name] = ScaleValue(float(of(part.p, elicited.q)), draws)
    return known


def scaled_cells(part: Part, q: Array) -> dict[str, Array]:
    """Compare answers with a truth cell by cell, (C',) by the names of `SCALES`."""
    return {
        name: scale.of(part.p, q, sizes(part))
        for name, scale in asked_scales(part).items()
        if not scale.compares
    }


def best_log_score(part: Part) -> float:
    """Return the log score of the survey's own figures, the highest possible except for 1/K."""
    return float(scales.log_score(part.p, part.p, sizes(part)) @ part.weights)


class Tilt(NamedTuple):
    """A calibration line with its errors; see `score.calibration_line`.

    Attributes
    ----------
    tilt, slope : float
        In log-odds, and per log-odds; NaN if the truth varies no more than its noise.
    tilt_error, slope_error : float
        Standard errors.
    """

    tilt: float
    slope: float
    tilt_error: float
    slope_error: float


def fit_tilt(answered: Sequence[tuple[Part, Elicited]]) -> Tilt:
    """Return the line through the cells and levels of all these tasks, each with equal weight."""
    tasks = [
        calibration_line.moments(
            part.weights, part.p, elicited.q, sizes(part), part.replicates, part.truth.sample
        )
        for part, elicited in answered
    ]
    line = calibration_line.fit_line(tasks)
    if math.isnan(line.slope):
        return Tilt(line.tilt, line.slope, math.nan, math.nan)
    asking = [
        _asking(part, elicited.by_order, line, len(tasks))
        for part, elicited in answered
        if elicited.by_order is not None
    ]
    tilt_error, slope_error = (
        joint_error(
            [
                *(Draws(sample, at[k]) for sample, at in line.draws.items()),
                *(Draws("", np.array([]), errors[k]) for errors in asking),
            ],
            # An exact table that was asked in all its orders has no error at all.
            [1.0] * (len(line.draws) + len(asking)),
        )
        if line.draws or asking
        else 0.0
        for k in range(2)
    )
    return Tilt(line.tilt, line.slope, tilt_error, slope_error)


def _asking(
    part: Part, by_order: Array, line: calibration_line.CalibrationLine, tasks: int
) -> tuple[float, float]:
    """Errors of tilt and slope from the orderings of one of some tasks, which were sampled."""
    n = sizes(part)
    x = log_odds(part.p, n)

    def slopes(by_order: Array) -> Array:
        y = log_odds(by_order, n)
        return mean_over(part.weights, (x - line.centre) * y) / line.spread / tasks

    def tilts(by_order: Array) -> Array:
        y = log_odds(by_order, n)
        return mean_over(part.weights, y) / tasks - line.centre * slopes(by_order)

    return ordering_error(by_order, tilts), ordering_error(by_order, slopes)
