"""Two models compared: over our tasks, and over the documents of any other that both answered."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import groups, in_way
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest, plural, words_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.comparison import AND, Comparison, compare_entries
from lm_eval_epidemia.findings.documents import OverDocuments, compare_documents
from lm_eval_epidemia.findings.leaderboard import columns, informative, together
from lm_eval_epidemia.findings.means import shared_tasks
from lm_eval_epidemia.findings.pool import Pool, noise_of
from lm_eval_epidemia.results.documents import Answered, answered_in
from lm_eval_epidemia.results.entry import Asked, Entry
from lm_eval_epidemia.results.models import chosen, fields, models_of, name_of
from lm_eval_epidemia.results.naming import HASHES, Weights
from lm_eval_epidemia.results.protocol import Protocol
from lm_eval_epidemia.results.results import Results, read_results

#: Settings of a run that are no difference in how two models were run.
OF_THE_MODEL = ("model", "revision", "date", *HASHES)

#: A setting that is as by default.
NONE = "none"


class Side(NamedTuple):
    """One of the two models.

    Attributes
    ----------
    name : str
        Whole; of a run with its settings.
    run : Entry or None
        Over our tasks; None where it was not asked any.
    answered : dict of str to Answered
        Tasks of others with samples.
    bare : set of str
        Tasks of others without.
    """

    name: str
    run: Entry | None
    answered: dict[str, Answered]
    bare: set[str]

    @property
    def asked(self) -> set[str]:
        """All its tasks, as lm-eval names them."""
        ours = {in_way(*asked) for asked in self.run.scores} if self.run else set[str]()
        return ours | self.answered.keys() | self.bare

    @property
    def settings(self) -> dict[str, str]:
        """How the model was run; of several tasks as that of ours, or the first."""
        entries = [self.run] if self.run else [run.entry for run in self.answered.values()]
        return _settings(entries[0]) if entries else {}


class TwoModels(NamedTuple):
    """What two models have in common, compared.

    Attributes
    ----------
    one, other : Side
    comparisons : list of Comparison
        Over our tasks, the groups that are compared together first.
    asked_as : dict of str to str
        How the tasks of each group were asked; empty where all is as by default.
    documents : list of OverDocuments
        Over the tasks of others.
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
        """What the two are called in sentences: by their settings only if nothing else differs."""
        (one, mine), (other, theirs) = map(_taken_apart, (self.one.name, self.other.name))
        if one != other:
            return one, other
        return _with_settings(one, mine, theirs), _with_settings(other, theirs, mine)

    @property
    def unlike(self) -> dict[str, tuple[str, str]]:
        """Settings in which the two were run differently, with both values.

        Of versions and truths nothing is said: tasks that differ in them are not compared.
        """
        one, other = self.one.settings, self.other.settings
        keys = [key for key in {**one, **other} if key not in ("task_version", "truth")]
        values = {key: (one.get(key, NONE), other.get(key, NONE)) for key in keys}
        return {key: both for key, both in values.items() if both[0] != both[1]}


def _taken_apart(name: str) -> tuple[str, list[str]]:
    """Return a name and its settings: "m (kind=noisy, noise=1)"."""
    parts = re.fullmatch(r"(.+?) \((.+)\)", name)
    return (parts[1], re.split("[,;] ", parts[2])) if parts else (name, [])


def _with_settings(name: str, settings: Sequence[str], others: Sequence[str]) -> str:
    apart = [setting for setting in settings if setting not in others]
    return f"{name} ({', '.join(apart)})" if apart else name


def compare_models(
    one: str,
    other: str,
    folders: Iterable[Path],
    where: Mapping[str, str] | None = None,
    cluster: str | None = None,
    only_informative: bool = False,
) -> TwoModels:
    """Compare two models over everything that both were asked alike.

    Parameters
    ----------
    one, other : str
        As a report of these folders names models or their runs, or as they were named to lm-eval.
    folders : iterable of Path
        As of `read_results`.
    where : mapping of str to str, optional
        Settings of runs, as of `models.chosen`.
    cluster : str, optional
        As of `compare_documents`.
    only_informative : bool
        Whether the barely informative tasks are left out.

    Raises
    ------
    EpidemiaError
        If a name is of no model, or of one with several runs; if nothing can be compared.
    """
    folders = tuple(folders)
    answered = answered_in(folders)
    results = _ours(folders, answered)
    if only_informative and results.entries:
        results = informative(results)
    entries = [entry for entry in results.entries if entry.scores]
    if where:
        kept = chosen([*entries, *(run.entry for run in answered)], where)
        entries = [entry for entry in entries if any(entry is of for of in kept)]
        answered = [run for run in answered if any(run.entry is of for of in kept)]
    runs = [run for model in models_of(entries) for run in model.runs]
    try:
        first, second = (_side(name, runs, answered) for name in (one, other))
    except EpidemiaError as error:
        # Whom it asks for may be in a file that cannot be read.
        raise EpidemiaError("\n".join([str(error), *results.notes])) from None
    if first.name == second.name:
        raise EpidemiaError(f"{one!r} and {other!r} are one model: give two, or two of its runs")
    comparisons, asked_as, of_ours = _over_ours(first.run, second.run, runs)
    documents, of_others = compare_documents(first.answered, second.answered, cluster)
    notes = [*results.notes, *of_ours, *of_others, *_not_shared(first, second)]
    if not comparisons and not documents:
        raise EpidemiaError(
            f"{first.name} and {second.name} share no task that both were asked alike: run both on "
            + "\n".join(["the same tasks, those of others with --log_samples", *notes])
        )
    return TwoModels(first, second, comparisons, asked_as, documents, notes)


def _ours(folders: Sequence[Path], answered: Sequence[Answered]) -> Results:
    """Read what was asked of ours; nothing where only others were."""
    try:
        return read_results(folders)
    except EpidemiaError as error:
        if not answered:
            raise
        # No task of ours is there; what else is said stands in lines of its own.
        return Results([], str(error).splitlines()[1:], tuple(folders))


def _side(name: str, runs: Sequence[Entry], answered: Sequence[Answered]) -> Side:
    """Find a model, or one of its runs, by its name."""
    if named := [run for run in runs if name == run.name != run.model]:
        run = named[0]
        alike = [of for of in answered if _run_as(of.entry) == _run_as(run)]
        return Side(run.name, run, *_by_task(run.name, alike))
    entries = [*runs, *(of.entry for of in answered)]
    names: dict[str, set[Weights]] = defaultdict(set)
    for entry in entries:
        plain, _, _ = name_of(entry).partition(" (kind=")
        for called in (
            name_of(entry),
            plain,
            entry.model,
            entry.weights.name,
            entry.weights.model,
        ):
            names[called].add(entry.weights)
    weights = names.get(name) or {
        of
        for called, several in names.items()
        if called.casefold() == name.casefold()
        for of in several
    }
    known = {name_of(entry) for entry in entries}
    if not weights:
        raise EpidemiaError(f"no model {name!r} in these results; {_hint(name, known)}")
    models = sorted({name_of(entry) for entry in entries if entry.weights in weights})
    if len(weights) > 1:
        raise EpidemiaError(f"{name!r} may be {' or '.join(models)}: name one of them")
    own = [run for run in runs if run.weights in weights]
    asked = [task for run in own for task in run.scores]
    if len(set(asked)) < len(asked):
        listed = _several(models[0], "the same tasks of ours", own)
        raise EpidemiaError(f"{listed}\nor give the name of one, such as {own[0].name!r}")
    of_others = [of for of in answered if of.entry.weights in weights]
    return Side(models[0], _merged(own), *_by_task(models[0], of_others))


def _hint(name: str, known: Iterable[str]) -> str:
    """Name the models whose names hold a wrong one, "gpt4o" too; else the nearest."""
    wrong = "".join(words_of(name))
    holding = sorted(of for of in known if wrong and wrong in "".join(words_of(of)))
    return f"nearest: {few(holding)}" if holding else nearest(name, known)


def _merged(runs: Sequence[Entry]) -> Entry | None:
    """Return runs of different tasks as one; None of none."""
    if len(runs) < 2:
        return next(iter(runs), None)
    scores = {asked: score for run in runs for asked, score in run.scores.items()}
    parts = tuple(part for run in runs for part in run.parts or (run,))
    return replace(runs[0], scores=scores, parts=parts)


def _run_as(entry: Entry) -> tuple[object, ...]:
    return entry.weights, entry.chat, frozenset(entry.settings)


def _by_task(model: str, answered: Sequence[Answered]) -> tuple[dict[str, Answered], set[str]]:
    """Return the run of each task, of those with the same settings the newest; and bare tasks."""
    by_task: dict[str, dict[tuple[str, ...], Answered]] = defaultdict(dict)
    for run in (run for run in answered if run.has_samples):  # the oldest comes first
        by_task[run.task][(run.version, *map("=".join, _settings(run.entry).items()))] = run
    for task, several in by_task.items():
        if len(several) > 1:
            raise EpidemiaError(_several(model, task, [run.entry for run in several.values()]))
    bare = {run.task for run in answered} - by_task.keys()
    return {task: next(iter(several.values())) for task, several in by_task.items()}, bare


def _not_shared(one: Side, other: Side) -> list[str]:
    """Say which tasks only one of two was asked, and which cannot be compared without samples."""
    notes = []
    for side, alone in ((one, one.asked - other.asked), (other, other.asked - one.asked)):
        if alone:
            tasks = plural(len(alone), "task")
            notes.append(
                f"left out: {tasks} that only {side.name} was asked ({few(sorted(alone))})"
            )
    if without := (one.bare | other.bare) & one.asked & other.asked:
        notes.append(
            f"not compared: {few(sorted(without))}: there are no samples of both; run them again "
            "with --log_samples"
        )
    return notes


def _settings(entry: Entry) -> dict[str, str]:
    return {key: value for key, value in fields(entry).items() if key not in OF_THE_MODEL}


def _several(model: str, task: str, entries: Sequence[Entry]) -> str:
    """Say in what the runs of a model differ, and how one is chosen."""
    settings = [_settings(entry) for entry in entries]
    keys = dict.fromkeys(key for of in settings for key in of)
    apart = [key for key in keys if len({of.get(key, NONE) for of in settings}) > 1]
    listed = [",".join(f"{key}={of.get(key, NONE)}" for key in apart) for of in settings]
    lines = (f"  --where {shlex.quote(text)}" for text in listed)
    return "\n".join([f"{model} was asked {task} in {len(entries)} runs; choose one:", *lines])


def _over_ours(
    one: Entry | None, other: Entry | None, runs: Sequence[Entry]
) -> tuple[list[Comparison], dict[str, str], list[str]]:
    """Compare two runs in every group, over the tasks that both were asked alike."""
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
            notes.append(f"{column} is a prediction, and is not compared: compare what it predicts")
            continue
        if len(alike) < len(shared) and len(parts) == 1:
            of_both = asked_as[id(one)][shared[0]], asked_as[id(other)][shared[0]]
            both = " and ".join(str(protocol) or "everything as by default" for protocol in of_both)
            notes.append(
                f"{column}: {len(shared) - len(alike)} of {len(shared)} tasks of both were asked "
                f"otherwise ({both}), and are left out"
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


def _protocols(run: Entry) -> dict[Asked, Protocol]:
    """Return how each task was asked."""
    return {asked: part.protocol for part in run.parts or (run,) for asked in part.scores}
