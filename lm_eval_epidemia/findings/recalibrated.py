"""How well a model knows who answers what, apart from how common each answer is.

Its answers are recalibrated to the survey's P(Y) and scored again
(`benchmarks.observation.recalibrated`). The score for knowing averages only on the same cells is
the comparison: only the excess shows knowledge of how Y depends on X.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lm_eval_epidemia.benchmarks.observation.apart import Known
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.recalibrated import marginal, parts, recalibrate
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.findings.cells import RUN_LETTERS, cells, finding_of
from lm_eval_epidemia.findings.finding import Column, Finding
from lm_eval_epidemia.findings.mean import averaged
from lm_eval_epidemia.results.entry import leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import Draws, difference

COLUMNS = {
    "group": Column(),
    "tasks": Column(),
    "score": Column("", 1, error="score_error"),
    "recalibrated": Column("", 1, error="recalibrated_error"),
    "averages": Column("averages only", 1, error="averages_error"),
    "gain": Column("difference", 1, signed=True, error="gain_error"),
    "l1": Column("", 3),
    "l1_marginal": Column("of P(Y)", 3),
    "l1_conditional": Column("left", 3),
}

NOTE = (
    "Recalibrated: each answer's probability is multiplied by one factor, the same for everybody, "
    "so that the overall mix equals the survey's P(Y); odds ratios between groups of people do "
    "not change. Averages only: the survey's P(Y) as the answer about everybody. Difference: what "
    "the model knows about who answers what; 0 if nothing, below 0 if its differences between "
    "people mislead. l1 is the distance as answered, 'of P(Y)' the distance of its overall mix, "
    "'left' the distance that remains when the mix is right. ± covers the survey's sampling "
    "error, with P(Y) taken from every replicate, and that of sampled orderings. Left out: tasks "
    "without conditions (marginal), which contain nothing but P(Y)."
)


def recalibrated(results: Results) -> Finding:
    """Scores of answers rescaled to the survey's averages: who answers what, and nothing else."""
    groups, left_out = cells(results, lambda asked: leaf(asked).entry.declared.given)
    rows = [
        group.row | averaged([_of_task(*of) for of in group.tasks.values()]) for group in groups
    ]
    title = "Who answers what, apart from how common answers are"
    lacks = f"recalibrate: {RUN_LETTERS}"
    return finding_of(results, "recalibrated", title, rows, COLUMNS, NOTE, left_out, lacks)


def _of_task(part: Part, answers: Elicited) -> dict[str, Known]:
    """Return three scores of the answers to a task, their gain, and three distances."""
    weights, at, true = part.weights, part.replicates, marginal(part.weights, part.p)

    def distances(p: Array) -> dict[str, Array]:
        """Return the distances from the truth, or from each replicate of it."""
        of = parts(weights, p, answers.q)
        averages = distance(weights, p, marginal(weights, p)[..., None, :])
        scored = {"score": of.total, "recalibrated": of.conditional, "averages": averages}
        l1 = {"l1": of.total, "l1_marginal": of.marginal, "l1_conditional": of.conditional}
        return scored | l1

    def asking(changed: Callable[[Array], Array]) -> float:
        """Return the error of a score from sampled orderings."""
        if answers.by_order is None:
            return 0.0
        return scoring.ordering_error(
            answers.by_order,
            lambda q: part.score_of(part.distance(np.asarray([changed(each) for each in q]))),
        )

    now, known = distances(part.p), {}
    then = None if at is None else distances(at)
    for name, error in {
        "score": asking(lambda q: q),
        "recalibrated": asking(lambda q: recalibrate(weights, q, true)),
        "averages": 0.0,
    }.items():
        draws = None
        if then is not None and part.zeros is not None:
            drawn = scoring.scale(then[name], part.zeros, part.anchors.perfect)
            draws = Draws(part.truth.sample or "", drawn, error)
        known[name] = Known(float(part.score_of(now[name])), draws)
    told, alone = known["recalibrated"], known["averages"]
    known["gain"] = Known(told.value - alone.value, difference(told.draws, alone.draws))
    return known | {name: Known(float(d), None) for name, d in now.items() if name not in known}
