"""Answers by letter against the truth, bin by bin, and against where the letters stood."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit import orderings
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import LETTERS, answers, nothing
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, tabled
from lm_eval_epidemia.findings.mean import with_columns
from lm_eval_epidemia.findings.task import asked_as
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers

#: Bins of probabilities, per axis.
BINS = 20


def letters(results: Results) -> Finding:
    """One line per run on its letters: distance from calibration, order bias, choice mass."""
    made, left_out = _by_letter(results)
    curve = _curve(_density(made))
    curve["calibration_error"] = (curve["q"] - curve["p"]).abs() * curve["share"]
    table = curve.groupby("run", sort=False)[["calibration_error"]].sum()
    scores = with_columns(results.scores, ("order_bias", "choice_mass"))
    means = scores[scores["way"] == "letters"].groupby("run")[["order_bias", "choice_mass"]].mean()
    table = table.join(means).assign(tasks=pd.Series(Counter(run for run, _ in made), dtype=int))
    columns = {
        **WHO,
        "calibration_error": Column("calibration error", 4),
        "order_bias": Column("order bias", 4),
        "choice_mass": Column("choice mass", 4),
        "tasks": Column(),
    }
    note = (
        "Calibration error: the weighted mean distance between a bin's answers and their truths. "
        "Order bias and choice mass: means over all tasks asked by letter."
    )
    table = tabled(table.rename_axis("run").reset_index(), columns, results.runs)
    return _said(Finding("letters", "Calibration of letters", table, columns, note), left_out)


def calibration(results: Results, task: str = "") -> Finding:
    """Answers by letter against true probabilities: a reliability curve and the density of both.

    Tasks have equal weight, cells their share of the population, answers of a cell equal weight.

    Parameters
    ----------
    results : Results
    task : str, optional
        The lm-eval name of the only task.

    Returns
    -------
    Finding
        Rows of the ``curve``: in each bin of the answers the mean answer ``q`` and the mean truth
        ``p``, and the bin's ``share`` of the weight. Rows of the ``density``: a bin of both, from
        ``q`` to ``q2`` and from ``p`` to ``p2``. Shares sum to 1.
    """
    made, left_out = _by_letter(results, task)
    density = _density(made)
    bins = density.groupby(["run", "bin", "bin_p"], as_index=False)["w"].sum()
    bins = bins[bins["w"] > 0].assign(
        mark="density",
        q=lambda of: of["bin"] / BINS,
        q2=lambda of: (of["bin"] + 1) / BINS,
        p=lambda of: of["bin_p"] / BINS,
        p2=lambda of: (of["bin_p"] + 1) / BINS,
        share=lambda of: of["w"],
    )
    columns = {**WHO, "q": Column("answer", 3), "p": Column("truth", 3), "share": Column("", 3)}
    rows = pd.concat([_curve(density).assign(mark="curve"), bins], ignore_index=True)
    table = tabled(rows, columns, results.runs, ("mark", "q2", "p2"))
    note = "In each bin of the answers: their mean, the mean truth, and the bin's share."
    title = "Answers against true probabilities"
    return _said(Finding("calibration", title, table, columns, note, details="p2"), left_out)


def order_bias(results: Results, task: str = "") -> Finding:
    """Probability of each displayed position, relative to uniform, by number of answers.

    Parameters
    ----------
    results : Results
    task : str, optional
        The lm-eval name of the only task.
    """
    made, left_out = _by_letter(results, task)
    shares: dict[tuple[int, int], list[np.ndarray]] = {}
    for (run, _), own in sorted(made.items()):
        if own.by_position is not None:
            shares.setdefault((run, len(own.by_position)), []).append(own.by_position)
    rows = [
        {"run": run, "answers": number, "position": letter, "times": float(times)}
        for (run, number), of in sorted(shares.items())
        for letter, times in zip(orderings.LETTERS, np.mean(of, axis=0) * number, strict=False)
    ]
    columns = {**WHO, "answers": Column(), "position": Column(), "times": Column("", 2)}
    note = "1: as often as if its place made no difference. Means over tasks with so many answers."
    title = "Probability of each displayed position, relative to uniform"
    table = tabled(rows, columns, results.runs)
    return _said(Finding("order-bias", title, table, columns, note), left_out)


def _said(finding: Finding, left_out: list[str]) -> Finding:
    finding = replace(finding, left_out=left_out)
    return finding if len(finding.table) else nothing(finding, "compare", LETTERS)


def _by_letter(
    results: Results, task: str = ""
) -> tuple[dict[tuple[int, Asked], TaskAnswers], list[str]]:
    """Read the answers to all tasks, or to one, which must be asked by letter."""
    only = asked_as(task) if task else None
    if only and only.way != "letters":
        raise EpidemiaError(f"{task} is not asked by letters, so it has no such finding")
    return answers(results, lambda asked: asked.way == "letters" and only in (None, asked))


def _density(made: dict[tuple[int, Asked], TaskAnswers]) -> pd.DataFrame:
    """Return every answer ``q`` beside its truth ``p``, with bins of both and its weight."""
    tasks = Counter(run for run, _ in made)
    parts = [pd.DataFrame(columns=["run", "q", "p", "w"])]
    for (run, asked), own in sorted(made.items()):
        truth, levels = store.load(asked.task), own.q.shape[1]
        weights = truth.weights[own.cells] / truth.weights[own.cells].sum()
        w = np.repeat(weights, levels) / levels / tasks[run]
        of = {"run": run, "q": own.q.ravel(), "p": truth.p[own.cells].ravel(), "w": w}
        parts.append(pd.DataFrame(of))
    every = pd.concat(parts[1:] or parts, ignore_index=True)
    return every.assign(bin=_bin(every["q"]), bin_p=_bin(every["p"]))


def _bin(probability: pd.Series[float]) -> np.ndarray:
    return np.minimum((probability.to_numpy(float) * BINS).astype(int), BINS - 1)


def _curve(density: pd.DataFrame) -> pd.DataFrame:
    """Return the weighted means of answers and truth, by run and bin of the answers."""
    sums = (
        density.assign(q=density["q"] * density["w"], p=density["p"] * density["w"])
        .groupby(["run", "bin"], as_index=False)[["w", "q", "p"]]
        .sum()
    )
    sums = sums[sums["w"] > 0]
    return sums.assign(q=sums["q"] / sums["w"], p=sums["p"] / sums["w"], share=sums["w"])
