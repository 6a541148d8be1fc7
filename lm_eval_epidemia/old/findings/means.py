"""Means over tasks, their joint errors, and how groups are cut into slices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from lm_eval_epidemia.benchmarks import groups, in_way, leaves, unions
from lm_eval_epidemia.elicit.way import Metric
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.old.findings.normalise import NORMALISATIONS, normalise
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.score.collect import LOW_MASS
from lm_eval_epidemia.score.joint import Draws, joint_error
from lm_eval_epidemia.score.score import Anchors

#: 1.96 standard errors to either side are an interval of 95 %.
REACH = 1.96

#: Every scale that means are put on. ``another survey`` is as the score, but 100 is what 95 % of
#: other surveys of the same population come to; ``population`` is the metric `POPULATION`.
SCALES = (*NORMALISATIONS, "another survey", "population")


def mean(values: Sequence[float], draws: Sequence[Draws | None]) -> Number:
    """Average numbers of tasks with equal weight; NaN without tasks.

    The error is joint for these tasks, and does not cover other tasks like them; NaN if one task's
    error is unknown.
    """
    if not values:
        return Number(math.nan)
    return Number(math.fsum(values) / len(values), joint_error(draws), len(values))


def tasks_in(entry: Entry, column: str) -> list[Asked]:
    """Return the tasks of a group in which an entry has a numeric score.

    A union has none unless the entry was asked all of it, because a part mixes its groups
    differently.
    """
    known, members = leaves(), unions().get(column, frozenset())
    named = {asked: in_way(*asked) for asked in entry.scores}
    if not members <= {*named.values()}:
        return []
    return sorted(
        asked
        for asked, name in named.items()
        if (name in members if members else known[name].group == column)
        and not math.isnan(entry.scores[asked].value)
    )


def shared_tasks(entries: Iterable[Entry], column: str) -> list[Asked]:
    """Return the tasks of a group in which all entries have a score."""
    return sorted(set.intersection(*(set(tasks_in(entry, column)) for entry in entries)))


def mean_over(entry: Entry, tasks: Sequence[Asked]) -> Number:
    """Average an entry's scores."""
    scores = [entry.scores[asked] for asked in tasks]
    return mean([score.value for score in scores], [score.draws for score in scores])


def group_mean(entry: Entry, column: str) -> Number:
    """Average an entry's scores in a group."""
    return mean_over(entry, tasks_in(entry, column))


def interval_of(number: Number, measure: Metric) -> tuple[float, float]:
    """Return 1.96 standard errors around a number, within its scale; without an error, itself."""
    reach = 0.0 if math.isnan(number.error) else REACH * number.error
    return max(number.value - reach, measure.low), min(number.value + reach, measure.high)


def population_mean(entry: Entry, tasks: Sequence[Asked]) -> Number:
    """Average an entry's scores against the population; NaN if a task has none.

    The mean and its 95 % interval are cut off at 0 and 100, but tasks are not: a respondent that
    knows the population is above 100 in some and below in others. NaN without an error.
    """
    scores = [entry.scores[asked] for asked in tasks]
    number = mean([s.population_uncut for s in scores], [s.population for s in scores])
    value, reach = min(number.value, 100.0), REACH * number.error
    return number._replace(value=value, low=max(value - reach, 0.0), high=min(value + reach, 100.0))


def choice_mass(entry: Entry, tasks: Iterable[Asked]) -> float:
    """Average `choice_mass` over the tasks that have it; NaN if none has."""
    return _known_mean(entry, tasks, "choice_mass")


def _known_mean(entry: Entry, tasks: Iterable[Asked], metric: str) -> float:
    values = [entry.scores[asked].metrics.get(metric, math.nan) for asked in tasks]
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def too_low(entry: Entry, column: str) -> dict[str, float]:
    """Return the metrics that show a model not answering a group's questions, with their means.

    ``choice_mass``, or ``answered``, the share of replies that could be read.
    """
    tasks = tasks_in(entry, column)
    known = {metric: _known_mean(entry, tasks, metric) for metric in ("choice_mass", "answered")}
    return {metric: mean for metric, mean in known.items() if mean < LOW_MASS}


def answers(entry: Entry, column: str) -> bool:
    """Whether a model answers a group's questions; else its score does not show its knowledge."""
    return not too_low(entry, column)


def is_silent(entry: Entry, columns: Iterable[str]) -> bool:
    """Whether a model answers in none of the groups that it was asked."""
    asked = [column for column in columns if tasks_in(entry, column)]
    return bool(asked) and not any(answers(entry, column) for column in asked)


def facets(entries: Iterable[Entry], column: str) -> list[str]:
    """Return the facets that can slice a group's asked tasks, in order."""
    tasks = [asked for entry in entries for asked in tasks_in(entry, column)]
    return list(dict.fromkeys(kind for asked in tasks for kind in leaf(asked).entry.facets))


def slices(entry: Entry, column: str, kind: str) -> dict[str, Number]:
    """Average an entry's scores in a group by a facet of its tasks, such as the survey.

    Returns
    -------
    dict of str to Number
        By the slice's label, in order.
    """
    parts: dict[str, list[Asked]] = {}
    for asked in tasks_in(entry, column):
        if (label := leaf(asked).entry.facets.get(kind)) is not None:
            parts.setdefault(label, []).append(asked)
    return {label: mean_over(entry, parts[label]) for label in sorted(parts)}


def normalised_means(
    entry: Entry, column: str, anchors: Mapping[str, Anchors], another: Mapping[str, float]
) -> dict[str, Number]:
    """Average an entry's distances on every scale; see `normalise`.

    Parameters
    ----------
    entry : Entry
    column : str
    anchors : mapping
        For every available task.
    another : mapping of str to float
        D_perfect over other surveys of the population, for every task with a known value.

    Returns
    -------
    dict of str to Number
        By scale, those of `SCALES` that are known. Scales of distances are unknown if the anchors
        do not belong to the questions asked (another truth, a part of the cells) or the file has no
        distance. The score and the score against the population have errors.
    """
    tasks = tasks_in(entry, column)
    if entry.reference or not tasks:
        return {}
    scales = {"population": population_mean(entry, tasks)}
    scores = {asked: entry.scores[asked] for asked in tasks}
    whole = all(asked.task in anchors and score.seen >= 1 for asked, score in scores.items())
    if whole and not entry.protocol.truth:
        for how in (*NORMALISATIONS, "another survey"):
            values = [
                _scaled(how, score.l1, anchors[asked.task], another.get(asked.task, math.nan))
                for asked, score in scores.items()
            ]
            draws = [score.draws if how == "score" else None for score in scores.values()]
            scales[how] = mean(values, draws)
    known = {how for how, number in scales.items() if not math.isnan(number.value)}
    return {how: scales[how] for how in SCALES if how in known}


def _scaled(how: str, distance: float, anchors: Anchors, another: float) -> float:
    """Put a distance on a scale; NaN if the scale's D_perfect is unknown."""
    if how != "another survey":
        return normalise(distance, anchors, how)
    other = anchors._replace(perfect=another)
    return math.nan if math.isnan(another) else normalise(distance, other, "score")


def worth(entry: Entry, column: str) -> float:
    """Return the sort key of entries: the best first, those not asked last."""
    value = group_mean(entry, column).value
    if math.isnan(value):
        return math.inf
    return -value if groups()[column].measure.higher_is_better else value
