"""The memorisation probe: published tasks beside fresh ones, vintages before and after a cutoff.

A model can memorise printed numbers. If it knows published slices of a survey better than
comparable unprinted ones, or vintages from before the end of its training better than later ones,
it has read the numbers rather than understood the world. This module compares both;
`benchmarks.observation.probe` has the statistics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import OBSERVATION, in_way
from lm_eval_epidemia.benchmarks.observation import probe
from lm_eval_epidemia.benchmarks.observation.fresh.slices import short
from lm_eval_epidemia.benchmarks.observation.probe import (
    CONFIDENCE,
    FACTOR,
    LEAST,
    RATIO,
    Alike,
    PairDifference,
    contrast,
)
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Number, Row, known
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, TaskScore, leaf
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.surveys import fresh
from lm_eval_epidemia.surveys.catalogue import all_tasks, record

#: The published lists.
PUBLISHED = ("low", "high")

#: What is compared with what.
SLICES, VINTAGES = ("published", "fresh"), ("before", "after")

#: Where tasks of all surveys are taken together.
ALL = "all"


class Probed(NamedTuple):
    """One comparison of the probe.

    Attributes
    ----------
    entry : Entry
    way : str
    survey : str
        With its vintage: "gss 2022"; or `ALL`.
    asked : int
        Matched published tasks, or tasks with a vintage on both sides.
    apart : int
        Published tasks left out because too little of their scale is beyond sampling error, unlike
        in any fresh task.
    elsewhere : int
        Pairs with different numbers of conditions.
    contrast : PairDifference
        Published minus fresh, or before minus after; only counts if there are fewer than `LEAST`
        different fresh tasks.
    cutoff : str
        Empty for fresh slices.
    """

    entry: Entry
    way: str
    survey: str
    asked: int
    apart: int
    elsewhere: int
    contrast: PairDifference
    cutoff: str = ""

    @property
    def sides(self) -> tuple[str, str]:
        return VINTAGES if self.cutoff else SLICES

    @property
    def refused(self) -> bool:
        return not self.cutoff and self.contrast.used < LEAST

    @property
    def verdict(self) -> str:
        if self.refused:
            return "too few fresh tasks"
        first, second = self.sides
        verdicts = {1: f"{first} known better", -1: f"{second} known better", 0: "not shown"}
        return verdicts[self.contrast.side]


class Probe(NamedTuple):
    """All comparisons on memorisation.

    Attributes
    ----------
    slices : list of Probed
        By run, way and survey, then over all surveys if there are several.
    vintages : list of Probed
    notes : list of str
    """

    slices: list[Probed]
    vintages: list[Probed]
    notes: list[str]


def _known(score: TaskScore) -> tuple[float, Draws | None]:
    """Return the score against the population, with its draws."""
    return score.metrics.get(POPULATION, math.nan), score.population


def _is_fresh(asked: Asked) -> bool:
    return leaf(asked).entry.group == fresh.GROUP


def fresh_slices(report: Report) -> list[Probed]:
    """Compare every run's published tasks with similar fresh ones.

    Only tasks with the truths installed here, asked completely, and with a score.
    """
    probed = []
    for entry in report.runs:
        if entry.protocol.truth or entry.protocol.incomplete:
            continue
        tasks = [
            asked
            for asked, score in sorted(entry.scores.items())
            if leaf(asked).benchmark is OBSERVATION
            and asked.task in report.anchors
            and (_is_fresh(asked) or all_tasks()[asked.task].kind in PUBLISHED)
            and not math.isnan(_known(score)[0])
        ]
        where = {asked: _where(asked) for asked in tasks}
        for way in dict.fromkeys(asked.way for asked in tasks):
            of_way = [asked for asked in tasks if asked.way == way]
            surveys = sorted({where[asked] for asked in of_way if _is_fresh(asked)})
            parts = {survey: [survey] for survey in surveys}
            if len(surveys) > 1:
                parts[ALL] = surveys
            for name, part in parts.items():
                here = [asked for asked in of_way if where[asked] in part]
                if not all(map(_is_fresh, here)):
                    probed.append(_matched(report, entry, name, here))
    return probed


def _where(asked: Asked) -> str:
    """Return the survey of a task with the vintage of its truth."""
    truth = store.load(asked.task)
    return f"{truth.survey} {truth.vintage}"


def _contrast(
    firsts: Sequence[TaskScore], seconds: Sequence[TaskScore], places: Sequence[int]
) -> PairDifference:
    """Compare scores with the scores at given places of others."""
    (first, of_first), (second, of_second) = (
        zip(*map(_known, side), strict=True) if side else ((), ()) for side in (firsts, seconds)
    )
    return contrast(first, second, places, of_first, of_second)


def _matched(report: Report, entry: Entry, survey: str, tasks: Sequence[Asked]) -> Probed:
    """Compare published tasks with the fresh ones among the same tasks."""
    scales = {asked: report.anchors[asked.task] for asked in tasks}
    drawn = [asked for asked in tasks if _is_fresh(asked)]
    published = [asked for asked in tasks if not _is_fresh(asked)]
    told = [asked for asked in published if not short(scales[asked].zero, scales[asked].perfect)]
    like = {}
    for asked in (*told, *drawn):
        task, scale = all_tasks()[asked.task], scales[asked]
        stratum = _where(asked), task.outcome
        like[asked] = Alike(stratum, len(task.given), scale.mean, scale.zero)
    places = probe.nearest([like[asked] for asked in told], [like[asked] for asked in drawn])
    pairs = [(asked, place) for asked, place in zip(told, places, strict=True) if place is not None]
    elsewhere = sum(like[asked].conditions != like[drawn[at]].conditions for asked, at in pairs)
    compared = _contrast(
        [entry.scores[asked] for asked, _ in pairs],
        [entry.scores[asked] for asked in drawn],
        [place for _, place in pairs],
    )
    if compared.used < LEAST:
        counts = compared.pairs, compared.used
        compared = PairDifference(math.nan, math.nan, *counts, *(math.nan,) * 4)
    apart = len(published) - len(told)
    return Probed(entry, tasks[0].way, survey, len(told), apart, elsewhere, compared)


class Cutoff(NamedTuple):
    """When the training of a model ended.

    Attributes
    ----------
    model : str
    year, month : int
    """

    model: str
    year: int
    month: int

    @property
    def said(self) -> str:
        return f"{self.year}-{self.month:02d}"

    def is_before(self, year: int) -> bool:
        """Return whether data of a year can have been read: the year had ended by then."""
        return (year, 12) <= (self.year, self.month)


def cutoffs_of(given: Iterable[tuple[str, str]], report: Report) -> list[Cutoff]:
    """Read cutoffs: models by name, with year and month.

    Raises
    ------
    EpidemiaError
        If one is not a date, or its model is not among the results.
    """
    models, cutoffs = {entry.model for entry in report.runs}, dict[str, Cutoff]()
    twice = []
    for model, text in given:
        date = re.fullmatch(r"(\d{4})-(\d{2})", text)
        if date is None or not 1 <= int(date[2]) <= 12:
            raise EpidemiaError(f"--cutoff {model}={text}: expected a year and month, 2024-06")
        if model not in models:
            raise EpidemiaError(f"--cutoff: no model {model!r} ({nearest(model, models)})")
        twice += [model] if model in cutoffs else []
        cutoffs[model] = Cutoff(model, int(date[1]), int(date[2]))
    if twice:
        raise EpidemiaError(f"--cutoff: {twice[0]} has two dates")
    return list(cutoffs.values())


class _Dated(NamedTuple):
    """A score with the vintage of its truth, sorted by time of collection."""

    year: int
    vintage: str
    task: str
    score: TaskScore


def vintages(report: Report, cutoffs: Sequence[Cutoff]) -> tuple[list[Probed], list[str]]:
    """Compare a model's scores on vintages from before and after a cutoff.

    Tasks match on survey, outcome, conditions and way of asking. Among several vintages on one
    side, the one nearest to the cutoff counts.

    Returns
    -------
    probed : list of Probed
    notes : list of str
        Models without tasks on both sides.
    """
    probed: list[Probed] = []
    notes = []
    for cutoff in cutoffs:
        runs: dict[Any, list[Entry]] = {}
        for entry in report.runs:
            if entry.model == cutoff.model and not entry.protocol.incomplete:
                plain = replace(entry.protocol, truth="", vintage="")
                how = entry.chat, entry.settings, entry.details, plain
                runs.setdefault(how, []).append(entry)
        around = [probe for alike in runs.values() for probe in _around(alike, cutoff)]
        if not around:
            notes.append(
                f"{cutoff.model}: no task was asked about vintages on both sides of "
                f"{cutoff.said}. Ask sets of fresh tasks from an earlier and a later vintage: "
                "they share some tasks ('epidemia tasks fresh SURVEY --vintage V')"
            )
        probed += around
    return probed, notes


def _dated(entry: Entry) -> Iterator[tuple[str, _Dated]]:
    """Yield an entry's scores with the year of their vintage, and the way of asking."""
    for asked, score in sorted(entry.scores.items()):
        if leaf(asked).benchmark is not OBSERVATION or math.isnan(_known(score)[0]):
            continue
        vintage = entry.protocol.vintage
        if not entry.protocol.truth:
            try:
                vintage = store.load(asked.task).vintage
            except EpidemiaError:
                continue  # its truth is not here, and the file does not say which it was
        declared = record(all_tasks()[asked.task].survey).vintages
        if vintage in declared:
            yield asked.way, _Dated(declared[vintage].year, vintage, asked.task, score)


def _around(alike: Sequence[Entry], cutoff: Cutoff) -> Iterator[Probed]:
    """Compare by way and survey, and over all surveys if there are several.

    Parameters
    ----------
    alike : sequence of Entry
        Runs that differ only in the truth and its vintage.
    cutoff : Cutoff
    """
    by_task: dict[Any, list[_Dated]] = {}
    for entry in alike:
        for way, dated in _dated(entry):
            task = all_tasks()[dated.task]
            key = way, task.survey, task.outcome, frozenset(task.given)
            by_task.setdefault(key, []).append(dated)
    pairs: dict[str, dict[str, list[tuple[_Dated, _Dated]]]] = {}
    for (way, survey, *_), several in sorted(by_task.items(), key=lambda item: str(item[0])):
        before = [dated for dated in several if cutoff.is_before(dated.year)]
        after = [dated for dated in several if not cutoff.is_before(dated.year)]
        if before and after:
            nearest_two = max(before, key=lambda d: d[:3]), min(after, key=lambda d: d[:3])
            pairs.setdefault(way, {}).setdefault(survey, []).append(nearest_two)
    for way, parts in pairs.items():
        if len(parts) > 1:
            parts[ALL] = [pair for several in parts.values() for pair in several]
        for survey, both in parts.items():
            first, second = zip(*both, strict=True)
            compared = _contrast(
                [dated.score for dated in first],
                [dated.score for dated in second],
                range(len(both)),
            )
            named = (
                "/".join(sorted({dated.vintage for dated in side})) for side in (first, second)
            )
            name = survey if survey == ALL else f"{survey} {', '.join(named)}"
            yield Probed(alike[0], way, name, len(both), 0, 0, compared, cutoff.said)


def probed(report: Report, cutoffs: Sequence[Cutoff] = ()) -> Probe:
    """Make all comparisons that the results allow, and note those that they do not."""
    slices = fresh_slices(report)
    by_vintage, notes = vintages(report, cutoffs)
    asked = {task for entry in report.runs for task in entry.scores if _is_fresh(task)}
    if not asked:
        notes.append(
            "no fresh task was asked, so published tasks have no comparison: run 'epidemia tasks "
            "fresh SURVEY --raw FILE', then lm_eval --tasks epidemia_fresh,..."
        )
    elif not slices:
        here = sorted({_where(task) for task in asked if task.task in report.anchors})
        notes.append(
            "no published task (epidemia_low, epidemia_high) was asked from the surveys and "
            f"vintages of the fresh tasks ({few(here)})"
        )
    silent = {
        probe.entry.name
        for probe in (*slices, *by_vintage)
        if math.isnan(probe.contrast.survey) and probe.contrast.pairs and not probe.refused
    }
    if silent:
        notes.append(
            "errors of the probe are not known, because a file has no draws of some tasks, for "
            f"{few(sorted(silent))}: run these again"
        )
    return Probe(slices, by_vintage, [*notes, *_refusals(slices)])


def _refusals(slices: Iterable[Probed]) -> list[str]:
    """Say what was not compared, how many tasks are missing, and what to run."""
    counts: dict[tuple[str, int, int], list[str]] = {}
    for each in slices:
        if each.refused:
            key = each.survey, each.contrast.pairs, each.contrast.used
            counts.setdefault(key, []).append(f"{each.entry.name} ({each.way})")
    return [
        (
            f"probe, {survey}: no comparison: the {pairs} published tasks that have a match share "
            f"{used} different fresh ones, and {LEAST} are needed. Ask more fresh tasks about "
            "published outcomes: 'epidemia tasks fresh SURVEY --raw FILE --n 80 --outcomes A,B'. "
            "Those of other surveys help too, because tasks of all surveys are compared together "
            f"({few(runs)})"
        )
        for (survey, pairs, used), runs in counts.items()
    ]


#: How to read the tables.
SLICES_NOTE = (
    "Scores against the population, 0 to 100: published tasks (epidemia_low, epidemia_high) and "
    "fresh ones, which are random and have never been printed. Each published task is matched "
    "with the fresh task of the same survey, vintage and outcome whose scale is most similar "
    f"(D_mean / D_zero differs by at most {RATIO:g}, D_zero by a factor of at most {FACTOR:g}), "
    "with the same number of conditions if possible. A fresh task may serve several times ('fresh "
    f"ones used' counts the different ones; below {LEAST} there is no comparison). 'left out': "
    "published tasks with half of their scale or more due to sampling error; no fresh task is "
    "like that. ± and the interval also cover other tasks of this kind; 'sampling' is the part of "
    "the error due to the surveys' samples and the way of asking. 'published known better': the "
    "model knows the printed numbers better than comparable unprinted ones."
)
VINTAGES_NOTE = (
    "Scores against the population for the same tasks in two vintages: one whose year had ended "
    "by the cutoff, and one whose year had not (results come out later still). 'before known "
    "better': the model knows the vintage better that it may have read."
)


def _row(probed: Probed) -> Row:
    contrast = probed.contrast
    difference = Number(
        contrast.difference,
        contrast.error,
        low=contrast.low,
        high=contrast.high,
        verdict=probed.verdict,
    )
    first, second = probed.sides
    cells: dict[str, Cell] = {
        "asked in": probed.way,
        "survey": probed.survey,
        "cutoff": probed.cutoff,
        "pairs": contrast.pairs,
        "used": contrast.used,
        first: known(contrast.first),
        second: known(contrast.second),
        "difference": known(difference),
        "interval": difference,
        "sampling": known(contrast.survey),
        "verdict": probed.verdict,
        "unmatched": probed.asked - contrast.pairs,
        "left out": probed.apart,
        "other number of conditions": probed.elsewhere,
    }
    facts = {"tasks": contrast.pairs, "part": probed.cutoff}
    return Row(cells, probed.entry, in_way(fresh.GROUP, probed.way), probed.survey, facts)


def _columns(first: str, second: str, pairs: str) -> tuple[Column, ...]:
    return (
        *map(Column, ("model", "asked in", "survey", "cutoff", "verdict")),
        Column("pairs", title=pairs),
        Column("used", "fresh ones used", title="fresh ones used"),
        Column("interval", digits=1, form="range", title=f"{CONFIDENCE:.0%} interval"),
        Column(first, f"{POPULATION}, {first}", 1),
        Column(second, f"{POPULATION}, {second}", 1),
        Column("difference", f"{POPULATION}, difference", 1, signed=True),
        Column("sampling", f"{POPULATION}, error from the survey", 1),
        Column("unmatched", "unmatched"),
        Column("left out", "left out"),
        Column(
            "other number of conditions",
            "other number of conditions",
            title="of them, other number of conditions",
        ),
    )


_COUNTS = ("pairs", "unmatched", "left out", "other number of conditions", "used")
_NUMBERS = ("difference", "interval", "sampling", "verdict")


def findings(probed: Probe) -> list[Finding]:
    """Return the tables.

    In tidy rows ``group`` is the group of the fresh tasks in the way of asking, ``name`` the
    survey, ``part`` the cutoff.
    """
    slices = Finding(
        "probe",
        "Memorisation probe: published against fresh tasks",
        _columns(*SLICES, "pairs"),
        [_row(row) for row in probed.slices],
        SLICES_NOTE,
        3,
        ("model", "asked in", "survey", *_COUNTS, *SLICES, *_NUMBERS),
    )
    vintages = Finding(
        "probe vintages",
        "Memorisation probe: vintages before and after a cutoff",
        _columns(*VINTAGES, "tasks"),
        [_row(row) for row in probed.vintages],
        VINTAGES_NOTE,
        4,
        ("model", "asked in", "survey", "cutoff", "pairs", *VINTAGES, *_NUMBERS),
    )
    return [finding for finding in (slices, vintages) if finding.rows]
