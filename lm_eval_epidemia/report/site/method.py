"""How a score is made, with one task as the example."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from lm_eval_epidemia.ask.orderings import MAX_ORDERINGS
from lm_eval_epidemia.ask.prompts import Wording, prompt
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import bootstrap, curve, distribution
from lm_eval_epidemia.findings.mean import add_metrics
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.figures import CHARTS
from lm_eval_epidemia.results.choose import keep_runs
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.score import Anchors

#: The running example.
EXAMPLE, EXAMPLE_CONDITION = "epidemia_low_nsduh_marijuana_ever_by_age", "30-34"


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
        "drawn": {
            name: Markup(charts.to_page_svg(charts.draw(CHARTS[name], table), name))
            for name, table in tables.items()
        },
    }
