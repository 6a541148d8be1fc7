"""Explanations for tasks that lm-eval does not find: similar names, and what a task needs.

lm-eval's index contains only the tasks whose truth is here. For other declared tasks and for
misspelt names it says only that they were not found.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from lm_eval_epidemia.benchmarks import members, names
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.surveys.catalogue import records

#: The start of lm-eval's message; comma-separated names follow.
_NOT_FOUND = "Tasks not found: "


def explanation(name: str) -> str:
    """Say why lm-eval has no task or group of a name, if the name looks like ours.

    Parameters
    ----------
    name : str
        As the user wrote it; may be a pattern.

    Returns
    -------
    str
        What the task needs, or similar names; empty for other people's names.
    """
    known = names()
    if name in records():
        return f"{name} is a survey, not a task or group ({nearest(name, known)})"
    is_tail = "_" in name and any(whole.endswith(f"_{name}") for whole in known)
    if not (is_tail or name.strip().casefold().startswith("epidemi")):
        return ""
    try:
        members(name)
    except EpidemiaError as error:
        return str(error)
    return ""


def refuse_missing(tasks: Iterable[Any], manager: Any) -> None:
    """Refuse names of ours that the index lacks, before the run's model is loaded.

    Parameters
    ----------
    tasks : iterable
        As given to ``simple_evaluate``: names, files, configurations and tasks.
    manager : TaskManager, optional
        If none is given, lm-eval builds one with our tasks.
    """
    known = getattr(manager, "all_tasks", ())
    for name in tasks:
        # By its type alone: somebody's task may be anything.
        if not issubclass(type(name), str) or not name.startswith("epidemia_"):
            continue
        if name in known or name.endswith(".yaml"):
            continue
        if reason := explanation(name):
            raise EpidemiaError(reason)
        if any(sign in name for sign in "*?["):
            raise EpidemiaError(
                f"{name}: patterns work only on the command line; in Python give the names that "
                "task_manager.match_tasks([...]) returns"
            )


def _explanations(names: Iterable[str]) -> list[str]:
    with suppress(Exception):  # a damaged record of ours is not why lm-eval stops
        return list(filter(None, map(explanation, names)))
    return []


def complete(error: KeyError) -> None:
    """Add to lm-eval's message about a name that it cannot load what our task needs."""
    message = str(error.args[0])
    name = re.fullmatch(r"Spec '([^']+)' is not a registered [\w/ ]+", message)
    if name and (reason := explanation(name[1])):
        error.args = (f"{message}. {reason}",)


def explained(process_tasks: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap lm-eval's reading of ``--tasks``: ours may be given as ``A, B``, and what it says of
    those that are missing is completed.

    Parameters
    ----------
    process_tasks : callable
        A method of ``lm_eval.config.evaluate_config.EvaluatorConfig``.
    """

    @functools.wraps(process_tasks)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        config = args[0]
        names = [config.tasks] if isinstance(config.tasks, str) else config.tasks
        # lm-eval would look for a task whose name begins with the blank of "A, B".
        if any("epidemia_" in name for name in names):
            config.tasks = separated(names)
        try:
            return process_tasks(*args, **kwargs)
        except ValueError as error:
            start, is_missing, names = str(error).partition(_NOT_FOUND)
            if is_missing and not start:
                error.args = ("\n".join([str(error), *_explanations(names.split(", "))]),)
            raise

    return wrapper
