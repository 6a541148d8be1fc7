"""Compare two models over our tasks, and over the documents of any other common task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.core.errors import EpidemiaError, Option, OptionError, few, plural
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings.comparison import AND, Comparison, compare_entries
from lm_eval_epidemia.old.findings.documents import OverDocuments, compare_documents
from lm_eval_epidemia.old.findings.leaderboard import (
    changed_in,
    columns,
    informative,
    said_changed,
    together,
)
from lm_eval_epidemia.old.findings.means import (
    LOW_MASS,
    answers,
    shared_tasks,
    too_low,
)
from lm_eval_epidemia.old.findings.pool import Pool, noise_of
from lm_eval_epidemia.old.findings.sides import NONE, Side, find_side, runs_named
from lm_eval_epidemia.results.documents import Answered, answered_in
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.models import chosen, fields, models_of
from lm_eval_epidemia.results.naming import with_settings
from lm_eval_epidemia.results.protocol import Protocol
from lm_eval_epidemia.results.results import Results, read_results


class TwoModels(NamedTuple):
    """The comparison of two models over everything in common.

    Attributes
    ----------
    one, other : Side
    comparisons : list of Comparison
        Over our tasks, combined groups first.
    asked_as : dict of str to str
        How the tasks of each group were asked; empty for defaults.
    documents : list of OverDocuments
        Over other people's tasks.
    notes : list of str
        What is not compared, and why.
    """

    one: Side
    other: Side
    comparisons: list[Comparison]
    asked_as: dict[str, str]
    documents: list[OverDocuments]
    notes: list[str]

    @property
    def called(self) -> tuple[str, str]:
        """Names of the two in sentences, with settings only if nothing else differs."""
        (one, mine), (other, theirs) = map(_taken_apart, (self.one.name, self.other.name))
        if one != other:
            return one, other
        return (
            with_settings(one, (setting for setting in mine if setting not in theirs)),
            with_settings(other, (setting for setting in theirs if setting not in mine)),
        )

    @property
    def unlike(self) -> dict[str, tuple[str, str]]:
        """Settings in which the two were run differently, with both values.

        Versions and truths are not among them: tasks that differ in these are not compared.
        """
        one, other = self.one.settings, self.other.settings
        keys = [key for key in {**one, **other} if key not in ("task_version", "truth")]
        values = {key: (one.get(key, NONE), other.get(key, NONE)) for key in keys}
        return {key: both for key, both in values.items() if both[0] != both[1]}


def _taken_apart(name: str) -> tuple[str, list[str]]:
    """Return a name and its settings: "m (kind=noisy, noise=1)"."""
    parts = re.fullmatch(r"(.+?) \((.+)\)", name)
    return (parts[1], re.split("[,;] ", parts[2])) if parts else (name, [])


def compare_models(
    one: str,
    other: str,
    folders: Iterable[Path],
    where: Mapping[str, str] | None = None,
    cluster: str | None = None,
    only_informative: bool = False,
) -> TwoModels:
    """Compare two models over everything that both were asked in the same way.

    Parameters
    ----------
    one, other : str
        Names of models or their runs, as in a report of these folders or as given to lm-eval.
    folders : iterable of Path
        As for `read_results`.
    where : mapping of str to str, optional
        Settings of runs, as for `models.chosen`.
    cluster : str, optional
        As for `compare_documents`.
    only_informative : bool
        Whether to leave out barely informative tasks.

    Raises
    ------
    EpidemiaError
        If a name matches no model, or a model with several runs; if nothing can be compared.
    """
    folders = tuple(folders)
    answered = answered_in(folders)
    results = _ours(folders, answered)
    if only_informative and results.entries:
        results = informative(results)
    entries = [entry for entry in results.entries if entry.scores]
    runs = _runs(entries)
    named = [runs_named(name, runs, answered) for name in (one, other)]
    if where:
        before = named
        kept = chosen([*entries, *(run.entry for run in answered)], where)
        runs = _runs(entry for entry in entries if any(entry is of for of in kept))
        answered = [run for run in answered if any(run.entry is of for of in kept)]
        named = [runs_named(name, runs, answered) for name in (one, other)]
        for name, had, has in zip((one, other), before, named, strict=True):
            if had and not has:
                raise _without_runs(name, had, where)
    # Whom a name asks for may be in a file that cannot be read.
    missing = results.unread if not all(named) else ()
    unread = [f"{path} could not be read: {reason}" for path, reason in missing]
    try:
        first = find_side(one, runs, answered, named[1])
        second = find_side(other, runs, answered, named[0])
    except OptionError as error:
        raise OptionError(*error.parts, *(f"\n{line}" for line in unread)) from None
    if first.name == second.name:
        raise EpidemiaError(
            f"{one!r} and {other!r} are the same model: give two models, or two runs of one"
        )
    is_one_model = named[0][0].weights == named[1][0].weights
    if is_one_model:  # the same samples are no comparison
        first, second = _apart(first, second)
    sides = [side.run for side in (first, second) if side.run]
    predictions = _predictions(first, second)
    comparisons, asked_as, of_ours = _over_ours(first.run, second.run, runs)
    documents, of_others = compare_documents(first.answered, second.answered, cluster)
    doubted = said_changed(sides, changed_in(sides, {}))
    notes = [*doubted, *results.notes, *of_ours, *of_others, *_not_shared(first, second)]
    if predictions and (comparisons or documents):
        notes.append(predictions)
    if not is_one_model:
        notes += filter(None, (first.note, second.note))
    if not comparisons and not documents:
        mute = any(not answers(run, group) for run in sides for group in columns([run]))
        why = f"{first.name} and {second.name} cannot be compared"
        raise EpidemiaError(
            "\n".join([predictions or (why if mute else _nothing_alike(first, second)), *notes])
        )
    return TwoModels(first, second, comparisons, asked_as, documents, notes)


def _predictions(one: Side, other: Side) -> str:
    """Say how to compare what both models' predictions predict; empty without predictions."""
    shared = set(one.run.scores if one.run else ()) & set(other.run.scores if other.run else ())
    predicting = [asked for asked in shared if leaf(asked).benchmark.predicted]
    if not predicting:
        return ""
    names = ", ".join(sorted({leaf(asked).group for asked in predicting}))
    predicted = ",".join(sorted({leaf(a).entry.declared.group for a in predicting}, reverse=True))
    return (
        f"{names} of {one.name} and {other.name} only predicts scores, so it is not compared: run "
        f"{predicted} with both"
    )


def _nothing_alike(one: Side, other: Side) -> str:
    if one.asked & other.asked:
        return (
            f"{one.name} and {other.name} were asked no task in the same way: run both with the "
            "same settings, and tasks of others with --log_samples"
        )
    return (
        f"{one.name} and {other.name} share no task: run both on the same tasks, and tasks of "
        "others with --log_samples"
    )


def _runs(entries: Iterable[Entry]) -> list[Entry]:
    return [run for model in models_of(entries) for run in model.runs]


def _apart(one: Side, other: Side) -> tuple[Side, Side]:
    """Remove other people's tasks that two runs of a model share."""
    both = {task for task, of in one.answered.items() if other.answered.get(task) is of}
    first, second = (
        side._replace(answered={task: of for task, of in side.answered.items() if task not in both})
        for side in (one, other)
    )
    return first, second


def _without_runs(name: str, runs: Sequence[Entry], where: Mapping[str, str]) -> OptionError:
    """Say that conditions leave no run of a model, and list the settings of its runs."""
    has = [f"{key} is {few(sorted({fields(run).get(key, NONE) for run in runs}))}" for key in where]
    return OptionError(
        Option("where", where), f" leaves no run of {name!r}; its runs have: {'; '.join(has)}"
    )


def _ours(folders: Sequence[Path], answered: Sequence[Answered]) -> Results:
    """Read results of our tasks; empty if only others were asked."""
    try:
        return read_results(folders)
    except EpidemiaError as error:
        if not answered:
            raise
        # No task of ours is there; what else is said stands in lines of its own.
        return Results([], str(error).splitlines()[1:], tuple(folders))


def _not_shared(one: Side, other: Side) -> list[str]:
    """Name the tasks that only one was asked, and those that need samples to be compared."""
    notes = []
    for side, alone in ((one, one.asked - other.asked), (other, other.asked - one.asked)):
        if alone:
            tasks = plural(len(alone), "task")
            notes.append(
                f"left out: {tasks} that only {side.name} was asked ({few(sorted(alone))})"
            )
    if without := (one.bare | other.bare) & one.asked & other.asked:
        notes.append(
            f"not compared: {few(sorted(without))}: samples of both are missing; run them again "
            "with --log_samples"
        )
    return notes


def _over_ours(
    one: Entry | None, other: Entry | None, runs: Sequence[Entry]
) -> tuple[list[Comparison], dict[str, str], list[str]]:
    """Compare two runs in every group, over the tasks that both were asked in the same way."""
    if one is None or other is None:
        return [], {}, []
    others = [run for run in runs if run.weights not in (one.weights, other.weights)]
    asked_as = {id(run): _protocols(run) for run in (one, other, *others)}
    noise = {
        task: noise_of(store.load(task))
        for task in set(store.available()) & {asked.task for asked in one.scores}
    }
    comparisons, notes, how = [], [], {}
    listed = columns([one, other])
    for column in [*together(listed), *listed]:
        parts = column.split(AND)
        by_part = [shared_tasks([one, other], part) for part in parts]
        if not all(by_part):
            continue
        shared = [asked for tasks in by_part for asked in tasks]
        alike = [a for a in shared if asked_as[id(one)][a] == asked_as[id(other)][a]]
        if groups()[parts[0]].predicted:
            continue
        if any(not answers(run, part) for run in (one, other) for part in parts):
            notes += _silent(one, other, column) if len(parts) == 1 else []
            continue
        if len(alike) < len(shared) and len(parts) == 1:
            of_both = asked_as[id(one)][shared[0]], asked_as[id(other)][shared[0]]
            both = " and ".join(str(protocol) or "everything as by default" for protocol in of_both)
            notes.append(
                f"{column}: left out {len(shared) - len(alike)} of {len(shared)} common tasks, "
                f"which the two were asked differently ({both})"
            )
        if alike:
            pool = [
                run
                for run in (one, other, *others)
                if all(asked_as[id(run)].get(a) == asked_as[id(one)][a] for a in alike)
            ]
            comparisons.append(compare_entries(one, other, column, alike, Pool(pool, noise)))
            # What its tasks' versions and truths are is the same of both, and says nothing to most.
            asked = {
                str(replace(asked_as[id(one)][a], task_version="", truth="", vintage=""))
                for a in alike
            }
            how[column] = "; ".join(sorted(asked - {""}))
    return comparisons, how, notes


def _silent(one: Entry, other: Entry, group: str) -> list[str]:
    """Say which of two models do not answer a group, so that their scores mean nothing."""
    return [
        f"{group}: not compared, as {run.name} does not answer ({metric} {mean:.2g}, below "
        f"{LOW_MASS})"
        for run in (one, other)
        for metric, mean in too_low(run, group).items()
    ]


def _protocols(run: Entry) -> dict[Asked, Protocol]:
    """Return how each task was asked."""
    return {asked: part.protocol for part in run.parts or (run,) for asked in part.scores}
