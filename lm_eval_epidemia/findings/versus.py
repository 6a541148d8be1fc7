"""Two models, or two runs of one, over everything that both were asked in the same way."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lm_eval_epidemia.benchmarks import groups, in_way
from lm_eval_epidemia.core.errors import (
    EpidemiaError,
    Option,
    OptionError,
    few,
    nearest,
    plural,
    words_of,
)
from lm_eval_epidemia.findings import documents
from lm_eval_epidemia.findings.finding import Finding, who
from lm_eval_epidemia.findings.leaderboard import pool_of
from lm_eval_epidemia.findings.mean import grouped, is_silent, mean
from lm_eval_epidemia.findings.notes import lines
from lm_eval_epidemia.findings.pairs import COLUMNS, NOTE, compared, ordered
from lm_eval_epidemia.results.choose import settings_of_runs, where
from lm_eval_epidemia.results.compare import compare, paired
from lm_eval_epidemia.results.documents import Answered, answered_in, limit_of
from lm_eval_epidemia.results.naming import HASHES, with_settings, without_kind
from lm_eval_epidemia.results.read import Results

#: Settings of a run that are no difference in how two models were run.
OF_THE_MODEL = ("model", "revision", "date", "template", "task_version", "truth", *HASHES)


class Side(NamedTuple):
    """One of the two.

    Attributes
    ----------
    name : str
        Of the model, or of its run.
    runs : list of int
        Its runs; of different tasks, if there are several.
    answered : dict of str to Answered
        Other people's tasks.
    note : str
        Names the model's other runs, if `name` is that of one; else empty.
    """

    name: str
    runs: list[int]
    answered: dict[str, Answered]
    note: str = ""


class Versus(NamedTuple):
    """The comparison of two models over everything in common.

    Attributes
    ----------
    one, other : Side
    ours : Finding
        Over our tasks, a row per group; ``asked_as`` says how they were asked, if not as usual.
    documents : Finding
        Over other people's tasks.
    unlike : dict of str to (str, str)
        Settings in which the two were run differently, with both values.
    notes : list of str
        What is not compared, and why.
    """

    one: Side
    other: Side
    ours: Finding
    documents: Finding
    unlike: dict[str, tuple[str, str]]
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


def _taken_apart(name: str) -> tuple[str, list[str]]:
    """Return a name and its settings: "m (kind=noisy, noise=1)"."""
    parts = re.fullmatch(r"(.+?) \((.+)\)", name)
    return (parts[1], re.split("[,;] ", parts[2])) if parts else (name, [])


def compare_models(
    results: Results,
    one: str,
    other: str,
    conditions: Mapping[str, str] | None = None,
    cluster: str | None = None,
) -> Versus:
    """Compare two models over everything that both were asked in the same way.

    Parameters
    ----------
    results : Results
    one, other : str
        Names of models or their runs, as in a report of these results or as given to lm-eval.
    conditions : mapping of str to str, optional
        Settings of runs, as for `choose.where`.
    cluster : str, optional
        As for `documents.compare_documents`.

    Raises
    ------
    EpidemiaError
        If a name matches no model, or a model with several runs; if nothing can be compared.
    """
    if conditions:
        before = results
        results = where(results, conditions)
        for name in (one, other):
            if (had := runs_named(name, before.runs)) and not runs_named(name, results.runs):
                raise _without_runs(name, before.runs.loc[had], conditions)
    answered = answered_in(results)
    first, second = (
        _find(name, results, answered, rest) for name, rest in ((one, other), (other, one))
    )
    if first.name == second.name:
        raise EpidemiaError(
            f"{one!r} and {other!r} are the same model: give two models, or two runs of one"
        )
    weights = results.runs["weights"]
    is_one_model = weights[first.runs[0]] == weights[second.runs[0]]
    if is_one_model:  # the same samples are no comparison
        both = {t for t, of in first.answered.items() if second.answered.get(t) is of}
        first, second = (
            side._replace(answered={t: of for t, of in side.answered.items() if t not in both})
            for side in (first, second)
        )
    rows, notes = _over_ours(results, first, second)
    mine, theirs = (
        {task: of for task, of in side.answered.items() if of.has_samples}
        for side in (first, second)
    )
    names = [first.name, second.name]
    others, of_others = documents.compare_documents(mine, theirs, names, cluster)
    notes = [*lines(results), *notes, *of_others, *_not_shared(results, first, second)]
    if not is_one_model:
        notes += filter(None, (first.note, second.note))
    if not rows and not others:
        why = dict.fromkeys([_nothing(results, first, second), *notes])
        raise EpidemiaError("\n".join(why))
    table = pd.DataFrame(rows, columns=None if rows else ["run", "other", "group", "difference"])
    columns = {
        name: column for name, column in COLUMNS.items() if name not in ("model", "settings")
    }
    title = f"{first.name} less {second.name}"
    ours = Finding("pairs", title, who(table, results.runs), columns, NOTE)
    table = pd.DataFrame(others, columns=None if others else ["task", "difference"])
    table.insert(0, "other", second.name)
    table.insert(0, "model", first.name)
    of_documents = Finding(
        "documents", f"{title}: tasks of others", table, documents.COLUMNS, documents.NOTE
    )
    return Versus(first, second, ours, of_documents, _unlike(results, first, second), notes)


def runs_named(name: str, runs: pd.DataFrame) -> list[int]:
    """Return the runs with this name: one run, or all of a model's; empty if there are none."""
    if len(of_run := runs.index[(runs["name"] == name) & (runs["settings"] != "")]):
        return [int(of_run[0])]
    called = [
        {model, without_kind(model), weights.name, weights.model}
        for model, weights in zip(runs["model"], runs["weights"], strict=True)
    ]
    exact = [run for run, names in zip(runs.index, called, strict=True) if name in names]
    wanted = name.casefold()
    return exact or [
        run
        for run, names in zip(runs.index, called, strict=True)
        if wanted in {each.casefold() for each in names}
    ]


def _find(name: str, results: Results, answered: Sequence[Answered], rest: str) -> Side:
    """Find a model, or one of its runs, by its name.

    Parameters
    ----------
    name : str
    results : Results
    answered : sequence of Answered
    rest : str
        The other name: only settings that keep it are offered.
    """
    runs, scores = results.runs, results.scores
    if not (named := runs_named(name, runs)):
        unread = results.notes[results.notes["kind"] == "unread"]["text"]
        hint = _hint(name, {*runs["model"]})
        raise OptionError(
            f"no model {name!r} in these results; {hint}", *(f"\n{text}" for text in unread)
        )
    models = sorted({*runs["model"][named]})
    if len({*runs["weights"][named]}) > 1:
        raise OptionError(f"{name!r} matches {' and '.join(models)}: name one of them")
    own = [run for run in named if run in {*scores["run"]}]
    asked = scores[scores["run"].isin(own)]
    beside = runs_named(rest, runs)
    exact = [run for run in own if runs["name"][run] == name]
    if asked.duplicated(["task", "way"]).any():
        if not exact:
            raise OptionError(*_several(models[0], "the same survey tasks", results, own, beside))
        others = few([shlex.quote(of) for of in runs["name"][own] if of != name])
        note = f"{name} means the run with this name; its model has others: {others}"
        return Side(name, exact[:1], _by_task(name, results, exact[:1], answered, beside), note)
    if len(named) == 1 and len(results.runs[runs["weights"] == runs["weights"][named[0]]]) > 1:
        models = [runs["name"][named[0]]]
    return Side(models[0], own or named, _by_task(models[0], results, named, answered, beside))


def _hint(name: str, known: Iterable[str]) -> str:
    """Return the models whose names contain an unknown one, even as "gpt4o"; else the nearest."""
    wrong = "".join(words_of(name))
    holding = sorted(of for of in known if wrong and wrong in "".join(words_of(of)))
    return f"nearest: {few(holding)}" if holding else nearest(name, known)


def _by_task(
    model: str,
    results: Results,
    runs: Sequence[int],
    answered: Sequence[Answered],
    beside: Sequence[int],
) -> dict[str, Answered]:
    """Return the file of each of other people's tasks: the newest with samples.

    Tasks that were run by themselves belong to a run that was run alike.
    """
    table = results.runs
    same = [name for name in ("weights", "chat_template", "dtype", "backend") if name in table]
    alike = [
        run
        for run in table.index
        if any((table.loc[run, same] == table.loc[own, same]).all() for own in runs)
    ]
    by_task: dict[str, dict[tuple[int, str], Answered]] = {}
    for of in sorted(answered, key=lambda of: of.has_samples):
        if of.run in runs or of.run in alike:
            by_task.setdefault(of.task, {})[of.run, of.version + limit_of(of)] = of
    chosen = {}
    for task, several in by_task.items():
        own = {key: of for key, of in several.items() if of.run in runs} or several
        with_samples = {key: of for key, of in own.items() if of.has_samples} or own
        if len(with_samples) > 1:
            named = [*dict.fromkeys(run for run, _ in with_samples)]
            raise OptionError(*_several(model, task, results, named, beside))
        chosen[task] = next(iter(with_samples.values()))
    return chosen


def _several(
    model: str, task: str, results: Results, runs: Sequence[int], beside: Sequence[int]
) -> list[str | Option]:
    """Say how the runs of a model differ, and how to choose each: by name, or by settings."""
    settings = settings_of_runs(results.runs).drop(columns=["model", "date"])
    own = settings.loc[[*runs]]
    apart = own.loc[:, own.nunique() > 1]
    parts: list[str | Option] = [f"{model} was asked {task} in {len(runs)} runs; choose one:"]
    for run, values in zip(runs, apart.to_dict("records"), strict=True):
        parts += ["\n  ", shlex.quote(results.runs["name"][run])]
        others = settings.loc[[of for of in beside if of not in runs]]
        keeps = (others[[*values]] == pd.Series(values)).all(axis="columns").any()
        if values and keeps:
            given = {str(key): str(value) for key, value in values.items()}
            parts += [", or ", Option("where", given)]
    if len(runs) == 1:
        parts.append("\n  or give single result files instead of their folder")
    return parts


def _without_runs(name: str, runs: pd.DataFrame, conditions: Mapping[str, str]) -> OptionError:
    """Say that conditions leave no run of a model, and list the settings of its runs."""
    settings = settings_of_runs(runs)
    has = [f"{key} is {few(sorted({*settings[key]}))}" for key in conditions if key in settings]
    return OptionError(
        Option("where", dict(conditions)),
        f" leaves no run of {name!r}; its runs have: {'; '.join(has)}",
    )


def _over_ours(results: Results, one: Side, other: Side) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare two selections of runs in every group, over what both were asked in the same way."""
    scores, pool = compared(results), pool_of(results)
    silent = _silent(results, [*one.runs, *other.runs])
    rows, notes = [], []
    for group in ordered([*scores["group"]]):
        of = scores[scores["group"] == group]
        mine, theirs = (of[of["run"].isin(side.runs)] for side in (one, other))
        shared = len(paired(mine, theirs, ["task", "way"]))
        if not shared:
            continue
        parts = group.split(" + ")
        mute = [text for part in parts for text in silent.get(part, ())]
        if mute:
            notes += mute if len(parts) == 1 else []
            continue
        both = paired(mine, theirs)
        if len(both) < shared and len(parts) == 1:
            how = (
                " and ".join(sorted({*side["asked_as"]} - {""})) or "everything as by default"
                for side in (mine, theirs)
            )
            notes.append(
                f"{group}: left out {shared - len(both)} of {shared} common tasks, which the two "
                f"were asked differently ({' and '.join(how)})"
            )
        if made := compare(mine, theirs, pool):
            # Versions and truths are the same of both, and say nothing to most.
            told = {_without_versions(asked_as) for asked_as in both["asked_as"]} - {""}
            rows.append(
                {
                    "run": one.runs[0],
                    "other": other.name,
                    "group": group,
                    "asked_as": "; ".join(sorted(told)),
                    **made._asdict(),
                }
            )
    return rows, notes


def _without_versions(asked_as: str) -> str:
    parts = (
        part for part in asked_as.split("; ") if not part.startswith(("task_version", "truth"))
    )
    return ", ".join(parts)


def _silent(results: Results, runs: Sequence[int]) -> dict[str, list[str]]:
    """Say by group which of the runs do not answer, so that their scores mean nothing."""
    scores = results.scores[results.scores["run"].isin(runs)]
    means = mean(grouped(scores), ["run", "group"])
    says: dict[str, list[str]] = {}
    for row in means[is_silent(means)].itertuples(index=False):
        low = {"choice_mass": row.choice_mass, "answered": row.answered}
        name, value = min((x for x in low.items() if x[1] == x[1]), key=lambda x: x[1])
        says.setdefault(row.group, []).append(
            f"{row.group}: not compared, as {results.runs['name'][row.run]} does not answer "
            f"({name} {value:.2g}, below 0.1)"
        )
    return says


def _unlike(results: Results, one: Side, other: Side) -> dict[str, tuple[str, str]]:
    """Return the settings in which two runs differ.

    Versions and truths are not among them: tasks that differ in these are not compared.
    """
    settings = settings_of_runs(results.runs)
    keys = [key for key in settings if key not in OF_THE_MODEL]
    both = {key: (settings[key][one.runs[0]], settings[key][other.runs[0]]) for key in keys}
    return {str(key): pair for key, pair in both.items() if pair[0] != pair[1]}


def _asked(results: Results, side: Side) -> set[str]:
    scores = results.scores[results.scores["run"].isin(side.runs)]
    return {*map(in_way, scores["task"], scores["way"]), *side.answered}


def _not_shared(results: Results, one: Side, other: Side) -> list[str]:
    """Name the tasks that only one was asked, and those that need samples to be compared."""
    mine, theirs = _asked(results, one), _asked(results, other)
    notes = [
        f"left out: {plural(len(alone), 'task')} that only {side.name} was asked "
        f"({few(sorted(alone))})"
        for side, alone in ((one, mine - theirs), (other, theirs - mine))
        if alone
    ]
    without = {
        task for side in (one, other) for task, of in side.answered.items() if not of.has_samples
    }
    if without := without & mine & theirs:
        notes.append(
            f"not compared: {few(sorted(without))}: samples of both are missing; run them again "
            "with --log_samples"
        )
    return notes + _predicted(results, one, other)


def _predicted(results: Results, one: Side, other: Side) -> list[str]:
    """Name the groups of both that only predict scores."""
    asked = [{*results.scores[results.scores["run"].isin(s.runs)]["group"]} for s in (one, other)]
    both = [group for group in sorted(asked[0] & asked[1]) if groups()[group].predicted]
    if not both:
        return []
    return [
        f"{few(both)} only predicts scores, so it is not compared: run epidemia_low and "
        "epidemia_high with both"
    ]


def _nothing(results: Results, one: Side, other: Side) -> str:
    """Say why two models cannot be compared."""
    if _silent(results, [*one.runs, *other.runs]):
        return f"{one.name} and {other.name} cannot be compared"
    if predicted := _predicted(results, one, other):
        return predicted[0]
    if _asked(results, one) & _asked(results, other):
        return (
            f"{one.name} and {other.name} were asked no task in the same way: run both with the "
            "same settings, and tasks of others with --log_samples"
        )
    return (
        f"{one.name} and {other.name} share no task: run both on the same tasks, and tasks of "
        "others with --log_samples"
    )
