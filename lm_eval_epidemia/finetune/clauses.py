"""Clauses and what is negated in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)")

_CONNECTIVES = (
    "but|yet(?! to)|although|though|even though|while|whereas|however|except|except for|apart from|"
    "aside from|other than|besides|unlike|instead|despite"
)
#: What begins a clause of its own after "and", "or" or a comma.
_STARTS = (
    "he|she|they|it|the|this|has|have|had|did|does|do|is|was|are|were|hasn't|didn't|doesn't|isn't|"
    "never|not|no|neither|none|once|still|only|avoid\\w*|abstain\\w*|den(?:y|ies|ied)"
)
_CLAUSE = re.compile(
    rf"[;:()]|\s-\s|\b(?:{_CONNECTIVES})\b|(?=\bnor\b)|,?\s+and\s+(?=(?:{_STARTS})\b)"
    rf"|\s+or\s+(?=(?:{_STARTS})\b)|,\s*"
)

_NEGATION = re.compile(
    r"\b(?:never|not(?! only)|no(?! longer\b| stranger\b| doubt\b|,)|none|nothing|neither|nor|"
    r"without|den(?:y|ies|ied)|avoid\w*|abstain\w*|abstinen\w+|refrain\w*|shunn?\w*|refus\w+|"
    r"yet to|cannot|"
    r"(?:stay|stays|stayed|kept|keep|keeps) (?:away|clear|off)|steer\w* clear|free (?:of|from)|"
    r"untouched|teetotal\w*|non-?smok\w+|uninsured|absent|lacks?|declined? (?:all|any)|"
    r"turn(?:s|ed)? down)\b|\w+n't\b"
)
#: Said of what was, not of what is.
_PAST = re.compile(
    r"\b(?:no longer|used to|quit|gave up|given up|stopped|former(?:ly)?|ex-smoker)\b"
)
_UNCLEAR = re.compile(
    r"\b(?:until|till|may(?:be)?|might|perhaps|possibly|probably|unknown|unsure|uncertain|unclear|"
    r"whether|(?:refused|declined) to (?:say|answer)|would(?:n't| not) say|prefer\w* not|almost|"
    r"nearly|would have|could have|if)\b"
)
#: Turns what a clause says into its opposite.
_TURN = re.compile(
    r"\b(?:not|n't|hardly|isn't|wasn't) (?:true|the case|correct|so|right)\b|\bfalse\b|\buntrue\b|"
    r"\bincorrect\b|\bden(?:y|ies|ied) (?:that \w+ (?:has |had )?|having )?never\b|"
    r"\bwrong(?:ly)?\b|\ba lie\b|"
    r"\b(?:claims?|claimed|pretends?|pretended|lied|lies|rumou?rs?|allegedly|supposedly)\b|"
    r"\bcannot (?:say|claim)\b|\bno one (?:could|can|would) say\b"
)
_OTHERS = re.compile(
    r"(?<!with )\b(?:brother|sister|mother|father|mom|dad|parent|friend|husband|wife|partner|son|"
    r"daughter|roommate|uncle|aunt|cousin|neighbou?r|coworker|colleague|classmate|family|relative|"
    r"grandmother|grandfather)(?:s|'s|s')?\b"
)
_VERB = re.compile(
    r"\b(?:has|have|had|did|does|do|is|was|are|were|been|he|she|they|used|uses|using|tried|tries|"
    r"trying|smoked|smokes|smoking|drank|drinks|drinking|touched|touches|experimented|consumed|"
    r"took|takes|taken|tasted|reports?|reported|admits?|admitted|says?|said|never|not)\b|\w+n't\b"
)
#: A clause so long, with a negation and no topic, is about the topic before it.
_ELLIPSIS = 9


class Clause(NamedTuple):
    """A part of a sentence.

    Attributes
    ----------
    start : int
        Where it begins.
    follows : bool
        Whether another of the same sentence is right before it.
    follows_from : int
        Where that one begins.
    topics : dict of str to bool or None
        What it is about, and whether it is denied; None where that cannot be made out.
    verb : bool
        Whether it is more than an item of a list.
    """

    start: int
    follows: bool
    follows_from: int
    topics: dict[str, bool | None]
    verb: bool


def sentence_before(text: str, place: int) -> str:
    """Return the part of a sentence before a place."""
    start = max(text.rfind(sign, 0, place) for sign in ".!?;")
    return text[start + 1 : place]


def is_turned(before: str) -> bool:
    """Tell whether what follows in a sentence is said not to be so, or by somebody only."""
    return bool(_TURN.search(before))


def clauses(text: str, topics: Mapping[str, re.Pattern[str]]) -> Iterator[Clause]:
    """Cut a normal text into clauses that are about something.

    Parameters
    ----------
    text : str
    topics : mapping of str to Pattern
        By which words a variable is known.
    """
    for start, sentence in _cut(text, _SENTENCE):
        parts = [(start + at, part) for at, part in _cut(sentence, _CLAUSE) if part.strip()]
        read: list[tuple[int, str, dict[str, tuple[int, int]]]] = [
            (at, part, _found(part, topics)) for at, part in parts
        ]
        turned = bool(_TURN.search(sentence))
        denied: bool | None = False
        made: list[Clause] = []
        for number, (at, part, found) in enumerate(read):
            negation, unclear = _NEGATION.search(part), bool(_UNCLEAR.search(part))
            if not found:
                # "As for heroin, never": said of the clause before.
                short = len(part.split()) <= _ELLIPSIS
                if made and negation and short and read[number - 1][2]:
                    # And of those it is listed with: "cigarettes, cocaine and heroin, never".
                    for place in range(len(made) - 1, -1, -1):
                        made[place] = made[place]._replace(
                            topics=dict.fromkeys(made[place].topics, True)
                        )
                        listed = place and not made[place].verb and not made[place - 1].verb
                        if not listed:
                            break
                    denied = True
                elif made and unclear and read[number - 1][2]:
                    made[-1] = made[-1]._replace(topics=dict.fromkeys(made[-1].topics))
                if _VERB.search(part):
                    denied = bool(negation)
                continue
            own: dict[str, bool | None] = {}
            if not _VERB.search(part) and not negation:
                own = dict.fromkeys(found, denied)  # "..., cocaine and heroin"
            else:
                after = [
                    name for name, (_, end) in found.items() if negation and end > negation.start()
                ]
                for name in found:
                    own[name] = bool(negation) and (name in after or not after)
                denied = bool(negation)
            others = _OTHERS.search(part)
            if unclear or turned:
                own = dict.fromkeys(own)
            elif others:
                own = {name: None if others.start() < found[name][0] else own[name] for name in own}
            if _PAST.search(part) and not negation:
                own = dict.fromkeys(own, False)
            before = read[number - 1][0] if number else at
            made.append(Clause(at, number > 0, before, own, bool(_VERB.search(part))))
        yield from made


def _found(part: str, topics: Mapping[str, re.Pattern[str]]) -> dict[str, tuple[int, int]]:
    """Find the variables that a clause is about; a smoke of something else is no cigarette."""
    every = {name: list(pattern.finditer(part)) for name, pattern in topics.items()}
    found = {}
    for name, matches in every.items():
        others = [one for other, ones in every.items() if other != name for one in ones]
        kept = [
            one
            for one in matches
            if not (
                others
                and re.match(r"smok", one[0])
                and len(matches) == 1
                and any(re.search(r"\bsmok\w+ (?:\w+ )?$", part[: o.start()]) for o in others)
            )
        ]
        if kept:
            found[name] = (kept[0].start(), kept[0].end())
    return found


def _cut(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    start = 0
    for match in pattern.finditer(text):
        yield start, text[start : match.start()]
        start = match.end()
    yield start, text[start:]
