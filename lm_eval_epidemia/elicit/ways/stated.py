"""The old name of `benchmarks.observation.stated`, for task files that version 0.1.0 wrote."""

from typing import Any

from lm_eval_epidemia.benchmarks.observation import stated


def __getattr__(name: str) -> Any:
    return getattr(stated, name)
