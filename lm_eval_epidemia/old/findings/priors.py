"""Tables on stated priors: errors, wins, calibration, and how sure models are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import PRIOR, WAYS, in_way
from lm_eval_epidemia.benchmarks.prior.judged import Stated
from lm_eval_epidemia.benchmarks.prior.judgements import (
    JudgedTask,
    beatable,
    below,
    ece,
    everything,
    inside,
    mean,
    quartiles,
    rank,
    relative_error,
)
from lm_eval_epidemia.benchmarks.prior.metrics import worth
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DIFFICULTIES, SIZES
from lm_eval_epidemia.old.findings.rows import ALIKE, Column, Finding, Row
from lm_eval_epidemia.old.findings.prior_reference import KNOWS_POPULATION, left_out, reference
from lm_eval_epidemia.old.findings.tables import Table, row_of
from lm_eval_epidemia.results.entry import Entry, leaf
from lm_eval_epidemia.score.estimates import Estimate, average

#: Standard errors to either side of a win rate, for what a prior is worth.
REACH = 1.96

#: How the families of quantities are called.
KINDS = {"normal": "means", "beta": "proportions", "lognormal": "positive means"}

#: Some quantities of each of several tasks.
Part = Sequence[tuple[JudgedTask, NDArray[np.bool_]]]

#: From a task and some of its quantities to a number.
Measure = Callable[[JudgedTask, NDArray[np.bool_]], Estimate]


def asked_of(entry: Entry) -> Iterator[tuple[str, str, list[JudgedTask]]]:
    """Return an entry's known priors by group and way, task by task."""
    for way in PRIOR.ways:
        for group in PRIOR.groups:
            several = [
                score.said
                for asked, score in sorted(entry.scores.items())
                if asked.way == way
                and leaf(asked).entry.group == group
                and leaf(asked).benchmark is PRIOR
                and score.said is not None
            ]
            if several:
                yield in_way(group, way), way, several


def over(part: Part, measure: Measure) -> Estimate:
    """Average a number over tasks with equal weight; its error is over quantities."""
    return average([measure(known, chosen) for known, chosen in part if chosen.any()])


def _all(several: Iterable[JudgedTask]) -> Part:
    return [(known, everything(known)) for known in several]


def _of(name: str, dropped: bool = False) -> Measure:
    """Average a number over quantities, with or without unreadable replies."""

    def measure(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
        return mean(known, chosen, getattr(known.dropped if dropped else known.judged, name))

    return measure


def _won(place: int, name: str = "wins") -> Measure:
    """Return how often samples of a size are beaten, among those that can be: see `beatable`."""

    def measure(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
        return mean(
            known, chosen & beatable(known)[:, place], getattr(known.judged, name)[:, place]
        )

    return measure


def rates(part: Part, after: bool = False) -> list[Estimate]:
    """Return how often the prior (or posterior) wins against samples of each of `SIZES`."""
    name = "posterior_wins" if after else "wins"
    return [over(part, _won(place, name)) for place in range(len(SIZES))]


def _parts(several: Sequence[JudgedTask]) -> Iterator[tuple[str, str, Part]]:
    """Slice quantities by difficulty, topic and survey; return facet, label and part."""
    labels: dict[str, Callable[[JudgedTask], list[str]]] = {
        "difficulty": lambda known: [q.difficulty for q in known.truth.quantities],
        "family": lambda known: [KINDS[q.family] for q in known.truth.quantities],
        "survey": lambda known: [known.truth.survey] * len(known.truth.quantities),
    }
    order = [*DIFFICULTIES, *KINDS.values()]
    for how, of in labels.items():
        named = [(known, np.array(of(known))) for known in several]
        here = dict.fromkeys(label for _, labelled in named for label in labelled.tolist())
        if how == "survey" and len(here) < 2:
            continue
        for label in sorted(here, key=lambda q: order.index(q) if q in order else 0):
            yield how, label, [(known, labelled == label) for known, labelled in named]


def _column(name: str, metric: str, digits: int = 3, **more: Any) -> Column:
    return Column(name, metric, digits, least=ALIKE, named=True, **more)


#: What can be said of quantities, and the column that has it.
_MEASURES: Sequence[tuple[Column, Measure]] = (
    (_column("beats 5", f"beats_{SIZES[0]}"), _won(0)),
    (_column("relative error", "relative_error"), relative_error),
    (_column("error ratio", "error_ratio", title="mean of error ratios"), _of("ratio")),
    (
        _column("error ratio, failures dropped", "error_ratio_published", title="ratios, dropped"),
        _of("ratio", dropped=True),
    ),
    (_column("CRPS ratio", "crps_ratio"), _of("crps_ratio")),
    (
        _column("CRPS ratio, failures dropped", "crps_ratio_published", title="CRPS, dropped"),
        _of("crps_ratio", dropped=True),
    ),
    (_column("ECE (points)", "ece", 1), ece),
    (_column("below median", "below_median"), below),
    (_column("in 5-95 %", "share_of_truths"), inside),
    (_column("Spearman", "uncertainty_rank", signed=True), rank),
    (_column("stated sd", "uncertainty"), _of("uncertainty")),
    (_column("answered", "answered", form="plain"), _of("answered")),
)

COLUMNS = [column for column, _ in _MEASURES]


def _said(part: Part, *names: str) -> dict[str, Estimate]:
    """Return some of `_MEASURES` by name, in the given order."""
    measures = {column.name: measure for column, measure in _MEASURES}
    return {name: over(part, measures[name]) for name in names}


def _row(entry: Entry, group: str, cells: Mapping[str, Estimate], **more: Any) -> Row:
    return row_of(entry, group, PRIOR.groups[0], cells, **more)


#: What is said of all quantities; of what is not written nothing can fail or be dropped.
_OF_ALL = (
    "beats 5",
    "relative error",
    "error ratio",
    "error ratio, failures dropped",
    "CRPS ratio",
    "CRPS ratio, failures dropped",
    "answered",
)


def _overall(entry: Entry) -> Iterator[Row]:
    for group, way, several in asked_of(entry):
        of_written = () if WAYS[way].generated else ("dropped", "answered")
        names = [name for name in _OF_ALL if not name.endswith(of_written)]
        yield _row(entry, group, _said(_all(several), *names))


def _wins(entry: Entry) -> Iterator[Row]:
    for group, _, several in asked_of(entry):
        for about, after in (("prior", False), ("posterior", True)):
            wins = rates(_all(several), after)
            cells = {f"N = {size}": win for size, win in zip(SIZES, wins, strict=True)}
            if after:
                metrics = {f"N = {size}": f"posterior_beats_{size}" for size in SIZES}
                yield _row(entry, group, cells, about=about, metrics=metrics)
                continue
            for name, side in (("worth N", 0), ("at least", -1), ("at most", 1)):
                ends = np.array([win.value + side * REACH * win.error for win in wins])
                cells[name] = Estimate(worth(ends), math.nan, wins[0].samples, 0)
            yield _row(entry, group, cells, about=about)


def _calibration(entry: Entry) -> Iterator[Row]:
    for group, _, several in asked_of(entry):
        part = _all(several)
        quarters = zip(*(quartiles(known, chosen) for known, chosen in part), strict=True)
        cells = {f"quarter {n}": average(shares) for n, shares in enumerate(quarters, 1)}
        yield _row(entry, group, cells | _said(part, "ECE (points)", "below median", "in 5-95 %"))


def _but_ranks(entry: Entry, names: Iterable[str]) -> list[str]:
    """Leave out ranks of errors, which for knowing the population average many draws."""
    return [name for name in names if name != "Spearman" or entry.name != KNOWS_POPULATION]


def _certainty(entry: Entry) -> Iterator[Row]:
    for group, _, several in asked_of(entry):
        names = _but_ranks(entry, ["Spearman", "stated sd", "error ratio"])
        yield _row(entry, group, _said(_all(several), *names))


def _by_part(entry: Entry) -> Iterator[Row]:
    for group, _, several in asked_of(entry):
        rate = {label: over(part, _won(0)) for _, label, part in _parts(several)}
        yield _row(entry, group, rate)


#: What is said of every part.
_OF_A_PART = (
    "relative error",
    "error ratio",
    "error ratio, failures dropped",
    "CRPS ratio",
    "ECE (points)",
    "below median",
    "Spearman",
    "answered",
)


def _every_part(entry: Entry) -> Iterator[Row]:
    for group, _, several in asked_of(entry):
        for how, label, part in _parts(several):
            cells = _said(part, *_but_ranks(entry, _OF_A_PART))
            cells |= {f"wins, N = {n}": win for n, win in zip(SIZES, rates(part), strict=True)}
            quantities = sum(int(chosen.sum()) for _, chosen in part)
            about = f"{how}: {label} ({quantities})"
            yield _row(entry, group, cells, about=about, long=True)


def _families(entry: Entry) -> Iterator[Row]:
    """The families that models chose, among readable replies, if the choice was open."""
    for group, way, several in asked_of(entry):
        if way != "direct_choice":
            continue
        for how, label, part in [("family", "all", _all(several)), *_parts(several)]:
            if how == "family":
                shares = {name: over(part, _share_of(n)) for n, name in enumerate(FAMILIES)}
                yield _row(entry, group, shares, about=label)


def _share_of(family: int) -> Measure:
    def measure(known: JudgedTask, chosen: NDArray[np.bool_]) -> Estimate:
        assert isinstance(known.stated, Stated)
        read = chosen[:, None] & ~np.isnan(known.stated.a)
        chose = known.stated.family[read] == family
        return Estimate(float(chose.mean()) if len(chose) else math.nan, math.nan, len(chose), 0)

    return measure


#: A part that is not among the columns of a table, if nothing else is said.
SHARE = _column("", "error_ratio")

_TABLES = (
    Table(
        "wins",
        "Priors: how often better than N real answers (± standard error)",
        _wins,
        "How often the prior is closer to the truth than N real answers are, as a share of "
        "quantities. 'posterior': the prior together with N answers, against the same N answers "
        "alone. A reply without a prior does not win. 'knows the population' states draws from "
        "the truths' own errors: no model can do better. Worth N: the N at which the share falls "
        "below one half (linear in log N); 'at least' and 'at most' where an end of its 95 % "
        "interval does.",
        SHARE._replace(metric="worth_samples", form="worth"),
        [_column(f"N = {size}", f"beats_{size}") for size in SIZES],
        about="who",
    ),
    Table(
        "priors",
        "Priors: error compared with 5 real answers (± standard error)",
        _overall,
        "Beats 5: the share of quantities whose stated mean is closer to the truth than 5 real "
        "answers are. Relative error: the error of the stated means over that of 5 answers; both "
        "are means over quantities, in standard deviations between people. Below 1 is better than "
        "5 answers. Mean of error ratios, as published: each quantity's error over that of 5 "
        "answers, then the mean, which a single quantity can dominate. CRPS ratio: the same for "
        "the whole distribution. A reply without a prior counts as the flat one (the base "
        "variable among everybody); 'dropped' leaves it out, as published numbers do. Standard "
        "errors are over quantities.",
        SHARE,
        COLUMNS,
    ),
    Table(
        "calibration",
        "Priors: where the truth lies in the stated prior (± standard error)",
        _calibration,
        "The share of truths in each quarter of the stated prior: 0.250 if priors are calibrated. "
        "ECE: the mean distance from that, in percentage points, per repeat; with few quantities "
        "chance alone adds some. A low ECE is not enough: a prior equal to the truth has 34, and "
        "one that knows only how people differ 8. Below median: above 0.500, the model "
        "overestimates quantities. 5-95 %: 0.900 if priors are as wide as they should be.",
        SHARE._replace(metric="share_of_truths"),
        COLUMNS,
    ),
    Table(
        "uncertainty",
        "Priors: do wider priors have larger errors? (± standard error)",
        _certainty,
        "Spearman's correlation, over quantities, of the stated standard deviation with the "
        "error. Both are divided by the error of 5 real answers, so that units do not matter. "
        "Above 0: the model is less sure where it knows less. Then the means of both.",
        SHARE,
        COLUMNS,
    ),
    Table(
        "priors by part",
        "Priors: how often better than 5 real answers, by part (± standard error, quantities)",
        _by_part,
        "By number of conditions (base: the variable among everybody; easy, medium, hard: one, "
        "two, three conditions), by topic, and by survey.",
        SHARE._replace(metric=f"beats_{SIZES[0]}", form="counted"),
    ),
    Table(
        "families",
        "Priors: chosen families",
        _families,
        "Shares of the readable priors.",
        SHARE._replace(metric="share_of_priors", form="plain"),
        about="quantities",
    ),
    Table(
        "part",
        "Priors by difficulty, family and survey (± standard error)",
        _every_part,
        "In brackets: the number of quantities. Columns as in the tables above.",
        SHARE,
        [*COLUMNS, *(_column(f"wins, N = {size}", f"beats_{size}") for size in SIZES)],
        about="part",
    ),
)


def findings(entries: Sequence[Entry]) -> list[Finding]:
    """Return the tables of the tasks asked, with a row for knowing the population."""
    known = reference(entries)
    filled = [table.over([*entries, known]) for table in _TABLES]
    return [
        finding._replace(note=finding.note + left_out(known) * (finding.kind == "wins"))
        for finding in filled
        if finding.rows
    ]
