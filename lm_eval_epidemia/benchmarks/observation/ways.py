"""The ways of asking about P(Y | X), in the order in which they are listed everywhere."""

from __future__ import annotations

from lm_eval_epidemia.benchmarks.observation import letters, likelihood, sampled, stated, written
from lm_eval_epidemia.elicit.way import Way, by_name

WAYS: dict[str, Way] = by_name(
    letters.WAY, likelihood.WAY, sampled.WAY, stated.WAY, written.CLOSED, written.RAG
)
