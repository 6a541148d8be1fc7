"""The ways of asking about P(Y | X), in the order in which they are listed everywhere."""

from __future__ import annotations

from lm_eval_epidemia.benchmarks.observation.letters import Letters, Sampled
from lm_eval_epidemia.benchmarks.observation.likelihood import Closed, Likelihood, Rag
from lm_eval_epidemia.benchmarks.observation.stated import Stated
from lm_eval_epidemia.elicit.way import DistributionWay

WAYS: dict[str, DistributionWay] = {
    way.name: way for way in (Letters(), Likelihood(), Sampled(), Stated(), Closed(), Rag())
}
