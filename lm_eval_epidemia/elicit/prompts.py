"""The wording: from a cell of a task to the text a model reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

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


class TaskQuestions(NamedTuple):
    """Words the questions of one task, as one vintage of its survey recorded it.

    Attributes
    ----------
    record : Record
    vintage : str
    task : Task
    ways : dict of str to Variable
        How the outcome and each condition were recorded.
    bare : bool
        Without place, year and universe, as the published study asks.
    """

    record: Record
    vintage: str
    task: Task
    ways: dict[str, Variable]
    bare: bool = False

    def question(self, given: Sequence[str]) -> str:
        """Word the question of one cell, without its answers.

        Parameters
        ----------
        given : sequence of str
            Labels of the conditions.

        Returns
        -------
        str
            For example "Consider a person ... who is 30 to 34 years old. Has this person ever
            ...?"; bare: "Has a person who is 30 to 34 years old ever ...?".
        """
        who = self._who(given)
        asked = str(self.ways[self.task.outcome].question)  # the record of an outcome has one
        if self.bare:
            asked = _THAT_YEAR.sub("a year", asked)
            if len(_THIS.findall(asked)) == 1:
                return _THIS.sub(lambda _: who, asked)
        return f"Consider {who}. {asked}"

    def probability(self, given: Sequence[str], level: int) -> str:
        """Word the question for the probability of one level in one cell; see `question`."""
        phrase = self.ways[self.task.outcome].levels[level].phrase
        if self.bare:
            phrase = _THAT_YEAR.sub("a year", phrase)
        return f"What is the probability that {self._who(given)} {phrase}?"

    def hundred(self) -> str:
        """Ask for the whole distribution of the people, households, ... it is about."""
        noun = _NOUN.search(self.record.about(self.task))
        return (
            f"Of 100 such {_MANY[noun[0]] if noun else 'cases'}, how many would give each answer?"
        )

    def _who(self, given: Sequence[str]) -> str:
        """Say who is asked about: 'a person ... who is female and is 30 to 34 years old'."""
        phrases, clauses, by_name = [], [], {}
        for name, label in zip(self.task.given, given, strict=True):
            way = self.ways[name]
            phrase = next(level.phrase for level in way.levels if level.label == label)
            by_name[name] = phrase
            if way.relative:
                clauses.append(f"{way.relative} {phrase}")
            else:
                phrases.append(phrase)
        subject = self.record.about(self.task)
        if self.bare:
            subject = _CONTEXT.sub("", subject)
        if not phrases:
            subject = _RELATIVE.sub("", subject)
        year = self.record.vintages[self.vintage].said
        return subject.format(**by_name, year=year, conditions=_listed(phrases + clauses))


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
