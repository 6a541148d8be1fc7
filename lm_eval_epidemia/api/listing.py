"""List tasks (`tasks`) and their prompts (`questions`)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lm_eval_epidemia.api.truths import Truth, members_of_groups, task_name
from lm_eval_epidemia.ask.variants import BASE, Variant
from lm_eval_epidemia.ask.way import list_changed_keys
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, in_way, list_leaves
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.registry import entry_of
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record
from lm_eval_epidemia.surveys.record import Task


def tasks(survey: str | None = None, group: str | None = None) -> pd.DataFrame:
    """Return every declared task, even without a truth here.

    Parameters
    ----------
    survey : str, optional
        Only this survey, for example ``"nsduh"``.
    group : str, optional
        Only this group: ``"epidemia_low"``, of one survey (``"epidemia_low_nsduh"``), or in one way
        of asking (``"epidemia_high_closed"``).

    Returns
    -------
    DataFrame
        ``task``, ``group``, ``survey``, ``title``, ``outcome``, ``conditions`` (``"age, sex"``),
        ``stands_for`` (the published task for which it stands in, else empty), ``levels`` (number
        of answers), ``cells`` (missing if a task waits for a file), ``state`` (``"shipped"``,
        ``"built here"`` or ``"waiting"``), ``vintage`` (empty if it waits) and ``needs`` (the files
        that it waits for, else empty).

    Raises
    ------
    EpidemiaError
        If there is no such survey or group (with the nearest names).

    Examples
    --------
    >>> from lm_eval_epidemia.api import tasks
    >>> nsduh = tasks(survey="nsduh", group="epidemia_low")
    >>> nsduh.loc[nsduh.outcome == "cocaine_ever", ["conditions", "levels", "cells", "state"]]
      conditions  levels  cells    state
    3        age       2     11  shipped
    8       race       2      4  shipped
    >>> tasks(survey="nsdhu")
    Traceback (most recent call last):
    lm_eval_epidemia.core.errors.EpidemiaError: no survey 'nsdhu' (nearest: nsduh)
    """
    look_at_disk()
    declared, places = all_tasks().values(), store.list_available()
    published = {task.number: task.name for task in declared if task.kind == "high"}
    of_task = ("name", "group", "survey", "title", "outcome")
    listed = pd.DataFrame(
        {
            **{name: getattr(task, name) for name in of_task},
            "conditions": ", ".join(task.given),
            "stands_for": published.get(task.stands_for, ""),
            **(_read_entry(task, places[task.name]) if task.name in places else _waiting(task)),
        }
        for task in declared
    )
    listed = listed.astype({"cells": "Int64"}).rename(columns={"name": "task"})
    if survey is not None:
        find_record(str(survey))
        listed = listed[listed.survey == survey]
    if group is not None:
        if str(group) not in (members := members_of_groups()):
            raise EpidemiaError(f"no group {group!r} ({suggest(group, members)})")
        listed = listed[listed.task.isin(members[group])]
        if listed.empty and not members[group] & {*all_tasks()}:
            raise EpidemiaError(
                f"{group} is not about surveys, and its tasks have no truths: see 'epidemia tasks "
                "list' for groups about surveys, docs/guides/interventional.md for this one"
            )
    return listed.reset_index(drop=True)


def _waiting(task: Task) -> dict[str, Any]:
    survey = find_record(task.survey)
    levels = len(survey.readings(task.outcome, survey.official)[0].levels)
    needs = survey.vintages[survey.official].needed
    return {"levels": levels, "cells": None, "state": "waiting", "vintage": "", "needs": needs}


def _read_entry(task: Task, place: store.Place) -> dict[str, Any]:
    _, entry = entry_of(place, task.name)
    cells = entry.get("cells") or len(store.load_truth(task.name).given)
    about = {"levels": len(entry["levels"]), "cells": cells, "state": place.state}
    return {**about, "vintage": place.vintage, "needs": ""}


#: What variants ask of lm-eval, outside the prompt.
_OUTSIDE = {
    "gen_prefix": "put after the prompt by lm-eval",
    "system_prompt": "put before the prompt by lm-eval",
    "tries": "how often lm-eval asks",
}


def questions(task: str | Truth, way: str | None = None, **variant: Any) -> pd.DataFrame:
    """Return the prompts of a task, as lm-eval would ask them.

    Parameters
    ----------
    task : str or Truth
        Name of a task with a truth here.
    way : str, optional
        Way of asking: ``"letters"`` (the default), ``"likelihood"``, ``"sampled"``, and for some
        tasks ``"closed"`` and ``"rag"``, see docs/reference/prompting.md; for tasks about causal
        graphs ``"intervention"`` (the default), ``"substitution"`` and so on, see
        docs/guides/interventional.md; for sets of quantities ``"direct"`` (the default),
        ``"direct_choice"``, ``"mean_variance"``, ``"quantile"`` and ``"grid"``.
    **variant
        Keys of ``--metadata``, for example ``orderings="balanced"`` or ``fewshot=3``. Refused are
        keys without effect (``n_samples`` with letters), ``gen_prefix`` and ``system_prompt``
        (which lm-eval puts after and before the prompt), and ``tries``.

    Returns
    -------
    DataFrame
        A row per prompt, in the order of asking: ``task``, ``way``, ``truth`` (fingerprint of the
        truth), ``cell`` (its number there), ``given`` (its conditions), ``choices`` (the letters),
        ``prompt``, and columns of the way: ``order`` (level numbers as displayed), ``design``,
        ``level``, ``sample``, ``n_samples``, ``family``, ``unit``.

    Raises
    ------
    EpidemiaError
        If there is no such task, way or variant (with the nearest names), if the task is not asked
        in that way, or if its truth is not here.

    Examples
    --------
    >>> from lm_eval_epidemia.api import questions
    >>> asked = questions("epidemia_low_nsduh_cocaine_ever_by_age")
    >>> len(asked)  # 11 ages, the two answers in both orders
    22
    >>> print(asked.prompt[14])  # doctest: +ELLIPSIS
    Consider a person aged 12 or older living in the United States in 2022 who is 30 to 34 years ...
    A. Yes
    B. No
    Answer:
    """
    look_at_disk()
    task = task_name(task)
    of = {name: benchmark for benchmark in BENCHMARKS.values() for name in benchmark.entries()}
    if task not in of:
        if leaf := list_leaves().get(task):
            raise EpidemiaError(
                f"{task}: name the task and the way, questions({leaf.entry.name!r}, "
                f"way={leaf.way!r})"
            )
        raise EpidemiaError(f"no task {task!r} ({suggest(task, of)})")
    benchmark = of[task]
    way = benchmark.plain.name if way is None else way
    if way not in WAYS:
        raise EpidemiaError(f"no way of asking {way!r} ({suggest(way, WAYS)})")
    declared = benchmark.entries()[task].declared
    asked = [name for name in benchmark.ways if WAYS[name].asks(declared)]
    if way not in asked:
        raise EpidemiaError(f"{task} is not asked in the way {way!r}, only {', '.join(asked)}")
    if unknown := [name for name in variant if name not in Variant._fields]:
        hint = suggest(unknown[0], Variant._fields)
        raise EpidemiaError(f"questions has no variant {unknown[0]!r} ({hint})")
    for name, what in _OUTSIDE.items():
        if variant.get(name, "") not in ("", BASE, 1):
            raise EpidemiaError(f"{name} is {what}, not part of the prompt: leave it out here")
    for name in list_changed_keys(variant):
        if not list_leaves()[in_way(task, way)].heeds(name):
            raise EpidemiaError(f"{name} has no effect on {task} in the way {way!r}: leave it out")
    rows = pd.DataFrame(split(task, way, Variant.of(variant)).to_dict())
    rows.insert(1, "way", way)
    return rows
