"""The metrics of tasks whose answers form distributions, for every way of asking.

Task files name them. Each takes the answers of one task, in any order, compares them with the
installed ground truth, and returns one number. A cell counts if all its prompts were answered.
Under ``--limit`` the other cells are left out, the shares of the remaining ones are rescaled to sum
to 1, and `seen` is the share of the task that remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.elicit.way import Answer, Metric, Way
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score.joint import Draws, SharedError, joint_error

#: Answers under each ordering are kept up to so many numbers: of 120 orderings a task may have
#: 100,000. Without them an error does not cover the orderings that were not asked.
MOST_ORDERED = 2_000

#: Ends the line of answers without them.
DROPPED = "-"


@collect.once
def against_truth(answers: Sequence[Answer]) -> Measured | None:
    """Compare the answers of a task with its truth; None, with a warning, if there is no score.

    Raises
    ------
    EpidemiaError
        If the questions were made from a truth other than the installed one.
    """
    collected = collect.collected(WAYS, answers)
    way, truth = collected.way, collected.truth
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
    assert way.distribution is not None
    elicited = way.distribution(collected.said[complete], answers[0], len(truth.levels))
    return Measured(part_of(truth, complete), elicited)


def _of(answers: Sequence[Answer], name: str, without: Any = math.nan) -> Any:
    measured = against_truth(answers)
    return without if measured is None else getattr(measured, name)


def l1(answers: Sequence[Answer]) -> float:
    """Weighted L1 distance between elicited and true distributions, in [0, 2]; NaN without a score.

    For sampled answers it estimates the distance of the distribution that they are drawn from, and
    Monte Carlo error can make it negative.
    """
    return _of(answers, "l1")


def score(answers: Sequence[Answer]) -> float:
    """Score from 0 (no better than knowing nothing) to 100 (as close as another sample)."""
    return _of(answers, "score")


def score_expected(answers: Sequence[Answer]) -> float:
    """Score, 0 to 100, if the answer is the mean of all interval midpoints by probability."""
    return _of(answers, "score_expected")


def l1_population(answers: Sequence[Answer]) -> float:
    """Distance from the population, not the survey sample; can be below 0.

    It is negative if answers are closer to the survey than its own sampling noise. NaN if the
    ground truth has no replicates.
    """
    return _of(answers, "l1_population")


def score_population(answers: Sequence[Answer]) -> float:
    """Score from 0 (no better than knowing nothing) to 100 (equal to the population).

    A group's score is the mean before tasks are cut off at 100 (docs/background/sampling-error.md).
    """
    return _of(answers, "score_population")


_score_draws = partial(_of, name="score_draws", without=None)
_score_population_draws = partial(_of, name="score_population_draws", without=None)


def score_stderr(answers: Sequence[Answer]) -> float:
    """Standard error of the score: sampling error of the survey, and error of the asking.

    The error of the asking comes from orderings that were not asked, or from drawn answers. It is
    computed before the score is cut off at 0 and 100, since a score beyond an end is not thereby
    known exactly. NaN without replicates.
    """
    return _error(_score_draws(answers))


def score_population_stderr(answers: Sequence[Answer]) -> float:
    """Standard error of the population score, before it is cut off at 0 and 100."""
    return _error(_score_population_draws(answers))


def _error(draws: Draws | None) -> float:
    error = joint_error([draws])
    return SharedError(error) if draws is not None and len(draws.at) else error


def seen(answers: Sequence[Answer]) -> float:
    """Share of the population in cells that were asked completely; 1 without ``--limit``."""
    way, first = WAYS[answers[0].way], answers[0]
    truth = way.load(first.task)
    asked = {(answer.cell, answer.place) for answer in answers}
    needed = way.prompts(truth, first)
    complete = np.bincount([cell for cell, _ in asked], minlength=len(truth.weights)) == needed
    # Exactly 1 when nothing is missing, whatever the rounding of the sum.
    return 1.0 if complete.all() else float(truth.weights[complete].sum())


def kept(answers: Sequence[Answer]) -> str:
    """Write what was elicited, for results: four lists of numbers, separated by semicolons.

    The numbers of the completely answered cells (nothing if these are all); the distribution in
    each, to six significant digits; the share of each displayed position;
    and what lies behind a distribution that is known by chance: counts of answers, or the
    distributions under each ordering, if not all were asked; `DROPPED` if these are too many.
    Nothing without a score.
    """
    if (measured := against_truth(answers)) is None:
        return ""
    way, elicited, complete = WAYS[answers[0].way], measured.elicited, measured.part.complete
    cells: Any = [] if complete.all() else np.flatnonzero(complete)
    shares = way.by_position(answers) if way.by_position else None
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


def metrics_of(way: Way) -> dict[str, Metric]:
    """Return the metrics of a way of asking, by name.

    A metric's error comes right after it: lm-eval then shows it in the column Stderr.
    """
    # Monte Carlo error of drawn answers can make a distance negative.
    least = -2 if way.drawn else 0
    metrics = {
        "score": Metric(score, True, 0, 100, draws=_score_draws, kept=kept),
        "score_stderr": Metric(score_stderr, False, 0),
        "score_expected": Metric(score_expected, True, 0, 100),
        "l1": Metric(l1, False, least, 2),
        "score_population": Metric(score_population, True, 0, 100, draws=_score_population_draws),
        "score_population_stderr": Metric(score_population_stderr, False, 0),
        # The survey's noise is subtracted, at most 2 in either direction.
        "l1_population": Metric(l1_population, False, least - 2, 4),
        "seen": Metric(seen, True, 0, 1),
    }
    if not way.expects:
        del metrics["score_expected"]
    return {**metrics, **way.diagnostics}
