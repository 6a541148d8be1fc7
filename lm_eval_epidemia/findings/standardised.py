"""Effects of a condition with the same Z for everybody, implied by surveys and models' answers.

Crude and standardised effects (see `benchmarks.observation.standardised`) of tasks with several
conditions, of which one is X and the others are Z. It needs no further questions: a model's P~(y |
x, z) comes from its answers. P(z) and P(x, z) come from the survey, for survey and model, and have
no error here: only the beliefs about Y differ. An effect is a difference of P(first answer), in
points.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.standardised import (
    asking_error,
    crude,
    overlap,
    weighted,
)
from lm_eval_epidemia.benchmarks.observation.standardised import standardised as standardise
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import answers, nothing
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, tabled
from lm_eval_epidemia.results.entry import Asked, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score.joint import Draws, joint_error
from lm_eval_epidemia.surveys.catalogue import task as declared_task

#: What a survey's P(y | x, z) is: counts of the records, or boosted trees, which pull cells
#: together, and effects towards 0.
COUNTS, TREES = "counts", "trees"


class Propensity(NamedTuple):
    """A task that asks for P(x | z).

    Attributes
    ----------
    task : str
        Its outcome is X, and its only condition, which is Z, is age in single years.
    answers : mapping of str to tuple of str
        By level of X, the answers that make up this level.
    """

    task: str
    answers: Mapping[str, tuple[str, ...]]


class Contrast(NamedTuple):
    """An effect of interest.

    Attributes
    ----------
    task : str
    x : str
        The condition whose levels are compared; the task's others are Z.
    why : str
        The expected role of Z.
    propensity : Propensity, optional
        The task that asks for P(x | z), in its own words and levels.
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
_ALL = "as above; sex and race are also related to schooling and to the outcome"
_ORIGIN = "the groups differ in age, and the outcome changes with age"
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
    """The cells of a task by two levels of X and by Z, for those Z with both levels.

    Attributes
    ----------
    compared : (str, str)
        The commonest level of X and the next; the effect is that of the second against the first.
    levels : list of tuple of str, length S
        Levels of Z, in the order of the cells.
    cells : ndarray of int, shape (2, S)
    joint : ndarray, shape (2, S)
        P(x, z).
    everybody : ndarray, shape (S,)
        P(z) among all people, whatever their X. Sums to 1 if positivity holds everywhere.
    """

    compared: tuple[str, str]
    levels: list[tuple[str, ...]]
    cells: NDArray[np.int64]
    joint: Array
    everybody: Array


def strata(
    truth: store.GroundTruth,
    x: str,
    answered: Iterable[int] | None = None,
    within: Callable[[tuple[str, ...]], bool] = lambda z: True,
) -> Strata | None:
    """Arrange the cells of a task for a comparison.

    Parameters
    ----------
    truth : GroundTruth
    x : str
        One of the task's conditions. Its two most common levels are compared. This rule selects no
        level by its effect, and keeps most people in the comparison.
    answered : iterable of int, optional
        Cells; all by default.
    within : callable, optional
        Selects levels of Z.

    Returns
    -------
    Strata or None
        None if no such level of Z occurs with both.
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
    known = range(len(truth.weights)) if answered is None else {*answered}
    first, second, *_ = sorted(of_x, key=lambda level: -of_x[level])
    joint = np.array(
        [
            [
                truth.weights[cell] if (cell := cells.get((level, z), -1)) in known else 0.0
                for z in of_z
            ]
            for level in (first, second)
        ]
    )
    kept = overlap(joint) & [within(z) for z in of_z]
    levels = [z for z, is_so in zip(of_z, kept, strict=True) if is_so]
    if not levels:
        return None
    return Strata(
        (first, second),
        levels,
        np.array([[cells[level, z] for z in levels] for level in (first, second)]),
        joint[:, kept],
        np.array([of_z[z] for z in levels]),
    )


class Mixture(NamedTuple):
    """How to compute P(x | z) from the answers to the task that asks for it.

    Attributes
    ----------
    truth : GroundTruth
        The truth of that task.
    ages : ndarray, shape (S, C)
        Weights of its cells in each stratum; rows sum to 1.
    answers : ndarray, shape (K, 2)
        1 where an answer belongs to the level of X.
    """

    truth: store.GroundTruth
    ages: Array
    answers: Array

    def of(self, q: Array, cells: Sequence[int] | slice = slice(None)) -> Array:
        """Return P(x | z), shape (..., 2, S), from distributions in cells, shape (..., C, K)."""
        return np.asarray(np.swapaxes(self.ages[:, cells] @ q @ self.answers, -1, -2))


def mixture(
    asks: Propensity,
    truth: store.GroundTruth,
    x: str,
    answered: Iterable[int] | None = None,
    other_answered: Iterable[int] | None = None,
) -> tuple[Strata, Mixture] | None:
    """Arrange a task for ages with known P(x | z): those whose every year was asked for it.

    Parameters
    ----------
    asks : Propensity
    truth : GroundTruth
        Truth of the task that asks for Y.
    x : str
    answered, other_answered : iterable of int, optional
        Answered cells of that task, and of the one that asks for P(x | z); all by default.

    Returns
    -------
    (Strata, Mixture) or None
        None if there are no such ages, or a compared level is not an answer there.
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
    belongs = [[level in asks.answers[of_x] for of_x in here.compared] for level in other.levels]
    return here, Mixture(other, ages, np.array(belongs, dtype=float))


def _years(label: str) -> list[str]:
    """Return the single years of an age group, as labels; empty for an open one."""
    ages = re.fullmatch(r"(\d+)(?:-(\d+))?", label)
    years = range(int(ages[1]), int(ages[2] or ages[1]) + 1) if ages else ()
    return [str(year) for year in years]


def effects(laid: Strata, p: Array, e: Array | None = None) -> dict[str, Array]:
    """Return the effects, shape (...), from P(y | x, z) and P(x | z), shape (..., 2, S)."""
    by_level = {"crude": crude(p, laid.joint), "standardised": standardise(p, laid.everybody)}
    if e is not None:
        by_level["weighted"] = weighted(p, laid.joint, e)
    return {name: 100 * (of[..., 1] - of[..., 0]) for name, of in by_level.items()}


def _of_survey(
    truth: store.GroundTruth, laid: Strata, mixed: Mixture | None
) -> Iterator[tuple[str, float]]:
    """Yield a survey's effects, with errors from its joint replicates and the other survey's."""

    def draws(of: store.GroundTruth, name: str, at: Callable[[Array], dict[str, Array]]) -> Any:
        return None if of.replicates is None else Draws(of.sample or "", at(of.replicates)[name])

    p, e = truth.p[laid.cells, 0], None if mixed is None else mixed.of(mixed.truth.p)
    for name, value in effects(laid, p, e).items():
        drawn = [draws(truth, name, lambda at: effects(laid, at[:, laid.cells, 0], e))]
        if name == "weighted" and mixed is not None:
            drawn.append(draws(mixed.truth, name, lambda at: effects(laid, p, mixed.of(at))))
        yield f"survey_{name}", float(value)
        yield f"survey_{name}_error", joint_error(drawn, [1.0] * len(drawn))


def _of_model(
    own: TaskAnswers, laid: Strata, other: TaskAnswers | None, mixed: Mixture | None
) -> Iterator[tuple[str, float]]:
    """Yield the effects of a model's answers, with the error of asking."""
    places = np.searchsorted(own.cells, laid.cells)

    def of(q: Array, e: Array | None, name: str) -> Array:
        return effects(laid, q[..., places, 0], e)[name]

    def of_other(q: Array) -> Array:
        assert mixed and other
        return of(own.q, mixed.of(q, other.cells), "weighted")

    e = mixed.of(other.q, other.cells) if mixed and other else None
    for name, value in effects(laid, own.q[places, 0], e).items():
        error = asking_error(partial(of, e=e, name=name), own.by_order, own.counts)
        if name == "weighted" and mixed and other:
            error = math.hypot(error, asking_error(of_other, other.by_order, other.counts))
        yield f"model_{name}", float(value)
        yield f"model_{name}_error", error


def _rows(
    contrast: Contrast,
    asked: Asked,
    own: TaskAnswers | None = None,
    other: TaskAnswers | None = None,
) -> Iterator[dict[str, object]]:
    """Yield the effects over all Z and, if P(x | z) is known, over the Z of both tasks."""
    truth, x, asks = store.load(contrast.task), contrast.x, contrast.propensity
    cells, counts = own and own.cells, store.counts_of(truth)
    parts: list[tuple[Strata | None, Mixture | None]] = [(strata(truth, x, cells), None)]
    if asks and (other or own is None):
        parts.append(mixture(asks, truth, x, cells, other and other.cells) or (None, None))
    for laid, mixed in parts:
        if laid is None:
            continue
        over = ", ".join(name for name in declared_task(truth.task).given if name != x)
        if mixed is not None:
            over += f" {laid.levels[0][0]} to {laid.levels[-1][0]}"
        first, second = laid.compared
        yield {
            "run": -1,
            "group": leaf(asked).group,
            "task": in_way(*asked),
            "effect": f"{x}: {second} against {first}, over {over}",
            "why": contrast.why,
            "people": 100 * float(laid.everybody.sum()),
            "survey_by": COUNTS if counts else TREES,
            **dict(_of_survey(counts or truth, laid, mixed)),
            **(dict(_of_model(own, laid, other, mixed)) if own else {}),
        }


NOTE = (
    "Differences between two groups in the share of the first answer, in points. Crude: among "
    "people as they are. Standardised: if both groups had the whole population's mix of Z, sum_z "
    "P(y | x, z) P(z). Weighted: the same by inverse propensities P(x | z), divided by the sum of "
    "weights; the model's row uses its own (the survey's row: the American Community Survey), and "
    "is empty if P(x | z) was not asked, or is 0 for people who exist. P(z) and P(x, z) come from "
    "the survey, for the model too. 'survey by': the survey's P(y | x, z) are counts of its "
    "records or, if these are not available, the boosted trees that scores use, which pull groups "
    "together. 'people': the share of the population in those Z with answers for both groups; the "
    "row covers only them. ± is the survey's sampling error (joint replicates of P(y | x, z), with "
    "fixed weights) or, for a model, the error of asking; 0 if everything was asked. These are "
    "effects of an intervention only under the graph Z -> X, Z -> Y, X -> Y without other common "
    "causes of X and Y: docs/background/standardised.md."
)

#: Differences of shares, in points: of the survey and of the model.
_EFFECTS = {
    f"{side}_{name}": Column(f"{side}, {name}", 1, signed=True, error=f"{side}_{name}_error")
    for side in ("survey", "model")
    for name in ("crude", "standardised", "weighted")
}


def standardised(results: Results) -> Finding:
    """Group differences that answers imply, standardised for age and more, beside the survey's."""
    tasks = {c.task for c in CONTRASTS} | {c.propensity.task for c in CONTRASTS if c.propensity}
    made, left_out = answers(results, lambda asked: asked.task in tasks)
    rows = [
        row | {"run": run}
        for contrast in CONTRASTS
        for (run, asked), own in sorted(made.items())
        if asked.task == contrast.task
        for row in _rows(contrast, asked, own, _propensity(made, contrast, run, asked))
    ]
    finding = _finding("standardised", "What a model's own answers imply", rows, results, left_out)
    such = (
        f"a task such as {CONTRASTS[0].task} (of these, {len(CONTRASTS)} with two or more "
        "conditions are compared; surveys of your own have none)"
    )
    return finding if rows else nothing(finding, "standardise", such)


def implied(results: Results) -> Finding:
    """Group differences that surveys alone imply, standardised for age and more."""
    here = store.available()
    rows = [
        row
        for contrast in CONTRASTS
        if contrast.task in here
        for row in _rows(contrast, Asked(contrast.task, "letters"))
    ]
    return _finding("implied", "What surveys imply", rows, results, why=Column("what Z may do"))


def _propensity(
    made: Mapping[tuple[int, Asked], TaskAnswers], contrast: Contrast, run: int, asked: Asked
) -> TaskAnswers | None:
    asks = contrast.propensity
    return made.get((run, Asked(asks.task, asked.way))) if asks else None


def _finding(
    name: str,
    title: str,
    rows: Sequence[Mapping[str, object]],
    results: Results,
    left_out: Sequence[str] = (),
    **more: Column,
) -> Finding:
    columns = {
        **WHO,
        "task": Column(),
        "effect": Column(),
        **more,
        **_EFFECTS,
        "people": Column("", 1, unit=" %"),
        "survey_by": Column("survey by"),
    }
    table = tabled(rows, columns, results.runs, ("group", "why"))
    return Finding(name, title, table, columns, NOTE, left_out=left_out)
