"""The old name of `benchmarks.observation.likelihood`, for task files that version 0.1.0 wrote."""

from lm_eval_epidemia.benchmarks.observation.likelihood import *  # noqa: F403
