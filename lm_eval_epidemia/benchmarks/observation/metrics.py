"""The metrics of tasks whose answers form distributions, for every way of asking.

The answers of one task, in any order, are compared with the installed ground truth. A cell counts
if all its prompts were answered.
Under ``--limit`` the other cells are left out, the shares of the remaining ones are rescaled to sum
to 1, and `seen` is the share of the task that remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.benchmark import Measurement, declared_metrics
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.benchmarks.observation.response import Response
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.way import Answer, DistributionWay, Metric
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score.joint import Draws, SharedError, joint_error

#: Answers under each ordering are kept up to so many numbers: of 120 orderings a task may have
#: 100,000. Without them an error does not cover the orderings that were not asked.
MOST_ORDERED = 2_000

#: Ends the line of answers without them.
DROPPED = "-"


def against_truth(answers: Sequence[Answer]) -> Measured | None:
    """Compare the answers of a task with its truth; None, with a warning, if there is no score.

    Raises
    ------
    EpidemiaError
        If the questions were made from a truth other than the installed one.
    """
    collected = collect.collected(WAYS, answers)
    way, truth = WAYS[answers[0].way], collected.truth
    if not collect.readable(collected, answers):
        return None
    complete = collect.complete_cells(collected)
    if not complete.any():
        return None
    if not complete.all():
        notices.warn(
            "only part of the task was seen",
            f"{collected.name}: {int(complete.sum())} of {complete.size} cells are complete "
            f"({truth.weights[complete].sum():.0%} of the population); the score is for these",
        )
    elicited = way.distribution(collected.said[complete], answers[0], len(truth.levels))
    return Measured(part_of(truth, complete), elicited)


def measure(answers: Sequence[Response]) -> Measurement:
    """Measure answers by every metric of `metrics_of`, and keep them."""
    way, measured = WAYS[answers[0].way], against_truth(answers)
    seen = {"seen": _seen(answers)}
    if measured is None:
        return Measurement(seen, {"score": None, "score_population": None})
    draws = {
        "score": measured.score_draws,
        "score_population": measured.score_population_draws,
    }
    numbers = {
        "score": measured.score,
        "score_stderr": _error(draws["score"]),
        "score_expected": measured.score_expected,
        "l1": measured.l1,
        "score_population": measured.score_population,
        "score_population_stderr": _error(draws["score_population"]),
        "l1_population": measured.l1_population,
    }
    return Measurement(numbers | seen, draws, _kept(way.by_position(answers), measured))


def _error(draws: Draws | None) -> float:
    error = joint_error([draws])
    return SharedError(error) if draws is not None and len(draws.at) else error


def _seen(answers: Sequence[Answer]) -> float:
    """Share of the population in cells that were asked completely; 1 without ``--limit``."""
    way, first = WAYS[answers[0].way], answers[0]
    truth = way.load(first.task)
    asked = {(answer.cell, answer.place) for answer in answers}
    needed = way.prompts(truth, first)
    complete = np.bincount([cell for cell, _ in asked], minlength=len(truth.weights)) == needed
    # Exactly 1 when nothing is missing, whatever the rounding of the sum.
    return 1.0 if complete.all() else float(truth.weights[complete].sum())


def _kept(shares: Array | None, measured: Measured) -> str:
    """Write what was elicited, for results: four lists of numbers, separated by semicolons.

    The numbers of the completely answered cells (nothing if these are all); the distribution in
    each, to six significant digits; the share of each displayed position;
    and what lies behind a distribution that is known by chance: counts of answers, or the
    distributions under each ordering, if not all were asked; `DROPPED` if these are too many.
    """
    elicited, complete = measured.elicited, measured.part.complete
    cells: Any = [] if complete.all() else np.flatnonzero(complete)
    chance: Any = elicited.counts
    by_order = elicited.by_order
    is_dropped = False
    if by_order is not None and by_order.shape[1] < math.factorial(by_order.shape[2]):
        is_dropped = by_order.size > MOST_ORDERED
        chance = None if is_dropped else by_order
    numbers = (cells, elicited.q, shares, chance)
    line = ";".join(
        "" if of is None else " ".join(f"{x:.6g}" for x in np.ravel(of)) for of in numbers
    )
    return line + DROPPED if is_dropped else line


@cache
def metrics_of(way: DistributionWay) -> dict[str, Metric]:
    """Return the metrics of a way of asking, by name.

    A metric's error comes right after it: lm-eval then shows it in the column Stderr.
    """
    metrics = declared_metrics("observation")
    if way.drawn:
        for name in ("l1", "l1_population"):
            metrics[name] = metrics[name]._replace(low=metrics[name].low - 2)
    if not way.expects:
        del metrics["score_expected"]
    return {**metrics, **way.diagnostics}
