"""How a score is made, with one task as the example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.observation.standardised import crude, standardised
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.orderings import MAX_ORDERINGS
from lm_eval_epidemia.elicit.prompts import prompt
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import task
from lm_eval_epidemia.findings.finding import Finding
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.figures import CHARTS
from lm_eval_epidemia.results.choose import of_runs
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import record

#: The running example.
EXAMPLE, EXAMPLE_CONDITION = "epidemia_low_nsduh_marijuana_ever_by_age", "30-34"

#: The example of confounding: a task with two conditions, Z and then X, and two values of X.
CONFOUNDED = "epidemia_extra_nhis_high_blood_pressure_by_age_race"
COMPARED = ("White", "Hispanic")


class Confounding(NamedTuple):
    """Compare two groups as they are, and with the same mix of a third variable.

    Attributes
    ----------
    levels : list of str, length S
        Of the third variable Z.
    within : ndarray, shape (2, S)
        P(first answer | X, Z).
    shares : ndarray, shape (2, S)
        P(Z | X).
    overall : ndarray, shape (2,)
        P(first answer | X).
    alike : ndarray, shape (2,)
        The same if both groups had the population's mix of Z: the sum over z of P(z) P(y | x, z).
    """

    levels: list[str]
    within: Array
    shares: Array
    overall: Array
    alike: Array


def confounding(truth: store.GroundTruth, compared: tuple[str, str] = COMPARED) -> Confounding:
    """Compare two values of a truth's second condition, over and within the levels of its first.

    Parameters
    ----------
    truth : GroundTruth
        With two conditions.
    compared : (str, str)
        Two levels of the second condition that occur with the same levels of the first.
    """
    places = {labels: cell for cell, labels in enumerate(truth.given)}
    conditions = dict.fromkeys(z for z, _ in truth.given)
    levels = [z for z in conditions if all((z, x) in places for x in compared)]
    cells = np.array([[places[z, x] for z in levels] for x in compared])
    within, weights = truth.p[cells, 0], truth.weights[cells]
    shares = weights / weights.sum(axis=1, keepdims=True)
    of_cells = [z for z, _ in truth.given]
    sizes = [truth.weights[[level == z for level in of_cells]] for z in levels]
    alike = standardised(within, np.array([sum(size) for size in sizes]))
    return Confounding(levels, within, shares, crude(within, weights), alike)


def _confounding_said() -> dict[str, Any]:
    truth = store.load(CONFOUNDED, state="shipped")
    groups, source = confounding(truth), record(truth.survey)
    outcome = source.way("high_blood_pressure", truth.columns["high_blood_pressure"], truth.vintage)

    def points(values: Array) -> str:
        return f"{100 * (values[0] - values[1]):+.1f}"

    return {
        "survey": f"{source.title} ({truth.vintage})",
        "question": outcome.question,
        "answer": truth.levels[0],
        "groups": COMPARED,
        "overall": [_percent(p) for p in groups.overall],
        "difference": points(groups.overall),
        "alike": [_percent(p) for p in groups.alike],
        "left": points(groups.alike),
        "rows": [
            [
                level,
                *map(_percent, groups.within[:, i]),
                points(groups.within[:, i]),
                *map(_percent, groups.shares[:, i]),
            ]
            for i, level in enumerate(groups.levels)
        ],
    }


def _percent(p: float) -> str:
    return f"{100 * p:.1f} %"


def shown(results: Results, made: Mapping[str, Finding]) -> dict[str, Any]:
    """Return the contents of the page: the example has the best run that was asked all of it."""
    truth = store.load(EXAMPLE)
    anchors = Anchors.of(truth)
    cell = next(i for i, (label,) in enumerate(truth.given) if label == EXAMPLE_CONDITION)
    low, high = interval(truth.p, truth.n_eff)
    scores = results.scores
    asked = scores[
        (scores["task"] == EXAMPLE)
        & (scores["way"] == "letters")
        & (scores["asked_as"] == "")
        & scores["value"].notna()
    ].sort_values("value", ascending=False)
    best = asked.head(1).to_dict("records")
    own = of_runs(results, [row["run"] for row in best])
    who = results.runs["name"][best[0]["run"]] if best else ""
    curve = task.curve(own, EXAMPLE).table.sort_values("rank", kind="stable")
    tables = {
        "curve": curve,
        "distribution": task.distribution(own, EXAMPLE).table,
        "bootstrap": task.bootstrap(EXAMPLE).table,
    }

    def asked_in(way: str) -> str:
        asks = WAYS[way]
        assert asks.question is not None and asks.answers is not None
        return prompt(
            asks.question(Wording(truth), cell, 0), asks.answers(truth), request=asks.request
        )

    return {
        "example": {
            "condition": EXAMPLE_CONDITION,
            "truth": _percent(truth.p[cell, 0]),
            "interval": f"{_percent(low[cell, 0])} to {_percent(high[cell, 0])}",
            "n": f"{truth.n[cell]:,}",
            "question": asked_in("letters"),
            "likelihood": asked_in("likelihood"),
            "most": MAX_ORDERINGS,
            "replicates": len(truth.distances[truth.scheme]),
            "zero": f"{anchors.zero:.4f}",
            "perfect": f"{anchors.perfect:.4f}",
            "model": who,
            "distance": f"{best[0]['l1']:.4f}" if best else "",
            "score": f"{best[0]['value']:.1f}" if best else "",
        },
        "confounding": _confounding_said(),
        "drawn": {
            name: Markup(charts.in_page(charts.draw(CHARTS[name], table), name))
            for name, table in tables.items()
        },
    }
