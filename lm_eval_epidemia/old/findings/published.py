"""Published scores of seven models, for comparison with runs: other wording, other vintages.

``published_scores.csv`` has a row per published task (group and number) and a column per model and
way of asking; a blank is a score published as NaN.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from importlib.resources import files
from itertools import chain

from lm_eval_epidemia.benchmarks import Benchmark
from lm_eval_epidemia.old.findings import published_interventions, published_priors
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore
from lm_eval_epidemia.results.protocol import Protocol
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: What published numbers are, by the benchmark's name.
_MARKS = {
    "intervention": published_interventions.MARK,
    "prior": published_priors.MARK,
}


def mark_of(benchmark: Benchmark) -> str:
    """Describe the published numbers of a benchmark."""
    return _MARKS.get(benchmark.name, "reference implementation; other wording and vintages")


def published(tasks: Iterable[Asked]) -> list[Entry]:
    """Return the published scores of the given tasks.

    Parameters
    ----------
    tasks : iterable of Asked
        Others are left out, so that means cover the same tasks as those of the runs.

    Returns
    -------
    list of Entry
        Marked as references. They have no published standard errors, except priors, whose answers
        were published.
    """
    wanted = set(tasks)
    numbers = {
        (task.group, str(task.number)): task.name for task in all_tasks().values() if task.number
    }
    text = (files(__package__) / "published_scores.csv").read_text(encoding="utf-8")
    entries: dict[str, Entry] = {}
    for row in csv.DictReader(text.splitlines()):
        task = numbers[row.pop("group"), row.pop("number")]
        for column, value in row.items():
            model, _, way = column.partition(" | ")
            asked = Asked(task, way)
            if asked in wanted and value:
                entry = entries.setdefault(
                    model, Entry(model, protocol=Protocol(published=True), reference=True)
                )
                entry.scores[asked] = TaskScore(float(value))
    others = (published_interventions.entries(wanted), published_priors.entries(wanted))
    return sorted([*entries.values(), *chain(*others)], key=lambda entry: entry.model)
