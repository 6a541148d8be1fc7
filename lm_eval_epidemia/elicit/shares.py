r"""Reading how many of 100 people a model says give each answer.

Reasoning is cut off (`replies.answer_text`), and the next question of a model that goes on to ask
itself one. What is left is read as JSON if an object in it names every answer, else line by line:

==========================================  ==============================================
in the reply                                read as
==========================================  ==============================================
``A: 30``  ``A. Yes: 30``  ``Yes - 30 %``   30 for the answer, called by its letter, by its
``| A | Yes | 30 |``  ``A = 30, B = 70``    text, or by both; several may stand in a line
``30 would say Yes (A)``                    30: the number may come first, if it always does
``{"A": 30, "B": 70}``                      30 and 70, and ``[{"answer": "A", "people": 30}]``,
                                            and such inside another object
``30 of 100``  ``30/100``  ``about 30``     30, and ``~30``, ``30 people``, ``30 (25-35)``
``30-40``  ``30 to 40``  ``30% - 40%``      35: the middle
``<5``  ``up to 5``  ``>90``                2.5 and 95: the middle from 0, and up to 100
``12,5``                                    12.5; ``1,000`` is nothing
``0.3`` and ``0.7``                         30 and 70: proportions, where all are at most 1, one
                                            is no whole number, none has a per cent sign, and they
                                            sum to 0.9 to 1.1
``30, 70``                                  as listed, where nothing but K numbers is there
an answer twice, or missing                 nothing, unless another list in the reply is complete:
                                            the last one counts
``A. No: 30`` where A is "Yes"              nothing
``-5``  ``1e2``  ``thirty``                 nothing
==========================================  ==============================================

Numbers that sum to 90 to 110 are divided by their sum; others are no answer (`normalised`). Every
pattern is bounded, so that a reply is read in time linear in its length.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from lm_eval_epidemia.elicit.orderings import LETTERS
from lm_eval_epidemia.elicit.replies import answer_text, before_next_question

__all__ = ["LEAST", "MOST", "normalised", "shares"]

#: Between which a sum counts as 100.
LEAST, MOST = 90.0, 110.0

#: Numbers have three digits at most.
LARGEST = 1000

#: An answer's number among those displayed, and how many of 100 give it.
_Entry = tuple[int, float]

_SIGNS = {
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
    **dict.fromkeys((0x2018, 0x2019), "'"),
    **dict.fromkeys((0x201C, 0x201D), '"'),
    ord("\N{ALMOST EQUAL TO}"): "~",
    ord("\N{LESS-THAN OR EQUAL TO}"): "<",
    ord("\N{GREATER-THAN OR EQUAL TO}"): ">",
    ord("\N{RIGHTWARDS ARROW}"): ":",
}
#: Markup, and the 100 of "30 of 100".
_DROPPED = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"[*`\\\"{}\[\]]|(?<!\w)'|'(?!\w)", " "),
        (
            r"(?i)(?<=[\d% ])(?: ?/ ?| ?(?<![a-z])(?:out of|of|in|per) (?:the |every )?)100"
            r"(?!\d|[.,]\d)",
            " ",
        ),
        (r"(?im)^[^\S\n]*of(?: these| the| such)? 100(?: such)? \w{1,20},?", " "),
        (r"±[^\S\n]?\d{1,3}(?:\.\d{1,3})?", " "),
        (r"->|=>", ":"),
        (r"(?m)^[^\S\n]*(?:[-+•#][^\S\n]{0,3}){0,3}(?:\d{1,2}[.)][^\S\n]{1,3}(?=\S))?", ""),
    )
]  # fmt: skip

#: Stand for the answers' texts while the rest is read.
_FIRST = 0xE000
_PLACES = f"{chr(_FIRST)}-{chr(_FIRST + len(LETTERS) - 1)}"

_N = r"\d{1,3}(?:\.\d{1,6}|,\d{1,2})?"
_PERCENT = r"[^\S\n]?(?:%|per ?cent)?"
_VALUE = (
    r"(?P<bound>(?:<|>|\b(?:less than|fewer than|under|below|at most|up to|more than|over|above"
    r"|at least)\b)[^\S\n]?)?(?P<negative>(?<=[:=|(])[^\S\n]?-)?(?<![\w.$€£^])(?<!\d,)"
    rf"(?P<low>{_N}){_PERCENT}(?:[^\S\n]?(?:-|\bto\b|(?P<and>\band\b))[^\S\n]?(?P<high>{_N}){_PERCENT})?"
    r"(?![\w$€£^]|[.,]\d)"
)
#: "A person" begins a sentence, "A is 30" and "A about 30" are answers.
_LETTER = (
    r"(?<![\w'])(?P<letter>[A-Z])(?![\w'])"
    r"(?! (?!(?:is|are|was|has|have|gets?|would|about|around|roughly|approximately|at|and|or)\b)"
    r"(?-i:[a-z]))"
)
_TOKEN = re.compile(rf"(?P<text>[{_PLACES}])|{_VALUE}|{_LETTER}", re.IGNORECASE)
_LOWER_LETTER = re.compile(r"(?<![\w'])([a-z])(?= ?[).:=|])")
_BETWEEN = re.compile(r"\bbetween[^\S\n]{1,3}\Z", re.IGNORECASE)
_ASIDE = re.compile(r"\([^()\n]{0,80}\d[^()\n]{0,80}\)")
#: A number without a label, and what may stand around it.
_BARE = re.compile(r"(?<![\w.-])\d{1,3}(?:\.\d{1,6})?(?![\w.]\d|\w)")
_SEPARATORS = re.compile(r"[\s,;|/().:%-]*")

_OPENING = re.compile(r"[{\[]")
#: A reply of nothing but brackets is not tried at each of them.
MOST_TRIES = 100


class _Token(NamedTuple):
    """A label (the number of an answer) or a value, NaN where it is none, and where it begins."""

    label: int | None
    value: float
    start: int


def shares(reply: str, answers: Sequence[str]) -> tuple[float, ...] | None:
    """Read a number for every answer.

    Parameters
    ----------
    reply : str
        As a model wrote it, reasoning included.
    answers : sequence of str
        The texts of the answers in displayed order, lettered A, B, ...

    Returns
    -------
    tuple of float or None
        In displayed order, at least 0, of 100 but of any sum; None where they cannot be read.
    """
    lines = (line.strip() for line in answer_text(reply).splitlines())
    text = before_next_question(
        "\n".join(line for line in lines if line), "Q" in LETTERS[: len(answers)]
    )
    named = _Labels(answers)
    found = _complete([_from_json(text, named)], len(answers))
    if found is None:
        found = _from_lines(named.marked(_plain(text)), len(answers))
    return None if found is None else _of_100(found, "%" in text)


def normalised(numbers: Sequence[float]) -> tuple[float, ...] | None:
    """Return numbers of 100 as shares that sum to 1; None where they sum to no such."""
    total = math.fsum(numbers)
    # A little more than the bounds, which sums of decimals miss by rounding alone.
    if not LEAST - 1e-9 <= total <= MOST + 1e-9:
        return None
    return tuple(number / total for number in numbers)


def _of_100(found: tuple[float, ...], percent: bool) -> tuple[float, ...]:
    """Turn proportions into numbers of 100."""
    small = max(found) <= 1 and any(number % 1 for number in found) and not percent
    scaled = tuple(100 * number for number in found)
    return scaled if small and normalised(scaled) else found


def _plain(text: str) -> str:
    """Write digits, dashes and quotes in one way, without markup."""
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS)
    for pattern, plain in _DROPPED:
        text = pattern.sub(plain, text)
    return text


class _Labels:
    """What the answers of a question may be called.

    Parameters
    ----------
    answers : sequence of str
        In displayed order.
    """

    def __init__(self, answers: Sequence[str]) -> None:
        plain = [" ".join(_plain(answer).split()).casefold() for answer in answers]
        self._exactly = {text: place for place, text in enumerate(plain)}
        longest = sorted(enumerate(plain), key=lambda one: -len(one[1]))
        self._texts = [
            (re.compile(self._pattern(text), re.IGNORECASE), chr(_FIRST + place))
            for place, text in longest
            if text
        ]
        self._letters = {letter.casefold(): place for place, letter in
                         enumerate(LETTERS[: len(answers)])}  # fmt: skip

    @staticmethod
    def _pattern(text: str) -> str:
        """A text that reads like a number is a label only before a sign that sets it off."""
        written = re.escape(text).replace(r"\ ", r"[^\S\n]{1,3}")
        if re.search(r"[^\W\d_]", re.sub(r"\b(?:to|and|or)\b", "", text)):
            return rf"(?<![\w$]){written}(?!\w)"
        return rf"(?m)(?:^|(?<=\|))[^\S\n]{{0,3}}{written}(?=[^\S\n]{{0,3}}[:=|]| - )"

    def marked(self, text: str) -> str:
        """Put a sign in the place of every answer's text, the longest texts first."""
        for pattern, mark in self._texts:
            text = pattern.sub(f" {mark} ", text)
        return text

    def of(self, text: str) -> int | None:
        """Return the answer that a text names, and nothing else: by letter, by text, or both."""
        plain = " ".join(_plain(text).split()).casefold()
        if plain in self._exactly:
            return self._exactly[plain]
        head, rest = plain[:1], plain[1:].lstrip(" .):-")
        place = self._letters.get(head)
        return place if not rest or self._exactly.get(rest) == place else None


def _from_json(text: str, named: _Labels) -> list[_Entry]:
    """Return the entries of the last JSON object or list that names an answer."""
    decoder = json.JSONDecoder(object_pairs_hook=_Pairs)
    found: list[_Entry] = []
    start, tries = 0, 0
    while (opening := _OPENING.search(text, start)) and tries < MOST_TRIES:
        start, tries = opening.start() + 1, tries + 1
        try:
            data, start = decoder.raw_decode(text, opening.start())
            # A number and its per cent say the same.
            found = [one for one, _ in groupby(_entries(data, None, named))] or found
        except (ValueError, RecursionError):
            continue
    return found


class _Pairs(list[tuple[str, Any]]):
    """A JSON object, in which a key may be there twice."""


def _entries(data: Any, label: int | None, named: _Labels) -> Iterator[_Entry]:
    """Go through decoded JSON; what stands under an answer's name is its number."""
    if isinstance(data, _Pairs):
        said = [place for _, value in data if isinstance(value, str)
                if (place := named.of(value)) is not None]  # fmt: skip
        # {"answer": "A", "people": 30}
        inside = said[0] if len(set(said)) == 1 else label
        for key, value in data:
            if (place := named.of(key)) is not None:
                yield from _entries(value, place, named)
            elif not (isinstance(value, str) and named.of(value) is not None):
                yield from _entries(value, inside, named)
    elif isinstance(data, list):
        for one in data:
            yield from _entries(one, label, named)
    elif label is not None and isinstance(data, str):
        line = _plain(f": {data}")
        if tokens := [one for one in _tokens(line) if one.label is None]:
            yield label, _one_value(tokens, line)
    elif label is not None and isinstance(data, (int, float)) and not isinstance(data, bool):
        yield label, float(data) if 0 <= data < LARGEST else math.nan


def _complete(blocks: Sequence[Sequence[_Entry]], levels: int) -> tuple[float, ...] | None:
    """Return the numbers of the last list that has every answer once.

    Parameters
    ----------
    blocks : sequence of sequence of (int, float)
        Entries that stand together; a list may be repeated in a block.
    levels : int
    """
    found = None
    for block in blocks:
        lists = [dict(block[at : at + levels]) for at in range(0, len(block), levels)]
        if lists and all(len(one) == levels for one in lists):
            found = lists[-1]
    if found is None or any(math.isnan(value) for value in found.values()):
        return None
    return tuple(found[place] for place in range(levels))


def _from_lines(text: str, levels: int) -> tuple[float, ...] | None:
    """Read labels and numbers line by line, or as many numbers as there are answers."""
    blocks: list[list[_Entry]] = [[]]
    for line in text.splitlines():
        if entries := _line(line, levels):
            blocks[-1] += entries
        elif line.strip(" |:-+=_"):
            blocks.append([])
    everything = [entry for block in blocks for entry in block]
    # Explained one by one, or listed and then said again.
    if len(everything) == levels:
        blocks = [everything]
    if everything:
        return _complete(blocks, levels)
    return _unlabelled(text, levels)


def _unlabelled(text: str, levels: int) -> tuple[float, ...] | None:
    """Read a reply that is nothing but numbers."""
    numbers = _BARE.findall(text)
    if len(numbers) != levels or not _SEPARATORS.fullmatch(_BARE.sub("", text)):
        return None
    return tuple(map(float, numbers))


def _line(line: str, levels: int) -> list[_Entry]:
    """Return what a line says: labels and numbers by turns, whichever comes first."""
    tokens = _tokens(line, levels)
    if any(one.label is None for one in tokens):
        # "30 (25-35)": the number outside counts, if there is one.
        bare = _ASIDE.sub(" ", line)
        outside = _tokens(bare, levels)
        if any(one.label is None for one in outside) and any(
            one.label is not None for one in outside
        ):
            line, tokens = bare, outside
    turns = _turns(tokens, line)
    if len(turns) < 2 or len(turns) % 2:
        return []
    pairs = list(zip(turns[::2], turns[1::2], strict=True))
    if all(one.label is not None and other.label is None for one, other in pairs):
        return [(int(one.label or 0), other.value) for one, other in pairs]
    if all(one.label is None and other.label is not None for one, other in pairs):
        return [(int(other.label or 0), one.value) for one, other in pairs]
    return []


def _tokens(line: str, levels: int = 0) -> list[_Token]:
    """Find the labels and values of a line."""
    found = []
    for match in _TOKEN.finditer(line):
        if match["text"]:
            found.append(_Token(ord(match["text"]) - _FIRST, 0.0, match.start()))
        elif match["letter"]:
            letter = match["letter"]
            place = LETTERS.index(letter.upper())
            small = letter.islower() and not _LOWER_LETTER.match(line, match.start())
            if place < levels and not small:
                found.append(_Token(place, 0.0, match.start()))
        else:
            found.append(_Token(None, _value(match, line), match.start()))
    return found


def _value(match: re.Match[str], line: str) -> float:
    """Return a number, or the middle of a range; NaN where it is no number of 100."""
    low = float(match["low"].replace(",", "."))
    if match["negative"]:
        return math.nan
    if match["high"]:
        high = float(match["high"].replace(",", "."))
        if match["and"] and not _BETWEEN.search(line, max(match.start() - 12, 0), match.start()):
            return math.nan
        return (low + high) / 2 if low <= high else math.nan
    bound = (match["bound"] or "").strip().casefold()
    if not bound:
        return low
    above = bound in (">", "more than", "over", "above", "at least")
    return (low + 100) / 2 if above and low <= 100 else low / 2


def _turns(tokens: Sequence[_Token], line: str) -> list[_Token]:
    """Put together what belongs together: "A. Yes", "30 (30 %)", and "A: 30 (Yes)"."""
    found: list[_Token] = []
    for token in tokens:
        before = found[-1] if found else None
        if len(found) > 1 and token.label is not None and token.label == found[-2].label:
            continue
        if before is None or (before.label is None) != (token.label is None):
            found.append(token)
        elif token.label is not None:
            if token.label != before.label:
                return []
        else:
            found[-1] = token._replace(value=_one_value((before, token), line))
    return found


def _one_value(tokens: Sequence[_Token], line: str) -> float:
    """Return the value of several that say the same, or that a sign sets off; else NaN."""
    last = tokens[-1]
    if all(one.value == last.value for one in tokens):
        return last.value
    return last.value if re.search(r"[:=|][^\S\n]*\Z", line[: last.start]) else math.nan
