"""Whether models know change over the years, and in which year they live."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation import undated
from lm_eval_epidemia.benchmarks.observation import years as measures
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.undated import (
    UNDATED,
    course_of,
    find_years_lived,
    log_ratios,
)
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.findings.cells import (
    add_known,
    average_levels,
    cells_of,
    collect_answers,
    find_asked,
    group_answers,
)
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.results.decode import LeafKey, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.scales import rank_agreement
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: Respondents that are known, and what they answer.
KNOWN: dict[str, Callable[[Part], Array]] = {
    "knows the average over the years": measures.average_years,
    "knows today's": measures.answer_latest,
}

#: Respondents that are known, asked without a year: kinds of `respondents.simulate_answers`.
KNOWN_UNDATED = {"truth": "knows the latest year", "mean": "knows the average over the years"}


def _given(asked: LeafKey) -> tuple[str, ...]:
    return all_tasks()[asked.task].given


def _years(part: Part) -> measures.Years:
    years = measures.years_of(part)
    assert years is not None
    return years


def years(results: Results) -> Finding:
    """Whether answers follow the years: scores, slopes, and the error of every year."""
    groups, left_out = group_answers(
        results, lambda asked: measures.YEAR in _given(asked), measures.years_of
    )
    rows: list[dict[str, object]] = []
    for group in add_known(groups, KNOWN):
        tasks = [(part, _years(part), told.q) for part, told in group.tasks.values()]
        value, error = measures.slope([measures.change(*task) for task in tasks])
        of_all = {"slope": value, "slope_error": error, "agreement": _agreement(tasks)}
        rows.append(group.row | {"score": group.score} | of_all)
        off: dict[int, list[float]] = {}
        for task in tasks:
            for year, of_year in measures.off_by_year(*task).items():
                off.setdefault(year, []).append(of_year)
        rows += [
            group.row | {"year": str(year), "tasks": len(of), "off": 100 * np.mean(of)}
            for year, of in sorted(off.items())
        ]
    return make_finding("years", rows, results.runs, left_out)


def _agreement(tasks: list[tuple[Part, measures.Years, Array]]) -> float:
    """Average Spearman's correlation over the years, for every series and answer of every task."""
    of_tasks = []
    for part, of, q in tasks:
        series = [of.series == number for number in np.unique(of.series)]
        ranks = [rank_agreement(part.p[at], q[at]) for at in series if at.sum() > 2]
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
    only = find_asked(task) if task else None
    year = measures.YEAR
    groups, left_out = group_answers(
        results, lambda asked: year in _given(asked) and only in (None, asked), measures.years_of
    )
    asked_of = dict.fromkeys(asked for group in groups for asked in group.tasks)
    fewest: dict[Any, LeafKey] = {}
    for asked in sorted(asked_of, key=lambda asked: len(_given(asked))):
        fewest.setdefault((all_tasks()[asked.task].outcome, leaf(asked).group), asked)
    parts: list[pd.DataFrame] = []
    for asked in fewest.values():
        of = average_levels(cells_of(results, in_way(*asked)), year).sort_values(
            "place", kind="stable"
        )
        moved = of[of["kind"] == "survey"].groupby("place")["value"].agg(np.ptp).round(9).idxmax()
        if len(_given(asked)) > 1:
            of[["low", "high"]] = math.nan
        series = leaf(asked).entry.title + ": " + of["answer"]
        whose = {"group": leaf(asked).group, "task": in_way(*asked)}
        of = of.assign(series=series, year=of["level"].astype(int), **whose)
        parts.append(of if task else of[of["place"] == moved])
    table = pd.concat(parts, ignore_index=True) if parts else []
    return make_finding("course", table, results.runs, left_out)


def year_lived(results: Results) -> Finding:
    """The year a model lives in: the years that its answers fit, asked without a year."""
    made, left_out = collect_answers(results, benchmark=UNDATED)
    everybody: dict[tuple[int, str], dict[str, Array]] = {}
    for (run, asked), own in sorted(made.items()):
        everybody.setdefault((run, ""), {})[asked.task] = own.q
    tasks = sorted({asked.task for _, asked in made})
    for kind, name in KNOWN_UNDATED.items() if tasks else ():
        believed = {
            task: undated.simulate_undated(undated.load_undated(task), kind) for task in tasks
        }
        everybody[-1, name] = believed
    rows: list[dict[str, object]] = []
    for (run, name), told in everybody.items():
        of = find_years_lived(
            course_of([undated.load_undated(task).series for task in told]),
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
    return make_finding("year-lived", rows, results.runs, left_out)
