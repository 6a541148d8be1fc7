"""The standard errors of groups in lm-eval's results, from joint replicates.

lm-eval pools the errors of a group's tasks as if these were independent. Ours share the samples of
their surveys: while lm-eval aggregates their answers, the draws of their scores are noted, and
afterwards the error of every group that consists of our tasks is worked out from them. The draws
themselves stand in the results under "epidemia", so that a report can do the same for any slice or
difference; beside them stands what was said, where a benchmark keeps that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS
from lm_eval_epidemia.benchmarks.observation.unseen import Unseen, unseen
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.way import Metric
from lm_eval_epidemia.harness.hooks import Hook
from lm_eval_epidemia.score.joint import Draws, joint_error

#: Where the draws stand in lm-eval's results.
KEY = "epidemia"

_SAYS = (
    "joint replicates: tasks of one survey share its sample, so the standard error of a group is "
    "the spread of its mean over replicates of the survey, not pooled from errors of tasks; "
    "questions about causal graphs share the sample of names they are asked with"
)


_Draws = dict[str, dict[str, Draws | None]]


class Noted(NamedTuple):
    """What is noted while lm-eval aggregates the answers of a run.

    Attributes
    ----------
    draws : dict
        By task, as lm-eval names it, and metric; None where they are not known.
    kept : dict of str to str
        By task, what was said.
    unseen : dict of str to Unseen
        By task, what letters that a server did not show may do to its score.
    """

    draws: _Draws
    kept: dict[str, str]
    unseen: dict[str, Unseen]


@functools.lru_cache(maxsize=1)
def _metrics() -> Mapping[Callable[..., float], Metric]:
    """Return the metrics of which more is noted than their value, by the function that gives it."""
    metrics = (
        metric
        for benchmark in BENCHMARKS
        for way in benchmark.ways.values()
        for metric in benchmark.metrics(way).values()
    )
    return {metric.of: metric for metric in metrics if metric.draws or metric.kept}


@contextmanager
def noting(task: Any, task_name: str, noted: Noted) -> Iterator[None]:
    """Note the draws of a task's metrics when lm-eval aggregates its answers.

    Parameters
    ----------
    task : lm_eval.api.task.Task
    task_name : str
        As lm-eval names it.
    noted : Noted
        Is filled.
    """
    draws = noted.draws.setdefault(task_name, {})
    aggregation, before = task.aggregation, vars(task).get("aggregation")

    def noticed(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
        # A task file of 0.1.0 names the function itself.
        metric = _metrics().get(of.function if isinstance(of, Hook) else of)
        if metric is None:
            return of

        @functools.wraps(of)
        def aggregate(answers: Sequence[Any]) -> Any:
            if name not in draws:  # a later lm-eval resamples the answers for errors of its own
                draws[name] = metric.draws(answers) if metric.draws else None
                if metric.kept:
                    noted.kept[task_name] = metric.kept(answers)
                if task_name not in noted.unseen and (found := unseen(answers)):
                    noted.unseen[task_name] = found
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
    noted : Noted
    tasks : dict
        The tasks and groups of the run, as ``evaluate`` takes them.
    """
    _write_unseen(results, noted.unseen)
    draws = {task: known for task, known in noted.draws.items() if known}
    if not noted.draws or not isinstance(results, dict):
        return
    try:
        _write_partial(results, frozenset(noted.draws), tasks)
        if not draws:
            return
        _plain(results, draws)
        for group in _groups(tasks):
            _write_errors(results, draws, group)
        results[KEY] = {"group_stderr": _SAYS, "replicates": _written(draws)}
        if noted.kept:
            results[KEY]["said"] = noted.kept
    except Exception as error:
        notices.warn(
            "errors of groups",
            "the standard errors of groups cannot be worked out in this lm-eval's results "
            f"({type(error).__name__}: {error}); those of tasks are right",
        )


def _plain(results: dict[str, Any], draws: _Draws) -> None:
    """Write the errors of our tasks as plain numbers, or as lm-eval does what is not known."""
    for task, known in draws.items():
        row = results["results"][task]
        for metric in known:
            key = f"{metric}_stderr,none"
            if isinstance(error := row.get(key), float):
                row[key] = "N/A" if math.isnan(error) else float(error)


def _write_unseen(results: Any, found: Mapping[str, Unseen]) -> None:
    """Write beside a task's metrics what letters that were not shown may do to its score."""
    rows = results.get("results", {}) if isinstance(results, dict) else {}
    for task, one in found.items():
        if task in rows:
            rows[task]["unseen_mass,none"] = one.mass
            rows[task]["unseen_effect,none"] = "N/A" if math.isnan(one.effect) else one.effect


def _write_partial(results: dict[str, Any], ours: frozenset[str], tasks: Any) -> None:
    """Average what some tasks have none of over the others, where lm-eval's mean is NaN."""
    names = {
        name
        for benchmark in BENCHMARKS
        for way in benchmark.ways
        for name, metric in benchmark.metrics(WAYS[way]).items()
        if metric.partial
    }
    for group in _groups(tasks):
        members = [task.task_name for task in group.get_all_tasks()]
        rows = [
            of[group.name]
            for of in (results["results"], results.get("groups", {}))
            if group.name in of
        ]
        for key in (f"{name},none" for name in names if ours.issuperset(members)):
            found = [results["results"].get(member, {}).get(key, math.nan) for member in members]
            known = [value for value in found if not math.isnan(value)]
            for row in rows:
                if known and key in row:
                    row[key] = math.fsum(known) / len(known)


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


def _write_errors(results: dict[str, Any], draws: _Draws, group: Any) -> None:
    """Write the errors of a group into its rows.

    Where not all of its tasks are ours, nobody knows the error: lm-eval's would count ours as
    independent.
    """
    rows = [
        of[group.name] for of in (results["results"], results.get("groups", {})) if group.name in of
    ]
    for said in group.aggregate_metric_list or ():
        metric = said.metric
        value, error = f"{metric},none", f"{metric}_stderr,none"
        # As lm-eval averages: over all tasks below the group that have the metric.
        names = [
            task.task_name
            for task in group.get_all_tasks()
            if value in results["results"].get(task.task_name, {})
        ]
        ours = [name for name in names if metric in draws.get(name, {})]
        if not ours:
            continue
        found = math.nan
        if ours == names:
            sizes = [
                results["results"][name]["sample_len"] if said.weight_by_size else 1
                for name in names
            ]
            weights = [size / sum(sizes) for size in sizes]
            found = joint_error([draws[name][metric] for name in names], weights)
        for row in rows:
            row[error] = "N/A" if math.isnan(found) else found


def _written(draws: _Draws) -> dict[str, Any]:
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
        for task, all_of in draws.items()
        if (known := {metric: one for metric, one in all_of.items() if one is not None})
    }


def _line(at: Array) -> str:
    """Write numbers in one line: lm-eval indents its file, a list would take a line for each."""
    return " ".join(f"{number:.4f}" for number in at)
