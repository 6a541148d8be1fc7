"""The old name of `benchmarks.observation.sampled`, for task files that version 0.1.0 wrote."""

from typing import Any

from lm_eval_epidemia.benchmarks.observation import sampled
from lm_eval_epidemia.elicit.responses import answered

__all__ = ["answered"]


def __getattr__(name: str) -> Any:
    return getattr(sampled, name)
