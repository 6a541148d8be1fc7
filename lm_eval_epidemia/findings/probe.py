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

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.fresh import short
from lm_eval_epidemia.benchmarks.observation.probe import LEAST, Alike, contrast, nearest
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.compare import POPULATION
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.mean import with_columns
from lm_eval_epidemia.findings.pairs import asked_but
from lm_eval_epidemia.results.choose import alike_but
from lm_eval_epidemia.results.decode import Asked, leaf
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


def probe(results: Results) -> Finding:
    """Signs of memorisation: published tasks against fresh ones, vintages before a cutoff."""
    scores = with_columns(results.scores, (POPULATION,)).sort_values(["run", "task", "way"])
    asked = [leaf(Asked(*of)) for of in zip(scores["task"], scores["way"], strict=True)]
    scores = scores.assign(fresh=[of.entry.group == fresh.GROUP for of in asked])
    # Only surveys have a score against the population.
    whole = scores[scores[POPULATION].notna() & (scores["seen"] >= 1)]
    # Those of an earlier set of the same names have another truth.
    here = whole[(whole["truth"] == "") & whole["task"].map(store.is_available).astype(bool)]
    slices = [*_slices(here)] if whole["fresh"].any() else []
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
    names, rows = results.runs["name"], [*slices, *around]
    compared = [row for row in rows if not math.isnan(row["first"])]
    if silent := {names[row["run"]] for row in compared if math.isnan(row["sampling"])}:
        left_out.append(
            "errors of the probe are not known, because a file has no draws of some tasks, for "
            f"{few(sorted(silent))}: run these again"
        )
    left_out += _refused(names, slices)
    return make_finding("probe", rows, results.runs, left_out)


def _compared(
    survey: str, sides: Sequence[str], one: pd.DataFrame, other: pd.DataFrame, at: Sequence[int]
) -> dict[str, Any]:
    """Return the row of a comparison of scores with those at given places of others."""
    values, draws = ([[*of[name]] for of in (one, other)] for name in (POPULATION, "population"))
    compared = contrast(values[0], values[1], at, draws[0], draws[1])
    verdicts = {1: f"{sides[0]} known better", -1: f"{sides[1]} known better", 0: "not shown"}
    row = {**compared._asdict(), "difference": compared.difference, "sampling": compared.survey}
    row |= {"survey": survey, "verdict": verdicts[compared.side]}
    return row | dict.fromkeys(("unmatched", "short", "other_conditions"), 0)


def _in_parts(scores: pd.DataFrame) -> Iterator[tuple[dict[str, Any], str, pd.DataFrame]]:
    """Yield the scores of each run and way by survey, and over all surveys if there are several."""
    for (run, way), of in scores.groupby(["run", "way"], sort=False):
        whose = {"run": run, "way": way, "group": in_way(fresh.GROUP, way)}
        parts = [*of.groupby("survey")]
        for survey, part in [*parts, (ALL, of)] if len(parts) > 1 else parts:
            yield whose, survey, part


def _slices(scores: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Compare every run's published tasks with similar fresh ones."""
    is_published = scores["task"].map(lambda task: all_tasks()[task].kind in PUBLISHED)
    scores = scores[scores["fresh"] | is_published.astype(bool)]
    truths = [store.load(task) for task in scores["task"]]
    scores = scores.assign(survey=[f"{truth.survey} {truth.vintage}" for truth in truths])
    with_fresh = scores[scores["fresh"]].groupby(["run", "way"])["survey"].agg(set)
    keys = zip(scores["run"], scores["way"], scores["survey"], strict=True)
    is_comparable = [survey in with_fresh.get((run, way), ()) for run, way, survey in keys]
    for whose, survey, part in _in_parts(scores[is_comparable]):
        if not part["fresh"].all():
            yield whose | _matched(survey, part)


def _matched(survey: str, scores: pd.DataFrame) -> dict[str, Any]:
    """Compare published tasks with the fresh ones among the same scores."""
    alike, is_short = [], []
    for name, where in zip(scores["task"], scores["survey"], strict=True):
        task, scale = all_tasks()[name], Anchors.of(store.load(name))
        alike.append(Alike((where, task.outcome), len(task.given), scale.mean, scale.zero))
        is_short.append(short(scale.zero, scale.perfect))
    scores = scores.assign(alike=alike, conditions=[of.conditions for of in alike])
    drawn, told = scores[scores["fresh"]], scores[~scores["fresh"] & ~np.array(is_short)]
    matches = pd.Series(nearest([*told["alike"]], [*drawn["alike"]]), told.index, float).dropna()
    places, paired = [*matches.astype(int)], told.loc[matches.index]
    others = drawn["conditions"].iloc[places].to_numpy() != paired["conditions"]
    row = _compared(survey, SLICES, paired, drawn, places) | {
        "unmatched": len(told) - len(paired),
        "short": int((~scores["fresh"]).sum()) - len(told),
        "other_conditions": int(others.sum()),
    }
    if row["used"] < LEAST:
        unknown = ("first", "second", "difference", "error", "low", "high", "sampling")
        row |= dict.fromkeys(unknown, math.nan) | {"verdict": "too few fresh tasks"}
    return row


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
    shown = {runs["model"][row["run"]] for row in rows}
    return rows, [
        f"{model}: no task was asked about vintages on both sides of {cutoff}. Ask sets of fresh "
        "tasks from an earlier and a later vintage: they share some tasks ('epidemia tasks fresh "
        "SURVEY --vintage V')"
        for model, cutoff in dict(zip(runs["model"][cutoffs.index], cutoffs, strict=True)).items()
        if model not in shown
    ]


def _around(scores: pd.DataFrame, cutoff: str) -> Iterator[dict[str, Any]]:
    """Compare by way and survey, and over all surveys if there are several."""
    known = []
    for name, truth in zip(scores["task"], scores["truth"], strict=True):
        task, vintage = all_tasks()[name], truth.rpartition(" ")[0]
        if not truth and store.is_available(name):
            vintage = store.load(name).vintage
        # Without a year: its truth is not here, and the file does not say which it was.
        declared = record(task.survey).vintages.get(vintage)
        year = declared.year if declared else math.nan
        known.append((task.survey, task.outcome, " ".join(sorted(task.given)), vintage, year))
    names = ["survey", "outcome", "given", "vintage", "year"]
    dated = scores.join(pd.DataFrame(known, scores.index, names)).dropna(subset="year")
    dated = dated.sort_values(["year", "vintage", "task"], kind="stable")
    # Data of a year can have been read if it had ended by then.
    is_after = dated["year"].map("{:.0f}-12".format) > cutoff
    same = ["way", "survey", "outcome", "given", "asked_as"]
    both = dated[~is_after].drop_duplicates(same, keep="last")
    both = both.merge(dated[is_after].drop_duplicates(same), on=same, suffixes=("", "_after"))
    # Runs that differ in the truth alone are one.
    both = both.sort_values(same).assign(run=both["run"].min())
    second = {f"{POPULATION}_after": POPULATION, "population_after": "population"}
    for whose, survey, part in _in_parts(both):
        vintages = ("/".join(sorted({*part[name]})) for name in ("vintage", "vintage_after"))
        named = survey if survey == ALL else f"{survey} {', '.join(vintages)}"
        after = part[[*second]].rename(columns=second)
        row = _compared(named, VINTAGES, part, after, range(len(part)))
        yield whose | row | {"cutoff": cutoff}


def _refused(names: pd.Series, slices: Sequence[dict[str, Any]]) -> list[str]:
    """Say what was not compared, how many tasks are missing, and what to run."""
    counts: dict[tuple[str, int, int], list[str]] = {}
    for row in slices:
        if row["used"] < LEAST:
            runs = counts.setdefault((row["survey"], row["pairs"], row["used"]), [])
            runs.append(f"{names[row['run']]} ({row['way']})")
    return [
        f"probe, {survey}: no comparison: the {pairs} published tasks that have a match share "
        f"{used} different fresh ones, and {LEAST} are needed. Ask more fresh tasks about "
        "published outcomes: 'epidemia tasks fresh SURVEY --raw FILE --n 80 --outcomes A,B'. "
        "Those of other surveys help too, because tasks of all surveys are compared together "
        f"({few(runs)})"
        for (survey, pairs, used), runs in counts.items()
    ]
