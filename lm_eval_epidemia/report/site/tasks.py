"""Every task, with each run's answers, condition by condition."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.prompts import Wording, find_variables, prompt
from lm_eval_epidemia.ask.way import DistributionWay
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, in_way, list_leaves
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import collect_answers
from lm_eval_epidemia.findings.compare import POPULATION
from lm_eval_epidemia.findings.references import find_part, score_known
from lm_eval_epidemia.findings.single_groups import countries_of
from lm_eval_epidemia.findings.words import describe_question
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.figures import SCRIPTED
from lm_eval_epidemia.results.decode import LeafKey, leaf
from lm_eval_epidemia.results.read import NOT_SETTINGS, SCORE, Results
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.joint import joint_error
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record, records

#: States of a task in a report.
ASKED, OPEN, WAITING = "asked", "not asked", "not available"

#: Whole numbers as two digits of base 36.
PAIRS = ["".join(pair) for pair in product(string.digits + string.ascii_lowercase, repeat=2)]

#: Of tasks with so many conditions, a page names the people of each.
NAMED = 300


def make_tasks_page(results: Results, write: Callable[[str, str, Any], None]) -> dict[str, Any]:
    """Return the contents of the explorer, and write the data of each task that can be opened.

    Each facet of a task is a filter, including facets added later.
    """
    runs = results.runs.reindex(columns=["name", "model", "settings", "kind", "card"])
    other = results.runs.reindex(columns=["task_version", "truth"]).fillna("") != ""
    scores = results.scores.join(runs.assign(stale=other.any(axis=1)), on="run")
    scores["known"] = score_known(results.scores, results.runs)["score"]
    by_task = dict([*scores.groupby(["task", "way"], sort=False)])
    own, _ = collect_answers(results)
    here = {benchmark.name: benchmark.available() for benchmark in BENCHMARKS.values()}
    asked_of = {*scores["task"]} & {*store.list_available()}
    mapped = any(countries_of(store.load_truth(task)) for task in asked_of)
    listed: list[dict[str, Any]] = []
    files = {}
    for asked in _list_asked(by_task):
        name, about = in_way(*asked), leaf(asked)
        rows = by_task.get(tuple(asked), scores[:0])
        there, survey = asked.task in here[about.benchmark.name], about.entry.facets.get("survey")
        scored, informative, averages = rows[rows["value"].notna()], "", scores["known"][:0]
        # What is not about a distribution has no truth to be shown beside answers.
        if there and about.benchmark.of_surveys:
            anchors = Anchors.of(store.load_truth(asked.task))
            data = task_data(asked, rows, own, mapped)
            write(name, name, data)
            files[name], informative = name, anchors.said
            averages = scored["known"].dropna()
            if rows.empty:
                averages = pd.Series([anchors.score(data["anchors"]["D mean"])])
        state = OPEN if there else WAITING
        listed.append(
            {
                "name": name,
                "title": describe_question(about.entry),
                "facets": {
                    **{key: str(value) for key, value in about.entry.facets.items()},
                    "way": asked.way,
                    "state": ASKED if len(rows) else state,
                },
                "needs": _needs(survey) if state == WAITING else "",
                "file": name in files,
                "informative": informative,
                "mean": "; ".join(averages.map("{:.1f}".format).unique()),
                **_describe_scores(scored, about.benchmark.digits),
            }
        )
    facets = pd.DataFrame([task["facets"] for task in listed])
    # Models first, and of these who was asked most.
    by_name = scores.assign(other=scores["kind"] != "run").groupby("name", sort=False)
    asked_most = by_name.agg(other=("other", "first"), size=("value", "count"))
    order = asked_most.sort_values(["other", "size"], ascending=[True, False], kind="stable")
    names = [*order.index]
    known = {task["name"]: task["scores"] for task in listed if task["scores"]}
    titles = {}
    for task in (task for task in listed if task["name"] in known):
        way = task["facets"]["way"]
        titles[task["name"]] = task["title"] + ("" if way == "letters" else f", {way}")
    of_tasks = {task: [of.get(name) for name in names] for task, of in known.items()}
    return {
        "tasks": listed,
        "files": files,
        "filters": {kind: sorted(facets[kind].dropna().unique()) for kind in facets},
        "surveys": {name: survey.title.partition(",")[0] for name, survey in records().items()},
        "mapped": mapped,
        "names": names,
        "scores": {"models": names, "tasks": of_tasks, "titles": titles},
    }


def _list_asked(asked: Any) -> list[LeafKey]:
    """Return the tasks asked, and each other declared task once, in its benchmark's plain way.

    Tasks that are not about a distribution and were not asked have no conditions to explore.
    """
    known = {task for task, _ in asked}
    return [
        LeafKey(of.entry.name, of.way)
        for of in list_leaves().values()
        if (of.entry.name, of.way) in asked or (of.way == "letters" and of.entry.name not in known)
    ]


def _needs(survey: Any) -> str:
    """Return the files from which a survey's tasks are built."""
    if survey not in records():
        return ""
    return find_record(survey).vintages[find_record(survey).official].needed


def _describe_scores(rows: pd.DataFrame, digits: int) -> dict[str, Any]:
    """Return the scores of a task: of all, and the best."""
    written = rows["value"].map(f"{{:.{digits}f}}".format)
    # Of the models, where there are some: a reference respondent is no rival of theirs.
    models = rows[rows["kind"] != "respondent"]
    rivals = models if len(models) else rows
    highest = written[rivals["value"].idxmax()] if len(rivals) else ""
    return {"scores": dict(zip(rows["name"], written, strict=True)), "highest": highest}


def task_data(
    asked: LeafKey, rows: pd.DataFrame, own: dict[tuple[int, LeafKey], TaskAnswers], mapped: bool
) -> dict[str, Any]:
    """Return the contents of a task's page: truth, questions, and every run's answers.

    A map needs the condition that is a country, and the codes of its levels; a site has maps only
    if a task about countries was asked.

    Probabilities are whole numbers: the truth in 100,000ths; answers in 1,000ths, as precise as the
    page, in two digits of base 36. With two answers the first one suffices.
    """
    truth, entry = store.load_truth(asked.task), leaf(asked).entry
    low, high = ends = interval(truth.p, truth.n_eff)
    way, wording, cells = WAYS[asked.way], Wording(truth), range(len(truth.given))
    bare = Wording(truth)
    heading = "The question"
    assert isinstance(way, DistributionWay)
    if way.prompts_are == "levels" and len(truth.levels) > 2:
        heading += ", asked for each answer, here for the first"
    labels = [list(dict.fromkeys(column)) for column in zip(*truth.given, strict=True)]
    given = all_tasks()[truth.task].given
    is_ordered = len(given) == 1 and find_variables(truth)[given[0]].ordered
    rows = rows.assign(old=(rows["task_version"] != "") | (rows["truth"] != ""))
    rows = rows.assign(tuned=rows["card"].notna(), part=rows["seen"] < 1 - 1e-9)
    by = ["old", "tuned", "stale", "part", "value"]
    rows = rows.sort_values(by, ascending=[True] * 4 + [False], kind="stable")
    everywhere = _anchors(asked, find_part(asked, 1.0))
    on_map = {}
    if mapped and (countries := countries_of(truth)):
        here, codes = countries
        on_map = {"map": {"condition": here, "codes": [codes[one] for one in labels[here]]}}
    return {
        "name": in_way(*asked),
        "title": describe_question(entry, truth.vintage),
        "survey": truth.survey,
        "vintage": truth.vintage,
        "variables": entry.declared.given,
        "levels": truth.levels,
        "labels": labels,
        "given": [
            [labels[v].index(label) for v, label in enumerate(given)] for given in truth.given
        ],
        "ordered": is_ordered,
        **({"who": [bare.people(cell) for cell in cells]} if len(cells) <= NAMED else {}),
        "weight": np.rint(truth.weights * 1e6).astype(int).tolist(),
        "n": truth.n.tolist(),
        "p": _packed(truth.p, 100_000),
        "low": _packed(low, 100_000),
        "high": _packed(high, 100_000),
        "mean": [round(float(p), 5) for p in scoring.answer_marginal(truth.weights, truth.p)[0]],
        "anchors": everywhere,
        "heading": heading,
        **on_map,
        **_split_questions([way.question(wording, cell, 0) for cell in cells], truth, labels),
        # What follows the question is the same for every cell; answers are in their natural order.
        "tail": "\n" + prompt("", way.answers(truth), request=way.request),
        "models": [
            _list_answers(row, asked, own.get((row["run"], asked)), everywhere, ends)
            for row in rows.to_dict("records")
        ],
    }


def _anchors(asked: LeafKey, part: Part | None) -> dict[str, float] | None:
    """Return the anchors of a score, for the conditions that were asked."""
    if part is None:
        return None
    believed = scoring.answer_marginal(part.truth.weights, part.truth.p)[0]
    mean = part.distance(np.broadcast_to(WAYS[asked.way].told(believed), part.p.shape))
    return {"D zero": part.anchors.zero, "D mean": float(mean), "D perfect": part.anchors.perfect}


def _packed(values: Any, unit: int) -> list[int]:
    """Write probabilities as whole numbers, row by row; with two answers only the first."""
    values = values[:, :1] if values.shape[1] == 2 else values
    packed: list[int] = np.rint(values * unit).astype(int).ravel().tolist()
    return packed


def _split_questions(
    questions: Sequence[str], truth: store.GroundTruth, labels: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Return questions as their shared text and the phrases that differ."""
    ways, given = find_variables(truth), all_tasks()[truth.task].given
    phrases = [{level.label: level.phrase for level in ways[name].levels} for name in given]
    text, first = (
        questions[0],
        [of[label] for of, label in zip(phrases, truth.given[0], strict=True)],
    )
    # The longest first: a phrase may be part of another.
    for v in sorted(range(len(first)), key=lambda v: -len(first[v])):
        text = text.replace(first[v], f"\x1a{v}\x1a", 1)
    for cell, said in zip(truth.given, questions, strict=True):
        filled = text
        for v, label in enumerate(cell):
            filled = filled.replace(f"\x1a{v}\x1a", phrases[v][label])
        if filled != said:
            return {"questions": questions}
    own = [[of[label] for label in here] for of, here in zip(phrases, labels, strict=True)]
    return {"question": text, "phrases": own}


def _list_answers(
    row: dict[Any, Any], asked: LeafKey, own: TaskAnswers | None, everywhere: Any, ends: Any
) -> dict[str, Any]:
    """Return a run's answers in a task, and their scores."""
    known = {"l1", POPULATION, *SCORE, *NOT_SETTINGS, "known"}
    part, worth, l1 = find_part(asked, row["seen"], row["truth"]), math.nan, row.get("l1", math.nan)
    if part is not None:
        sizes = part.truth.n_eff[part.complete]
        worth = float(f"{scoring.count_interviews(part.weights, part.p, sizes, l1):.2g}")
    numbers = {
        "score": (row["value"], 4),
        "error": (joint_error([row["draws"]]), 4),
        "l1": (l1, 6),
        "worth": (worth, 0),
        "population": (row.get(POPULATION, math.nan), 4),
        "population_error": (joint_error([row["population"]]), 4),
    }
    more = {key: x for key, x in row.items() if isinstance(x, float) and key not in known}
    anchors = _anchors(asked, part)
    shown: dict[str, Any] = {
        "name": row["name"],
        **{key: row[key] for key in ("model", "settings", "kind")},
        **{key: True for key in ("old", "tuned", "part") if row[key]},
        "worst": own and _find_worst(own, store.load_truth(asked.task).p, *ends),
        **{key: round(x, digits) for key, (x, digits) in numbers.items() if math.isfinite(x)},
        "diagnostics": {key: round(x, 4) for key, x in more.items() if math.isfinite(x)},
        "q": own and "".join(PAIRS[x] for x in _packed(own.q, 1_000)),
        "cells": own and len(own.cells) < len(ends[0]) and own.cells,
    }
    # What is missing is unknown, or the same for all.
    shown = {key: x for key, x in shown.items() if x is not None and x is not False and x != {}}
    return shown if anchors == everywhere else {**shown, "anchors": anchors}


def _find_worst(own: TaskAnswers, p: Array, low: Array, high: Array) -> list[int]:
    """Return the condition and the answer that a run misses by most, beyond sampling error.

    If it misses none by more than that, by which it is furthest off.
    """
    off = np.maximum(low[own.cells] - own.q, own.q - high[own.cells])
    off = off if off.max() > 0 else np.abs(own.q - p[own.cells])
    off = off.round(9)  # of two answers that are as far off, the first
    row, answer = np.unravel_index(off.argmax(), off.shape)
    return [int(own.cells[row]), int(answer)]


def specifications(mapped: bool) -> dict[str, Any]:
    """Return the figures of the task page, which take their rows from its script."""
    drawn = {name: SCRIPTED[name] for name in ("curve", "groups", "points")}
    if mapped:
        for name, colour in (("shares", "p"), ("errors", "error")):
            one = charts.shade_map(colour).properties(width=640, height=310).to_dict()
            one.pop("config", None)  # colours of text and axes are the page's
            drawn[name] = {**one, "data": {"name": "rows"}}
    return drawn
