"""The tasks: ``inspect eval lm_eval_epidemia/epidemia_low --model ...``."""

from __future__ import annotations

from collections import Counter

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from rich.markup import escape

from lm_eval_epidemia.benchmarks import OBSERVATION
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.inspect_ai.questions import BALANCED, GENERATED, questions
from lm_eval_epidemia.inspect_ai.scoring import SCORERS, in_words

#: Stands for every survey. None does not: Inspect reads it from ``-T survey=``.
EVERY = "all"


class NotAsked(EpidemiaError, PrerequisiteError):
    """A question that cannot be asked: `inspect` prints its message without a traceback."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = escape(message)


@task
def epidemia_low(
    way: str = "letters",
    survey: str | list[str] = EVERY,
    orderings: str | int = BALANCED,
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
    return _task("epidemia_low", way, survey, orderings)


@task
def epidemia_high(
    way: str = "letters",
    survey: str | list[str] = EVERY,
    orderings: str | int = BALANCED,
) -> Task:
    """Ask for survey answers of people about whom two to five things are known.

    Parameters are those of `epidemia_low`.
    """
    return _task("epidemia_high", way, survey, orderings)


def _task(group: str, way: str, survey: str | list[str], orderings: str | int) -> Task:
    notices.forget()
    try:
        rows = list(questions(group, way, _surveys(survey), orderings))
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
                target=in_words(row["levels"], row["p"]),
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
    names = separated(map(str, given))
    if not names:
        raise EpidemiaError(
            "survey is empty: name surveys, as in survey=nsduh,scf, or leave it out to use all"
        )
    return [] if names == [EVERY] else names
