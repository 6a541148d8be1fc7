"""Questions that surveys asked in many years, asked without a year: no answer is the true one.

Each outcome that a record declares by year and sex is asked of men and women today, or whenever a
model lives: the errors of two prompts average out. `lived` says of which year the answers are true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from lm_eval_epidemia.benchmarks.benchmark import Measurement, declared_metrics
from lm_eval_epidemia.benchmarks.observation import respondents
from lm_eval_epidemia.benchmarks.observation.letters import InOrders
from lm_eval_epidemia.benchmarks.observation.lived import Series, series_of
from lm_eval_epidemia.benchmarks.observation.response import Response
from lm_eval_epidemia.benchmarks.observation.years import YEAR
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.prompts import TaskQuestions
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import Metric, Way
from lm_eval_epidemia.elicit.wording import ways_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.surveys.catalogue import all_tasks, record
from lm_eval_epidemia.surveys.catalogue import task as declared_task
from lm_eval_epidemia.surveys.record import Task

GROUP = "epidemia_years_undated"

#: What subjects say of the year.
_IN_YEAR = " in {year}"


def declared() -> dict[str, Task]:
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
        task, survey = declared_task(self.dated.task), record(self.dated.survey)
        subject = str(task.subject).replace(_IN_YEAR, "")
        bare = task.model_copy(update={"given": task.given[1:], "subject": subject})
        words = TaskQuestions(survey, self.dated.vintage, bare, ways_of(self.dated))
        return [words.question(cell) for cell in self.given]


def load(task: str) -> Undated:
    """Return a question without a year; EpidemiaError where its dated truth is not here."""
    return Undated(task, store.load(declared()[task].name))


def answers(truth: Undated, kind: str, noise: float = 1.0, seed: int = 0) -> Array:
    """Return what a respondent of `respondents` believes of the latest year; shape (C, K)."""
    believed = respondents.answers(truth.dated, kind, noise, seed)
    latest = max(year for year, *_ in truth.dated.given)
    return believed[[truth.dated.given.index((latest, *cell)) for cell in truth.given]]


class UndatedWay(InOrders):
    """As `letters.Letters`; the answers are no P(Y | X), since no answer is the true one."""

    name = "undated"

    def load(self, task: str) -> Undated:
        return load(task)

    def described(self, truth: Undated) -> list[list[str]]:
        return [[f"sex: {label}" for label in cell] for cell in truth.given]

    def questions(self, truth: Undated, variant: Variant) -> list[str]:
        return truth.questions()


WAY = UndatedWay()

WAYS = {WAY.name: WAY}


def elicited(answers: Sequence[Response]) -> Array | None:
    """Return what a model answered in each cell, shape (C, K).

    None, with a warning, where a prompt was not asked or cannot be read.
    """
    asked = collect.collected(WAYS, answers)
    if not collect.readable(asked, answers) or not collect.complete_cells(asked).all():
        return None
    q: Array = WAY.by_order(asked.said, answers[0], len(asked.truth.levels)).mean(axis=1)
    return q


def measure(answers: Sequence[Response]) -> Measurement:
    """Keep what was answered in each cell, as `metrics.measure` its distributions."""
    q = elicited(answers)
    kept = "" if q is None else " ".join(f"{x:.6g}" for x in q.flat)
    # All prompts, without --limit.
    seen = float(collect.collected(WAYS, answers).answered.mean())
    return Measurement({"seen": seen}, kept=kept)


@cache
def metrics_of(way: Way) -> dict[str, Metric]:
    """Return the metrics of how a model answered; none says how well."""
    return {**way.diagnostics, **declared_metrics("undated")}
