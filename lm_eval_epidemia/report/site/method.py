"""How a score is made, with one task as the example."""

from __future__ import annotations

from typing import Any

import pandas as pd
from markupsafe import Markup

from lm_eval_epidemia.ask.orderings import MAX_ORDERINGS
from lm_eval_epidemia.ask.prompts import Wording, prompt
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import bootstrap, curve, distribution
from lm_eval_epidemia.findings.mean import add_metrics
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.figures import CHARTS
from lm_eval_epidemia.results.choose import keep_runs
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import find_record

#: The running example.
EXAMPLE, EXAMPLE_CONDITION = "epidemia_low_nsduh_marijuana_ever_by_age", "30-34"

#: The example of confounding: two commonest groups, and the third variable, age.
CONFOUNDED = "epidemia_extra_nhis_high_blood_pressure_by_age_race"


def _confounding() -> dict[str, Any]:
    """Compare two groups as they are, within each age, and with the same ages."""
    truth = store.load_truth(CONFOUNDED)
    source, outcome = find_record(truth.survey), "high_blood_pressure"
    ages = [*dict.fromkeys(age for age, _ in truth.given)]
    weight = pd.Series(truth.weights, pd.MultiIndex.from_tuples(truth.given))
    groups = weight.groupby(level=1).sum().sort_values(ascending=False).index[:2].tolist()
    cells = [[truth.given.index((age, race)) for age in ages] for race in groups]
    p, joint = truth.p[cells, 0], truth.weights[cells]
    shares = joint / joint.sum(axis=1, keepdims=True)
    everybody = weight.groupby(level=0).sum()[ages].to_numpy()

    def compared(values: Array) -> list[str]:
        return [*map(_percent, values), f"{100 * (values[0] - values[1]):+.1f}"]

    return {
        "survey": f"{source.title} ({truth.vintage})",
        "question": source.way(outcome, truth.columns[outcome], truth.vintage).question,
        "answer": truth.levels[0],
        "groups": groups,
        "overall": compared((p * shares).sum(axis=1)),
        "alike": compared(p @ everybody),  # direct standardisation: everybody's ages
        "rows": [
            [age, *compared(p[:, i]), *map(_percent, shares[:, i])] for i, age in enumerate(ages)
        ],
    }


def _percent(p: float) -> str:
    return f"{100 * p:.1f} %"


def make_method_page(results: Results) -> dict[str, Any]:
    """Return the contents of the page: the example has the best run that was asked all of it."""
    truth = store.load_truth(EXAMPLE)
    anchors = Anchors.of(truth)
    cell = truth.given.index((EXAMPLE_CONDITION,))
    low, high = interval(truth.p, truth.n_eff)
    whole = "task == @EXAMPLE and way == 'letters' and asked_as == '' and value == value"
    scores = add_metrics(results.scores, ("l1",))
    best = scores.query(whole).sort_values("value", ascending=False).head(1)
    own = keep_runs(results, best["run"])
    tables = {
        "curve": curve(own, EXAMPLE).table.sort_values("rank", kind="stable"),
        "distribution": distribution(own, EXAMPLE).table,
        "bootstrap": bootstrap(EXAMPLE).table,
    }

    def asked_in(way: str) -> str:
        asks = WAYS[way]
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
            "model": "".join(own.runs["name"]),
            "distance": "".join(best["l1"].map("{:.4f}".format)),
            "score": "".join(best["value"].map("{:.1f}".format)),
        },
        "confounding": _confounding(),
        "drawn": {
            name: Markup(charts.to_page_svg(charts.draw(CHARTS[name], table), name))
            for name, table in tables.items()
        },
    }
