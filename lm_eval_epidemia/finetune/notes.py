"""Notes about sampled people: written, checked against their facts, written again, or dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from lm_eval_epidemia.benchmarks.prior.quantities.wording import named
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.finetune.check import MOST_WORDS, Checker, Fault, bare, story, tagged
from lm_eval_epidemia.finetune.facts import People
from lm_eval_epidemia.finetune.template import forms, note, subjects
from lm_eval_epidemia.finetune.words import dated
from lm_eval_epidemia.surveys.record import Record

#: How often a note that is at fault is written again.
AGAIN = 3

_REQUEST = (
    "Write a short, believable story about one {noun}, in which every one of these facts is told "
    "exactly once:\n{facts}\n"
    "Rules: one paragraph of fewer than {most} words. Put the words that tell a fact into square "
    "brackets with its number, as in {example}, and words such as 'never' and 'not' with them. "
    "Facts told in the same words share their brackets, as in [1, 2: words]. Tell each fact "
    "plainly and do not come back to it: outside of the brackets write no number, no 'never' or "
    "'not', and nothing that a fact is about, of this {noun} or of anybody else. Make up daily "
    "life around them, but no other age, origin, schooling, or use of any substance or service. "
    "No heading, no list. Put the story between <story> and </story>, and write nothing else."
)
_WRITE_AGAIN = "\nAn earlier attempt was not accepted: {faults}."


class Writer(Protocol):
    """A model that writes: maps requests and the attempt's number to replies."""

    def __call__(self, requests: Sequence[str], attempt: int) -> list[str]: ...


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


def written(people: People, checker: Checker, attempt: Attempt) -> Notes:
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
    reasons = Counter(
        reason for person_ in waiting for reason in {f.reason for f in faults[person_]}
    )
    counts = {"written again": again, "dropped": len(waiting)}
    counts |= {f"dropped: {reason}": number for reason, number in sorted(reasons.items())}
    if not kept:
        why = ", ".join(f"{reason} ({number})" for reason, number in reasons.most_common())
        raise EpidemiaError(
            f"none of {len(people)} notes states each of its facts once, in {1 + AGAIN} "
            f"attempts: {why}. Take a larger --writer that follows instructions, or --writer "
            "template"
        )
    counts["sentence forms"] = len(set().union(*map(forms, kept.values())))
    return Notes([bare(kept[person]) for person in sorted(kept)], sorted(kept), counts)


def by_template(people: People, record: Record, vintage: str, rng: np.random.Generator) -> Attempt:
    """Write notes in sentences made from the record's phrases."""
    about = subjects(record, vintage, people.variables)
    survey, year = named(record, vintage), record.vintages[vintage].said

    def about_one(person: int) -> str:
        return note(people.stated(person), people.variables, about, survey, year, rng)

    return lambda waiting, _faults, _number: [(about_one(person), []) for person in waiting]


def by_model(people: People, record: Record, vintage: str, writer: Writer) -> Attempt:
    """Have notes written by a model; a second request names the faults of the first note."""
    about = subjects(record, vintage, people.variables)
    year = record.vintages[vintage].said

    def attempt(
        waiting: Sequence[int], faults: Mapping[int, list[Fault]], number: int
    ) -> list[tuple[str, list[Fault]]]:
        requests = [
            request(people, person, about, year, faults.get(person, [])) for person in waiting
        ]
        return [story(reply) for reply in writer(requests, number)]

    return attempt


def request(
    people: People, person: int, about: Mapping[str, str], year: str, faults: Sequence[Fault] = ()
) -> str:
    """Ask for a note about a person."""
    told = [
        f"{about[name] or 'the person'} {dated(people.variables[name].levels[level].phrase, year)}"
        for name, level in people.stated(person).items()
    ]
    asked = _REQUEST.format(
        noun="household" if any(about.values()) else "person",
        facts="".join(f"{number}. {fact}\n" for number, fact in enumerate(told, 1)),
        most=MOST_WORDS,
        example=tagged(1, told[0]),
    )
    if faults:
        asked += _WRITE_AGAIN.format(
            faults="; ".join(dict.fromkeys(fault.advice for fault in faults))
        )
    return asked
