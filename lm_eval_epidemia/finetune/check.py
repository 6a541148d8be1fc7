"""Check that a note tags each of its facts once, and that each tag states its fact.

Facts are numbered, and the writer puts the words that state one into a tag: ``a [3: Hispanic] [2:
woman] who has [8, 9: never used cocaine or heroin]``. A tag is read with the record's phrases and
other words for them (`words`); outside the tags nothing may state, deny or doubt a fact. Anything
unclear counts as a fault: dropping a sound note costs one note, but keeping a wrong one teaches
something false.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lm_eval_epidemia.finetune import words
from lm_eval_epidemia.surveys.variable import Variable

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

_TAG = re.compile(r"\[\s*(\d{1,2}(?:\s*(?:,|and|&)\s*\d{1,2})*)\s*:\s*([^][]*[^][\s])\s*\]")


class Fault(NamedTuple):
    """A fault of a note.

    Attributes
    ----------
    reason : str
        In a few words, as counted on the dataset's card: "omitted".
    advice : str
        Advice to the writer.
    """

    reason: str
    advice: str


def tag_fact(number: int, text: str) -> str:
    """Put the words that state a fact into its tag."""
    return f"[{number}: {text}]"


def strip_tags(text: str) -> str:
    """Return a note without its tags."""
    return _TAG.sub(r"\2", text)


def without_facts(text: str, sign: str) -> str:
    """Return a note with a sign instead of each tag."""
    return _TAG.sub(sign, text)


def story(reply: str) -> tuple[str, list[Fault]]:
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
    if _has_parts(strip_tags(stories[0].strip())):
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


class Checker:
    """Checks notes of one survey.

    Parameters
    ----------
    variables : mapping of str to Variable
        All variables that a note of the dataset may state, as recorded.
    year : str
        The year that "that year" in a phrase means.
    """

    def __init__(self, variables: Mapping[str, Variable], year: str = "") -> None:
        self._readers = words.readers(variables, year)
        self._phrases = {phrase for reader in self._readers.values() for phrase in reader.exact}

    def faults(self, text: str, stated: Mapping[str, int]) -> list[Fault]:
        """Return the faults of a note; none if it is sound.

        Parameters
        ----------
        text : str
            One paragraph, with tags.
        stated : mapping of str to int
            Level numbers of the facts, by variable; the first one has tag number 1.
        """
        plain, names = strip_tags(text), list(stated)
        faults = []
        if (length := len(plain.split())) >= MOST_WORDS:
            advice = f"it has {length} words, write fewer than {MOST_WORDS}"
            faults.append(Fault("too long", advice))
        told: dict[str, list[int | None]] = {name: [] for name in names}
        for numbers, content in _TAG.findall(text):
            places = [int(number) - 1 for number in re.findall(r"\d+", numbers)]
            for place in places:
                if place in range(len(names)):
                    reader = self._readers[names[place]]
                    level = reader.level(words.normalise(content), alone=len(places) == 1)
                    told[names[place]].append(level)
                else:
                    faults.append(Fault("bad tag", f"there is no fact with the number {place + 1}"))
        if "[" in plain or "]" in plain:
            faults.append(Fault("bad tag", "write a tag as [1: words]"))
        outside = words.normalise(without_facts(text, " ~ "))
        if words.NUMBER.search(outside):
            faults.append(Fault("bad tag", "write no number outside of the tags"))
        if words.doubts(outside):
            advice = "write words such as 'never', 'not', or 'may' inside of the tags only"
            faults.append(Fault("unclear", advice))
        faults += self._of_facts(text, stated, told)
        return faults

    def _of_facts(
        self, text: str, stated: Mapping[str, int], told: Mapping[str, list[int | None]]
    ) -> Iterator[Fault]:
        plain, names = words.normalise(strip_tags(text)), list(stated)
        for name, reader in self._readers.items():
            number = names.index(name) + 1 if name in stated else 0
            again = reader.mentioned(words.normalise(self._without(text, number)))
            if not number:
                if again or not reader.agrees(plain, -1):
                    advice = f"say nothing about {name.replace('_', ' ')}"
                    yield Fault("not among the facts", advice)
                continue
            fact, levels = f"that the person {reader.phrases[stated[name]]}", told[name]
            if not levels:
                yield Fault("omitted", f"it does not say {fact} in a tag with the number {number}")
            elif any(level not in (stated[name], None) for level in levels):
                yield Fault("contradicted", f"it says otherwise than {fact}")
            elif None in levels:
                yield Fault("unclear", f"it does not clearly say {fact}")
            elif len(levels) > 1 or again:
                yield Fault("said twice", f"it says more than once {fact}")
            if not reader.agrees(plain, stated[name]):
                yield Fault("contradicted", f"it has words that go against {fact}")

    def _without(self, text: str, number: int) -> str:
        """Remove the tags of a fact, and those that contain only a phrase of the record."""

        def kept(tag: re.Match[str]) -> str:
            own = str(number) in re.findall(r"\d+", tag[1])
            return "~" if own or words.normalise(tag[2]) in self._phrases else tag[2]

        return _TAG.sub(kept, text)
