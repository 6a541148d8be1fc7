"""The rows behind every figure, from a report and the samples of its runs."""

from __future__ import annotations

import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks import (
    INTERVENTION,
    OBSERVATION,
    WAYS,
    Benchmark,
    groups,
    in_way,
    leaves,
)
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.orderings import LETTERS
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.interventions import EFFECTS, LARGE, LONGEST, by_length
from lm_eval_epidemia.findings.leaderboard import Report, closed_subset
from lm_eval_epidemia.findings.means import Mean, group_mean, mean_over, slices, tasks_in
from lm_eval_epidemia.findings.reference import KNOWS_MARGINAL, known_over, references
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.protocol import printable
from lm_eval_epidemia.results.samples import Elicited, elicited, sample_file
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: Bins of the calibration figure, per axis.
BINS = 20

#: What was answered, by entry and task.
Samples = dict[tuple[str, Asked], Elicited]

Rows = list[dict[str, Any]]


def _read(job: tuple[str, Asked, Any]) -> tuple[str, Asked, Elicited | str | None]:
    name, asked, path = job
    try:
        return name, asked, elicited(path, asked)
    except EpidemiaError as error:
        return name, asked, str(error)


def read_samples(report: Report, tasks: Iterable[Asked] | None = None) -> tuple[Samples, list[str]]:
    """Read the samples of all runs, on every processor; say on stderr what could not be read.

    Parameters
    ----------
    report : Report
    tasks : iterable of Asked, optional
        All if not given.

    Returns
    -------
    samples : dict
    notes : list of str
        What could not be read, per entry.
    """
    wanted = None if tasks is None else set(tasks)
    jobs, missing, notes = [], defaultdict(list), []
    for entry in report.runs:
        for asked, score in entry.scores.items():
            about = WAYS[asked.way].distribution is not None
            if about and (wanted is None or asked in wanted):
                if path := sample_file(score.source, asked):
                    jobs.append((entry.name, asked, path))
                else:
                    missing[entry.name].append(asked)
    for name, listed in missing.items():
        notes.append(
            f"{name}: no samples of {len(listed)} tasks, so no cells; run with --log_samples"
        )
    # The largest first, so that no process is left alone with one at the end.
    jobs.sort(key=lambda job: -job[2].stat().st_size)
    workers = min(os.cpu_count() or 1, len(jobs))
    scores = {entry.name: entry.scores for entry in report.runs}
    found: Samples = {}
    with ProcessPoolExecutor(max(1, workers)) as pool:
        done = pool.map(_read, jobs) if workers > 1 else map(_read, jobs)
        shown = track(done, "Samples", len(jobs), console=Console(stderr=True), transient=True)
        for name, asked, one in shown:
            if isinstance(one, str):
                notes.append(f"{name}: {one}")
            elif one is not None:
                found[name, asked] = one
            elif not math.isnan(scores[name][asked].value):
                notes.append(
                    f"{name}: the samples of {in_way(*asked)} have no complete cell, or "
                    "log-probabilities that are not finite, but its result file has a score"
                )
    for entry in report.runs:
        for asked, score in entry.scores.items():
            one = found.get((entry.name, asked))
            if one is not None and not math.isclose(one.l1, score.l1, abs_tol=1e-6):
                notes.append(
                    f"{entry.name}: the samples of {in_way(*asked)} give a distance of "
                    f"{one.l1:.6f}, its result file says {score.l1:.6f}: one of them was changed"
                )
    notes = [printable(note) for note in notes]
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return found, notes


def _known(value: float) -> float | None:
    """Return a number as JSON has it: None where there is none."""
    return value if math.isfinite(value) else None


def _scale(benchmark: Benchmark) -> dict[str, Any]:
    """Say what a value of a benchmark is, and between what it lies; None where it is unbounded."""
    metric = benchmark.measure
    return {
        "metric": benchmark.heading,
        "lowest": _known(metric.low),
        "highest": _known(metric.high),
    }


def as_point(entry: Entry, mean: Mean, benchmark: Benchmark) -> dict[str, Any]:
    """Say a model's mean and 1.96 standard errors around it, as rows of figures have it."""
    scale, reach = _scale(benchmark), 1.96 * (0.0 if math.isnan(mean.error) else mean.error)
    low, high = scale["lowest"], scale["highest"]
    return {
        "model": entry.name,
        "kind": "published" if entry.reference else "run",
        **scale,
        "score": mean.value,
        "tasks": mean.tasks,
        "low": mean.value - reach if low is None else max(mean.value - reach, low),
        "high": mean.value + reach if high is None else min(mean.value + reach, high),
    }


def leaderboard_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `leaderboard`."""
    rows = []
    for number, column in enumerate(report.columns):
        for place, entry in enumerate(report.entries):
            found = group_mean(entry, column)
            if found.tasks:
                point = as_point(entry, found, groups()[column])
                knows = _known(known_over(entry, tasks_in(entry, column))[0])
                rows.append(
                    {**point, "place": place, "group": column, "column": number, "mean": knows}
                )
    return rows


def survey_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `surveys`."""
    rows = []
    for number, column in enumerate(report.columns):
        for place, entry in enumerate(report.entries):
            for survey, found in slices(entry, column, "survey").items():
                tasks = [
                    asked
                    for asked in tasks_in(entry, column)
                    if leaf(asked).entry.facets.get("survey") == survey
                ]
                rows.append(
                    {
                        **as_point(entry, found, groups()[column]),
                        "place": place,
                        "group": column,
                        "column": number,
                        "survey": survey,
                        "mean": _known(known_over(entry, tasks)[0]),
                    }
                )
    if not rows:
        raise EpidemiaError("no task of a survey was asked")
    return rows


def condition_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `conditions`: over the groups of a way of asking together."""
    rows = []
    parts: dict[tuple[str, str, str], list[Asked]] = defaultdict(list)
    everyone = {a for entry in report.runs for c in report.columns for a in tasks_in(entry, c)}
    respondents = references(report.runs)
    for asked in sorted(everyone):
        one = leaf(asked)
        if dimension := one.entry.facets.get("dimension"):
            parts[one.benchmark.name, one.way, dimension].append(asked)
    for (_, way, dimension), tasks in sorted(parts.items()):
        benchmark = leaf(tasks[0]).benchmark
        common = {"way": way, "conditions": dimension}
        for entry in [*report.entries, *respondents]:
            mine = [a for a in tasks if a in entry.scores and not math.isnan(entry.scores[a].value)]
            if mine:
                point = as_point(entry, mean_over(entry, mine), benchmark)
                kind = "respondent" if entry in respondents else point["kind"]
                rows.append({**point, **common, "kind": kind})
    if len({row["conditions"] for row in rows}) < 2:
        raise EpidemiaError("the tasks asked do not differ in their number of conditions")
    return rows


def version_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `versions`: tasks that both were asked, and the mean over these."""
    rows = []
    for column in report.columns:
        for base, instruct in report.pairs:
            tasks = sorted({*tasks_in(base, column)} & {*tasks_in(instruct, column)})
            means = [(mean_over(base, tasks), mean_over(instruct, tasks))] if tasks else []
            values = [
                *(
                    (in_way(*a), "task", base.scores[a].value, instruct.scores[a].value)
                    for a in tasks
                ),
                *(
                    (f"mean of {len(tasks)} tasks", "mean", one.value, other.value)
                    for one, other in means
                ),
            ]
            rows += [
                {
                    "pair": f"{base.name} / {instruct.name}",
                    "group": column,
                    "task": task,
                    "kind": kind,
                    "base": one,
                    "instruct": other,
                    **_scale(groups()[column]),
                }
                for task, kind, one, other in values
            ]
    if not rows:
        raise EpidemiaError(
            "no base model and its instruct version among the models: name them with "
            "--pair BASE=INSTRUCT"
        )
    return rows


def closed_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `closed`."""
    found = closed_subset(report)
    if not found:
        raise EpidemiaError(
            "no task of the closed subset was asked: run epidemia_high_closed, or "
            "epidemia_high_likelihood"
        )
    return [
        {
            **as_point(entry, mean, OBSERVATION),
            "way": way,
            "place": place,
            "mean": _known(known_over(entry, tasks)[0]),
        }
        for place, (entry, way, mean) in enumerate(found)
        for tasks in [
            [
                a
                for a in report.closed
                if a.way == way and a in entry.scores and not math.isnan(entry.scores[a].value)
            ]
        ]
    ]


def size_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `size`; models whose size is not known are left out."""
    sizes = {entry.name: entry.parameters for entry in report.runs if entry.parameters}
    rows = [
        {**row, "parameters": sizes[row["model"]]}
        for row in leaderboard_rows(report)
        if row["model"] in sizes
    ]
    if not rows:
        raise EpidemiaError("no size of a model is known: give some with --size MODEL=7B")
    return rows


def beside_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `beside`."""
    others = {entry.name: entry.others for entry in report.runs}
    rows = [
        {**row, "other": other, "value": value}
        for row in leaderboard_rows(report)
        for other, value in others.get(row["model"], {}).items()
    ]
    if not rows:
        raise EpidemiaError("the result files hold no other task, such as mmlu")
    return rows


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
        if (asked := Asked(task, way)) in entry.scores and not math.isnan(entry.scores[asked].value)
    ]
    if not rows:
        raise EpidemiaError("no larger graph was asked: run epidemia_intervention_large")
    return rows


#: What happens to an answer yes, by kappa.
BECOMES = ("stays yes", "becomes no")


def path_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `paths`: over the larger graphs of all sizes."""
    rows = [
        {
            **as_point(entry, Mean(one.value, one.error, 0), INTERVENTION),
            "length": f"{length}{'+' if length == LONGEST else ''}",
            "becomes": BECOMES[kappa],
            "group": in_way("epidemia_intervention_large", way),
            "graphs": one.samples,
        }
        for way in EFFECTS
        for entry in report.runs
        for (length, kappa), one in by_length(entry, way).items()
    ]
    if not rows:
        raise EpidemiaError(
            "no answer on a larger graph is known: run epidemia_intervention_large with this "
            "version's hook"
        )
    return rows


class Calibration(NamedTuple):
    """How elicited probabilities go with true ones, over cells and answers.

    Attributes
    ----------
    share : ndarray, shape (BINS, BINS)
        Weight by elicited (first axis) and true probability; sums to 1. Every task weighs the same,
        a cell its share of the population, its answers the same.
    q, p : ndarray, shape (BINS,)
        Mean elicited and true probability where the elicited one is in the bin; NaN where none is.
    """

    share: Array
    q: Array
    p: Array


def calibrations(report: Report, samples: Samples) -> dict[str, Calibration]:
    """Return the calibration of every run that has samples of tasks asked by letters."""
    found = {}
    for entry in report.runs:
        tasks = [one for one in sorted(entry.scores) if one.way == "letters"]
        chosen = [(a, samples[entry.name, a]) for a in tasks if (entry.name, a) in samples]
        share, weight, q_sum, p_sum = np.zeros((BINS, BINS)), *np.zeros((3, BINS))
        for asked, one in chosen:
            truth = store.load(asked.task)
            part = truth.weights[one.cells] / truth.weights[one.cells].sum()
            q, p = one.q.ravel(), truth.p[one.cells].ravel()
            w = np.repeat(part, one.q.shape[1]) / one.q.shape[1] / len(chosen)
            x, y = (np.minimum((values * BINS).astype(int), BINS - 1) for values in (q, p))
            np.add.at(share, (x, y), w)
            np.add.at(weight, x, w)
            np.add.at(q_sum, x, w * q)
            np.add.at(p_sum, x, w * p)
        if chosen:
            some = np.where(weight > 0, weight, np.nan)
            found[entry.name] = Calibration(share, q_sum / some, p_sum / some)
    return found


def rows_of_calibration(model: str, found: Calibration) -> Rows:
    """Rows of the figure `calibration` for one model."""
    rows: Rows = [
        {
            "model": model,
            "kind": "density",
            "q": i / BINS,
            "q2": (i + 1) / BINS,
            "p": j / BINS,
            "p2": (j + 1) / BINS,
            "share": round(float(found.share[i, j]), 7),
        }
        for i, j in zip(*np.nonzero(found.share), strict=True)
    ]
    return rows + [
        {"model": model, "kind": "curve", "q": round(float(q), 5), "p": round(float(p), 5)}
        for q, p in zip(found.q, found.p, strict=True)
        if not math.isnan(q)
    ]


def calibration_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `calibration`."""
    found = calibrations(report, _samples(report))
    return [row for model, one in found.items() for row in rows_of_calibration(model, one)]


def rows_of_order_bias(report: Report, samples: Samples) -> Rows:
    """Average by entry and number of answers what a displayed position gets, times uniform."""
    rows = []
    for entry in report.runs:
        by_number: dict[int, list[Array]] = defaultdict(list)
        for asked in sorted(entry.scores):
            one = samples.get((entry.name, asked))
            if asked.way == "letters" and one is not None and one.by_position is not None:
                by_number[len(one.by_position)].append(one.by_position)
        for number, found in sorted(by_number.items()):
            mean = np.mean(found, axis=0) * number
            label = f"{number:2d} answers"  # sorts as numbers do
            rows += [
                {"model": entry.name, "answers": label, "position": letter, "times": float(times)}
                for letter, times in zip(LETTERS, mean, strict=False)
            ]
    return rows


def order_bias_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `order_bias`."""
    return rows_of_order_bias(report, _samples(report))


def _samples(report: Report, tasks: Iterable[Asked] | None = None) -> Samples:
    found, notes = read_samples(report, tasks)
    if not found:
        raise EpidemiaError("\n".join(["no samples: run lm_eval with --log_samples", *notes]))
    return found


def _of_task(report: Report, task: str) -> tuple[store.GroundTruth, dict[str, Elicited]]:
    """Return a task's truth and what the runs answered, the task named as lm-eval names it."""
    if task not in leaves():
        raise EpidemiaError(f"no task {task!r}: see 'epidemia tasks list'")
    asked = Asked(leaves()[task].entry.name, leaves()[task].way)
    if WAYS[asked.way].distribution is None:
        raise EpidemiaError(f"{task} is not about a distribution: it has no such figure")
    found = _samples(report, [asked])
    return store.load(asked.task), {name: one for (name, _), one in found.items()}


def rows_of_distribution(truth: store.GroundTruth, cell: int, models: dict[str, Elicited]) -> Rows:
    """Rows of the figure `distribution`: truth, who knows P(Y) alone, and models, in one cell."""
    low, high = interval(truth.p, truth.n_eff)
    answered = {KNOWS_MARGINAL: scoring.mean(truth.weights, truth.p)[cell]}
    answered |= {
        name: one.q[one.cells.index(cell)] for name, one in models.items() if cell in one.cells
    }
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
    """Rows of the figure `distribution`: of the cell with most people."""
    truth, models = _of_task(report, task or "")
    return rows_of_distribution(truth, int(truth.weights.argmax()), models)


def rows_of_curve(truth: store.GroundTruth, models: dict[str, Elicited]) -> Rows:
    """Rows of the figure `curve`: the first answer, by truth, anchoring respondents and models."""
    low, high = interval(truth.p, truth.n_eff)
    everywhere = range(len(truth.given))
    said = {
        "truth": (everywhere, truth.p),
        KNOWS_MARGINAL: (everywhere, scoring.mean(truth.weights, truth.p)),
        "uniform": (everywhere, scoring.uniform(truth.p)),
        **{name: (one.cells, one.q) for name, one in models.items()},
    }
    rows = []
    for who, (cells, p) in said.items():
        for cell, values in zip(cells, p, strict=True):
            row = {
                "who": who,
                "condition": truth.given[cell][0],
                "place": cell,
                "p": float(values[0]),
            }
            if who == "truth":
                row |= {"low": float(low[cell, 0]), "high": float(high[cell, 0])}
            rows.append(row)
    return rows


def curve_rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `curve`: of a task with one condition."""
    truth, models = _of_task(report, task or "")
    if len(all_tasks()[truth.task].given) != 1:
        raise EpidemiaError(f"{task} has several conditions: try the figure 'cells'")
    return rows_of_curve(truth, models)


def cell_rows(report: Report, task: str | None = None) -> Rows:
    """Rows of the figure `cells`: of the run that stands first."""
    truth, models = _of_task(report, task or "")
    one = next(models[entry.name] for entry in report.runs if entry.name in models)
    given = [", ".join(Wording(truth).described(cell)) for cell in range(len(truth.given))]
    return [
        {
            "given": given[cell],
            "answer": label,
            "p": float(truth.p[cell, place]),
            "q": float(one.q[number, place]),
            "weight": float(truth.weights[cell]),
        }
        for number, cell in enumerate(one.cells)
        for place, label in enumerate(truth.levels)
    ]


def bootstrap_rows(_report: Report | None, task: str | None = None) -> Rows:
    """Rows of the figure `bootstrap`."""
    truth = store.load(task or "")
    anchors = Anchors.of(truth)
    if not truth.distances:
        raise EpidemiaError(f"{task} is a published table: no bootstrap, D_perfect is 0")
    rows: Rows = [
        {"kind": "replicate", "distance": float(distance)}
        for distance in truth.distances[truth.scheme]
    ]
    named = {"D_perfect: 100": anchors.perfect, "D_mean": anchors.mean, "D_zero: 0": anchors.zero}
    return rows + [
        {"kind": "anchor", "label": label, "distance": value} for label, value in named.items()
    ]
