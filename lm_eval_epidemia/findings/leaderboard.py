"""Who does better, and whether that can be said: ranks, and what a report is made of."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from scipy import stats

from lm_eval_epidemia.benchmarks import OBSERVATION, QUICK, Benchmark, groups, in_way
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.comparison import AND, Comparison, across_outcomes, compare_entries
from lm_eval_epidemia.findings.finding import Number
from lm_eval_epidemia.findings.means import (
    group_mean,
    mean_over,
    shared_tasks,
    tasks_in,
    worth,
)
from lm_eval_epidemia.findings.normalise import normalise
from lm_eval_epidemia.findings.pool import Pool, noise_of
from lm_eval_epidemia.findings.published import published
from lm_eval_epidemia.findings.tuned import TunedRun, tuned_runs
from lm_eval_epidemia.results.entry import Asked, Entry, closest, leaf
from lm_eval_epidemia.results.protocol import Protocol, printable
from lm_eval_epidemia.results.results import Results
from lm_eval_epidemia.score.score import Anchors

#: Points by which a score may miss that of its distance, by rounding.
TOLERANCE = 1e-6


class Standing(NamedTuple):
    """Where an entry stands in a column.

    Attributes
    ----------
    mean : Number
    complete : bool
        Whether it was asked all the tasks that ranks are over.
    best, worst : int or None
        Ranks that cannot be excluded: 1 + how many are shown better, and how many entries less
        those shown worse. None where it is not ranked, or nobody is whom it could be compared with.
    shared : int
        How many tasks the ranks of its protocol are over; 0 where nobody is ranked.
    among : int
        How many entries these ranks are of: those of its protocol that were asked these tasks.
    """

    mean: Number
    complete: bool
    best: int | None
    worst: int | None
    shared: int
    among: int


def columns(entries: Iterable[Entry]) -> list[str]:
    """Return the groups that somebody was asked, in their usual order, as lm-eval knows them."""
    asked = {leaf(task).group for entry in entries for task in entry.scores}
    return [name for name in groups() if name in asked]


def by_benchmark(columns: Iterable[str]) -> dict[Benchmark, list[str]]:
    """Part groups by the benchmark they are of: their values are of different metrics."""
    parts: dict[Benchmark, list[str]] = {}
    for column in columns:
        parts.setdefault(groups()[column], []).append(column)
    return parts


def ranked_tasks(entries: Iterable[Entry], column: str) -> frozenset[Asked]:
    """Return the tasks that a ranking is over: those that the entries to be ranked share.

    From whoever was asked most tasks down, entries are taken in as long as at least half of the
    broadest one's tasks are left that all of them were asked. So nobody drops out because another
    was asked one task more, and a run of a single task does not make that the ranking of all.

    Parameters
    ----------
    entries : iterable of Entry
        Of one protocol; at least one. Those that were asked all the tasks returned can be ranked.
    column : str
    """
    asked = Counter(frozenset(tasks_in(entry, column)) for entry in entries)
    # Of equally many tasks, those that more entries were asked.
    ordered = sorted(asked, key=lambda tasks: (-len(tasks), -asked[tasks], sorted(tasks)))
    shared = ordered[0]
    for tasks in ordered:
        if 2 * len(shared & tasks) >= len(ordered[0]):
            shared &= tasks
    return shared


def standings(
    entries: Sequence[Entry], column: str, noise: Mapping[str, float] | None = None
) -> dict[str, Standing]:
    """Rank entries in a group, with the ranks that their comparisons leave open.

    Parameters
    ----------
    entries : sequence of Entry
        Only those of one protocol are compared with each other; references are not ranked.
    column : str
    noise : mapping of str to float, optional
        As of `Pool`.

    Returns
    -------
    dict of str to Standing
        By the entry's name; entries that were not asked the group are left out.
    """
    by_name: dict[str, Standing] = {}
    runs: dict[Protocol, list[Entry]] = defaultdict(list)
    for entry in entries:
        if tasks_in(entry, column):
            runs[entry.protocol].append(entry)
    for alike in runs.values():
        asked = [entry for entry in alike if not entry.reference]
        shared = ranked_tasks(asked, column) if asked else frozenset()
        complete = {entry.name for entry in alike if shared <= set(tasks_in(entry, column))}
        ranked = [entry for entry in asked if entry.name in complete]
        better, worse = Counter[str](), Counter[str]()
        pool = Pool(alike, noise or {})
        for first, other in combinations(ranked, 2):
            # The cheap half first: of all pairs of many models most end here.
            if not across_outcomes(first, other, column, shared, pool).elsewhere:
                continue
            verdict = compare_entries(first, other, column, shared, pool).verdict
            if verdict in ("better", "worse"):
                winner, loser = (first, other) if verdict == "better" else (other, first)
                worse[winner.name] += 1
                better[loser.name] += 1
        for entry in alike:
            name, best, worst = entry.name, None, None
            if entry in ranked and len(ranked) > 1:
                best, worst = 1 + better[name], len(ranked) - worse[name]
            mean = group_mean(entry, column)
            by_name[name] = Standing(mean, name in complete, best, worst, len(shared), len(ranked))
    return by_name


def correlation(entries: Iterable[Entry], column: str, other: str) -> tuple[float, int]:
    """Correlate ranks in a group with those in another task.

    Parameters
    ----------
    entries : iterable of Entry
        Those of one protocol; means are over the tasks that all of them share.
    column : str
    other : str
        A key of `Entry.others`.

    Returns
    -------
    coefficient : float
        Spearman's, in [-1, 1]; NaN for fewer than three models or where all are alike.
    models : int
    """
    both = [e for e in entries if other in e.others and tasks_in(e, column)]
    if len(both) < 3 or not (tasks := shared_tasks(both, column)):
        return math.nan, len(both)
    scores = [mean_over(entry, tasks).value for entry in both]
    values = [entry.others[other] for entry in both]
    if len(set(scores)) < 2 or len(set(values)) < 2:
        return math.nan, len(both)
    return float(stats.spearmanr(scores, values).statistic), len(both)


#: Words in a model's name that say it was tuned to follow instructions, and that it was not.
TUNED, PLAIN = {"instruct", "it", "chat"}, {"base", "pt", "hf"}


#: Models and what became of them, by name; of one model there may be several in a sequence.
Pairs = Mapping[str, str] | Sequence[tuple[str, str]]


def _listed(given: Pairs | None) -> list[tuple[str, str]]:
    return list(given.items() if isinstance(given, Mapping) else given or ())


def pairs_of_versions(
    entries: Sequence[Entry], given: Pairs | None = None
) -> list[tuple[Entry, Entry]]:
    """Find base models and their instruct versions, by their names.

    "Llama-3.1-8B" and "Llama-3.1-8B-Instruct" are a pair, as are "gemma-2-9b" and "gemma-2-9b-it".

    Parameters
    ----------
    entries : sequence of Entry
        Of one protocol.
    given : mapping of str to str or sequence of (str, str), optional
        Instruct versions by the name of their base model, for names that do not say.
    """
    stems: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    tuned = []
    for entry in entries:
        words = [word for word in re.split(r"[-_\s]+", entry.model.lower()) if word]
        stem = tuple(word for word in words if word not in TUNED | PLAIN)
        if TUNED & set(words):
            tuned.append((stem, entry))
        else:
            stems[stem].append(entry)
    bases = [(stems.get(stem, []), entry) for stem, entry in tuned]
    for base, instruct in _listed(given):
        plain = [entry for entry in entries if entry.model == base]
        bases += [(plain, entry) for entry in entries if entry.model == instruct]
    pairs = [(base, other) for plain, other in bases for base in closest(plain, other)]
    # What names tell may be given too, and more than once.
    return list({(base.name, other.name): (base, other) for base, other in pairs}.values())


#: The two ways in which the closed subset stands in one table: models that only write beside those
#: whose log-probabilities are known.
CLOSED_WAYS = ("closed", "likelihood")


def _in_closed_subset(asked: Asked) -> bool:
    return asked.way in CLOSED_WAYS and leaf(asked).entry.facets.get("subset") == "closed"


class Report(NamedTuple):
    """Runs, reference rows, and what was found about them.

    Attributes
    ----------
    entries : list of Entry
        Runs, those of the default protocol first, then published scores.
    columns : list of str
        Groups that a run was asked.
    standings : dict of str to dict of str to Standing
        By group and entry.
    anchors : dict of str to Anchors
        Of every available task that was asked.
    another : dict of str to float
        Their D_perfect over other surveys of the population, where that is known.
    noise : dict of str to float
        Their mean distance from other samples of the survey.
    pairs : list of (Entry, Entry)
        Base models and their instruct versions.
    notes : list of str
    closed : list of Asked
        Tasks of the closed subset that a run was asked in one of `CLOSED_WAYS`, each in both.
    closed_published : list of Entry
        Published scores of these.
    tuned : tuple of TunedRun
        Runs of tuned models, each with that of its base where there is one.
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

    @property
    def runs(self) -> list[Entry]:
        """Entries that are runs."""
        return [entry for entry in self.entries if not entry.reference]

    @property
    def barely(self) -> list[str]:
        """Tasks that were asked and are barely informative."""
        return [task for task, anchors in self.anchors.items() if anchors.barely]

    def alike(self) -> list[list[Entry]]:
        """Runs that can be compared with each other: one list per protocol."""
        return _alike(self.runs)

    def pools(self) -> dict[Protocol, Pool]:
        """Runs by which log `l1` is judged, by protocol."""
        return {runs[0].protocol: Pool(runs, self.noise) for runs in self.alike()}


def _alike(entries: Sequence[Entry]) -> list[list[Entry]]:
    protocols = list(dict.fromkeys(entry.protocol for entry in entries))
    return [[e for e in entries if e.protocol == protocol] for protocol in protocols]


def informative(results: Results) -> Results:
    """Leave out the barely informative tasks, and say how many these are.

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
    note = f"{len(barely)} barely informative tasks are left out{listed}"
    if not any(entry.scores for entry in entries):
        raise EpidemiaError(f"no task is left: {note}; leave --informative away to see them")
    return results._replace(entries=entries, notes=[*results.notes, note])


def make_report(
    results: Results, with_published: bool = False, pairs: Pairs | None = None
) -> Report:
    """Put entries in order and compare them.

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
    runs, given = list(results.entries), _listed(pairs)
    models = {entry.model for entry in runs}
    if unknown := {name for pair in given for name in pair} - models:
        raise EpidemiaError(
            f"no model {min(unknown)!r} to pair; the models are {', '.join(sorted(models))}"
        )
    if twice := [base for base, other in given if base == other]:
        raise EpidemiaError(f"{twice[0]!r} cannot be paired with itself: give two models")
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
        for base, other in pairs_of_versions(alike, pairs)
        if other.name not in apart
    ]
    with_base = [(run.base, run.entry) for run in tuned if run.base]
    notes += _without_tasks(given, [*versions, *with_base], listed)
    tasks = {task.task for task in asked}
    truths = {task: store.load(task) for task in store.available() if task in tasks}
    anchors = {task: Anchors.of(truth) for task, truth in truths.items()}
    another = {
        task: truth.d_perfect(scheme="population")
        for task, truth in truths.items()
        if "population" in truth.distances or not truth.distances
    }
    noise = {task: noise_of(truth) for task, truth in truths.items()}
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
        [*results.notes, *notes, *_changed(runs, anchors)],
        closed,
        published(closed) if with_published else [],
        tuple(tuned),
    )


def _without_tasks(
    given: Iterable[tuple[str, str]], paired: Iterable[tuple[Entry, Entry]], groups: Sequence[str]
) -> list[str]:
    """Name the pairs that were given and have no task in common."""
    compared = {
        (first.model, other.model)
        for first, other in paired
        if any(shared_tasks([first, other], group) for group in groups)
    }
    return [
        printable(
            f"--pair {base}={other} compares nothing: no task has a score of both, asked in the "
            "same way; run both on the same tasks, with the same --metadata and --limit"
        )
        for base, other in dict.fromkeys(given)
        if (base, other) not in compared
    ]


def closed_subset(report: Report) -> list[tuple[Entry, str, Number]]:
    """Average over the closed subset whoever was asked it: written beside log-probabilities.

    Returns
    -------
    list of (Entry, str, Number)
        Who, in which way, and the mean over the tasks asked in it; the best first.
    """
    means = []
    for entry in [*report.runs, *report.closed_published]:
        for way in CLOSED_WAYS:
            asked = [task for task in report.closed if task.way == way and task in entry.scores]
            if tasks := [task for task in asked if not math.isnan(entry.scores[task].value)]:
                means.append((entry, way, mean_over(entry, tasks)))
    return sorted(means, key=lambda item: (-item[2].value, item[0].name, item[1]))


def _changed(entries: Iterable[Entry], anchors: Mapping[str, Anchors]) -> list[str]:
    """Name scores that are not those of their distances."""
    notes = []
    for entry in entries:
        wrong = [
            asked.task
            for asked, score in entry.scores.items()
            if entry.protocol == Protocol()
            and asked.task in anchors
            and abs(normalise(score.l1, anchors[asked.task], "score") - score.value) > TOLERANCE
        ]
        if wrong:
            notes.append(
                f"{entry.name}: the scores of {plural(len(wrong), 'task')} are not those of their "
                f"distances ({wrong[0]}): the file was changed, or D_perfect was another"
            )
    return notes


#: With more models than this, only neighbours in rank are compared in the terminal.
MOST_PAIRS_OF = 5


#: Groups that are compared together besides, in each way of asking.
TOGETHER = ("epidemia_low", "epidemia_high")


def comparisons(report: Report, neighbours: bool = False) -> list[Comparison]:
    """Compare every two runs that were asked in the same way, the better mean first.

    In every group, and over all outcomes of those in `TOGETHER` where both runs were asked these.
    A quick look is a prediction, and shows nothing in these tasks.

    Parameters
    ----------
    report : Report
    neighbours : bool
        Whether, of more than `MOST_PAIRS_OF` runs, only neighbours are compared.
    """
    compared = []
    pools = report.pools()
    for column in [*report.columns, *_together(report.columns)]:
        if groups().get(column) is QUICK:
            continue
        parts = column.split(AND)
        for alike in report.alike():
            runs, pool = ordered_in(alike, parts), pools[alike[0].protocol]
            many = neighbours and len(runs) > MOST_PAIRS_OF
            compared += [
                compare_entries(run, other, column, pool=pool)
                for run, other in (pairwise(runs) if many else combinations(runs, 2))
                if len(parts) == 1 or all(shared_tasks([run, other], part) for part in parts)
            ]
    return compared


def _together(listed: Sequence[str]) -> list[str]:
    """Name the groups that are compared together, way by way, where all of them were asked."""
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
