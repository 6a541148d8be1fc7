"""One of two models that are compared: found by its name, with all that it was asked."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest, words_of
from lm_eval_epidemia.results.documents import Answered
from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.results.models import fields, name_of
from lm_eval_epidemia.results.naming import HASHES, Weights

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


def find_side(name: str, runs: Sequence[Entry], answered: Sequence[Answered]) -> Side:
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
