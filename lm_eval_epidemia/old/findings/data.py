"""The rows of every figure, from a report and the samples of its runs."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lm_eval_epidemia.benchmarks import (
    INTERVENTION,
    OBSERVATION,
    WAYS,
    Benchmark,
    groups,
    in_way,
    leaves,
)
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, nearest, plural
from lm_eval_epidemia.elicit.orderings import LETTERS
from lm_eval_epidemia.elicit.wording import Wording, ways_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings.answered import Samples, read_samples
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.old.findings.interventions import EFFECTS, LARGE, LONGEST, by_length
from lm_eval_epidemia.old.findings.leaderboard import Report, closed_subset
from lm_eval_epidemia.old.findings.means import (
    group_mean,
    interval_of,
    mean_over,
    shared_tasks,
    slices,
    tasks_in,
)
from lm_eval_epidemia.old.findings.reference import AVERAGES, UNIFORM, known_over, references
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.naming import kind_of
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: Bins of the calibration figure, per axis.
BINS = 20

Rows = list[dict[str, Any]]

T = TypeVar("T")


def finite(value: float) -> float | None:
    """Return a number for JSON: None for NaN."""
    return value if math.isfinite(value) else None


def as_point(entry: Entry, mean: Number, benchmark: Benchmark) -> dict[str, Any]:
    """Return a model's mean and 1.96 standard errors around it, for a row of a figure."""
    low, high = interval_of(mean, benchmark.measure)
    return {
        "model": entry.name,
        "kind": "published" if entry.reference else "run",
        **_scale(benchmark),
        "score": mean.value,
        "tasks": mean.tasks,
        "low": low,
        "high": high,
    }


def _scale(benchmark: Benchmark) -> dict[str, Any]:
    """Return the name and limits of a benchmark's value; None if it is unbounded."""
    ends = {"lowest": finite(benchmark.measure.low), "highest": finite(benchmark.measure.high)}
    return {"metric": benchmark.heading, **ends}


def some(rows: Rows, otherwise: str) -> Rows:
    """Return the rows of a figure; if there are none, say what to do."""
    if not rows:
        raise EpidemiaError(otherwise)
    return rows


def _is_scored(entry: Entry, asked: Asked) -> bool:
    return asked in entry.scores and not math.isnan(entry.scores[asked].value)


def leaderboard_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `leaderboard`."""
    return [
        {
            **as_point(entry, group_mean(entry, column), groups()[column]),
            "place": place,
            "group": column,
            "column": number,
            "mean": finite(known_over(entry, tasks)[0]),
        }
        for number, column in enumerate(report.columns)
        for place, entry in enumerate(report.entries)
        if (tasks := tasks_in(entry, column))
    ]


def survey_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `surveys`."""
    rows = []
    for number, column in enumerate(report.columns):
        for place, entry in enumerate(report.entries):
            for survey, mean in slices(entry, column, "survey").items():
                tasks = [
                    asked
                    for asked in tasks_in(entry, column)
                    if leaf(asked).entry.facets.get("survey") == survey
                ]
                rows.append(
                    {
                        **as_point(entry, mean, groups()[column]),
                        "place": place,
                        "group": column,
                        "column": number,
                        "survey": survey,
                        "mean": finite(known_over(entry, tasks)[0]),
                    }
                )
    return some(rows, "no survey task was asked")


def condition_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `conditions`, over all groups of a way of asking."""
    parts: dict[tuple[str, str, str], list[Asked]] = defaultdict(list)
    everyone = {a for entry in report.runs for c in report.columns for a in tasks_in(entry, c)}
    respondents = references(report.runs)
    for asked in sorted(everyone):
        task = leaf(asked)
        if dimension := task.entry.facets.get("dimension"):
            parts[task.benchmark.name, task.way, dimension].append(asked)
    rows = []
    for (_, way, dimension), tasks in sorted(parts.items()):
        benchmark = leaf(tasks[0]).benchmark
        for entry in [*report.entries, *respondents]:
            if mine := [asked for asked in tasks if _is_scored(entry, asked)]:
                point = as_point(entry, mean_over(entry, mine), benchmark)
                kind = "respondent" if entry in respondents else point["kind"]
                rows.append({**point, "way": way, "conditions": dimension, "kind": kind})
    if len({row["conditions"] for row in rows}) < 2:
        raise EpidemiaError("all tasks asked have the same number of conditions")
    return rows


def version_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `versions`: common tasks, and the mean over them."""
    rows = []
    for column in report.columns:
        for base, instruct in report.pairs:
            if not (tasks := shared_tasks([base, instruct], column)):
                continue
            values = [
                (in_way(*asked), "task", *(run.scores[asked].value for run in (base, instruct)))
                for asked in tasks
            ]
            means = [mean_over(run, tasks).value for run in (base, instruct)]
            rows += [
                {
                    "pair": f"{base.name} / {instruct.name}",
                    "group": column,
                    "task": task,
                    "kind": kind,
                    "base": before,
                    "instruct": after,
                    **_scale(groups()[column]),
                }
                for task, kind, before, after in [
                    *values,
                    (f"mean of {plural(len(tasks), 'task')}", "mean", *means),
                ]
            ]
    return some(
        rows,
        "no base model and its instruct version are among the models: name a pair with --pair "
        "BASE=INSTRUCT",
    )


def closed_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `closed`."""
    rows = []
    for place, (entry, way, mean) in enumerate(closed_subset(report)):
        tasks = [asked for asked in report.closed if asked.way == way and _is_scored(entry, asked)]
        knows = finite(known_over(entry, tasks)[0])
        point = as_point(entry, mean, OBSERVATION)
        rows.append({**point, "way": way, "place": place, "mean": knows})
    return some(
        rows,
        "no task of the closed subset was asked: run epidemia_high_closed, or "
        "epidemia_high_likelihood",
    )


def size_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `size`, without models of unknown size."""
    sizes = {entry.name: entry.parameters for entry in report.runs if entry.parameters}
    rows = [
        {**row, "parameters": sizes[row["model"]]}
        for row in leaderboard_rows(report)
        if row["model"] in sizes
    ]
    return some(rows, "no model's size is known: give sizes with --size MODEL=7B")


def beside_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `beside`."""
    others = {entry.name: entry.others for entry in report.runs}
    rows = [
        {**row, "other": other, "value": value}
        for row in leaderboard_rows(report)
        for other, value in others.get(row["model"], {}).items()
    ]
    return some(rows, "the result files contain no other task, such as mmlu")


def node_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `nodes`."""
    rows = [
        {
            **as_point(entry, mean_over(entry, [asked]), INTERVENTION),
            "nodes": nodes,
            "group": leaf(asked).group,
        }
        for way in EFFECTS
        for entry in report.entries
        for nodes, task in LARGE.items()
        if _is_scored(entry, asked := Asked(task, way))
    ]
    return some(rows, "no larger graph was asked: run epidemia_intervention_large")


#: What happens to an answer yes, by kappa.
BECOMES = ("stays yes", "becomes no")


def path_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `paths`: over the larger graphs of all sizes."""
    rows = [
        {
            **as_point(entry, Number(mean_.value, mean_.error), INTERVENTION),
            "length": f"{length}{'+' if length == LONGEST else ''}",
            "becomes": BECOMES[kappa],
            "group": in_way("epidemia_intervention_large", way),
            "graphs": mean_.samples,
        }
        for way in EFFECTS
        for entry in report.runs
        for (length, kappa), mean_ in by_length(entry, way).items()
    ]
    return some(
        rows,
        "no answers on larger graphs are known: run epidemia_intervention_large with this "
        "version's hook",
    )


class Calibration(NamedTuple):
    """Elicited against true probabilities, over cells and answers.

    Attributes
    ----------
    share : ndarray, shape (BINS, BINS)
        Weight by elicited (first axis) and true probability; sums to 1. Tasks have equal weight,
        cells their share of the population, answers of a cell equal weight.
    q, p : ndarray, shape (BINS,)
        Mean elicited and true probability in each bin of the elicited one; NaN for empty bins.
    """

    share: Array
    q: Array
    p: Array


def calibrations(report: Report, samples: Samples) -> dict[str, Calibration]:
    """Return the calibration of every run with samples of tasks asked by letter."""
    by_model = {}
    for entry in report.runs:
        tasks = [asked for asked in sorted(entry.scores) if asked.way == "letters"]
        chosen = [(a, samples[entry.name, a]) for a in tasks if (entry.name, a) in samples]
        share, weight, q_sum, p_sum = np.zeros((BINS, BINS)), *np.zeros((3, BINS))
        for asked, answers in chosen:
            truth, cells, levels = store.load(asked.task), answers.cells, answers.q.shape[1]
            part = truth.weights[cells] / truth.weights[cells].sum()
            q, p = answers.q.ravel(), truth.p[cells].ravel()
            w = np.repeat(part, levels) / levels / len(chosen)
            x, y = (np.minimum((values * BINS).astype(int), BINS - 1) for values in (q, p))
            np.add.at(share, (x, y), w)
            np.add.at(weight, x, w)
            np.add.at(q_sum, x, w * q)
            np.add.at(p_sum, x, w * p)
        if chosen:
            filled = np.where(weight > 0, weight, np.nan)
            by_model[entry.name] = Calibration(share, q_sum / filled, p_sum / filled)
    return by_model


def rows_of_calibration(model: str, calibration: Calibration) -> Rows:
    """Rows of the figure `calibration` for one model."""
    rows: Rows = [
        {
            "model": model,
            "kind": "density",
            "q": i / BINS,
            "q2": (i + 1) / BINS,
            "p": j / BINS,
            "p2": (j + 1) / BINS,
            "share": round(float(calibration.share[i, j]), 7),
        }
        for i, j in zip(*np.nonzero(calibration.share), strict=True)
    ]
    return rows + [
        {"model": model, "kind": "curve", "q": round(float(q), 5), "p": round(float(p), 5)}
        for q, p in zip(calibration.q, calibration.p, strict=True)
        if not math.isnan(q)
    ]


def calibration_data(calibration: Calibration, letters: Rows) -> dict[str, Any]:
    """Return a model's bins for the site, in few characters, with three digits per share.

    Parameters
    ----------
    calibration : Calibration
    letters : list of dict
        The model's rows from `rows_of_order_bias`.
    """
    share = calibration.share
    return {
        "bins": BINS,
        "density": [
            [int(i), int(j), float(f"{share[i, j]:.3g}")]
            for i, j in zip(*np.nonzero(share), strict=True)
        ],
        "curve": [
            [round(float(q), 3), round(float(p), 3)]
            for q, p in zip(calibration.q, calibration.p, strict=True)
            if not math.isnan(q)
        ],
        "letters": [[row["answers"], row["position"], round(row["times"], 3)] for row in letters],
    }


def calibration_rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `calibration`, of all tasks or of one."""
    by_model = calibrations(report, _of_letters(report, task))
    return [
        row for model, answers in by_model.items() for row in rows_of_calibration(model, answers)
    ]


def rows_of_order_bias(report: Report, samples: Samples) -> Rows:
    """Average the probability of each displayed position, relative to uniform, by entry and K."""
    rows = []
    for entry in report.runs:
        by_number: dict[int, list[Array]] = defaultdict(list)
        for asked in sorted(entry.scores):
            answers = samples.get((entry.name, asked))
            if asked.way == "letters" and answers is not None and answers.by_position is not None:
                by_number[len(answers.by_position)].append(answers.by_position)
        for number, shares in sorted(by_number.items()):
            mean = np.mean(shares, axis=0) * number
            label = f"{number:2d} answers"  # sorts as numbers do
            rows += [
                {"model": entry.name, "answers": label, "position": letter, "times": float(times)}
                for letter, times in zip(LETTERS, mean, strict=False)
            ]
    return rows


def order_bias_rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `order_bias`, of all tasks or of one."""
    return rows_of_order_bias(report, _of_letters(report, task))


def _samples(report: Report, tasks: Iterable[Asked] | None = None) -> Samples:
    samples, notes = read_samples(report, tasks)
    if not samples:
        raise EpidemiaError("\n".join(["no samples: run lm_eval with --log_samples", *notes]))
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return samples


def asked_as(task: str) -> Asked:
    """Return a task about a distribution, by its lm-eval name.

    Raises
    ------
    EpidemiaError
        If there is no such task, or its answers are not a distribution.
    """
    if task not in leaves():
        raise EpidemiaError(f"no task {task!r} ({nearest(task, leaves())})")
    asked = Asked(leaves()[task].entry.name, leaves()[task].way)
    if WAYS[asked.way].distribution is None:
        raise EpidemiaError(f"{task} is not about a distribution, so it has no such figure")
    return asked


def _of_letters(report: Report, task: str | None) -> Samples:
    """Read samples of all tasks, or of one, which must be asked by letter."""
    if task and asked_as(task).way != "letters":
        raise EpidemiaError(f"{task} is not asked by letters, so it has no such figure")
    return _samples(report, [asked_as(task)] if task else None)


def of_task(report: Report, task: str) -> tuple[store.GroundTruth, dict[str, TaskAnswers]]:
    """Return a task's truth and the answers of runs, by the task's lm-eval name."""
    asked = asked_as(task)
    samples = _samples(report, [asked])
    return store.load(asked.task), {name: answers for (name, _), answers in samples.items()}


def _each_once(respondents: Mapping[str, T], models: Mapping[str, T]) -> dict[str, T]:
    """Put reference respondents, by kind, before models: as they were run, where they were."""
    ran = {kind_of(name): name for name in models}
    first = {ran.get(kind, RESPONDENTS[kind]): own for kind, own in respondents.items()}
    return {**first, **models}


def rows_of_distribution(
    truth: store.GroundTruth, cell: int, models: dict[str, TaskAnswers]
) -> Rows:
    """Rows of the figure `distribution`: truth, averages only, and models, in one cell."""
    low, high = interval(truth.p, truth.n_eff)
    answered = _each_once(
        {AVERAGES: scoring.mean(truth.weights, truth.p)[cell]},
        {name: own.q[own.cells.index(cell)] for name, own in models.items() if cell in own.cells},
    )
    rows: Rows = [
        {
            "who": "truth",
            "answer": label,
            "place": place,
            "p": float(truth.p[cell, place]),
            "low": float(low[cell, place]),
            "high": float(high[cell, place]),
        }
        for place, label in enumerate(truth.levels)
    ]
    return rows + [
        {"who": name, "answer": label, "place": place, "p": float(values[place])}
        for name, values in answered.items()
        for place, label in enumerate(truth.levels)
    ]


def distribution_rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `distribution`, for the cell with most people."""
    truth, models = of_task(report, task or "")
    return rows_of_distribution(truth, int(truth.weights.argmax()), models)


#: So many conditions without an order, such as races, are drawn as they are listed.
LISTED = 12


def is_ranked(truth: store.GroundTruth) -> bool:
    """Whether a curve over the conditions of a task is sorted by share.

    It is if there are many conditions without an order, such as countries.
    """
    given = all_tasks()[truth.task].given
    many = len(given) == 1 and len(truth.given) > LISTED
    return many and not ways_of(truth)[given[0]].ordered


def rows_of_curve(truth: store.GroundTruth, models: dict[str, TaskAnswers]) -> Rows:
    """Rows of the figure `curve`: the first answer, by truth, anchoring respondents and models."""
    low, high = interval(truth.p, truth.n_eff)
    everywhere = range(len(truth.given))
    place = np.argsort(np.argsort(truth.p[:, 0], kind="stable")) if is_ranked(truth) else everywhere
    known = {AVERAGES: scoring.mean(truth.weights, truth.p), UNIFORM: scoring.uniform(truth.p)}
    answered = {"truth": (everywhere, truth.p)} | _each_once(
        {kind: (everywhere, p) for kind, p in known.items()},
        {name: (own.cells, own.q) for name, own in models.items()},
    )
    rows = []
    for who, (cells, p) in answered.items():
        for cell, values in zip(cells, p, strict=True):
            condition = truth.given[cell][0]
            at = {"condition": condition, "place": int(place[cell])}
            row = {"who": who, **at, "p": float(values[0])}
            if who == "truth":
                row |= {"low": float(low[cell, 0]), "high": float(high[cell, 0])}
            rows.append(row)
    return rows


def curve_rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `curve`, for a task with one condition."""
    truth, models = of_task(report, task or "")
    if len(all_tasks()[truth.task].given) != 1:
        raise EpidemiaError(f"{task} has several conditions: try the figure 'cells'")
    return rows_of_curve(truth, models)


def cell_rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `cells`, for the first run."""
    truth, models = of_task(report, task or "")
    answers = next(models[entry.name] for entry in report.runs if entry.name in models)
    given = [", ".join(Wording(truth).described(cell)) for cell in range(len(truth.given))]
    return [
        {
            "given": given[cell],
            "answer": label,
            "p": float(truth.p[cell, place]),
            "q": float(answers.q[number, place]),
            "weight": float(truth.weights[cell]),
        }
        for number, cell in enumerate(answers.cells)
        for place, label in enumerate(truth.levels)
    ]


def bootstrap_rows(_report: Report | None, task: str | None = None) -> Rows:
    """Rows of the figure `bootstrap`."""
    truth = store.load(task or "")
    anchors = Anchors.of(truth)
    if not truth.distances:
        raise EpidemiaError(
            f"{task} comes from a published table: it has no bootstrap, and D_perfect is 0"
        )
    rows: Rows = [
        {"kind": "replicate", "distance": float(distance)}
        for distance in truth.distances[truth.scheme]
    ]
    named = {"D_perfect: 100": anchors.perfect, "D_mean": anchors.mean, "D_zero: 0": anchors.zero}
    return rows + [
        {"kind": "anchor", "label": label, "distance": value} for label, value in named.items()
    ]
