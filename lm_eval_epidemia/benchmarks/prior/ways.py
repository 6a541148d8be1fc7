"""The ways of asking for priors, the plain one first."""

from __future__ import annotations

from lm_eval_epidemia.benchmarks.prior import grid, protocols
from lm_eval_epidemia.elicit.way import Way, by_name

WAYS: dict[str, Way] = by_name(*protocols.ALL, grid.WAY)
