"""What models expect numbers to be: errors, wins, calibration, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import PRIOR, in_way, leaves
from lm_eval_epidemia.benchmarks.prior import judgements
from lm_eval_epidemia.benchmarks.prior.judged import Judged, Stated, mean_of
from lm_eval_epidemia.benchmarks.prior.judgements import (
    JudgedTask,
    beatable,
    everything,
    knower,
)
from lm_eval_epidemia.benchmarks.prior.metrics import in_quarters, worth
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DIFFICULTIES, SIZES
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, who
from lm_eval_epidemia.findings.mean import REACH
from lm_eval_epidemia.findings.parts import in_parts, number, part_row
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


class Asked(NamedTuple):
    """The priors that somebody stated in a group and way.

    Attributes
    ----------
    whose : dict
        Run and group, of a row.
    way : str
    tasks : list of JudgedTask
    """

    whose: dict[str, Any]
    way: str
    tasks: list[JudgedTask]


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


def _asked(results: Results) -> Iterator[Asked]:
    """Yield runs, then who knows the population."""
    keys: Any = ["run", "group", "way"]
    for (run, group, way), of in stated(results).groupby(keys, sort=False):
        yield Asked({"run": run, "group": group}, way, [*of["said"]])
    for group, of in knowers(results).groupby("group", sort=False):
        whose = {"run": -1, "model": f"{KNOWS_POPULATION} (baseline)", "kind": "respondent"}
        yield Asked({**whose, "group": group}, PRIOR.plain.name, [*of["said"]])


def over(part: Part, measure: Measure) -> Estimate:
    """Average a number over tasks with equal weight; its error is over quantities."""
    return average([measure(known, chosen) for known, chosen in part if chosen.any()])


def _all(tasks: Sequence[JudgedTask]) -> Part:
    return [(known, everything(known)) for known in tasks]


def _of(name: str, dropped: bool = False) -> Measure:
    """Average a number over quantities, with or without unreadable replies."""

    def measure(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
        of = getattr(known.dropped if dropped else known.judged, name)
        return judgements.mean(known, chosen, of)

    return measure


def _won(place: int, name: str = "wins") -> Measure:
    """Return how often samples of a size are beaten, among those that can be: see `beatable`."""

    def measure(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
        can = chosen & beatable(known)[:, place]
        return judgements.mean(known, can, getattr(known.judged, name)[:, place])

    return measure


def _in_quarter(quarter: int) -> Measure:
    return lambda known, chosen: judgements.quartiles(known, chosen)[quarter]


def _chose(family: int) -> Measure:
    def measure(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
        assert isinstance(known.stated, Stated)
        read = chosen[:, None] & ~np.isnan(known.stated.a)
        chose = known.stated.family[read] == family
        return Estimate(float(chose.mean()) if len(chose) else math.nan, math.nan, len(chose), 0)

    return measure


#: What can be said of quantities, by the finding that says it.
MEASURES: dict[str, dict[str, Measure]] = {
    "wins": {f"N = {size}": _won(place) for place, size in enumerate(SIZES)},
    "posterior": {f"N = {n}": _won(place, "posterior_wins") for place, n in enumerate(SIZES)},
    "priors": {
        f"beats {SIZES[0]}": _won(0),
        "relative error": judgements.relative_error,
        "mean of error ratios": _of("ratio"),
        "ratios, dropped": _of("ratio", dropped=True),
        "CRPS ratio": _of("crps_ratio"),
        "CRPS, dropped": _of("crps_ratio", dropped=True),
        "answered": _of("answered"),
    },
    "quartiles": {
        **{f"quarter {quarter + 1}": _in_quarter(quarter) for quarter in range(4)},
        "ECE (points)": judgements.ece,
        "below median": judgements.below,
        "in 5-95 %": judgements.inside,
    },
    "uncertainty": {
        "Spearman": judgements.rank,
        "stated sd": _of("uncertainty"),
        "mean of error ratios": _of("ratio"),
    },
}

#: Where the choice was open: which families were chosen, among readable replies.
CHOSEN = {f"chose {name}": _chose(place) for place, name in enumerate(FAMILIES)}


def _parts(tasks: Sequence[JudgedTask]) -> Iterator[tuple[str, str, Part]]:
    """Slice quantities by difficulty, topic and survey; yield facet, label and part."""
    labels: dict[str, Callable[[JudgedTask], list[str]]] = {
        "difficulty": lambda known: [q.difficulty for q in known.truth.quantities],
        "family": lambda known: [KINDS[q.family] for q in known.truth.quantities],
        "survey": lambda known: [known.truth.survey] * len(known.truth.quantities),
    }
    order = [*DIFFICULTIES, *KINDS.values()]
    for facet, of in labels.items():
        named = [(known, np.array(of(known))) for known in tasks]
        here = dict.fromkeys(label for _, labelled in named for label in labelled.tolist())
        if facet == "survey" and len(here) < 2:
            continue
        for label in sorted(here, key=lambda q: order.index(q) if q in order else 0):
            yield facet, label, [(known, labelled == label) for known, labelled in named]


def _rows(asked: Asked, measures: Mapping[str, Measure]) -> Iterator[dict[str, Any]]:
    """Yield numbers over all quantities, then over every part of them."""
    # Who knows the population is an average over many draws, and so are the ranks of its errors.
    names = [name for name in measures if name != "Spearman" or asked.whose["run"] >= 0]
    for facet, label, part in [("", "", _all(asked.tasks)), *_parts(asked.tasks)]:
        about = f"{facet}: {label} ({sum(int(of.sum()) for _, of in part)})" if facet else ""
        whose = {**asked.whose, "asked": about, "facet": facet}
        yield from (part_row(whose, name, over(part, measures[name])) for name in names)


def _finding(results: Results, name: str, title: str, note: str) -> Finding:
    rows: list[dict[str, Any]] = []
    for asked in _asked(results):
        is_open = name == "priors" and asked.way == "direct_choice"
        rows += _rows(asked, MEASURES[name] | (CHOSEN if is_open else {}))
    return in_parts(results, name, title, rows, note, "quantities", details="facet", otherwise=RUN)


def wins(results: Results) -> Finding:
    """How often stated priors are closer to the truth than N real answers, and their worth."""
    rows: list[dict[str, Any]] = []
    for asked in _asked(results):
        rows += _rows(asked, MEASURES["wins"])
        part = _all(asked.tasks)
        rates = [over(part, measure) for measure in MEASURES["wins"].values()]
        for name, side in (("worth N", 0), ("at least", -1), ("at most", 1)):
            ends = np.array([rate.value + side * REACH * rate.error for rate in rates])
            rows.append(part_row(asked.whose, name, number(worth(ends))))
        after = {**asked.whose, "asked": "posterior"}
        rows += [
            part_row(after, size, over(part, of)) for size, of in MEASURES["posterior"].items()
        ]
    finding = in_parts(
        results,
        "wins",
        "Priors: how often better than N real answers (± standard error)",
        rows,
        "How often the prior is closer to the truth than N real answers are, as a share of "
        "quantities. 'posterior': the prior together with N answers, against the same N answers "
        "alone. A reply without a prior does not win. 'knows the population' states draws from "
        "the truths' own errors: no model can do better. Worth N: the N at which the share falls "
        f"below one half (linear in log N; 0: fewer than {SIZES[0]}, {SIZES[-1] + 1}: more than "
        f"{SIZES[-1]}); 'at least' and 'at most' where an end of its 95 % interval does.",
        "quantities",
        details="facet",
        otherwise=RUN,
    )
    unbeaten = [
        f"{quantity.name} of {task} (N = {', '.join(map(str, np.array(SIZES)[~can]))})"
        for task, known in knowers(results)[["task", "said"]].itertuples(index=False)
        for quantity, can in zip(known.truth.quantities, beatable(known), strict=True)
        if not can.all()
    ]
    says = [f"the error of N answers is about 0: {'; '.join(unbeaten)}"] * bool(unbeaten)
    return Finding(**{**vars(finding), "left_out": [*finding.left_out, *says]})


def priors(results: Results) -> Finding:
    """How far stated priors are from the truth, compared with five real answers."""
    return _finding(
        results,
        "priors",
        "Priors: error compared with 5 real answers (± standard error)",
        "Beats 5: the share of quantities whose stated mean is closer to the truth than 5 real "
        "answers are. Relative error: the error of the stated means over that of 5 answers; both "
        "are means over quantities, in standard deviations between people. Below 1 is better than "
        "5 answers. Mean of error ratios, as published: each quantity's error over that of 5 "
        "answers, then the mean, which a single quantity can dominate. CRPS ratio: the same for "
        "the whole distribution. A reply without a prior counts as the flat one (the base "
        "variable among everybody); 'dropped' leaves it out, as published numbers do. Standard "
        "errors are over quantities. chose: shares of the readable priors, where the family was "
        "the model's choice. Parts: by number of conditions (base: the variable among everybody; "
        "easy, medium, hard: one, two, three conditions), by topic, and by survey.",
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


def _share(field: str, place: int) -> Callable[[JudgedTask], float]:
    """Return a function for how often samples of a size are beaten, by a field of `Judged`."""
    return lambda known: float(mean_of(getattr(known.dropped, field)[:, place]))


#: What a published measure comes to; replies that could not be read are dropped, as there.
_PUBLISHED: dict[str, Callable[[JudgedTask], float]] = {
    "CRPS ratio": lambda known: float(mean_of(known.dropped.crps_ratio)),
    **{f"prior beats {size}": _share("wins", n) for n, size in enumerate(SIZES)},
    **{f"posterior beats {size}": _share("posterior_wins", n) for n, size in enumerate(SIZES)},
    "error ratio": lambda known: float(mean_of(known.dropped.ratio)),
    "in the first quarter": lambda known: _first_quarter(known.dropped),
    "the same with failures counted": lambda known: _first_quarter(known.judged),
    "worth answers": lambda known: worth(mean_of(known.dropped.wins, axis=0)),
}


def published_priors(results: Results) -> Finding:
    """Published numbers on priors beside those of the released answers, and of your runs."""
    kinds = results.scores["run"].map(results.runs["kind"])
    is_shown = ((kinds == "published") & results.scores["task"].isin(SETS.values())).any()
    table = claims().assign(run=-1, kind="published", asked="", here=math.nan)
    table = table if is_shown else table[:0]
    answers = {of.model: of.known for of in stating() if of.experiment == COMPARED}
    table["released"] = [
        _PUBLISHED[measure](answers[model])
        if name == "nhanes" and measure in _PUBLISHED
        else float(given or math.nan)
        for measure, name, model, given in zip(
            *(table[of] for of in ("measure", "set", "model", "released")), strict=True
        )
    ]
    own = stated(results)
    own = own[
        own["way"].isin(("direct", "direct_choice"))
        & (own["run"].map(results.runs["kind"]) != "published")
    ]
    rows = [
        {
            "run": run,
            "measure": measure,
            "set": name,
            "asked": way,
            "printed": "",
            "here": _PUBLISHED[measure](known),
        }
        for measure, name in table[["measure", "set"]].drop_duplicates().itertuples(index=False)
        if measure in _PUBLISHED
        for run, task, way, known in own[["run", "task", "way", "said"]].itertuples(index=False)
        if task == SETS[name]
    ]
    if rows:
        table = pd.concat([table, pd.DataFrame(rows)], ignore_index=True)
    columns = {
        **{"measure": Column(), "set": Column(), **WHO, "asked": Column(), "printed": Column()},
        **{"released": Column(digits=3), "here": Column(digits=3)},
    }
    return Finding(
        "published-priors",
        "Priors: published numbers against those of the released answers",
        who(table.sort_values(["measure", "set"], kind="stable"), results.runs),
        columns,
        "Unreadable replies are dropped, as in the paper. Printed: the paper and the tables of "
        "its repository (commit 375ca15), from runs in which models chose the family themselves, "
        "as in direct_choice here. Released: answers in a given family (commit 4c4c975). NHANES "
        "is scored here; the other sets are as their results state, and blank if that needs draws "
        "that may not be redistributed. Here: your runs of these sets.",
        left_out=[] if is_shown else [f"run lm_eval on {SETS['nhanes']}, and report --published"],
    )
