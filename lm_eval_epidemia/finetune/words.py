"""Other words for a record's phrases: numbers, ages, sex, substances, degrees."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.surveys.variable import Variable

#: What is too long for code.
WORDS = read_yaml(__package__, "words.yaml")


def _join_patterns(part: str) -> dict[str, str]:
    """Return the regular expressions of a part of the words."""
    return {name: pattern.replace("\n", "") for name, pattern in WORDS[part].items()}


_PATTERNS = _join_patterns("patterns")

_ONES, _TEENS, _TENS = (WORDS["numbers"][of].split() for of in ("ones", "teens", "tens"))
_NUMBERS = {
    **{word: 10 + n for n, word in enumerate(_TEENS)},
    **{
        f"{tens} {one}".strip(): 10 * n + m
        for n, tens in enumerate(_TENS, 2)
        for m, one in enumerate(["", *_ONES])
    },
}
_INWORDS = re.compile(
    rf"\b(?:{'|'.join(_TENS)})(?:[\s-](?:{'|'.join(_ONES)}))?\b|\b(?:{'|'.join(_TEENS)})\b"
)

#: Quotes, dashes and spaces of typesetters.
_PLAIN = str.maketrans("\u2019\u2018\u201c\u201d\u2013\u2014\u2011\u00a0", "''\"\"-;- ")

#: A number that is no year.
NUMBER = re.compile(r"(?<![\d,.$])\d{1,3}(?![\d,])")


def normalise(text: str) -> str:
    """Normalise a text: small letters, plain quotes, figures for numbers from ten on."""
    text = " ".join(text.translate(_PLAIN).casefold().split())
    return _INWORDS.sub(lambda match: str(_NUMBERS[match[0].replace("-", " ")]), text)


def fill_year(phrase: str, year: str) -> str:
    """Replace "that year" by the year."""
    return phrase.replace("that year", year) if year else phrase


# What denies, and what leaves open.

_OTHERS = _PATTERNS["others"]
_NEGATION = re.compile(_PATTERNS["negation"])
_UNCLEAR = re.compile(_PATTERNS["unclear"] + _PATTERNS["opposite"])
_OF_OTHERS, _OTHERS_TAG = re.compile(_OTHERS), re.compile(rf"{_OTHERS}(?:,? who)?(?: \w+){{0,3}} ~")
_CONTRAST = re.compile(_PATTERNS["contrast"])
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)")
#: A sentence of so few words, after one with a tag, may deny that.
_AFTERTHOUGHT = 4


def doubts(text: str) -> bool:
    """Return whether the text around the tags, each written "~", denies or doubts them."""
    before = False
    for sentence in _SENTENCE.split(text):
        has_tag = "~" in sentence
        is_near = has_tag or (before and len(sentence.split()) <= _AFTERTHOUGHT)
        if is_near and (_NEGATION.search(sentence) or _UNCLEAR.search(sentence)):
            return True
        if _OTHERS_TAG.search(sentence):
            return True
        before = has_tag
    return False


class Reader:
    """Reads a variable in a text by the phrases of its levels, and nothing else.

    Parameters
    ----------
    variable : Variable
    year : str
        What "that year" in a phrase is.

    Attributes
    ----------
    phrases : list of str
        Phrase of each level in the record.
    exact : dict of str to int
        Levels by their phrases in normalised text, the longest first.
    """

    def __init__(self, variable: Variable, year: str) -> None:
        self.variable = variable
        self.phrases = [level.phrase for level in variable.levels]
        numbered = (
            (normalise(fill_year(phrase, year)), n) for n, phrase in enumerate(self.phrases)
        )
        self.exact = dict(sorted(numbered, key=lambda phrase: -len(phrase[0])))

    def level(self, text: str, alone: bool) -> int | None:
        """Return the level that the words of a tag state.

        Parameters
        ----------
        text : str
            Normalised text.
        alone : bool
            Whether the tag is for this fact only.

        Returns
        -------
        int or None
            -1 if it is none of the levels; None if unclear.
        """
        doubtful = _UNCLEAR.search(text) or _OF_OTHERS.search(text)
        if text in self.exact:
            return self.exact[text]
        for phrase, level in self.exact.items():
            if not doubtful and (match := _compile_phrase(phrase).search(text)):
                rest = f"{text[: match.start()]} ~ {text[match.end() :]}"
                return None if _NEGATION.search(rest) or self._levels(rest) - {level} else level
        levels = set() if doubtful else self._levels(text, alone)
        return levels.pop() if len(levels) == 1 else None

    def _levels(self, text: str, alone: bool = False) -> set[int]:
        """Return the levels that words other than a phrase state."""
        return set()

    def mentioned(self, text: str) -> bool:
        """Return whether a normalised text mentions the variable."""
        return any(_compile_phrase(phrase).search(text) for phrase in self.exact)

    def agrees(self, text: str, level: int) -> bool:
        """Return whether the pronouns of a normalised text fit a level: "she" and "his"."""
        return True


@cache
def _compile_phrase(phrase: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(phrase)}(?![\w-])")


# Ages.

_OLDEST = 130
_DECADES = {f"{tens.removesuffix('y')}ies": 10 * n for n, tens in enumerate(_TENS, 2)}
_DECADE = re.compile(rf"(?:(early|mid|late)[\s-])?(?:({'|'.join(_DECADES)})|([2-9]0)s)\b")
_PARTS = {"early": (0, 3), "mid": (4, 6), "late": (7, 9), None: (0, 9)}
_TEEN = re.compile(r"\bteen(?:s|age[rd]?|aged)\b")
_AGE = re.compile(rf"{_DECADE.pattern}|{_TEEN.pattern}|\byears?[\s-](?:old\b|of[\s-]age\b)")
_FROM = re.compile(r"\b(?:or|and) (?:older|over|above|more)\b|\bat least\b|\bno younger\b")
_ABOVE = re.compile(r"\b(?:over|older|above|past)\b")
_BELOW = re.compile(r"\b(?:under|younger|less|below)\b")


def _span(text: str) -> tuple[int, int] | None:
    """Return the youngest and oldest age in a normalised text; None without one."""
    numbers = [int(number) for number in re.findall(r"\b\d{1,3}(?![\ds])", text)]
    if not numbers and (decade := _DECADE.search(text)):
        first = _DECADES[decade[2]] if decade[2] else int(decade[3])
        low, high = _PARTS[decade[1]]
        return first + low, first + high
    if not numbers and _TEEN.search(text):
        return 13, 19
    if len(numbers) != 1:
        return (numbers[0], numbers[1]) if len(numbers) == 2 else None
    number = numbers[0]
    if _FROM.search(text):
        return number, _OLDEST
    if _ABOVE.search(text):
        return number + 1, _OLDEST
    return (0, number - 1) if _BELOW.search(text) else (number, number)


class Ages(Reader):
    """Reads ages: "32", "30 to 34", "65 or older", "in her early thirties"."""

    def level(self, text: str, alone: bool) -> int | None:
        if (span := _span(text)) is None:
            return None
        low, high = span
        spans = [_span(normalise(phrase)) or (0, -1) for phrase in self.phrases]
        inside = [n for n, (a, b) in enumerate(spans) if a <= low and high <= b]
        if len(inside) == 1:
            return inside[0]
        return None if any(low <= b and a <= high for a, b in spans) else -1

    def mentioned(self, text: str) -> bool:
        return bool(_AGE.search(text))


# Sex.

_SEXED = re.compile(rf"\b(?:({_PATTERNS['male']})|({_PATTERNS['female']}))\b")
#: Whose sex is not the person's: "his wife", "a brother".
_KIN = re.compile(_PATTERNS["kin"])


class Sexes(Reader):
    """Reads a person's sex: stated by any word for it, repeated only by an adjective."""

    def _levels(self, text: str, alone: bool = False) -> set[int]:
        male = [level.label.casefold() for level in self.variable.levels].index("male")
        own = _KIN.sub(r"\1", text)
        return {male if match[1] else 1 - male for match in _SEXED.finditer(own)}

    def mentioned(self, text: str) -> bool:
        return bool(re.search(r"\b(?:fe)?male\b", text))

    def agrees(self, text: str, level: int) -> bool:
        return self._levels(text) <= {level}


# Yes and no.

_NEGATED = re.compile(r"\b(?:not|never|no|neither|nor|without|less)\b")
_STOP = set(WORDS["stop"].split())
#: Other words, by the beginning of one that a phrase has. Some of them are a "no" in themselves.
_ALSO = _join_patterns("also")


def _negative_level(variable: Variable) -> int | None:
    """Return which of two levels is the "no"; None if the variable is not a yes/no question."""
    if len(variable.levels) != 2:
        return None
    labels = [level.label.casefold() for level in variable.levels]
    if set(labels) == {"yes", "no"}:
        return labels.index("no")
    negated = [bool(_NEGATED.search(level.phrase)) for level in variable.levels]
    return negated.index(True) if sum(negated) == 1 else None


def _stems(phrase: str) -> set[str]:
    """Return the subject words of a phrase, without endings."""
    tokens = set(re.findall(r"[a-z]+", normalise(phrase))) - _STOP
    return {re.sub(r"(?:ed|ing|ic|s)$", "", token) if len(token) > 4 else token for token in tokens}


def _topics(variables: Mapping[str, Variable]) -> dict[str, re.Pattern[str]]:
    """Return the words that identify variables: those in both phrases and in no other's.

    A variable without such words is read only by its whole phrases.
    """
    both = {
        name: set.intersection(*(_stems(level.phrase) for level in variable.levels))
        for name, variable in variables.items()
    }
    used = Counter(stem for stems in both.values() for stem in stems)
    topics = {}
    for name, stems in both.items():
        parts = [
            next((v for k, v in _ALSO.items() if stem.startswith(k)), rf"{stem}\w{{0,4}}")
            for stem in sorted(stems)
            if used[stem] == 1
        ]
        if any(parts):
            topics[name] = re.compile(rf"\b(?:{'|'.join(filter(None, parts))})\b")
    return topics


class YesNo(Reader):
    """Reads a yes or no, by the words for it and words of denial."""

    def __init__(self, variable: Variable, year: str, topic: re.Pattern[str] | None) -> None:
        super().__init__(variable, year)
        self._topic = topic or re.compile("(?!)")
        self._negative = int(_negative_level(variable) or 0)

    def _levels(self, text: str, alone: bool = False) -> set[int]:
        negated = bool(_NEGATION.search(text))
        if not self._topic.search(text) or (negated and not alone and _CONTRAST.search(text)):
            return set()
        return {self._negative if negated else 1 - self._negative}

    def mentioned(self, text: str) -> bool:
        return bool(self._topic.search(text)) or super().mentioned(text)


# Levels.

#: Other words, by a label.
_LABELS = _join_patterns("labels")
#: Means no level by itself: "non-Hispanic White".
_NEUTRAL = r"(?:non-?\s?|not\s+)hispanic(?: and)?"
_VERB = re.compile(r"^(?:is|has|was|were|have|owns|lives in)\s+(?:(?:a|an|the)\s+)?")
_NEAR_NEGATION = re.compile(_PATTERNS["near negation"])


class Levels(Reader):
    """Reads one of several levels, by phrase, label, and other words for it."""

    def __init__(self, variable: Variable, year: str) -> None:
        super().__init__(variable, year)
        meaning: dict[str, int] = {}
        for number, level in enumerate(variable.levels):
            core = _VERB.sub("", normalise(level.phrase))
            label = normalise(level.label)
            cores = {core, label, re.sub(r"\bnon-hispanic (?:and )?", "", core)}
            cores.add(re.sub(r"\s*\([^)]*\)", "", core))
            named = [re.escape(core) for core in cores if re.search(r"[a-z]{3}", core)]
            also = _LABELS.get(label, "")
            for pattern in (*named, *([also] if "(" in also else also.split("|"))):
                meaning.setdefault(pattern, number)
        meaning.pop("", None)
        # The longest first; among them what takes "non-Hispanic" out comes before "Hispanic".
        ordered = sorted(meaning, key=lambda key: (key in _LABELS.values(), -len(key)))
        whole = [key for key in ordered if "non" in key]
        self._keys: list[tuple[re.Pattern[str], int | None]] = [
            (re.compile(rf"(?<![\w-])(?:{key})(?!\w)"), meaning.get(key))
            for key in (*whole, _NEUTRAL, *(key for key in ordered if key not in whole))
        ]

    def _found(self, text: str) -> list[tuple[int, bool]]:
        """Return the levels that are named, and whether each is denied."""
        levels = []
        for pattern, level in self._keys:
            for match in pattern.finditer(text):
                if level is not None:
                    levels.append((level, bool(_NEAR_NEGATION.search(text[: match.start()]))))
            text = pattern.sub("~", text)
        return levels

    def _levels(self, text: str, alone: bool = False) -> set[int]:
        return {level for level, is_denied in self._found(text) if not is_denied}

    def mentioned(self, text: str) -> bool:
        return bool(self._found(text))


def readers(variables: Mapping[str, Variable], year: str) -> dict[str, Reader]:
    """Return the reader of each variable of a survey, by name."""
    topics = _topics({n: v for n, v in variables.items() if _negative_level(v) is not None})
    by_name: dict[str, Reader] = {}
    for name, variable in variables.items():
        labels = {level.label.casefold() for level in variable.levels}
        if all(re.search(r"\byears? old\b", level.phrase) for level in variable.levels):
            by_name[name] = Ages(variable, year)
        elif labels == {"male", "female"}:
            by_name[name] = Sexes(variable, year)
        elif _negative_level(variable) is not None:
            by_name[name] = YesNo(variable, year, topics.get(name))
        else:
            by_name[name] = Levels(variable, year)
    return by_name
