"""Who does better, and whether that can be said: means over tasks, slices, paired comparisons."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from lm_eval_epidemia.benchmarks import Benchmark, groups
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.report.normalise import NORMALISATIONS, normalise
from lm_eval_epidemia.report.published import published
from lm_eval_epidemia.report.results import Asked, Entry, Protocol, Results, leaf
from lm_eval_epidemia.score.score import Anchors

__all__ = [
    "Comparison",
    "Mean",
    "Report",
    "Standing",
    "by_benchmark",
    "closed_subset",
    "columns",
    "compare_entries",
    "comparisons",
    "correlation",
    "facets",
    "group_mean",
    "make_report",
    "mean_over",
    "normalised_means",
    "ordered_in",
    "pairs_of_versions",
    "slices",
    "standings",
    "tasks_in",
    "whole",
    "worth",
]

#: Points by which a score may miss that of its distance, by rounding.
TOLERANCE = 1e-6

#: Two-sided level of confidence of every "better".
CONFIDENCE = 0.95


class Mean(NamedTuple):
    """A mean of the primary metric.

    Attributes
    ----------
    value : float
    error : float
        Standard error from the tasks' own errors: of these tasks, not of others like them.
    tasks : int
        How many it is over.
    """

    value: float
    error: float
    tasks: int


class Comparison(NamedTuple):
    """Two models over the tasks both were asked.

    Attributes
    ----------
    one, other : str
    column : str
    tasks, clusters : int
        Tasks in common, and outcomes (of a survey) among them.
    higher_is_better : bool
        Of the metric compared.
    difference : float
        Mean of the first's value less the second's.
    error : float
        Its standard error, from how the difference varies between outcomes; NaN with one outcome.
    low, high : float
        Confidence interval at `CONFIDENCE`.
    here : float
        Standard error of the difference in these very tasks, from the errors of their scores.
    wins, ties, losses : int
        Tasks in which the first is better than the second by more than twice the standard error of
        the two, within it, or worse.
    """

    one: str
    other: str
    column: str
    tasks: int
    clusters: int
    higher_is_better: bool
    difference: float
    error: float
    low: float
    high: float
    here: float
    wins: int
    ties: int
    losses: int

    @property
    def verdict(self) -> str:
        """What can be said of the first, at `CONFIDENCE`.

        ``not shown``: the scores do not differ by more than their errors. ``better here`` or
        ``worse here``: they do, in these tasks. ``better`` or ``worse``: besides, the interval
        leaves out 0, so other outcomes of this kind would be expected to show it too.
        """
        if not abs(self.difference) > float(stats.norm.ppf((1 + CONFIDENCE) / 2)) * self.here:
            return "not shown"
        which = "better" if (self.difference > 0) == self.higher_is_better else "worse"
        return which if self.low > 0 or self.high < 0 else f"{which} here"


class Standing(NamedTuple):
    """Where an entry stands in a column.

    Attributes
    ----------
    mean : Mean
    complete : bool
        Whether it was asked all the tasks that ranks are over.
    best, worst : int or None
        Ranks that cannot be excluded: 1 + how many are shown better, and how many entries less
        those shown worse. None where it is not ranked.
    shared : int
        How many tasks the ranks of its protocol are over; 0 where nobody is ranked.
    """

    mean: Mean
    complete: bool
    best: int | None
    worst: int | None
    shared: int


def columns(entries: Iterable[Entry]) -> list[str]:
    """Return the groups that somebody was asked, in their usual order, as lm-eval knows them."""
    asked = {leaf(one).group for entry in entries for one in entry.scores}
    return [name for name in groups() if name in asked]


def by_benchmark(columns: Iterable[str]) -> dict[Benchmark, list[str]]:
    """Part groups by the benchmark they are of: their values are of different metrics."""
    found: dict[Benchmark, list[str]] = {}
    for column in columns:
        found.setdefault(groups()[column], []).append(column)
    return found


def tasks_in(entry: Entry, column: str) -> list[Asked]:
    """Return the tasks of a group that an entry has a score in that is a number."""
    return sorted(
        asked
        for asked, score in entry.scores.items()
        if leaf(asked).group == column and not math.isnan(score.value)
    )


def mean_over(entry: Entry, tasks: Sequence[Asked]) -> Mean:
    """Average an entry's scores, each task counting once; NaN over no task."""
    chosen = [entry.scores[asked] for asked in tasks]
    if not chosen:
        return Mean(math.nan, math.nan, 0)
    error = math.sqrt(sum(one.error**2 for one in chosen)) / len(chosen)
    return Mean(math.fsum(one.value for one in chosen) / len(chosen), error, len(chosen))


def group_mean(entry: Entry, column: str) -> Mean:
    """Average an entry's scores in a group."""
    return mean_over(entry, tasks_in(entry, column))


def shared_tasks(entries: Iterable[Entry], column: str) -> list[Asked]:
    """Return the tasks of a group that all entries have a score in."""
    return sorted(set.intersection(*(set(tasks_in(entry, column)) for entry in entries)))


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


def compare_entries(
    one: Entry, other: Entry, column: str, tasks: Iterable[Asked] | None = None
) -> Comparison:
    """Compare two entries, task by task.

    The standard error is cluster-robust: tasks that ask for the same outcome of a survey, given
    different conditions, are alike and count as one observation of how the two models differ
    (``sqrt(G / (G - 1) sum_g (sum_{t in g} (d_t - d))^2) / T``, G outcomes, T tasks); the interval
    takes Student's t with G - 1 degrees of freedom.

    Parameters
    ----------
    one, other : Entry
    column : str
        A group, as lm-eval knows it.
    tasks : iterable of Asked, optional
        Of those in the group that both were asked; all of these if not given.
    """
    common = shared_tasks([one, other], column) if tasks is None else sorted(tasks)
    pairs = [(one.scores[asked], other.scores[asked]) for asked in common]
    d = np.array([first.value - second.value for first, second in pairs])
    noise = np.array([math.hypot(first.error, second.error) for first, second in pairs])
    outcomes = [leaf(asked).entry.outcome for asked in common]
    clusters = list(dict.fromkeys(outcomes))
    difference = float(d.mean()) if len(d) else math.nan
    error = low = high = math.nan
    if len(clusters) > 1:
        sums = [
            sum(x - difference for x, place in zip(d, outcomes, strict=True) if place == cluster)
            for cluster in clusters
        ]
        number = len(clusters)
        error = math.sqrt(number / (number - 1) * math.fsum(x * x for x in sums)) / len(d)
        reach = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, number - 1))
        low, high = difference - reach, difference + reach
    # A score without a standard error (published ones) gives neither wins nor losses.
    above, below = int((d > 2 * noise).sum()), int((d < -2 * noise).sum())
    higher = groups()[column].measure.higher_is_better
    wins, losses = (above, below) if higher else (below, above)
    here = float(np.sqrt((noise**2).sum()) / len(d)) if len(d) else math.nan
    return Comparison(one.name, other.name, column, len(d), len(clusters), higher, difference,
                      error, low, high, here, wins, len(d) - wins - losses, losses)  # fmt: skip


def standings(entries: Sequence[Entry], column: str) -> dict[str, Standing]:
    """Rank entries in a group, with the ranks that their comparisons leave open.

    Parameters
    ----------
    entries : sequence of Entry
        Only those of one protocol are compared with each other; references are not ranked.
    column : str

    Returns
    -------
    dict of str to Standing
        By the entry's name; entries that were not asked the group are left out.
    """
    found: dict[str, Standing] = {}
    runs: dict[Protocol, list[Entry]] = defaultdict(list)
    for entry in entries:
        if tasks_in(entry, column):
            runs[entry.protocol].append(entry)
    for alike in runs.values():
        asked = [entry for entry in alike if not entry.reference]
        shared = ranked_tasks(asked, column) if asked else frozenset()
        ranked = [entry for entry in asked if shared <= set(tasks_in(entry, column))]
        better, worse = dict.fromkeys([e.name for e in ranked], 0), {e.name: 0 for e in ranked}
        for one, other in combinations(ranked, 2):
            verdict = compare_entries(one, other, column, shared).verdict
            if verdict in ("better", "worse"):
                winner, loser = (one, other) if verdict == "better" else (other, one)
                worse[winner.name] += 1
                better[loser.name] += 1
        for entry in alike:
            mean, complete = group_mean(entry, column), shared <= set(tasks_in(entry, column))
            best = worst = None
            if entry in ranked:
                best, worst = 1 + better[entry.name], len(ranked) - worse[entry.name]
            found[entry.name] = Standing(mean, complete, best, worst, len(shared))
    return found


def normalised_means(
    entry: Entry, column: str, anchors: Mapping[str, Anchors]
) -> dict[str, Mean]:  # fmt: skip
    """Average an entry's distances on every scale; see `normalise`.

    Parameters
    ----------
    entry : Entry
    column : str
    anchors : mapping
        Of every available task.

    Returns
    -------
    dict of str to Mean
        By scale; empty where the anchors are not those of the questions asked (another truth, a
        part of the cells) or the file has no distance. Errors are given for the score alone.
    """
    tasks = tasks_in(entry, column)
    if entry.reference or not tasks or any(entry.scores[one].seen < 1 for one in tasks):
        return {}
    if entry.protocol.truth or any(one.task not in anchors for one in tasks):
        return {}
    if any(math.isnan(entry.scores[one].l1) for one in tasks):
        return {}
    found = {}
    for how in NORMALISATIONS:
        values = [normalise(entry.scores[a].l1, anchors[a.task], how) for a in tasks]
        error = mean_over(entry, tasks).error if how == "score" else math.nan
        found[how] = Mean(math.fsum(values) / len(values), error, len(values))
    return found


def correlation(
    entries: Iterable[Entry], column: str, other: str
) -> tuple[float, int]:  # fmt: skip
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
    if len(both) < 3:
        return math.nan, len(both)
    if not (tasks := shared_tasks(both, column)):
        return math.nan, len(both)
    scores = [mean_over(entry, tasks).value for entry in both]
    values = [entry.others[other] for entry in both]
    if len(set(scores)) < 2 or len(set(values)) < 2:
        return math.nan, len(both)
    return float(stats.spearmanr(scores, values).statistic), len(both)


#: Words in a model's name that say it was tuned to follow instructions, and that it was not.
TUNED, PLAIN = {"instruct", "it", "chat"}, {"base", "pt", "hf"}


def pairs_of_versions(
    entries: Sequence[Entry], given: Mapping[str, str] | None = None
) -> list[tuple[Entry, Entry]]:
    """Find base models and their instruct versions, by their names.

    "Llama-3.1-8B" and "Llama-3.1-8B-Instruct" are a pair, as are "gemma-2-9b" and "gemma-2-9b-it".

    Parameters
    ----------
    entries : sequence of Entry
        Of one protocol.
    given : mapping of str to str, optional
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
    found = [(base, entry) for stem, entry in tuned for base in stems.get(stem, [])]
    for base, instruct in (given or {}).items():
        found += [
            (one, other)
            for one in entries if one.model == base
            for other in entries if other.model == instruct
        ]  # fmt: skip
    return found


def facets(entries: Iterable[Entry], column: str) -> list[str]:
    """Return by what the tasks of a group that somebody was asked can be cut, in order."""
    asked = [one for entry in entries for one in tasks_in(entry, column)]
    return list(dict.fromkeys(kind for one in asked for kind in leaf(one).entry.facets))


def slices(entry: Entry, column: str, kind: str) -> dict[str, Mean]:
    """Average an entry's scores in a group by a facet of its tasks, such as the survey.

    Returns
    -------
    dict of str to Mean
        By the slice's label, in order.
    """
    found: dict[str, list[Any]] = {}
    for asked in tasks_in(entry, column):
        if (label := leaf(asked).entry.facets.get(kind)) is not None:
            found.setdefault(label, []).append(asked)
    return {label: mean_over(entry, found[label]) for label in sorted(found)}


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
    pairs : list of (Entry, Entry)
        Base models and their instruct versions.
    notes : list of str
    closed : list of Asked
        Tasks of the closed subset that a run was asked in one of `CLOSED_WAYS`, each in both.
    closed_published : list of Entry
        Published scores of these.
    """

    entries: list[Entry]
    columns: list[str]
    standings: dict[str, dict[str, Standing]]
    anchors: dict[str, Anchors]
    pairs: list[tuple[Entry, Entry]]
    notes: list[str]
    closed: list[Asked]
    closed_published: list[Entry]

    @property
    def runs(self) -> list[Entry]:
        """Entries that are runs."""
        return [entry for entry in self.entries if not entry.reference]

    def alike(self) -> list[list[Entry]]:
        """Runs that can be compared with each other: one list per protocol."""
        return _alike(self.runs)


def _alike(entries: Sequence[Entry]) -> list[list[Entry]]:
    protocols = list(dict.fromkeys(entry.protocol for entry in entries))
    return [[e for e in entries if e.protocol == protocol] for protocol in protocols]


def make_report(
    results: Results, with_published: bool = False, pairs: Mapping[str, str] | None = None
) -> Report:
    """Put entries in order and compare them.

    Parameters
    ----------
    results : Results
    with_published : bool
        Add published scores of the tasks that were asked, as reference rows.
    pairs : mapping of str to str, optional
        Instruct versions by base model; others are found by their names.

    Raises
    ------
    EpidemiaError
        If a pair names a model that is not there.
    """
    runs = list(results.entries)
    models = {entry.model for entry in runs}
    if unknown := {name for pair in (pairs or {}).items() for name in pair} - models:
        raise EpidemiaError(
            f"no model {min(unknown)!r} to pair; the models are {', '.join(sorted(models))}"
        )
    found = columns(runs)
    asked = {one for entry in runs for one in entry.scores}
    reference = published(asked) if with_published else []

    def order(entry: Entry) -> tuple[Any, ...]:
        # Whoever was asked most comes first, then by score.
        return (entry.protocol, -len(entry.scores), [worth(entry, column) for column in found])

    ordered = [*sorted(runs, key=order), *sorted(reference, key=order)]
    versions = [pair for alike in _alike(runs) for pair in pairs_of_versions(alike, pairs)]
    tasks = {one.task for one in asked}
    anchors = {task: Anchors.of(store.load(task)) for task in store.available() if task in tasks}
    subset = {one.task for one in asked if _in_closed_subset(one)}
    closed = [Asked(task, way) for task in sorted(subset) for way in CLOSED_WAYS]
    return Report(
        ordered, found, {column: standings(ordered, column) for column in found}, anchors,
        versions, [*results.notes, *_changed(runs, anchors)], closed,
        published(closed) if with_published else [],
    )  # fmt: skip


def closed_subset(report: Report) -> list[tuple[Entry, str, Mean]]:
    """Average over the closed subset whoever was asked it: written beside log-probabilities.

    Returns
    -------
    list of (Entry, str, Mean)
        Who, in which way, and the mean over the tasks asked in it; the best first.
    """
    found = []
    for entry in [*report.runs, *report.closed_published]:
        for way in CLOSED_WAYS:
            tasks = [
                one for one in report.closed
                if one.way == way and one in entry.scores
                and not math.isnan(entry.scores[one].value)
            ]  # fmt: skip
            if tasks:
                found.append((entry, way, mean_over(entry, tasks)))
    return sorted(found, key=lambda one: (-one[2].value, one[0].name, one[1]))


def _changed(entries: Iterable[Entry], anchors: Mapping[str, Anchors]) -> list[str]:
    """Name scores that are not those of their distances."""
    notes = []
    for entry in entries:
        wrong = [
            asked.task
            for asked, one in entry.scores.items()
            if entry.protocol == Protocol() and asked.task in anchors
            and abs(normalise(one.l1, anchors[asked.task], "score") - one.value) > TOLERANCE
        ]  # fmt: skip
        if wrong:
            notes.append(
                f"{entry.name}: the scores of {len(wrong)} tasks are not those of their distances "
                f"({wrong[0]}): the file was changed, or D_perfect was another"
            )
    return notes


def worth(entry: Entry, column: str) -> float:
    """Return what to sort entries by, the best first: whoever was not asked comes last."""
    value = group_mean(entry, column).value
    if math.isnan(value):
        return math.inf
    return -value if groups()[column].measure.higher_is_better else value


def comparisons(report: Report) -> list[Comparison]:
    """Compare every two runs that were asked in the same way, the better mean first."""
    return [
        compare_entries(one, other, column)
        for column in report.columns
        for alike in report.alike()
        for one, other in combinations(ordered_in(alike, column), 2)
    ]


def ordered_in(entries: Iterable[Entry], column: str) -> list[Entry]:
    """Return the entries asked in a group, the best mean first."""
    here = [entry for entry in entries if tasks_in(entry, column)]
    return sorted(here, key=lambda e: worth(e, column))


def whole(report: Report, column: str) -> list[Entry]:
    """Return the ranked runs of a group that were asked in the default way."""
    found = report.standings[column]
    return [
        e for e in report.runs
        if e.protocol == Protocol() and e.name in found and found[e.name].complete
    ]  # fmt: skip
