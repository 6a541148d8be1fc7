"""The published models on causal graphs: numbers from the study's tables, to compare with runs.

``published_interventions.csv`` has a row per printed number: table, way of asking, model, source of
names, graph, intervened variable, effects in the mean, accuracy and standard error. A blank is a
value that the table does not separate or print.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import INTERVENTION, in_way
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, QUERIES
from lm_eval_epidemia.benchmarks.intervention.questions import TASKS
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore
from lm_eval_epidemia.results.protocol import Protocol

MARK = (
    "printed by Kasetty et al. (2024); other wording, written answers, asked up to ten times; "
    "weighted over the 22 effects, where ignoring interventions scores .682"
)

#: What is said of published rows in a table of the report, by its kind.
_WHOLE = " (published): printed by the study; {} Errors as printed; its means have none."
_MIXED = _WHOLE.format(
    "its analysis confused the order of queries with that of interventions, so a number printed "
    "for one intervened variable mixes those of its graph. Means over a graph, and over the 22 "
    "effects, are right."
)
NOTES = {
    "interventions": _WHOLE.format("weighted over the 22 effects."),
    "retrieval": _WHOLE.format("random names only."),
    **dict.fromkeys(("effect", "shortcut", "memorisation"), _MIXED),
}

#: Which tables of the study have what a table of the report shows.
TABLES = {
    "interventions": ("7", "10"),
    "effect": ("7", "10"),
    "shortcut": ("3",),
    "memorisation": ("8",),
    "retrieval": ("9",),
}

#: Of the contrasts, the one that averages two queries; of the others only one is in question.
_QUERIES = {"bivariate, do(B)": "AB and BA"}


class Printed(NamedTuple):
    """A number of the study, with the columns of the file."""

    table: str
    way: str
    model: str
    names: str
    graph: str
    intervened: str
    effects: str
    number: Number


@lru_cache(maxsize=1)
def printed() -> tuple[Printed, ...]:
    """Return every printed number of the study."""
    text = (files(__package__) / "published_interventions.csv").read_text(encoding="utf-8")
    numbers = []
    for row in csv.DictReader(text.splitlines()):
        accuracy, error = float(row.pop("accuracy")), row.pop("standard_error")
        numbers.append(Printed(**row, number=Number(accuracy, float(error or "nan"))))
    return tuple(numbers)


def _asked_as(asked: Asked) -> tuple[str, str]:
    """Return the study's names for a way of asking and a source of names; empty if it has none."""
    way = asked.way.removesuffix("_written")
    task = TASKS.get(asked.task)
    names = task.names if task and task.nodes is None else ""
    return "plain" if way == INTERVENTION.plain.name else way, names


def _weight(row: Printed) -> int:
    """Return the number of effects, or relations, per sample in a printed mean."""
    if row.way == "knowledge":
        return 1
    if row.way == "retrieval":
        return math.perm(len(GRAPHS[row.graph].nodes), 2)
    return len(QUERIES[row.graph])


def weighted(rows: Sequence[Printed]) -> Number:
    """Average printed numbers, weighted by their effects; the error is unknown."""
    total = sum(map(_weight, rows))
    return Number(math.fsum(_weight(row) * row.number.value for row in rows) / total)


def entries(tasks: Iterable[Asked]) -> list[Entry]:
    """Return the published models' accuracies in the given tasks.

    Parameters
    ----------
    tasks : iterable of Asked
        Others are left out. The study's models wrote their answers, and are compared with both
        kinds of answers.

    Returns
    -------
    list of Entry
        Marked as references, without errors.
    """
    by_model: dict[str, Entry] = {}
    for asked in sorted(tasks):
        rows = [r for r in printed() if (r.way, r.names) == _asked_as(asked) and r.effects == "all"]
        for model in dict.fromkeys(row.model for row in rows):
            plainly = Entry(model, protocol=Protocol(published=True), reference=True)
            number = weighted([row for row in rows if row.model == model])
            by_model.setdefault(model, plainly).scores[asked] = TaskScore(number.value)
    return list(by_model.values())


def cells(entry: Entry, kind: str) -> Iterator[tuple[str, str, dict[str, Number]]]:
    """Yield the cells of a published model in a table of the report.

    Parameters
    ----------
    entry : Entry
        One of `entries`.
    kind : str
        The table, as in `TABLES`; nothing is yielded for others.

    Yields
    ------
    group, about : str
    cells : dict of str to Number
        By the names of the table's columns.
    """
    for way in dict.fromkeys(asked.way for asked in entry.scores):
        asked_as = {_asked_as(asked) for asked in entry.scores if asked.way == way}
        rows = [
            row
            for row in printed()
            if row.model == entry.model
            and row.table in TABLES.get(kind, ())
            and (row.way, row.names) in asked_as
        ]
        group = in_way(INTERVENTION.groups[0], way)
        if kind == "interventions" and rows:
            by_names = [score.value for a, score in entry.scores.items() if a.way == way]
            yield group, "", {"accuracy": Number(math.fsum(by_names) / len(by_names))}
        elif kind == "retrieval" and rows:
            by_graph = {row.graph: row.number for row in rows}
            yield group, "", {"random names": weighted(rows), **by_graph}
        else:
            abouts: dict[str, dict[str, Number]] = {}
            for row in rows:
                about = f"{row.graph}, do({row.intervened})"
                if kind == "memorisation":
                    about = f"{about}, {_QUERIES.get(about, 'AC')}"
                column = row.effects.replace("=", " = ") if kind == "shortcut" else row.names
                abouts.setdefault(about, {})[column] = row.number
            for about, numbers in abouts.items():
                yield group, about, numbers
