"""What models expect numbers to be: errors, wins, calibration, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import PRIOR, in_way, leaves
from lm_eval_epidemia.benchmarks.prior import judgements
from lm_eval_epidemia.benchmarks.prior.judged import Judged, Stated, mean_of
from lm_eval_epidemia.benchmarks.prior.judgements import JudgedTask, beatable, everything, knower
from lm_eval_epidemia.benchmarks.prior.metrics import in_quarters, worth
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DIFFICULTIES, SIZES
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, who
from lm_eval_epidemia.findings.mean import REACH
from lm_eval_epidemia.findings.parts import in_parts, number, part_rows
from lm_eval_epidemia.findings.references import KNOWS_POPULATION
from lm_eval_epidemia.results.published import COMPARED, SETS, claims, stating
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.estimates import Estimate, average

#: How the families of quantities are called.
KINDS = {"normal": "means", "beta": "proportions", "lognormal": "positive means"}

#: Some quantities of each of several tasks.
Part = Sequence[tuple[JudgedTask, NDArray[np.bool_]]]

#: From a task and some of its quantities to a number.
Measure = Callable[[JudgedTask, NDArray[np.bool_]], Estimate]

#: What is run to get any of these tables.
RUN = f"no model stated priors: run lm_eval on {PRIOR.groups[0]}"


def stated(results: Results) -> pd.DataFrame:
    """Return the scores of known priors, in the order of runs, groups and tasks."""
    listed = [in_way(group, way) for way in PRIOR.ways for group in PRIOR.groups]
    scores = results.scores
    scores = scores[np.array([isinstance(said, JudgedTask) for said in scores["said"]], bool)]
    return scores.assign(place=scores["group"].map(listed.index)).sort_values(
        ["run", "place", "task"], ignore_index=True
    )


@lru_cache(maxsize=16)
def _knower(task: str, _fingerprint: str) -> JudgedTask:
    return knower(store.load(task))


def knowers(results: Results) -> pd.DataFrame:
    """Return who knows the population, in the plain way, for every set that was asked."""
    scores = stated(results).drop_duplicates("task").sort_values(["place", "task"])
    return pd.DataFrame(
        {
            "task": scores["task"],
            "said": [_knower(task, store.load(task).fingerprint) for task in scores["task"]],
            "group": [leaves()[task].group for task in scores["task"]],
        }
    )


def _asked(results: Results) -> Iterator[tuple[dict[str, Any], str, list[JudgedTask]]]:
    """Yield whose a row is, the way, and the priors: of runs, then of who knows the population."""
    keys: Any = ["run", "group", "way"]
    for (run, group, way), of in stated(results).groupby(keys, sort=False):
        yield {"run": run, "group": group}, way, [*of["said"]]
    whose = {"run": -1, "model": f"{KNOWS_POPULATION} (baseline)", "kind": "respondent"}
    for group, of in knowers(results).groupby("group", sort=False):
        yield {**whose, "group": group}, PRIOR.plain.name, [*of["said"]]


def over(part: Part, measure: Measure) -> Estimate:
    """Average a number over tasks with equal weight; its error is over quantities."""
    return average([measure(known, chosen) for known, chosen in part if chosen.any()])


def _of(field: str, known: JudgedTask, chosen: NDArray[np.bool_], of: str = "judged") -> Estimate:
    """Average a number over quantities; if `of` is ``dropped``, without unreadable replies."""
    return judgements.mean(known, chosen, getattr(getattr(known, of), field))


def _won(field: str, size: int, known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    """Return how often samples of a size are beaten, among those that can be: see `beatable`."""
    can = chosen & beatable(known)[:, size]
    return judgements.mean(known, can, getattr(known.judged, field)[:, size])


def _in_quarter(quarter: int, known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    return judgements.quartiles(known, chosen)[quarter]


def _chose(family: int, known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
    assert isinstance(known.stated, Stated)
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
        "relative error": judgements.relative_error,
        "mean of error ratios": partial(_of, "ratio"),
        "ratios, dropped": partial(_of, "ratio", of="dropped"),
        "CRPS ratio": partial(_of, "crps_ratio"),
        "CRPS, dropped": partial(_of, "crps_ratio", of="dropped"),
        "answered": partial(_of, "answered"),
    },
    "quartiles": {
        **{f"quarter {quarter + 1}": partial(_in_quarter, quarter) for quarter in range(4)},
        "ECE (points)": judgements.ece,
        "below median": judgements.below,
        "in 5-95 %": judgements.inside,
    },
    "uncertainty": {
        "Spearman": judgements.rank,
        "stated sd": partial(_of, "uncertainty"),
        "mean of error ratios": partial(_of, "ratio"),
    },
}

#: Where the choice was open: which families were chosen, among readable replies.
CHOSEN = {f"chose {name}": partial(_chose, place) for place, name in enumerate(FAMILIES)}


def _parts(tasks: Sequence[JudgedTask]) -> Iterator[tuple[str, str, Part]]:
    """Yield all quantities, then their slices by difficulty, topic and survey: facet and label."""
    yield "", "", [(known, everything(known)) for known in tasks]
    for facet, order in {
        "difficulty": DIFFICULTIES,
        "family": KINDS.values(),
        "survey": (),
    }.items():
        named = [(known, _labels(known, facet)) for known in tasks]
        here = dict.fromkeys(label for _, labels in named for label in labels.tolist())
        if facet == "survey" and len(here) < 2:
            continue
        for label in [label for label in order if label in here] or here:
            yield facet, label, [(known, labels == label) for known, labels in named]


def _labels(known: JudgedTask, facet: str) -> NDArray[Any]:
    if facet == "survey":
        return np.full(len(known.truth.quantities), known.truth.survey)
    column = known.truth.column(facet)
    return np.array([KINDS[of] for of in column]) if facet == "family" else column


def _rows(
    whose: Mapping[str, Any], tasks: Sequence[JudgedTask], measures: Mapping[str, Measure]
) -> Iterator[dict[str, Any]]:
    """Yield numbers over all quantities, then over every part of them."""
    # Who knows the population is an average over many draws, and so are the ranks of its errors.
    names = [name for name in measures if name != "Spearman" or whose["run"] >= 0]
    for facet, label, part in _parts(tasks):
        about = f"{facet}: {label} ({sum(int(of.sum()) for _, of in part)})" if facet else ""
        cells = {name: over(part, measures[name]) for name in names}
        yield from part_rows({**whose, "asked": about, "facet": facet}, cells)


def _finding(results: Results, name: str, title: str, note: str) -> Finding:
    """Return a finding of what `MEASURES` has under its name."""
    rows: list[dict[str, Any]] = []
    for whose, way, tasks in _asked(results):
        is_open = name == "priors" and way == "direct_choice"
        rows += _rows(whose, tasks, MEASURES[name] | (CHOSEN if is_open else {}))
    return in_parts(results, name, title, rows, note, RUN, "quantities", "facet")


def wins(results: Results) -> Finding:
    """How often stated priors are closer to the truth than N real answers, and their worth."""
    rows: list[dict[str, Any]] = []
    for whose, _, tasks in _asked(results):
        rows += _rows(whose, tasks, MEASURES["wins"])
        part = [(known, everything(known)) for known in tasks]
        rates = [over(part, measure) for measure in MEASURES["wins"].values()]
        ends = {
            name: worth(np.array([rate.value + side * REACH * rate.error for rate in rates]))
            for name, side in (("worth N", 0), ("at least", -1), ("at most", 1))
        }
        rows += part_rows(whose, {name: number(end) for name, end in ends.items()})
        after = {size: over(part, of) for size, of in MEASURES["posterior"].items()}
        rows += part_rows({**whose, "asked": "posterior"}, after)
    unbeaten = [
        f"{quantity.name} of {task} (N = {', '.join(map(str, np.array(SIZES)[~can]))})"
        for task, known in knowers(results)[["task", "said"]].itertuples(index=False)
        for quantity, can in zip(known.truth.quantities, beatable(known), strict=True)
        if not can.all()
    ]
    title = "Priors: how often better than N real answers (± standard error)"
    note = (
        "The share of quantities of which the prior is closer to the truth than N real answers "
        "are. 'posterior': the prior together with N answers, against these alone. A reply "
        "without a prior does not win. 'knows the population' states draws from the truths' own "
        "errors: no model can do better. Worth N: the N at which the share falls below one half "
        f"(linear in log N; 0: fewer than {SIZES[0]}, {SIZES[-1] + 1}: more than {SIZES[-1]}); "
        "'at least' and 'at most' where an end of its 95 % interval does."
    )
    left_out = [f"the error of N answers is about 0: {'; '.join(unbeaten)}"] * bool(unbeaten)
    return in_parts(
        results, "wins", title, rows, note, RUN, "quantities", "facet", left_out=left_out
    )


def priors(results: Results) -> Finding:
    """How far stated priors are from the truth, compared with five real answers."""
    return _finding(
        results,
        "priors",
        "Priors: error compared with 5 real answers (± standard error)",
        "Beats 5: the share of quantities whose stated mean is closer to the truth than 5 real "
        "answers are. Relative error: the mean error of stated means over that of 5 answers, in "
        "standard deviations between people; below 1 is better. Mean of error ratios, as "
        "published: each quantity's error over that of 5 answers, then the mean, which a single "
        "quantity can dominate. CRPS ratio: the same for the whole distribution. A reply without "
        "a prior counts as the flat one (the base variable among everybody); 'dropped' leaves it "
        "out, as published numbers do. Standard errors are over quantities. chose: shares of the "
        "readable priors, where the family was the model's choice. Parts: by number of conditions "
        "(base, easy, medium, hard: none, one, two, three), by topic, and by survey.",
    )


def quartiles(results: Results) -> Finding:
    """Where the truth lies in the stated prior: whether priors are as wide as they should be."""
    return _finding(
        results,
        "quartiles",
        "Priors: where the truth lies in the stated prior (± standard error)",
        "The share of truths in each quarter of the stated prior: 0.250 if priors are calibrated. "
        "ECE: the mean distance from that, in percentage points, per repeat; with few quantities "
        "chance alone adds some. A low ECE is not enough: a prior equal to the truth has 34, and "
        "one that knows only how people differ 8. Below median: above 0.500, the model "
        "overestimates quantities. 5-95 %: 0.900 if priors are as wide as they should be.",
    )


def uncertainty(results: Results) -> Finding:
    """Whether models are less sure where they know less."""
    return _finding(
        results,
        "uncertainty",
        "Priors: do wider priors have larger errors? (± standard error)",
        "Spearman's correlation, over quantities, of the stated standard deviation with the "
        "error. Both are divided by the error of 5 real answers, so that units do not matter. "
        "Above 0: the model is less sure where it knows less. Then the means of both.",
    )


def _first_quarter(judged: Judged) -> float:
    """Return the share of truths in the lowest quarter of the prior; 0.25 if calibrated."""
    return float(mean_of(mean_of(in_quarters(judged.position), axis=1)[:, 0]))


def _mean(field: str, place: Any, known: JudgedTask) -> float:
    return float(mean_of(getattr(known.dropped, field)[place]))


#: What a published measure comes to; replies that could not be read are dropped, as there.
_PUBLISHED: dict[str, Callable[[JudgedTask], float]] = {
    "CRPS ratio": partial(_mean, "crps_ratio", ...),
    **{
        f"{name} beats {size}": partial(_mean, field, (..., n))
        for name, field in (("prior", "wins"), ("posterior", "posterior_wins"))
        for n, size in enumerate(SIZES)
    },
    "error ratio": partial(_mean, "ratio", ...),
    "in the first quarter": lambda known: _first_quarter(known.dropped),
    "the same with failures counted": lambda known: _first_quarter(known.judged),
    "worth answers": lambda known: worth(mean_of(known.dropped.wins, axis=0)),
}


def published_priors(results: Results) -> Finding:
    """Published numbers on priors beside those of the released answers, and of your runs."""
    tasks, kinds = {task: name for name, task in SETS.items()}, results.runs["kind"]
    scores = results.scores[results.scores["task"].isin(tasks)]
    is_shown = (scores["run"].map(kinds) == "published").any()
    table = claims().assign(run=-1, kind="published", asked="", here=math.nan)
    table = table if is_shown else table[:0]
    answers = {of.model: of.known for of in stating() if of.experiment == COMPARED}
    table["released"] = [
        _PUBLISHED[row.measure](answers[row.model])
        if row.set == "nhanes" and row.measure in _PUBLISHED
        else float(row.released or math.nan)
        for row in table.itertuples()
    ]
    own = stated(results)
    own = own[own["way"].isin(("direct", "direct_choice")) & (own["run"].map(kinds) != "published")]
    own = own.assign(set=own["task"].map(tasks), asked=own["way"], printed="")
    rows = (
        table[["measure", "set"]]
        .drop_duplicates()
        .merge(own[["run", "set", "asked", "printed", "said"]], on="set")
    )
    rows = rows[rows["measure"].isin([*_PUBLISHED])]
    if len(rows):
        here = [_PUBLISHED[row.measure](row.said) for row in rows.itertuples()]
        table = pd.concat([table, rows.drop(columns="said").assign(here=here)], ignore_index=True)
    columns = {"measure": Column(), "set": Column(), **WHO, "asked": Column(), "printed": Column()}
    columns |= {"released": Column(digits=3), "here": Column(digits=3)}
    title = "Priors: published numbers against those of the released answers"
    table = who(table.sort_values(["measure", "set"], kind="stable"), results.runs)
    note = (
        "Unreadable replies are dropped, as in the paper. Printed: the paper and the tables of "
        "its repository (commit 375ca15), from runs in which models chose the family themselves, "
        "as in direct_choice here. Released: answers in a given family (commit 4c4c975); NHANES "
        "is scored here, the other sets are as their results state, and blank if that needs draws "
        "that may not be redistributed. Here: your runs of these sets."
    )
    left_out = [] if is_shown else [f"run lm_eval on {SETS['nhanes']}, and report --published"]
    return Finding("published-priors", title, table, columns, note, left_out=left_out)
