"""Read the answers of runs, cell by cell, from the samples beside their results."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS, in_way
from lm_eval_epidemia.benchmarks.observation.measured import Part, part_of
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.old.findings.rows import Cell, Row
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.protocol import printable
from lm_eval_epidemia.results.samples import TaskAnswers, elicited, sample_file

T = TypeVar("T")

#: Tasks whose answers are of use beside their truth.
LETTERS = "tasks with letters or likelihoods, such as epidemia_low"

#: What was answered, by entry and task.
Samples = dict[tuple[str, Asked], TaskAnswers]


def _read(job: tuple[str, Asked, Any]) -> tuple[str, Asked, TaskAnswers | str | None]:
    name, asked, path = job
    try:
        return name, asked, elicited(path, asked)
    except EpidemiaError as error:
        return name, asked, str(error)


def read_samples(report: Report, tasks: Iterable[Asked] | None = None) -> tuple[Samples, list[str]]:
    """Read the samples of all runs, in parallel.

    Parameters
    ----------
    report : Report
    tasks : iterable of Asked, optional
        All if not given.

    Returns
    -------
    samples : dict
    notes : list of str
        What could not be read, per entry.
    """
    wanted = None if tasks is None else set(tasks)
    about = [
        (entry, asked, sample_file(score.source, asked))
        for entry in report.runs
        for asked, score in entry.scores.items()
        if WAYS[asked.way].distribution is not None and (wanted is None or asked in wanted)
    ]
    missing = [entry.name for entry, _, path in about if not path]
    notes = []
    if missing:
        names, number = few(list(dict.fromkeys(missing))), plural(len(missing), "task")
        notes.append(f"{names}: no samples for {number}, so no cells; run with --log_samples")
    # The largest first, so that no process is left alone with one at the end.
    jobs = [(entry.name, asked, path) for entry, asked, path in about if path]
    jobs.sort(key=lambda job: -job[2].stat().st_size)
    workers = min(os.cpu_count() or 1, len(jobs))
    scores = {(entry.name, asked): entry.scores[asked] for entry, asked, _ in about}
    samples: Samples = {}
    console = Console(stderr=True)
    with ProcessPoolExecutor(max(1, workers)) as pool:
        done = pool.map(_read, jobs) if workers > 1 else map(_read, jobs)
        # Where nobody watches, all that would be left of the bar is an empty line.
        unseen = not console.is_terminal
        shown = track(done, "Samples", len(jobs), console=console, transient=True, disable=unseen)
        for name, asked, answers in shown:
            if isinstance(answers, str):
                notes.append(f"{name}: {answers}")
            elif answers is not None:
                samples[name, asked] = answers
            elif not math.isnan(scores[name, asked].value):
                notes.append(
                    f"{name}: the samples of {in_way(*asked)} have no complete cell, or "
                    "log-probabilities that are not finite, yet the result file has a score"
                )
    for (name, asked), score in scores.items():
        answers = samples.get((name, asked))
        if answers is not None and not math.isclose(answers.l1, score.l1, abs_tol=1e-6):
            notes.append(
                f"{name}: the samples of {in_way(*asked)} give a distance of {answers.l1:.6f}, "
                f"but the result file says {score.l1:.6f}: one of them was changed"
            )
    return samples, [printable(note) for note in notes]


def read(
    report: Report, wanted: Callable[[Asked], bool], use: str, drawn: bool = False
) -> tuple[Samples, list[str]]:
    """Read the samples of survey tasks, and say for which runs they cannot be used.

    Parameters
    ----------
    report : Report
    wanted : callable
        Selects tasks.
    use : str
        The use of the answers: "recalibrated".
    drawn : bool
        Whether drawn answers can be used. They differ from their distribution, and between cells,
        by chance.

    Returns
    -------
    samples : dict
        In the order of the report's runs and of their tasks.
    notes : list of str
        What is left out: samples that are missing, unreadable or not usable.
    """
    asked = {
        (entry.name, task): task
        for entry in report.runs
        for task in sorted(entry.scores)
        if leaf(task).benchmark is OBSERVATION and wanted(task)
    }
    here, notes = read_samples(report, asked.values())
    of_use = {key: own for key, own in here.items() if drawn or own.counts is None}
    if unasked := {entry.name for entry in report.runs} - {name for name, _ in asked}:
        notes.append(printable(f"{few(sorted(unasked))}: no task that can be {use} was asked"))
    if by_chance := {name for name, _ in here.keys() - of_use}:
        names = few(sorted(by_chance))
        notes.append(printable(f"{names}: drawn answers vary by chance, so they are not {use}"))
    return {key: of_use[key] for key in asked if key in of_use}, notes


def required(made: list[T], use: str, tasks: str, notes: Sequence[str]) -> list[T]:
    """Return what was made from samples; if there is nothing, say what to run.

    Parameters
    ----------
    made : list
    use : str
        The purpose: "recalibrate".
    tasks : str
        The tasks that can be used.
    notes : sequence of str
        What was left out.

    Raises
    ------
    EpidemiaError
        With a line on what is needed, and the notes.
    """
    if not made:
        needed = f"no answers to {use}: run lm_eval with --log_samples on {tasks}"
        raise EpidemiaError("\n".join([needed, *notes]))
    return made


class Answered(NamedTuple):
    """The tasks of a group that one model answered.

    Attributes
    ----------
    entry : Entry
    group : str
    tasks : dict of Asked to (Part, Elicited)
        The completely asked cells, and the elicited answers.
    """

    entry: Entry
    group: str
    tasks: dict[Asked, tuple[Part, Elicited]]


class Respondent(NamedTuple):
    """Answers to the tasks of a group, by a model or a known respondent.

    Attributes
    ----------
    entry : Entry or None
        None for a known respondent.
    who : str
        The respondent's name.
    group : str
    tasks : dict of Asked to (Part, Elicited)
    """

    entry: Entry | None
    who: str
    group: str
    tasks: dict[Asked, tuple[Part, Elicited]]

    def row(
        self,
        cells: Mapping[str, Cell],
        name: str = "",
        facts: Mapping[str, object] | None = None,
        long: bool = False,
    ) -> Row:
        """Return a row for this respondent, named by the group unless `name` is given."""
        model: dict[str, Cell] = {} if self.entry else {"model": f"{self.who} (baseline)"}
        known: dict[str, object] = {} if self.entry else {"model": self.who, "reference": True}
        facts = {"tasks": len(self.tasks)} | known | {**(facts or {})}
        named = {"group": self.group} | model | {**cells}
        return Row(named, self.entry, self.group, name or self.group, facts, long=long)


def by_group(report: Report, samples: Samples) -> list[Answered]:
    """Join answers with their truths, by model and group, in the report's order."""
    groups: dict[tuple[str, str], Answered] = {}
    for entry in report.runs:
        for asked in sorted(entry.scores):
            if (own := samples.get((entry.name, asked))) is not None:
                group = leaf(asked).group
                here = groups.setdefault((entry.name, group), Answered(entry, group, {}))
                here.tasks[asked] = beside_truth(asked, own)
    return list(groups.values())


def read_groups(
    report: Report, fits: Callable[[Part], object], use: str, tasks: str
) -> tuple[list[Answered], list[str]]:
    """Read the samples of some kind of tasks, with their truths.

    Parameters
    ----------
    report : Report
    fits : callable
        Tells whether a task, or its asked part, is of that kind.
    use, tasks : str
        See `required`; the verb of `use` is regular.

    Returns
    -------
    groups : list of Answered
    notes : list of str
        What is left out; see `read`.

    Raises
    ------
    EpidemiaError
        If no run was asked such tasks, with samples.
    """

    @cache
    def is_of_use(asked: Asked) -> bool:
        return bool(fits(part_of(WAYS[asked.way].load(asked.task))))

    verb, *more = use.split(" ")
    samples, notes = read(report, is_of_use, " ".join([f"{verb}d", *more]))
    groups = [
        group._replace(tasks=of_use)
        for group in by_group(report, samples)
        if (of_use := {asked: task for asked, task in group.tasks.items() if fits(task[0])})
    ]
    return required(groups, use, tasks, notes), notes


def with_known(
    groups: Sequence[Answered], known: Mapping[str, Callable[[Part], Array]]
) -> Iterator[Respondent]:
    """Yield models, then known respondents on every task that some model was asked.

    If a task was asked in parts, take the largest part.
    """
    yield from (Respondent(group.entry, "", group.group, group.tasks) for group in groups)
    for name in dict.fromkeys(group.group for group in groups):
        parts: dict[Asked, Part] = {}
        for group in groups:
            if group.group == name:
                for asked, (part, _) in group.tasks.items():
                    parts[asked] = max(parts.get(asked, part), part, key=lambda of: len(of.p))
        for who, answers in known.items():
            tasks = {asked: (part, Elicited(answers(part))) for asked, part in parts.items()}
            yield Respondent(None, who, name, tasks)


def beside_truth(
    asked: Asked, answers: TaskAnswers, cells: Sequence[int] | None = None
) -> tuple[Part, Elicited]:
    """Join the answers in some or all cells with the truth of these cells.

    Parameters
    ----------
    asked : Asked
    answers : TaskAnswers
    cells : sequence of int, optional
        Numbers of answered cells, in ascending order; all by default.
    """
    truth = WAYS[asked.way].load(asked.task)
    cells = answers.cells if cells is None else cells
    at = np.searchsorted(answers.cells, cells)
    by_order = None if answers.by_order is None else answers.by_order[at]
    counts = None if answers.counts is None else answers.counts[at]
    part = part_of(truth, np.isin(np.arange(len(truth.weights)), cells))
    return part, Elicited(answers.q[at], by_order, counts)
