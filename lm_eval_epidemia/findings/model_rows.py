"""One row per model, best first: the means of a benchmark's groups, and what to read them with.

A row is a run of a model: of each model the run that answered most, then the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import Benchmark, groups
from lm_eval_epidemia.findings.boards import WORDS
from lm_eval_epidemia.findings.finding import Number
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.means import REACH, answers, choice_mass, group_mean, tasks_in
from lm_eval_epidemia.findings.overview import ranks
from lm_eval_epidemia.findings.reference import asked_of, cut_of, references
from lm_eval_epidemia.results.entry import Asked, Entry
from lm_eval_epidemia.results.models import RESPONDENTS, Model, chips, models_of

#: What groups are, in plain words.
PLAIN = {
    **WORDS,
    "epidemia_extra": "more tasks",
    "epidemia_marginal": "no condition",
    "epidemia_joint": "two answers at once",
    "epidemia_fresh": "fresh tasks",
}


class Cell(NamedTuple):
    """What a run came to in a group.

    Attributes
    ----------
    mean : Number
    low, high : float
        Its mean ± 1.96 standard errors, within the scale.
    known : float
        What the respondent that knows averages only comes to, asked the same; NaN where that is
        not known.
    rank : str
    """

    mean: Number
    low: float
    high: float
    known: float
    rank: str


class ModelRow(NamedTuple):
    """A run of a model.

    Attributes
    ----------
    model : Model
    run : Entry
    place : int
        0: the run that stands for its model.
    chips : tuple of str
    cells : dict of str to Cell
        By group.
    choice_mass : float
        Mean over the tasks asked by letters; NaN where it is not known.
    others : dict of str to float
        Other tasks of lm-eval.
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


def parts_of(run: Entry) -> tuple[Entry, ...]:
    """Return the entries of a report that a run is put together from."""
    return run.parts or (run,)


def plain_names(report: Report) -> dict[str, str]:
    """Return what the rows of a report are called on its pages, by their names.

    A reference respondent by what it knows; settings only where a model has several rows.
    """
    names: dict[str, str] = {}
    for model in models_of(report.entries):
        rows = [part for run in model.runs for part in parts_of(run)]
        for row in rows:
            settings = f" ({', '.join(chips(row))})" if len(rows) > 1 and chips(row) else ""
            name = model.name + settings
            names[row.name] = name if name not in names.values() else row.name
    return names


def plain_name(group: str) -> str:
    """Say what a group is: "single condition", "single condition, likelihood"."""
    for name, says in PLAIN.items():
        if group.startswith(name):
            way = group.removeprefix(name).strip("_").replace("_", " ")
            return says + (f", {way}" if way else "")
    return group.removeprefix("epidemia_").replace("_", " ")


def known_scores(report: Report, run: Entry) -> dict[Asked, float]:
    """Return what who knows averages only scores in the tasks of a run, asked the same.

    Where the truth that the run was scored by is not the installed one, it is what that respondent
    scored in the same results, if it was asked in the same way.
    """
    asked_too = [
        entry for entry in report.runs if entry.weights.model == "epidemia-baseline kind=mean"
    ]
    known = {}
    for part in parts_of(run):
        alike = [entry for entry in asked_too if entry.protocol == part.protocol]
        for asked in part.scores:
            score = asked_of(part, asked)
            if score is None:
                score = next((e.scores[asked] for e in alike if asked in e.scores), None)
            if score is not None:
                known[asked] = score.value
    return known


def _cell(report: Report, run: Entry, group: str, known: dict[Asked, float]) -> Cell:
    mean, measure = group_mean(run, group), groups()[group].measure
    tasks = tasks_in(run, group)
    values = [known[asked] for asked in tasks if asked in known]
    reach = 0.0 if math.isnan(mean.error) else REACH * mean.error
    standings = [
        standing
        for part in parts_of(run)
        if (standing := report.standings[group].get(part.name)) is not None
    ]
    return Cell(
        mean,
        max(mean.value - reach, measure.low),
        min(mean.value + reach, measure.high),
        math.fsum(values) / len(tasks) if len(values) == len(tasks) else math.nan,
        ranks(standings[0]) if len(standings) == 1 else "",
    )


def model_rows(report: Report, columns: Sequence[str]) -> list[ModelRow]:
    """Return the rows of a benchmark, best first: who was asked the first group before the rest.

    Parameters
    ----------
    report : Report
    columns : sequence of str
        Its groups, that which counts first in front.
    """
    models = []
    for model in models_of(report.entries):
        rows = [row for row in _rows(report, model, columns) if row.cells]
        # The run that answered most of this benchmark stands for the model.
        models += [[row._replace(place=place) for place, row in enumerate(rows)]] if rows else []

    models += [[row] for row in _references(report, columns)]

    def order(rows: list[ModelRow]) -> list[float]:
        # Blanks last, in each group in turn.
        cells = rows[0].cells
        return [-cells[c].mean.value if c in cells else math.inf for c in columns]

    return [row for rows in sorted(models, key=order) for row in rows]


def _references(report: Report, columns: Sequence[str]) -> Iterator[ModelRow]:
    """Return a row of who knows averages only for every cut of runs, if it was not run so."""
    name = f"{RESPONDENTS['mean']} (kind=mean)"
    ran = {
        (entry.protocol, column)
        for entry in report.runs
        if entry.weights.model == "epidemia-baseline kind=mean"
        for column in columns
        if tasks_in(entry, column)
    }
    for entry in references(report.runs):
        cells = {
            c: _cell(report, entry, c, {})
            for c in columns
            if tasks_in(entry, c) and (entry.protocol, c) not in ran
        }
        if cells:
            cut = cut_of(entry)
            model = Model(name, entry.weights, (entry,))
            yield ModelRow(model, entry, 0, (cut,) if cut else (), cells, math.nan, {})


def _rows(report: Report, model: Model, columns: Sequence[str]) -> Iterator[ModelRow]:
    runs = sorted(model.runs, key=lambda run: -sum(len(tasks_in(run, c)) for c in columns))
    for place, run in enumerate(runs):
        known = known_scores(report, run)
        cells = {c: _cell(report, run, c, known) for c in columns if tasks_in(run, c)}
        others = model.others if place == 0 else run.others
        yield ModelRow(model, run, place, chips(run), cells, choice_mass(run, run.scores), others)


def by_importance(report: Report, benchmark: Benchmark, columns: Sequence[str]) -> list[str]:
    """Order the groups of a benchmark as usual, those last that fewer than half were asked."""
    asked = {
        column: sum(bool(tasks_in(entry, column)) for entry in report.runs) for column in columns
    }
    most = max(asked.values(), default=0)
    plain = [c for c in columns if c in benchmark.groups]
    return sorted(columns, key=lambda c: (c not in plain, 2 * asked[c] < most, columns.index(c)))
