"""Other words for what a record's phrases say: numbers, ages, sex, substances, degrees."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from lm_eval_epidemia.surveys.variable import Variable

_ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = [
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NUMBERS = {
    **{word: 10 + n for n, word in enumerate(_TEENS)},
    **{word: 20 + 10 * n for n, word in enumerate(_TENS)},
    **{
        f"{tens} {one}": 20 + 10 * n + m
        for n, tens in enumerate(_TENS)
        for m, one in enumerate(_ONES, 1)
    },
}
_NUMBER = re.compile(
    rf"\b(?:{'|'.join(_TENS)})(?:[\s-](?:{'|'.join(_ONES)}))?\b|\b(?:{'|'.join(_TEENS)})\b"
)

#: Quotes, dashes and spaces of typesetters.
_PLAIN = str.maketrans("\u2019\u2018\u201c\u201d\u2013\u2014\u2011\u00a0", "''\"\"-;- ")


def normal(text: str) -> str:
    """Write a text in small letters, plain quotes and figures for numbers from ten on."""
    text = text.translate(_PLAIN).casefold()
    text = " ".join(text.split())
    return _NUMBER.sub(lambda match: str(_NUMBERS[match[0].replace("-", " ")]), text)


def dated(phrase: str, year: str) -> str:
    """Say of "that year" which one it is."""
    return phrase.replace("that year", year) if year else phrase


# Ages.

_N = r"(\d{1,3})"
_YEARS = r"[\s-]years?[\s-](?:old\b|of[\s-]age\b)"
_OLDEST = 130
_DECADES = {f"{tens.removesuffix('y')}ies": 20 + 10 * n for n, tens in enumerate(_TENS)}
_PARTS = {"early": (0, 3), "mid": (4, 6), "late": (7, 9), "": (0, 9)}
#: Patterns and what they mean, the longer before those they contain.
_AGES = [
    (re.compile(rf"\b{_N}(?:\s+years?\s+old)?\s+or\s+(?:older|over|above)\b"), "from"),
    (re.compile(rf"\b{_N}{_YEARS}\s+(?:or|and)\s+(?:older|over|above|more)\b"), "from"),
    (re.compile(rf"\b(?:at least|no younger than)\s+{_N}{_YEARS}"), "from"),
    (
        re.compile(rf"\b(?:over|older than|above|past)(?:\s+the\s+age\s+of)?\s+{_N}(?:{_YEARS})?"),
        "above",
    ),
    (
        re.compile(
            rf"\b(?:under|younger than|less than|below)(?:\s+the\s+age\s+of)?\s+{_N}{_YEARS}"
        ),
        "below",
    ),
    (re.compile(rf"\b(?:under|below)\s+the\s+age\s+of\s+{_N}\b"), "below"),
    (re.compile(rf"\b{_N}\s*(?:to|-|or|and)\s*{_N}{_YEARS}"), "between"),
    (
        re.compile(rf"\b(?:aged?|ages)\s+(?:of\s+|between\s+)?{_N}\s*(?:to|-|or|and)\s*{_N}\b"),
        "between",
    ),
    (re.compile(rf"\bbetween\s+(?:the\s+ages?\s+of\s+)?{_N}\s+and\s+{_N}{_YEARS}"), "between"),
    (re.compile(rf"\bbetween\s+the\s+ages\s+of\s+{_N}\s+and\s+{_N}\b"), "between"),
    (re.compile(rf"\b{_N}{_YEARS}"), "single"),
    (re.compile(rf"\b(?:aged?|ages)\s+(?:of\s+)?{_N}\b"), "single"),
    (re.compile(rf"\bturn(?:s|ed|ing)\s+{_N}\b"), "single"),
    (
        re.compile(
            rf"\b(?:man|woman|boy|girl|person|male|female|\w+(?:er|or|ist|ant|ian|ee))\s+of\s+"
            rf"{_N}\b(?!\s*(?:%|percent|or|to))"
        ),
        "single",
    ),
    (
        re.compile(
            rf"\b(?:is|i'm|was|turned|turning|be|being)\s+(?:now\s+|just\s+|about\s+)?{_N}"
            r"(?=\s*[,.;:!?]|\s+(?:and|but)\b|$)"
        ),
        "single",
    ),
    (
        re.compile(
            rf"\bin\s+(?:his|her|their|the)\s+(?:(early|mid|late)[\s-])?(?:to[\s-]\w+[\s-])?"
            rf"({'|'.join(_DECADES)}|[2-9]0s)\b"
        ),
        "decade",
    ),
    (re.compile(r"\b(?:teenage[rd]?|teenaged|in\s+(?:his|her|their)\s+teens)\b"), "teens"),
]


def ages(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """Find the ages a normal text names.

    Returns
    -------
    str
        The text with these taken out.
    list of (int, int, int)
        Where, and the youngest and oldest age that is meant.
    """
    found = []
    for pattern, kind in _AGES:
        while match := pattern.search(text):
            found.append((match.start(), *_age(kind, match)))
            gone = "~" * (match.end() - match.start())
            text = text[: match.start()] + gone + text[match.end() :]
    return text, sorted(found)


def _age(kind: str, match: re.Match[str]) -> tuple[int, int]:
    if kind == "teens":
        return 13, 19
    if kind == "decade":
        first = _DECADES.get(match[2]) or int(match[2][:2])
        low, high = _PARTS[match[1] or ""]
        return first + low, first + high
    number = int(match[1])
    return {
        "from": (number, _OLDEST),
        "above": (number + 1, _OLDEST),
        "below": (0, number - 1),
        "single": (number, number),
        "between": (number, int(match[match.lastindex or 1])),
    }[kind]


# Sex.

_MALE = r"man|boy|gentleman|guy|he|him|his|himself|mr|father|son|husband|brother|dad"
_FEMALE = r"woman|girl|lady|gal|she|her|hers|herself|ms|mrs|mother|daughter|wife|sister|mom"
_SEXES = re.compile(rf"\b(?:(male)|(female)|({_MALE})|({_FEMALE}))\b")
#: Whose sex is not the person's: "his wife", "a brother".
_KIN = re.compile(
    r"\b(?:his|her|their|a|an|the|my|one|two|'s)\s+(?:\w+\s+)?"
    r"(?:father|son|husband|brother|dad|mother|daughter|wife|sister|mom)s?\b"
)


def is_sex(way: Variable) -> bool:
    return {level.label.casefold() for level in way.levels} == {"male", "female"}


def sexes(text: str, way: Variable) -> list[tuple[int, int, str]]:
    """Find the words of a normal text that tell a person's sex.

    Returns
    -------
    list of (int, int, str)
        Where, which level, and whether it is "stated" or a word that agrees ("she", "woman").
    """
    number = {level.label.casefold(): n for n, level in enumerate(way.levels)}
    kin = [match.span() for match in _KIN.finditer(text)]
    # What was read as a phrase is taken out, so a word for it still agrees or disagrees.
    found = []
    for match in _SEXES.finditer(text):
        word = match[0]
        possessive = word in ("his", "her", "their")
        if not possessive and any(a <= match.start() < b for a, b in kin):
            continue
        level = number["male" if match[1] or match[3] else "female"]
        found.append((match.start(), level, "stated" if match[1] or match[2] else "agrees"))
    return found


# Yes and no.

NEAR_NEGATION = re.compile(
    r"(?:\b(?:not|never|no|isn't|wasn't|neither|nor|without|hasn't|doesn't|didn't|don't)\b"
    r"|\w+n't\b)(?:[\s~]+[\w'-]+){0,3}[\s~]*$"
)
_NEGATED = re.compile(r"\b(?:not|never|no|neither|nor|without|less)\b")
_STOP = set(
    re.findall(
        r"\w+",
        "a an and any are at been being by did do does during even ever for form from had has have "
        "her his if in is it its least less made never neither no none nor not of on once one only "
        "or over own part past so some than that the their them themselves they this time times to "
        "told total under up use used was week were when which who with year years month months "
        "day days all more most high serious difficulty condition identifies leans describes "
        "toward as",
    )
)
#: Other words, by the beginning of one that a phrase has. Some of them are a "no" in themselves.
_ALSO = {
    "alcohol": r"alcohol\w*|drink(?:s|ing|er)?|drank|drunk|beers?|wines?|liquor|booze|teetotal\w*",
    "drink": "",
    "drunk": "",
    "cigarette": r"cigarettes?|cigs?|tobacco|non-?smok\w+|smok(?:e|es|ed|er|ing)",
    "smok": "",
    "marijuana": r"marijuana|cannabis|weed|pot|joints?|hashish|thc",
    "cocaine": r"cocaine|coke|crack",
    "heroin": r"heroin|smack",
    "diabet": r"diabet\w+",
    "insur": r"insur\w+|uninsured",
    "depress": r"depress\w+",
    "asthma": r"asthma\w*",
}


def negative_level(way: Variable) -> int | None:
    """Return which of two levels is the "no"; None if the variable is no question of yes or no."""
    if len(way.levels) != 2:
        return None
    labels = [level.label.casefold() for level in way.levels]
    if set(labels) == {"yes", "no"}:
        return labels.index("no")
    negated = [bool(_NEGATED.search(level.phrase)) for level in way.levels]
    return negated.index(True) if sum(negated) == 1 else None


def topics(variables: Mapping[str, Variable]) -> dict[str, re.Pattern[str]]:
    """Return by which words each variable is known: those in both of its phrases and in no other's.

    A variable without such words is read by its whole phrases only.
    """
    both = {
        name: set.intersection(*(_stems(level.phrase) for level in way.levels))
        for name, way in variables.items()
    }
    used = Counter(stem for stems in both.values() for stem in stems)
    found = {}
    for name, stems in both.items():
        parts = []
        for stem in sorted(stem for stem in stems if used[stem] == 1):
            also = next((v for k, v in _ALSO.items() if stem.startswith(k)), None)
            if also is None:
                parts.append(rf"{re.escape(stem)}\w{{0,4}}")
            elif also:
                parts.append(also)
        if parts:
            found[name] = re.compile(rf"\b(?:{'|'.join(parts)})\b")
    return found


def _stems(phrase: str) -> set[str]:
    """Return the words of a phrase that say what it is about, without endings."""
    tokens = set(re.findall(r"[a-z]+", normal(phrase))) - _STOP
    return {re.sub(r"(?:ed|ing|ic|s)$", "", token) if len(token) > 4 else token for token in tokens}


# Levels.


class Key(NamedTuple):
    """A pattern that means a level; None where it means none by itself and is only taken out."""

    pattern: re.Pattern[str]
    level: int | None


#: Other words, by a label.
_LABELS = {
    "hispanic": r"latin[oax]s?|latine",
    "black": r"african[- ]american|blacks?",
    "black or african american": r"african[- ]american|blacks?",
    "white": r"caucasian|whites?",
    "asian": r"asian[- ]american|asians?",
    "more than one race": r"multiracial|biracial|mixed[- ]race|two or more races",
    "another or more than one race": r"multiracial|biracial|mixed[- ]race|another race|"
    r"more than one race|other than white or black|neither white nor black",
    "less than high school": r"(?:did not|didn't|never|without) (?:finish|complet|graduat)\w*"
    r"(?: from)? (?:high )?school|dropped out(?: of (?:high )?school)?|"
    r"left (?:high )?school (?:early|before|without)(?: finishing| graduating| a diploma)?|"
    r"(?:no|without a) (?:high school )?diploma|less than (?:a )?high school",
    "high school graduate": r"high[- ]school (?:diploma|graduate|degree|education)|"
    r"(?:graduated|finished|completed) (?:from )?high school|ged",
    "some college or associate degree": r"some college|associate(?:'s|s)? degree|"
    r"(?:attended|went to|started) college|college credits?",
    "some college, no degree": r"some college|college credits?|"
    r"(?:attended|went to|started) college",
    "associate degree": r"associate(?:'s|s)? degree",
    "college graduate": r"bachelor'?s?(?: degree)?|college (?:graduate|degree)|university degree|"
    r"(?:graduated|finished|completed) (?:from )?(?:college|university)|master'?s degree|doctorate",
    "bachelor's degree or higher": r"bachelor'?s?(?: degree)?|college (?:graduate|degree)|"
    r"(?:graduated|finished|completed) (?:from )?(?:college|university)|master'?s degree|doctorate",
    "aged 12 to 17": r"school[- ]aged?|still (?:in|at|of) school|of school age",
}
#: Means no level by itself: "non-Hispanic White".
_NEUTRAL = r"(?:non-?\s?|not\s+)hispanic(?: and)?"
_VERB = re.compile(r"^(?:is|has|was|were|have|owns|lives in)\s+(?:(?:a|an|the)\s+)?")


def keys(way: Variable) -> list[Key]:
    """Return what means each level of a variable, beside its phrase; the longer first."""
    found: dict[str, int | None] = {}
    for number, level in enumerate(way.levels):
        core = _VERB.sub("", normal(level.phrase))
        cores = {
            core,
            re.sub(r"\bnon-hispanic (?:and )?", "", core),
            normal(level.label),
            re.sub(r"\s*\([^)]*\)", "", core),
        }
        for one in cores:
            if len(one) >= 4 and re.search(r"[a-z]{3}", one):
                found.setdefault(re.escape(one), number)
        if also := _LABELS.get(level.label.casefold()):
            for one in also.split("|") if "(" not in also else [also]:
                found.setdefault(one, number)
    ordered = sorted(found.items(), key=lambda one: (one[0] in _LABELS.values(), -len(one[0])))
    listed = [Key(re.compile(rf"(?<![\w-])(?:{text})(?![\w])"), level) for text, level in ordered]
    neutral = Key(re.compile(rf"(?<![\w-])(?:{_NEUTRAL})(?![\w])"), None)
    # Before the shorter words that it contains, after the whole phrases that contain it.
    whole = [key for key in listed if "non" in key.pattern.pattern]
    return [*whole, neutral, *(key for key in listed if key not in whole)]
