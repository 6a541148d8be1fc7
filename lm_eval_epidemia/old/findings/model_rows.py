"""One row per model, best first: the means of a benchmark's groups, with context.

A row is a run of a model: for each model the run with most answers, then the others. Runs with the
same prompts and task version are grouped, and ranked only within their group.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import OBSERVATION, groups
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.old.findings.leaderboard import CHANGED, TOGETHER, Report
from lm_eval_epidemia.old.findings.means import (
    answers,
    choice_mass,
    group_mean,
    interval_of,
    is_silent,
    tasks_in,
    worth,
)
from lm_eval_epidemia.old.findings.overview import ranks
from lm_eval_epidemia.old.findings.reference import AVERAGES, UNIFORM, known_scores
from lm_eval_epidemia.old.findings.tuned import TunedRun
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.models import (
    Model,
    chips,
    is_respondent,
    models_of,
    together,
)
from lm_eval_epidemia.results.naming import respondent, with_settings

#: How far a reference may be from that of other prompts before it counts as another.
ROUNDING = 0.05

#: Beginnings of the settings on which it depends what a reference respondent comes to.
OF_REFERENCES = ("limit ", "incomplete", "n_samples", "task version ", "another truth")


#: Said of a model among whose training texts are tasks that it was asked.
TRAINED = "trained on it"


class Doubt(NamedTuple):
    """Why a mean may be wrong.

    Attributes
    ----------
    results : int
        Number of result files with the same settings: one, plus those with a different mean.
    differ : float
        Largest difference between the older means and this one.
    changed : bool
        Whether scores do not match their distances.
    """

    results: int = 1
    differ: float = 0.0
    changed: bool = False

    @property
    def marks(self) -> list[str]:
        """The mark after the mean."""
        return ["*"] * bool(self.differ) + ["‡"] * self.changed


class Cell(NamedTuple):
    """The result of a run in a group.

    Attributes
    ----------
    mean : Number
    low, high : float
        Its mean ± 1.96 standard errors, within the scale.
    known, guessed : float
        Scores of the respondents that know averages only and that guess, on the same questions; NaN
        if unknown.
    rank : str
    doubt : Doubt
    """

    mean: Number
    low: float
    high: float
    known: float
    guessed: float
    rank: str
    doubt: Doubt = Doubt()


class ModelRow(NamedTuple):
    """A run of a model.

    Attributes
    ----------
    model : Model
    run : Entry
    place : int
        0: the model's main run.
    chips : tuple of str
    cells : dict of str to Cell
        By group.
    choice_mass : float
        Mean over the tasks of the group where it is lowest, of those in `TOGETHER` if any was
        asked; NaN if unknown.
    others : dict of str to float
        Other tasks of lm-eval, with or without scores of ours.
    """

    model: Model
    run: Entry
    place: int
    chips: tuple[str, ...]
    cells: dict[str, Cell]
    choice_mass: float
    others: dict[str, float]

    @property
    def silent(self) -> bool:
        """Whether the model answers in none of the groups."""
        return not any(answers(self.run, column) for column in self.cells)


def doubts(rows: Iterable[ModelRow], digits: int) -> list[str]:
    """Explain the marks after means."""
    several = [cell.doubt for row in rows for cell in row.cells.values() if cell.doubt.marks]
    says = []
    if differ := max((doubt.differ for doubt in several), default=0.0):
        most = max(doubt.results for doubt in several)
        says.append(
            f"*: {most} results with the same settings differ by {differ:.{digits}f}: the newest "
            "one counts."
        )
    if any(doubt.changed for doubt in several):
        says.append(CHANGED)
    return says


def parts_of(run: Entry) -> tuple[Entry, ...]:
    """Return the entries of a report that make up a run."""
    return run.parts or (run,)


def plain_names(report: Report) -> dict[str, str]:
    """Return the names of a report's rows on its pages, by entry name.

    Reference respondents are named by their knowledge; settings appear only if a model has several
    rows.
    """
    names: dict[str, str] = {}
    for model in models_of(report.entries):
        rows = [part for run in model.runs for part in parts_of(run)]
        for row in rows:
            name = with_settings(model.name, chips(row) if len(rows) > 1 else ())
            names[row.name] = name if name not in names.values() else row.name
    return names


def _cell(report: Report, run: Entry, group: str, known: Sequence[dict[Asked, float]]) -> Cell:
    mean, tasks = group_mean(run, group), tasks_in(run, group)
    standings = [
        standing
        for part in parts_of(run)
        if (standing := report.standings[group].get(part.name)) is not None
    ]
    averages, guesses = (
        math.fsum(of.get(asked, math.nan) for asked in tasks) / len(tasks) for of in known
    )
    return Cell(
        mean,
        *interval_of(mean, groups()[group].measure),
        averages,
        guesses,
        ranks(standings[0]) if len(standings) == 1 else "",
        doubt_of(report, run, group),
    )


def doubt_of(report: Report, run: Entry, group: str) -> Doubt:
    """Return why the mean of a run in a group may be wrong.

    This recomputes the mean with each older file's scores in place of the newest.
    """
    tasks = tasks_in(run, group)
    by: dict[Path, float] = defaultdict(float)
    for asked, score in run.older:
        if asked in tasks and not math.isnan(score.value):
            by[score.source] += (score.value - run.scores[asked].value) / len(tasks)
    differ = [abs(x) for x in by.values() if round(abs(x), groups()[group].digits)]
    return Doubt(1 + len(differ), max(differ, default=0.0), report.is_changed(run, group))


def row_of(
    report: Report, model: Model, run: Entry, columns: Sequence[str], place: int = 0
) -> ModelRow:
    """Return the row of a run, over a benchmark's groups."""
    asked = {c: tasks for c in columns if (tasks := tasks_in(run, c))}
    ran = [entry for entry in report.runs if is_respondent(entry)]
    known = [known_scores(run, ran, kind) for kind in (AVERAGES, UNIFORM)]
    # Settings of what was asked in other groups are not said.
    here = [part for part in parts_of(run) if any(tasks_in(part, c) for c in columns)]
    others = model.others if place == 0 else run.others
    letters = [column for column in asked if column in TOGETHER] or asked
    masses = [choice_mass(run, asked[column]) for column in letters]
    beside = any(groups()[c] is OBSERVATION for c in columns) or all(
        leaf(task).group in columns for task in run.scores
    )
    return ModelRow(
        model,
        run,
        place,
        (
            *[TRAINED] * any(trained_on(report, run, tasks) for tasks in asked.values()),
            *chips(run if len(here) == len(parts_of(run)) else together(here)),
        ),
        {column: _cell(report, run, column, known) for column in asked},
        min((mass for mass in masses if not math.isnan(mass)), default=math.nan),
        others if beside else {},
    )


def cards_of(report: Report, run: Entry) -> list[TunedRun]:
    """Return the parts of a run whose model has a training card, with the cards."""
    return [
        tuned
        for tuned in report.tuned
        if tuned.card and any(tuned.entry is part for part in parts_of(run))
    ]


def trained_on(report: Report, run: Entry, tasks: Iterable[Asked]) -> list[Asked]:
    """Return the tasks that a tuned model was trained on, according to its card."""
    cards = [tuned.card for tuned in cards_of(report, run) if tuned.card]
    seen = {task for card in cards for task in card.dataset.tasks}
    return [asked for asked in tasks if asked.task in seen]


def asked_share(run: Entry, columns: Iterable[str]) -> float:
    """Count the tasks of groups that a run was asked, weighted by the share asked."""
    return math.fsum(run.scores[asked].seen for c in columns for asked in tasks_in(run, c))


def runs_in_order(
    models: Iterable[Model], columns: Sequence[str]
) -> list[tuple[Model, list[Entry]]]:
    """Return the models that were asked groups, the best first, each with its runs.

    A model's place is that of its first run: one that it answers, with most tasks. Models asked in
    the same way are together, starting with the way in which most was asked; models asked fewer
    tasks are below. Published scores come after runs, models that do not answer last.
    """
    asked = []
    for model in models:
        runs = [run for run in model.runs if any(tasks_in(run, column) for column in columns)]
        if runs:
            runs.sort(key=lambda run: (is_silent(run, columns), -asked_share(run, columns)))
            asked.append((model, runs))
    alike: dict[Any, list[Entry]] = defaultdict(list)
    for _, runs in asked:
        alike[asked_as(runs[0], columns)].append(runs[0])
    share = {how: max(asked_share(run, columns) for run in runs) for how, runs in alike.items()}
    most = {
        (how, column): max(len(tasks_in(run, column)) for run in runs)
        for how, runs in alike.items()
        for column in columns
    }

    def order(pair: tuple[Model, list[Entry]]) -> tuple[Any, ...]:
        run = pair[1][0]
        how = asked_as(run, columns)
        return (
            is_silent(run, columns),
            run.reference,
            -share[how],
            -len(alike[how]),
            sorted(map(str, how)),
            [(len(tasks_in(run, c)) < most[how, c], worth(run, c)) for c in columns],
        )

    return sorted(asked, key=order)


def asked_as(run: Entry, columns: Sequence[str]) -> frozenset[Any]:
    """Return the prompts and task version in which a run was asked the first of its groups."""
    first = next(tasks for column in columns if (tasks := tasks_in(run, column)))
    return frozenset(run.part(asked).protocol for asked in first)


def model_rows(report: Report, columns: Sequence[str]) -> list[ModelRow]:
    """Return the rows of a benchmark, see `runs_in_order`, followed by reference respondents.

    Parameters
    ----------
    report : Report
    columns : sequence of str
        Its groups, the most important first.
    """
    rows = [
        row_of(report, model, run, columns, place)
        for model, runs in runs_in_order(models_of(report.entries), columns)
        for place, run in enumerate(runs)
    ]
    # Published scores alone are no run that respondents could stand beside.
    if any(not row.run.reference and not is_respondent(row.run) for row in rows):
        rows.sort(key=lambda row: is_respondent(row.run))
    return [*rows, *without_run(reference_rows(rows, AVERAGES), rows)]


def reference_rows(rows: Iterable[ModelRow], kind: str) -> list[ModelRow]:
    """Return a reference respondent's row for every cut of the runs, the broadest first.

    It has the respondent's scores on the prompts of the run with most tasks in that cut.
    """
    cuts: dict[tuple[str, ...], dict[str, Cell]] = {}
    for row in sorted(rows, key=lambda row: -asked_share(row.run, row.cells)):
        cut = tuple(chip for chip in row.chips if chip.startswith(OF_REFERENCES))
        for column, cell in row.cells.items():
            value = cell.known if kind == AVERAGES else cell.guessed
            if not math.isnan(value):
                mean = Number(value, tasks=cell.mean.tasks)
                own = Cell(mean, value, value, cell.known, cell.guessed, "")
                cuts.setdefault(cut, {}).setdefault(column, own)
    run = Entry(RESPONDENTS[kind], reference=True)
    model = Model(respondent(kind), run.weights, (run,))
    return [ModelRow(model, run, 0, cut, cells, math.nan, {}) for cut, cells in cuts.items()]


def without_run(references: Iterable[ModelRow], rows: Iterable[ModelRow]) -> list[ModelRow]:
    """Leave out references that were also run with the same scores, which already have a row."""
    ran = [
        (row.model.name, column, cell.mean.value)
        for row in rows
        if is_respondent(row.run)
        for column, cell in row.cells.items()
    ]

    def is_there(name: str, column: str, cell: Cell) -> bool:
        return any(
            (name, column) == own[:2] and abs(own[2] - cell.mean.value) < ROUNDING for own in ran
        )

    left = [
        row._replace(
            cells={c: x for c, x in row.cells.items() if not is_there(row.model.name, c, x)}
        )
        for row in references
    ]
    return [row for row in left if row.cells]
