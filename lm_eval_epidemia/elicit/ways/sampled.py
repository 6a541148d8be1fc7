"""The old name of `benchmarks.observation.sampled`, for task files that version 0.1.0 wrote."""

from lm_eval_epidemia.benchmarks.observation.sampled import *  # noqa: F403
from lm_eval_epidemia.elicit.responses import answered  # noqa: F401
