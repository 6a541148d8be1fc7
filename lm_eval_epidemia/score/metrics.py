"""The old name of `benchmarks.observation.metrics`, for task files that version 0.1.0 wrote."""

from lm_eval_epidemia.benchmarks.observation.metrics import *  # noqa: F403
