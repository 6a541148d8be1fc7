"""The tasks: ``inspect eval lm_eval_epidemia/epidemia_low --model ...``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from rich.markup import escape

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.inspect_ai.scoring import SCORERS, format_shares

#: Ways of asking available in Inspect, and the generation arguments of each.
GENERATED: dict[str, dict[str, Any]] = {
    "letters": {"temperature": 0.0, "max_tokens": 1, "logprobs": True, "top_logprobs": 20},
    "stated": {"temperature": 0.0, "max_tokens": 1024},
}

#: Of the orderings of letters, unless others are asked for: each answer once in each position.
BALANCED = "balanced"

#: Stands for every survey. None does not: Inspect reads it from ``-T survey=``.
EVERY = "all"


class NotAsked(EpidemiaError, PrerequisiteError):
    """A question that cannot be asked: `inspect` prints its message without a traceback."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = escape(message)


def iterate_questions(
    group: str, way: str, surveys: Sequence[str], orderings: str | int
) -> Iterator[dict[str, Any]]:
    """Yield the questions of a group.

    Parameters
    ----------
    group : str
        ``"epidemia_low"`` or ``"epidemia_high"``.
    way : {"letters", "stated"}
    surveys : sequence of str
        Only these surveys; all if empty.
    orderings : str or int
        As in ``--metadata``; only for letters.

    Yields
    ------
    dict
        A row of the task's split, and its ``survey``, ``way``, ``levels`` and their true shares
        ``p``.

    Raises
    ------
    EpidemiaError
        If there is no such way or survey, or the way does not use `orderings`.
    """
    if way not in GENERATED:
        raise EpidemiaError(f"way={way!r} is not available here ({suggest(way, GENERATED)})")
    if way != "letters" and orderings != BALANCED:
        raise EpidemiaError(f"orderings does not change the way {way!r}: leave it out")
    entries = [entry for entry in OBSERVATION.asked(way) if entry.group == group]
    here = {entry.facets["survey"] for entry in entries}
    if unknown := [name for name in surveys if name not in here]:
        raise EpidemiaError(f"{group} has no survey {unknown[0]!r} ({suggest(unknown[0], here)})")
    variant = Variant.of({"orderings": orderings} if way == "letters" else {})
    for entry in entries:
        if (survey := entry.facets["survey"]) in (surveys or here):
            truth = OBSERVATION.ways[way].load(entry.name)
            more = {"survey": survey, "way": way, "levels": list(truth.levels)}
            for row in split(entry.name, way, variant):
                yield {**row, **more, "p": truth.p[row["cell"]].tolist()}


@task
def epidemia_low(
    way: str = "letters", survey: str | list[str] = EVERY, orderings: str | int = BALANCED
) -> Task:
    """Ask for survey answers of people about whom one thing is known.

    Parameters
    ----------
    way : {"letters", "stated"}
        "letters" reads the log-probabilities of letters as first token; "stated" reads shares from
        a written reply.
    survey : str or list of str
        Only these surveys, for example ``nsduh,scf``; "all" includes every survey.
    orderings : str or int
        Orderings of the answers, only for letters: "balanced" (each answer once in each position),
        "all", "random:N" or 1. lm-eval's tasks use all orderings by default.
    """
    return _make_task("epidemia_low", way, survey, orderings)


@task
def epidemia_high(
    way: str = "letters", survey: str | list[str] = EVERY, orderings: str | int = BALANCED
) -> Task:
    """Ask for survey answers of people about whom two to five things are known.

    Parameters are those of `epidemia_low`.
    """
    return _make_task("epidemia_high", way, survey, orderings)


def _make_task(group: str, way: str, survey: str | list[str], orderings: str | int) -> Task:
    notices.forget()
    try:
        rows = list(iterate_questions(group, way, _surveys(survey), orderings))
    except EpidemiaError as error:
        raise NotAsked(str(error)) from error
    tasks = len({row["task"] for row in rows})
    samples, asked = [], Counter[tuple[str, int]]()
    for row in rows:
        cell = row["task"], row["cell"]
        asked[cell] += 1
        samples.append(
            Sample(
                id=f"{row['task']}.{row['cell']}.{asked[cell]}",
                input=row.pop("prompt"),
                target=format_shares(row["levels"], row["p"]),
                metadata={**row, "tasks": tasks},
            )
        )
    return Task(
        dataset=MemoryDataset(samples, name=group),
        scorer=SCORERS[way](),
        config=GenerateConfig(**GENERATED[way]),
        version=OBSERVATION.groups_version + OBSERVATION.ways[way].revision,
    )


def _surveys(survey: object) -> list[str]:
    """Return the names of surveys that were given; none where all are asked."""
    given = survey if isinstance(survey, list | tuple) else [] if survey is None else [survey]
    # A number (-T survey=5) is no survey's name either, and the error says which there are.
    names = split_names(map(str, given))
    if not names:
        raise EpidemiaError(
            "survey is empty: name surveys, as in survey=nsduh,scf, or leave it out"
        )
    return [] if names == [EVERY] else names
