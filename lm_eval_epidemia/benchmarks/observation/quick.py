"""A quick look: 250 cells, each in two orderings, from which the scores of groups are predicted.

``quick.yaml``, written by ``benchmarks/choose_quick.py``, says which cells, and how the scores of
``epidemia_low`` and ``epidemia_high`` follow from them. Each outcome has a relative distance

    r = sum_c w_c (D_c - OFF A_c)

where D_c is the L1 distance of a cell's mean answer from the truth, and A_c half the distance
between its two answers (nothing is subtracted if there are two levels). A falling curve, 100 at 0,
turns r into the mean score of the outcome's tasks. Another one turns the mean over tasks into the
score of the group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from lm_eval_epidemia.ask.orderings import LETTERS, orderings
from lm_eval_epidemia.ask.prompts import Wording, prompt
from lm_eval_epidemia.ask.responses import CHOICE_MASS, LOG_ZERO, logprobs_of, softmax
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import Answer, Way
from lm_eval_epidemia.benchmarks.benchmark import Benchmark, Measurement, TaskEntry
from lm_eval_epidemia.benchmarks.observation import distributions, respondents
from lm_eval_epidemia.benchmarks.observation.letters import by_level
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score.joint import Draws

#: Subtracted from the distance because of the noise of only two orderings.
OFF = 0.4

GROUP = "epidemia_quick"

FILE = "quick.yaml"


class Curve(NamedTuple):
    """A piecewise linear function, level beyond its ends."""

    at: tuple[float, ...]
    values: tuple[float, ...]

    def __call__(self, x: Array | float) -> Array:
        return np.asarray(np.interp(x, self.at, self.values))


class QuickCell(NamedTuple):
    """A cell that is asked.

    Attributes
    ----------
    task : str
    given : tuple of str
        Labels of its conditions.
    orderings : tuple of int
        Numbers of two of the task's orderings, as `ask.orderings` lists them.
    weight : float
        w_c, per unit of L1 distance.
    """

    task: str
    given: tuple[str, ...]
    orderings: tuple[int, int]
    weight: float


class QuickOutcome(NamedTuple):
    """The cells that stand for all tasks of an outcome.

    Attributes
    ----------
    name : str
    tasks : int
        How many of the group's ask for it.
    cells : tuple of QuickCell
    score : Curve
        From r to the mean score of these tasks.
    """

    name: str
    tasks: int
    cells: tuple[QuickCell, ...]
    score: Curve


class Choice(NamedTuple):
    """The chosen cells and curves of a group.

    Attributes
    ----------
    group : str
        That is predicted.
    outcomes : tuple of QuickOutcome
    score : Curve
        From what the outcomes' mean lacks of 100 to the group's score.
    error : Curve
        From the predicted score to its standard error.
    """

    group: str
    outcomes: tuple[QuickOutcome, ...]
    score: Curve
    error: Curve

    @property
    def cells(self) -> list[QuickCell]:
        return [cell for outcome in self.outcomes for cell in outcome.cells]

    def predict(self, distances: Array) -> Array:
        """Predict the group's score.

        Parameters
        ----------
        distances : ndarray, shape (..., cells)
            D_c - OFF A_c.

        Returns
        -------
        ndarray, shape (...)
            From 0 to 100.
        """
        tasks = sum(outcome.tasks for outcome in self.outcomes)
        mean, start = np.zeros(distances.shape[:-1]), 0
        for outcome in self.outcomes:
            end = start + len(outcome.cells)
            r = distances[..., start:end] @ np.array([cell.weight for cell in outcome.cells])
            mean, start = mean + outcome.tasks / tasks * outcome.score(r), end
        return self.score(100 - mean)


def excess_distance(p: Array, said: Array) -> Array:
    """Return D_c - OFF A_c of cells.

    Parameters
    ----------
    p : ndarray, shape (..., K)
    said : ndarray, shape (..., 2, K)
        Distributions over the same levels, one per ordering.
    """
    d = np.abs(said.mean(axis=-2) - p).sum(axis=-1)
    if p.shape[-1] == 2:  # all orderings were asked
        return np.asarray(d)
    return np.asarray(d - OFF * np.abs(said[..., 0, :] - said[..., 1, :]).sum(axis=-1) / 2)


@lru_cache(maxsize=1)
def load_choices() -> dict[str, Choice]:
    """Return the chosen cells and curves, by the name of the quick task."""
    found = {}
    for task, chosen in read_yaml(__package__, FILE)["tasks"].items():
        outcomes = [{"name": name, **of} for name, of in chosen["outcomes"].items()]
        content = {"group": chosen["predicts"], "outcomes": outcomes}
        content |= {name: chosen[name] for name in ("score", "error")}
        found[task] = TypeAdapter(Choice).validate_python(content)
    return found


class AskedCell(NamedTuple):
    """A chosen cell in its truth.

    Attributes
    ----------
    truth : GroundTruth
        Of its task.
    cell : int
        Its number there.
    orders : tuple of tuple of int
        Two orderings: level numbers by displayed position.
    """

    truth: store.GroundTruth
    cell: int
    orders: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class QuickTruth:
    """What the quick task of a group asks, of the truths that ship: it was chosen for these.

    Attributes
    ----------
    task : str
    choice : Choice
    asked : tuple of AskedCell
        In the order of the choice's cells.
    fingerprint : str
        Hash of the choice and of the truths.
    """

    task: str
    choice: Choice
    asked: tuple[AskedCell, ...]
    fingerprint: str

    @property
    def given(self) -> list[list[str]]:
        """The conditions of each cell: "age: 30-34"."""
        return [Wording(cell.truth).described(cell.cell) for cell in self.asked]


def _find_cell(cell: QuickCell) -> AskedCell:
    truth = store.load_truth(cell.task, state="shipped")
    every = orderings(len(truth.levels))
    orders = tuple(every[number] for number in cell.orderings)
    return AskedCell(truth, truth.given.index(cell.given), orders)


@lru_cache(maxsize=2)
def load_quick(task: str) -> QuickTruth:
    """Return what a quick task asks.

    Raises
    ------
    EpidemiaError
        If one of its truths does not ship with this package, or lacks a cell.
    """
    choice = load_choices()[task]
    asked = tuple(map(_find_cell, choice.cells))
    truths = sorted({f"{cell.truth.task} {cell.truth.fingerprint}" for cell in asked})
    digest = hashlib.sha256(repr((choice, truths)).encode()).hexdigest()
    return QuickTruth(task, choice, asked, digest[:12])


class Quick(Way):
    """Each chosen cell in two orderings of its answers, read from the letters."""

    name = "quick"
    columns = {"place": "int8", "order": ["int8"], "choices": ["string"]}
    prompts_are = "orderings"
    diagnostics = {"choice_mass": CHOICE_MASS}

    def load(self, task: str) -> QuickTruth:
        return load_quick(task)

    def described(self, truth: QuickTruth) -> list[list[str]]:
        return truth.given

    def rows(self, truth: QuickTruth, variant: Variant) -> Iterator[dict[str, Any]]:
        """Ask each cell twice, in the words of its own task."""
        for number, (own, cell, orders) in enumerate(truth.asked):
            question = Wording(own).question(cell)
            for place, order in enumerate(orders):
                yield {
                    "cell": number,
                    "place": place,
                    "order": list(order),
                    "choices": list(LETTERS[: len(order)]),
                    "prompt": prompt(question, [own.levels[level] for level in order]),
                }

    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read the log-probabilities of a row's letters, by displayed position."""
        return self.answer(row, logprobs_of(responses, row), row.place)

    def choices(self, truth: QuickTruth) -> Sequence[str]:
        return LETTERS

    def count_prompts(self, truth: QuickTruth, first: Answer) -> int:
        return 2

    def believed(self, belief: Array, row: Any) -> Array:
        return belief[list(row.order)]


WAY = Quick()

WAYS = {WAY.name: WAY}


def measure(answers: Sequence[Any]) -> Measurement:
    """Predict the score of a group from the answers to a quick task; none if one is missing.

    Its error includes that of the orderings, but not the survey's sampling error, since the full
    run has the same truths.
    """
    most = max(len(answer.value) for answer in answers)
    alike = [
        answer._replace(value=(*answer.value, *[LOG_ZERO] * (most - len(answer.value))))
        for answer in answers
    ]
    asked = collect.collect_answers(WAYS, alike)
    answered, seen = asked.answered, {"seen": float(asked.answered.mean())}
    if not collect.is_readable(asked, answers):
        return Measurement(seen, {"score": None})
    if not answered.all():
        notices.warn(
            "only part of a quick look was seen",
            f"{asked.name}: {int(answered.sum())} of {answered.size} prompts "
            "were asked, but a quick look needs all of them: leave out --limit and --samples",
        )
        return Measurement(seen, {"score": None})
    choice = asked.truth.choice
    score = float(choice.predict(_distances(asked.truth, asked.said)))
    error = float(choice.error(score))
    # Its error is one of the asking, independent of other tasks.
    draws = {"score": Draws("", np.empty(0), error)}
    return Measurement({"score": score, "score_stderr": error} | seen, draws)


def _distances(truth: QuickTruth, said: Array) -> Array:
    """Return how far the answers are from the truth, cell by cell; see `excess_distance`."""
    distances = []
    for (own, cell, orders), logprobs in zip(truth.asked, said, strict=True):
        displayed = softmax(logprobs[:, : len(own.levels)])
        distances.append(excess_distance(own.p[cell], by_level(displayed, np.array(orders))))
    return np.array(distances)


class QuickLook(Benchmark):
    """A quick look: a benchmark of its own, so that no table ranks it beside full runs."""

    name = "quick"
    base = "_epidemia_quick"
    groups = (GROUP,)
    ways = WAYS
    primary = "score"
    says = "Quick look: predicted score, 0 to 100"
    digits = 1
    kinds = respondents.KINDS
    predicts = True
    without_anchors = (
        "predicts other groups' scores and has no anchors of its own; 'epidemia anchors "
        "epidemia_low epidemia_high' prints theirs"
    )
    measure = staticmethod(measure)

    def entries(self) -> dict[str, TaskEntry]:
        return {
            name: TaskEntry(name, GROUP, "", f"Quick look at {of.group}", {}, name, of)
            for name, of in load_choices().items()
        }

    def available(self) -> list[str]:
        """Return the quick tasks all of whose truths ship."""
        return [
            name
            for name, choice in load_choices().items()
            if all(store.vintages(task, "shipped") for task in {cell.task for cell in choice.cells})
        ]

    def metadata(self, truth: QuickTruth) -> dict[str, str]:
        return {"predicts": truth.choice.group, "truth": truth.fingerprint}

    def answers(
        self, truth: QuickTruth, kind: str, noise: float = 1.0, seed: int = 0
    ) -> list[Array]:
        tasks = {cell.truth.task: cell.truth for cell in truth.asked}
        of = {
            name: respondents.simulate_answers(own, kind, noise, seed)
            for name, own in tasks.items()
        }
        return [of[cell.truth.task][cell.cell] for cell in truth.asked]

    def cells(self, truth: QuickTruth) -> dict[str, Sequence[Any]]:
        """Return what is true in the cells, and whose they are.

        ``weight`` is per unit of distance; see `quick`.
        """
        columns: dict[str, Any] = {
            "of_task": [own.task for own, *_ in truth.asked],
            "of_cell": [cell for _, cell, _ in truth.asked],
            "weight": [cell.weight for cell in truth.choice.cells],
        }
        for own, cell, _ in truth.asked:
            at = [cell]
            known = distributions([own.levels], own.p[at], own.n[at], own.n_eff[at])
            for name, values in known.items():
                columns.setdefault(name, []).extend(values)
        return columns


QUICK = QuickLook()
