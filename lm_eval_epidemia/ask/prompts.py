"""Wording: from a cell of a task to the text that a model reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task
from lm_eval_epidemia.surveys.record import Record, Task
from lm_eval_epidemia.surveys.variable import Variable

#: The request to a model that writes its answer.
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

#: From one of those it is about to many, who are old in fewer words.
_ONE = re.compile(rf"\ban? (\w+ )??({'|'.join(_MANY)})\b(?! income)")
_PLURAL = re.compile(r"( who| and|,) (has|is|was|does|lives)\b")
_AGED = re.compile(r"\bwho are ([^,]+) years? old( or older| or younger)?$")

#: What a subject says of place, year and universe; a state that is a condition stays.
_CONTEXT = re.compile(
    r"(?: living)? in the United States (?:in|between) \{year\}"
    r"| (?:in|between) (?:the )?\{year\}(?: academic year)?"
    r"| (?:in|around) \d{4}| aged \d+ or older"
)
#: The same where the year is a condition.
_CONTEXT_BUT_YEAR = re.compile(r"(?: living)? in the United States| aged \d+ or older")
#: Where a subject can stand: "this person", not "this person's".
_THIS = re.compile(r"\bthis \w+\b(?!')")

#: Wordings by name: who is asked about, and what is asked; the usual one is "". "bare" leaves out
#: place, year and universe besides, as the published study does.
WORDINGS = {
    "": "Consider {who}. {asked}",
    "bare": "Consider {who}. {asked}",
    "random": "Suppose you choose at random {who}. {asked}",
    "majority": "Consider {who}. {asked} Which answer is true of the largest number of 100 such "
    "{many}?",
    "item": "[{survey}, {year}] The respondent is {who}. {asked}",
}
#: The same where the probability of an answer is asked for.
PROBABILITIES = {
    "": "What is the probability that {who} {phrase}?",
    "bare": "What is the probability that {who} {phrase}?",
    "random": "Suppose you choose at random {who}. What is the probability that this {noun} "
    "{phrase}?",
}
#: From a question about somebody to that person.
_VERBS = {"has": "have", "had": "had", "is": "are", "was": "were", "does": "do"}
_VERB = re.compile(rf"\b({'|'.join(_VERBS)}) this (?:person|adult|woman|man)\b(?!')", re.IGNORECASE)
_TO_YOU = {
    r"this (?:person|adult|woman|man) has": "you have",
    r"this (?:person|adult|woman|man)'s": "your",
    r"this (?:person|adult|woman|man)": "you",
    "this household": "your household",
    "(?:they|she)": "you",
    "their": "your",
}


def address_person(question: str) -> str:
    """Address a question about a person to them: "Has this person ...?", "Have you ...?"."""

    def addressed(match: re.Match[str]) -> str:
        verb = _VERBS[match[1].lower()]
        return f"{verb.capitalize() if match[1][0].isupper() else verb} you"

    question = _VERB.sub(addressed, question)
    for words, others in _TO_YOU.items():
        question = re.sub(rf"\b{words}\b", others, question)
    return question


#: What speaks of the year.
_THAT_YEAR = re.compile(r"\bthat year\b")


def join_phrases(phrases: Sequence[str]) -> str:
    """Join predicates as a sentence does: a / a and b / a, b, and c."""
    if len(phrases) <= 2:
        return " and ".join(phrases)
    return ", ".join(phrases[:-1]) + ", and " + phrases[-1]


class TaskQuestions(NamedTuple):
    """Words the questions of one task for one vintage of its survey.

    Attributes
    ----------
    record : Record
    vintage : str
    task : Task
    ways : dict of str to Variable
        How the outcome and each condition were recorded.
    wording : str
        One of `WORDINGS`.
    """

    record: Record
    vintage: str
    task: Task
    ways: dict[str, Variable]
    wording: str = ""

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
        form = WORDINGS[self.wording]
        if self.wording == "bare":
            asked = _THAT_YEAR.sub("a year", asked)
            if len(_THIS.findall(asked)) == 1:
                return _THIS.sub(lambda _: who, asked)
        if self.wording == "item" and self.record.vintages[self.vintage].tables:
            # Of a published table nobody was a respondent.
            form = form.replace("The respondent is", "Consider")
        elif self.wording == "item":
            asked = address_person(asked)
        known = {"who": who, "asked": asked, "many": _MANY.get(self._noun, "cases")}
        year = dict(zip(self.task.given, given, strict=True)).get("year", self._year)
        return form.format(**known, survey=self.record.title, year=year)

    def probability(self, given: Sequence[str], level: int) -> str:
        """Word the question for the probability of one level in one cell; see `question`."""
        phrase = self.ways[self.task.outcome].levels[level].phrase
        if self.wording == "bare":
            phrase = _THAT_YEAR.sub("a year", phrase)
        if (form := PROBABILITIES.get(self.wording)) is None:
            raise EpidemiaError(
                f"wording {self.wording!r} asks for an answer, not a probability: use it with "
                f"letters ({self.task.group})"
            )
        return form.format(who=self._who(given), phrase=phrase, noun=self._noun or "one")

    def hundred(self) -> str:
        """Ask for the whole distribution of the people, households, ... it is about."""
        if self.wording == "majority":
            raise EpidemiaError(
                "wording 'majority' asks for one answer, not numbers of people: use it with "
                f"letters ({self.task.group})"
            )
        if not self._noun:
            return "Of 100 such cases, to how many would each answer apply?"
        return f"Of 100 such {_MANY[self._noun]}, how many would give each answer?"

    @property
    def _noun(self) -> str:
        """What its subject calls one of those it is about; empty if these are no people."""
        noun = _NOUN.search(self.record.about(self.task))
        return noun[0] if noun else ""

    @property
    def _year(self) -> str:
        return self.record.vintages[self.vintage].said

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
        if self.wording == "bare":
            context = _CONTEXT_BUT_YEAR if "year" in self.task.given else _CONTEXT
            subject = context.sub("", subject)
        if not phrases:
            subject = _RELATIVE.sub("", subject)
        known = {"year": self._year, "conditions": join_phrases(phrases + clauses)}
        return subject.format(**known | by_name)


def find_variables(truth: store.GroundTruth) -> dict[str, Variable]:
    """Return how each variable of a task was recorded in its ground truth."""
    survey = find_record(truth.survey)
    return {
        name: survey.reading(name, column, truth.vintage) for name, column in truth.columns.items()
    }


class Wording:
    """Words the questions of a task, cell by cell.

    Parameters
    ----------
    truth : GroundTruth
    wording : str
        One of `WORDINGS`.
    """

    def __init__(self, truth: store.GroundTruth, wording: str = "") -> None:
        self._task, self._given = declared_task(truth.task), truth.given
        about = find_record(truth.survey), truth.vintage, self._task, find_variables(truth)
        self._questions = TaskQuestions(*about, wording)

    def question(self, cell: int) -> str:
        """Return the question of a cell."""
        return self._questions.question(self._given[cell])

    def probability(self, cell: int, level: int) -> str:
        """Return the question for the probability of a level in a cell."""
        return self._questions.probability(self._given[cell], level)

    def hundred(self) -> str:
        """Return the question for how many of 100 such people give each answer."""
        return self._questions.hundred()

    def people(self, cell: int) -> str:
        """Say in the plural who a cell is about: "people aged 30 to 34"."""
        who = self._questions._replace(wording="bare")._who(self._given[cell])
        who = _ONE.sub(lambda found: (found[1] or "") + _MANY[found[2]], who)
        if " whose " not in who:
            many = _VERBS | {"lives": "live"}
            who = _PLURAL.sub(lambda found: f"{found[1]} {many[found[2]]}", who)
        return _AGED.sub(lambda found: f"aged {found[1]}{found[2] or ''}", who)

    def described(self, cell: int) -> list[str]:
        """Return the conditions of a cell: "age: 30-34"."""
        pairs = zip(self._task.given, self._given[cell], strict=True)
        return [f"{name}: {label}" for name, label in pairs]


def prompt(question: str, answers: Sequence[str], note: str = "", request: str = "") -> str:
    """Combine a question and its answers, in displayed order, into the prompt.

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
