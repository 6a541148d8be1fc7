"""Put a task together whose prompts one run answered in several files (``--samples``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.results.entry import POPULATION, Asked, TaskScore, leaf
from lm_eval_epidemia.results.samples import answers_in, said_before, sample_file


def join_shards(asked: Asked, paths: Sequence[Path]) -> TaskScore | None:
    """Return the score of all answers to a task.

    Parameters
    ----------
    asked : Asked
    paths : sequence of Path
        Result files of one run, the newest last, with samples beside them.

    Returns
    -------
    TaskScore or None
        None if the newest file has all prompts that the others have.

    Raises
    ------
    EpidemiaError
        If samples are missing or damaged, or a prompt was answered in two ways.
    """
    answers: dict[tuple[int, int], Any] = {}
    newest: list[Any] = []
    for path in paths:
        if (file := sample_file(path, asked)) is None:
            raise EpidemiaError(f"{path} has no samples: run its part again with --log_samples")
        newest = answers_in(file, asked)
        for answer in newest:
            before = answers.setdefault((answer.cell, answer.place), answer)
            if before.value != answer.value:
                raise EpidemiaError(f"{path} answers prompts of the others in another way")
    if len(newest) == len(answers):
        return None
    metrics, benchmark = leaf(asked).metrics, leaf(asked).benchmark
    whole = list(answers.values())
    with said_before():
        values = {
            name: metric.of([metric.of_one(each) for each in whole] if metric.of_one else whole)
            for name, metric in metrics.items()
            if not (name.endswith("_stderr") or metric.of_text)
        }
        at, population = (
            draws(whole) if (draws := metrics[name].draws) else None
            for name in (benchmark.primary, POPULATION)
        )
        keep = metrics[benchmark.primary].kept
        said = keep(whole) if keep else None
    return TaskScore(values.pop(benchmark.primary), at, values, population, said=said)
