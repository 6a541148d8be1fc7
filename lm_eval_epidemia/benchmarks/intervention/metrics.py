"""The metrics of tasks about causal graphs: correct answers before and after an intervention.

Task files name them. Each takes the answers of one task, in any order, and returns one number. An
effect counts if its prompts without and with the intervention were both answered. Under ``--limit``
the other effects are left out, and `seen` is the share of the task that remains. In tasks without
interventions, every prompt counts by itself. Means over effects, and their differences, have errors
whose draws are of scenes (`draw_mean`), see `score.estimates`.
"""

from __future__ import annotations

import hashlib
import math
import reprlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.ask.way import Answer, Way
from lm_eval_epidemia.benchmarks.benchmark import Kept, Measurement
from lm_eval_epidemia.benchmarks.intervention.names import load_pairs
from lm_eval_epidemia.benchmarks.intervention.questions import GraphQuestions
from lm_eval_epidemia.benchmarks.intervention.ways import WAYS
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score.estimates import NOTHING, Estimate, shares_of, subtract_paired
from lm_eval_epidemia.score.joint import Draws

#: No recorded log-odds are larger.
MOST_ODDS = 1e9


class Graded(NamedTuple):
    """The effects that a model answered correctly; N complete ones.

    Attributes
    ----------
    numbers : ndarray of int, shape (N,)
        Indices of `Questions.pairs`, or of prompts if there are no pairs.
    base, post : ndarray of bool, shape (N,)
        Whether the question without, and with, the intervention was answered correctly. Equal if
        there are no pairs.
    kappa : ndarray of int, shape (N,)
        The intervention effect: 1 where the right answer changes.
    scene : ndarray of int, shape (N,)
        Number of the scene, which is the cluster of the standard error.
    """

    numbers: NDArray[np.int64]
    base: NDArray[np.bool_]
    post: NDArray[np.bool_]
    kappa: NDArray[np.int64]
    scene: NDArray[np.int64]

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether both answers are correct, that is, the effect and the base answer."""
        return self.base & self.post


def odds_of(answer: Answer) -> float:
    """Return the log-odds of yes, 0 if there is no preference; of what was written its sign."""
    value = answer.value
    return float(value[0] - value[1] if isinstance(value, tuple) else value)


def grade_effects(truth: GraphQuestions, odds: Array, asked: NDArray[np.bool_]) -> Graded:
    """Compare answers with the truth.

    Parameters
    ----------
    truth : Questions
    odds : ndarray, shape (prompts,)
        Above 0 for yes, below 0 for no; 0 and NaN mean no answer, and count as wrong.
    asked : ndarray of bool, shape (prompts,)

    Returns
    -------
    Graded
    """
    right = np.sign(odds) == _signs(truth)
    numbers = {id(scene): number for number, scene in enumerate(truth.scenes)}
    if truth.pairs:
        base, post = np.array([(pair.base, pair.post) for pair in truth.pairs]).T
        kappa = np.array([pair.effect.kappa for pair in truth.pairs])
        scene = np.array([numbers[id(pair.scene)] for pair in truth.pairs])
    else:
        base = post = np.arange(len(truth.prompts))
        kappa = np.zeros(len(base), dtype=int)
        scene = np.array([numbers[id(prompt.scene)] for prompt in truth.prompts])
    kept = np.flatnonzero(asked[base] & asked[post])
    return Graded(kept, right[base[kept]], right[post[kept]], kappa[kept], scene[kept])


def _signs(truth: GraphQuestions) -> NDArray[np.int64]:
    """Return 1 for each prompt whose right answer is yes, -1 for the others."""
    return np.array([1 if prompt.right else -1 for prompt in truth.prompts])


def draw_mean(truth: GraphQuestions, effects: Graded, of: Array) -> Array:
    """Return the draws of a mean over effects: its values with other samples.

    Parameters
    ----------
    truth : Questions
    effects : Graded
    of : ndarray, shape (N,)
        What is averaged over the effects.

    Returns
    -------
    ndarray, shape (S,)
        One number per cluster, the same clusters for every respondent and way of asking: the mean
        plus the cluster's linearised share in it, scaled so that their variance (ddof=1) is that of
        the mean: ``sum_g n_g / (n_g - 1) sum_s (e_s - mean e)^2 / N^2``, e_s being the sum over a
        cluster's effects of what they differ from their stratum's mean (Cochran 1977, sections 5.3
        and 11.7). With all effects there, of one graph, that is the variance of its samples' means
        over n.
        NaN if a stratum has one cluster only, or nothing is there.
    """
    ids, strata = clusters(truth, effects)
    number, shares = len(strata), np.zeros(len(strata))
    if not len(of):
        return np.full(number, math.nan)
    for stratum in np.unique(strata[ids]):
        inside = strata[ids] == stratum
        there, those = shares_of(of[inside], ids[inside])
        if len(there) < 2:
            return np.full(number, math.nan)
        shares[there] = those / len(of)
    return np.asarray(of.mean() + shares * math.sqrt(number - 1))


def clusters(truth: GraphQuestions, effects: Graded) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    """Return the clusters of effects, and their strata.

    Returns
    -------
    ids : ndarray of int, shape (N,)
        The cluster of each effect: its sample, since all questions of a sample share its names;
        where no graph is asked about, the listed pair, which several samples may ask about.
    strata : ndarray of str, shape (S,)
        Of each cluster: the graph, of those of the paper. These are what they are; larger graphs
        are a sample of such, and so are pairs, so that they are one stratum.
    """
    if truth.listed:
        return np.array(truth.listed)[effects.numbers], np.full(len(load_pairs()), "")
    return effects.scene, np.array(["" if scene.kinds else scene.shape for scene in truth.scenes])


class GradedTask(NamedTuple):
    """The graded answers to a task.

    Attributes
    ----------
    truth : Questions
    odds : ndarray, shape (prompts,)
        Log-odds of yes; NaN if no answer could be read, or the prompt was not asked.
    asked : ndarray of bool, shape (prompts,)
    grades : Graded
    """

    truth: GraphQuestions
    odds: Array
    asked: NDArray[np.bool_]
    grades: Graded

    def labels(self, of: Callable[[Any], str]) -> NDArray[np.str_]:
        """Return the part of a table to which each effect, or else each prompt, belongs."""
        asked = self.truth.pairs or self.truth.prompts
        return np.array([of(asked[number]) for number in self.grades.numbers], dtype=str)

    def over(self, chosen: Any = slice(None), right: str = "right") -> Estimate:
        """Average over chosen effects whether both answers are right: or ``base``, or ``post``."""
        grades = pick_effects(self.grades, chosen)
        return average_effects(self.truth, grades, getattr(grades, right))

    def cut(self, of: Callable[[Any], str], parts: Iterable[str] = ()) -> dict[str, Estimate]:
        """Average over parts, by default all in the order of appearance."""
        labels = self.labels(of)
        return {part: self.over(labels == part) for part in parts or dict.fromkeys(labels.tolist())}


def grade_task(answers: Sequence[Any]) -> GradedTask | None:
    """Grade the answers of a task; None, with a warning, if that is impossible.

    Raises
    ------
    EpidemiaError
        If the questions were made from a truth other than the installed one.
    """
    collected = collect.collect_answers(WAYS, answers)
    truth, name = collected.truth, collected.name
    if not collect.is_readable(collected, answers):
        return None
    odds = np.full(len(truth.prompts), math.nan)
    for answer in answers:
        odds[answer.cell] = odds_of(answer)
    asked = collected.answered[:, 0]
    grades = grade_effects(truth, odds, asked)
    if len(grades.numbers) < (whole := len(truth.pairs or truth.prompts)):
        notices.warn(
            "only part of the task was seen",
            f"{name}: {len(grades.numbers)} of {whole} effects were asked both before and "
            "after the intervention; the accuracy is for these"
            if truth.pairs
            else f"{name}: {len(grades.numbers)} of {whole} prompts were asked",
        )
    return GradedTask(truth, odds, asked, grades)


def measure(answers: Sequence[Any]) -> Measurement:
    """Measure answers by every metric, and keep them."""
    truth = WAYS[answers[0].way].load(answers[0].task)
    cells = np.isin(np.arange(len(truth.prompts)), [answer.cell for answer in answers])
    complete = grade_effects(truth, np.zeros(len(cells)), cells).numbers
    seen = {"seen": len(complete) / len(truth.pairs or truth.prompts)}
    if (known := grade_task(answers)) is None:
        return Measurement(seen, {"accuracy": None}, _format_kept(truth, answers))
    effects, signs = known.grades, _signs(truth)
    # Joint over ways and models.
    at = draw_mean(truth, effects, effects.right.astype(float))
    draws = None if np.isnan(at).any() else Draws(_whose(truth), at)
    numbers = {
        "accuracy": _mean(effects.right),
        "accuracy_stderr": math.nan if draws is None else float(draws.at.std(ddof=1)),
        "yes_bias": _mean((np.sign(np.nan_to_num(known.odds)) - signs)[known.asked]) / 2,
        "base_accuracy": _mean(effects.base),
        "post_accuracy": _mean(effects.post),
        "kappa0_accuracy": _mean(effects.right[effects.kappa == 0]),
        "kappa1_accuracy": _mean(effects.right[effects.kappa == 1]),
        "margin": _mean((signs * known.odds)[known.asked]),
    }
    return Measurement(numbers | seen, {"accuracy": draws}, _format_kept(truth, answers))


def _mean(values: NDArray[Any]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _whose(truth: GraphQuestions) -> str:
    """Name what the clusters are a sample of: pairs are shared by the tasks about them."""
    if truth.listed:
        return f"tuebingen_pairs {hashlib.sha256(repr(load_pairs()).encode()).hexdigest()[:12]}"
    return f"{truth.task} {truth.fingerprint}"


def _format_kept(truth: GraphQuestions, answers: Sequence[Any]) -> str:
    """Write the log-odds of yes for every prompt in one line, for the report.

    "-" where a prompt was not asked, "?" where no answer could be read.
    """
    cells = {answer.cell: odds_of(answer) for answer in answers}
    return " ".join(
        "-" if cell not in cells else "?" if math.isnan(cells[cell]) else f"{cells[cell]:.4g}"
        for cell in range(len(truth.prompts))
    )


class RecordedAnswers(NamedTuple):
    """The answers to the prompts of a task, in order.

    Attributes
    ----------
    odds : ndarray, shape (prompts,)
        Log-odds of yes, in nats; 1 or -1 for a written answer. NaN if no answer was asked for or
        could be read.
    asked : ndarray of bool, shape (prompts,)
    """

    odds: Array
    asked: NDArray[np.bool_]


def read_said(text: str, prompts: int, written: bool) -> RecordedAnswers:
    """Read the answers that `measure` keeps.

    Parameters
    ----------
    text : str
        A number for each prompt, separated by spaces; "-" if it was not asked, "?" if no answer
        could be read.
    prompts : int
        How many the task has.
    written : bool
        Whether answers were written: each is 1 or -1.

    Raises
    ------
    ValueError
        If it is not such a line, with the reason.
    """
    parts = np.array(text.split())
    if len(parts) != prompts:
        raise ValueError(f"{len(parts)} recorded answers, expected {prompts}")
    is_read, odds = ~np.isin(parts, ("-", "?")), np.full(prompts, math.nan)
    with suppress(ValueError):
        odds[is_read] = parts[is_read].astype(float)
    if not (np.abs(odds[is_read]) <= MOST_ODDS).all():
        raise ValueError(
            f"the recorded answers are {reprlib.repr(text)}, expected numbers, - and ?"
        )
    if written and not np.isin(odds[is_read], (-1, 1)).all():
        raise ValueError(f"the recorded replies are {reprlib.repr(text)}, expected 1, -1, - and ?")
    return RecordedAnswers(odds, parts != "-")


def read_kept(text: str, truth: GraphQuestions, way: Way) -> Kept:
    """Read the line that `measure` keeps, and grade it."""
    said = read_said(text, len(truth.prompts), way.generated)
    known = GradedTask(truth, *said, grade_effects(truth, *said))
    return Kept(known, {"accuracy": _mean(known.grades.right)})


def pick_effects(graded: Graded, chosen: NDArray[np.bool_]) -> Graded:
    """Return the effects that are chosen, shape (N,)."""
    return Graded._make(each[chosen] for each in graded)


def match_effects(one: Graded, other: Graded) -> tuple[Graded, Graded]:
    """Return the effects that are in both, as each has them."""
    return (
        pick_effects(one, np.isin(one.numbers, other.numbers)),
        pick_effects(other, np.isin(other.numbers, one.numbers)),
    )


def average_effects(truth: GraphQuestions, graded: Graded, of: Any) -> Estimate:
    """Average over effects.

    Parameters
    ----------
    truth : Questions
    graded : Graded
        N effects of it.
    of : ndarray, shape (N,)
        What is averaged.

    Returns
    -------
    Estimate
        With all effects there, of one graph and intervened variable: the mean over queries of each
        sample, averaged over the samples, and their standard deviation over the root of how many
        they are.
    """
    of = np.asarray(of, dtype=float)
    if not len(of):
        return NOTHING
    ids, strata = clusters(truth, graded)
    at, there = draw_mean(truth, graded, of), np.unique(ids)
    freedom = len(there) - len(np.unique(strata[there]))
    return Estimate(float(of.mean()), float(at.std(ddof=1)), len(there), freedom, at)


def measure_change(
    truth: GraphQuestions, graded: Graded, odds: Array
) -> tuple[Estimate, Estimate, Estimate]:
    """Return how an intervention changes the log-odds of yes, where it matters and where it does
    not.

    Parameters
    ----------
    truth : Questions
    graded : Graded
    odds : ndarray, shape (prompts,)

    Returns
    -------
    same, changed, difference : Estimate
        The change from the question before to that after the intervention, in nats: where kappa is
        0, where it is 1, and the second minus the first. A model that ignores the intervention has
        a difference of 0; one that sees which edges it deletes has a negative difference, whatever
        its bias to yes.
    """
    moved = np.array(
        [odds[truth.pairs[n].post] - odds[truth.pairs[n].base] for n in graded.numbers], dtype=float
    )
    same, changed = (
        average_effects(
            truth, pick_effects(graded, graded.kappa == kappa), moved[graded.kappa == kappa]
        )
        for kappa in (0, 1)
    )
    return same, changed, subtract_paired(changed, same)


def known_scenes(graded: Graded) -> NDArray[np.int64]:
    """Return the scenes with all prompts answered correctly."""
    return np.setdiff1d(graded.scene, graded.scene[~graded.right])
