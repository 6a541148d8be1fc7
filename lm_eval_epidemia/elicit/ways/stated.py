"""The old name of `benchmarks.observation.stated`, for task files that version 0.1.0 wrote."""

from lm_eval_epidemia.benchmarks.observation.stated import *  # noqa: F403
