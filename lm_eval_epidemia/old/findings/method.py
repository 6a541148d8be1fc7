"""How a score is made, with one task as the example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.observation.standardised import crude, standardised
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.elicit.orderings import MAX_ORDERINGS
from lm_eval_epidemia.elicit.prompts import prompt
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings import data
from lm_eval_epidemia.old.findings.answered import Samples
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.normalise import normalise
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.protocol import Protocol
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import record

#: The running example.
EXAMPLE, EXAMPLE_CONDITION = "epidemia_low_nsduh_marijuana_ever_by_age", "30-34"

NO_NAMES: Mapping[str, str] = {}

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


def _two(truth: store.GroundTruth, runs: dict[str, TaskAnswers]) -> dict[str, TaskAnswers]:
    """Return the best and the worst answers: of two runs, or of two made-up respondents."""
    if len(runs) < 2:
        nothing = scoring.uniform(truth.p)
        answers = {
            "nine tenths the truth": 0.9 * truth.p + 0.1 * nothing,
            "all answers equally likely": nothing,
        }
        cells = list(range(len(truth.given)))
        runs = {
            name: TaskAnswers(cells, q, None, float(distance(truth.weights, q, truth.p)))
            for name, q in answers.items()
        }
    anchors, ordered = Anchors.of(truth), sorted(runs.items(), key=lambda run: run[1].l1)
    return {
        f"{name}, score {normalise(run.l1, anchors, 'score'):.1f}": run
        for name, run in (ordered[0], ordered[-1])
    }


def shown(report: Report, samples: Samples, names: Mapping[str, str] = NO_NAMES) -> dict[str, Any]:
    """Return the contents of the site's page on the method.

    Parameters
    ----------
    report : Report
        The page shows its best model that was asked every cell of the example.
    samples : dict
        As of `answered.read_samples`.
    names : mapping of str to str
        Names of models on pages, by model.
    """
    truth = store.load(EXAMPLE)
    anchors = Anchors.of(truth)
    cell = next(i for i, (label,) in enumerate(truth.given) if label == EXAMPLE_CONDITION)
    low, high = interval(truth.p, truth.n_eff)
    asked = Asked(EXAMPLE, "letters")
    alike = {
        names.get(entry.name, entry.name): samples[entry.name, asked]
        for entry in report.runs
        if entry.protocol == Protocol() and (entry.name, asked) in samples
    }
    whole = {name: own for name, own in alike.items() if len(own.cells) == len(truth.given)}
    best = next((e for e in report.runs if names.get(e.name, e.name) in whole), None)
    who = names.get(best.name, best.name) if best else ""
    models = {who: whole[who]} if best else {}
    two = _two(truth, whole)

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
            "distance": f"{best.scores[asked].l1:.4f}" if best else "",
            "score": f"{best.scores[asked].value:.1f}" if best else "",
        },
        "two": list(two),
        "confounding": _confounding_said(),
        "rows": {
            "curve": data.rows_of_curve(truth, models),
            "distribution": data.rows_of_distribution(truth, cell, models),
            "bootstrap": data.bootstrap_rows(None, EXAMPLE),
            **{
                side: _rows_of(truth, who, own)
                for side, (who, own) in zip(("well", "badly"), two.items(), strict=True)
            },
        },
    }


def _rows_of(truth: store.GroundTruth, who: str, own: TaskAnswers) -> data.Rows:
    return [row for row in data.rows_of_curve(truth, {who: own}) if row["who"] in ("truth", who)]
