"""The wording: from a cell of a task to the text a model reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lm_eval_epidemia.elicit.orderings import LETTERS
from lm_eval_epidemia.surveys.record import Record, Task
from lm_eval_epidemia.surveys.variable import Variable

#: What a model that writes its answer is asked for.
ONE_LETTER = "Reply with the letter of one answer and nothing else."

#: What a subject calls one of those it is about, and many.
_MANY = {
    "person": "people",
    "household": "households",
    "family": "families",
    "adult": "adults",
    "child": "children",
    "woman": "women",
    "man": "men",
    "student": "students",
    "worker": "workers",
    "patient": "patients",
}
_NOUN = re.compile(rf"\b(?:{'|'.join(_MANY)})\b")

#: A subject's word for its conditions, which a clause with one of its own does not follow.
_RELATIVE = re.compile(r"\bwho(?:se [a-z ]+)? (?=\{conditions\})")

#: What a subject says of place, year and universe; a state that is a condition stays.
_CONTEXT = re.compile(
    r"(?: living)? in the United States (?:in|between) \{year\}"
    r"| (?:in|between) (?:the )?\{year\}(?: academic year)?| aged \d+ or older"
)
#: Where a subject can stand: "this person", not "this person's".
_THIS = re.compile(r"\bthis \w+\b(?!')")
#: What speaks of the year.
_THAT_YEAR = re.compile(r"\bthat year\b")


def _listed(phrases: Sequence[str]) -> str:
    """Join predicates as a sentence does: a / a and b / a, b, and c."""
    if len(phrases) <= 2:
        return " and ".join(phrases)
    return ", ".join(phrases[:-1]) + ", and " + phrases[-1]


def _described(
    record: Record,
    vintage: str,
    task: Task,
    ways: dict[str, Variable],
    given: Sequence[str],
    bare: bool,
) -> str:
    """Say who is asked about: 'a person ... who is female and is 30 to 34 years old'."""
    phrases, clauses = [], []
    for name, label in zip(task.given, given, strict=True):
        way = ways[name]
        phrase = next(level.phrase for level in way.levels if level.label == label)
        if way.relative:
            clauses.append(f"{way.relative} {phrase}")
        else:
            phrases.append(phrase)
    subject = record.about(task)
    if bare:
        subject = _CONTEXT.sub("", subject)
    if not phrases:
        subject = _RELATIVE.sub("", subject)
    phrases += clauses
    return subject.format(year=record.vintages[vintage].said, conditions=_listed(phrases))


def question(
    record: Record,
    vintage: str,
    task: Task,
    ways: dict[str, Variable],
    given: Sequence[str],
    bare: bool = False,
) -> str:
    """Word the question of one cell, without its answers.

    Parameters
    ----------
    record : Record
    vintage : str
    task : Task
    ways : dict of str to Variable
        How the outcome and each condition were recorded.
    given : sequence of str
        Labels of the conditions.
    bare : bool
        Without place, year and universe, as the published study asks.

    Returns
    -------
    str
        For example "Consider a person ... who is 30 to 34 years old. Has this person ever ...?";
        bare: "Has a person who is 30 to 34 years old ever ...?".
    """
    who = _described(record, vintage, task, ways, given, bare)
    asked = str(ways[task.outcome].question)  # the record of an outcome has one
    if bare:
        asked = _THAT_YEAR.sub("a year", asked)
        if len(_THIS.findall(asked)) == 1:
            return _THIS.sub(lambda _: who, asked)
    return f"Consider {who}. {asked}"


def likelihood_question(
    record: Record,
    vintage: str,
    task: Task,
    ways: dict[str, Variable],
    given: Sequence[str],
    level: int,
    bare: bool = False,
) -> str:
    """Word the question for the probability of one level in one cell; see `question`."""
    who = _described(record, vintage, task, ways, given, bare)
    said = ways[task.outcome].levels[level].phrase
    if bare:
        said = _THAT_YEAR.sub("a year", said)
    return f"What is the probability that {who} {said}?"


def hundred(record: Record, task: Task) -> str:
    """Ask for the whole distribution of the people, households, ... that a question is about."""
    found = _NOUN.search(record.about(task))
    return f"Of 100 such {_MANY[found[0]] if found else 'cases'}, how many would give each answer?"


def prompt(question: str, answers: Sequence[str], note: str = "", request: str = "") -> str:
    """Put a question and its answers, in displayed order, into the text the model continues.

    It ends with "Answer:", without a space: lm-eval moves trailing spaces of a context into the
    continuation.

    Parameters
    ----------
    question : str
    answers : sequence of str
    note : str
        A line between the question and its answers.
    request : str
        A line after the answers, for example `ONE_LETTER`.
    """
    options = [f"{letter}. {answer}" for letter, answer in zip(LETTERS, answers, strict=False)]
    return "\n".join(line for line in (question, note, *options, request, "Answer:") if line)
