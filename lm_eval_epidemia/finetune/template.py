"""Notes without a model: the record's phrases, combined in changing ways."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from lm_eval_epidemia.benchmarks.prior.quantities.wording import subject_of
from lm_eval_epidemia.finetune.check import tagged, without_facts
from lm_eval_epidemia.finetune.words import dated
from lm_eval_epidemia.surveys.record import Record
from lm_eval_epidemia.surveys.variable import Variable

#: How a person is called. A pronoun would say what sex they have.
PERSONS = (
    "the respondent",
    "this person",
    "the interviewee",
    "the participant",
    "this individual",
)

# None of these says anything about anybody.
_OPENINGS = (
    "",
    "",
    "Notes on one interview of {survey}.",
    "Here is what one person told the interviewers of {survey}.",
    "These are the answers of a single respondent to {survey}.",
    "From the files of {survey}, one record, put into words.",
    "Somebody was chosen at random to take part in {survey}.",
    "One more questionnaire of {survey} has come back.",
    "This is a short portrait, drawn from {survey}.",
)
_FILLERS = (
    "The interview was soon over.",
    "The answers were given in private.",
    "The interviewer wrote everything down.",
    "The conversation was short and friendly.",
    "Some of the questions were repeated.",
    "The questionnaire was then put aside.",
    "After a pause, the questions went on.",
    "The remaining questions came next.",
)
_CLOSINGS = (
    "",
    "",
    "",
    "That was all the questionnaire asked.",
    "With that the interview ended.",
    "Nothing else was written down.",
)
#: What a sentence of facts begins with, and how it goes on: by the number of facts, and one more
#: list where one of two is a yes and the other a no. Any beginning goes with any end.
_LEADS = (
    "",
    "according to the record, ",
    "as the questionnaire has it, ",
    "in this interview, ",
    "to go by the answers, ",
    "it was noted that ",
    "the answers show that ",
    "the record says that ",
    "the interviewer wrote that ",
    "the file says that ",
    "the notes say that ",
    "it is on record that ",
    "the form says that ",
    "the answer was that ",
)
_CLAUSES = (
    ("{who} {a}", "{who}, it turns out, {a}", "{who} is somebody who {a}"),
    (
        "{who} {a} and {b}",
        "{who} {a}, and {who} {b}",
        "{who}, {that} {a}, {b}",
        "{who} {a}; {who} also {b}",
        "{who} {a} and also {b}",
        "{who}, {that} {a}, also {b}",
    ),
    (
        "{who} {a}, {b} and {c}",
        "{who} {a}, {b}, and {c}",
        "{who}, {that} {a}, {b} and {c}",
        "{who}, {that} {a} and {b}, {c}",
        "{who} {a}, and {who} {b} and {c}",
        "{who} {a} and {b}; {who} also {c}",
    ),
    (
        "{who} {a}, {b}, {c} and {d}",
        "{who}, {that} {a} and {b}, {c} and {d}",
        "{who} {a} and {b}, and {who} {c} and {d}",
        "{who} {a}; {who} also {b}, {c} and {d}",
    ),
)
_CONTRAST = ("{who} {a} but {b}", "although {who} {a}, {who} {b}", "while {who} {a}, {who} {b}")


def subjects(record: Record, vintage: str, variables: Mapping[str, Variable]) -> dict[str, str]:
    """Return the subject of each variable: "the reference person", "the household".

    Empty for the person, who has many names.
    """
    subject = subject_of(record, vintage)
    by_name = {}
    for name, way in variables.items():
        relative = way.relative or subject.relative
        if relative.startswith("whose "):
            by_name[name] = f"the {relative.removeprefix('whose ')}"
        else:
            by_name[name] = "" if subject.noun == "person" else f"the {subject.noun}"
    return by_name


def note(
    facts: Mapping[str, int],
    variables: Mapping[str, Variable],
    about: Mapping[str, str],
    survey: str,
    year: str,
    rng: np.random.Generator,
) -> str:
    """Write a person's facts as a paragraph: each once, in random order, one to four per sentence.

    Each is in a tag, see `check.tagged`.

    Parameters
    ----------
    facts : mapping of str to int
        Level numbers, by variable.
    variables : mapping of str to Variable
    about : mapping of str to str
        See `subjects`.
    survey : str
        Its name, such as "the National Survey on Drug Use and Health (NSDUH), 2022".
    year : str
    rng : Generator
    """

    def one_of(texts: Sequence[str]) -> str:
        return texts[int(rng.integers(len(texts)))]

    order = list(facts)
    names = [order[k] for k in rng.permutation(len(facts))]
    sentences = [one_of(_OPENINGS).format(survey=survey)]
    while names:
        # One sentence is about one subject.
        same = [name for name in names if about[name] == about[names[0]]]
        taken = same[: int(rng.integers(1, 1 + len(_CLAUSES)))]
        names = [name for name in names if name not in taken]
        phrases = [dated(variables[name].levels[facts[name]].phrase, year) for name in taken]
        clauses = _CLAUSES[len(taken) - 1]
        if len(taken) == 2 and _contrast(phrases):
            clauses = (*clauses, *_CONTRAST)
        who = about[taken[0]] or one_of(PERSONS)
        numbers = [order.index(name) + 1 for name in taken]
        told = dict(zip("abcd", map(tagged, numbers, phrases), strict=False))
        that = "which" if who == "the household" else "who"
        text = (one_of(_LEADS) + one_of(clauses)).format(who=who, that=that, **told)
        sentences.append(f"{text[0].upper()}{text[1:]}.")
        if names and rng.random() < 0.15:
            sentences.append(one_of(_FILLERS))
    sentences.append(one_of(_CLOSINGS))
    return " ".join(sentence for sentence in sentences if sentence)


def forms(text: str) -> set[str]:
    """Return the forms of sentences with facts, without the facts and the names of people.

    Parameters
    ----------
    text : str
        With tags.

    Returns
    -------
    set of str
        "According to the record, @, who ~, ~ and ~."
    """
    plain = " ".join(without_facts(text, "~").split())
    plain = re.sub("|".join(PERSONS), "@", plain, flags=re.IGNORECASE)
    return {sentence for sentence in re.split(r"(?<=[.!?])\s+", plain) if "~" in sentence}


def _contrast(phrases: Sequence[str]) -> bool:
    """Return whether one of two phrases denies and the other affirms something done."""
    denied = [bool(re.search(" (?:never|not|no) ", phrase)) for phrase in phrases]
    return denied[0] != denied[1] and all(phrase.startswith("has ") for phrase in phrases)
