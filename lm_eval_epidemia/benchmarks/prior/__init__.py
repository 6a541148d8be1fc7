"""Priors: what a model expects a number to be, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_epidemia.ask.way import Metric
from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.prior import respondents
from lm_eval_epidemia.benchmarks.prior.metrics import measure, read_kept
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Quantities, cells_of
from lm_eval_epidemia.benchmarks.prior.ways import WAYS


def _group_of(set_: store.DeclaredSet) -> str:
    if set_.published:
        return "epidemia_prior"
    return "epidemia_prior_generated" if set_.state == "shipped" else "epidemia_prior_own"


class Priors(Benchmark):
    """What a model expects quantities to be, and how sure it is."""

    name = "prior"
    base = "_epidemia_prior"
    groups = ("epidemia_prior", "epidemia_prior_generated", "epidemia_prior_own")
    ways = WAYS
    primary = "error_ratio"
    headline = "win_rate_5"
    says = "Share of quantities on which stated priors beat five real answers"
    digits = 3
    kinds = respondents.KINDS
    has_samples = True
    without_anchors = (
        "asks for a model's priors about quantities, and has no anchors; 'epidemia quantities "
        "list {task}' prints the true values"
    )
    available = staticmethod(store.list_available)
    measure = staticmethod(measure)
    read_kept = staticmethod(read_kept)
    answers = staticmethod(respondents.simulate_priors)
    cells = staticmethod(cells_of)

    def entries(self) -> dict[str, TaskEntry]:
        return {
            name: TaskEntry(
                name, _group_of(set_), "", set_.title, {"survey": set_.survey}, name, set_
            )
            for name, set_ in store.list_declared().items()
        }

    def metrics(self, way: Any) -> Mapping[str, Metric]:
        # Of a grid nothing is unread, so nothing is dropped.
        others = "end_mass" if way.generated else "_published"
        return {n: of for n, of in super().metrics(way).items() if not n.endswith(others)}

    def metadata(self, truth: Quantities) -> dict[str, str]:
        return {"survey": truth.survey, "vintage": truth.vintage, "truth": truth.fingerprint}


PRIOR = Priors()
