"""Questions that surveys asked in many years, asked without a year: no answer is the true one.

Each outcome that a record declares by year and sex is asked of men and women today, or whenever a
model lives: the errors of two prompts average out. `find_years_lived` says in which years they are
true.

Shapes: Y years of a survey, T years in a row, C cells (men, women), K levels, B joint replicates of
the survey, N log-ratios of all outcomes together.

Answers and truths are compared as log-ratios, in orthonormal coordinates and averaged over cells:
errors of log-probabilities then have the same size in each. The model of an answer is

    y = truth(t) + misfit,    misfit ~ N(0, m I),    truth(t) ~ N(seen(t), S(t)),

with S(t) from the joint replicates. Of each year ``Q(t) = r' (S(t) + m I)^-1 r``, r = y - seen(t);
m is what makes the smallest Q what it is expected to be, N - 1, or 0 (Paule and Mandel 1982). The
years with ``Q(t) - min Q`` up to the 95 % quantile of F(1, N - 1) are those that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.ask.prompts import TaskQuestions, find_variables
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import Answer, Metric
from lm_eval_epidemia.benchmarks.benchmark import Benchmark, Measurement, TaskEntry
from lm_eval_epidemia.benchmarks.observation import OBSERVATION, TASK_VERSION, respondents
from lm_eval_epidemia.benchmarks.observation.letters import InOrders
from lm_eval_epidemia.benchmarks.observation.years import YEAR
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task
from lm_eval_epidemia.surveys.record import Task

#: Standard deviation, in years, of the weights by which the truth is smoothed over the years. The
#: errors of two surveys are independent: of single surveys, the one whose error happens to be that
#: of the model would look like its year (benchmarks/year_lived.py has the coverage of both).
BANDWIDTH = 3.0

#: A smaller probability counts as this: one rare answer shall not decide.
LEAST = 1e-3

#: Fewer outcomes that moved say nothing of the year; nor does a set of more than this share.
FEWEST, WIDEST = 3, 0.5

LEVEL = 0.95


class Series(NamedTuple):
    """What was true of an outcome in the years of a survey.

    Attributes
    ----------
    years : ndarray of int, shape (Y,)
        Ascending.
    p : ndarray, shape (Y, C, K)
    replicates : ndarray, shape (B, Y, C, K)
    sample : str
        Names the survey's replicates.
    """

    years: NDArray[np.int64]
    p: Array
    replicates: Array
    sample: str


def series_of(truth: GroundTruth, cells: Sequence[tuple[str, ...]]) -> Series:
    """Return the years of a truth whose first condition is the year.

    Parameters
    ----------
    truth : GroundTruth
    cells : sequence of tuple of str
        Its other conditions; a year that lacks one of these is left out.

    Raises
    ------
    EpidemiaError
        If it has fewer than two years.
    """
    place = {cell: number for number, cell in enumerate(truth.given)}
    years = sorted({year for year, *_ in truth.given}, key=int)
    years = [year for year in years if all((year, *cell) in place for cell in cells)]
    if len(years) < 2:
        raise EpidemiaError(
            f"{truth.task} has only {' '.join(years) or 'no year'}: rebuild it with 'epidemia "
            f"groundtruth build {truth.survey} --raw FILE'"
        )
    at = np.array([[place[(year, *cell)] for cell in cells] for year in years])
    return Series(np.array(years, int), truth.p[at], truth.replicates[:, at], truth.sample)


def log_ratios(p: Array) -> Array:
    """Return distributions as log-ratios, averaged over cells; (..., C, K) to (..., K - 1).

    Isometric (Egozcue et al. 2003): orthonormal contrasts of the log-probabilities.
    """
    levels = p.shape[-1]
    contrasts = np.zeros((levels, levels - 1))
    for k in range(1, levels):
        contrasts[:k, k - 1], contrasts[k, k - 1] = 1 / k, -1
        contrasts[:, k - 1] *= (k / (k + 1)) ** 0.5
    ratios: Array = np.log(np.maximum(p, LEAST)) @ contrasts
    return ratios.mean(axis=-2)


def smoother(years: NDArray[np.int64], at: NDArray[np.int64], width: float = BANDWIDTH) -> Array:
    """Return the weights of a local straight line: what is true at T years, of Y; shape (T, Y)."""
    apart = (years - at[:, None]).astype(float)
    near = np.exp(-0.5 * (apart / width) ** 2)
    none, first, second = ((near * apart**power).sum(axis=1, keepdims=True) for power in range(3))
    return np.asarray(near * (second - first * apart) / (none * second - first**2))


def smoothed(weights: Array, p: Array) -> Array:
    """Return what is true at T years of what is known at Y; (..., Y, C, K) to (..., T, C, K)."""
    *before, years, cells, levels = p.shape
    at: Array = weights @ p.reshape(*before, years, cells * levels)
    return at.reshape(*before, len(weights), cells, levels)


class Course(NamedTuple):
    """What was true, year after year, of several outcomes.

    Attributes
    ----------
    years : ndarray of int, shape (T,)
        All in which every outcome is known.
    seen : ndarray, shape (T, N)
        Log-ratios, smoothed over the years.
    covariance : ndarray, shape (T, N, N)
        Their sampling error.
    moved : int
        Number of outcomes that changed by more than sampling error explains.
    """

    years: NDArray[np.int64]
    seen: Array
    covariance: Array
    moved: int


def course_of(outcomes: Sequence[Series]) -> Course:
    """Combine outcomes over their common years."""
    first = max(int(each.years[0]) for each in outcomes)
    last = min(int(each.years[-1]) for each in outcomes)
    years = np.arange(first, last + 1)
    seen, drawn = [], []
    for each in outcomes:
        weights = smoother(each.years, years)
        of_truth, of_draws = (log_ratios(smoothed(weights, p)) for p in (each.p, each.replicates))
        seen.append(of_truth)
        drawn.append(of_draws - of_draws.mean(axis=0))
    sizes = [each.shape[1] for each in seen]
    ends = np.cumsum([0, *sizes])
    covariance = np.zeros((len(years), ends[-1], ends[-1]))
    for i, one in enumerate(outcomes):
        for j, other in enumerate(outcomes):
            if one.sample == other.sample:
                at = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
                products = np.einsum("btk,btl->tkl", drawn[i], drawn[j])
                covariance[:, at[0], at[1]] = products / (len(drawn[i]) - 1)
    blocks = [slice(*pair) for pair in pairwise(ends)]
    moved = sum(_moved(s, covariance[:, at, at]) for s, at in zip(seen, blocks, strict=True))
    return Course(years, np.concatenate(seen, axis=1), covariance, moved)


def _moved(seen: Array, covariance: Array) -> bool:
    """Tell whether some two years differ by more than sampling error explains (Bonferroni)."""
    from scipy import stats

    first, second = np.triu_indices(len(seen), k=1)
    if not len(first):
        return False
    apart = seen[first] - seen[second]
    joint = covariance[first] + covariance[second]
    squared = np.einsum("pk,pk->p", apart, np.linalg.solve(joint, apart[..., None])[..., 0])
    return bool(squared.max() > stats.chi2.ppf(1 - (1 - LEVEL) / len(first), seen.shape[1]))


class Lived(NamedTuple):
    """The years in which answers are true.

    Attributes
    ----------
    course : Course
    distances : ndarray, shape (T,)
        Q(t).
    fits : ndarray of bool, shape (T,)
        Which years are in the set.
    misfit : float
        Standard deviation of the answers' log-ratios around the truth of their year.
    """

    course: Course
    distances: Array
    fits: NDArray[np.bool_]
    misfit: float

    @property
    def best(self) -> int:
        """The year whose truth is nearest."""
        return int(self.course.years[self.distances.argmin()])

    @property
    def untold(self) -> str:
        """Why no year can be determined; empty if it can."""
        years = len(self.fits)
        if self.course.moved < FEWEST:
            return f"{self.course.moved} of {FEWEST} outcomes moved"
        if self.fits.sum() > WIDEST * years:
            return f"{self.fits.sum()} of {years} fit"
        return ""

    @property
    def stretches(self) -> str:
        """Write the set: "1989-1994, 2021"."""
        years = self.course.years[self.fits]
        parts = np.split(years, np.flatnonzero(np.diff(years) > 1) + 1)
        return ", ".join(f"{part[0]}" + (f"-{part[-1]}" if len(part) > 1 else "") for part in parts)


def find_years_lived(course: Course, answer: Array) -> Lived:
    """Return the years in which an answer is true.

    Parameters
    ----------
    course : Course
    answer : ndarray, shape (N,)
        `log_ratios` of the same outcomes, in their order.
    """
    from scipy import optimize, stats

    free = len(answer) - 1
    variances, axes = np.linalg.eigh(course.covariance)
    variances = np.maximum(variances, 1e-12)
    squared = np.einsum("tij,ti->tj", axes, answer - course.seen) ** 2

    def distances(misfit: float) -> Array:
        return np.asarray((squared / (variances + misfit)).sum(axis=1))

    misfit = 0.0
    if free and distances(0.0).min() > free:
        most = float(squared.sum(axis=1).max())
        misfit = float(optimize.brentq(lambda m: distances(m).min() - free, 0.0, most))
    q = distances(misfit)
    return Lived(course, q, q - q.min() <= stats.f.ppf(LEVEL, 1, max(free, 1)), misfit**0.5)


GROUP = "epidemia_years_undated"

#: What subjects say of the year.
_IN_YEAR = " in {year}"


def list_declared() -> dict[str, Task]:
    """Return the tasks by year and sex whose question can do without the year, by undated name."""
    return {
        f"{GROUP}_{task.survey}_{task.outcome}": task
        for task in all_tasks().values()
        if task.equal == YEAR and task.given == (YEAR, "sex") and _IN_YEAR in (task.subject or "")
    }


@dataclass(frozen=True, eq=False)
class Undated:
    """A question without a year.

    Attributes
    ----------
    task : str
    dated : GroundTruth
        Of the same outcome, by year and sex.
    """

    task: str
    dated: store.GroundTruth

    @property
    def fingerprint(self) -> str:
        return self.dated.fingerprint

    @property
    def levels(self) -> tuple[str, ...]:
        return self.dated.levels

    @property
    def given(self) -> list[tuple[str, ...]]:
        """The conditions of each cell, without the year."""
        return list(dict.fromkeys(cell[1:] for cell in self.dated.given))

    @property
    def series(self) -> Series:
        """What was true in every year, its cells in the order of `given`."""
        return series_of(self.dated, self.given)

    def questions(self) -> list[str]:
        """Word the question of each cell."""
        task, survey = declared_task(self.dated.task), find_record(self.dated.survey)
        subject = str(task.subject).replace(_IN_YEAR, "")
        bare = task.model_copy(update={"given": task.given[1:], "subject": subject})
        words = TaskQuestions(survey, self.dated.vintage, bare, find_variables(self.dated))
        return [words.question(cell) for cell in self.given]


def load_undated(task: str) -> Undated:
    """Return a question without a year; EpidemiaError where its dated truth is not here."""
    return Undated(task, store.load_truth(list_declared()[task].name))


def simulate_undated(truth: Undated, kind: str, noise: float = 1.0, seed: int = 0) -> Array:
    """Return what a respondent of `respondents` believes of the latest year; shape (C, K)."""
    believed = respondents.simulate_answers(truth.dated, kind, noise, seed)
    latest = max(year for year, *_ in truth.dated.given)
    return believed[[truth.dated.given.index((latest, *cell)) for cell in truth.given]]


class UndatedWay(InOrders):
    """As `letters.Letters`; the answers are no P(Y | X), since no answer is the true one."""

    name = "undated"

    def load(self, task: str) -> Undated:
        return load_undated(task)

    def described(self, truth: Undated) -> list[list[str]]:
        return [[f"sex: {label}" for label in cell] for cell in truth.given]

    def questions(self, truth: Undated, variant: Variant) -> list[str]:
        return truth.questions()


WAY = UndatedWay()

WAYS = {WAY.name: WAY}


def average_answers(answers: Sequence[Answer]) -> Array | None:
    """Return what a model answered in each cell, shape (C, K).

    None, with a warning, where a prompt was not asked or cannot be read.
    """
    asked = collect.collect_answers(WAYS, answers)
    if not collect.is_readable(asked, answers) or not collect.complete_cells(asked).all():
        return None
    return np.asarray(WAY.by_order(asked.said, answers[0], len(asked.truth.levels)).mean(axis=1))


def measure(answers: Sequence[Answer]) -> Measurement:
    """Keep what was answered in each cell, as `metrics.measure` its distributions."""
    q = average_answers(answers)
    kept = "" if q is None else " ".join(f"{x:.6g}" for x in q.flat)
    # All prompts, without --limit.
    seen = float(collect.collect_answers(WAYS, answers).answered.mean())
    return Measurement({"seen": seen}, kept=kept)


class WithoutYear(Benchmark):
    """Questions without a year, and so without a truth: the answers say when a model lives."""

    name = "undated"
    base = "_epidemia_undated"
    groups = (GROUP,)
    ways = WAYS
    primary = "choice_mass"
    says = "No score: 'epidemia report --show year-lived' shows it"
    digits = 2
    scored = False
    groups_version = TASK_VERSION
    kinds = respondents.KINDS
    without_anchors = "has no truth and no score"
    measure = staticmethod(measure)
    answers = staticmethod(simulate_undated)

    def entries(self) -> dict[str, TaskEntry]:
        entries = {}
        for name, of in list_declared().items():
            title = of.title.replace("Year, ", "") + " (no year named)"
            facets, outcome = {"survey": of.survey}, (of.survey, of.outcome)
            entries[name] = TaskEntry(name, GROUP, "", title, facets, outcome, of)
        return entries

    def available(self) -> list[str]:
        return [n for n, of in list_declared().items() if store.is_available(of.name)]

    def metrics(self, way: Any) -> Mapping[str, Metric]:
        """Return the metrics of how a model answered; none says how well."""
        return {**way.diagnostics, **super().metrics(way)}

    def metadata(self, truth: Undated) -> dict[str, str]:
        return OBSERVATION.metadata(truth.dated)

    def version(self, truth: Undated) -> int:
        return OBSERVATION.version(truth.dated)

    def cells(self, truth: Undated) -> dict[str, Sequence[Any]]:
        return {"levels": [list(truth.levels)] * len(truth.given)}


UNDATED = WithoutYear()
