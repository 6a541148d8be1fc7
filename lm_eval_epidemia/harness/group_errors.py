"""The standard errors of groups in lm-eval's results, from joint replicates.

Where scores are cut off at the end of a scale, a group's mean uses the scores before the cut
(`Draws.uncut`) and replaces lm-eval's mean.

lm-eval pools the errors of a group's tasks as if they were independent, but ours share the samples
of their surveys. So while lm-eval aggregates answers, the draws of each score are recorded, and the
error of every group of our tasks is computed from them. The draws are stored in the results under
"epidemia", so that a report can do the same for any slice or difference; next to them are the
model's answers, if a benchmark keeps them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from unittest import mock

from lm_eval_epidemia.benchmarks import list_leaves
from lm_eval_epidemia.benchmarks.observation.metrics import Unseen, bound_unseen
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.harness.hooks import MeasuredHook
from lm_eval_epidemia.score.joint import Draws, joint_error

#: The key of the draws in lm-eval's results.
KEY = "epidemia"

_SAYS = (
    "joint replicates: tasks of one survey share its sample, so a group's standard error is the "
    "spread of its mean over replicates of the survey, not pooled from the errors of tasks; "
    "questions about causal graphs share the sample of names in their wordings"
)


_Draws = dict[str, dict[str, Draws | None]]


class Noted(NamedTuple):
    """What is recorded while lm-eval aggregates the answers of a run.

    Attributes
    ----------
    draws : dict
        By task (lm-eval's name) and metric; None if they are not known.
    kept : dict of str to str
        By task, the answers.
    unseen : dict of str to Unseen
        By task, how much letters that a server did not show may change its score.
    answered : dict of str to float
        By task, the share of prompts that a server answered, if it declined any in the run.
    """

    draws: _Draws
    kept: dict[str, str]
    unseen: dict[str, Unseen]
    answered: dict[str, float]


def record_answers(task: Any, task_name: str, noted: Noted) -> AbstractContextManager[Any]:
    """Record what is measured of a task when lm-eval aggregates its answers.

    Parameters
    ----------
    task : lm_eval.api.task.Task
    task_name : str
        As lm-eval names it.
    noted : Noted
        Filled in here.
    """
    noted.draws[task_name], aggregation, is_noted = {}, task.aggregation, False

    def noticed(of: Callable[..., Any]) -> Callable[..., Any]:
        if not isinstance(of, MeasuredHook):
            return of

        @functools.wraps(of)
        def aggregate(answers: Sequence[Any]) -> Any:
            nonlocal is_noted
            if not is_noted:  # a later lm-eval resamples the answers for errors of its own
                is_noted, measured = True, of.measure(answers)
                noted.draws[task_name] |= measured.draws
                if measured.kept:
                    noted.kept[task_name] = measured.kept
                if measured.draws and (effect := bound_unseen(answers)):
                    noted.unseen[task_name] = effect
            return of(answers)

        return aggregate

    own = {name: noticed(of) for name, of in aggregation().items()}
    return mock.patch.object(task, "aggregation", lambda: own)


def write_errors(results: Any, noted: Noted, tasks: Any) -> None:
    """Write draws and errors into the results of a run; a failure is only a warning.

    Parameters
    ----------
    results : dict or None
        As ``lm_eval.evaluator.evaluate`` returns them; None except on the first process.
    noted : Noted
    tasks : dict
        The tasks and groups of the run, as ``evaluate`` takes them.
    """
    _write_beside(results, noted)
    draws = {task: known for task, known in noted.draws.items() if known}
    if not noted.draws or not isinstance(results, dict):
        return
    try:
        _write_task_errors(results, draws)
        for group in _groups(tasks):
            _write_means(results, draws, frozenset(noted.draws), group)
            _write_answered(results, noted, group)
        if not (draws or noted.kept):
            return
        results[KEY] = {"group_stderr": _SAYS, "replicates": _format_draws(draws)}
        if noted.kept:
            results[KEY]["said"] = noted.kept
    except Exception as error:
        _deny_errors(results, draws)
        notices.warn(
            "errors of groups",
            f"groups have no standard errors in this lm-eval ({type(error).__name__}: {error})",
        )


def _deny_errors(results: dict[str, Any], draws: _Draws) -> None:
    """Write no error into the rows of groups with our tasks: lm-eval's would be too small."""
    of, ours = results.get("group_subtasks", {}), {*draws}
    while more := {group for group in of if group not in ours and ours & {*of[group]}}:
        ours |= more
    for table in (results["results"], results.get("groups", {})):
        for group in ours & {*table} - {*draws}:
            for metric in {metric for known in draws.values() for metric in known}:
                table[group][f"{metric}_stderr,none"] = "N/A"


def _write_task_errors(results: dict[str, Any], draws: _Draws) -> None:
    """Write errors of our tasks that are not known as lm-eval does."""
    for task, known in draws.items():
        row = results["results"][task]
        for metric in known:
            key = f"{metric}_stderr,none"
            if isinstance(error := row.get(key), float):
                row[key] = _format_number(error)


def _format_number(value: float) -> float | str:
    """Write a number as lm-eval does one that is not known."""
    return "N/A" if math.isnan(value) else float(value)


def deny_mass(results: Any) -> None:
    """Write no `choice_mass` where the server does not tell it."""
    for table in ("results", "groups") if isinstance(results, dict) else ():
        for name, row in results.get(table, {}).items():
            if name.startswith("epidemia_") and "choice_mass,none" in row:
                row["choice_mass,none"] = "N/A"


def _write_beside(results: Any, noted: Noted) -> None:
    """Write beside a task's metrics what the server did not show, and what it did not answer."""
    rows = results.get("results", {}) if isinstance(results, dict) else {}
    for task, row in rows.items():
        if letters := noted.unseen.get(task):
            row["unseen_mass,none"] = letters.mass
            row["unseen_effect,none"] = _format_number(letters.effect)
        if task in noted.answered:
            row["answered,none"] = noted.answered[task]
            # lm-eval writes no metric of a task without answers.
            if not noted.answered[task] and "score" in list_leaves()[task].metrics:
                row |= {"score,none": math.nan, "seen,none": 0.0}


def _groups(tasks: Any) -> list[Any]:
    """Return the groups of a run, in either layout that lm-eval knows.

    Parameters
    ----------
    tasks : dict
        With the key "groups", or by name or group tasks and such dicts.
    """
    groups = []
    for pair in tasks.items() if isinstance(tasks, Mapping) else ():
        groups += [entry for entry in pair if hasattr(entry, "aggregate_metric_list")]
        groups += _groups(pair[1])
    return groups


def _write_means(results: dict[str, Any], draws: _Draws, ours: frozenset[str], group: Any) -> None:
    """Write the means of a group and their errors into its rows.

    A task without a value (NaN) is left out, where lm-eval's mean would be NaN too. Where not all
    of a group's tasks are ours, nobody knows the error: lm-eval's would count ours as independent.
    """
    of_tasks = results["results"]
    members = [task.task_name for task in group.get_all_tasks()]
    for mean in group.aggregate_metric_list or ():
        metric, key = mean.metric, f"{mean.metric},none"
        # As lm-eval averages: over all tasks below the group that have the metric.
        asked = [name for name in members if key in of_tasks.get(name, {})]
        names = [name for name in asked if not math.isnan(of_tasks[name][key])]
        sizes = [of_tasks[name]["sample_len"] if mean.weight_by_size else 1 for name in names]
        if not names or not ours.issuperset(asked):
            if any(metric in draws.get(name, {}) for name in asked):
                _write_numbers(results, group, {f"{metric}_stderr,none": "N/A"})
            continue
        drawn = [draws.get(name, {}).get(metric) for name in names]
        weights = [size / sum(sizes) for size in sizes]
        uncut = [each.uncut for each in drawn if each is not None and each.uncut is not None]
        is_uncut = len(uncut) == len(names)
        values = uncut if is_uncut else [of_tasks[name][key] for name in names]
        if is_uncut or len(names) < len(asked):
            ends = list_leaves()[names[0]].metrics[metric]
            value = math.fsum(w * x for w, x in zip(weights, values, strict=True))
            _write_numbers(results, group, {key: min(max(value, ends.low), ends.high)})
        if any(metric in draws.get(name, {}) for name in names):
            error = _format_number(joint_error(drawn, weights))
            _write_numbers(results, group, {f"{metric}_stderr,none": error})
            if len(names) < len(asked):
                notices.warn(
                    "tasks without a score",
                    f"the score of {group.name} is the mean of {len(names)} of {len(asked)} tasks",
                )


def _write_answered(results: dict[str, Any], noted: Noted, group: Any) -> None:
    """Write the mean share of answered prompts into the rows of a group with declined ones."""
    names = [task.task_name for task in group.get_all_tasks()]
    shares = [noted.answered[name] for name in names if name in noted.answered]
    for table in (results["results"], results.get("groups", {})) if shares else ():
        if group.name in table:
            table[group.name]["answered,none"] = math.fsum(shares) / len(shares)


def _write_numbers(results: dict[str, Any], group: Any, numbers: Mapping[str, Any]) -> None:
    """Write numbers into the rows that the results have of a group, in one table or two."""
    for table in (results["results"], results.get("groups", {})):
        row = table.get(group.name, {})
        row |= {key: number for key, number in numbers.items() if key in row}


def _format_draws(draws: _Draws) -> dict[str, Any]:
    """Write draws as the results file has them; a task without any is left out."""
    written = {}
    for task, of_metrics in draws.items():
        known = {metric: drawn for metric, drawn in of_metrics.items() if drawn is not None}
        if known:
            less_bias = {metric: drawn.less_bias for metric, drawn in known.items()}
            written[task] = {
                "sample": next(iter(known.values())).sample,
                **{metric: _format_line(drawn.at) for metric, drawn in known.items()},
                "less_bias": {m: _format_line(at) for m, at in less_bias.items() if at is not None},
                "asking": {metric: drawn.asking for metric, drawn in known.items()},
                "uncut": {m: drawn.uncut for m, drawn in known.items() if drawn.uncut is not None},
            }
    return written


def _format_line(at: Array) -> str:
    """Write numbers in one line: lm-eval indents its file, a list would take a line for each.

    With six decimals an error made of them is right to 1e-7. Four are 7 % less of a file, and 1e-5.
    """
    return " ".join(f"{number:.6f}" for number in at)
