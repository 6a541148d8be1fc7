"""Check the stories that a model writes around facts.

The writer puts the number of a fact into brackets where its words belong: ``Ana, who [2], works at
a bakery and [8]``. The record's own phrase takes its place, so a note states each fact exactly.
Outside of the brackets nothing may state, deny or doubt one; what might is a fault: dropping a
sound story costs one note, but keeping a wrong one teaches something false.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.surveys.variable import Variable

#: What is too long for code.
WORDS = read_yaml(__package__, "words.yaml")

#: As in the study: a note has fewer words.
MOST_WORDS = 200

_STORY_TAGS = re.compile(r"</?\s*story\s*>", re.IGNORECASE)
_STORY = re.compile(r"<story>(.*?)</story>", re.DOTALL | re.IGNORECASE)

#: A line that is a heading or an item of a list: marked so, or short and without an end.
_MARKED = re.compile(
    r"\s*(?:#+\s|[-*•+\u2013\u2014]\s|\d{1,2}[.)]\s|\(?[a-z]\)\s|\|)"
    r"|\s*(\*\*|__).+?\1:?\s*$"
)
_SHORT = 10

_SLOT = re.compile(r"\[(\d{1,2})\]")

#: Words that may state, deny or doubt a fact.
_TELLING = re.compile("|".join(p.replace("\n", "") for p in WORDS["telling"].values()))
_SILENT = set(WORDS["silent"].split())


class Fault(NamedTuple):
    """A fault of a story.

    Attributes
    ----------
    reason : str
        In a few words, as counted on the dataset's card: "omitted".
    advice : str
        Advice to the writer.
    """

    reason: str
    advice: str


def fill_slots(text: str, phrases: Sequence[str]) -> str:
    """Put the phrase of each fact in place of its number."""
    return _SLOT.sub(lambda slot: phrases[int(slot[1]) - 1], text)


def read_story(reply: str) -> tuple[str, list[Fault]]:
    """Extract the story from a model's reply.

    Returns
    -------
    str
        The text between the tags, as one paragraph; empty unless there is exactly one story.
    list of Fault
        Faults of the reply as a whole.
    """
    stories = _STORY.findall(reply)
    if len(stories) > 1:
        return "", [Fault("several stories", "there are several stories, write one")]
    if not stories or not stories[0].strip() or _STORY_TAGS.search(stories[0]):
        return "", [Fault("no story", "put one story between <story> and </story>")]
    faults = []
    if _STORY.sub("", reply).strip():
        faults.append(Fault("text outside the story", "write nothing outside the tags"))
    if _has_parts(stories[0].strip()):
        faults.append(Fault("heading or list", "write plain sentences without heading or list"))
    return " ".join(stories[0].split()), faults


def _has_parts(text: str) -> bool:
    if any(_MARKED.match(line) for line in text.splitlines() if line.strip()):
        return True
    # A title stands alone on its line; a wrapped line goes on in the next.
    blocks = [block.strip() for block in re.split(r"\n\s*\n|\n(?=\s*[A-Z])", text) if block.strip()]
    return any(block.endswith(":") for block in blocks) or any(
        len(block.split()) <= _SHORT and block[-1] not in ".!?\"'\u201d\u2019)"
        for block in blocks[:-1]
    )


def find_faults(text: str, facts: int, variables: Mapping[str, Variable]) -> list[Fault]:
    """Return the faults of a story; none if it is sound.

    Parameters
    ----------
    text : str
        One paragraph, with the numbers of facts in brackets.
    facts : int
        How many there are.
    variables : mapping of str to Variable
        All variables that the notes of the dataset may state: none of their words may stand outside
        of the brackets.
    """
    told = Counter(map(int, _SLOT.findall(text)))
    outside = _SLOT.sub(" ~ ", text).casefold().replace("\u2019", "'")
    faults = [
        Fault("omitted", f"put [{number}] where this fact belongs")
        for number in range(1, 1 + facts)
        if number not in told
    ]
    for number, times in told.items():
        if not 1 <= number <= facts:
            faults.append(Fault("bad tag", f"there is no fact with the number {number}"))
        elif times > 1:
            faults.append(Fault("said twice", f"write [{number}] only once"))
    if "[" in outside or "]" in outside:
        faults.append(Fault("bad tag", "write only the number of a fact in brackets, as [1]"))
    levels = (level for variable in variables.values() for level in variable.levels)
    stems = _find_stems(" ".join(f"{level.phrase} {level.label}" for level in levels))
    telling = {match[0] for match in _TELLING.finditer(outside)}
    telling |= {word for stem, word in _find_stems(outside).items() if stem in stems}
    if telling:
        advice = f"outside of the brackets write no words such as {few(sorted(telling))}"
        faults.append(Fault("told outside of brackets", advice))
    return faults


def _find_stems(text: str) -> dict[str, str]:
    """Return the words of a text that say something, by what is left without their ending."""
    words = set(re.findall(r"[a-z]{3,}", text.casefold())) - _SILENT
    return {
        re.sub(r"(?:ed|ing|ic|s)$", "", word) if len(word) > 4 else word: word for word in words
    }
