"""Means over tasks, their joint errors, and how groups are cut into slices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.findings.normalise import NORMALISATIONS, normalise
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, leaf
from lm_eval_epidemia.score.joint import Draws, joint_error
from lm_eval_epidemia.score.score import Anchors

#: 1.96 standard errors to either side are an interval of 95 %.
REACH = 1.96

#: Every scale that means are put on. ``another survey`` is as the score, but 100 is what 95 % of
#: other surveys of the same population come to; ``population`` is the metric `POPULATION`.
SCALES = (*NORMALISATIONS, "another survey", "population")


class Mean(NamedTuple):
    """A mean over tasks.

    Attributes
    ----------
    value : float
    error : float
        Joint standard error, of these tasks, not of others like them; NaN where that of a task is
        not known.
    tasks : int
        How many it is over.
    """

    value: float
    error: float
    tasks: int

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of 95 % of a score, cut off at 0 and 100; NaN where there is no error."""
        reach = REACH * self.error
        return max(self.value - reach, 0.0), min(self.value + reach, 100.0)


def _mean(values: Sequence[float], draws: Sequence[Draws | None]) -> Mean:
    """Average numbers of tasks, each task counting once; NaN over no task."""
    if not values:
        return Mean(math.nan, math.nan, 0)
    return Mean(math.fsum(values) / len(values), joint_error(draws), len(values))


def tasks_in(entry: Entry, column: str) -> list[Asked]:
    """Return the tasks of a group that an entry has a score in that is a number."""
    return sorted(
        asked
        for asked, score in entry.scores.items()
        if leaf(asked).group == column and not math.isnan(score.value)
    )


def shared_tasks(entries: Iterable[Entry], column: str) -> list[Asked]:
    """Return the tasks of a group that all entries have a score in."""
    return sorted(set.intersection(*(set(tasks_in(entry, column)) for entry in entries)))


def mean_over(entry: Entry, tasks: Sequence[Asked]) -> Mean:
    """Average an entry's scores."""
    chosen = [entry.scores[asked] for asked in tasks]
    return _mean([one.value for one in chosen], [one.draws for one in chosen])


def group_mean(entry: Entry, column: str) -> Mean:
    """Average an entry's scores in a group."""
    return mean_over(entry, tasks_in(entry, column))


def population_mean(entry: Entry, tasks: Sequence[Asked]) -> Mean:
    """Average an entry's scores against the population; NaN where a task has none."""
    chosen = [entry.scores[asked] for asked in tasks]
    values = [one.metrics.get(POPULATION, math.nan) for one in chosen]
    return _mean(values, [one.population for one in chosen])


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
    found: dict[str, list[Asked]] = {}
    for asked in tasks_in(entry, column):
        if (label := leaf(asked).entry.facets.get(kind)) is not None:
            found.setdefault(label, []).append(asked)
    return {label: mean_over(entry, found[label]) for label in sorted(found)}


def normalised_means(
    entry: Entry, column: str, anchors: Mapping[str, Anchors], another: Mapping[str, float]
) -> dict[str, Mean]:
    """Average an entry's distances on every scale; see `normalise`.

    Parameters
    ----------
    entry : Entry
    column : str
    anchors : mapping
        Of every available task.
    another : mapping of str to float
        D_perfect over other surveys of the population, of every task where it is known.

    Returns
    -------
    dict of str to Mean
        By scale, those of `SCALES` that are known. Those of a distance are not where the anchors
        are not of the questions asked (another truth, a part of the cells) or the file has no
        distance. Errors are known of the score, and against the population.
    """
    tasks = tasks_in(entry, column)
    if entry.reference or not tasks:
        return {}
    found = {"population": population_mean(entry, tasks)}
    scores = [entry.scores[one] for one in tasks]
    if not entry.protocol.truth and all(
        one.task in anchors and score.seen >= 1 for one, score in zip(tasks, scores, strict=True)
    ):
        for how in (*NORMALISATIONS, "another survey"):
            values = [
                _scaled(how, score.l1, anchors[one.task], another.get(one.task, math.nan))
                for one, score in zip(tasks, scores, strict=True)
            ]
            known = [score.draws if how == "score" else None for score in scores]
            found[how] = _mean(values, known)
    return {how: found[how] for how in SCALES if how in found and not math.isnan(found[how].value)}


def _scaled(how: str, distance: float, found: Anchors, another: float) -> float:
    """Put a distance on a scale; NaN where the scale's D_perfect is not known."""
    if how != "another survey":
        return normalise(distance, found, how)
    other = found._replace(perfect=another)
    return math.nan if math.isnan(another) else normalise(distance, other, "score")


def worth(entry: Entry, column: str) -> float:
    """Return what to sort entries by, the best first: whoever was not asked comes last."""
    value = group_mean(entry, column).value
    if math.isnan(value):
        return math.inf
    return -value if groups()[column].measure.higher_is_better else value
