"""One of two compared models: found by its name, with everything that it was asked."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.core.errors import Option, OptionError, few, nearest, words_of
from lm_eval_epidemia.results.documents import Answered
from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.results.models import fields
from lm_eval_epidemia.results.naming import HASHES, Weights, without_kind

#: Settings of a run that are no difference in how two models were run.
OF_THE_MODEL = ("model", "revision", "date", *HASHES)

#: A setting that is as by default.
NONE = "none"


class Side(NamedTuple):
    """One of the two models.

    Attributes
    ----------
    name : str
        Full name; with settings for a run.
    run : Entry or None
        Run over our tasks; None if it was not asked any.
    answered : dict of str to Answered
        Other people's tasks, with samples.
    bare : set of str
        Other people's tasks, without samples.
    note : str
        Names the model's other runs, if `name` is that of one; else empty.
    """

    name: str
    run: Entry | None
    answered: dict[str, Answered]
    bare: set[str]
    note: str = ""

    @property
    def asked(self) -> set[str]:
        """All its tasks, as lm-eval names them."""
        ours = {in_way(*asked) for asked in self.run.scores} if self.run else set[str]()
        return ours | self.answered.keys() | self.bare

    @property
    def settings(self) -> dict[str, str]:
        """How the model was run: in the run of our tasks, else in the first."""
        entries = [self.run] if self.run else [run.entry for run in self.answered.values()]
        return _settings(entries[0]) if entries else {}


def runs_named(name: str, runs: Sequence[Entry], answered: Sequence[Answered]) -> list[Entry]:
    """Return the entries with this name: one run, or all of a model's; empty if there are none."""
    if of_run := [run for run in runs if name == run.name != run.model]:
        return of_run[:1]
    entries = [*runs, *(of.entry for of in answered)]
    names: dict[str, set[Weights]] = defaultdict(set)
    for entry in entries:
        plain = without_kind(entry.model)
        for called in (entry.model, plain, entry.weights.name, entry.weights.model):
            names[called].add(entry.weights)
    weights = names.get(name) or {
        of
        for called, several in names.items()
        if called.casefold() == name.casefold()
        for of in several
    }
    return [entry for entry in entries if entry.weights in weights]


def find_side(
    name: str, runs: Sequence[Entry], answered: Sequence[Answered], beside: Sequence[Entry] = ()
) -> Side:
    """Find a model, or one of its runs, by its name.

    The name of a run means that run, even if its model has the same name and other runs of the same
    tasks.

    Parameters
    ----------
    name : str
    runs : sequence of Entry
        All runs over our tasks.
    answered : sequence of Answered
    beside : sequence of Entry
        Entries of the other model: only settings that keep it are offered.

    Raises
    ------
    OptionError
        If a name matches no model, or a model with several runs.
    """
    named = runs_named(name, runs, answered)
    if not named:
        known = {entry.model for entry in (*runs, *(of.entry for of in answered))}
        raise OptionError(f"no model {name!r} in these results; {_hint(name, known)}")
    models = sorted({entry.model for entry in named})
    if len({entry.weights for entry in named}) > 1:
        raise OptionError(f"{name!r} matches {' and '.join(models)}: name one of them")
    own = [run for run in named if run.scores]
    asked = [task for run in own for task in run.scores]
    is_clear = len(set(asked)) == len(asked)
    exact = [run for run in own if name == run.name]
    if exact and not (is_clear and name == exact[0].model):
        run, others = exact[0], [run for run in own if run is not exact[0]]
        rest = few([shlex.quote(other.name) for other in others])
        note = (
            f"{name} means the run with this name; its model has others: {rest}" if others else ""
        )
        return Side(name, run, *_by_task(name, _of_run(run, answered), beside), note)
    if not is_clear:
        raise OptionError(*_several(models[0], "the same survey tasks", own, beside))
    of_others = [of for of in answered if of.entry.weights == named[0].weights]
    return Side(models[0], _merged(own), *_by_task(models[0], of_others, beside))


def _of_run(run: Entry, answered: Sequence[Answered]) -> list[Answered]:
    """Return other people's tasks that belong to a run.

    If several files have a task, the run's own comes first, then those with its ``--limit``.
    """
    files = {score.source for score in run.scores.values()}
    by_task: dict[str, list[Answered]] = defaultdict(list)
    for of in answered:
        if _run_as(of.entry) == _run_as(run):
            by_task[of.task].append(of)
    belonging = []
    for several in by_task.values():
        several = [of for of in several if of.path in files] or several
        limited = [of for of in several if of.entry.protocol.limit == run.protocol.limit]
        belonging += limited or several
    return belonging


def _hint(name: str, known: Iterable[str]) -> str:
    """Return the models whose names contain an unknown one, even as "gpt4o"; else the nearest."""
    wrong = "".join(words_of(name))
    holding = sorted(of for of in known if wrong and wrong in "".join(words_of(of)))
    return f"nearest: {few(holding)}" if holding else nearest(name, known)


def _merged(runs: Sequence[Entry]) -> Entry | None:
    """Merge runs of different tasks; None if there are none."""
    if len(runs) < 2:
        return next(iter(runs), None)
    scores = {asked: score for run in runs for asked, score in run.scores.items()}
    parts = tuple(part for run in runs for part in run.parts or (run,))
    return replace(runs[0], scores=scores, parts=parts)


def _run_as(entry: Entry) -> tuple[object, ...]:
    return entry.weights, entry.chat, frozenset(entry.settings)


def _by_task(
    model: str, answered: Sequence[Answered], beside: Sequence[Entry]
) -> tuple[dict[str, Answered], set[str]]:
    """Return the run of each task (the newest among equal settings), and tasks without samples."""
    by_task: dict[str, dict[tuple[str, ...], Answered]] = defaultdict(dict)
    for run in (run for run in answered if run.has_samples):  # the oldest comes first
        by_task[run.task][(run.version, *map("=".join, _settings(run.entry).items()))] = run
    for task, several in by_task.items():
        if len(several) > 1:
            entries = [run.entry for run in several.values()]
            raise OptionError(*_several(model, task, entries, beside))
    bare = {run.task for run in answered} - by_task.keys()
    return {task: next(iter(several.values())) for task, several in by_task.items()}, bare


def _settings(entry: Entry) -> dict[str, str]:
    return {key: value for key, value in fields(entry).items() if key not in OF_THE_MODEL}


def _several(
    model: str, task: str, entries: Sequence[Entry], beside: Sequence[Entry]
) -> list[str | Option]:
    """Say how the runs of a model differ, and how to choose each: by name, or by settings.

    Settings are offered only if they keep the other model too.
    """
    settings = [_settings(entry) for entry in entries]
    keys = dict.fromkeys(key for of in settings for key in of)
    apart = [key for key in keys if len({of.get(key, NONE) for of in settings}) > 1]
    own = [{key: of.get(key, NONE) for key in apart} for of in settings]
    others = [_settings(of) for of in beside if of.weights != entries[0].weights]
    names = [entry.name for entry in entries]
    parts: list[str | Option] = [f"{model} was asked {task} in {len(entries)} runs; choose one:"]
    is_clear = True
    for entry, name, values in zip(entries, names, own, strict=True):
        ways: list[str | Option] = []
        if entry.scores and names.count(name) == 1:
            ways.append(shlex.quote(name))
        leaves_other = any(
            all(of.get(key, NONE) == value for key, value in values.items()) for of in others
        )
        if values and leaves_other and own.count(values) == 1:
            ways.append(Option("where", values))
        for before, way in zip(("\n  ", ", or "), ways, strict=False):
            parts += [before, way]
        is_clear = is_clear and bool(ways)
    if not is_clear:
        parts.append("\n  or give single result files instead of their folder")
    return parts
