"""Whether models know change over the years, and in which year they live."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks import UNDATED, in_way
from lm_eval_epidemia.benchmarks.observation import undated
from lm_eval_epidemia.benchmarks.observation.lived import Lived, course_of, lived, log_ratios
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.years import (
    YEAR,
    Years,
    averages,
    change,
    off_by_year,
    slope,
    todays,
    years_of,
)
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.findings.cells import cells, nothing, with_known
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, tabled
from lm_eval_epidemia.findings.task import asked_as
from lm_eval_epidemia.results.entry import Asked, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import undated_of
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: Respondents that are known, and what they answer.
KNOWN: dict[str, Callable[[Part], Array]] = {
    "knows the average over the years": averages,
    "knows today's": todays,
}

#: Respondents that are known, asked without a year: kinds of `respondents.answers`.
KNOWN_UNDATED = {"truth": "knows the latest year", "mean": "knows the average over the years"}

NOTE = (
    "Slope: how much answers change from year to year if the truth changes by 1, over all series "
    "(men, a state, everybody) and answers of the tasks, ± a standard error of the survey's "
    "sampling; it is corrected for the truth's own sampling error. 1: answers follow the years; "
    "0: they stay the same, like those of someone who knows only the average over the years or "
    "today's values. The survey's own figures contain its errors, so their slope is above 1. "
    "Agreement: Spearman's correlation of answers and truth over the years, -1 to 1, averaged. "
    "Off: in a single year, the share of the probability given to wrong answers."
)

NOTE_LIVED = (
    "Lives in: the years whose truth the answers fit (95 %), given the survey's sampling error "
    "and the misfit: the standard deviation of the answers' log-probabilities around the truth of "
    "the nearest year. No year is named if more than half of the years fit, or if fewer than "
    "three outcomes changed. Someone who knows only the average over the years seems to live in "
    "the middle. Further off: of a single year, the difference in squared distance from the "
    "nearest year, in units of its error."
)


def years(results: Results) -> Finding:
    """Whether answers follow the years: scores, slopes, and the error of every year."""
    groups, left_out = cells(results, _has_years, years_of)
    rows: list[dict[str, object]] = []
    for group in with_known(groups, KNOWN):
        known = ((part, years_of(part), told.q) for part, told in group.tasks.values())
        tasks = [(part, of, q) for part, of, q in known if of]
        value, error = slope([change(*task) for task in tasks])
        rows.append(
            group.row
            | {
                "score": np.mean([part.score_of(part.distance(q)) for part, _, q in tasks]),
                "slope": value,
                "slope_error": error,
                "agreement": _agreement(tasks),
            }
        )
        off: dict[int, list[float]] = {}
        for task in tasks:
            for year, of_year in off_by_year(*task).items():
                off.setdefault(year, []).append(of_year)
        rows += [
            group.row | {"year": str(year), "tasks": len(of), "off": 100 * np.mean(of)}
            for year, of in sorted(off.items())
        ]
    columns = {
        **WHO,
        **{name: Column() for name in ("group", "year", "tasks")},
        "score": Column("", 1),
        "slope": Column("slope over the years", 2, error="slope_error"),
        "agreement": Column("rank agreement over the years", 2),
        "off": Column("", 1, unit=" %"),
    }
    table = tabled(rows, columns, results.runs)
    title = "Whether answers follow the years"
    finding = Finding("years", title, table, columns, NOTE, details="year", left_out=left_out)
    return finding if rows else nothing(finding, "compare over the years", "epidemia_years")


def _has_years(asked: Asked) -> bool:
    return YEAR in all_tasks()[asked.task].given


def _agreement(tasks: list[tuple[Part, Years, Array]]) -> float:
    """Average Spearman's correlation over the years, for every series and answer of every task."""
    from scipy.stats import spearmanr

    of_tasks = []
    for part, of, q in tasks:
        ranks = []
        for series in np.unique(of.series):
            here = of.series == series
            for true, told in zip(part.p[here].T, q[here].T, strict=True):
                if len(true) > 2 and np.ptp(true) > 0:
                    ranks.append(spearmanr(true, told).statistic if np.ptp(told) > 0 else 0.0)
        of_tasks += [np.mean(ranks)] if ranks else []
    return float(np.mean(of_tasks)) if of_tasks else math.nan


def course(results: Results, task: str = "") -> Finding:
    """Answers over the years beside the truth: of every outcome the one that changes most.

    Of several tasks on an outcome, the one with the fewest conditions counts; other conditions than
    the year are averaged.

    Parameters
    ----------
    results : Results
    task : str, optional
        The lm-eval name of the only task, of which all answers are in the table.

    Returns
    -------
    Finding
        A row per answer, respondent and year: ``value``. The truth's own rows (``kind`` is
        ``survey``) have the ends of an interval where the year is the only condition.
    """
    only = asked_as(task) if task else None
    groups, left_out = cells(
        results, lambda asked: _has_years(asked) and only in (None, asked), years_of
    )
    parts = {asked: part for group in groups for asked, (part, _) in group.tasks.items()}
    fewest: dict[Any, Asked] = {}
    for asked in sorted(parts, key=lambda asked: len(all_tasks()[asked.task].given)):
        fewest.setdefault((all_tasks()[asked.task].outcome, leaf(asked).group), asked)
    rows: list[dict[str, object]] = []
    for asked in fewest.values():
        part, of = parts[asked], {"group": leaf(asked).group, "task": in_way(*asked)}
        truths, ends = _by_year(part, part.p), _intervals(part)
        moved = int(np.ptp(np.array([*truths.values()]), axis=0).round(9).argmax())
        survey: dict[str, object] = {"run": -1, "model": "truth", "kind": "survey"}
        told = [(survey, truths)]
        told += [
            ({"run": group.run}, _by_year(own, answers.q))
            for group in groups
            if asked in group.tasks
            for own, answers in [group.tasks[asked]]
        ]
        for place in range(part.p.shape[1]) if task else [moved]:
            of["series"] = f"{leaf(asked).entry.title}: {part.truth.levels[place]}"
            for who, values in told:
                known = ends if who is survey else {}
                rows += [
                    who | of | {"year": year, "value": value[place]} | known.get((year, place), {})
                    for year, value in values.items()
                ]
    columns = {
        **WHO,
        "series": Column(),
        "year": Column(),
        "value": Column("probability", 3, interval=("low", "high")),
    }
    table = tabled(rows, columns, results.runs, ("group", "task"))
    title = "Answers over the years"
    finding = Finding("course", title, table, columns, details="year", left_out=left_out)
    return finding if rows else nothing(finding, "compare over the years", "epidemia_years")


def _by_year(part: Part, values: Array) -> dict[int, Array]:
    """Average over the other conditions, by weight."""
    of = years_of(part)
    assert of is not None
    at = {int(year): of.of == year for year in np.unique(of.of)}
    return {year: part.weights[i] @ values[i] / part.weights[i].sum() for year, i in at.items()}


def _intervals(part: Part) -> dict[tuple[int, int], dict[str, float]]:
    """Return the ends of the truth's interval by year and answer, if nothing else is given."""
    if len(all_tasks()[part.truth.task].given) > 1:
        return {}
    low, high = interval(part.truth.p, part.truth.n_eff)
    return {
        (int(year), place): {"low": low[cell, place], "high": high[cell, place]}
        for cell, (year,) in enumerate(part.truth.given)
        for place in range(low.shape[1])
    }


def year_lived(results: Results) -> Finding:
    """The year a model lives in: the years that its answers fit, asked without a year."""
    told, left_out = _undated(results)
    asked = sorted({task for answers in told.values() for task in answers})
    everybody: list[tuple[dict[str, Any], dict[str, Array]]]
    everybody = [({"run": run}, answers) for run, answers in told.items()]
    for kind, name in KNOWN_UNDATED.items() if asked else ():
        who = {"run": -1, "model": f"{name} (baseline)", "kind": "respondent"}
        believed = {task: undated.answers(undated.load(task), kind) for task in asked}
        everybody.append((who, believed))
    rows: list[dict[str, object]] = []
    for who, answers in everybody:
        of = _lived(answers)
        who |= {"group": undated.GROUP, "told": not of.untold}
        lives = f"cannot be told: {of.untold}" if of.untold else of.stretches
        single = {"nearest": str(of.best), "years": float(of.fits.sum()), "misfit": of.misfit}
        rows.append(who | {"lives_in": lives} | single)
        apart = of.distances - of.distances.min()
        rows += [
            who | {"year": str(year), "apart": more, "fits": "yes" if fits else "no"}
            for year, more, fits in zip(of.course.years, apart, of.fits, strict=True)
        ]
    columns = {
        **WHO,
        "lives_in": Column("lives in"),
        "nearest": Column("nearest year"),
        "years": Column("years that fit", 0),
        "misfit": Column("", 2),
        "year": Column(),
        "apart": Column("further off", 1),
        "fits": Column(),
    }
    table = tabled(rows, columns, results.runs, ("group", "told"))
    finding = Finding(
        "year-lived",
        "The year a model lives in",
        table,
        columns,
        NOTE_LIVED,
        details="year",
        left_out=left_out,
    )
    return finding if rows else nothing(finding, "find a year for", undated.GROUP)


def _undated(results: Results) -> tuple[dict[int, dict[str, Array]], list[str]]:
    """Read what runs answered without a year, by run and task; and say what is not known."""
    told: dict[int, dict[str, Array]] = {}
    notes: list[str] = []
    missing: dict[int, list[str]] = {}
    scores = results.scores.sort_values(["run", "task"])
    for run, task, way, file, said, truth in zip(
        *(scores[name] for name in ("run", "task", "way", "file", "said", "truth")), strict=True
    ):
        asked = Asked(task, way)
        if leaf(asked).benchmark is not UNDATED:
            continue
        try:
            q = None if truth and isinstance(said, str) else undated_of(file, asked, said)
        except ValueError as error:
            notes.append(f"{results.runs['name'][run]}: {error}")
            continue
        if q is None:
            missing.setdefault(run, []).append(task)
        else:
            told.setdefault(run, {})[task] = q
    notes += [
        f"{results.runs['name'][run]}: no answers to {few(tasks)}, or not to every prompt"
        for run, tasks in missing.items()
    ]
    return told, notes


def _lived(answers: dict[str, Array]) -> Lived:
    """Return the years that answers fit, from answers by task."""
    known = course_of([undated.load(task).series for task in answers])
    return lived(known, np.concatenate([log_ratios(q) for q in answers.values()]))
