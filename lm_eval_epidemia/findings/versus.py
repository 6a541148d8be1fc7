"""Two models, or two runs of one, over everything that both were asked in the same way."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import pandas as pd

from lm_eval_epidemia.benchmarks import in_way, list_groups
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.core.errors import EpidemiaError, Option, OptionError, few, plural, suggest
from lm_eval_epidemia.findings import FINDINGS, documents, pairs
from lm_eval_epidemia.findings.compare import compare_scores
from lm_eval_epidemia.findings.finding import WHO, Finding, add_run_columns, columns_of
from lm_eval_epidemia.findings.leaderboard import list_notes, pool_of
from lm_eval_epidemia.results.choose import join_scores, keep_where, settings_of_runs
from lm_eval_epidemia.results.documents import AnsweredTask, answered_in
from lm_eval_epidemia.results.naming import HASHES, add_settings, without_kind
from lm_eval_epidemia.results.read import Results

#: Settings of a run that are no difference in how two models were run. Tasks that differ in
#: versions and truths are not compared.
OF_THE_MODEL = ("model", "revision", "date", "template", "task_version", "truth", *HASHES)


class Side(NamedTuple):
    """One of the two.

    Attributes
    ----------
    name : str
        Of the model, or of its run.
    runs : list of int
        Its runs; of different tasks, if there are several.
    answered : dict of str to AnsweredTask
        Other people's tasks.
    note : str
        Names the model's other runs, if `name` is that of one; else empty.
    """

    name: str
    runs: list[int]
    answered: dict[str, AnsweredTask]
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
        (one, _, mine), (other, _, theirs) = (
            side.name.partition(" (") for side in (self.one, self.other)
        )
        if one != other:
            return one, other
        a, b = (re.split("[,;] ", settings.removesuffix(")")) for settings in (mine, theirs))
        return (
            add_settings(one, [setting for setting in a if setting not in b]),
            add_settings(one, [setting for setting in b if setting not in a]),
        )


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
        Settings of runs, as for `choose.keep_where`.
    cluster : str, optional
        As for `documents.compare_documents`.

    Raises
    ------
    EpidemiaError
        If a name matches no model, or a model with several runs; if nothing can be compared.
    """
    if conditions:
        before, results = results.runs, keep_where(results, conditions)
        for name in (one, other):
            if (had := runs_named(name, before)) and not runs_named(name, results.runs):
                settings = settings_of_runs(before.loc[had])[[*conditions]]
                has = "; ".join(f"{key} is {few(sorted({*of}))}" for key, of in settings.items())
                raise OptionError(
                    Option("where", conditions), f" leaves no run of {name!r}; its runs have: {has}"
                )
    answered = answered_in(results)
    sides = _find_side(one, results, answered, other), _find_side(other, results, answered, one)
    first, second = sides
    if first.name == second.name:
        raise EpidemiaError(
            f"{one!r} and {other!r} are the same model: give two models, or two runs of one"
        )
    weights = results.runs["weights"]
    is_one_model = weights[first.runs[0]] == weights[second.runs[0]]
    if is_one_model:  # the same samples are no comparison
        answers = first.answered.items()
        for task in [task for task, of in answers if second.answered.get(task) is of]:
            del first.answered[task], second.answered[task]
    silent = _find_unfit(results, sides)
    names = [first.name, second.name]
    ours, notes = _compare_groups(results, sides, silent)
    others, of_others = documents.compare_documents(first.answered, second.answered, names, cluster)
    why, of_both = _not_compared(results, sides, bool(silent))
    notes = [*list_notes(results), *notes, *of_others, *of_both]
    if not is_one_model:
        notes += [side.note for side in sides if side.note]
    if ours.table.empty and others.table.empty:
        raise EpidemiaError("\n".join(dict.fromkeys([why, *notes])))
    settings = settings_of_runs(results.runs).drop(columns=[*OF_THE_MODEL], errors="ignore")
    asked = {run: {*of["task"]} for run, of in results.scores.groupby("run")}
    couples = product(first.runs, second.runs)
    alike = (pair for pair in couples if asked.get(pair[0], set()) & asked.get(pair[1], set()))
    both = settings.loc[[*next(alike, (first.runs[0], second.runs[0]))]].items()
    unlike = {str(key): (a, b) for key, (a, b) in both if a != b}
    return Versus(first, second, ours, others, unlike, notes)


def runs_named(name: str, runs: pd.DataFrame) -> list[int]:
    """Return the runs with this name: one run, or all of a model's; empty if there are none."""
    if len(of_run := runs.index[(runs["name"] == name) & (runs["settings"] != "")]):
        return [int(of_run[0])]
    called = {
        run: [model, without_kind(model), weights.name, weights.model]
        for run, model, weights in runs[["model", "weights"]].itertuples()
    }
    exact = [run for run, names in called.items() if name in names]
    wanted = name.casefold()
    return exact or [run for run, names in called.items() if wanted in map(str.casefold, names)]


def _find_side(name: str, results: Results, answered: Sequence[AnsweredTask], rest: str) -> Side:
    """Find a model, or one of its runs; only settings that keep the `rest` are offered."""
    runs, scores = results.runs, results.scores
    if not (named := runs_named(name, runs)):
        unread = results.notes[results.notes["kind"] == "unread"]["text"]
        why = f"no model {name!r} in these results; {suggest(name, runs['model'])}"
        for kind in (kind for kind, known in RESPONDENTS.items() if known == without_kind(name)):
            why += f": run lm_eval --model epidemia-baseline --model_args kind={kind} alike"
        raise OptionError("\n".join([why, *unread]))
    models = sorted({*runs["model"][named]})
    if len({*runs["weights"][named]}) > 1:
        raise OptionError(f"{name!r} matches {' and '.join(models)}: name one of them")
    model, note, beside = models[0], "", runs_named(rest, runs)
    asked = scores[scores["run"].isin(named)]
    own = [run for run in named if run in {*asked["run"]}]
    if asked.duplicated(["task", "way"]).any():
        others = [of for of in runs["name"][own] if of != name]
        if len(others) == len(own):
            raise _several("the same survey tasks", results, own, beside)
        listed = few([*map(shlex.quote, others)])
        note = f"{name} means the run with this name; its model has others: {listed}"
        model, own = name, [run for run in own if runs["name"][run] == name]
        named = own
    elif len(named) == 1 and runs["model"].duplicated(keep=False)[named[0]]:
        model = runs["name"][named[0]]
    return Side(model, own or named, _by_task(results, named, answered, beside), note)


def _by_task(
    results: Results, runs: list[int], answered: Sequence[AnsweredTask], beside: list[int]
) -> dict[str, AnsweredTask]:
    """Return the file of each of other people's tasks: the newest with samples.

    Tasks that were run by themselves belong to a run that was run alike.
    """
    same = [key for key in ("model", "chat_template", "dtype", "backend") if key in results.runs]
    how = results.runs.groupby(same, sort=False, dropna=False).ngroup()
    alike = {*how.index[how.isin(how[runs])]}
    by_task = defaultdict(list)
    for of in answered:
        if of.run in alike:
            by_task[of.task].append(of)
    for task, several in by_task.items():
        own = [of for of in several if of.run in runs] or several
        known = [of for of in own if of.has_samples] or own
        if len({(of.run, of.version, of.limit) for of in known}) > 1:
            raise _several(task, results, [*{of.run: of for of in known}], beside)
        by_task[task] = known[-1:]
    return {task: newest for task, (newest,) in by_task.items()}


def _several(task: str, results: Results, runs: list[int], beside: list[int]) -> OptionError:
    """Say how the runs of a model differ, and how to choose each: by name, or by settings."""
    settings = settings_of_runs(results.runs).drop(columns=["model", "date"])
    apart = settings.loc[runs].loc[:, settings.loc[runs].nunique() > 1]
    others = settings.loc[[of for of in beside if of not in runs], [*apart]]
    model = results.runs["model"][runs[0]]
    parts: list[str | Option] = [f"{model} was asked {task} in {len(runs)} runs; choose one:"]
    for run, values in apart.iterrows():
        parts.append(f"\n  {shlex.quote(results.runs['name'][run])}")
        if len(values) and (others == values).all(axis="columns").any():
            parts += [", or ", Option("where", {str(key): value for key, value in values.items()})]
    if len(runs) == 1:
        parts.append("\n  or give single result files instead of their folder")
    return OptionError(*parts)


def _compare_groups(
    results: Results, sides: tuple[Side, Side], silent: Mapping[str, list[str]]
) -> tuple[Finding, list[str]]:
    """Compare two selections of runs in every group, over what both were asked in the same way."""
    scores, pool = pairs.comparable_scores(results, also_unfit=True), pool_of(results)
    rows, notes = [], []
    for group in pairs.sort_compared([*scores["group"]]):
        of = scores[scores["group"] == group]
        mine, theirs = (of[of["run"].isin(side.runs)] for side in sides)
        mute = [text for part in group.split(" + ") for text in silent.get(part, ())]
        both, shared = join_scores(mine, theirs), len(join_scores(mine, theirs, ["task", "way"]))
        if shared and " + " not in group:
            notes += mute
            if not mute and len(both) < shared:
                how = (
                    " and ".join(sorted({*of["asked_as"]} - {""})) or "everything as by default"
                    for of in (mine, theirs)
                )
                notes.append(
                    f"{group}: left out {shared - len(both)} of {shared} common tasks, which the "
                    f"two were asked differently ({' and '.join(how)})"
                )
        if not mute and (made := compare_scores(mine, theirs, pool)):
            # Versions and truths are the same of both, and say nothing to most.
            told = pairs.drop_setting(both["asked_as"], "(?:task_version|truth)")
            row = {"run": sides[0].runs[0], "other": sides[1].name, "group": group}
            row["asked_as"] = "; ".join(sorted({*told.str.replace("; ", ", ")} - {""}))
            rows.append(row | made._asdict())
    table = add_run_columns(pd.DataFrame(rows, columns=None if rows else ["run"]), results.runs)
    columns = {name: how for name, how in columns_of("pairs").items() if name not in WHO}
    title, note = f"{sides[0].name} less {sides[1].name}", FINDINGS["pairs"]["note"]
    return Finding("pairs", title, table, columns, note), notes


def _find_unfit(results: Results, sides: tuple[Side, Side]) -> dict[str, list[str]]:
    """Say by group which of the two is not compared, and why."""
    says: dict[str, list[str]] = defaultdict(list)
    for (run, group), why in pairs.find_unfit(results).items():
        if run in (*sides[0].runs, *sides[1].runs):
            says[group].append(f"{group}: not compared, as {results.runs['name'][run]} {why}")
    return says


def _not_compared(
    results: Results, sides: tuple[Side, Side], is_silent: bool
) -> tuple[str, list[str]]:
    """Say why two models cannot be compared, if so, and which tasks are not."""
    scores = [results.scores[results.scores["run"].isin(side.runs)] for side in sides]
    mine, theirs = (
        {*map(in_way, of["task"], of["way"]), *side.answered}
        for of, side in zip(scores, sides, strict=True)
    )
    notes = [
        f"left out: {plural(len(alone), 'task')} that only {side.name} was asked "
        f"({few(sorted(alone))})"
        for side, alone in zip(sides, (mine - theirs, theirs - mine), strict=True)
        if alone
    ]
    unseen = {t for side in sides for t, of in side.answered.items() if not of.has_samples}
    if without := sorted(unseen & mine & theirs):
        notes.append(
            f"not compared: {few(without)}: samples of both are missing; run them again with "
            "--log_samples"
        )
    both = f"{sides[0].name} and {sides[1].name}"
    why = f"{both} share no task: run both on the same tasks, and tasks of others with"
    if mine & theirs:
        why = f"{both} were asked no task in the same way: run both alike, and tasks of others with"
    why += " --log_samples"
    shared = sorted({*scores[0]["group"]} & {*scores[1]["group"]})
    if predicted := [group for group in shared if list_groups()[group].predicts]:
        why = f"{few(predicted)} only predicts scores, so it is not compared: run epidemia_low and "
        why += "epidemia_high with both"
        notes.append(why)
    return f"{both} cannot be compared" if is_silent else why, notes
