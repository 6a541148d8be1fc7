"""The metrics of tasks whose answers form distributions, for every way of asking.

The answers of one task, in any order, are compared with the installed ground truth. A cell counts
if all its prompts were answered.
Under ``--limit`` the other cells are left out, the shares of the remaining ones are rescaled to sum
to 1, and `seen` is the share of the task that remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.ask.bounds import Within, bounds
from lm_eval_epidemia.ask.way import Answer
from lm_eval_epidemia.benchmarks.benchmark import Measurement
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score.joint import joint_error

#: Points of the score, and probability of letters behind a number without a bound, that may go
#: unnoticed where a server did not show them.
MOST, MOST_MASS = 1.0, 0.01

#: Answers under each ordering are kept up to so many numbers: of 120 orderings a task may have
#: 100,000. Without them an error does not cover the orderings that were not asked.
MOST_ORDERED = 2_000

#: Ends the line of answers without them.
DROPPED = "-"


def compare_task(answers: Sequence[Answer]) -> Measured | None:
    """Compare the answers of a task with its truth; None, with a warning, if there is no score.

    Raises
    ------
    EpidemiaError
        If the questions were made from a truth other than the installed one.
    """
    return _compare_task(collect.collect_answers(WAYS, answers), answers)


def _compare_task(collected: collect.Collected, answers: Sequence[Answer]) -> Measured | None:
    truth = collected.truth
    if not collect.is_readable(collected, answers):
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
    way, levels = WAYS[answers[0].way], len(truth.levels)
    elicited = way.distribution(collected.said[complete], answers[0], levels)
    return Measured(part_of(truth, complete), elicited)


def measure(answers: Sequence[Answer]) -> Measurement:
    """Measure answers by every metric, and keep them."""
    collected = collect.collect_answers(WAYS, answers)
    measured, complete = _compare_task(collected, answers), collected.answered.all(axis=1)
    # Exactly 1 when nothing is missing, whatever the rounding of the sum.
    share = 1.0 if complete.all() else float(collected.truth.weights[complete].sum())
    seen = {"seen": share}
    if measured is None:
        return Measurement(seen, {"score": None, "score_population": None})
    draws = {"score": measured.score_draws, "score_population": measured.score_population_draws}
    numbers = {
        "score": measured.score,
        "score_stderr": joint_error([draws["score"]]),
        "score_expected": measured.score_expected,
        "l1": measured.l1,
        "score_population": measured.score_population,
        "score_population_stderr": joint_error([draws["score_population"]]),
        "l1_population": measured.l1_population,
    }
    return Measurement(
        numbers | seen, draws, _format_kept(collected.way.by_position(answers), measured)
    )


def _format_kept(shares: Array | None, measured: Measured) -> str:
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


class Unseen(NamedTuple):
    """The probability assigned to letters that were not shown, and its effect on the score.

    Attributes
    ----------
    mass : float
        Mean over prompts of the probability assigned to letters that were not shown at all, in [0,
        1].
    effect : float
        The most points by which the score can be wrong because of these letters, and of other
        spellings of letters shown in one; it can exceed 0 even if `mass` is 0. NaN if there is no
        score, or the way of asking has no bound.
    """

    mass: float
    effect: float


def bound_unseen(answers: Sequence[Any]) -> Unseen | None:
    """Bound how much letters that were not shown may change a task's score; warn above 1 point.

    Only bounds of their probabilities are known: see `ask.bounds`.

    The distance changes by at most ``sum_x w_x L(x)``, where L(x) bounds the L1 distance between
    the cell's distribution and the one from the true probabilities. The score is monotone in the
    distance, so its error is largest at one end of that interval.

    Parameters
    ----------
    answers : sequence of Answer

    Returns
    -------
    Unseen or None
        None if every log-probability is known.
    """
    values = [answer.value if isinstance(answer.value, tuple) else () for answer in answers]
    bounded = [[p for p in logprobs if isinstance(p, Within)] for logprobs in values]
    if not any(bounded):
        return None
    shared = [math.fsum(math.exp(p) for p in hidden if not p.shown) for hidden in bounded]
    if (way := WAYS.get(answers[0].way)) is None:  # of another benchmark: it has no such bound
        return Unseen(float(np.mean(shared)), math.nan)
    name, hidden = way.named(answers[0].task), Unseen(float(np.mean(shared)), _effect(answers))
    if hidden.effect > MOST:
        kind, better = "letters that were not shown", "accepts logprob_token_ids (vLLM)"
        lacking = "one spelling of a letter and not others"
        if (digits := max(p.digits for some in bounded for p in some)) >= 0:
            kind, better = "rounded probabilities", "shows more digits"
            lacking = f"rounded to {plural(digits, 'digit')}"
        elif hidden.mass:
            lacking = f"letters not shown have probability {hidden.mass:.2g}"
        notices.warn(
            kind,
            f"{name}: the server does not show all of its probabilities ({lacking}), which may "
            f"change the score by up to {hidden.effect:.1f} points. Use a server that {better}",
        )
    if hidden.mass > MOST_MASS and way.expects:
        notices.warn(
            "letters that were not shown, in score_expected",
            f"{name}: letters that the server did not show have probability {hidden.mass:.2g}; "
            "unseen_effect bounds their effect on the score, but not on score_expected",
        )
    return hidden


def _effect(answers: Sequence[Any]) -> float:
    first, collected = answers[0], collect.collect_answers(WAYS, answers)
    if (measured := _compare_task(collected, answers)) is None:
        return math.nan
    way, values = WAYS[first.way], collected.said
    places = tuple(np.array([(answer.cell, answer.place) for answer in answers]).T)
    low, high = np.zeros_like(values), np.ones_like(values)
    low[places], high[places] = map(np.array, zip(*(bounds(a.value) for a in answers), strict=True))
    part, l1 = measured.part, measured.l1
    cells, levels = part.complete, len(part.truth.levels)
    off = float(part.weights @ way.moved(values[cells], low[cells], high[cells], first, levels))
    ends = part.score_of(np.array([max(l1 - off, 0.0), l1 + off]))
    return float(np.abs(ends - measured.score).max())
