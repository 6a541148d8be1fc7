"""The standard errors of groups in lm-eval's results, from joint replicates.

lm-eval pools the errors of a group's tasks as if these were independent. Ours share the samples of
their surveys: while lm-eval aggregates their answers, the draws of their scores are noted, and
afterwards the error of every group that consists of our tasks is worked out from them. The draws
themselves stand in the results under "epidemia", so that a report can do the same for any slice or
difference.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval_epidemia import notices
from lm_eval_epidemia.benchmarks import BENCHMARKS
from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.elicit.ways import WAYS
from lm_eval_epidemia.score.joint import Draws, joint_error

__all__ = ["KEY", "Noted", "noting", "write"]

#: Where the draws stand in lm-eval's results.
KEY = "epidemia"

_SAYS = (
    "joint replicates: tasks of one survey share its sample, so the standard error of a group is "
    "the spread of its mean over replicates of the survey, not pooled from errors of tasks"
)

#: Draws by task, as lm-eval names it, and metric; None where they are not known.
Noted = dict[str, dict[str, Draws | None]]


@functools.lru_cache(maxsize=1)
def _draws_of() -> Mapping[Callable[..., float], Callable[[Sequence[Any]], Draws | None]]:
    """Return what gives the draws of a metric, by the function that gives its value."""
    metrics = (
        metric
        for benchmark in BENCHMARKS
        for way in benchmark.ways
        for metric in benchmark.metrics(WAYS[way]).values()
    )
    return {metric.of: metric.draws for metric in metrics if metric.draws}


@contextmanager
def noting(task: Any, noted: dict[str, Draws | None]) -> Iterator[None]:
    """Note the draws of a task's metrics when lm-eval aggregates its answers.

    Parameters
    ----------
    task : lm_eval.api.task.Task
    noted : dict
        Is filled, by metric.
    """
    aggregation, before = task.aggregation, vars(task).get("aggregation")

    def noticed(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
        draws_of = _draws_of().get(of)
        if draws_of is None:
            return of

        @functools.wraps(of)
        def aggregate(answers: Sequence[Any]) -> Any:
            if name not in noted:  # a later lm-eval resamples the answers for errors of its own
                noted[name] = draws_of(answers)
            return of(answers)

        return aggregate

    task.aggregation = lambda: {name: noticed(name, of) for name, of in aggregation().items()}
    try:
        yield
    finally:
        del task.aggregation
        if before is not None:  # a run within a run
            task.aggregation = before


def write(results: Any, noted: Noted, tasks: Any) -> None:
    """Write draws and errors into the results of a run; what goes wrong is a warning.

    Parameters
    ----------
    results : dict or None
        As ``lm_eval.evaluator.evaluate`` returns them: nothing but on the first process.
    noted : dict
    tasks : dict
        The tasks and groups of the run, as ``evaluate`` takes them.
    """
    noted = {task: draws for task, draws in noted.items() if draws}
    if not noted or not isinstance(results, dict):
        return
    try:
        _plain(results, noted)
        for group in _groups(tasks):
            _write_errors(results, noted, group)
        results[KEY] = {"group_stderr": _SAYS, "replicates": _written(noted)}
    except Exception as error:
        notices.warn(
            "errors of groups",
            "the standard errors of groups cannot be worked out in this lm-eval's results "
            f"({type(error).__name__}: {error}); those of tasks are right",
        )


def _plain(results: dict[str, Any], noted: Noted) -> None:
    """Write the errors of our tasks as plain numbers, or as lm-eval does what is not known."""
    for task, draws in noted.items():
        row = results["results"][task]
        for metric in draws:
            key = f"{metric}_stderr,none"
            if isinstance(error := row.get(key), float):
                row[key] = "N/A" if math.isnan(error) else float(error)


def _groups(tasks: Any) -> list[Any]:
    """Return the groups of a run, in either layout that lm-eval knows.

    Parameters
    ----------
    tasks : dict
        With the key "groups", or by name or group tasks and such dicts.
    """
    found = []
    for key, value in tasks.items() if isinstance(tasks, Mapping) else ():
        found += [one for one in (key, value) if hasattr(one, "aggregate_metric_list")]
        found += _groups(value)
    return found


def _write_errors(results: dict[str, Any], noted: Noted, group: Any) -> None:
    """Write the errors of a group into its rows.

    Where not all of its tasks are ours, nobody knows the error: lm-eval's would count ours as
    independent.
    """
    rows = [of[group.name] for of in (results["results"], results.get("groups", {}))
            if group.name in of]  # fmt: skip
    for said in group.aggregate_metric_list or ():
        metric = said.metric
        value, error = f"{metric},none", f"{metric}_stderr,none"
        # As lm-eval averages: over all tasks below the group that have the metric.
        names = [task.task_name for task in group.get_all_tasks()
                 if value in results["results"].get(task.task_name, {})]  # fmt: skip
        ours = [name for name in names if metric in noted.get(name, {})]
        if not ours:
            continue
        found = math.nan
        if ours == names:
            sizes = [results["results"][name]["sample_len"] if said.weight_by_size else 1
                     for name in names]  # fmt: skip
            weights = [size / sum(sizes) for size in sizes]
            found = joint_error([noted[name][metric] for name in names], weights)
        for row in rows:
            row[error] = "N/A" if math.isnan(found) else found


def _written(noted: Noted) -> dict[str, Any]:
    """Write draws as the results file has them; a task without any is left out."""
    return {
        task: {
            "sample": next(iter(known.values())).sample,
            **{metric: _line(one.at) for metric, one in known.items()},
            "less_bias": {
                metric: _line(one.less_bias)
                for metric, one in known.items()
                if one.less_bias is not None
            },
            "asking": {metric: one.asking for metric, one in known.items()},
        }
        for task, draws in noted.items()
        if (known := {metric: one for metric, one in draws.items() if one is not None})
    }


def _line(at: Array) -> str:
    """Write numbers in one line: lm-eval indents its file, a list would take a line for each."""
    return " ".join(f"{number:.4f}" for number in at)
