"""One row per model, sorted by score: the means of a benchmark's groups beside what they are read with.

A row is a run of a model: of each model the run that answered most, then the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import WAYS, Benchmark, groups
from lm_eval_epidemia.findings.finding import Number
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.means import REACH, group_mean, tasks_in
from lm_eval_epidemia.findings.overview import ranks
from lm_eval_epidemia.findings.reference import asked_of
from lm_eval_epidemia.results.entry import Asked, Entry
from lm_eval_epidemia.results.models import Model, chips, models_of

#: Below it, a model does not answer with the letters that it is asked for.
SILENT = 0.1

#: What groups are, in plain words.
PLAIN = {
    "epidemia_low": "single condition",
    "epidemia_high": "two to five conditions",
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


class BoardRow(NamedTuple):
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
        """Whether the model hardly answers."""
        return self.choice_mass < SILENT


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


def mass_of(run: Entry) -> float:
    """Average how much probability a run gave to the letters it was asked for; NaN if unknown."""
    values = [
        mass
        for asked, score in run.scores.items()
        if not math.isnan(mass := score.metrics.get("choice_mass", math.nan))
        and WAYS[asked.way].distribution is not None
    ]
    return math.fsum(values) / len(values) if values else math.nan


def board(report: Report, columns: Sequence[str]) -> list[BoardRow]:
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

    def order(rows: list[BoardRow]) -> list[float]:
        # Blanks last, in each group in turn.
        cells = rows[0].cells
        return [-cells[c].mean.value if c in cells else math.inf for c in columns]

    return [row for rows in sorted(models, key=order) for row in rows]


def _rows(report: Report, model: Model, columns: Sequence[str]) -> Iterator[BoardRow]:
    runs = sorted(model.runs, key=lambda run: -sum(len(tasks_in(run, c)) for c in columns))
    for place, run in enumerate(runs):
        known = known_scores(report, run)
        cells = {c: _cell(report, run, c, known) for c in columns if tasks_in(run, c)}
        others = model.others if place == 0 else run.others
        yield BoardRow(model, run, place, chips(run), cells, mass_of(run), others)


def by_importance(report: Report, benchmark: Benchmark, columns: Sequence[str]) -> list[str]:
    """Order the groups of a benchmark: that which most models were asked first."""
    asked = {
        column: sum(bool(tasks_in(entry, column)) for entry in report.runs) for column in columns
    }
    plain = [c for c in columns if c in benchmark.groups]
    return sorted(columns, key=lambda c: (c not in plain, -asked[c], columns.index(c)))


def verdict(rows: Sequence[BoardRow], columns: Sequence[str], benchmark: Benchmark) -> str:
    """Say in a sentence what the best model comes to, beside what it is to be read with."""
    models = [row for row in rows if row.place == 0 and not row.run.reference]
    ours = [row for row in models if not row.run.weights.model.startswith("epidemia-baseline")]
    first = next((row for row in ours or models if columns[0] in row.cells), None)
    first = first or next(iter(ours or models), None)
    if first is None:
        return ""
    column = next(c for c in columns if c in first.cells)
    said = _SENTENCES.get(benchmark.name, _of_score)(first, column, benchmark)
    best = f"The best of {len(ours or models)} models: " if len(ours or models) > 1 else ""
    silent = " It hardly answers: its choice mass is below 0.1." if first.silent else ""
    return f"{best}{said}.{silent}"


def _of_score(row: BoardRow, column: str, benchmark: Benchmark) -> str:
    digits, cell = benchmark.digits, row.cells[column]
    said = f"{row.model.name} gets {cell.mean.value:.{digits}f} of 100 on {_of(column)}"
    more = [c for c in row.cells if c != column and c in benchmark.groups]
    for other in more[:1]:
        said += f" and {row.cells[other].mean.value:.{digits}f} on {_of(other)}"
    if not math.isnan(cell.known):
        said += f"; who knows averages only gets {cell.known:.{digits}f}, who guesses 0"
    return said


def _of_effects(row: BoardRow, column: str, benchmark: Benchmark) -> str:
    value = row.cells[column].mean.value
    return (
        f"{row.model.name} answers {value:.{benchmark.digits}f} of the questions on causal graphs "
        "rightly" + ("; who ignores the intervention 0.682" * (column == "epidemia_intervention"))
    )


def _of_priors(row: BoardRow, column: str, benchmark: Benchmark) -> str:
    value = row.cells[column].mean.value
    return (
        f"{row.model.name} is nearer to the truth than 5 real answers on "
        f"{value:.{benchmark.digits}f} of the quantities"
    )


_SENTENCES = {"intervention": _of_effects, "prior": _of_priors}


def _of(column: str) -> str:
    name = plain_name(column)
    return name.replace("single condition", "single conditions")
