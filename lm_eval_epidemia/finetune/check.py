"""Does a note say its facts, each once, and none of them wrongly?

Read by the record's phrases, numbers and negations, and a list of common other words for them
(`words`). What cannot be made out counts as a fault: a sound note that is dropped costs a note, a
wrong one that is kept teaches what is not so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lm_eval_epidemia.finetune import words
from lm_eval_epidemia.finetune.clauses import clauses, is_turned, sentence_before
from lm_eval_epidemia.surveys.variable import Variable

#: As in the study: a note has fewer words.
MOST_WORDS = 200

#: Why a note is not kept, as counted in the dataset's card.
REASONS = (
    "no story",
    "several stories",
    "text outside the story",
    "heading or list",
    "too long",
    "omitted",
    "contradicted",
    "unclear",
    "said twice",
    "not among the facts",
)

_TAGS = re.compile(r"</?\s*story\s*>", re.IGNORECASE)
_STORY = re.compile(r"<story>(.*?)</story>", re.DOTALL | re.IGNORECASE)

#: A line that is a heading or an item of a list: marked so, or short and without an end.
_MARKED = re.compile(
    r"\s*(?:#+\s|[-*•+\u2013\u2014]\s|\d{1,2}[.)]\s|\(?[a-z]\)\s|\|)"
    r"|\s*(\*\*|__).+?\1:?\s*$"
)
_SHORT = 10


class Fault(NamedTuple):
    """What is wrong with a note.

    Attributes
    ----------
    reason : str
        One of `REASONS`.
    said : str
        For who writes it again.
    """

    reason: str
    said: str


class Mention(NamedTuple):
    """A place that says something of a variable; level None where it cannot be made out."""

    variable: str
    level: int | None
    start: int


def story(reply: str) -> tuple[str, list[Fault]]:
    """Take the story out of what a model wrote.

    Returns
    -------
    str
        Between the tags, as one paragraph; empty where there is not exactly one story.
    list of Fault
        Of the reply as a whole.
    """
    found = _STORY.findall(reply)
    if len(found) > 1:
        return "", [Fault("several stories", "there are several stories, write one")]
    if not found or not found[0].strip() or _TAGS.search(found[0]):
        return "", [Fault("no story", "put one story between <story> and </story>")]
    faults = []
    if _STORY.sub("", reply).strip():
        faults.append(Fault("text outside the story", "write nothing outside the tags"))
    if _has_parts(found[0].strip()):
        faults.append(Fault("heading or list", "write plain sentences without heading or list"))
    return " ".join(found[0].split()), faults


def _has_parts(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    if any(_MARKED.match(line) for line in lines):
        return True
    # A title stands alone on its line; a wrapped line goes on in the next.
    blocks = [block.strip() for block in re.split(r"\n\s*\n|\n(?=\s*[A-Z])", text) if block.strip()]
    return any(
        len(block.split()) <= _SHORT and block[-1] not in ".!?\"'\u201d\u2019)"
        for block in blocks[:-1]
    ) or any(block.endswith(":") for block in blocks)


class Checker:
    """Checks notes of one survey.

    Parameters
    ----------
    variables : mapping of str to Variable
        All that a note of the dataset may state, as they were recorded.
    year : str
        What "that year" in a phrase is.
    """

    def __init__(self, variables: Mapping[str, Variable], year: str = "") -> None:
        self.variables = variables
        self._ages = {name: spans for name, way in variables.items() if (spans := _spans(way))}
        self._sex = [name for name, way in variables.items() if words.is_sex(way)]
        rest = [n for n in variables if n not in self._ages and n not in self._sex]
        self._negative = {
            name: level
            for name in rest
            if (level := words.negative_level(variables[name])) is not None
        }
        self._topics = words.topics({name: variables[name] for name in self._negative})
        self._keys = {n: words.keys(variables[n]) for n in rest if n not in self._negative}
        # Their phrases are read as any other words are, so that "has never used cocaine or heroin"
        # is not cut after cocaine.
        plain = {
            name
            for name in self._topics
            if all(
                [one.level for one in self._answers(words.normal(level.phrase))] == [number]
                for number, level in enumerate(variables[name].levels)
            )
        }
        self._phrases = sorted(
            (
                (words.normal(words.dated(one.phrase, year)), name, level)
                for name, way in variables.items()
                if name not in plain
                for level, one in enumerate(way.levels)
            ),
            key=lambda one: -len(one[0]),
        )

    def faults(self, text: str, stated: Mapping[str, int]) -> list[Fault]:
        """Return what is wrong with a note; nothing if it is sound.

        Parameters
        ----------
        text : str
            One paragraph.
        stated : mapping of str to int
            Level numbers of the facts, by variable.
        """
        found: list[Fault] = []
        if (length := len(text.split())) >= MOST_WORDS:
            said = f"it has {length} words, write fewer than {MOST_WORDS}"
            found.append(Fault("too long", said))
        mentions: dict[str, list[Mention]] = {name: [] for name in self.variables}
        for one in self._mentions(words.normal(text)):
            mentions[one.variable].append(one)
        for name, ones in mentions.items():
            if (fault := self._fault(name, stated.get(name), ones)) is not None:
                found.append(fault)
        return found

    def _fault(self, name: str, level: int | None, said: list[Mention]) -> Fault | None:
        if level is None:
            if not said:
                return None
            return Fault("not among the facts", f"say nothing about {name.replace('_', ' ')}")
        fact = self.variables[name].levels[level].phrase
        if not said:
            return Fault("omitted", f"it does not say that the person {fact}")
        if any(one.level not in (level, None) for one in said):
            return Fault("contradicted", f"it says otherwise than that the person {fact}")
        if any(one.level is None for one in said):
            return Fault("unclear", f"it does not clearly say that the person {fact}")
        if len(said) > 1:
            return Fault("said twice", f"it says more than once that the person {fact}")
        return None

    def _mentions(self, text: str) -> Iterator[Mention]:
        told: dict[str, int] = {}
        for phrase, name, level in self._phrases:
            for match in re.finditer(rf"(?<![\w-]){re.escape(phrase)}(?![\w-])", text):
                turned = is_turned(sentence_before(text, match.start()))
                told[name] = level
                yield Mention(name, None if turned else level, match.start())
                text = _blanked(text, match)
        for name, keys in self._keys.items():
            text, found = self._by_keys(name, keys, text)
            yield from found
        for name, spans in self._ages.items():
            text, ages = words.ages(text)
            for start, low, high in ages:
                inside = [k for k, (a, b) in enumerate(spans) if a <= low and high <= b]
                outside = not any(low <= b and a <= high for a, b in spans)
                # Two levels at once, or none: neither is said.
                yield Mention(
                    name, inside[0] if len(inside) == 1 else -1 if outside else None, start
                )
        for name in self._sex:
            yield from _sexes(name, self.variables[name], text, told.get(name))
        yield from self._answers(text)

    def _by_keys(self, name: str, keys: list[words.Key], text: str) -> tuple[str, list[Mention]]:
        """Find levels by other words than their phrase; one that is negated is not said."""
        found: list[Mention] = []
        for key in keys:
            for match in key.pattern.finditer(text):
                before = sentence_before(text, match.start())
                if key.level is not None:
                    level: int | None = key.level
                    if words.NEAR_NEGATION.search(before):
                        level = -1 - key.level  # "is not Hispanic": not this one, whichever else
                    found.append(Mention(name, level, match.start()))
                text = _blanked(text, match)
        return text, _merged(sorted(found, key=lambda one: one.start), text)

    def _answers(self, text: str) -> Iterator[Mention]:
        """Read yes and no, clause by clause."""
        found: list[Mention] = []
        for clause in clauses(text, self._topics):
            for name, negated in clause.topics.items():
                negative = self._negative[name]
                level: int | None = negative if negated else 1 - negative
                if negated is None:
                    level = None
                # The same once more in the next clause of a sentence is one statement.
                if found and clause.follows:
                    last = [one for one in found if one.variable == name][-1:]
                    if last and last[0].start >= clause.follows_from and last[0].level == level:
                        continue
                found.append(Mention(name, level, clause.start))
        return iter(found)


def _blanked(text: str, match: re.Match[str]) -> str:
    """Take out what was read; what follows keeps its place."""
    return text[: match.start()] + "~" * (match.end() - match.start()) + text[match.end() :]


def _merged(found: list[Mention], text: str) -> list[Mention]:
    """Take words beside each other ("Black, African American") as one statement.

    What is said not to be is dropped, unless nothing else is said: "not Hispanic" alone may be any
    other level.
    """
    said: list[Mention] = []
    for one in found:
        if said and said[-1].level == one.level:
            between = text[said[-1].start : one.start].strip("~")
            if len(between.split()) <= 2 and not re.search("[.;!?]", between):
                continue
        said.append(one)
    positive = [one for one in said if one.level is not None and one.level >= 0]
    denied = {-1 - one.level for one in said if one.level is not None and one.level < 0}
    if any(one.level in denied for one in positive):
        return [one._replace(level=None) for one in positive]
    return positive or [one._replace(level=None) for one in said]


def _spans(way: Variable) -> list[tuple[int, int]]:
    """Return the ages that each level means; empty if the variable is no age."""
    found = []
    for level in way.levels:
        ages = words.ages(words.normal(level.phrase))[1]
        if len(ages) != 1:
            return []
        found.append(ages[0][1:])
    return found


def _sexes(name: str, way: Variable, text: str, told: int | None) -> Iterator[Mention]:
    """Read a person's sex: stated by an adjective or a noun, agreed with by all other words.

    Where it is told already, by the record's phrase, words that agree say nothing new.
    """
    said = words.sexes(text, way)
    stated = [Mention(name, level, start) for start, level, kind in said if kind == "stated"]
    levels = {level for _, level, _ in said} | ({told} - {None})
    if len(levels) > 1:
        yield Mention(name, None, said[0][0])
    elif stated:
        yield from stated
    elif said and told is None:
        yield Mention(name, said[0][1], said[0][0])
