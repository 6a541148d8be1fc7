"""What the answers of a survey, and of a model, imply for a condition when Z is the same for all.

Crude and standardised effects (see `benchmarks.observation.standardised`) of tasks with several
conditions, of which one
is X and the others are Z. Nothing is asked for it: a model's P~(y | x, z) comes from its samples.
P(z) and P(x, z) are the survey's, for survey and model alike, and have no error here: what differs
is what is believed of Y. An effect is a difference of P(first answer), in points.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.standardised import (
    asking_error,
    crude,
    overlap,
    standardised,
    weighted,
)
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.answered import Samples, read_samples
from lm_eval_epidemia.findings.finding import ALIKE, Column, Finding, Number, Row
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score.joint import Draws, joint_error
from lm_eval_epidemia.surveys.catalogue import task as declared_task


class Propensity(NamedTuple):
    """A task that asks for P(x | z).

    Attributes
    ----------
    task : str
        With X as its outcome and single years of age as its condition, which is all of Z.
    answers : mapping of str to tuple of str
        By level of X, the answers that together are this level.
    """

    task: str
    answers: Mapping[str, tuple[str, ...]]


class Contrast(NamedTuple):
    """An effect that is worth looking at.

    Attributes
    ----------
    task : str
    x : str
        The condition whose levels are compared; the task's others are Z.
    why : str
        What Z is expected to do.
    propensity : Propensity, optional
        The task that asks for P(x | z), in words and levels of its own.
    """

    task: str
    x: str
    why: str
    propensity: Propensity | None = None


_SCHOOL = ("Regular high school diploma", "GED or alternative credential")
_COLLEGE = (
    "Some college, less than one year",
    "One or more years of college, no degree",
    "Associate's degree",
)
_BACHELOR = ("Bachelor's degree",)
_BEYOND = ("Master's degree", "Professional degree beyond a bachelor's degree", "Doctorate")


def _education(**levels: tuple[str, ...]) -> Propensity:
    return Propensity(
        "epidemia_low_acs_education_by_age",
        {label.replace("_", " "): answers for label, answers in levels.items()},
    )


#: No survey asks for P(x | z) itself, but the American Community Survey does for education by age.
_NSDUH = _education(
    High_school_graduate=_SCHOOL,
    Some_college_or_associate_degree=_COLLEGE,
    College_graduate=_BACHELOR + _BEYOND,
)
_SCF = _education(
    High_school_diploma_or_GED=_SCHOOL,
    Some_college=_COLLEGE,
    College_degree=_BACHELOR + _BEYOND,
)
_MEPS = _education(
    **{
        "12_years": ("Grade 12 without a diploma", *_SCHOOL),
        "16_years": _BACHELOR,
        "17_or_more_years": _BEYOND,
    }
)

_SCHOOLING = "generations differ in schooling, and the outcome changes with age"
_ALL = "as above, and sex and race go with both schooling and the outcome"
_ORIGIN = "the groups are not equally old, and the outcome changes with age"
_SEX = "a check: both sexes are about equally old, so little should change"
_INCOME = "people in mid-life earn most, and illness comes with age"

#: Of every published outcome with several conditions the same four, and extra tasks likewise.
CONTRASTS: tuple[Contrast, ...] = (
    *(
        Contrast(f"epidemia_{outcome}_by_{given}", x, why, propensity)
        for outcome, asks in (
            ("high_meps_insured", _MEPS),
            ("high_nsduh_marijuana_ever", _NSDUH),
            ("high_nsduh_cocaine_ever", _NSDUH),
            ("high_scf_home_ownership", _SCF),
            ("extra_nsduh_cigarettes_ever", _NSDUH),
        )
        for given, x, why, propensity in (
            ("age_education", "education", _SCHOOLING, asks),
            ("age_education_sex_race", "education", _ALL, None),
            ("age_race", "race", _ORIGIN, None),
            ("age_sex", "sex", _SEX, None),
        )
    ),
    Contrast("epidemia_extra_nhis_diabetes_by_age_income", "income", _INCOME),
    Contrast("epidemia_extra_nhis_diabetes_by_age_race", "race", _ORIGIN),
    Contrast("epidemia_extra_nhis_depression_by_age_income", "income", _INCOME),
    Contrast("epidemia_extra_nhis_high_blood_pressure_by_age_race", "race", _ORIGIN),
)


class Strata(NamedTuple):
    """The cells of a task by two levels of X and by Z, where both levels occur.

    Attributes
    ----------
    compared : (str, str)
        The commonest level of X and the next; the effect is that of the second against the first.
    levels : list of tuple of str, length S
        Of Z, in the order of the cells.
    cells : ndarray of int, shape (2, S)
    joint : ndarray, shape (2, S)
        P(x, z).
    everybody : ndarray, shape (S,)
        P(z), of all people, whatever X they have.
    share : float
        Of the population, that these levels of Z are: 1 where positivity holds throughout.
    """

    compared: tuple[str, str]
    levels: list[tuple[str, ...]]
    cells: NDArray[np.int64]
    joint: Array
    everybody: Array
    share: float


def strata(
    truth: store.GroundTruth,
    x: str,
    answered: Iterable[int] | None = None,
    within: Callable[[tuple[str, ...]], bool] = lambda z: True,
) -> Strata | None:
    """Lay a task out for a comparison.

    Parameters
    ----------
    truth : GroundTruth
    x : str
        One of the task's conditions. The two levels that most people have are compared: a rule, so
        that none is picked for its effect, and the one that leaves most people to compare.
    answered : iterable of int, optional
        Cells; all by default.
    within : callable, optional
        Tells which levels of Z are wanted.

    Returns
    -------
    Strata or None
        None where no such level of Z occurs with both.
    """
    place = declared_task(truth.task).given.index(x)
    of_x: dict[str, float] = {}
    of_z: dict[tuple[str, ...], float] = {}
    cells: dict[tuple[str, tuple[str, ...]], int] = {}
    for cell, (given, weight) in enumerate(zip(truth.given, truth.weights, strict=True)):
        level, z = given[place], (*given[:place], *given[place + 1 :])
        of_x[level] = of_x.get(level, 0.0) + weight
        of_z[z] = of_z.get(z, 0.0) + weight
        cells[level, z] = cell
    # A cell that nobody is in, or that was not answered, weighs nothing.
    weights = truth.weights
    if answered is not None:
        weights = np.zeros_like(weights)
        weights[list(answered)] = truth.weights[list(answered)]
    weights = np.append(weights, 0.0)
    first, second, *_ = sorted(of_x, key=lambda level: -of_x[level])
    joint = weights[[[cells.get((level, z), -1) for z in of_z] for level in (first, second)]]
    kept = overlap(joint) & [within(z) for z in of_z]
    if not kept.any():
        return None
    levels = [z for z, is_so in zip(of_z, kept, strict=True) if is_so]
    everybody = np.array([of_z[z] for z in levels])
    return Strata(
        (first, second),
        levels,
        np.array([[cells[level, z] for z in levels] for level in (first, second)]),
        joint[:, kept],
        everybody,
        float(everybody.sum()),
    )


class Mixture(NamedTuple):
    """How P(x | z) is made of the answers to the task that asks for it.

    Attributes
    ----------
    truth : GroundTruth
        Of that task.
    ages : ndarray, shape (S, C)
        Weights of its cells in each stratum; rows sum to 1.
    answers : ndarray, shape (K, 2)
        1 where an answer is of the level of X.
    """

    truth: store.GroundTruth
    ages: Array
    answers: Array

    def of(self, q: Array, cells: Sequence[int] | slice = slice(None)) -> Array:
        """Return P(x | z), shape (..., 2, S), from distributions in cells, shape (..., C, K)."""
        return np.asarray(np.swapaxes(self.ages[:, cells] @ q @ self.answers, -1, -2))


def _years(label: str) -> list[str]:
    """Return the single years of an age group, as labels; none of an open one."""
    ages = re.fullmatch(r"(\d+)(?:-(\d+))?", label)
    years = range(int(ages[1]), int(ages[2] or ages[1]) + 1) if ages else ()
    return [str(year) for year in years]


def mixture(
    asks: Propensity,
    truth: store.GroundTruth,
    x: str,
    answered: Iterable[int] | None = None,
    other_answered: Iterable[int] | None = None,
) -> tuple[Strata, Mixture] | None:
    """Lay a task out where P(x | z) is known: in ages all of whose years were asked for it.

    Parameters
    ----------
    asks : Propensity
    truth : GroundTruth
        Of the task that asks for Y.
    x : str
    answered, other_answered : iterable of int, optional
        Cells of that task, and of the one that asks for P(x | z); all by default.

    Returns
    -------
    (Strata, Mixture) or None
        None where there are no such ages, or a level that is compared is no answer there.
    """
    other = store.load(asks.task)
    cells = range(len(other.given)) if other_answered is None else other_answered
    place = {other.given[cell][0]: cell for cell in cells}

    def covered(z: tuple[str, ...]) -> bool:
        years = _years(z[0])
        return bool(years) and all(year in place for year in years)

    here = strata(truth, x, answered, covered)
    if here is None or not all(level in asks.answers for level in here.compared):
        return None
    ages = np.zeros((len(here.levels), len(other.given)))
    for row, (label,) in zip(ages, here.levels, strict=True):
        years = [place[year] for year in _years(label)]
        row[years] = other.weights[years] / other.weights[years].sum()
    answers = [
        [level in asks.answers[x_level] for x_level in here.compared] for level in other.levels
    ]
    return here, Mixture(other, ages, np.array(answers, dtype=float))


#: What a survey's P(y | x, z) is.
COUNTS, TREES = "counts", "trees"


class Implied(NamedTuple):
    """What is implied for one contrast.

    Attributes
    ----------
    task : Asked
    says : str
        Which effect it is, over which Z.
    why : str
    share : float
        Of the population, that Z covers.
    by : str
        What P(y | x, z) of the survey is: `COUNTS` of the records, or `TREES`, which draw cells
        towards each other, and effects towards 0.
    survey, own : mapping of str to Number
        ``crude``, ``standardised`` and, where P(x | z) is known, ``weighted``: of the survey, and
        of the model's answers. Differences of P(first answer), in points. Of the survey, P(x | z)
        is that of the other survey.
    entry : Entry or None
        None for the survey alone.
    """

    task: Asked
    says: str
    why: str
    share: float
    by: str
    survey: Mapping[str, Number]
    own: Mapping[str, Number] = {}
    entry: Entry | None = None


#: From P(y | x, z) and P(x | z), both shape (..., 2, S), to an effect, shape (...).
_Effect = Callable[[Array, Array], Array]


def _effects(laid: Strata, mixed: Mixture | None) -> dict[str, _Effect]:
    """Return what is asked of strata, by name."""

    def difference(by_level: Array) -> Array:
        return np.asarray(100 * (by_level[..., 1] - by_level[..., 0]))

    effects: dict[str, _Effect] = {
        "crude": lambda p, e: difference(crude(p, laid.joint)),
        "standardised": lambda p, e: difference(standardised(p, laid.everybody)),
    }
    if mixed is not None:
        effects["weighted"] = lambda p, e: difference(weighted(p, laid.joint, e))
    return effects


#: In place of P(x | z) where nothing uses it.
_NONE: Array = np.ones(1)


def _of_survey(
    truth: store.GroundTruth, laid: Strata, mixed: Mixture | None = None
) -> dict[str, Number]:
    """Return a survey's effects with the error of its joint replicates, and of the other's."""

    p, at = truth.p[laid.cells, 0], truth.replicates
    e = _NONE if mixed is None else mixed.of(mixed.truth.p)
    numbers = {}
    for name, effect in _effects(laid, mixed).items():
        draws = [_draws(truth, None if at is None else effect(at[:, laid.cells, 0], e))]
        if name == "weighted" and mixed is not None:
            e_at = mixed.truth.replicates
            moved = None if e_at is None else effect(p, mixed.of(e_at))
            draws.append(_draws(mixed.truth, moved))
        numbers[name] = Number(float(effect(p, e)), joint_error(draws, [1.0] * len(draws)))
    return numbers


def _draws(truth: store.GroundTruth, at: Array | None) -> Draws | None:
    return None if at is None else Draws(truth.sample or "", at)


def _of_model(
    answers: TaskAnswers,
    laid: Strata,
    other: TaskAnswers | None = None,
    mixed: Mixture | None = None,
) -> dict[str, Number]:
    """Return the effects of a model's answers with the error of their asking."""
    places = np.searchsorted(answers.cells, laid.cells)

    def number(name: str, effect: _Effect) -> Number:
        p, e, errors = answers.q[places, 0], _NONE, []
        if name == "weighted" and other is not None and mixed is not None:
            e = mixed.of(other.q, other.cells)
            of_other = asking_error(
                lambda q: effect(p, mixed.of(q, other.cells)), other.by_order, other.counts
            )
            errors.append(of_other)
        of_answers = asking_error(
            lambda q: effect(q[:, places, 0], e), answers.by_order, answers.counts
        )
        return Number(float(effect(p, e)), math.hypot(*errors, of_answers))

    return {name: number(name, effect) for name, effect in _effects(laid, mixed).items()}


def _available() -> Iterable[tuple[Contrast, store.GroundTruth]]:
    here = store.available()
    return ((c, store.load(c.task)) for c in CONTRASTS if c.task in here)


def _says(truth: store.GroundTruth, x: str, laid: Strata, mixed: Mixture | None) -> str:
    """Say an effect: "education: 16 years against 12 years, over age"."""
    first, second = laid.compared
    over = ", ".join(name for name in declared_task(truth.task).given if name != x)
    if mixed is not None:
        over += f" {laid.levels[0][0]} to {laid.levels[-1][0]}"
    return f"{x}: {second} against {first}, over {over}"


def _implied(
    contrast: Contrast,
    truth: store.GroundTruth,
    asked: Asked,
    entry: Entry | None = None,
    answers: TaskAnswers | None = None,
    other: TaskAnswers | None = None,
) -> Iterator[Implied]:
    """Return what is implied over all Z and, where P(x | z) is known, over the Z of both tasks."""
    x, asks = contrast.x, contrast.propensity
    cells = answers and answers.cells
    counts = store.counts_of(truth)
    by = COUNTS if counts else TREES
    parts: list[tuple[Strata | None, Mixture | None]] = [(strata(truth, x, cells), None)]
    if asks and (other or entry is None):
        both = mixture(asks, truth, x, cells, other and other.cells)
        parts += [both] if both else []
    for laid, mixed in parts:
        if laid is not None:
            own = _of_model(answers, laid, other, mixed) if answers else {}
            survey, says = _of_survey(counts or truth, laid, mixed), _says(truth, x, laid, mixed)
            yield Implied(asked, says, contrast.why, laid.share, by, survey, own, entry)


def of_surveys() -> list[Implied]:
    """Return what the surveys alone imply, for every contrast whose truth is here."""
    return [
        effect
        for contrast, truth in _available()
        for effect in _implied(contrast, truth, Asked(contrast.task, "letters"))
    ]


def implied(report: Report, samples: Samples) -> list[Implied]:
    """Return what the answers of every run imply, for every contrast that it was asked.

    Parameters
    ----------
    report : Report
    samples : dict
        As of `answered.read_samples`. Where a model was also asked for P(x | z), in the same way,
        its effects come once more, over the Z that both tasks cover, with weights.
    """
    effects: list[Implied] = []
    for contrast, truth in _available():
        for entry in report.runs:
            for asked in sorted(asked for asked in entry.scores if asked.task == contrast.task):
                if (answers := samples.get((entry.name, asked))) is not None:
                    asks = contrast.propensity
                    other = asks and samples.get((entry.name, Asked(asks.task, asked.way)))
                    effects += _implied(contrast, truth, asked, entry, answers, other)
    return effects


def read(report: Report) -> tuple[list[Implied], list[str]]:
    """Read the samples that are needed, and no others.

    Returns
    -------
    effects : list of Implied
    notes : list of str
        Samples that are not there, or cannot be read.

    Raises
    ------
    EpidemiaError
        If no run was asked such a task with its samples kept.
    """
    tasks = {c.task for c in CONTRASTS} | {c.propensity.task for c in CONTRASTS if c.propensity}
    wanted = {asked for entry in report.runs for asked in entry.scores if asked.task in tasks}
    samples, notes = read_samples(report, wanted)
    if not (effects := implied(report, samples)):
        raise EpidemiaError(
            "no answers to standardise: run lm_eval with --log_samples on a task such as "
            f"{CONTRASTS[0].task} ({len(CONTRASTS)} have two conditions or more and are compared)"
        )
    return effects, notes


#: How to read the table.
NOTE = (
    "Differences in the share of the first answer, in points. Crude: among people as they are. "
    "Standardised: if both groups had everybody's mix of Z, sum_z P(y | x, z) P(z). Weighted: the "
    "same by inverse propensities P(x | z), the model's own (of the survey: those of the American "
    "Community Survey), divided by the sum of the weights; empty where nobody was asked for P(x | "
    "z). P(z) and P(x, z) are the survey's, for the model too. 'survey by': P(y | x, z) of the "
    "survey are counts of its records or, where these are not here, the boosted trees that scores "
    "use, which draw groups towards each other. 'people': the share of the "
    "population in those Z where both groups occur and were answered; everything in the row is "
    "theirs. ± is the survey's sampling error (joint replicates of P(y | x, z), the weights "
    "being fixed) or, of a model, that of the asking; none where all was asked. These are effects "
    "of an intervention only under the graph Z -> X, Z -> Y, X -> Y, with nothing else behind X "
    "and Y: docs/hierarchy.md."
)


#: What is said of an effect of surveys.
_OF_SURVEYS = ("task", "effect", "what Z may do")

#: A weighted effect is NaN where somebody who is there has no propensity. An error of 0, but for
#: rounding, is none: nothing was left to chance.
_COLUMNS = tuple(
    Column(name, name, 1, True, least=ALIKE, no_minus_zero=True, nan="P(x | z) = 0")
    for side in ("survey", "model")
    for name in (f"{side}, crude", f"{side}, standardised", f"{side}, weighted")
)


def finding(effects: Sequence[Implied]) -> Finding:
    """Return the effects of models; of surveys alone, with the reason for each instead.

    In tidy rows the verdict is the effect, and ``people`` are in per cent.
    """
    texts = ("model", "task", "effect") if any(each.entry for each in effects) else _OF_SURVEYS
    people = Column("people", "people", 1, unit=" %")
    rows = [
        Row(
            {
                "task": in_way(*each.task),
                "effect": each.says,
                "what Z may do": each.why,
                "people": 100 * each.share,
                "survey by": each.by,
                **{f"survey, {name}": effect for name, effect in each.survey.items()},
                **{f"model, {name}": effect for name, effect in each.own.items()},
            },
            each.entry,
            leaf(each.task).group,
            in_way(*each.task),
            {"tasks": 1, "verdict": each.says},
        )
        for each in effects
    ]
    columns = [*map(Column, texts), people, Column("survey by"), *_COLUMNS]
    return Finding("standardised", "What its own answers imply", columns, rows, NOTE)
