"""Names of groups, scales and columns, for the terminal and for pages."""

from __future__ import annotations

import re
from typing import Any

from lm_eval_epidemia.ask.prompts import Wording, find_variables, join_phrases
from lm_eval_epidemia.benchmarks import Benchmark, list_leaves
from lm_eval_epidemia.benchmarks.benchmark import TaskEntry
from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record, own_surveys

#: See there.
WORDS: dict[str, Any] = read_yaml(__package__, "words.yaml")


def plain_name(group: str) -> str:
    """Describe a group: "single condition", "single condition, likelihood"."""
    own = {f"epidemia_{survey}": find_record(survey).title for survey in own_surveys()}
    for name, says in (own | WORDS["groups"]).items():
        if f"{group}_".startswith(f"{name}_"):
            way = group.removeprefix(name).strip("_").replace("_", " ")
            return says + (f", {way}" if way else "")
    return group.removeprefix("epidemia_").replace("_", " ")


def describe_question(entry: TaskEntry, vintage: str = "", level: str = "") -> str:
    """Say what a task asks as a sentence does: "Ever used marijuana, by age (NSDUH 2022)".

    Parameters
    ----------
    entry : TaskEntry
    vintage : str
        Of its truth.
    level : str
        An answer that may have its own words.
    """
    source, colon, asked = entry.title.partition(": ")
    where = source if source.endswith(vintage) else f"{source} {vintage}"
    if getattr(entry.declared, "outcome", None) in WORDS["outcomes"]:
        return f"{describe_task(entry, level)} ({where})"
    if not colon:
        return entry.title
    asked = reword(asked, "questions")
    # Words in capitals are names of themselves.
    names = "|".join(WORDS["names"])
    said = re.sub(rf"\b(?!(?:{names})\b)[A-Z][a-z]+\b", lambda of: of[0].lower(), asked)
    return f"{said[:1].upper()}{said[1:]} ({where})"


def name_task(task: str) -> str:
    """Return what a task asks, by its name; a name that is none of ours as it is."""
    return describe_question(list_leaves()[task].entry) if task in list_leaves() else task


def describe_group(group: str) -> str:
    """Describe a group, with an example of its conditions if one is listed."""
    return plain_name(group) + str(WORDS["examples"].get(group, ""))


def describe_scale(benchmark: Benchmark) -> str:
    """Describe a benchmark's numbers, and the source of their errors."""
    says = WORDS["scales"].get(benchmark.name, benchmark.says)
    errors = WORDS["errors"].get(benchmark.name)
    error = f" ± standard error (of {errors})" if errors else ""
    return str(says) + error + benchmark.heading.removeprefix(benchmark.says)


def describe_outcome(outcome: str) -> str:
    """Name what a question asks, in words: "Ever used marijuana"."""
    return str(WORDS["outcomes"].get(outcome, outcome.replace("_", " ").capitalize()))


def describe_task(entry: TaskEntry, level: str = "") -> str:
    """Name a question, or a level that has its own words: "Ever used marijuana, by age"."""
    of: Any = entry.declared
    by = join_phrases([WORDS["conditions"].get(name, name) for name in of.given])
    says = WORDS["none"].get(of.outcome) if level == "0" else None
    return (says or describe_outcome(of.outcome)) + (f", by {by}" if by else "")


def reword(text: str, table: str) -> str:
    """Replace words as one of the tables of `words.yaml` says."""
    for old, new in WORDS[table].items():
        text = re.sub(old, new, text)
    return text


def say_event(truth: GroundTruth, cell: int, level: str) -> str:
    """Say what people of a cell do: "people aged 26 to 29 have ever used marijuana".

    Empty where the words of one of them cannot be said of many.
    """
    levels = find_variables(truth)[all_tasks()[truth.task].outcome].levels
    said = reword(next(of.phrase for of in levels if of.label == level), "events")
    return said and f"{Wording(truth).people(cell)} {said}"
