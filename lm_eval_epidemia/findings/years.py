"""Whether models know change over the years, and in which year they live."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks import UNDATED, in_way
from lm_eval_epidemia.benchmarks.observation import undated
from lm_eval_epidemia.benchmarks.observation.lived import course_of, lived, log_ratios
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
from lm_eval_epidemia.findings.cells import answers, cells, finding_of, with_known
from lm_eval_epidemia.findings.finding import Column, Finding
from lm_eval_epidemia.findings.task import asked_as
from lm_eval_epidemia.results.entry import Asked, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: Respondents that are known, and what they answer.
KNOWN: dict[str, Callable[[Part], Array]] = {
    "knows the average over the years": averages,
    "knows today's": todays,
}

#: Respondents that are known, asked without a year: kinds of `respondents.answers`.
KNOWN_UNDATED = {"truth": "knows the latest year", "mean": "knows the average over the years"}

#: What to run for answers over the years.
RUN = "compare over the years: run lm_eval on epidemia_years"

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


def _given(asked: Asked) -> tuple[str, ...]:
    return all_tasks()[asked.task].given


def _years(part: Part) -> Years:
    years = years_of(part)
    assert years is not None
    return years


def years(results: Results) -> Finding:
    """Whether answers follow the years: scores, slopes, and the error of every year."""
    groups, left_out = cells(results, lambda asked: YEAR in _given(asked), years_of)
    rows: list[dict[str, object]] = []
    for group in with_known(groups, KNOWN):
        tasks = [(part, _years(part), told.q) for part, told in group.tasks.values()]
        value, error = slope([change(*task) for task in tasks])
        of_all = {"slope": value, "slope_error": error, "agreement": _agreement(tasks)}
        rows.append(group.row | {"score": group.score} | of_all)
        off: dict[int, list[float]] = {}
        for task in tasks:
            for year, of_year in off_by_year(*task).items():
                off.setdefault(year, []).append(of_year)
        rows += [
            group.row | {"year": str(year), "tasks": len(of), "off": 100 * np.mean(of)}
            for year, of in sorted(off.items())
        ]
    columns = {
        **{name: Column() for name in ("group", "year", "tasks")},
        "score": Column("", 1),
        "slope": Column("slope over the years", 2, error="slope_error"),
        "agreement": Column("rank agreement over the years", 2),
        "off": Column("", 1, unit=" %"),
    }
    title = "Whether answers follow the years"
    return finding_of(results, "years", title, rows, columns, NOTE, left_out, RUN, "year")


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
        results, lambda asked: YEAR in _given(asked) and only in (None, asked), years_of
    )
    parts = {asked: part for group in groups for asked, (part, _) in group.tasks.items()}
    fewest: dict[Any, Asked] = {}
    for asked in sorted(parts, key=lambda asked: len(_given(asked))):
        fewest.setdefault((all_tasks()[asked.task].outcome, leaf(asked).group), asked)
    rows: list[dict[str, object]] = []
    for asked in fewest.values():
        part, of = parts[asked], {"group": leaf(asked).group, "task": in_way(*asked)}
        survey = {"value": _by_year(part, part.p)}
        if len(_given(asked)) == 1:
            ends = interval(part.truth.p, part.truth.n_eff)
            for name, end in zip(("low", "high"), ends, strict=True):
                survey[name] = _by_year(part, end[part.complete])
        told: list[tuple[dict[str, object], dict[str, dict[int, Array]]]]
        told = [({"run": -1, "model": "truth", "kind": "survey"}, survey)]
        for group in groups:
            if asked in group.tasks:
                own, answered = group.tasks[asked]
                told.append(({"run": group.run}, {"value": _by_year(own, answered.q)}))
        moved = np.ptp([*survey["value"].values()], axis=0).round(9).argmax()
        for place in range(part.p.shape[1]) if task else [moved]:
            of["series"] = f"{leaf(asked).entry.title}: {part.truth.levels[place]}"
            rows += [
                {**who, **of, "year": year, **{name: by[year][place] for name, by in known.items()}}
                for who, known in told
                for year in known["value"]
            ]
    columns = {
        "series": Column(),
        "year": Column(),
        "value": Column("probability", 3, interval=("low", "high")),
    }
    title, more = "Answers over the years", ("group", "task")
    return finding_of(results, "course", title, rows, columns, "", left_out, RUN, "year", more)


def _by_year(part: Part, values: Array) -> dict[int, Array]:
    """Average over the other conditions, by weight."""
    of = _years(part).of
    at = {int(year): of == year for year in np.unique(of)}
    return {year: part.weights[i] @ values[i] / part.weights[i].sum() for year, i in at.items()}


def year_lived(results: Results) -> Finding:
    """The year a model lives in: the years that its answers fit, asked without a year."""
    made, left_out = answers(results, benchmark=UNDATED)
    everybody: dict[tuple[int, str], dict[str, Array]] = {}
    for (run, asked), own in sorted(made.items()):
        everybody.setdefault((run, ""), {})[asked.task] = own.q
    tasks = sorted({asked.task for _, asked in made})
    for kind, name in KNOWN_UNDATED.items() if tasks else ():
        believed = {task: undated.answers(undated.load(task), kind) for task in tasks}
        everybody[-1, name] = believed
    rows: list[dict[str, object]] = []
    for (run, name), told in everybody.items():
        of = lived(
            course_of([undated.load(task).series for task in told]),
            np.concatenate([log_ratios(q) for q in told.values()]),
        )
        who: dict[str, object] = {"run": run, "group": undated.GROUP, "told": not of.untold}
        if name:
            who |= {"model": f"{name} (baseline)", "kind": "respondent"}
        lives = f"cannot be told: {of.untold}" if of.untold else of.stretches
        single = {"nearest": str(of.best), "years": float(of.fits.sum()), "misfit": of.misfit}
        rows.append(who | {"lives_in": lives} | single)
        apart = of.distances - of.distances.min()
        rows += [
            who | {"year": str(year), "apart": more, "fits": "yes" if fits else "no"}
            for year, more, fits in zip(of.course.years, apart, of.fits, strict=True)
        ]
    columns = {
        "lives_in": Column("lives in"),
        "nearest": Column("nearest year"),
        "misfit": Column("", 2),
        "year": Column(),
        "apart": Column("further off", 1),
        "fits": Column(),
    }
    title, more = "The year a model lives in", ("group", "told", "years")
    lacks = f"find a year for: run lm_eval on {undated.GROUP}"
    return finding_of(
        results, "year-lived", title, rows, columns, NOTE_LIVED, left_out, lacks, "year", more
    )
