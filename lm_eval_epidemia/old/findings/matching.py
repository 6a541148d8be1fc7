"""Match the rows of a task that two models answered, by document, or say why that fails."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.results.documents import Answered, Key, Metric, Row, Rows, rows_of
from lm_eval_epidemia.score.paired import Answers

#: By how much a mean over documents may miss the number in the result file, by rounding.
ROUNDED = 1e-6


class Matched(NamedTuple):
    """Common rows of a task, and what is left out.

    Attributes
    ----------
    one, other : Answered
    metrics : dict of Metric to Answers
    clustered_by : str
    alone : tuple of dict of str to None
        Documents, by doc_id, that only the first was asked, and only the second.
    no_means : list of Metric
    """

    one: Answered
    other: Answered
    metrics: dict[Metric, Answers]
    clustered_by: str
    alone: tuple[dict[str, None], dict[str, None]]
    no_means: list[Metric]


class Unlike(Exception):
    """Two runs of a task that cannot be compared, and why."""


def matched(one: Answered, other: Answered, cluster: str | None) -> Matched:
    """Match the rows of a task; raise `Unlike` if they were asked differently."""
    names = one.entry.model, other.entry.model
    for what, first, second in (
        ("number of few-shot examples", one.shots, other.shots),
        ("task version", one.version, other.version),
        ("system prompt", *(run.entry.protocol.system_prompt[:8] for run in (one, other))),
    ):
        if first != second:
            values = " and ".join(value or "none" for value in (first, second))
            raise Unlike(f"{' and '.join(names)} were asked with different {what} ({values})")
    if changed := [key for key in one.config if one.config[key] != other.config[key]]:
        raise Unlike(f"the task's files differ in {few(changed)}")
    rows, others = rows_of(one, cluster), rows_of(other, cluster)
    both = [key for key in rows.by_key if key in others.by_key]
    if not both:
        raise Unlike("the two share no document (doc_id and doc_hash): the data differ")
    _check_asked(one, other, [(rows.by_key[key], others.by_key[key]) for key in both])
    metrics: dict[Metric, Answers] = {}
    no_means = []
    for metric in (metric for metric in one.metrics if metric in other.metrics):
        mine, theirs = rows.of(metric), others.of(metric)
        if not (_is_mean(one.metrics[metric], mine) and _is_mean(other.metrics[metric], theirs)):
            no_means.append(metric)
            continue
        # Of a document that only one has under this filter, nothing can be paired.
        if keys := [key for key in mine if key in theirs]:
            metrics[metric] = Answers(
                [mine[key] for key in keys],
                [theirs[key] for key in keys],
                [_cluster(key, rows.by_key[key]) for key in keys],
            )
    alone = _only_in(rows, others), _only_in(others, rows)
    return Matched(one, other, metrics, cluster or "", alone, no_means)


def _only_in(rows: Rows, others: Rows) -> dict[str, None]:
    return {key.doc_id: None for key in rows.by_key if key not in others.by_key}


def _check_asked(one: Answered, other: Answered, both: Sequence[tuple[Row, Row]]) -> None:
    """Raise `Unlike` if common documents have different prompts or right answers."""
    # Each model has its own chat template, which is part of the model; nobody can look behind it.
    if one.template == other.template and (changed := sum(a.prompt != b.prompt for a, b in both)):
        raise Unlike(
            f"{changed} of {plural(len(both), 'row')} of samples had a different prompt (other "
            "examples, another lm-eval)"
        )
    if changed := sum(a.target != b.target for a, b in both):
        raise Unlike(
            f"{changed} of {plural(len(both), 'row')} of samples have a different right answer"
        )


def _is_mean(told: float, values: Mapping[Key, float]) -> bool:
    """Whether a task's score is the mean over its documents: only such means can be paired."""
    return bool(values) and is_close(math.fsum(values.values()) / len(values), told)


def is_close(mean: float, told: float) -> bool:
    return abs(mean - told) <= ROUNDED * max(1.0, abs(told))


def _cluster(key: Key, row: Row) -> tuple[str, str]:
    """Equal documents are one observation, whatever their number or task."""
    return ("document", key.doc_hash) if row.column is None else ("column", row.column)


def left_out(pairs: Sequence[Matched]) -> list[str]:
    """Name the documents and metrics of compared tasks that are left out."""
    notes = []
    for side in (0, 1):
        tasks = {pair.one.task: list(pair.alone[side]) for pair in pairs if pair.alone[side]}
        if tasks:
            named = [f"{task}: doc_id {few(documents)}" for task, documents in tasks.items()]
            number = sum(map(len, tasks.values()))
            model = (pairs[0].one, pairs[0].other)[side].entry.model
            notes.append(
                f"left out: {plural(number, 'document')} that only {model} was asked, in "
                f"{plural(len(tasks), 'task')} "
                f"({'; '.join(named[:3])}{'; ...' * (len(named) > 3)})"
            )
    no_means: dict[Metric, list[str]] = defaultdict(list)
    for pair in pairs:
        for metric in pair.no_means:
            no_means[metric].append(pair.one.task)
    return notes + [
        (
            f"not compared: {metric} of {few(tasks)}: the score in the result file is not a mean "
            "over the documents in the samples"
        )
        for metric, tasks in no_means.items()
    ]
