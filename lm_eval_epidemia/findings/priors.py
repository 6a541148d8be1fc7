"""What models expect numbers to be: errors, wins, calibration, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import in_way, list_leaves
from lm_eval_epidemia.benchmarks.prior import PRIOR, metrics
from lm_eval_epidemia.benchmarks.prior.judged import FamilyPriors
from lm_eval_epidemia.benchmarks.prior.metrics import JudgedTask
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DIFFICULTIES, SIZES
from lm_eval_epidemia.findings.finding import Finding, in_parts, part_rows, to_estimate
from lm_eval_epidemia.findings.mean import REACH
from lm_eval_epidemia.findings.references import KNOWS_POPULATION
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.estimates import Estimate, average

#: How the families of quantities are called.
KINDS = {"normal": "means", "beta": "proportions", "lognormal": "positive means"}

#: Some quantities of each of several tasks.
Part = Sequence[tuple[JudgedTask, NDArray[np.bool_]]]

#: From a task and some of its quantities to a number.
Measure = Callable[[JudgedTask, NDArray[np.bool_]], Estimate]


def select_stated(results: Results) -> pd.DataFrame:
    """Return the scores of known priors, in the order of runs, groups and tasks."""
    listed = [in_way(group, way) for way in PRIOR.ways for group in PRIOR.groups]
    scores = results.scores
    scores = scores[np.array([isinstance(said, JudgedTask) for said in scores["said"]], bool)]
    return scores.assign(place=scores["group"].map(listed.index)).sort_values(
        ["run", "place", "task"], ignore_index=True
    )


@lru_cache(maxsize=16)
def _knower(task: str, _fingerprint: str) -> JudgedTask:
    return metrics.judge_knower(store.load_quantities(task))


def list_knowers(results: Results) -> pd.DataFrame:
    """Return who knows the population, in the plain way, for every set that was asked."""
    scores = select_stated(results).drop_duplicates("task").sort_values(["place", "task"])
    return pd.DataFrame(
        {
            "task": scores["task"],
            "said": [
                _knower(task, store.load_quantities(task).fingerprint) for task in scores["task"]
            ],
            "group": [list_leaves()[task].group for task in scores["task"]],
        }
    )


def _collect_priors(results: Results) -> Iterator[tuple[dict[str, Any], str, list[JudgedTask]]]:
    """Yield whose a row is, the way, and the priors: of runs, then of who knows the population."""
    keys: Any = ["run", "group", "way"]
    for (run, group, way), of in select_stated(results).groupby(keys, sort=False):
        yield {"run": run, "group": group}, way, [*of["said"]]
    whose = {"run": -1, "model": f"{KNOWS_POPULATION} (baseline)", "kind": "respondent"}
    for group, of in list_knowers(results).groupby("group", sort=False):
        yield {**whose, "group": group}, PRIOR.plain.name, [*of["said"]]


def average_tasks(part: Part, measure: Measure) -> Estimate:
    """Average a number over tasks with equal weight; its error is over quantities."""
    return average([measure(known, chosen) for known, chosen in part if chosen.any()])


def _of(field: str, known: JudgedTask, chosen: NDArray[np.bool_], of: str = "judged") -> Estimate:
    """Average a number over quantities; if `of` is ``dropped``, without unreadable replies."""
    return metrics.average_quantities(known, chosen, getattr(getattr(known, of), field))


def _won(field: str, size: int, known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    """Return how often samples of a size are beaten, among those that can be."""
    can = chosen & metrics.find_beatable(known)[:, size]
    return metrics.average_quantities(known, can, getattr(known.judged, field)[:, size])


def _in_quarter(quarter: int, known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    return metrics.share_by_quarter(known, chosen)[quarter]


def _chose(family: int, known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    assert isinstance(known.stated, FamilyPriors)
    chose = known.stated.family[chosen[:, None] & ~np.isnan(known.stated.a)] == family
    return Estimate(float(chose.mean()) if len(chose) else math.nan, math.nan, len(chose), 0)


#: What can be said of quantities, by the finding that says it.
MEASURES: dict[str, dict[str, Measure]] = {
    **{
        name: {f"N = {size}": partial(_won, field, n) for n, size in enumerate(SIZES)}
        for name, field in (("wins", "wins"), ("posterior", "posterior_wins"))
    },
    "priors": {
        f"beats {SIZES[0]}": partial(_won, "wins", 0),
        "relative error": metrics.relative_error,
        "mean of error ratios": partial(_of, "ratio"),
        "ratios, dropped": partial(_of, "ratio", of="dropped"),
        "CRPS ratio": partial(_of, "crps_ratio"),
        "CRPS, dropped": partial(_of, "crps_ratio", of="dropped"),
        "answered": partial(_of, "answered"),
    },
    "quartiles": {
        **{f"quarter {quarter + 1}": partial(_in_quarter, quarter) for quarter in range(4)},
        "ECE (points)": metrics.ece,
        "below median": metrics.share_below,
        "in 5-95 %": metrics.share_inside,
    },
    "uncertainty": {
        "Spearman": metrics.rank,
        "stated sd": partial(_of, "uncertainty"),
        "mean of error ratios": partial(_of, "ratio"),
    },
}

#: Where the choice was open: which families were chosen, among readable replies.
CHOSEN = {f"chose {name}": partial(_chose, place) for place, name in enumerate(FAMILIES)}


def _find_parts(tasks: Sequence[JudgedTask]) -> Iterator[tuple[str, str, Part]]:
    """Yield all quantities, then their slices by difficulty, topic and survey: facet and label."""
    yield "", "", [(known, metrics.select_all(known)) for known in tasks]
    for facet, order in {
        "difficulty": DIFFICULTIES,
        "family": KINDS.values(),
        "survey": (),
    }.items():
        named = [(known, _label_quantities(known, facet)) for known in tasks]
        here = dict.fromkeys(label for _, labels in named for label in labels.tolist())
        if facet == "survey" and len(here) < 2:
            continue
        for label in [label for label in order if label in here] or here:
            yield facet, label, [(known, labels == label) for known, labels in named]


def _label_quantities(known: JudgedTask, facet: str) -> NDArray[Any]:
    if facet == "survey":
        return np.full(len(known.truth.quantities), known.truth.survey)
    column = known.truth.column(facet)
    return np.array([KINDS[of] for of in column]) if facet == "family" else column


def _make_rows(
    whose: Mapping[str, Any], tasks: Sequence[JudgedTask], measures: Mapping[str, Measure]
) -> Iterator[dict[str, Any]]:
    """Yield numbers over all quantities, then over every part of them."""
    # Who knows the population is an average over many draws, and so are the ranks of its errors.
    names = [name for name in measures if name != "Spearman" or whose["run"] >= 0]
    for facet, label, part in _find_parts(tasks):
        about = f"{facet}: {label} ({sum(int(of.sum()) for _, of in part)})" if facet else ""
        cells = {name: average_tasks(part, measures[name]) for name in names}
        yield from part_rows({**whose, "facet": facet}, {about: cells})


def _finding(results: Results, name: str) -> Finding:
    """Return a finding of what `MEASURES` has under its name."""
    rows: list[dict[str, Any]] = []
    for whose, way, tasks in _collect_priors(results):
        is_open = name == "priors" and way == "direct_choice"
        rows += _make_rows(whose, tasks, MEASURES[name] | (CHOSEN if is_open else {}))
    return in_parts(name, rows, results.runs)


def wins(results: Results) -> Finding:
    """How often stated priors are closer to the truth than N real answers, and their worth."""
    rows: list[dict[str, Any]] = []
    for whose, _, tasks in _collect_priors(results):
        rows += _make_rows(whose, tasks, MEASURES["wins"])
        part = [(known, metrics.select_all(known)) for known in tasks]
        rates = [average_tasks(part, measure) for measure in MEASURES["wins"].values()]
        ends = {
            name: metrics.count_worth(
                np.array([rate.value + side * REACH * rate.error for rate in rates])
            )
            for name, side in (("worth N", 0), ("at least", -1), ("at most", 1))
        }
        worth = {name: to_estimate(end) for name, end in ends.items()}
        after = {size: average_tasks(part, of) for size, of in MEASURES["posterior"].items()}
        rows += part_rows(whose, {"": worth, "posterior": after})
    unbeaten = [
        f"{quantity.name} of {task} (N = {', '.join(map(str, np.array(SIZES)[~can]))})"
        for task, known in list_knowers(results)[["task", "said"]].itertuples(index=False)
        for quantity, can in zip(known.truth.quantities, metrics.find_beatable(known), strict=True)
        if not can.all()
    ]
    says = [f"the error of N answers is about 0: {'; '.join(unbeaten)}"] if unbeaten else []
    return in_parts("wins", rows, results.runs, instead=says)


def priors(results: Results) -> Finding:
    """How far stated priors are from the truth, compared with five real answers."""
    return _finding(results, "priors")


def quartiles(results: Results) -> Finding:
    """Where the truth lies in the stated prior: whether priors are as wide as they should be."""
    return _finding(results, "quartiles")


def uncertainty(results: Results) -> Finding:
    """Whether models are less sure where they know less."""
    return _finding(results, "uncertainty")
