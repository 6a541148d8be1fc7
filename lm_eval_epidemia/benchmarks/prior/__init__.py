"""Priors: what a model expects a number to be, and how sure it is."""

from __future__ import annotations

from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.prior import respondents
from lm_eval_epidemia.benchmarks.prior.metrics import metrics_of
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import cells_of
from lm_eval_epidemia.benchmarks.prior.ways import WAYS


def _group_of(set_: store.DeclaredSet) -> str:
    if set_.published:
        return "epidemia_prior"
    return "epidemia_prior_generated" if set_.state == "shipped" else "epidemia_prior_own"


PRIOR = Benchmark(
    name="prior",
    base="_epidemia_prior",
    groups=("epidemia_prior", "epidemia_prior_generated", "epidemia_prior_own"),
    ways=WAYS,
    metrics=metrics_of,
    primary="error_ratio",
    headline="win_rate_5",
    says="Share of quantities on which stated priors beat five real answers",
    digits=3,
    entries=lambda: {
        name: TaskEntry(name, _group_of(set_), "", set_.title, {"survey": set_.survey}, name, set_)
        for name, set_ in store.declared().items()
    },
    available=store.available,
    metadata=lambda truth: {
        "survey": truth.survey,
        "vintage": truth.vintage,
        "truth": truth.fingerprint,
    },
    kinds=respondents.KINDS,
    without_anchors="asks for a model's priors about quantities, and has no anchors; 'epidemia "
    "quantities list {task}' prints the true values",
    answers=respondents.answers,
    cells=cells_of,
)
