"""Answers against the truth on scales other than the score: distances and lines.

*tilt*: the line of the answers' log-odds on those of the truth, over all cells and levels,
corrected for the truth's sampling error (`score.calibration_line`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from lm_eval_epidemia.ask import orderings
from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.other_scales import (
    ScaleValue,
    Tilt,
    best_log_score,
    compare_on_scales,
    fit_tilt,
)
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS, simulate_answers
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import AnsweredGroup, add_known, collect_answers, group_answers
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.mean import REACH, add_metrics, average_columns
from lm_eval_epidemia.findings.references import AVERAGES, KNOWS_MARGINAL, KNOWS_POPULATION, UNIFORM
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers

#: Respondents that are known, asked what the runs were asked.
KNOWN = {
    RESPONDENTS[UNIFORM]: lambda part: simulate_answers(part.truth, UNIFORM)[part.complete],
    KNOWS_MARGINAL: lambda part: simulate_answers(part.truth, AVERAGES)[part.complete],
    KNOWS_POPULATION: lambda part: part.p,
}


def distances(results: Results) -> Finding:
    """Other distances: total variation, Jensen-Shannon, log score, the order of cells."""
    groups, left_out = group_answers(results)
    rows: list[dict[str, object]] = []
    for group in groups:
        known, details = [], []
        for asked, (part, elicited) in group.tasks.items():
            numbers = {
                name.lower().replace(" ", "_").replace("-", "_"): number
                for name, number in compare_on_scales(part, elicited).items()
            }
            known.append(numbers | {"best_log_score": ScaleValue(best_log_score(part), None)})
            of_task = {"task": in_way(*asked), "tasks": 1}
            details.append(group.row | average_columns(known[-1:]) | of_task)
        rows += [group.row | average_columns(known), *details]
    return make_finding("distances", rows, results.runs, left_out)


def tilt(results: Results) -> Finding:
    """Calibration lines: whether answers lean to one side, and differences are too small."""
    groups, left_out = group_answers(results)
    rows: list[dict[str, object]] = []
    for group in add_known(groups, KNOWN):
        rows.append(group.row | _fit_line(group, [*group.tasks.values()]))
        rows += [
            group.row | {"task": in_way(*asked), "tasks": 1} | _fit_line(group, [task])
            for asked, task in group.tasks.items()
        ]
    return make_finding("tilt", rows, results.runs, left_out)


def _fit_line(of: AnsweredGroup, tasks: Sequence[tuple[Part, Elicited]]) -> dict[str, float]:
    """Return the columns of a line; none if the truth varies no more than its noise."""
    # Who knows the population has this line, but for the survey's error.
    line = Tilt(0.0, 1.0, 0.0, 0.0) if of.who == KNOWS_POPULATION else fit_tilt(tasks)
    if math.isnan(line.slope):
        return {}
    row = line._asdict()
    for name in ("tilt", "slope"):
        reach = REACH * row[f"{name}_error"]
        row |= {f"{name}_low": row[name] - reach, f"{name}_high": row[name] + reach}
    return row


#: Bins of probabilities, per axis.
BINS = 20


def letters(results: Results) -> Finding:
    """One line per run on its letters: distance from calibration, order bias, choice mass."""
    made, left_out = collect_answers(results, _is_by_letter)
    curve = _curve(_density(made))
    curve["calibration_error"] = (curve["q"] - curve["p"]).abs() * curve["share"]
    table = curve.groupby("run", sort=False)[["calibration_error"]].sum()
    scores = add_metrics(results.scores, ("order_bias", "choice_mass"))
    means = scores[scores["way"] == "letters"].groupby("run")[["order_bias", "choice_mass"]].mean()
    tasks = pd.Series(Counter(run for run, _ in made), dtype=int)
    table = table.join(means).assign(tasks=tasks).rename_axis("run").reset_index()
    return make_finding("letters", table, results.runs, left_out)


def calibration(results: Results) -> Finding:
    """Answers by letter against true probabilities: a reliability curve and the density of both.

    Tasks have equal weight, cells their share of the population, answers of a cell equal weight.

    Returns
    -------
    Finding
        Rows of the ``curve``: in each bin of the answers the mean answer ``q`` and the mean truth
        ``p``, and the bin's ``share`` of the weight. Rows of the ``density``: a bin of both, from
        ``q`` to ``q2`` and from ``p`` to ``p2``. Shares sum to 1.
    """
    made, left_out = collect_answers(results, _is_by_letter)
    density = _density(made)
    bins = density.groupby(["run", "bin", "bin_p"], as_index=False)["share"].sum()
    ends = {"q": bins["bin"], "q2": bins["bin"] + 1, "p": bins["bin_p"], "p2": bins["bin_p"] + 1}
    bins = bins.assign(mark="density", **{name: end / BINS for name, end in ends.items()})
    rows = pd.concat(
        [_curve(density).assign(mark="curve"), bins[bins["share"] > 0]], ignore_index=True
    )
    return make_finding("calibration", rows, results.runs, left_out)


def order_bias(results: Results) -> Finding:
    """Probability of each displayed position, relative to uniform, by number of answers."""
    made, left_out = collect_answers(results, _is_by_letter)
    shares = pd.DataFrame(
        [
            (run, len(own.by_position), letter, share)
            for (run, _), own in sorted(made.items())
            if own.by_position is not None
            for letter, share in zip(orderings.LETTERS, own.by_position, strict=False)
        ],
        columns=["run", "answers", "position", "times"],
    )
    rows = shares.groupby(["run", "answers", "position"], as_index=False)["times"].mean()
    rows["times"] *= rows["answers"]
    return make_finding("order-bias", rows, results.runs, left_out)


def _is_by_letter(asked: LeafKey) -> bool:
    return asked.way == "letters"


def _density(made: dict[tuple[int, LeafKey], TaskAnswers]) -> pd.DataFrame:
    """Return every answer ``q`` beside its truth ``p``, with bins of both and its weight."""
    tasks = Counter(run for run, _ in made)
    parts = [pd.DataFrame(columns=["run", "q", "p", "share"])]
    for (run, asked), own in sorted(made.items()):
        truth, levels = store.load_truth(asked.task), own.q.shape[1]
        weights = (truth.weights[own.cells] / truth.weights[own.cells].sum()).repeat(levels)
        of = {"run": run, "q": own.q.ravel(), "p": truth.p[own.cells].ravel()}
        parts.append(pd.DataFrame({**of, "share": weights / levels / tasks[run]}))
    every = pd.concat(parts[1:] or parts, ignore_index=True)
    bins = (every[["q", "p"]].astype(float) * BINS).astype(int).clip(upper=BINS - 1)
    return every.assign(bin=bins["q"], bin_p=bins["p"])


def _curve(density: pd.DataFrame) -> pd.DataFrame:
    """Return the weighted means of answers and truth, by run and bin of the answers."""
    sums = (
        density.assign(q=density["q"] * density["share"], p=density["p"] * density["share"])
        .groupby(["run", "bin"], as_index=False)[["share", "q", "p"]]
        .sum()
    )
    sums = sums[sums["share"] > 0]
    return sums.assign(q=sums["q"] / sums["share"], p=sums["p"] / sums["share"])
