"""Ranks in a group, as ranges that paired comparisons cannot narrow further."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scipy import stats

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.old.findings.means import (
    answers,
    group_mean,
    mean_over,
    shared_tasks,
    tasks_in,
)
from lm_eval_epidemia.old.findings.pool import Pool
from lm_eval_epidemia.old.findings.verdicts import verdicts
from lm_eval_epidemia.results.entry import Asked, Entry
from lm_eval_epidemia.results.models import is_respondent
from lm_eval_epidemia.results.protocol import Protocol


class Standing(NamedTuple):
    """The rank of an entry in a column.

    Attributes
    ----------
    mean : Number
    complete : bool
        Whether it was asked all tasks of the ranking.
    best, worst : int or None
        The possible ranks: 1 + the number of entries shown better, and the number of entries minus
        those shown worse. None if it is not ranked, or has nothing to be compared with.
    shared : int
        Number of tasks in its protocol's ranking; 0 if nothing is ranked.
    among : int
        Number of ranked entries: those of its protocol that were asked these tasks.
    """

    mean: Number
    complete: bool
    best: int | None
    worst: int | None
    shared: int
    among: int


def ranked_tasks(entries: Iterable[Entry], column: str) -> frozenset[Asked]:
    """Return the tasks of a ranking: those that the ranked entries share.

    Entries are added, most tasks first, as long as they all share at least half of the first one's
    tasks. So no entry drops out because another was asked one more task, and a run of a single task
    does not reduce the ranking to that task.

    Parameters
    ----------
    entries : iterable of Entry
        Of one protocol; at least one. Entries asked all returned tasks can be ranked.
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
    """Rank entries in a group, as ranges that their comparisons cannot narrow further.

    Parameters
    ----------
    entries : sequence of Entry
        Only entries of one protocol are compared. References, respondents among models, and
        predictions are not ranked.
    column : str
    noise : mapping of str to float, optional
        As for `Pool`.

    Returns
    -------
    dict of str to Standing
        By the entry's name; entries that were not asked the group are left out.
    """
    by_name: dict[str, Standing] = {}
    predicted = groups()[column].predicted
    runs: dict[Protocol, list[Entry]] = defaultdict(list)
    for entry in entries:
        if tasks_in(entry, column):
            runs[entry.protocol].append(entry)
    for alike in runs.values():
        # Who does not answer is no worse than another. Reference respondents are ranked where there
        # are no models.
        asked = [entry for entry in alike if not entry.reference and answers(entry, column)]
        asked = [entry for entry in asked if not is_respondent(entry)] or asked
        shared = ranked_tasks(asked, column) if asked else frozenset()
        complete = {entry.name for entry in alike if shared <= set(tasks_in(entry, column))}
        ranked = [entry for entry in asked if entry.name in complete and not predicted]
        of = verdicts(ranked, column, sorted(shared), Pool(alike, noise or {}))
        better = {e.name: int(n) for e, n in zip(ranked, (of < 0).sum(axis=1), strict=True)}
        worse = {e.name: int(n) for e, n in zip(ranked, (of > 0).sum(axis=1), strict=True)}
        for entry in alike:
            name, best, worst = entry.name, None, None
            if name in better and len(ranked) > 1:
                best, worst = 1 + better[name], len(ranked) - worse[name]
            mean = group_mean(entry, column)
            by_name[name] = Standing(mean, name in complete, best, worst, len(shared), len(ranked))
    return by_name


def correlation(entries: Iterable[Entry], column: str, other: str) -> tuple[float, int]:
    """Correlate ranks in a group with those in another task.

    Parameters
    ----------
    entries : iterable of Entry
        Of one protocol; means are over the tasks that all of them share.
    column : str
    other : str
        A key of `Entry.others`.

    Returns
    -------
    coefficient : float
        Spearman's, in [-1, 1]; NaN for fewer than three models or if all are equal.
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
