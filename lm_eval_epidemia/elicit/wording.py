"""The questions of one task's ground truth."""

from __future__ import annotations

from lm_eval_epidemia.elicit.prompts import TaskQuestions
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import record
from lm_eval_epidemia.surveys.catalogue import task as declared_task
from lm_eval_epidemia.surveys.variable import Variable


def ways_of(truth: store.GroundTruth) -> dict[str, Variable]:
    """Return how each variable of a task was recorded in its ground truth."""
    survey = record(truth.survey)
    return {name: survey.way(name, column, truth.vintage) for name, column in truth.columns.items()}


class Wording:
    """Words the questions of a task, cell by cell.

    Parameters
    ----------
    truth : GroundTruth
    wording : str
        One of `prompts.WORDINGS`.
    """

    def __init__(self, truth: store.GroundTruth, wording: str = "") -> None:
        self._task, self._given = declared_task(truth.task), truth.given
        about = record(truth.survey), truth.vintage, self._task, ways_of(truth)
        self._questions = TaskQuestions(*about, wording)

    def question(self, cell: int) -> str:
        """Return the question of a cell."""
        return self._questions.question(self._given[cell])

    def probability(self, cell: int, level: int) -> str:
        """Return the question for the probability of a level in a cell."""
        return self._questions.probability(self._given[cell], level)

    def hundred(self) -> str:
        """Return the question for how many of 100 such people give each answer."""
        return self._questions.hundred()

    def described(self, cell: int) -> list[str]:
        """Return the conditions of a cell: "age: 30-34"."""
        pairs = zip(self._task.given, self._given[cell], strict=True)
        return [f"{name}: {label}" for name, label in pairs]
