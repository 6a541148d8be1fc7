"""The old name of `benchmarks.prior.metrics`, for task files that version 0.1.0 wrote."""

from lm_eval_epidemia.benchmarks.prior.metrics import *  # noqa: F403
