"""Effects of a condition with the same Z for everybody, implied by surveys and models' answers.

Crude and standardised effects (see `benchmarks.observation.standardised`) of tasks with several
conditions, of which one is X and the others are Z. It needs no further questions: a model's P~(y |
x, z) comes from its samples. P(z) and P(x, z) come from the survey, for survey and model, and have
no error here: only the beliefs about Y differ. An effect is a difference of P(first answer), in
points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.standardised import (
    asking_error,
    crude,
    standardised,
    weighted,
)
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings import answered
from lm_eval_epidemia.old.findings.answered import Samples, required
from lm_eval_epidemia.old.findings.contrasts import CONTRASTS, Contrast
from lm_eval_epidemia.old.findings.rows import ALIKE, Column, Finding, Number, Row
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.strata import Mixture, Strata, mixture, strata
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score.joint import Draws, joint_error
from lm_eval_epidemia.surveys.catalogue import task as declared_task

#: What a survey's P(y | x, z) is.
COUNTS, TREES = "counts", "trees"


class Implied(NamedTuple):
    """The implied effects of one contrast.

    Attributes
    ----------
    task : Asked
    says : str
        The effect, and its Z.
    why : str
    share : float
        The share of the population that Z covers.
    by : str
        Source of the survey's P(y | x, z): `COUNTS` of the records, or `TREES`, which pull cells
        together, and effects towards 0.
    survey, own : mapping of str to Number
        ``crude``, ``standardised`` and, if P(x | z) is known, ``weighted``, for the survey and for
        the model's answers. Differences of P(first answer), in points. For the survey, P(x | z)
        comes from the other survey.
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
    """Return the effects that strata give, by name."""

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
    """Return a survey's effects, with errors from its joint replicates and the other survey's."""

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
    """Return the effects of a model's answers, with the error of asking."""
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
    """Describe an effect: "education: 16 years against 12 years, over age"."""
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
    """Return the effects over all Z and, if P(x | z) is known, over the Z of both tasks."""
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
    """Return the effects implied by surveys alone, for every contrast with a truth here."""
    return [
        effect
        for contrast, truth in _available()
        for effect in _implied(contrast, truth, Asked(contrast.task, "letters"))
    ]


def implied(report: Report, samples: Samples) -> list[Implied]:
    """Return the effects implied by every run's answers, for every contrast that it was asked.

    Parameters
    ----------
    report : Report
    samples : dict
        As from `answered.read_samples`. If a model was also asked for P(x | z) in the same way, its
        weighted effects are added, over the Z that both tasks cover.
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
    """Read only the samples that are needed.

    Returns
    -------
    effects : list of Implied
    notes : list of str
        What is left out; see `answered.read`.

    Raises
    ------
    EpidemiaError
        If no run was asked such a task with --log_samples.
    """
    tasks = {c.task for c in CONTRASTS} | {c.propensity.task for c in CONTRASTS if c.propensity}
    samples, notes = answered.read(
        report, lambda asked: asked.task in tasks, "standardised", drawn=True
    )
    such = (
        f"a task such as {CONTRASTS[0].task} (of these, {len(CONTRASTS)} with two or more "
        "conditions are compared; surveys of your own have none)"
    )
    return required(implied(report, samples), "standardise", such, notes), notes


#: How to read the table.
NOTE = (
    "Differences between two groups in the share of the first answer, in points. Crude: among "
    "people as they are. Standardised: if both groups had the whole population's mix of Z, sum_z "
    "P(y | x, z) P(z). Weighted: the same by inverse propensities P(x | z), divided by the sum of "
    "weights; the model's row uses its own (the survey's row: the American Community Survey), and "
    "is empty if P(x | z) was not asked. P(z) and P(x, z) come from the survey, for the model "
    "too. 'survey by': the survey's P(y | x, z) are counts of its records or, if these are not "
    "available, the boosted trees that scores use, which pull groups together. 'people': the "
    "share of the population in those Z with answers for both groups; the row covers only them. ± "
    "is the survey's sampling error (joint replicates of P(y | x, z), with fixed weights) or, for "
    "a model, the error of asking; none if everything was asked. These are effects of an "
    "intervention only under the graph Z -> X, Z -> Y, X -> Y without other common causes of X "
    "and Y: docs/background/standardised.md."
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
    """Return the effects of models; for surveys alone, each with its reason.

    In tidy rows the verdict describes the effect, and ``people`` is in per cent.
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
    return Finding("standardised", "What a model's own answers imply", columns, rows, NOTE)
