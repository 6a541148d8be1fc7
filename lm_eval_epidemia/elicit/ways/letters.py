"""The old name of `benchmarks.observation.letters`, for task files that version 0.1.0 wrote."""

from typing import Any

from lm_eval_epidemia.benchmarks.observation import letters
from lm_eval_epidemia.elicit.responses import choice_mass

__all__ = ["choice_mass"]


def __getattr__(name: str) -> Any:
    return getattr(letters, name)
