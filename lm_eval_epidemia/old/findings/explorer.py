"""Every task, with each model's answers, condition by condition."""

from __future__ import annotations

import math
import statistics
import string
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, in_way, leaves
from lm_eval_epidemia.elicit.prompts import prompt
from lm_eval_epidemia.elicit.wording import Wording, ways_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings.answered import Samples
from lm_eval_epidemia.old.findings.data import is_ranked
from lm_eval_epidemia.old.findings.rows import number
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.model_rows import parts_of
from lm_eval_epidemia.old.findings.reference import (
    asked_of,
    cut_of,
    known_over,
    part_asked,
    references,
)
from lm_eval_epidemia.old.findings.world_rows import countries_of
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, TaskScore, leaf
from lm_eval_epidemia.results.models import Model, chips, is_respondent
from lm_eval_epidemia.results.naming import with_settings
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.score.joint import joint_error
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks, record, records

#: States of a task in a report.
ASKED, OPEN, WAITING = "asked", "not asked", "not available"


#: Whole numbers as two digits of base 36.
PAIRS = ["".join(pair) for pair in product(string.digits + string.ascii_lowercase, repeat=2)]


class Answerer(NamedTuple):
    """A run as the explorer names it.

    Attributes
    ----------
    name : str
        The model's name; with settings for a run other than the model's main one.
    run : Entry
    """

    name: str
    run: Entry


def answerers(models: Sequence[Model]) -> list[Answerer]:
    """Return every run of every model with a unique name, in the report's order."""
    named: dict[str, Entry] = {}
    for model in models:
        for place, run in enumerate(model.runs):
            settings = (chips(run) or ("as by default",)) if place else ()
            name = plain = with_settings(model.name, settings)
            number = 1
            while name in named:
                number += 1
                name = f"{plain} [{number}]"
            named[name] = run
    return [Answerer(*pair) for pair in named.items()]


def shown(
    report: Report,
    runs: Sequence[Answerer],
    samples: Samples,
    write: Callable[[str, str, Any], None],
) -> dict[str, Any]:
    """Return the contents of the site's explorer.

    Parameters
    ----------
    report : Report
    runs : sequence of Answerer
    samples : dict
        As of `answered.read_samples`.
    write : callable
        Receives the data of each task that can be opened: file name, task name, contents.

    Returns
    -------
    dict
        Tasks with their facets; each facet is a filter, including facets added later, such as a
        place.
    """
    tasks: list[dict[str, Any]] = []
    files = {}
    truths = store.available()
    mapped = any(
        asked.task in truths and countries_of(store.load(asked.task))
        for asked in {asked for entry in report.runs for asked in entry.scores}
    )
    known = references(report.runs)
    respondents = {one.name for one in runs if is_respondent(one.run)}
    # Once: each looks at every file of the ground truth.
    listed = _listed(report)
    here_of = {
        about: about.available() for about in {leaf(asked_task).benchmark for asked_task in listed}
    }
    for asked_task in track(listed, "Tasks", console=Console(stderr=True), transient=True):
        name, about = in_way(*asked_task), leaf(asked_task)
        asked = any(asked_task in entry.scores for entry in report.entries)
        anchors, here = None, asked_task.task in here_of[about.benchmark]
        # What is not about a distribution has no truth to be shown beside answers.
        if here and asked_task.task in truths and WAYS[asked_task.way].distribution is not None:
            write(name, name, task_data(asked_task, runs, samples, mapped))
            anchors, files[name] = Anchors.of(store.load(asked_task.task)), name
        scores = {
            one.name: score.value
            for one in runs
            if (score := one.run.scores.get(asked_task)) and not math.isnan(score.value)
        }
        digits = about.benchmark.digits
        # Of the models, where there are some: a reference respondent is no rival of theirs.
        rivals = {who: value for who, value in scores.items() if who not in respondents} or scores
        best = max(rivals, key=lambda who: rivals[who], default="")
        tasks.append(
            {
                "name": name,
                "title": about.entry.title,
                "facets": {
                    **{key: str(value) for key, value in about.entry.facets.items()},
                    "way": asked_task.way,
                    "state": ASKED if asked else OPEN if here else WAITING,
                },
                "needs": "" if here else _needs(about.entry.facets.get("survey", "")),
                "file": name in files,
                "informative": anchors.said if anchors else "",
                "mean": _said_known(asked_task, report, known) if anchors else "",
                "best": best,
                "highest": number(scores[best], digits) if best else "",
                "median": number(statistics.median(rivals.values()), digits) if best else "",
                "scores": {who: number(value, digits) for who, value in scores.items()},
            }
        )
    kinds = dict.fromkeys(kind for task in tasks for kind in task["facets"])
    filters = {
        kind: sorted({value for task in tasks if (value := task["facets"].get(kind))})
        for kind in kinds
    }
    return {"tasks": tasks, "files": files, "filters": filters, "mapped": mapped}


def _said_known(asked: Asked, report: Report, known: Sequence[Entry]) -> str:
    """Return the scores of the respondent that knows averages only, for each cut of the runs."""
    if not any(asked in entry.scores for entry in report.runs):
        whole = Entry("", scores={asked: TaskScore(0.0)})
        return number(known_over(whole, [asked])[0], 1)
    values = [(cut_of(cut), cut.scores[asked].value) for cut in known if asked in cut.scores]
    return "; ".join(number(value, 1) + (f" ({cut})" if cut else "") for cut, value in values)


def _anchors(entry: Entry, asked: Asked) -> dict[str, float] | None:
    """Return the anchors of a run, for the conditions that it was asked."""
    part, known = part_asked(entry, asked), asked_of(entry, asked)
    if part is None or known is None:
        return None
    return {"D zero": part.anchors.zero, "D mean": known.l1, "D perfect": part.anchors.perfect}


def _listed(report: Report) -> list[Asked]:
    """Return the tasks asked, and each other declared task once, in its benchmark's plain way.

    Tasks that are not about a distribution and were not asked have no conditions to explore.
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
    """Return the files from which a survey's tasks are built."""
    if survey not in records():
        return ""
    return record(survey).vintages[record(survey).official].needed


def task_data(
    asked: Asked, runs: Sequence[Answerer], samples: Samples, mapped: bool = False
) -> dict[str, Any]:
    """Return the contents of a task's page: truth, questions, and every model's answers.

    A map needs the condition that is a country, and the codes of its levels; a site has maps only
    if a task about countries was asked.

    Probabilities are whole numbers: the truth in 100,000ths; answers in 1,000ths, as precise as the
    page, in two digits of base 36. With two answers the first one suffices.
    """
    truth, entry = store.load(asked.task), leaf(asked).entry
    whole = Entry("", scores={asked: TaskScore(0.0)})
    low, high = interval(truth.p, truth.n_eff)
    way, wording, cells = WAYS[asked.way], Wording(truth), range(len(truth.given))
    heading = "The question"
    assert way.question is not None and way.answers is not None
    if way.prompts_are == "levels" and len(truth.levels) > 2:
        heading += ", asked for each answer, here for the first"
    questions = [way.question(wording, cell, 0) for cell in cells]
    anchors = _anchors(whole, asked)
    labels = [list(dict.fromkeys(column)) for column in zip(*truth.given, strict=True)]
    return {
        "name": in_way(*asked),
        "title": entry.title,
        "survey": truth.survey,
        "vintage": truth.vintage,
        "variables": entry.declared.given,
        "levels": truth.levels,
        "labels": labels,
        "given": [
            [labels[v].index(label) for v, label in enumerate(given)] for given in truth.given
        ],
        "ranked": is_ranked(truth),
        "weight": np.rint(truth.weights * 1e6).astype(int).tolist(),
        "n": truth.n.tolist(),
        "p": _packed(truth.p, 100_000),
        "low": _packed(low, 100_000),
        "high": _packed(high, 100_000),
        "mean": [round(float(p), 5) for p in scoring.mean(truth.weights, truth.p)[0]],
        "anchors": anchors,
        "heading": heading,
        **(_on_map(truth, labels) if mapped else {}),
        **_shared(questions, truth, labels),
        # What follows the question is the same for every cell; answers are in their natural order.
        "tail": "\n" + prompt("", way.answers(truth), request=way.request),
        "models": [
            _answered(one, part, asked, samples.get((part.name, asked)), anchors)
            for one in runs
            for part in parts_of(one.run)
            if asked in part.scores
        ],
    }


def _on_map(truth: store.GroundTruth, labels: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return the condition of a task that is a country, and the codes of its labels, if any."""
    if (countries := countries_of(truth)) is None:
        return {}
    here = countries.condition
    return {"map": {"condition": here, "codes": [countries.codes[one] for one in labels[here]]}}


def _packed(values: Any, unit: int) -> list[int]:
    """Write probabilities as whole numbers, row by row; with two answers only the first."""
    values = values[:, :1] if values.shape[1] == 2 else values
    packed: list[int] = np.rint(values * unit).astype(int).ravel().tolist()
    return packed


def _shared(
    questions: Sequence[str], truth: store.GroundTruth, labels: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Return questions as their shared text and the phrases that differ."""
    ways = ways_of(truth)
    phrases = [
        [next(level.phrase for level in ways[name].levels if level.label == label) for label in own]
        for name, own in zip(leaf_given(truth), labels, strict=True)
    ]
    # The longest first: a phrase may be part of another.
    first = sorted(
        ((phrases[v][labels[v].index(label)], v) for v, label in enumerate(truth.given[0])),
        key=lambda pair: -len(pair[0]),
    )
    text = questions[0]
    for phrase, v in first:
        text = text.replace(phrase, f"\x1a{v}\x1a", 1)

    def filled(given: Sequence[str]) -> str:
        whole = text
        for v, label in enumerate(given):
            whole = whole.replace(f"\x1a{v}\x1a", phrases[v][labels[v].index(label)])
        return whole

    if all(filled(given) == said for given, said in zip(truth.given, questions, strict=True)):
        return {"question": text, "phrases": phrases}
    return {"questions": questions}


def leaf_given(truth: store.GroundTruth) -> Sequence[str]:
    """Return the names of a task's conditions."""
    return all_tasks()[truth.task].given


def _answered(
    one: Answerer,
    part: Entry,
    asked: Asked,
    own: TaskAnswers | None,
    everywhere: dict[str, float] | None,
) -> dict[str, Any]:
    """Return a model's answers in a task, and their scores."""
    score, whole = part.scores[asked], len(store.load(asked.task).given)
    apart = ("l1", "seen", POPULATION)
    shown: dict[str, Any] = {
        "name": one.name,
        "reference": part.reference,
        "score": _short(score.value, 4),
        "error": _short(score.error, 4),
        "l1": _short(score.l1, 6),
        "population": _short(score.metrics.get(POPULATION, math.nan), 4),
        "population_error": _short(joint_error([score.population]), 4),
        "diagnostics": {key: _short(x, 4) for key, x in score.metrics.items() if key not in apart},
        "q": None if own is None else "".join(PAIRS[x] for x in _packed(own.q, 1_000)),
    }
    if own is not None and len(own.cells) < whole:
        shown["cells"] = own.cells
    if (anchors := _anchors(part, asked)) != everywhere:
        shown["anchors"] = anchors
    return {key: x for key, x in shown.items() if x is not None and x is not False and x != {}}


def _short(value: float, digits: int) -> float | None:
    return round(value, digits) if math.isfinite(value) else None
