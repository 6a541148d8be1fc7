"""Checks of a run's arguments before its model is loaded, and of names that lm-eval lacks.

lm-eval silently ignores unknown keys of ``--metadata``, and ``--num_fewshot`` for tasks without
examples. For our tasks only, the wrapper of ``simple_evaluate`` refuses these. At this point the
user's metadata is still separate from the model's arguments, which lm-eval later mixes in.

lm-eval's index contains only the tasks whose truth is here. For other declared tasks and for
misspelt names it says only that they were not found: similar names and what a task needs are added.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from lm_eval_epidemia.ask.variants import Variant, unknown_keys
from lm_eval_epidemia.ask.way import list_changed_keys
from lm_eval_epidemia.benchmarks import (
    WAYS,
    describe_union,
    find_tasks,
    in_way,
    list_leaves,
    list_names,
    list_patterns,
)
from lm_eval_epidemia.benchmarks.observation import OBSERVATION, STANDIN
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.console import print_anything, split_names
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural, suggest
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.harness.answer_cache import ASKED, check_file, watch
from lm_eval_epidemia.harness.keys import mask_logs, refuse_keys
from lm_eval_epidemia.harness.server_facts import check_template
from lm_eval_epidemia.surveys.catalogue import how_to_build, records

#: Models of ours that may need a key.
BEHIND_SERVERS = ("choice-api", "choice-decide")

#: Groups for which a run logs how many tasks have a truth here.
COUNTED = ("epidemia_low", "epidemia_high")


def wrap_simple_evaluate(simple_evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``lm_eval.evaluator.simple_evaluate`` to refuse arguments that our tasks would ignore.

    Parameters
    ----------
    simple_evaluate : callable
    """

    @functools.wraps(simple_evaluate)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            given = inspect.signature(simple_evaluate).bind_partial(*args, **kwargs).arguments
        except TypeError:
            given = {}  # lm-eval reports better what is wrong with them
        model, model_args = given.get("model"), _parsed(given.get("model_args"))
        if model in BEHIND_SERVERS:
            refuse_keys(model, model_args)  # lm-eval logs them next
        tasks = given.get("tasks") or []
        tasks = tasks if isinstance(tasks, (list, tuple)) else [tasks]
        names = {_name(task): None for task in tasks}
        # A run without our tasks does not read our files, which may be damaged.
        ours = [name for name in names if name.startswith("epidemia_")]
        if ours:
            look_at_disk()
        refuse_missing(tasks, given.get("task_manager"))
        with ExitStack() as stack:
            if ours:
                alone = len(ours) == len(names)
                _check_part(given.get("limit"), given.get("samples"), ours, alone)
                stack.enter_context(mask_logs(model_args))
                _check_run(given, model_args, ours, alone)
                check_file(given.get("use_cache"))
                watch(given.get("evaluation_tracker"))
                _say_what_ships(ours)
            asked = {"--model": model, **model_args} if isinstance(model, str) else None
            stack.callback(ASKED.reset, ASKED.set(asked))
            return simple_evaluate(*args, **kwargs)

    return wrapper


def _check_part(limit: Any, samples: Any, names: Sequence[str], alone: bool) -> None:
    """Refuse a part of the questions that lm-eval would take for all of them, or stumble over."""
    number = limit if isinstance(limit, (int, float)) else math.nan
    if limit is not None and not (0 < number < 1 or (number >= 1 and float(number).is_integer())):
        raise EpidemiaError(
            f"--limit {limit}: expected a number of cells, such as 2, or a share such as 0.1"
        )
    try:
        asked = _leaves_of(names)
    except EpidemiaError:  # written out, or missing, which is said elsewhere
        asked = []
    for leaf in map(list_leaves().__getitem__, asked):
        if limit is not None and leaf.benchmark.predicts:
            cells = len(WAYS[leaf.way].load(leaf.entry.name).given)
            if number < cells:
                raise EpidemiaError(
                    f"--limit {limit}: {leaf.entry.name} predicts scores from all of its {cells} "
                    "cells: leave --limit out, or ask it in a run of its own without it"
                )
    if samples is None:
        return
    whole = isinstance(samples, Mapping) and samples
    for name, chosen in samples.items() if whole else [("", samples)]:
        numbers = chosen if whole and isinstance(chosen, list) else []
        if not numbers or any(type(each) is not int or each < 0 for each in numbers):
            raise EpidemiaError(
                f"--samples {json.dumps(chosen, default=str)}{name and f' for {name}'}: expected "
                "the numbers of some prompts of each task, as in '{\"TASK\": [0, 1, 2]}'"
            )
    if not asked:
        return
    ours = [name for name in samples if alone or name.startswith("epidemia_")]
    if others := [name for name in ours if name not in asked]:
        raise EpidemiaError(
            f"--samples has {few(others) or repr('')}, not in --tasks ({suggest(others[0], asked)})"
        )


def _name(task: Any) -> str:
    """Return the name of a requested task or group, which may be written out or loaded already."""
    with suppress(Exception):  # somebody's task may be anything
        if isinstance(task, Mapping):
            return str(task.get("task") or task.get("group"))
        return str(getattr(task, "task_name", None) or getattr(task, "name", None) or task)
    return ""


def _parsed(arguments: Any) -> Any:
    """Return the arguments of a model or of its writing, however they were given."""
    if isinstance(arguments, str):
        from lm_eval.utils import simple_parse_args_string

        return simple_parse_args_string(arguments)
    return arguments or {}


def _leaves_of(names: Iterable[str]) -> list[str]:
    """Return lm-eval's names of the tasks of groups; EpidemiaError if one is unknown."""
    return list(dict.fromkeys(in_way(*member) for name in names for member in find_tasks(name)))


def _say_what_ships(names: Iterable[str]) -> None:
    """Say how many tasks of the two groups that most people ask have a truth here."""
    available, counts, waiting = OBSERVATION.available(), [], Counter[str]()
    log = logging.getLogger("lm_eval.epidemia")  # lm-eval's own, which shows what is no warning
    for name in names:
        if says := describe_union(name):
            log.info("%s: %s", name, says)
        entries = [
            leaf.entry
            for leaf in list_leaves().values()
            if leaf.group == name and WAYS[leaf.way].asks(leaf.entry.declared)
        ]
        here = sum(entry.name in available for entry in entries)
        if here < len(entries) and entries[0].group in COUNTED:
            counts.append(f"{here} of the {plural(len(entries), 'task')} of {name}")
            waiting.update(e.facets["survey"] for e in entries if e.name not in available)
    if counts:
        log.info(
            "Only %s are run: the others need files ('epidemia tasks list'); %s needs none. %s",
            ", ".join(counts),
            STANDIN,
            "; ".join(f"{n} of {survey}: {how_to_build(survey)}" for survey, n in waiting.items()),
        )


def _check_run(
    given: Mapping[str, Any], model_args: Any, names: Sequence[str], alone: bool
) -> None:
    """Refuse what our tasks of these names would not heed.

    Where others are asked too, not `alone`, it may be meant for those: then it is a warning.
    """
    print_anything()  # lm-eval's tables have arrows
    if given.get("model") == "local-completions":
        # It may put a chat template around the plain text of our prompts.
        url, server = model_args.get("base_url"), model_args.get("server", "auto")
        check_template(str(url), str(server), model_args.get("verify_certificate", True))
    for fault in _faults(given, model_args, names):
        if alone:
            raise EpidemiaError(fault)
        notices.warn("ignored arguments", f"our tasks ignore this: {fault}")


def _faults(given: Mapping[str, Any], model_args: Any, names: Sequence[str]) -> Iterator[str]:
    """Say what is wrong with the arguments of a run of our tasks, which have these names."""
    metadata, manager = given.get("metadata") or {}, given.get("task_manager")
    read = metadata if manager is None else getattr(manager, "metadata", None) or {}
    Variant.of(metadata)  # before the model is loaded
    yield from find_unheeded(
        {key: value for key, value in {**read, **metadata}.items() if key not in model_args}, names
    )
    for key in Variant._fields:
        if key in metadata and metadata[key] != read.get(key):
            yield (
                f"metadata={{{key!r}: {metadata[key]!r}}}: simple_evaluate ignores it beside a "
                "task_manager; give it to task_manager(metadata=...) instead"
            )
    model = given.get("model")
    if (typed := metadata.get("typed")) and isinstance(model, str) and model != "choice-decide":
        yield (
            f"--metadata typed={typed} is for decision endpoints: --model {model} asks for letters "
            "(use --model choice-decide, or leave it out)"
        )
    written, counted = _parsed(given.get("gen_kwargs")), []
    with suppress(EpidemiaError):  # a task or group that is missing is refused elsewhere
        ways = {name: WAYS[list_leaves()[name].way] for name in _leaves_of(names)}
        counted = [name for name, way in ways.items() if "n_samples" in way.columns]
    for key in ("temperature", "do_sample"):
        if counted and written.get(key, 1) == 0:
            yield (
                f"--gen_kwargs {key}={written[key]} always gives one answer, but {few(counted)} "
                "counts how often each is written: leave it out"
            )
    if shots := given.get("num_fewshot"):
        yield (
            f"num_fewshot {shots} would be ignored: for solved examples from other surveys, give "
            f"--metadata '{{\"fewshot\": {shots}}}'"
        )


def find_unheeded(metadata: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    """Say which keys of a run's metadata are unknown or affect none of its tasks.

    Keys that affect only some of the tasks are a warning.

    Parameters
    ----------
    metadata : mapping
    names : iterable of str
        Of tasks, groups, surveys or patterns. Unknown ones are assumed to use every key.

    Yields
    ------
    str
        A sentence.
    """
    if unknown := unknown_keys(metadata):
        yield unknown
    known, by_some = list_leaves(), []
    try:
        tasks = _leaves_of(names)
    except EpidemiaError:
        return
    for key in list_changed_keys(metadata):
        idle = [name for name in tasks if not known[name].heeds(key)]
        groups = list(dict.fromkeys(leaf.group for leaf in known.values() if leaf.heeds(key)))
        if idle:
            fault = f"--metadata {key} does not change {few(idle)}; it applies to {few(groups)}"
            if len(idle) == len(tasks):
                yield fault
            else:
                by_some.append(fault)
    for fault in by_some:
        notices.warn("metadata without effect", fault)


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
    known = list_names()
    if name in records():
        return f"{name} is a survey, not a task or group ({suggest(name, known)})"
    is_tail = "_" in name and any(whole.endswith(f"_{name}") for whole in known)
    if not (is_tail or name.strip().casefold().startswith("epidemi")):
        return ""
    if pattern := list_patterns().get(name):
        return f"{name} is no group any more: ask for its tasks by the pattern '{pattern}'"
    try:
        find_tasks(name)
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
                f"{name}: in Python give the names that task_manager.match_tasks([...]) returns"
            )


def _todays(name: str) -> str:
    """Return the pattern for a group of 0.2, with a warning; any other name as it is."""
    if pattern := list_patterns().get(name):
        notices.warn(name, f"{name} is no group any more: its tasks run, as of '{pattern}'")
    return pattern or name


def wrap_process_tasks(process_tasks: Callable[..., Any]) -> Callable[..., Any]:
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
            config.tasks = [_todays(name) for name in split_names(names)]
        try:
            return process_tasks(*args, **kwargs)
        except ValueError as error:
            start, is_missing, names = str(error).partition(_NOT_FOUND)
            if is_missing and not start:
                with suppress(Exception):  # a damaged record of ours is not why lm-eval stops
                    said = filter(None, map(explanation, names.split(", ")))
                    error.args = ("\n".join([str(error), *said]),)
            raise

    return wrapper
