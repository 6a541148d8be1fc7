"""Every task, and what each model answered in it, condition by condition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, in_way, leaves
from lm_eval_epidemia.elicit.prompts import prompt
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.answered import Samples
from lm_eval_epidemia.findings.finding import number
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.reference import asked_of, cut_of, known_over, part_asked, references
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, TaskScore, leaf
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.score.joint import joint_error
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import record, records

#: States of a task in a report.
ASKED, OPEN, WAITING = "asked", "not asked", "not available"


def shown(
    report: Report, samples: Samples, write: Callable[[str, str, Any], None]
) -> dict[str, Any]:
    """Return what the site's explorer shows.

    Parameters
    ----------
    report : Report
    samples : dict
        As of `answered.read_samples`.
    write : callable
        Takes the data of each task that can be opened: the name of its file, its own, what is in
        it.
    """
    tasks, files = [], {}
    entries = [entry for entry in report.entries if entry.scores]
    known = references(report.runs)
    # Once: each looks at every file of the ground truth.
    listed, truths = _listed(report), store.available()
    here_of = {
        about: about.available() for about in {leaf(asked_task).benchmark for asked_task in listed}
    }
    for asked_task in track(listed, "Tasks", console=Console(stderr=True), transient=True):
        name, about = in_way(*asked_task), leaf(asked_task)
        asked = any(asked_task in entry.scores for entry in report.entries)
        anchors, here = None, asked_task.task in here_of[about.benchmark]
        # What is not about a distribution has no truth to be shown beside answers.
        if here and asked_task.task in truths and WAYS[asked_task.way].distribution is not None:
            write(name, name, task_data(asked_task, report, samples))
            anchors, files[name] = Anchors.of(store.load(asked_task.task)), name
        digits, facets = about.benchmark.digits, about.entry.facets
        scores = [(model.name, model.scores.get(asked_task)) for model in entries]
        tasks.append(
            {
                "name": name,
                "title": about.entry.title,
                "way": asked_task.way,
                **{kind: facets.get(kind, "") for kind in ("survey", "domain", "dimension")},
                "state": ASKED if asked else OPEN if here else WAITING,
                "needs": "" if here else _needs(facets.get("survey", "")),
                "file": name in files,
                "informative": anchors.said if anchors else "",
                "mean": _said_known(asked_task, report, known) if anchors else "",
                "cells": [
                    {"model": model, "text": number(score.value, digits) if score else ""}
                    for model, score in scores
                ],
            }
        )
    kinds = ("survey", "domain", "dimension", "way", "state")
    filters = {kind: sorted({str(task[kind]) for task in tasks}) for kind in kinds}
    return {"tasks": tasks, "entries": entries, "files": files, "filters": filters}


def _said_known(asked: Asked, report: Report, known: Sequence[Entry]) -> str:
    """Say what the respondent that knows P(Y) alone scores, for each cut that runs have."""
    if not any(asked in entry.scores for entry in report.runs):
        whole = Entry("", scores={asked: TaskScore(0.0)})
        return number(known_over(whole, [asked])[0], 1)
    values = [(cut_of(cut), cut.scores[asked].value) for cut in known if asked in cut.scores]
    return "; ".join(number(value, 1) + (f" ({cut})" if cut else "") for cut, value in values)


def _anchors(entry: Entry, asked: Asked) -> dict[str, float] | None:
    """Return the distances that a run stands beside, of the conditions that it was asked."""
    part, known = part_asked(entry, asked), asked_of(entry, asked)
    if part is None or known is None:
        return None
    return {"D zero": part.anchors.zero, "D mean": known.l1, "D perfect": part.anchors.perfect}


def _listed(report: Report) -> list[Asked]:
    """Return what was asked, and each other declared task once, in its benchmark's plain way.

    What is not about a distribution and was not asked has no conditions to explore.
    """
    asked = {task for entry in report.entries for task in entry.scores}
    known = {task.task for task in asked}
    rest = {
        Asked(name, benchmark.plain.name)
        for benchmark in BENCHMARKS
        for name in benchmark.entries()
        if name not in known and benchmark.plain.distribution is not None
    }
    order = {name: place for place, name in enumerate(leaves())}
    return sorted(asked | rest, key=lambda task: order[in_way(*task)])


def _needs(survey: str) -> str:
    """Return the files that the tasks of a survey are built from."""
    if survey not in records():
        return ""
    return record(survey).vintages[record(survey).official].needed


def task_data(asked: Asked, report: Report, samples: Samples) -> dict[str, Any]:
    """Return what is shown of a task: truth, questions, and every model's answers."""
    truth, entry = store.load(asked.task), leaf(asked).entry
    whole = Entry("", scores={asked: TaskScore(0.0)})
    low, high = interval(truth.p, truth.n_eff)
    way, wording, cells = WAYS[asked.way], Wording(truth), range(len(truth.given))
    heading = "The question"
    assert way.question is not None and way.answers is not None
    if way.prompts_are == "levels" and len(truth.levels) > 2:
        heading += ", asked for each answer, here for the first"
    questions = [way.question(wording, cell, 0) for cell in cells]
    # What follows the question is the same for every cell; answers stand in their natural order.
    tail = prompt("", way.answers(truth), request=way.request)
    models = [
        _answered(model, asked, samples.get((model.name, asked)))
        for model in report.entries
        if asked in model.scores
    ]
    return {
        "name": in_way(*asked),
        "title": entry.title,
        "survey": truth.survey,
        "vintage": truth.vintage,
        "variables": entry.declared.given,
        "levels": truth.levels,
        "given": truth.given,
        "weight": _rounded(truth.weights, 7),
        "n": truth.n.tolist(),
        "p": _rounded(truth.p),
        "low": _rounded(low),
        "high": _rounded(high),
        "mean": _rounded(scoring.mean(truth.weights, truth.p)[0]),
        "anchors": _anchors(whole, asked),
        "heading": heading,
        "questions": questions,
        "tail": "\n" + tail,
        "models": models,
    }


def _answered(model: Entry, asked: Asked, own: TaskAnswers | None) -> dict[str, Any]:
    """Return what a model answered in a task, and what that came to."""
    score, whole = model.scores[asked], len(store.load(asked.task).given)
    apart = ("l1", "seen", POPULATION)
    return {
        "name": model.name,
        "reference": model.reference,
        "anchors": _anchors(model, asked),
        "score": score.value,
        "error": score.error,
        "l1": score.l1,
        "population": score.metrics.get(POPULATION, math.nan),
        "population_error": joint_error([score.population]),
        "diagnostics": {key: x for key, x in score.metrics.items() if key not in apart},
        "cells": None if own is None or len(own.cells) == whole else own.cells,
        "q": None if own is None else _rounded(own.q),
    }


def _rounded(values: Any, digits: int = 5) -> Any:
    return np.round(values, digits).tolist()
