"""The memorisation probe: published tasks beside fresh ones, vintages before and after a cutoff.

A model can memorise printed numbers. If it knows published slices of a survey better than
comparable unprinted ones, or vintages from before the end of its training better than later ones,
it has read the numbers rather than understood the world. `benchmarks.observation.probe` has the
statistics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.fresh.slices import short
from lm_eval_epidemia.benchmarks.observation.probe import (
    FACTOR,
    LEAST,
    RATIO,
    Alike,
    PairDifference,
    contrast,
    nearest,
)
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, tabled
from lm_eval_epidemia.findings.mean import with_columns
from lm_eval_epidemia.findings.pairs import asked_but
from lm_eval_epidemia.results.choose import alike_but
from lm_eval_epidemia.results.compare import POPULATION
from lm_eval_epidemia.results.entry import Asked, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys import fresh
from lm_eval_epidemia.surveys.catalogue import all_tasks, record

#: The published lists.
PUBLISHED = ("low", "high")

#: What is compared with what.
SLICES, VINTAGES = ("published", "fresh"), ("before", "after")

#: Where tasks of all surveys are taken together.
ALL = "all"

NOTE = (
    "Scores against the population, 0 to 100. Without a cutoff: published tasks (epidemia_low, "
    "epidemia_high) less fresh ones, which are random and have never been printed. Each published "
    "task is matched with the fresh task of the same survey, vintage and outcome whose scale is "
    f"most similar (D_mean / D_zero differs by at most {RATIO:g}, D_zero by a factor of at most "
    f"{FACTOR:g}), with the same number of conditions if possible. A fresh task may serve several "
    "times ('fresh ones used' counts the different ones; below "
    f"{LEAST} there is no comparison). 'left out': published tasks with half of their scale or "
    "more due to sampling error; no fresh task is like that. With a cutoff (--cutoff "
    "MODEL=2024-06): the same tasks in two vintages, one whose year had ended by then, less one "
    "whose year had not (results come out later still). ± and the interval also cover other tasks "
    "of this kind; 'sampling' is the part of the error due to the surveys' samples and the way of "
    "asking. '... known better': the model knows the numbers that it may have read better than "
    "comparable ones that it cannot have read, or the other way round."
)


def probe(results: Results) -> Finding:
    """Signs of memorisation: published tasks against fresh ones, vintages before a cutoff."""
    scores = with_columns(results.scores, (POPULATION,)).sort_values(["run", "task", "way"])
    asked = [leaf(Asked(*of)) for of in zip(scores["task"], scores["way"], strict=True)]
    scores = scores.assign(fresh=[of.entry.group == fresh.GROUP for of in asked])
    # Only surveys have a score against the population.
    whole = scores[scores[POPULATION].notna() & (scores["seen"] >= 1)]
    # Those of an earlier set of the same names have another truth.
    here = [
        not of and store.is_available(task)
        for task, of in zip(whole["task"], whole["truth"], strict=True)
    ]
    slices = [*_slices(whole[here])] if whole["fresh"].any() else []
    around, left_out = _around_cutoffs(results, whole)
    if not scores["fresh"].any():
        left_out.append(
            "no fresh task was asked, so published tasks have no comparison: run 'epidemia tasks "
            "fresh SURVEY --raw FILE', then lm_eval --tasks epidemia_fresh,..."
        )
    elif not slices:
        left_out.append(
            "no published task (epidemia_low, epidemia_high) was asked from the surveys and "
            "vintages of the fresh tasks"
        )
    rows = [*slices, *around]
    columns = {
        **WHO,
        "group": Column(),
        "survey": Column(),
        "cutoff": Column(),
        "pairs": Column(),
        "used": Column("fresh ones used"),
        "first": Column("published, before", 1),
        "second": Column("fresh, after", 1),
        "difference": Column("", 1, signed=True, error="error", interval=("low", "high")),
        "verdict": Column(),
        "sampling": Column("", 1),
        "unmatched": Column(),
        "short": Column("left out"),
        "other_conditions": Column("other number of conditions"),
    }
    table = tabled(rows, columns, results.runs)
    left_out += [*_silent(results, rows), *_refused(results, slices)]
    return Finding("probe", "Memorisation probe", table, columns, NOTE, left_out=left_out)


def _row(
    of: Any, survey: str, sides: Sequence[str], compared: PairDifference, **more: object
) -> dict[str, Any]:
    """Return the row of a comparison of scores, of which one is given."""
    verdicts = {1: f"{sides[0]} known better", -1: f"{sides[1]} known better", 0: "not shown"}
    return {
        **compared._asdict(),
        "run": of.run,
        "way": of.way,
        "group": in_way(fresh.GROUP, of.way),
        "survey": survey,
        "difference": compared.difference,
        "sampling": compared.survey,
        "verdict": verdicts[compared.side],
        **dict.fromkeys(("unmatched", "short", "other_conditions"), 0),
        **more,
    }


def _contrast(ones: Sequence[Any], others: Sequence[Any], places: Sequence[int]) -> PairDifference:
    """Compare scores with the scores at given places of others."""
    values = [[getattr(of, POPULATION) for of in side] for side in (ones, others)]
    draws = [[of.population for of in side] for side in (ones, others)]
    return contrast(values[0], values[1], places, draws[0], draws[1])


def _slices(scores: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Compare every run's published tasks with similar fresh ones."""
    published = pd.Series([all_tasks()[task].kind in PUBLISHED for task in scores["task"]])
    scores = scores[scores["fresh"] | published.set_axis(scores.index)]
    truths = [store.load(task) for task in scores["task"]]
    scores = scores.assign(where=[f"{truth.survey} {truth.vintage}" for truth in truths])
    for _, of in scores.groupby(["run", "way"], sort=False):
        surveys = sorted({*of["where"][of["fresh"]]})
        parts = {survey: [survey] for survey in surveys}
        if len(surveys) > 1:
            parts[ALL] = surveys
        for name, part in parts.items():
            mine = of[of["where"].isin(part)]
            if not mine["fresh"].all():
                yield _matched(name, [*mine.itertuples(index=False)])


def _matched(survey: str, scores: Sequence[Any]) -> dict[str, Any]:
    """Compare published tasks with the fresh ones among the same scores."""
    scales = {of.task: Anchors.of(store.load(of.task)) for of in scores}
    drawn = [of for of in scores if of.fresh]
    published = [of for of in scores if not of.fresh]
    told = [of for of in published if not short(scales[of.task].zero, scales[of.task].perfect)]
    like = {}
    for of in (*told, *drawn):
        task, scale = all_tasks()[of.task], scales[of.task]
        like[of.task] = Alike((of.where, task.outcome), len(task.given), scale.mean, scale.zero)
    places = nearest([like[of.task] for of in told], [like[of.task] for of in drawn])
    pairs = [(of, place) for of, place in zip(told, places, strict=True) if place is not None]
    compared = _contrast([of for of, _ in pairs], drawn, [place for _, place in pairs])
    more = {
        "unmatched": len(told) - compared.pairs,
        "short": len(published) - len(told),
        "other_conditions": sum(
            like[of.task].conditions != like[drawn[place].task].conditions for of, place in pairs
        ),
    }
    if compared.used < LEAST:
        nothing = PairDifference(math.nan, math.nan, compared.pairs, compared.used, *[math.nan] * 4)
        return _row(scores[0], survey, SLICES, nothing, **more, verdict="too few fresh tasks")
    return _row(scores[0], survey, SLICES, compared, **more)


def _around_cutoffs(
    results: Results, scores: pd.DataFrame
) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare a model's scores on vintages from before and after its cutoff.

    Tasks match on survey, outcome, conditions and way of asking. Among several vintages on one
    side, the one nearest to the cutoff counts. Also return which models have no such tasks.
    """
    runs = results.runs
    cutoffs = runs.get("cutoff", pd.Series(dtype=object)).dropna()
    # Runs are alike if they differ only in the truth.
    scores = scores.assign(asked_as=asked_but(scores["asked_as"], "truth"))
    rows = [
        row
        for alike in alike_but(runs.loc[cutoffs.index], ("truth", "task_version"))
        for row in _around(scores[scores["run"].isin(alike)], cutoffs[alike[0]])
    ]
    asked = dict(zip(runs["model"][cutoffs.index], cutoffs, strict=True))
    shown = {runs["model"][row["run"]] for row in rows}
    return rows, [
        f"{model}: no task was asked about vintages on both sides of {cutoff}. Ask sets of fresh "
        "tasks from an earlier and a later vintage: they share some tasks ('epidemia tasks fresh "
        "SURVEY --vintage V')"
        for model, cutoff in asked.items()
        if model not in shown
    ]


def _around(scores: pd.DataFrame, cutoff: str) -> Iterator[dict[str, Any]]:
    """Compare by way and survey, and over all surveys if there are several."""
    by_task: dict[tuple[Any, ...], list[tuple[int, str, str, Any]]] = {}
    of: Any
    for of in scores.itertuples(index=False):
        if of.truth:
            vintage = of.truth.rpartition(" ")[0]
        elif store.is_available(of.task):
            vintage = store.load(of.task).vintage
        else:
            continue  # its truth is not here, and the file does not say which it was
        task = all_tasks()[of.task]
        declared = record(task.survey).vintages
        if vintage in declared:
            key = of.way, task.survey, task.outcome, (*sorted(task.given),), of.asked_as
            by_task.setdefault(key, []).append((declared[vintage].year, vintage, of.task, of))
    pairs: dict[str, dict[str, list[Any]]] = {}
    for (way, survey, *_), several in sorted(by_task.items(), key=lambda item: item[0]):
        # Data of a year can have been read if it had ended by then.
        several.sort(key=lambda dated: dated[:3])
        after = sum(f"{dated[0]}-12" > cutoff for dated in several)
        if 0 < after < len(several):
            both = several[-after - 1], several[-after]
            pairs.setdefault(way, {}).setdefault(survey, []).append(both)
    for parts in pairs.values():
        if len(parts) > 1:
            parts[ALL] = [pair for several in parts.values() for pair in several]
        for survey, matched in parts.items():
            sides = [*zip(*matched, strict=True)]
            named = ["/".join(sorted({dated[1] for dated in side})) for side in sides]
            name = survey if survey == ALL else f"{survey} {', '.join(named)}"
            first, second = ([dated[3] for dated in side] for side in sides)
            compared = _contrast(first, second, range(len(matched)))
            yield _row(first[0], name, VINTAGES, compared, cutoff=cutoff)


def _silent(results: Results, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Name the runs without errors of the probe."""
    silent = (row for row in rows if math.isnan(row["sampling"]) and row["first"] == row["first"])
    runs = {results.runs["name"][row["run"]] for row in silent}
    said = "errors of the probe are not known, because a file has no draws of some tasks, for"
    return [f"{said} {few(sorted(runs))}: run these again"] if runs else []


def _refused(results: Results, slices: Sequence[dict[str, Any]]) -> list[str]:
    """Say what was not compared, how many tasks are missing, and what to run."""
    counts: dict[tuple[str, int, int], list[str]] = {}
    for row in slices:
        if row["used"] < LEAST:
            key = row["survey"], row["pairs"], row["used"]
            counts.setdefault(key, []).append(f"{results.runs['name'][row['run']]} ({row['way']})")
    return [
        f"probe, {survey}: no comparison: the {pairs} published tasks that have a match share "
        f"{used} different fresh ones, and {LEAST} are needed. Ask more fresh tasks about "
        "published outcomes: 'epidemia tasks fresh SURVEY --raw FILE --n 80 --outcomes A,B'. "
        "Those of other surveys help too, because tasks of all surveys are compared together "
        f"({few(runs)})"
        for (survey, pairs, used), runs in counts.items()
    ]
