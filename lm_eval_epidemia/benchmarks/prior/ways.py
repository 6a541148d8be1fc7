"""The ways of asking for priors, the plain one first."""

from __future__ import annotations

from lm_eval_epidemia.benchmarks.prior.grid import Grid
from lm_eval_epidemia.benchmarks.prior.protocols import Direct, DirectChoice, MeanVariance, Quantile
from lm_eval_epidemia.elicit.way import Way

WAYS: dict[str, Way] = {
    way.name: way for way in (Direct(), DirectChoice(), MeanVariance(), Quantile(), Grid())
}
