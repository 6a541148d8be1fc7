"""The rows of the figures on countries, years and people, from the samples of runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.places import places_of
from lm_eval_epidemia.benchmarks.observation.years import years_of
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.wording import ways_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings import people, places, years
from lm_eval_epidemia.old.findings.answered import Answered
from lm_eval_epidemia.old.findings.data import Rows, asked_as, of_task, some
from lm_eval_epidemia.old.findings.rows import Cell, Finding, Number
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.results.entry import Asked, leaf
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: An ISO 3166 code of a country among the names of a level.
CODE = re.compile("[A-Z]{3}")


class Countries(NamedTuple):
    """A condition of a task that is a country.

    Attributes
    ----------
    condition : int
        Its place among the conditions.
    codes : dict of str to str
        ISO 3166 codes by level.
    """

    condition: int
    codes: dict[str, str]


def countries_of(truth: store.GroundTruth) -> Countries | None:
    """Return the condition of a task that is a country, recognised by the codes of its levels."""
    ways = ways_of(truth)
    for place, name in enumerate(all_tasks()[truth.task].given):
        codes = {
            level.label: next(filter(CODE.fullmatch, level.names), "")
            for level in ways[name].levels
        }
        if all(codes.values()):
            return Countries(place, codes)
    return None


def map_rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `map`: one answer, averaged over the people of a country."""
    truth, models = of_task(report, task or "")
    if (countries := countries_of(truth)) is None:
        raise EpidemiaError(f"{task} has no country as a condition: try the figure 'curve'")
    at = [given[countries.condition] for given in truth.given]
    true = _means(at, truth.weights, truth.p[:, 0])
    rows = [_on_map(countries, "truth", country, p) for country, p in true.items()]
    for name, own in models.items():
        asked = [at[cell] for cell in own.cells]
        weights, truths = truth.weights[own.cells], truth.p[own.cells, 0]
        beside = _means(asked, weights, truths)
        rows += [
            _on_map(countries, name, country, q) | {"error": q - beside[country]}
            for country, q in _means(asked, weights, own.q[:, 0]).items()
        ]
    return [row | {"answer": truth.levels[0]} for row in rows]


def _on_map(countries: Countries, who: str, country: str, p: float) -> dict[str, Any]:
    return {"who": who, "country": country, "code": countries.codes[country], "p": p}


def _means(labels: Sequence[Any], weights: Array, values: Array) -> dict[Any, float]:
    """Average values with the same label, by weight."""
    names, at = np.unique(np.asarray(labels), return_inverse=True)
    means = np.bincount(at, weights * values) / np.bincount(at, weights)
    return dict(zip(names.tolist(), means.tolist(), strict=True))


def of_regions(groups: Sequence[Answered], tables: Sequence[Finding]) -> Rows:
    """Return the rows of the figure `regions`, from the findings of `places`."""
    kinds = {
        larger: kind
        for group in groups
        for part, _ in group.tasks.values()
        if (known := places_of(part))
        for within in known.within.values()
        for kind, larger in within.items()
    }
    rows = []
    for row in (row for table in tables if table.kind == "place" for row in table.rows):
        off = row.cells["off"]
        assert isinstance(off, Number)
        low, high = off.value - 1.96 * off.error, off.value + 1.96 * off.error
        rows.append(
            {
                "model": row.cell("model"),
                "group": row.group,
                "kind": places.KINDS[kinds[row.name]],
                "place": row.name,
                "off": off.value,
                "low": low,
                "high": high,
            }
        )
    return rows


def region_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `regions`."""
    groups, _ = places.read(report)
    return some(of_regions(groups, places.findings(groups)), "too few places were asked")


def of_years(groups: Sequence[Answered], task: str | None = None) -> Rows:
    """Return the rows of the figure `years`: all answers of one task, or each largest change.

    For an outcome with several tasks, the one with the fewest conditions is used. Other conditions
    are averaged.
    """
    asked = {a: part for group in groups for a, (part, _) in group.tasks.items()}
    fewest: dict[Any, Asked] = {}
    for one in sorted(asked, key=lambda a: len(all_tasks()[a.task].given)):
        fewest.setdefault((all_tasks()[one.task].outcome, leaf(one).group), one)
    chosen = [asked_as(task)] if task else [*fewest.values()]
    rows: Rows = []
    for one in (one for one in chosen if one in asked):
        truths = _by_year(asked[one], asked[one].p)
        ends = _intervals(asked[one])
        moved = [int(np.ptp(np.array([*truths.values()]), axis=0).round(9).argmax())]
        for answer in range(asked[one].p.shape[1]) if task else moved:
            of = {"series": f"{leaf(one).entry.title}: {asked[one].truth.levels[answer]}"}
            for year, p in truths.items():
                rows.append({**of, "who": "truth", "year": year, "p": p[answer]})
                if year in ends:
                    low, high = ends[year]
                    rows[-1] |= {"low": low[answer], "high": high[answer]}
            for group in groups:
                if one in group.tasks:
                    part, told = group.tasks[one]
                    rows += [
                        {**of, "who": group.entry.name, "year": year, "p": q[answer]}
                        for year, q in _by_year(part, told.q).items()
                    ]
    return rows


def _by_year(part: Part, values: Array) -> dict[int, list[float]]:
    """Average over the other conditions, by weight."""
    known = years_of(part)
    assert known is not None
    columns = [_means(known.of.tolist(), part.weights, column) for column in values.T]
    return {year: [column[year] for column in columns] for year in columns[0]}


def _intervals(part: Part) -> dict[int, tuple[list[float], list[float]]]:
    """Return the intervals of a truth whose only condition is the year, by year."""
    if len(all_tasks()[part.truth.task].given) > 1:
        return {}
    low, high = interval(part.truth.p, part.truth.n_eff)
    of = (int(given[0]) for given in part.truth.given)
    return dict(zip(of, zip(low.tolist(), high.tolist(), strict=True), strict=True))


def year_rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `years`, of all outcomes or of one task."""
    rows = of_years(years.read(report)[0], task)
    return some(rows, f"{task} was not asked, or does not cover several years")


def of_people(tables: Sequence[Finding]) -> Rows:
    """Return the rows of the figure `people`, from `people.findings`, with people first."""
    rows: Rows = []
    lines = [row for table in tables for row in table.rows if "truth" in row.cells]
    lines.sort(key=lambda row: row.entry is not None)
    truths = {row.name: _value(row.cells["truth"]) for row in lines}
    for place, question in enumerate(sorted(truths, key=lambda name: -truths[name])):
        here, truth = [row for row in lines if row.name == question], truths[question]
        ends = sorted([truth, people.ALSO.get(question, truth)])
        of = {"answer": question.replace("_", " ").title(), "place": place}
        known = {"low": ends[0] / 100, "high": ends[1] / 100}
        rows.append({**of, "who": "truth", "p": truth / 100, **known})
        for row in here:
            rows.append({**of, "who": row.cell("model"), "p": _value(row.cells["answer"]) / 100})
    return rows


def _value(cell: Cell) -> float:
    assert isinstance(cell, float)
    return cell


def people_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `people`."""
    return of_people(people.findings(people.read(report)[0]))
