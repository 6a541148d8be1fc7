"""The memorisation probe: published tasks beside fresh ones, vintages before and after a cutoff.

What was printed can be learnt by heart. A model that knows published slices of a survey better than
comparable ones that nobody has printed, or vintages from before its training ended better than
later ones of the same question, has read the numbers rather than understood the world. That is
what is compared; `benchmarks.observation.probe` has the statistics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import OBSERVATION, in_way
from lm_eval_epidemia.benchmarks.observation import probe
from lm_eval_epidemia.benchmarks.observation.fresh.slices import short
from lm_eval_epidemia.benchmarks.observation.probe import (
    CONFIDENCE,
    FACTOR,
    RATIO,
    Alike,
    Contrast,
    contrast,
)
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.section import Section, number
from lm_eval_epidemia.report.output import row
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, Score, leaf
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.surveys import fresh
from lm_eval_epidemia.surveys.catalogue import all_tasks, record

#: The published lists.
PUBLISHED = ("low", "high")

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
        Published tasks that could be matched, or tasks with a vintage on either side.
    apart : int
        Published tasks left out, since too little of their scale is beyond sampling error: no fresh
        task is so.
    elsewhere : int
        Pairs whose numbers of conditions differ.
    found : Contrast
        Published less fresh, or before less after.
    cutoff : str
        Empty of fresh slices.
    """

    entry: Entry
    way: str
    survey: str
    asked: int
    apart: int
    elsewhere: int
    found: Contrast
    cutoff: str = ""

    @property
    def verdict(self) -> str:
        first, second = ("before", "after") if self.cutoff else ("published", "fresh")
        return {1: f"{first} known better", -1: f"{second} known better", 0: "not shown"}[
            self.found.side
        ]


class Probe(NamedTuple):
    """Everything that is said of memorisation.

    Attributes
    ----------
    slices : list of Probed
        By run, way and survey, then over all surveys where there are several.
    vintages : list of Probed
    notes : list of str
    """

    slices: list[Probed]
    vintages: list[Probed]
    notes: list[str]


def _known(score: Score) -> tuple[float, Draws | None]:
    """Return the score against the population, with its draws."""
    return score.metrics.get(POPULATION, math.nan), score.population


def _is_fresh(asked: Asked) -> bool:
    return leaf(asked).entry.group == fresh.GROUP


def fresh_slices(report: Report) -> list[Probed]:
    """Compare every run's published tasks with the fresh ones that are like them.

    Tasks are of the truths installed here, asked whole, and have a score.
    """
    found = []
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
            drawn = [asked for asked in tasks if asked.way == way and _is_fresh(asked)]
            surveys = sorted({where[asked] for asked in drawn})
            of_way = [
                asked
                for asked in tasks
                if asked.way == way and not _is_fresh(asked) and where[asked] in surveys
            ]
            parts = [[one] for one in surveys]
            parts += [surveys] if len(surveys) > 1 else []
            for part in parts:
                published = [asked for asked in of_way if where[asked] in part]
                if published:
                    name = part[0] if len(part) == 1 else ALL
                    others = [asked for asked in drawn if where[asked] in part]
                    found.append(_compared(report, entry, way, name, published, others))
    return found


def _where(asked: Asked) -> str:
    """Name the survey of a task, and the vintage of its truth."""
    truth = store.load(asked.task)
    return f"{truth.survey} {truth.vintage}"


def _compared(
    report: Report,
    entry: Entry,
    way: str,
    survey: str,
    published: Sequence[Asked],
    drawn: Sequence[Asked],
) -> Probed:
    scales = {asked: report.anchors[asked.task] for asked in (*published, *drawn)}
    told = [one for one in published if not short(scales[one].zero, scales[one].perfect)]
    like = {
        asked: Alike(
            (_where(asked), all_tasks()[asked.task].outcome),
            len(all_tasks()[asked.task].given),
            scales[asked].mean,
            scales[asked].zero,
        )
        for asked in (*told, *drawn)
    }
    places = probe.nearest([like[one] for one in told], [like[one] for one in drawn])
    pairs = [(one, place) for one, place in zip(told, places, strict=True) if place is not None]
    elsewhere = sum(like[one].conditions != like[drawn[place]].conditions for one, place in pairs)
    firsts = [_known(entry.scores[one]) for one, _ in pairs]
    seconds = [_known(entry.scores[one]) for one in drawn]
    made = contrast(
        [value for value, _ in firsts],
        [value for value, _ in seconds],
        [place for _, place in pairs],
        [draws for _, draws in firsts],
        [draws for _, draws in seconds],
    )
    return Probed(entry, way, survey, len(told), len(published) - len(told), elsewhere, made)


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
        """Tell whether what was collected in a year can have been read: it had ended by then."""
        return (year, 12) <= (self.year, self.month)


def cutoffs_of(given: Iterable[tuple[str, str]], report: Report) -> list[Cutoff]:
    """Read cutoffs: models by name, with year and month.

    Raises
    ------
    EpidemiaError
        If one is no date, or of a model that is not among the results.
    """
    models, found = {entry.model for entry in report.runs}, []
    for model, text in given:
        date = re.fullmatch(r"(\d{4})-(\d{2})", text)
        if date is None or not 1 <= int(date[2]) <= 12:
            raise EpidemiaError(f"--cutoff {model}={text}: expected a year and month, 2024-06")
        if model not in models:
            raise EpidemiaError(f"--cutoff: no model {model!r} ({nearest(model, models)})")
        found.append(Cutoff(model, int(date[1]), int(date[2])))
    if twice := [one.model for one in found if sum(o.model == one.model for o in found) > 1]:
        raise EpidemiaError(f"--cutoff: {twice[0]} has two dates")
    return found


class _Dated(NamedTuple):
    year: int
    vintage: str
    task: str
    score: Score


def vintages(report: Report, cutoffs: Sequence[Cutoff]) -> tuple[list[Probed], list[str]]:
    """Compare what a model scores on vintages from before a cutoff with later ones.

    Matched on task: survey, outcome, conditions, and the way of asking. Of several vintages on one
    side that nearest to the cutoff counts.

    Returns
    -------
    found : list of Probed
    notes : list of str
        Models without tasks on both sides.
    """
    found, notes = [], []
    for cutoff in cutoffs:
        here: dict[Any, dict[Any, list[_Dated]]] = {}
        first: dict[Any, Entry] = {}
        for entry in report.runs:
            if entry.model == cutoff.model and not entry.protocol.incomplete:
                plain = replace(entry.protocol, truth="", vintage="")
                how = (entry.chat, entry.settings, entry.details, plain)
                first.setdefault(how, entry)
                for asked, dated in _dated(entry):
                    task = all_tasks()[asked.task]
                    key = (asked.way, task.survey, task.outcome, frozenset(task.given))
                    by_task = here.setdefault(how, {})
                    by_task.setdefault(key, []).append(dated)
        one = [
            made for how, by_task in here.items() for made in _around(first[how], cutoff, by_task)
        ]
        if not one:
            notes.append(
                f"{cutoff.model}: no task was asked of vintages on both sides of {cutoff.said}; "
                "a set of fresh tasks of an earlier vintage, and one of a later, have some in "
                "common ('epidemia tasks fresh SURVEY --vintage V')"
            )
        found += one
    return found, notes


def _dated(entry: Entry) -> list[tuple[Asked, _Dated]]:
    """Return an entry's scores with the year of their vintage."""
    found = []
    for asked, score in sorted(entry.scores.items()):
        if leaf(asked).benchmark is not OBSERVATION or math.isnan(_known(score)[0]):
            continue
        vintage = entry.protocol.vintage
        if not entry.protocol.truth:
            try:
                vintage = store.load(asked.task).vintage
            except EpidemiaError:
                continue  # its truth is not here, and the file does not say which it was
        survey = record(all_tasks()[asked.task].survey)
        if vintage in survey.vintages:
            year = survey.vintages[vintage].year
            found.append((asked, _Dated(year, vintage, asked.task, score)))
    return found


def _around(entry: Entry, cutoff: Cutoff, by_task: dict[Any, list[_Dated]]) -> list[Probed]:
    """Compare by way and survey, and over all surveys where there are several."""
    pairs: dict[tuple[str, str], list[tuple[_Dated, _Dated]]] = {}
    for (way, survey, *_), dated in sorted(by_task.items(), key=lambda one: str(one[0])):
        before = [one for one in dated if cutoff.is_before(one.year)]
        after = [one for one in dated if not cutoff.is_before(one.year)]
        if before and after:
            last = max(before, key=lambda one: (one.year, one.vintage, one.task))
            next_ = min(after, key=lambda one: (one.year, one.vintage, one.task))
            pairs.setdefault((way, survey), []).append((last, next_))
    found = []
    for way in dict.fromkeys(way for way, _ in pairs):
        parts = {survey: both for (of, survey), both in pairs.items() if of == way}
        if len(parts) > 1:
            parts[ALL] = [pair for both in parts.values() for pair in both]
        for survey, both in parts.items():
            made = contrast(
                [_known(a.score)[0] for a, _ in both],
                [_known(b.score)[0] for _, b in both],
                list(range(len(both))),
                [_known(a.score)[1] for a, _ in both],
                [_known(b.score)[1] for _, b in both],
            )
            named = [
                "/".join(sorted({one.vintage for one in side})) for side in zip(*both, strict=True)
            ]
            name = survey if survey == ALL else f"{survey} {named[0]}, {named[1]}"
            found.append(Probed(entry, way, name, len(both), 0, 0, made, cutoff.said))
    return found


def made(report: Report, cutoffs: Sequence[Cutoff] = ()) -> Probe:
    """Make all comparisons that the results allow, and say what they do not."""
    slices = fresh_slices(report)
    found, notes = vintages(report, cutoffs)
    asked = {one for entry in report.runs for one in entry.scores if _is_fresh(one)}
    if not asked:
        notes.append(
            "no fresh task was asked, so there is nothing to hold published ones against: "
            "'epidemia tasks fresh SURVEY --raw FILE', then lm_eval --tasks epidemia_fresh,..."
        )
    elif not slices:
        here = sorted({_where(one) for one in asked if one.task in report.anchors})
        notes.append(
            "no published task (epidemia_low, epidemia_high) of the surveys and vintages of the "
            f"fresh ones was asked beside them ({few(here)})"
        )
    silent = [one for one in (*slices, *found) if math.isnan(one.found.survey) and one.found.pairs]
    if silent:
        notes.append(
            "errors of the probe are not known, as a file has no draws of some tasks, for "
            f"{few(sorted({one.entry.name for one in silent}))}: run these again"
        )
    return Probe(slices, found, notes)


#: How to read the tables.
SLICES_NOTE = (
    "Score against the population, 0 to 100, of published tasks (epidemia_low, epidemia_high) and "
    "of fresh ones, drawn at random, which nobody has printed. Every published task is matched "
    "with the fresh one of the same survey, vintage and outcome whose scale is most like its own "
    f"(D_mean / D_zero at most {RATIO:g} away, D_zero at most {FACTOR:g} times as long), with as "
    "many conditions where there is one; a fresh one may serve several. 'left out': published "
    "tasks of whose scale half or more is sampling error, as of no fresh one. ± and the interval "
    "are of other tasks of this kind too; 'sampling' is the part that the surveys' samples and the "
    "asking have in the error. 'published known better': these numbers are known better than "
    "comparable ones that were not printed."
)
VINTAGES_NOTE = (
    "Score against the population of the same tasks in two vintages: one whose year had ended at "
    "the cutoff, and one whose year had not (results come out later still). 'before known better': "
    "the vintage that can have been read is known better."
)


def _interval(found: Contrast) -> str:
    if math.isnan(found.low):
        return ""
    return f"{found.low:.1f} to {found.high:.1f}"


def _difference(found: Contrast) -> str:
    if math.isnan(found.difference):
        return ""
    error = "" if math.isnan(found.error) else f" ± {found.error:.1f}"
    return f"{found.difference + 0:+.1f}{error}"


def _numbers(one: Probed) -> list[str]:
    found = one.found
    return [
        number(found.first, 1),
        number(found.second, 1),
        _difference(found),
        _interval(found),
        number(found.survey, 1),
        one.verdict,
    ]


def sections(found: Probe) -> list[Section]:
    """Return the tables."""
    tables: list[Section] = []
    header: tuple[str, ...]
    if found.slices:
        rows = [
            [
                one.entry.name,
                one.way,
                one.survey,
                str(one.found.pairs),
                str(one.asked - one.found.pairs),
                str(one.apart),
                str(one.elsewhere),
                str(one.found.used),
                *_numbers(one),
            ]
            for one in found.slices
        ]
        header = (
            "model",
            "asked in",
            "survey",
            "pairs",
            "unmatched",
            "left out",
            "of them, other number of conditions",
            "fresh ones used",
            "published",
            "fresh",
            "difference",
            f"{CONFIDENCE:.0%} interval",
            "sampling",
            "verdict",
        )
        tables.append(
            Section(
                "Memorisation probe: published against fresh slices", header, rows, SLICES_NOTE, 3
            )
        )
    if found.vintages:
        rows = [
            [one.entry.name, one.way, one.survey, one.cutoff, str(one.found.pairs), *_numbers(one)]
            for one in found.vintages
        ]
        header = (
            "model",
            "asked in",
            "survey",
            "cutoff",
            "tasks",
            "before",
            "after",
            "difference",
            f"{CONFIDENCE:.0%} interval",
            "sampling",
            "verdict",
        )
        tables.append(
            Section(
                "Memorisation probe: vintages before and after a cutoff",
                header,
                rows,
                VINTAGES_NOTE,
                4,
            )
        )
    return tables


def rows(found: Probe) -> list[dict[str, Any]]:
    """Return the same as rows of `output.as_rows`.

    Returns
    -------
    list of dict
        Of ``kind`` ``probe`` and ``probe vintages``; ``group`` is that of the fresh tasks in the
        way of asking, ``name`` the survey, ``metric`` what the value is of ("score_population,
        published", "..., difference", "pairs"), ``part`` the cutoff.
    """
    made = []
    for kind, listed, sides in (
        ("probe", found.slices, ("published", "fresh")),
        ("probe vintages", found.vintages, ("before", "after")),
    ):
        for one in listed:
            group, of = in_way(fresh.GROUP, one.way), one.found
            numbers: list[tuple[str, float, dict[str, Any]]] = [
                (f"{POPULATION}, {sides[0]}", of.first, {}),
                (f"{POPULATION}, {sides[1]}", of.second, {}),
                (
                    f"{POPULATION}, difference",
                    of.difference,
                    {"stderr": of.error, "low": of.low, "high": of.high, "verdict": one.verdict},
                ),
                (f"{POPULATION}, error from the survey", of.survey, {}),
                ("unmatched", float(one.asked - of.pairs), {}),
                ("left out", float(one.apart), {}),
                ("other number of conditions", float(one.elsewhere), {}),
            ]
            made += [
                row(
                    kind,
                    one.entry,
                    group,
                    one.survey,
                    value,
                    metric=metric,
                    tasks=of.pairs,
                    part=one.cutoff,
                    **more,
                )
                for metric, value, more in numbers
                if not math.isnan(value)
            ]
    return made
