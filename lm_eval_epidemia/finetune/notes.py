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
from lm_eval_epidemia.finetune.check import WORDS, Fault
from lm_eval_epidemia.finetune.facts import People
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


#: From numbers of people, the faults of their last notes and the attempt's number to texts with the
#: numbers of facts in brackets, each with its faults.
Attempt = Callable[[Sequence[int], Mapping[int, list[Fault]], int], list[tuple[str, list[Fault]]]]


def collect_notes(people: People, year: str, attempt: Attempt) -> Notes:
    """Have a note written about each person, and keep those without a fault.

    Parameters
    ----------
    people : People
    year : str
        What "that year" in a phrase is.
    attempt : Attempt
        Writes the notes.

    Raises
    ------
    EpidemiaError
        If none is kept, with the faults.
    """
    kept: dict[int, str] = {}
    faults: dict[int, list[Fault]] = {}
    seen: set[str] = set()
    waiting, again = list(range(len(people))), 0
    for number in range(1 + AGAIN):
        again += len(waiting) if number else 0
        texts = attempt(waiting, faults, number)
        for person, (text, found) in zip(waiting, texts, strict=True):
            faults[person] = found
            if found:
                continue
            note = check.fill_slots(text, list_phrases(people, person, year))
            if (length := len(note.split())) >= check.MOST_WORDS:
                advice = f"it has {length} words, write fewer than {check.MOST_WORDS}"
                faults[person] = [Fault("too long", advice)]
            else:
                kept[person] = note
                seen |= forms(text)
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
            f"{why}: take a larger --writer that follows instructions, or --writer template"
        )
    counts["sentence forms"] = len(seen)
    return Notes([kept[person] for person in sorted(kept)], sorted(kept), counts)


def list_phrases(people: People, person: int, year: str) -> list[str]:
    """Return the record's phrases for the facts of a person."""
    return [
        people.variables[name].levels[level].phrase.replace("that year", year or "that year")
        for name, level in people.stated(person).items()
    ]


def make_template_notes(
    people: People, record: Record, vintage: str, rng: np.random.Generator
) -> Attempt:
    """Write notes in sentences for the record's phrases."""
    about = subjects(record, vintage, people.variables)
    survey, year = name_survey(record, vintage), record.vintages[vintage].said

    def about_one(person: int) -> str:
        whose = [about[name] for name in people.stated(person)]
        return format_note(list_phrases(people, person, year), whose, survey, rng)

    return lambda waiting, _faults, _number: [(about_one(person), []) for person in waiting]


def make_model_notes(
    people: People, record: Record, vintage: str, writer: Writer, every: Mapping[str, Variable]
) -> Attempt:
    """Have notes written by a model; a second request names the faults of the first note.

    `every` has all variables that notes might tell about, including held-out ones.
    """
    about = subjects(record, vintage, people.variables)
    year = record.vintages[vintage].said

    def attempt(
        waiting: Sequence[int], faults: Mapping[int, list[Fault]], number: int
    ) -> list[tuple[str, list[Fault]]]:
        requests = [request(people, who, about, year, faults.get(who, ())) for who in waiting]
        stories = map(check.read_story, writer(requests, number))
        return [
            (text, found or check.find_faults(text, len(people.stated(who)), every))
            for who, (text, found) in zip(waiting, stories, strict=True)
        ]

    return attempt


def request(
    people: People, person: int, about: Mapping[str, str], year: str, faults: Sequence[Fault] = ()
) -> str:
    """Ask for a note about a person."""
    subject = [about[name] or "the person" for name in people.stated(person)]
    phrases = list_phrases(people, person, year)
    told = [f"{who} {phrase}" for who, phrase in zip(subject, phrases, strict=True)]
    asked = WORDS["request"].format(
        noun="household" if any(about.values()) else "person",
        facts="".join(f"{number}. {fact}\n" for number, fact in enumerate(told, 1)),
        most=check.MOST_WORDS,
        example=f"{subject[0]} [1]",
        fact=told[0],
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
    phrases: Sequence[str], about: Sequence[str], survey: str, rng: np.random.Generator
) -> str:
    """Write facts as a paragraph: each once, in random order, one to four per sentence.

    Parameters
    ----------
    phrases : sequence of str
        Of each fact; the note has its number instead, in brackets.
    about : sequence of str
        The subject of each, see `subjects`.
    survey : str
        Its name, such as "the National Survey on Drug Use and Health (NSDUH), 2022".
    rng : Generator
    """

    def one_of(texts: Sequence[str]) -> str:
        return texts[int(rng.integers(len(texts)))]

    facts = rng.permutation(len(phrases)).tolist()
    sentences = [one_of(_TEXTS["openings"]).format(survey=survey)]
    while facts:
        # One sentence is about one subject.
        same = [fact for fact in facts if about[fact] == about[facts[0]]]
        taken = same[: int(rng.integers(1, 1 + len(_TEXTS["clauses"])))]
        facts = [fact for fact in facts if fact not in taken]
        clauses = _TEXTS["clauses"][len(taken) - 1]
        if len(taken) == 2 and _contrast([phrases[fact] for fact in taken]):
            clauses = [*clauses, *_TEXTS["contrast"]]
        who = about[taken[0]] or one_of(_TEXTS["persons"])
        told = dict(zip("abcd", [f"[{fact + 1}]" for fact in taken], strict=False))
        that = "which" if who == "the household" else "who"
        text = (one_of(_TEXTS["leads"]) + one_of(clauses)).format(who=who, that=that, **told)
        sentences.append(f"{text[0].upper()}{text[1:]}.")
        if facts and rng.random() < 0.15:
            sentences.append(one_of(_TEXTS["fillers"]))
    sentences.append(one_of(_TEXTS["closings"]))
    return " ".join(sentence for sentence in sentences if sentence)


def forms(text: str) -> set[str]:
    """Return the forms of sentences with facts, without the facts and the names of people.

    Parameters
    ----------
    text : str
        With the numbers of facts in brackets.

    Returns
    -------
    set of str
        "According to the record, @, who ~, ~ and ~."
    """
    plain = re.sub(r"\[\d+\]", "~", text)
    plain = re.sub("|".join(_TEXTS["persons"]), "@", plain, flags=re.IGNORECASE)
    return {sentence for sentence in re.split(r"(?<=[.!?])\s+", plain) if "~" in sentence}


def _contrast(phrases: Sequence[str]) -> bool:
    """Return whether one of two phrases denies and the other affirms something done."""
    denied = [bool(re.search(" (?:never|not|no) ", phrase)) for phrase in phrases]
    return denied[0] != denied[1] and all(phrase.startswith("has ") for phrase in phrases)
