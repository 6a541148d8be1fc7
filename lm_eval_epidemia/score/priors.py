"""The old name of `benchmarks.prior.metrics`, for task files that version 0.1.0 wrote."""

from typing import Any

from lm_eval_epidemia.benchmarks.prior import metrics


def __getattr__(name: str) -> Any:
    return getattr(metrics, name)
