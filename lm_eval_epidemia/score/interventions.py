"""The old name of `benchmarks.intervention.metrics`, for task files that version 0.1.0 wrote."""

from lm_eval_epidemia.benchmarks.intervention.metrics import *  # noqa: F403
