"""The ways of asking about P(Y | X), in the order in which they are listed everywhere."""

from __future__ import annotations

from lm_eval_epidemia.ask.way import DistributionWay
from lm_eval_epidemia.core.lazy import Lazy

WAYS: Lazy[DistributionWay] = Lazy(
    "lm_eval_epidemia.benchmarks.observation",
    {
        "letters": "letters:WAY",
        "likelihood": "likelihood:WAY",
        "sampled": "letters:SAMPLED",
        "stated": "stated:WAY",
        "closed": "likelihood:CLOSED",
        "rag": "likelihood:RAG",
    },
)
