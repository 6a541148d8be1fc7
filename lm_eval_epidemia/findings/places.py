"""How evenly models know places, such as countries: each counted alike, by region, by income.

From the samples, beside respondents that are known and asked the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from lm_eval_epidemia.findings import answered
from lm_eval_epidemia.findings.answered import Answered, required
from lm_eval_epidemia.findings.finding import ALIKE, Cell, Column, Finding, Number, Row
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.reference import KNOWS_MARGINAL
from lm_eval_epidemia.results.entry import Asked, Entry
from lm_eval_epidemia.score import score as scoring

#: What a larger place is called in headings, by kind.
KINDS = {"region": "regions", "income": "thirds of countries by income"}

#: Respondents that are known, and what they answer.
KNOWN: dict[str, Callable[[Part, Places], Array]] = {
    KNOWS_MARGINAL: lambda part, places: scoring.mean(part.weights, part.p),
    "knows its region's average": lambda part, places: averages(part, places, "region"),
}


class _Task(NamedTuple):
    """A task about places, and what was answered there."""

    part: Part
    places: Places
    q: Array


def read(report: Report) -> tuple[list[Answered], list[str]]:
    """Read the samples of tasks about places.

    Returns
    -------
    groups : list of Answered
    notes : list of str
        What is left out.

    Raises
    ------
    EpidemiaError
        If no run was asked about places, with samples.
    """
    samples, notes = answered.read(report, lambda asked: True, "compared between places")
    groups = [
        group._replace(tasks=tasks)
        for group in answered.by_group(report, samples)
        if (tasks := {a: task for a, task in group.tasks.items() if places_of(task[0])})
    ]
    return required(groups, "compare between places", "epidemia_world", notes), notes


def _tasks(tasks: Mapping[Asked, tuple[Part, object]], q: Callable[..., Array]) -> list[_Task]:
    known = ((part, places_of(part), told) for part, told in tasks.values())
    return [_Task(part, places, q(part, places, told)) for part, places, told in known if places]


def _regions(tasks: Sequence[_Task], kind: str) -> Regions | None:
    off = [misplaced(task.part, task.places.names, task.q) for task in tasks]
    within = {name: of[kind] for task in tasks for name, of in task.places.within.items()}
    return by_region(off, within)


def _cells(tasks: Sequence[_Task]) -> dict[str, Cell]:
    scores = [float(t.part.score_of(t.part.distance(t.q))) for t in tasks]
    cells: dict[str, Cell] = {
        "tasks": len(tasks),
        "places": len({name for task in tasks for name in task.places.names}),
        "score": float(np.mean(scores)),
        "alike": float(np.mean([score_alike(t.part, t.places.names, t.q) for t in tasks])),
        "rounding": float(np.mean([rounding(t.part) for t in tasks])),
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


def _rows(groups: Sequence[Answered]) -> Iterator[tuple[Entry | None, str, str, list[_Task]]]:
    """Yield who answered in which group, and the tasks: models, then who is known."""
    for group in groups:
        yield group.entry, "", group.group, _tasks(group.tasks, lambda part, places, told: told.q)
    for name in dict.fromkeys(group.group for group in groups):
        # Asked all that some model was asked.
        asked = {
            a: task for group in groups if group.group == name for a, task in group.tasks.items()
        }
        for who, answers in KNOWN.items():
            yield (
                None,
                who,
                name,
                _tasks(asked, lambda part, places, _, of=answers: of(part, places)),
            )


NOTE = (
    "Score: people weigh, so that India and China are a third of the world. Places alike: the same "
    "tasks with every country counted the same. Rounding: the points by which a score could differ "
    "if every published share were off by half its last digit; nobody stated an error, nor one for "
    "figures of several years. Gap: how many more percentage points of the probability stand at "
    "wrong answers in the place known worst than in that known best, each country counting the "
    f"same, ± a standard error over countries; of regions with {FEWEST} countries or more, and of "
    "thirds by GDP per head. It is the largest of all pairs, so that chance alone makes one; "
    "--effects, csv and json have every place. Who knows its region's average answers for "
    "every country with that: what is above is knowledge of countries."
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

_SHOWN = ("model", "group", "score", "alike", "rounding", *KINDS)


def findings(groups: Sequence[Answered]) -> list[Finding]:
    """Return the table of models and, longer, that of regions."""
    rows, regions = [], []
    for entry, who, group, tasks in _rows(groups):
        named: dict[str, Cell] = {"group": group}
        facts: dict[str, object] = {"tasks": len(tasks)}
        if entry is None:
            named["model"] = f"{who} (baseline)"
            facts |= {"model": who, "reference": True}
        rows.append(Row(named | _cells(tasks), entry, group, group, facts))
        regions += [
            Row(named | {"place": name} | cells, entry, group, name, facts, long=True)
            for name, cells in _by_region(tasks)
        ]
    columns = (
        *map(Column, ("model", "group", "place", "places")),
        Column("off", "probability at wrong answers", 1, title="off", unit=" %"),
    )
    off = "Off: the share of the probability that stands at wrong answers; see above."
    return [
        Finding("places", "How evenly places are known", _COLUMNS, rows, NOTE, 2, _SHOWN),
        Finding("place", "Regions and incomes", columns, regions, off, 3),
    ]
