"""Other people's tasks in the same result files: one metric of each, and its column heading."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from lm_eval_epidemia.results.decode import read_number, to_printable, to_text

#: Metrics of other tasks: the first that a task has is shown. Where it has none of these, it is one
#: that is better when higher, else one that is better when lower, else any.
OTHER_METRICS = ("acc_norm", "acc", "exact_match", "f1")

#: What lm-eval writes of a task beside its metrics.
_NO_METRIC = ("name", "alias", "sample_len", "sample_count", " ")


class Other(NamedTuple):
    """A metric of another task, and how it was asked; different ways are never merged."""

    task: str
    metric: str
    filter: str
    shots: str
    version: str
    limit: str
    lower_is_better: bool


def others_in(file: Any, ours: Collection[str]) -> dict[Other, float]:
    """Return a metric of each other task and filter; groups replace their members.

    NaN where none is a finite number.

    Parameters
    ----------
    file : decode.ResultFile
    ours : collection of str
        Tasks that are left out.
    """
    groups = {name for name, listed in file.group_subtasks.items() if listed}
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name, row in file.results.items():
        metrics = metrics_in(row)
        # A group without metrics of its own is no task that lacks them.
        listed = bool(metrics) or name not in groups
        if listed and name not in ours and not name.startswith("epidemia_"):
            rows[name] = metrics or {"": {"no metric": math.nan}}
    # A group stands for its members where it has a number.
    members = {
        member
        for name in groups & rows.keys()
        if not all(math.isnan(x) for numbers in rows[name].values() for x in numbers.values())
        for member in file.group_subtasks[name]
    }
    values = {}
    for name in [name for name in rows if name not in members]:
        better = file.higher_is_better.get(name)
        higher = better if isinstance(better, dict) else {}
        asked = file.shots.get(name), file.versions.get(name), file.config.limit
        shots, version, limit = map(to_text, asked)
        for filtered, numbers in rows[name].items():
            known = [metric for metric in numbers if not math.isnan(numbers[metric])]
            metric = min(
                known or numbers, key=lambda metric: _preference(metric, higher.get(metric))
            )
            lower = higher.get(metric) is False
            other = Other(name, metric, filtered, shots, version, limit, lower)
            values[other] = numbers[metric]
    return values


def _preference(metric: str, higher_is_better: Any) -> int:
    """Sort key of a task's metrics: the smallest is shown."""
    if metric in OTHER_METRICS:
        return OTHER_METRICS.index(metric)
    unnamed = 0 if higher_is_better is True else 1 if higher_is_better is False else 2
    return len(OTHER_METRICS) + unnamed


def metrics_in(row: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the metrics of a task by filter; NaN for anything but finite numbers."""
    metrics: dict[str, dict[str, float]] = defaultdict(dict)
    for key, value in row.items():
        # "acc,none" since lm-eval 0.4, "acc" before.
        metric, _, filtered = key.partition(",")
        if key not in _NO_METRIC and "stderr" not in metric:
            number = read_number(value)
            finite = number if math.isfinite(number) else math.nan
            metrics["" if filtered == "none" else filtered][metric] = finite
    return metrics


def labels_of(others: Collection[Other]) -> dict[Other, str]:
    """Name columns; add number of examples and version only if a task was run with several."""
    shots, versions = defaultdict(set), defaultdict(set)
    for other in others:
        shots[other.task].add(other.shots)
        versions[other.task].add(other.version)
    labels = {}
    for other in others:
        parts = (
            other.metric,
            other.filter,
            other.shots and (f"{other.shots}-shot" if len(shots[other.task]) > 1 else ""),
            other.version and (f"version {other.version}" if len(versions[other.task]) > 1 else ""),
            other.limit and f"limit {other.limit}",
            "lower is better" if other.lower_is_better else "",
        )
        labels[other] = to_printable(f"{other.task} ({', '.join(filter(None, parts))})")
    return labels
