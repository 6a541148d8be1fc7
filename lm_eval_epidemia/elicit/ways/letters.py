"""The old name of `benchmarks.observation.letters`, for task files that version 0.1.0 wrote."""

from lm_eval_epidemia.benchmarks.observation.letters import *  # noqa: F403
from lm_eval_epidemia.elicit.responses import choice_mass  # noqa: F401
