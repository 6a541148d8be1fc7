"""What the report says of stated priors: errors, wins, calibration, and how sure models are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import PRIOR, WAYS, in_way
from lm_eval_epidemia.benchmarks.prior.judged import Stated
from lm_eval_epidemia.benchmarks.prior.judgements import (
    Known,
    below,
    ece,
    everything,
    inside,
    mean,
    quartiles,
    rank,
)
from lm_eval_epidemia.benchmarks.prior.metrics import worth
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DIFFICULTIES, SIZES
from lm_eval_epidemia.findings.section import Section
from lm_eval_epidemia.findings.tables import Finding, Table, laid_out
from lm_eval_epidemia.results.entry import Entry, leaf
from lm_eval_epidemia.score.estimates import Estimate, average

#: What heads a column otherwise than it is called.
CRPS_DROPPED = "CRPS ratio, failures dropped"
SHORT = {CRPS_DROPPED: "CRPS, dropped", "error ratio, failures dropped": "error, dropped"}

#: Standard errors to either side of a win rate, for what a prior is worth.
REACH = 1.96

#: How the families of quantities are called.
KINDS = {"normal": "means", "beta": "proportions", "lognormal": "positive means"}

#: Some quantities of each of several tasks.
Part = Sequence[tuple[Known, NDArray[np.bool_]]]

#: From a task and some of its quantities to a number.
Measure = Callable[[Known, NDArray[np.bool_]], Estimate]


def asked_of(entry: Entry) -> Iterator[tuple[str, str, list[Known]]]:
    """Return by group and way what an entry said, task by task; what is not known is left out."""
    for way in PRIOR.ways:
        for group in PRIOR.groups:
            found = [
                score.said
                for asked, score in sorted(entry.scores.items())
                if asked.way == way
                and leaf(asked).entry.group == group
                and leaf(asked).benchmark is PRIOR
                and score.said is not None
            ]
            if found:
                yield in_way(group, way), way, found


def over(part: Part, measure: Measure) -> Estimate:
    """Average a number over tasks, each counting once; quantities are the samples of its error."""
    return average([measure(known, chosen) for known, chosen in part if chosen.any()])


def _all(several: Iterable[Known]) -> Part:
    return [(known, everything(known)) for known in several]


def _of(name: str, dropped: bool = False) -> Measure:
    """Average a number that each quantity has; with what was not read dropped if so wished."""

    def measure(known: Known, chosen: NDArray[np.bool_]) -> Estimate:
        return mean(known, chosen, getattr(known.dropped if dropped else known.judged, name))

    return measure


def rates(part: Part, after: bool = False) -> list[Estimate]:
    """Return how often the prior (or the posterior) wins against samples of each of `SIZES`."""
    name = "posterior_wins" if after else "wins"

    def against(place: int) -> Measure:
        return lambda known, chosen: mean(known, chosen, getattr(known.judged, name)[:, place])

    return [over(part, against(place)) for place in range(len(SIZES))]


def _parts(several: Sequence[Known]) -> Iterator[tuple[str, str, Part]]:
    """Cut quantities by difficulty, by what they are, and by survey: how, its label, the part."""
    labels: dict[str, Callable[[Known], list[str]]] = {
        "difficulty": lambda known: [one.difficulty for one in known.truth.quantities],
        "family": lambda known: [KINDS[one.family] for one in known.truth.quantities],
        "survey": lambda known: [known.truth.survey] * len(known.truth.quantities),
    }
    order = [*DIFFICULTIES, *KINDS.values()]
    for how, of in labels.items():
        named = [(known, np.array(of(known))) for known in several]
        here = dict.fromkeys(label for _, labelled in named for label in labelled.tolist())
        if how == "survey" and len(here) < 2:
            continue
        for label in sorted(here, key=lambda one: order.index(one) if one in order else 0):
            yield how, label, [(known, labelled == label) for known, labelled in named]


def _number(part: Part) -> int:
    return sum(int(chosen.sum()) for _, chosen in part)


def _overall(entry: Entry) -> Iterator[Finding]:
    for group, way, several in asked_of(entry):
        measures: dict[str, tuple[Measure, str, str]] = {
            "error ratio": (_of("ratio"), "share", "error_ratio"),
            "error ratio, failures dropped": (_of("ratio", True), "share", "error_ratio_published"),
            "CRPS ratio": (_of("crps_ratio"), "share", "crps_ratio"),
            CRPS_DROPPED: (_of("crps_ratio", True), "share", "crps_ratio_published"),
        }
        if WAYS[way].generated:
            measures["answered"] = _of("answered"), "plain", "answered"
        else:
            measures = {part: one for part, one in measures.items() if "dropped" not in part}
        for part, (measure, form, metric) in measures.items():
            estimate = over(_all(several), measure)
            yield Finding("priors", entry, group, "", part, estimate, form, metric=metric)


def _wins(entry: Entry) -> Iterator[Finding]:
    for group, _, several in asked_of(entry):
        for about, after in (("prior", False), ("posterior", True)):
            found = rates(_all(several), after)
            for size, one in zip(SIZES, found, strict=True):
                metric = f"{'posterior_' * after}win_rate_{size}"
                yield Finding("wins", entry, group, about, f"N = {size}", one, metric=metric)
            if after:
                continue
            low, high = (
                [one.value + side * REACH * one.error for one in found] for side in (-1, 1)
            )
            ends = {"worth N": [one.value for one in found], "at least": low, "at most": high}
            for part, values in ends.items():
                one = Estimate(worth(np.array(values)), math.nan, found[0].samples, 0)
                yield Finding(
                    "wins", entry, group, about, part, one, "worth", metric="worth_samples"
                )


def _calibration(entry: Entry) -> Iterator[Finding]:
    for group, _, several in asked_of(entry):
        part = _all(several)
        by_task = [quartiles(known, chosen) for known, chosen in part]
        for place, shares in enumerate(zip(*by_task, strict=True), 1):
            yield Finding(
                "calibration",
                entry,
                group,
                "",
                f"quarter {place}",
                average(shares),
                metric="share_of_truths",
            )
        yield Finding(
            "calibration", entry, group, "", "ECE (points)", over(part, ece), "points", metric="ece"
        )
        yield Finding(
            "calibration",
            entry,
            group,
            "",
            "below median",
            over(part, below),
            metric="below_median",
        )
        yield Finding(
            "calibration",
            entry,
            group,
            "",
            "in 5-95 %",
            over(part, inside),
            metric="share_of_truths",
        )


def _certainty(entry: Entry) -> Iterator[Finding]:
    for group, _, several in asked_of(entry):
        part = _all(several)
        yield Finding(
            "uncertainty",
            entry,
            group,
            "",
            "Spearman",
            over(part, rank),
            "difference",
            metric="uncertainty_rank",
        )
        yield Finding(
            "uncertainty",
            entry,
            group,
            "",
            "stated sd",
            over(part, _of("uncertainty")),
            metric="uncertainty",
        )
        yield Finding(
            "uncertainty",
            entry,
            group,
            "",
            "error ratio",
            over(part, _of("ratio")),
            metric="error_ratio",
        )


#: What is said of every part, by its column: form and metric.
_MEASURES: dict[str, tuple[Measure, str, str]] = {
    "error ratio": (_of("ratio"), "share", "error_ratio"),
    "error ratio, failures dropped": (_of("ratio", True), "share", "error_ratio_published"),
    "CRPS ratio": (_of("crps_ratio"), "share", "crps_ratio"),
    "ECE (points)": (ece, "points", "ece"),
    "below median": (below, "share", "below_median"),
    "Spearman": (rank, "difference", "uncertainty_rank"),
    "answered": (_of("answered"), "plain", "answered"),
}


def _by_part(entry: Entry) -> Iterator[Finding]:
    for group, _, several in asked_of(entry):
        for _how, label, part in _parts(several):
            one = over(part, _of("ratio"))
            yield Finding(
                "priors by part", entry, group, "", label, one, "counted", metric="error_ratio"
            )


def _every_part(entry: Entry) -> Iterator[Finding]:
    for group, _, several in asked_of(entry):
        for how, label, part in _parts(several):
            about = f"{how}: {label} ({_number(part)})"
            for name, (measure, form, metric) in _MEASURES.items():
                yield Finding(
                    "part", entry, group, about, name, over(part, measure), form, True, metric
                )
            for size, one in zip(SIZES, rates(part), strict=True):
                yield Finding(
                    "part",
                    entry,
                    group,
                    about,
                    f"wins, N = {size}",
                    one,
                    "share",
                    True,
                    f"win_rate_{size}",
                )


def _families(entry: Entry) -> Iterator[Finding]:
    """The families that were chosen, where that was left open; of what could be read."""
    for group, way, several in asked_of(entry):
        if way != "direct_choice":
            continue
        for how, label, part in [("", "all", _all(several)), *_parts(several)]:
            if how in ("", "family"):
                for number, name in enumerate(FAMILIES):
                    one = over(part, _share_of(number))
                    yield Finding(
                        "families",
                        entry,
                        group,
                        label,
                        name,
                        one,
                        "plain",
                        metric="share_of_priors",
                    )


def _share_of(family: int) -> Measure:
    def measure(known: Known, chosen: NDArray[np.bool_]) -> Estimate:
        assert isinstance(known.stated, Stated)
        read = chosen[:, None] & ~np.isnan(known.stated.a)
        found = known.stated.family[read] == family
        return Estimate(float(found.mean()) if len(found) else math.nan, math.nan, len(found), 0)

    return measure


_TABLES = (
    Table(
        "priors",
        "Priors: error beside that of 5 real answers (± standard error)",
        _overall,
        "Error ratio: how far the mean of the stated prior is from the truth, over how far that of "
        "5 real answers is; mean over quantities, below 1 is better than these answers. CRPS "
        "ratio: the same of the whole distribution. A reply without a prior counts as the flat one "
        "(the base variable among everybody); 'dropped' leaves it out, as published numbers "
        "do. Standard errors are over quantities.",
    ),
    Table(
        "wins",
        "Priors: how often better than N real answers (± standard error)",
        _wins,
        "Share of the quantities of which the prior is nearer to the truth than N real answers "
        "are; 'posterior': the prior and N answers against the same N answers alone. A reply "
        "without a prior is no win. Worth N: where the share falls below one half, linear in log "
        "N; 'at least' and 'at most' where its ends of 95 % do.",
        about="who",
    ),
    Table(
        "calibration",
        "Priors: where the truth lies in them (± standard error)",
        _calibration,
        "Share of the truths in each quarter of the stated prior: 0.250 where it is calibrated. "
        "ECE: the mean distance from that, in percentage points, of each repeat; a few quantities "
        "have some by chance. Below median: above 0.500, quantities are overestimated. 5-95 %: "
        "0.900 where the prior is as wide as it should be.",
    ),
    Table(
        "uncertainty",
        "Priors: is who is less sure more wrong? (± standard error)",
        _certainty,
        "Spearman's correlation over quantities of the stated standard deviation with the error, "
        "both over the error of 5 real answers, so that units play no part; above 0: it knows "
        "where it knows less. Beside it the means of both.",
    ),
    Table(
        "priors by part",
        "Priors: error ratio by part (± standard error, quantities)",
        _by_part,
        "By the number of conditions (base: the variable among everybody; easy, medium, hard: one, "
        "two, three conditions), by what is asked, and by survey.",
    ),
    Table(
        "families",
        "Priors: families that were chosen",
        _families,
        "Shares of the priors that could be read.",
        about="quantities",
    ),
    Table(
        "part",
        "Priors by difficulty, family and survey (± standard error)",
        _every_part,
        "The number of quantities stands in brackets; columns as in the tables above.",
        about="part",
    ),
)


def findings(entries: Sequence[Entry]) -> list[Finding]:
    """Return every number of every table."""
    return [one for table in _TABLES for entry in entries for one in table.find(entry)]


def tables(entries: Sequence[Entry], long: bool) -> list[Section]:
    """Return the tables of what was asked, with what is `Finding.long` where that is wished for."""
    made = []
    for table in _TABLES:
        found = [one for entry in entries for one in table.find(entry) if long or not one.long]
        if found:
            made.append(laid_out(table, found, table.note, PRIOR.groups[0], SHORT))
    return made
