"""Notes about sampled people: written, checked against their facts, written again, or dropped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.prior.quantities.wording import name_survey, subject_of
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.finetune import check
from lm_eval_epidemia.finetune.check import Checker, Fault
from lm_eval_epidemia.finetune.facts import People
from lm_eval_epidemia.finetune.words import WORDS, fill_year
from lm_eval_epidemia.surveys.record import Record
from lm_eval_epidemia.surveys.variable import Variable

#: What notes are made of without a model.
_TEXTS = WORDS["notes"]

#: How often a note that is at fault is written again.
AGAIN = 3


#: A model that writes: maps requests and the attempt's number to replies.
Writer = Callable[[Sequence[str], int], list[str]]


class Notes(NamedTuple):
    """The kept notes, and counts of the others.

    Attributes
    ----------
    text : list of str
    number : list of int
        Index of each among the requested notes.
    counts : dict of str to int
        Notes rewritten; notes dropped, in total and by fault of the last attempt; forms of
        sentences among kept notes.
    """

    text: list[str]
    number: list[int]
    counts: dict[str, int]


#: From numbers of people, the faults of their last notes and the number of the attempt to texts,
#: each with the faults of its form.
Attempt = Callable[[Sequence[int], Mapping[int, list[Fault]], int], list[tuple[str, list[Fault]]]]


def collect_notes(people: People, checker: Checker, attempt: Attempt) -> Notes:
    """Have a note written about each person, and keep those that state their facts.

    Parameters
    ----------
    people : People
    checker : Checker
        For all variables that notes might mention, including held-out ones.
    attempt : Attempt
        Writes the notes.

    Raises
    ------
    EpidemiaError
        If none is kept, with the faults.
    """
    kept: dict[int, str] = {}
    faults: dict[int, list[Fault]] = {}
    waiting, again = list(range(len(people))), 0
    for number in range(1 + AGAIN):
        again += len(waiting) if number else 0
        texts = attempt(waiting, faults, number)
        for person, (text, form) in zip(waiting, texts, strict=True):
            faults[person] = form + (checker.faults(text, people.stated(person)) if text else [])
            if not faults[person]:
                kept[person] = text
        waiting = [person for person in waiting if person not in kept]
        if not waiting:
            break
    reasons = Counter(reason for who in waiting for reason in {of.reason for of in faults[who]})
    counts = {"written again": again, "dropped": len(waiting)}
    counts |= {f"dropped: {reason}": number for reason, number in sorted(reasons.items())}
    if not kept:
        why = ", ".join(f"{reason} ({number})" for reason, number in reasons.most_common())
        raise EpidemiaError(
            f"none of {len(people)} notes states each of its facts once, in {1 + AGAIN} attempts: "
            f"{why}. Take a larger --writer that follows instructions, or --writer template"
        )
    counts["sentence forms"] = len(set().union(*map(forms, kept.values())))
    return Notes([check.strip_tags(kept[person]) for person in sorted(kept)], sorted(kept), counts)


def make_template_notes(
    people: People, record: Record, vintage: str, rng: np.random.Generator
) -> Attempt:
    """Write notes in sentences made from the record's phrases."""
    about = subjects(record, vintage, people.variables)
    survey, year = name_survey(record, vintage), record.vintages[vintage].said

    def about_one(person: int) -> str:
        return format_note(people.stated(person), people.variables, about, survey, year, rng)

    return lambda waiting, _faults, _number: [(about_one(person), []) for person in waiting]


def make_model_notes(people: People, record: Record, vintage: str, writer: Writer) -> Attempt:
    """Have notes written by a model; a second request names the faults of the first note."""
    about = subjects(record, vintage, people.variables)
    year = record.vintages[vintage].said

    def attempt(
        waiting: Sequence[int], faults: Mapping[int, list[Fault]], number: int
    ) -> list[tuple[str, list[Fault]]]:
        requests = [request(people, who, about, year, faults.get(who, ())) for who in waiting]
        return [check.story(reply) for reply in writer(requests, number)]

    return attempt


def request(
    people: People, person: int, about: Mapping[str, str], year: str, faults: Sequence[Fault] = ()
) -> str:
    """Ask for a note about a person."""
    levels = {name: variable.levels for name, variable in people.variables.items()}
    told = [
        f"{about[name] or 'the person'} {fill_year(levels[name][level].phrase, year)}"
        for name, level in people.stated(person).items()
    ]
    asked = WORDS["request"].format(
        noun="household" if any(about.values()) else "person",
        facts="".join(f"{number}. {fact}\n" for number, fact in enumerate(told, 1)),
        most=check.MOST_WORDS,
        example=check.tag_fact(1, told[0]),
    )
    if faults:
        advice = "; ".join(dict.fromkeys(fault.advice for fault in faults))
        asked += f"\nAn earlier attempt was not accepted: {advice}."
    return asked


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


def format_note(
    facts: Mapping[str, int],
    variables: Mapping[str, Variable],
    about: Mapping[str, str],
    survey: str,
    year: str,
    rng: np.random.Generator,
) -> str:
    """Write a person's facts as a paragraph: each once, in random order, one to four per sentence.

    Each is in a tag, see `check.tag_fact`.

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
    sentences = [one_of(_TEXTS["openings"]).format(survey=survey)]
    while names:
        # One sentence is about one subject.
        same = [name for name in names if about[name] == about[names[0]]]
        taken = same[: int(rng.integers(1, 1 + len(_TEXTS["clauses"])))]
        names = [name for name in names if name not in taken]
        phrases = [fill_year(variables[name].levels[facts[name]].phrase, year) for name in taken]
        clauses = _TEXTS["clauses"][len(taken) - 1]
        if len(taken) == 2 and _contrast(phrases):
            clauses = [*clauses, *_TEXTS["contrast"]]
        who = about[taken[0]] or one_of(_TEXTS["persons"])
        numbers = [order.index(name) + 1 for name in taken]
        told = dict(zip("abcd", map(check.tag_fact, numbers, phrases), strict=False))
        that = "which" if who == "the household" else "who"
        text = (one_of(_TEXTS["leads"]) + one_of(clauses)).format(who=who, that=that, **told)
        sentences.append(f"{text[0].upper()}{text[1:]}.")
        if names and rng.random() < 0.15:
            sentences.append(one_of(_TEXTS["fillers"]))
    sentences.append(one_of(_TEXTS["closings"]))
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
    plain = " ".join(check.without_facts(text, "~").split())
    plain = re.sub("|".join(_TEXTS["persons"]), "@", plain, flags=re.IGNORECASE)
    return {sentence for sentence in re.split(r"(?<=[.!?])\s+", plain) if "~" in sentence}


def _contrast(phrases: Sequence[str]) -> bool:
    """Return whether one of two phrases denies and the other affirms something done."""
    denied = [bool(re.search(" (?:never|not|no) ", phrase)) for phrase in phrases]
    return denied[0] != denied[1] and all(phrase.startswith("has ") for phrase in phrases)
