"""How evenly models know places, such as countries: with equal weights, by region, by income.

Computed from the samples, with known respondents asked the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.places import (
    FEWEST,
    Places,
    Regions,
    averages,
    by_region,
    misplaced,
    places_of,
    rounding,
    score_alike,
)
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.old.findings.answered import Answered, Respondent, read_groups, with_known
from lm_eval_epidemia.old.findings.rows import ALIKE, Cell, Column, Finding, Number, in_groups
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.reference import KNOWS_MARGINAL
from lm_eval_epidemia.score import score as scoring

#: What a larger place is called in headings, by kind.
KINDS = {"region": "regions", "income": "thirds of countries by income"}


class _Task(NamedTuple):
    """A task about places, with its answers."""

    part: Part
    places: Places
    q: Array


def _tasks(who: Respondent) -> list[_Task]:
    known = ((part, places_of(part), elicited.q) for part, elicited in who.tasks.values())
    return [_Task(part, places, q) for part, places, q in known if places]


def _of_region(part: Part) -> Array:
    """Answer for every place with its region's average."""
    places = places_of(part)
    assert places is not None
    return averages(part, places, "region")


#: Respondents that are known, and what they answer.
KNOWN: dict[str, Callable[[Part], Array]] = {
    KNOWS_MARGINAL: lambda part: scoring.mean(part.weights, part.p),
    "knows its region's average": _of_region,
}


def read(report: Report) -> tuple[list[Answered], list[str]]:
    """Read the samples of tasks about places; see `read_groups`."""
    return read_groups(report, places_of, "compare between places", "epidemia_world")


def _regions(tasks: Sequence[_Task], kind: str) -> Regions | None:
    off = [misplaced(task.part, task.places.names, task.q) for task in tasks]
    within = {name: of[kind] for task in tasks for name, of in task.places.within.items()}
    return by_region(off, within)


def _cells(tasks: Sequence[_Task]) -> dict[str, Cell]:
    off = [(task.part, float(task.part.distance(task.q))) for task in tasks]
    cells: dict[str, Cell] = {
        "tasks": len(tasks),
        "places": len({name for task in tasks for name in task.places.names}),
        "score": float(np.mean([part.score_of(distance) for part, distance in off])),
        "alike": float(np.mean([score_alike(t.part, t.places.names, t.q) for t in tasks])),
        "rounding": float(np.mean([rounding(part, distance) for part, distance in off])),
    }
    for kind in KINDS:
        regions = _regions(tasks, kind)
        if regions and regions.gap > ALIKE:
            ends = f"{regions.names[-1]} less {regions.names[0]}"
            cells[kind] = Number(100 * regions.gap, 100 * regions.gap_error, verdict=ends)
    return cells


def _by_region(tasks: Sequence[_Task]) -> Iterator[tuple[str, dict[str, Cell]]]:
    for kind in KINDS:
        if regions := _regions(tasks, kind):
            for name, places, off, error in zip(
                regions.names, regions.places, regions.off, regions.errors, strict=True
            ):
                yield name, {"places": places, "off": Number(100 * off, 100 * error)}


NOTE = (
    "Score: countries count by population, so India and China are a third of the world. Places "
    "alike: the same tasks with every country counted equally. Rounding: the most by which a "
    "score could change if every published share were off by half its last digit; publishers "
    "state no errors, nor any for their different years. Gap: compare the share "
    "of probability given to wrong answers in the worst-known and the best-known place, every "
    "country counting equally; the gap is the difference in percentage points, ± a standard error "
    f"over countries. Places are regions with at least {FEWEST} countries, or thirds by GDP per "
    "head. It is the largest gap of all pairs, so chance alone makes one; --effects, csv and json "
    "list every place. 'knows its region's average' gives every country its region's average, the "
    "country included: scores above it show knowledge of countries."
)

_COLUMNS = (
    *map(Column, ("model", "group", "tasks", "places")),
    Column("score", "score", 1, form="plain"),
    Column("alike", "score, places alike", 1, form="plain", title="places alike"),
    Column("rounding", "rounding", 1, form="plain"),
    *(
        Column(kind, f"gap between {words}", 1, title=f"{kind} gap")
        for kind, words in KINDS.items()
    ),
)

_SHOWN = ("model", "group", "tasks", "score", "alike", "rounding", *KINDS)


def findings(groups: Sequence[Answered]) -> list[Finding]:
    """Return the table of models and the longer one of regions."""
    rows, regions = [], []
    for who in with_known(groups, KNOWN):
        tasks = _tasks(who)
        rows.append(who.row(_cells(tasks)))
        regions += [
            who.row({"place": place} | cells, place, long=True)
            for place, cells in _by_region(tasks)
        ]
    columns = (
        *map(Column, ("model", "group", "place", "places")),
        Column("off", "probability at wrong answers", 1, title="off", unit=" %"),
    )
    off = "Off: the share of the probability given to wrong answers; see above."
    return [
        in_groups(
            Finding("places", "How evenly models know places", _COLUMNS, rows, NOTE, 2, _SHOWN)
        ),
        in_groups(Finding("place", "Regions and incomes", columns, regions, off, 3)),
    ]
