"""The contents of a report: its runs in order, their ranks, pairs and comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import (
    OBSERVATION,
    Benchmark,
    groups,
    in_way,
    made_of,
    unions,
    within,
)
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings.comparison import AND, Comparison, compare_entries
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.old.findings.means import mean_over, shared_tasks, tasks_in, worth
from lm_eval_epidemia.old.findings.pool import Pool, noise_of
from lm_eval_epidemia.old.findings.published import published
from lm_eval_epidemia.old.findings.ranks import Standing, standings
from lm_eval_epidemia.old.findings.reference import part_asked
from lm_eval_epidemia.old.findings.tuned import TunedRun, tuned_runs
from lm_eval_epidemia.old.findings.versions import (
    Pairs,
    compare_nothing,
    pairs_of_names,
    pairs_of_versions,
)
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.protocol import Protocol
from lm_eval_epidemia.results.results import Results
from lm_eval_epidemia.score.score import Anchors

#: What the mark behind a mean is that rests on scores which were changed.
CHANGED = "‡: scores that do not match their distances: see the notes."

#: Points by which a score may miss that of its distance, by rounding.
TOLERANCE = 1e-6


def columns(entries: Iterable[Entry]) -> list[str]:
    """Return the groups with scores that some run was asked, in their usual order.

    They include unions if some run was asked all of their tasks, each before its parts.
    """
    entries = list(entries)
    asked = {leaf(task).group for entry in entries for task in entry.scores}
    asked |= {name for name in unions() if any(tasks_in(entry, name) for entry in entries)}
    listed = list(groups())
    return sorted(
        (name for name in asked if groups()[name].scored),
        key=lambda name: (min(map(listed.index, within(name))), name not in unions()),
    )


def compared(columns: Iterable[str]) -> list[str]:
    """Return the groups in which models are compared, without those of predictions."""
    return [column for column in columns if not groups()[column].predicted]


def by_benchmark(columns: Iterable[str]) -> dict[Benchmark, list[str]]:
    """Split groups by benchmark, since benchmarks have different metrics."""
    parts: dict[Benchmark, list[str]] = {}
    for column in columns:
        parts.setdefault(groups()[column], []).append(column)
    return parts


#: The two ways in which the closed subset stands in one table: models that only write beside those
#: whose log-probabilities are known.
CLOSED_WAYS = ("closed", "likelihood")


def _in_closed_subset(asked: Asked) -> bool:
    return asked.way in CLOSED_WAYS and leaf(asked).entry.facets.get("subset") == "closed"


class Report(NamedTuple):
    """Runs, reference rows, and their ranks and comparisons.

    Attributes
    ----------
    entries : list of Entry
        Runs, those of the default protocol first, then published scores.
    columns : list of str
        Groups that a run was asked.
    standings : dict of str to dict of str to Standing
        By group and entry.
    anchors : dict of str to Anchors
        Anchors of every available task that was asked.
    another : dict of str to float
        Their D_perfect over other surveys of the population, if known.
    noise : dict of str to float
        Their mean distance from other samples of the survey.
    pairs : list of (Entry, Entry)
        Base models and their instruct versions.
    notes : list of str
    closed : list of Asked
        Tasks of the closed subset that a run was asked in one of `CLOSED_WAYS`, listed in both
        ways.
    closed_published : list of Entry
        Published scores of these.
    tuned : tuple of TunedRun
        Runs of tuned models, each with its base's run, if there is one.
    unread : tuple of (Path, str)
        Files that could not be read, each with the reason.
    changed : dict of str to list of Asked
        By entry, tasks whose scores do not match their distances.
    """

    entries: list[Entry]
    columns: list[str]
    standings: dict[str, dict[str, Standing]]
    anchors: dict[str, Anchors]
    another: dict[str, float]
    noise: dict[str, float]
    pairs: list[tuple[Entry, Entry]]
    notes: list[str]
    closed: list[Asked]
    closed_published: list[Entry]
    tuned: tuple[TunedRun, ...] = ()
    unread: tuple[tuple[Path, str], ...] = ()
    changed: Mapping[str, Sequence[Asked]] = {}

    @property
    def runs(self) -> list[Entry]:
        """Entries that are runs."""
        return [entry for entry in self.entries if not entry.reference]

    @property
    def barely(self) -> list[str]:
        """Tasks that were asked and are barely informative."""
        return [task for task, anchors in self.anchors.items() if anchors.barely]

    def is_changed(self, run: Entry, column: str) -> bool:
        """Whether a run has scores in a group that do not match their distances."""
        wrong = {asked for part in run.parts or (run,) for asked in self.changed.get(part.name, ())}
        return not wrong.isdisjoint(tasks_in(run, column))

    def alike(self) -> list[list[Entry]]:
        """Comparable runs: one list per protocol."""
        return _alike(self.runs)

    def pools(self) -> dict[Protocol, Pool]:
        """Runs used to judge log `l1`, by protocol."""
        return {runs[0].protocol: Pool(runs, self.noise) for runs in self.alike()}


def _alike(entries: Sequence[Entry]) -> list[list[Entry]]:
    protocols = list(dict.fromkeys(entry.protocol for entry in entries))
    return [[e for e in entries if e.protocol == protocol] for protocol in protocols]


def informative(results: Results) -> Results:
    """Leave out barely informative tasks, and count them in a note.

    Raises
    ------
    EpidemiaError
        If no task is left.
    """
    tasks = {asked.task for entry in results.entries for asked in entry.scores}
    here = tasks & set(store.available())
    barely = sorted(task for task in here if Anchors.of(store.load(task)).barely)
    entries = []
    for entry in results.entries:
        scores = {a: score for a, score in entry.scores.items() if a.task not in barely}
        # Other tasks that were run by themselves have a row without scores of ours.
        if scores or not entry.scores:
            entries.append(replace(entry, scores=scores))
    listed = f": {few(barely)}" if barely else ""
    left_out = f"{plural(len(barely), 'barely informative task')}{listed}"
    if not any(entry.scores for entry in entries):
        raise EpidemiaError(f"no task is left: {left_out}; to see them, run without --informative")
    return results._replace(entries=entries, notes=[*results.notes, f"left out: {left_out}"])


@held()
def make_report(
    results: Results, with_published: bool = False, pairs: Pairs | None = None
) -> Report:
    """Sort entries and compare them.

    Parameters
    ----------
    results : Results
    with_published : bool
        Add published scores of the tasks that were asked, as reference rows.
    pairs : mapping of str to str or sequence of (str, str), optional
        Instruct versions, and tuned models, by base model; others are found by their names and
        cards. A pair is of a tuned model where the second has an adapter or a card.

    Raises
    ------
    EpidemiaError
        If a pair names a model that is not there, or one model twice.
    """
    runs = list(results.entries)
    given = pairs_of_names(pairs, runs)
    listed = columns(runs)
    asked = {task for entry in runs for task in entry.scores}
    reference = published(asked) if with_published else []

    def order(entry: Entry) -> tuple[Any, ...]:
        # Whoever was asked most comes first, then by score.
        return (entry.protocol, -len(entry.scores), [worth(entry, column) for column in listed])

    ordered = [*sorted(runs, key=order), *sorted(reference, key=order)]
    asked_ours = [entry for entry in runs if entry.scores]
    tuned, notes = tuned_runs(asked_ours, results.folders, given)
    apart = {run.entry.name for run in tuned}
    versions = [
        (base, other)
        for alike in _alike(asked_ours)
        for base, other in pairs_of_versions(alike, given)
        if other.name not in apart
    ]
    with_base = [(run.base, run.entry) for run in tuned if run.base]
    notes += compare_nothing(given, [*versions, *with_base], listed)
    tasks = {task.task for task in asked}
    truths = {task: store.load(task) for task in store.available() if task in tasks}
    anchors = {task: Anchors.of(truth) for task, truth in truths.items()}
    another = {
        task: truth.d_perfect(scheme="population")
        for task, truth in truths.items()
        if "population" in truth.distances or not truth.distances
    }
    noise = {task: noise_of(truth) for task, truth in truths.items()}
    changed = changed_in(runs, anchors)
    unlike = [f"{column}: {says}" for column in listed if (says := made_of(column))]
    subset = {task.task for task in asked if _in_closed_subset(task)}
    closed = [Asked(task, way) for task in sorted(subset) for way in CLOSED_WAYS]
    return Report(
        ordered,
        listed,
        {column: standings(ordered, column, noise) for column in listed},
        anchors,
        another,
        noise,
        versions,
        [*results.notes, *notes, *said_changed(runs, changed), *_many(asked_ours), *unlike],
        closed,
        published(closed) if with_published else [],
        tuple(tuned),
        results.unread,
        changed,
    )


def closed_subset(report: Report) -> list[tuple[Entry, str, Number]]:
    """Average each entry over the closed subset, written answers and log-probabilities.

    Returns
    -------
    list of (Entry, str, Number)
        The entry, the way of asking, and the mean over the tasks asked so; the best first.
    """
    means = []
    for entry in [*report.runs, *report.closed_published]:
        for way in CLOSED_WAYS:
            asked = [task for task in report.closed if task.way == way and task in entry.scores]
            if tasks := [task for task in asked if not math.isnan(entry.scores[task].value)]:
                means.append((entry, way, mean_over(entry, tasks)))
    return sorted(means, key=lambda item: (-item[2].value, item[0].name, item[1]))


def changed_in(entries: Iterable[Entry], whole: Mapping[str, Anchors]) -> dict[str, list[Asked]]:
    """Return by entry the tasks whose scores do not match their distances.

    Tasks with another truth, or with unknown cells (``--samples``), cannot be checked.

    Parameters
    ----------
    entries : iterable of Entry
    whole : mapping of str to Anchors
        Anchors of whole tasks; those of parts are computed.
    """
    changed = {}
    for entry in entries:
        wrong = [asked for asked in entry.scores if _is_changed(entry, asked, whole)]
        if wrong:
            changed[entry.name] = wrong
    return changed


def _is_changed(entry: Entry, asked: Asked, whole: Mapping[str, Anchors]) -> bool:
    score, protocol = entry.scores[asked], entry.part(asked).protocol
    # Other versions of a task may have had another scale.
    if math.isnan(score.l1 + score.value) or protocol.task_version or protocol.truth:
        return False
    ends = whole.get(asked.task) if score.seen >= 1 else None
    if ends is None:
        part = part_asked(entry, asked)
        ends = part.anchors if part else None
    return ends is not None and abs(float(ends.score(score.l1)) - score.value) > TOLERANCE


def said_changed(entries: Iterable[Entry], changed: Mapping[str, Sequence[Asked]]) -> list[str]:
    """Say which scores of entries do not match their distances, and in which files."""
    notes = []
    for entry in entries:
        if wrong := changed.get(entry.name, ()):
            files = sorted({entry.scores[asked].source.name for asked in wrong})
            notes.append(
                f"{entry.name}: the scores of {plural(len(wrong), 'task')} do not match their "
                f"distances ({few([in_way(*asked) for asked in wrong])}; in {few(files)}): the "
                "file was changed, or D_perfect was different"
            )
    return notes


def _many(entries: Sequence[Entry]) -> list[str]:
    """Say in which groups not all pairs of runs are compared."""
    most = max((len(alike) for alike in _alike(entries)), default=0)
    if most <= MOST_PAIRS_OF:
        return []
    return [
        f"{most} runs were asked in the same way: ranks use all pairs of them, but only "
        "neighbours in rank are listed; 'epidemia compare MODEL OTHER FOLDER' compares any two"
    ]


#: With more runs than this, only neighbours in rank are compared: in tables for people, and in
#: what programs read.
MOST_SHOWN, MOST_PAIRS_OF = 5, 20


#: Groups that are compared together besides, in each way of asking.
TOGETHER = ("epidemia_low", "epidemia_high")


def headline(columns: Sequence[str]) -> list[str]:
    """Return the groups for a sentence: those of `TOGETHER`, or a union that contains one.

    If there are none, the first group.
    """
    shown = [column for column in columns if within(column) & {*TOGETHER}]
    whole = [c for c in shown if not any(within(c) < within(other) for other in shown)]
    return whole or [*columns[:1]]


def comparisons(report: Report, most: int = MOST_PAIRS_OF) -> list[Comparison]:
    """Compare runs asked in the same way, the better mean first.

    This covers every group except predictions, and the groups in `TOGETHER` combined if both runs
    were asked them.

    Parameters
    ----------
    report : Report
    most : int
        Up to this many runs, all pairs are compared; beyond it only neighbours.
    """
    pairs: list[Comparison] = []
    pools = report.pools()
    for column in [*compared(report.columns), *together(report.columns)]:
        parts = column.split(AND)
        for alike in report.alike():
            runs, pool = ordered_in(alike, parts), pools[alike[0].protocol]
            pairs += [
                compare_entries(run, other, column, pool=pool)
                for run, other in (pairwise(runs) if len(runs) > most else combinations(runs, 2))
                if len(parts) == 1 or all(shared_tasks([run, other], part) for part in parts)
            ]
    return pairs


def together(listed: Sequence[str]) -> list[str]:
    """Return the groups that are compared together, way by way, if all of them were asked."""
    ways = ([in_way(group, way) for group in TOGETHER] for way in OBSERVATION.ways)
    return [AND.join(parts) for parts in ways if set(parts) <= set(listed)]


def ordered_in(entries: Iterable[Entry], columns: Sequence[str]) -> list[Entry]:
    """Return the entries asked in all of these groups, the best sum of means first."""
    here = [entry for entry in entries if all(tasks_in(entry, column) for column in columns)]
    return sorted(here, key=lambda e: math.fsum(worth(e, column) for column in columns))


def whole(report: Report, column: str) -> list[Entry]:
    """Return the ranked runs of a group that were asked in the default way."""
    complete = {name for name, place in report.standings[column].items() if place.complete}
    return [e for e in report.runs if e.protocol == Protocol() and e.name in complete]
