"""What single groups of tasks show: how models know countries, years, and people's guesses.

``guesses_2000.csv`` counts, for each outcome and question (``variable``), the people in the General
Social Survey who gave each whole percentage (unweighted; NORC, public-use data).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.prompts import find_variables
from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation import places as of_places
from lm_eval_epidemia.benchmarks.observation import undated
from lm_eval_epidemia.benchmarks.observation import years as of_years
from lm_eval_epidemia.benchmarks.observation.measured import Part, part_of
from lm_eval_epidemia.benchmarks.observation.other_scales import fit_tilt
from lm_eval_epidemia.benchmarks.observation.places import places_of
from lm_eval_epidemia.benchmarks.observation.years import YEAR, years_of
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import cells
from lm_eval_epidemia.findings.cells import AnsweredGroup, add_known, collect_answers, group_answers
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.mean import REACH
from lm_eval_epidemia.findings.references import KNOWS_MARGINAL
from lm_eval_epidemia.results.decode import LeafKey, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.scales import rank_agreement
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_task

#: What a larger place is called, by kind.
KINDS = {"region": "regions", "income": "thirds of countries by income"}

#: Of a smaller gap the order of places is rounding.
ALIKE = 1e-9

#: An ISO 3166 code of a country among the names of a level.
CODE = re.compile("[A-Z]{3}")


#: Respondents that are known, and what they answer.
KNOWN_PLACES: dict[str, Callable[[Part], Any]] = {
    KNOWS_MARGINAL: lambda part: scoring.answer_marginal(part.weights, part.p),
    "knows its region's average": lambda part: (
        (where := places_of(part)) and of_places.average_places(part, where, "region")
    ),
}


def _collect_answers(results: Results) -> tuple[Iterator[AnsweredGroup], list[str]]:
    """Return the answers to tasks about places, with those of known respondents."""
    groups, left_out = group_answers(
        results, lambda asked: places_of(part_of(store.load_truth(asked.task))), places_of
    )
    return add_known(groups, KNOWN_PLACES), left_out


def _regions(of: AnsweredGroup) -> Iterator[tuple[str, of_places.Regions]]:
    """Yield the kinds of larger places, and the errors in each; none with too few places."""
    tasks = [
        (part, where, told.q) for part, told in of.tasks.values() if (where := places_of(part))
    ]
    off = [of_places.find_misplaced(part, where.names, q) for part, where, q in tasks]
    for kind in KINDS:
        within = {place: of[kind] for _, where, _ in tasks for place, of in where.within.items()}
        if known := of_places.compare_regions(off, within):
            yield kind, known


def places(results: Results) -> Finding:
    """How evenly models know countries: with every country alike, and gaps between regions."""
    groups, left_out = _collect_answers(results)
    rows = []
    for group in groups:
        tasks = [
            (part, where.names, told.q)
            for part, told in group.tasks.values()
            if (where := places_of(part))
        ]
        row = group.row | {
            "places": len({name for _, names, _ in tasks for name in names}),
            "score": group.score,
            "alike": np.mean([of_places.score_alike(*of) for of in tasks]),
            "rounding": np.mean(
                [of_places.rounding(part, float(part.distance(q))) for part, _, q in tasks]
            ),
        }
        for kind, of in _regions(group):
            if of.gap > ALIKE:
                row |= {kind: 100 * of.gap, f"{kind}_error": 100 * of.gap_error}
                row[f"{kind}_ends"] = f"{of.names[-1]} less {of.names[0]}"
        rows.append(row)
    return make_finding("places", rows, results.runs, left_out)


def regions(results: Results) -> Finding:
    """Errors of the answers in every region of the world, and by income."""
    groups, left_out = _collect_answers(results)
    rows = []
    for group in groups:
        for kind, of in _regions(group):
            for place, number, off, error in zip(*of[:4], strict=True):
                row = {"of": KINDS[kind], "place": place, "places": number}
                row |= {"off": 100 * off, "off_error": 100 * error}
                row |= {"low": 100 * (off - REACH * error), "high": 100 * (off + REACH * error)}
                rows.append(group.row | row)
    return make_finding("regions", rows, results.runs, left_out)


def countries_of(truth: store.GroundTruth) -> tuple[int, dict[str, str]] | None:
    """Return which condition of a task is a country, and the ISO 3166 code of each; or None."""
    ways = find_variables(truth)
    for place, name in enumerate(all_tasks()[truth.task].given):
        codes = {
            level.label: next(filter(CODE.fullmatch, level.names), "")
            for level in ways[name].levels
        }
        if all(codes.values()):
            return place, codes
    return None


def map_of(results: Results, task: str) -> Finding:
    """The first answer of a task in every country, averaged over its people.

    Parameters
    ----------
    results : Results
    task : str
        The task's lm-eval name.

    Returns
    -------
    Finding
        A row per respondent and ``country`` (``code``: ISO 3166): what it says (``value``), the
        ``truth`` in the cells that it was asked, and the ``error``, which the survey's own rows
        (``kind`` is ``survey``) lack.

    Raises
    ------
    EpidemiaError
        If the task has no country as a condition.
    """
    truth = store.load_truth(cells.find_asked(task).task)
    if (countries := countries_of(truth)) is None:
        raise EpidemiaError(f"{task} has no country as a condition, so it has no map")
    condition, codes = countries
    every = cells.cells_of(results, task)
    table = cells.average_levels(every, all_tasks()[truth.task].given[condition])
    table = table[table["place"] == 0].rename(columns={"level": "country"})
    apart = (table["value"] - table["truth"]).where(table["kind"] != "survey")
    table = table.assign(code=table["country"].map(codes), error=apart)
    return make_finding("map", table, left_out=every.left_out, title=task)


#: Respondents that are known, and what they answer.
KNOWN_YEARS: dict[str, Callable[[Part], Array]] = {
    "knows the average over the years": of_years.average_years,
    "knows today's": of_years.answer_latest,
}

#: Respondents that are known, asked without a year: kinds of `respondents.simulate_answers`.
KNOWN_UNDATED = {"truth": "knows the latest year", "mean": "knows the average over the years"}


def _given(asked: LeafKey) -> tuple[str, ...]:
    return all_tasks()[asked.task].given


def years(results: Results) -> Finding:
    """Whether answers follow the years: scores, slopes, and the error of every year."""
    groups, left_out = group_answers(results, lambda asked: YEAR in _given(asked), years_of)
    rows: list[dict[str, object]] = []
    for group in add_known(groups, KNOWN_YEARS):
        known = group.tasks.values()
        tasks = [(part, of, told.q) for part, told in known if (of := years_of(part))]
        value, error = of_years.slope([of_years.change(*task) for task in tasks])
        of_all = {"slope": value, "slope_error": error, "agreement": _agreement(tasks)}
        rows.append(group.row | {"score": group.score} | of_all)
        off: dict[int, list[float]] = {}
        for task in tasks:
            for year, of_year in of_years.off_by_year(*task).items():
                off.setdefault(year, []).append(of_year)
        rows += [
            group.row | {"year": str(year), "tasks": len(of), "off": 100 * np.mean(of)}
            for year, of in sorted(off.items())
        ]
    return make_finding("years", rows, results.runs, left_out)


def _agreement(tasks: list[tuple[Part, of_years.Years, Array]]) -> float:
    """Average Spearman's correlation over the years, for every series and answer of every task."""
    of_tasks = []
    for part, of, q in tasks:
        series = [of.series == number for number in np.unique(of.series)]
        ranks = [rank_agreement(part.p[at], q[at]) for at in series if at.sum() > 2]
        of_tasks += [np.mean(ranks)] if ranks else []
    return float(np.mean(of_tasks)) if of_tasks else math.nan


def course(results: Results) -> Finding:
    """Answers over the years beside the truth: of every outcome the one that changes most.

    Of several tasks on an outcome, the one with the fewest conditions counts; other conditions than
    the year are averaged.

    Returns
    -------
    Finding
        A row per answer, respondent and year: ``value``. The truth's own rows (``kind`` is
        ``survey``) have the ends of an interval where the year is the only condition.
    """
    groups, left_out = group_answers(results, lambda asked: YEAR in _given(asked), years_of)
    asked_of = dict.fromkeys(asked for group in groups for asked in group.tasks)
    fewest: dict[Any, LeafKey] = {}
    for asked in sorted(asked_of, key=lambda asked: len(_given(asked))):
        fewest.setdefault((all_tasks()[asked.task].outcome, leaf(asked).group), asked)
    parts: list[pd.DataFrame] = []
    for asked in fewest.values():
        of = cells.average_levels(cells.cells_of(results, in_way(*asked)), YEAR)
        of = of.sort_values("place", kind="stable")
        moved = of[of["kind"] == "survey"].groupby("place")["value"].agg(np.ptp).round(9).idxmax()
        if len(_given(asked)) > 1:
            of[["low", "high"]] = math.nan
        series = leaf(asked).entry.title + ": " + of["answer"]
        whose = {"group": leaf(asked).group, "task": in_way(*asked)}
        of = of.assign(series=series, year=of["level"].astype(int), **whose)
        parts.append(of[of["place"] == moved])
    table = pd.concat(parts, ignore_index=True) if parts else []
    return make_finding("course", table, results.runs, left_out)


def year_lived(results: Results) -> Finding:
    """The year a model lives in: the years that its answers fit, asked without a year."""
    made, left_out = collect_answers(results, benchmark=undated.UNDATED)
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
        of = undated.find_years_lived(
            undated.course_of([undated.load_undated(task).series for task in told]),
            np.concatenate([undated.log_ratios(q) for q in told.values()]),
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


#: The group of these tasks in its plain way.
GROUP = "epidemia_people"

#: Other figures, in per cent, that answer a question as well as the truth does: white and not
#: Hispanic; the most that is estimated; alone or in combination.
ALSO = {"white": 69.1, "jewish": 2.2, "american_indian": 1.5}

#: What the mean guess is called.
AMERICANS = "the average American of 2000"


def people(results: Results) -> Finding:
    """Models beside Americans who guessed six shares of the population: in all, and each."""
    groups, left_out = group_answers(results, lambda asked: asked.task.startswith(f"{GROUP}_"))
    rows: list[dict[str, object]] = []
    for group in add_known(groups, {AMERICANS: _average_american}):
        single: list[dict[str, Any]] = []
        for asked, (part, told) in group.tasks.items():
            outcome = find_task(asked.task).outcome
            truth, answer = 100 * float(part.p[0, 0]), 100 * float(told.q[0, 0])
            row = {"question": outcome.replace("_", " "), "truth": truth, "answer": answer}
            row |= {"off": float(measure_error(outcome, truth, answer))}
            row |= {"also": ALSO.get(outcome, math.nan)}
            single.append(row | {"beaten": count_beaten(outcome, truth, answer)})
        means = {of: math.fsum(row[of] for row in single) / len(single) for of in ("off", "beaten")}
        line = fit_tilt([*group.tasks.values()])
        rows.append(group.row | means | {"slope": line.slope, "tilt": line.tilt})
        rows += [group.row | {"tasks": 1} | row for row in single]
    return make_finding("people", rows, results.runs, left_out)


@cache
def guesses() -> dict[str, tuple[Array, Array]]:
    """Return by outcome the guessed percentages, and the number of people for each."""
    rows = pd.read_csv(str(files(__package__) / "guesses_2000.csv"))
    return {
        str(outcome): (own["guess_percent"].to_numpy(float), own["people"].to_numpy(float))
        for outcome, own in rows.groupby("outcome", sort=False)
    }


def measure_error(outcome: str, truth: float, answer: Array | float) -> Array:
    """Return how far answers are from the truth, or from another equally right figure; in %."""
    figures = truth, ALSO.get(outcome, truth)
    return np.min([np.abs(np.asarray(answer) - figure) for figure in figures], axis=0)


def count_beaten(outcome: str, truth: float, answer: float) -> float:
    """Return the per cent of people whose guess was further off; equal distances count half."""
    guess, number = guesses()[outcome]
    theirs, own = measure_error(outcome, truth, guess), float(measure_error(outcome, truth, answer))
    further = number[theirs > own + 1e-9].sum() + number[np.abs(theirs - own) <= 1e-9].sum() / 2
    return float(100 * further / number.sum())


def _average_american(part: Part) -> Array:
    guess, number = guesses()[find_task(part.truth.task).outcome]
    share = float(np.average(guess, weights=number)) / 100
    return np.array([[share, 1 - share]])
