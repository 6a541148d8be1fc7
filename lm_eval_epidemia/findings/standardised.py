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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation import standardised as implies
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import answers
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.results.decode import Asked, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score.joint import Draws, joint_error
from lm_eval_epidemia.surveys.catalogue import task as declared_task


class Contrast(NamedTuple):
    """An effect of interest.

    Attributes
    ----------
    task : str
    x : str
        The condition whose levels are compared; the task's others are Z.
    why : str
        The expected role of Z.
    education : mapping of str to list of str
        By level of X, the answers to `EDUCATION` that make up this level. Empty: P(x | z) is not
        known.
    """

    task: str
    x: str
    why: str
    education: Mapping[str, Sequence[str]] = {}


#: The task that asks for P(x | z): its outcome is education, its only condition age in single
#: years. No survey asks for P(x | z) itself, but the American Community Survey does for this one.
EDUCATION = "epidemia_low_acs_education_by_age"

_DECLARED = read_yaml(__package__, "contrasts.yaml")

#: In the order of the table.
CONTRASTS: tuple[Contrast, ...] = tuple(
    Contrast(
        f"epidemia_{outcome}_by_{of['given']}",
        of["x"],
        of["why"],
        _DECLARED["education"] if of["given"] == "age_education" else {},
    )
    for part in _DECLARED["contrasts"]
    for outcome in part["outcomes"]
    for of in part["compared"]
)


class Strata(NamedTuple):
    """The S levels of Z with both levels of X, and the cells of the task in them.

    Attributes
    ----------
    says : str
        "education: 16 years against 12 years, over age".
    cells : ndarray of int, shape (2, S)
    joint : ndarray, shape (2, S)
        P(x, z).
    everybody : ndarray, shape (S,)
        P(z) among all people, whatever their X. Sums to 1 if positivity holds everywhere.
    ages : ndarray, shape (S, C), or None
        Weights of the cells of `EDUCATION` in each stratum; rows sum to 1.
    levels : ndarray, shape (K, 2), or None
        1 where an answer to it belongs to the level of X.
    """

    says: str
    cells: NDArray[np.int64]
    joint: Array
    everybody: Array
    ages: Array | None = None
    levels: Array | None = None

    def propensity(self, q: Array, cells: Sequence[int] | slice = slice(None)) -> Array:
        """Return P(x | z), (..., 2, S), from answers to `EDUCATION` in cells, (..., C, K)."""
        assert self.ages is not None and self.levels is not None
        return np.asarray(np.swapaxes(self.ages[:, cells] @ q @ self.levels, -1, -2))

    def effects(self, p: Array, e: Array | None = None) -> dict[str, Array]:
        """Return the effects, (...), from P(y | x, z) and P(x | z), (..., 2, S)."""
        shares = {
            "crude": implies.crude(p, self.joint),
            "standardised": implies.standardised(p, self.everybody),
        }
        if e is not None:
            shares["weighted"] = implies.weighted(p, self.joint, e)
        return {name: 100 * (of[..., 1] - of[..., 0]) for name, of in shares.items()}


def strata(
    contrast: Contrast,
    answered: Iterable[int] | None = None,
    education: Iterable[int] | None = None,
) -> Strata | None:
    """Arrange the cells of a task for a comparison; None if no level of Z has both levels of X.

    The two most common levels of X are compared, the second with the first. This rule selects no
    level by its effect, and keeps most people in the comparison.

    Parameters
    ----------
    contrast : Contrast
    answered : iterable of int, optional
        Cells of its task; all by default.
    education : iterable of int, optional
        Cells of `EDUCATION`: only ages of which every year is among them are kept.
    """
    truth, conditions = store.load(contrast.task), declared_task(contrast.task).given
    place = conditions.index(contrast.x)
    of_x: dict[str, float] = defaultdict(float)
    of_z: dict[tuple[str, ...], float] = defaultdict(float)
    cells: dict[tuple[str, tuple[str, ...]], int] = {}
    for cell, (given, weight) in enumerate(zip(truth.given, truth.weights, strict=True)):
        x, z = given[place], (*given[:place], *given[place + 1 :])
        of_x[x] += weight
        of_z[z] += weight
        cells[x, z] = cell
    compared = sorted(of_x, key=lambda x: -of_x[x])[:2]
    # A cell that nobody is in, or that was not answered, weighs nothing.
    here = {*range(len(truth.given))} if answered is None else {*answered}
    here = {cell for cell in here if truth.weights[cell] > 0}
    levels = [z for z in of_z if all(cells.get((x, z)) in here for x in compared)]
    if education is not None:
        asks = store.load(EDUCATION)
        of_year = {asks.given[cell][0]: cell for cell in education}
        years = {z: [of_year.get(year, -1) for year in _years(z[0])] for z in levels}
        known = {*compared} <= {*contrast.education}
        levels = [z for z in levels if known and years[z] and -1 not in years[z]]
    if not levels:
        return None
    over = ", ".join(name for name in conditions if name != contrast.x)
    says = f"{contrast.x}: {compared[1]} against {compared[0]}, over {over}"
    at = np.array([[cells[x, z] for z in levels] for x in compared])
    made = Strata(says, at, truth.weights[at], np.array([of_z[z] for z in levels]))
    if education is None:
        return made
    ages = np.zeros((len(levels), len(asks.given)))
    for row, z in zip(ages, levels, strict=True):
        row[years[z]] = asks.weights[years[z]] / asks.weights[years[z]].sum()
    belongs = [[answer in contrast.education[x] for x in compared] for answer in asks.levels]
    says += f" {levels[0][0]} to {levels[-1][0]}"
    return made._replace(says=says, ages=ages, levels=np.array(belongs, dtype=float))


def _years(label: str) -> list[str]:
    """Return the single years of an age group, as labels; empty for an open one."""
    ages = re.fullmatch(r"(\d+)(?:-(\d+))?", label)
    years = range(int(ages[1]), int(ages[2] or ages[1]) + 1) if ages else ()
    return [str(year) for year in years]


def _of_survey(truth: store.GroundTruth, laid: Strata) -> Iterator[tuple[str, float]]:
    """Yield a survey's effects, with errors from its joint replicates and the other survey's."""

    def draws(of: store.GroundTruth, at: Callable[[Array], dict[str, Array]]) -> Draws | None:
        return None if of.replicates is None else Draws(of.sample or "", at(of.replicates)[name])

    other, p = store.load(EDUCATION), truth.p[laid.cells, 0]
    e = None if laid.ages is None else laid.propensity(other.p)
    for name, value in laid.effects(p, e).items():
        drawn = [draws(truth, lambda at: laid.effects(at[:, laid.cells, 0], e))]
        if name == "weighted":
            drawn.append(draws(other, lambda at: laid.effects(p, laid.propensity(at))))
        yield f"survey_{name}", float(value)
        yield f"survey_{name}_error", joint_error(drawn, [1.0] * len(drawn))


def _of_model(
    own: TaskAnswers, laid: Strata, other: TaskAnswers | None
) -> Iterator[tuple[str, float]]:
    """Yield the effects of a model's answers, with the error of asking."""
    places = np.searchsorted(own.cells, laid.cells)

    def of(q: Array, e: Array | None, name: str) -> Array:
        return laid.effects(q[..., places, 0], e)[name]

    def of_propensity(q: Array) -> Array:
        return of(own.q, laid.propensity(q, other.cells if other else ()), "weighted")

    e = laid.propensity(other.q, other.cells) if other and laid.ages is not None else None
    for name, value in laid.effects(own.q[places, 0], e).items():
        error = implies.asking_error(partial(of, e=e, name=name), own.by_order, own.counts)
        if name == "weighted" and other:
            of_other = implies.asking_error(of_propensity, other.by_order, other.counts)
            error = math.hypot(error, of_other)
        yield f"model_{name}", float(value)
        yield f"model_{name}_error", error


def _rows(
    contrast: Contrast,
    asked: Asked,
    run: int = -1,
    own: TaskAnswers | None = None,
    other: TaskAnswers | None = None,
) -> Iterator[dict[str, object]]:
    """Yield the effects over all Z and, if P(x | z) is known, over the Z of both tasks."""
    truth, cells = store.load(contrast.task), own and own.cells
    counts = store.counts_of(truth)
    parts = [strata(contrast, cells)]
    if contrast.education and (other or own is None):
        every = range(len(store.load(EDUCATION).given))
        parts.append(strata(contrast, cells, other.cells if other else every))
    for laid in parts:
        if laid is not None:
            yield {
                "run": run,
                "group": leaf(asked).group,
                "task": in_way(*asked),
                "effect": laid.says,
                "why": contrast.why,
                "people": 100 * float(laid.everybody.sum()),
                "survey_by": "counts" if counts else "trees",
                **dict(_of_survey(counts or truth, laid)),
                **(dict(_of_model(own, laid, other)) if own else {}),
            }


def standardised(results: Results) -> Finding:
    """Group differences that answers imply, standardised for age and more, beside the survey's."""
    tasks = {contrast.task for contrast in CONTRASTS} | {EDUCATION}
    made, left_out = answers(results, lambda asked: asked.task in tasks)
    rows = [
        row
        for contrast in CONTRASTS
        for (run, asked), own in sorted(made.items())
        if asked.task == contrast.task
        for row in _rows(contrast, asked, run, own, made.get((run, Asked(EDUCATION, asked.way))))
    ]
    return make_finding("standardised", rows, results.runs, left_out)


def implied(results: Results) -> Finding:
    """Group differences that surveys alone imply, standardised for age and more."""
    here = store.available()
    every = [(contrast, Asked(contrast.task, "letters")) for contrast in CONTRASTS]
    rows = [row for of in every if of[0].task in here for row in _rows(*of)]
    return make_finding("implied", rows, results.runs)
