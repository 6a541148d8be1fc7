r"""Reading how many of 100 people a model says give each answer.

The thought is taken away first (`forms`), and the next question of a model that goes on to ask
itself one. What is left is read as JSON if it has an object that names every answer, else as a
table with a column for each answer, else line by line. **In a line that says a number of an answer
every word has to be known**: a word that is not may change whose number it is ("slightly liberal",
"30 less than B") or of what ("30 million").

==========================================  ==============================================
in the reply                                read as
==========================================  ==============================================
``A: 30``  ``A. Yes: 30``  ``Yes - 30 %``   30 for the answer, called by its letter, by its
``| A | Yes | 30 |``  ``A = 30, B = 70``    text, or by both; several may stand in a line; so
``<A>30</A>``  ``A) 2-3 (30)``              too where the text is "2-3"
``30 would say Yes (A)``                    30
``{"A": 30, "B": 70}``                      30 and 70, and ``[{"answer": "A", "people": 30}]``,
                                            and such inside another object
``30 of 100``  ``30/100``  ``about 30``     30, and ``~30``, ``30 people``, ``30 (25-35)``
``30-40``  ``30 to 40``  ``30% - 40%``      35: the middle
``<5``  ``up to 5``  ``>90``                2.5 and 95: the middle from 0, and up to 100, where
                                            this is at most 5 away from either end
``over 30``  ``at most 70``  ``30+``        nothing: these leave too much
``12,5``                                    12.5; ``1,000`` is nothing
``0.3`` and ``.7``                          30 and 70: proportions, where all are at most 1, one
                                            is no whole number, none has a per cent sign, and they
                                            sum to 0.9 to 1.1
``A: 1, B: 0``                              100 and 0: proportions that sum to 1, unless they stand
                                            without labels or the reply speaks of people, per cents
                                            or 100
``30, 70``                                  as listed, where nothing but K numbers is there
``A: 30, B: 65, unsure: 5``                 nothing: an answer that was not offered; "total: 100"
                                            and "confidence: 80" are no answers
an answer twice, or missing                 nothing, unless another list in the reply is complete
two whole lists that differ                 nothing, unless the last is said to be final and of no
                                            others; "for example A: 50" is no list
``A: 18-24``, if every answer's text is so  nothing: the question once more
``-5``  ``1e2``  ``thirty``  ``30 of 1000`` nothing
==========================================  ==============================================

Numbers that sum to 90 to 110 are divided by their sum; others are no answer (`normalise_shares`).
Every pattern is bounded, so that a reply is read in time linear in its length.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.ask.replies.forms import Rewriting, any_of, form, signs, unwrap_answer, words
from lm_eval_epidemia.ask.replies.letters import before_next_question
from lm_eval_epidemia.surveys.variable import is_number

#: Between which a sum counts as 100.
LEAST, MOST = 90.0, 110.0

#: A bound counts where it leaves so much, by the middle: "<5" and ">90", not "at least 30".
WIDEST = 10.0

#: A reply of nothing but brackets is not tried at each of them.
MOST_TRIES = 100

# ---- Plain text

_SIGNS = signs("everywhere", "of shares")
_without_markup = Rewriting("shares")


def _normalise_text(text: str) -> str:
    """Write digits, dashes and quotes in one way, without markup."""
    return _without_markup(unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS))


# ---- What an answer is called

#: Stand for the answers while the rest is read, by letter and by text.
_LETTERS, _TEXTS = 0xE000, 0xE100
_L = f"[{chr(_LETTERS)}-{chr(_LETTERS + 25)}]"
_S = f"{_L[:-1]}{chr(_TEXTS)}-{chr(_TEXTS + 25)}]"
_UNIT = r"(?: (?!to\b|and\b|or\b)[a-z]{1,12}){0,2}"


class Labels:
    """The possible names of a question's answers: by letter, by text, or by both.

    A text that is a number itself ("0", "2-3", "18-29") could be the answer's number as well. It is
    a label beside its letter, and at the beginning of a line, of a cell or after a comma where a
    sign sets it off, and only if all such texts stand so.

    Parameters
    ----------
    answers : sequence of str
        In displayed order.

    Attributes
    ----------
    numbers : list
        The patterns of texts that are numbers themselves, by place.
    """

    def __init__(self, answers: Sequence[str]) -> None:
        self.letters = LETTERS[: len(answers)]
        self.texts = [" ".join(_normalise_text(answer).split()).casefold() for answer in answers]
        self._exactly = {text: place for place, text in enumerate(self.texts)}
        # The longest first: one may begin like another.
        self._words, self.numbers = list[tuple[int, re.Pattern[str]]](), list[Any]()
        for place, text in sorted(enumerate(self.texts), key=lambda one: -len(one[1])):
            written, letter = re.escape(text).replace(r"\ ", " "), self.letters[place]
            if not text:
                continue
            if re.search(r"[^\W\d_]", re.sub(r"\b(?:to|and|or)\b", "", text)):
                # "4 or more visits (40)", beside "0 visits (11)"
                unit = rf"(?:{_UNIT}(?= ?[:=(|]))?" if text[0].isdigit() else ""
                word = rf"(?<![\w$']){written}(?!\w|-[^\W\d_]|'| (?:more|less|fewer) than){unit}"
                self._words.append((place, re.compile(word, re.IGNORECASE)))
            else:
                # "A) 0 (11)", "0: 11", "11 would say 0 (A)"
                off = r" ?(?:[:=(|]|- )[^\n\d)]{0,20}\d"
                number = (
                    rf"(?:(?<![\w']){letter}(?:[.):=(|-]| ){{1,4}}|(?P<before>^ ?\|? ?|[,;] ))"
                    rf"{written}{_UNIT}(?=\)?{off})|(?<![\w.-]){written}(?={_UNIT} ?\({letter}\))"
                )
                self.numbers.append((place, re.compile(number, re.IGNORECASE | re.MULTILINE)))
        self._letter = re.compile(
            rf"(?<![\w'])([{''.join(self.letters)}]|[{''.join(self.letters).lower()}](?= ?[).:=|]))"
            r"(?![\w']|-\w)"
        )

    def signed(self, text: str) -> str:
        """Put a sign in the place of every name of an answer."""
        # "A=10,22" where A is "10" is no 10.22.
        for place, text_ in enumerate(self.texts):
            if re.search(rf"(?<!\w){self.letters[place]}[^\w\n]{{1,4}}{re.escape(text_)},\d", text):
                raise _Unread
        if all(pattern.search(text) for _, pattern in self.numbers):
            for place, pattern in self.numbers:
                text = pattern.sub(rf"\g<before> {chr(_TEXTS + place)}", text)
        for place, pattern in self._words:
            text = pattern.sub(chr(_TEXTS + place), text)
        return self._letter.sub(
            lambda match: chr(_LETTERS + self.letters.index(match[1].upper())), text
        )

    def of(self, text: str) -> int | None:
        """Return the answer that a text names, and nothing else: by letter, text, or both."""
        written = " ".join(_normalise_text(text).split()).casefold()
        if written in self._exactly:
            return self._exactly[written]
        head, rest = written[:1].upper(), written[1:].lstrip(" .):-")
        place = self.letters.index(head) if head and head in self.letters else None
        return place if not rest or self._exactly.get(rest) == place else None


# ---- A line

_N = r"(?:\d{1,3}(?:\.\d{1,6}|,\d{1,2})?|\.\d{1,6})"
_PERCENT = r"(?: ?(?:%|per ?cent\b))?"
_HEDGE = rf"(?:~|{words('hedge')}) ?"
_VALUE = (
    rf"(?:{_HEDGE}){{0,2}}(?P<below>(?:<|{words('below')}) ?)?(?P<above>(?:>|{words('above')}) ?)?"
    rf"(?P<low>{_N}){_PERCENT}(?: ?(?:-|to\b|and\b) ?(?P<high>{_N}){_PERCENT})?"
    r"(?![\w.$€£^+-]?\d|[\w$€£^+])"
)
#: Who is counted, and of how many.
_AFTER = (
    rf"(?: ?(?:{words('people')}|per ?cent\b|%|(?:/|\b(?:out of|of|in|per)\b) ?"
    rf"(?:(?:the|every|these|such) )?100\b(?! ?0)|± ?{_N} ?%?"
    rf"|of (?:them|these|those)(?: {words('people')})?\b)){{0,4}}"
)
#: Between an answer and its number, and between a number and its answer.
_IS = rf"(?:[ :=|,]|\.(?!\d)|-(?!\d)|{words('gets', 'people')}){{0,8}}"
_SAY = rf"(?:[ :=|,(-]|{words('gives', 'people')}|'){{0,9}}"
#: Before the first answer of a line.
_BEFORE = rf"(?:[ :.(|,;-]|{words('begins', 'people')}){{0,12}}"
_LABEL = (
    rf"(?P<label>{_S}(?:[ .):(|,/-]{{1,4}}{_S})?)[)\]. ]{{0,3}}"
    rf"(?:\((?!{form('aside')})[^()\d\n{_S[1:]}{{1,60}}\) ?)?"
)
_ASIDE = r"(?P<aside> ?\([^()\n]{0,80}\))?"
_NAMED = re.compile(rf"{_BEFORE}{_LABEL}{_IS} ?\(?{_VALUE}\)?{_AFTER}\)?{_ASIDE}", re.IGNORECASE)
#: "A. In the past year: 30": a letter and what is said in its answer's place.
_LETTERED = re.compile(
    rf"(?P<label>{_L}[.)] {_S}?)[^\n{_S[1:]}{{1,80}}?(?:[:=|]| - ) ?{_VALUE}{_AFTER}{_ASIDE}\Z",
    re.IGNORECASE,
)
_COUNTED = re.compile(rf"{_BEFORE}{_VALUE}{_AFTER}{_ASIDE}{_SAY}{_LABEL}", re.IGNORECASE)
#: What may follow: another answer, or words without a number.
_NEXT = re.compile(
    rf" ?(?:[,;|/.&]|\band\b|(?=\() ?| - |to (?:this|that|it)\b|(?<= )(?={_S})|\Z){{1,3}}"
)
#: "30 | 30%", "30 = 30%", "(Yes)": the same once more.
_AGAIN = re.compile(rf" ?[|=,] ?(?P<again>{_N}) ?%?(?= ?(?:\||\Z))|[ |(]{{1,3}}(?P<name>{_S})\)?")
#: "Other: 5", "| Unsure | 5 |": an answer that was not offered, but for what is none.
_OUTSIDE = re.compile(
    r"\W{0,4}([^\W\d][^:=|\n\d]{0,60}?)[) ]{0,2}(?:[:=|(]| - )[ ~|(<>]{0,4}\.?\d"
    r"|(?P<letter>[A-Za-z])[.)] ?\d|\d{1,3}%? [A-Za-z] ?\Z"
)
_BESIDES, _EXAMPLE, _LAST = map(any_of, ("besides", "example", "last"))
_DRAFT, _OTHERS, _CHANGES = map(any_of, ("draft", "others", "changes"))
_TOTAL = re.compile(
    r"\W{0,3}(?:total|sum|confidence|certainty)\W{1,4}\d{1,3}\W{0,3}\Z", re.IGNORECASE
)
#: A basis other than 100.
_PER_MILLE = re.compile(
    r"\u2030|\bper ?mille\b|\b(?:out of|per) (?:1[,. ]?000\b|a? ?thousand)", re.IGNORECASE
)

#: A number without a label, and what may stand around it.
_BARE = re.compile(r"(?<![\w.-])(?:\d{1,3}(?:\.\d{1,6})?|\.\d{1,6})(?![\w.]\d|\w)")
_SEPARATORS = re.compile(r"[\s,;|/().:%-]*")
_LISTED = re.compile(r"(?m)^\d{1,2}[.)]\s")

#: With either of these a number is of 100, and 1 is not everybody.
_PERCENTS = re.compile(r"%|\d ?per ?cent", re.IGNORECASE)
_COUNTS = re.compile(rf"per ?cent|100|{words('people')}", re.IGNORECASE)


class _Unread(Exception):
    """Something in a reply leaves its numbers open."""


class _List(NamedTuple):
    """Numbers of all answers in displayed order, and what stands before them."""

    numbers: tuple[float, ...]
    before: str


def read_shares(reply: str, answers: Sequence[str]) -> tuple[float, ...] | None:
    """Read a number for every answer.

    Parameters
    ----------
    reply : str
        As a model wrote it, thought included.
    answers : sequence of str
        The texts of the answers in displayed order, lettered A, B, ...

    Returns
    -------
    tuple of float or None
        In displayed order, at least 0, per 100 but not necessarily summing to 100; None if they
        cannot be read.
    """
    lines = (line.strip() for line in unwrap_answer(reply).splitlines())
    text = "\n".join(line for line in lines if line)
    text = before_next_question(text, "Q" in LETTERS[: len(answers)])
    named = Labels(answers)
    if _PER_MILLE.search(_normalise_text(text)):
        return None
    try:
        numbers = _read_list(text, named)
    except _Unread:
        return None
    # "A. 18-24", "B. 25-34": the question once more
    if numbers is None or [*numbers] == [*map(_number_in, named.texts)]:
        return None
    return _of_100(numbers, text)


def normalise_shares(numbers: Sequence[float]) -> tuple[float, ...] | None:
    """Return numbers per 100 as shares that sum to 1; None if their sum is too far from 100."""
    total = math.fsum(numbers)
    # A little more than the bounds, which sums of decimals miss by rounding alone.
    if not LEAST - 1e-9 <= total <= MOST + 1e-9:
        return None
    return tuple(number / total for number in numbers)


def _of_100(numbers: tuple[float, ...], text: str) -> tuple[float, ...]:
    """Turn proportions into numbers of 100."""
    # "0.3 (30%)" is a proportion.
    text = re.sub(r"(?<=\d)[^\S\n]?\([^()\n]{0,80}%\)|\|[^|\n]{0,9}%", "", text)
    if max(numbers) > 1 or _PERCENTS.search(text):
        return numbers
    scaled = tuple(100 * number for number in numbers)
    if any(number % 1 for number in numbers):
        return scaled if normalise_shares(scaled) else numbers
    # 1 and 0: not of a mere list, and not "1 person"
    is_labelled = re.search(r"[^\W\d_]", text) and not _COUNTS.search(text)
    return scaled if is_labelled and sum(numbers) == 1 else numbers


def _read_list(text: str, named: Labels) -> tuple[float, ...] | None:
    """Return the numbers of the list that counts, or nothing."""
    found, rest = _from_json(text, named)
    lists = [*found, *_from_lines(_normalise_text(rest), named)]
    lists = [one for one in lists if not _EXAMPLE.search(one.before)]
    if not lists:
        # "1. 30" could be the answer "1"
        is_open = found or (named.numbers and _LISTED.search(text))
        return None if is_open else _unlabelled(_normalise_text(text), len(named.letters))
    last = lists[-1]
    if all(one.numbers == last.numbers for one in lists):
        return last.numbers
    is_last = _LAST.search(last.before) or _DRAFT.search(lists[-2].before)
    is_others = re.search(r"\d\d\+", last.before) or _OTHERS.search(last.before)
    is_others = is_others or re.search(r"(?i)\bfinal", lists[-2].before)
    return last.numbers if is_last and not is_others else None


def _unlabelled(text: str, levels: int) -> tuple[float, ...] | None:
    """Read a reply that is nothing but numbers."""
    numbers = _BARE.findall(text)
    if len(numbers) != levels or not _SEPARATORS.fullmatch(_BARE.sub("", text)):
        return None
    return tuple(map(float, numbers))


def _from_json(text: str, named: Labels) -> tuple[list[_List], str]:
    """Return the lists in JSON, and the text around it."""
    decoder = json.JSONDecoder(object_pairs_hook=_JsonPairs)
    found, rest, done = list[_List](), list[str](), 0
    openings = (at.start() for at in re.finditer(r"[{\[]", text) if at.start() >= done)
    for start in islice(openings, MOST_TRIES):
        try:
            data, end = decoder.raw_decode(text, start)
            entries = list(_entries(data, None, named))
        except ValueError:
            continue
        except RecursionError:
            # Nested so deep it is no answer, at the next bracket neither.
            break
        if entries:
            places = dict(entries)
            if sorted(places) != list(range(len(named.letters))) or len({*entries}) > len(places):
                raise _Unread
            before = text[done:start]
            found.append(_List(tuple(places[i] for i in sorted(places)), before[-300:]))
            rest.append(before)
            done = end
    return found, "\n".join([*rest, text[done:]])


class _JsonPairs(list[tuple[str, Any]]):
    """A JSON object, in which a key may be there twice."""


def _entries(data: Any, label: int | None, named: Labels) -> Iterator[tuple[int, float]]:
    """Go through decoded JSON; what stands under an answer's name is its number."""
    if isinstance(data, _JsonPairs):
        texts = [
            named.of(text) for key, text in data if isinstance(text, str) and named.of(key) is None
        ]
        # {"answer": "A", "people": 30}, and not {"A": {"answer": "B", "people": 30}}
        inside = {place for place in texts if place is not None}
        if len(inside) > 1 or (label is not None and inside and inside != {label}):
            raise _Unread
        own = inside.pop() if inside else label
        is_named = any(named.of(key) is not None for key, _ in data)
        for key, value in data:
            if (place := named.of(key)) is not None:
                yield from _entries(value, place, named)
            elif is_named and is_number(value) and not _BESIDES.search(key):
                raise _Unread
            elif not (isinstance(value, str) and named.of(value) is not None):
                is_none = is_named or _BESIDES.search(key.replace("people", ""))
                yield from _entries(value, None if is_none else own, named)
    elif isinstance(data, list):
        each = [list(_entries(item, label, named)) for item in data]
        for item, entries in zip(data, each, strict=True):
            is_other = isinstance(item, str) and named.of(item) not in (None, label)
            # {"answer": "unsure", "people": 5} among those that are named
            is_outside = isinstance(item, _JsonPairs) and not entries and any(each)
            if (label is not None and is_other) or (
                is_outside and any(is_number(value) for _, value in item)
            ):
                raise _Unread
            yield from entries
    elif label is not None and (isinstance(data, str) or is_number(data)):
        if (number := _number_in(str(data))) is not None:
            yield label, number
        elif re.search(r"\d", str(data)):
            raise _Unread


def _number_in(text: str) -> float | None:
    """Return the number that a text is; None if it is none."""
    match = _NAMED.fullmatch(_normalise_text(f"{chr(_LETTERS)}: {text}").strip())
    try:
        return _value(match) if match else None
    except _Unread:
        return None


def _value(match: re.Match[str]) -> float:
    """Return a number, or the middle of a range."""
    low, high = (float((match[name] or "nan").replace(",", ".")) for name in ("low", "high"))
    if match["below"] or match["above"]:
        low, high = (0.0, low) if match["below"] else (low, 100.0)
        if match["high"] or not 0 <= high - low <= WIDEST:
            raise _Unread
    value = low if math.isnan(high) else (low + high) / 2
    said = [float(number.replace(",", ".")) for number in re.findall(_N, match["aside"] or "")]
    is_same = not said or min(said) <= value <= max(said) or math.isclose(100 * value, said[0])
    # "30 (25-35)", "0.3 (30%)"
    if low > high or not is_same:
        raise _Unread
    return value


def _from_lines(text: str, named: Labels) -> list[_List]:
    """Return the lists of a plain text, in lines or in columns; unread if one is left open."""
    found, entries = list[_List](), list[tuple[int, float]]()
    before, levels = "", len(named.letters)
    text = re.sub(r"(?<=[a-z]{2}[.!?]) (?=[A-Z])", "\n", _columns_as_lines(text, named))
    for line, signed in zip(text.split("\n"), named.signed(text).split("\n"), strict=True):
        pairs, start = _pairs(signed)
        if not pairs:
            outside = _OUTSIDE.match(signed)
            is_of_answers = re.search(_S, signed) and re.search(r"\d", signed)
            if outside and not _BESIDES.search(outside[1] or ""):
                raise _Unread
            if is_of_answers and (entries or _CHANGES.search(signed)):
                raise _Unread
            before = line[-300:] if not entries else before
            continue
        before = f"{before} {signed[:start]}" if not entries else before
        for pair in pairs:
            entries.append(pair)
            if len(entries) == levels:
                if len({place for place, _ in entries}) < levels:
                    raise _Unread
                found.append(_List(tuple(value for _, value in sorted(entries)), before))
                entries, before = [], ""
    if entries:
        raise _Unread
    return found


def _pairs(line: str) -> tuple[list[tuple[int, float]], int]:
    """Return the answers and their numbers in a line, if it is known throughout, and its start."""
    found, at, first = list[tuple[int, float]](), 0, 0
    while at < len(line) and (re.search(_S, line[at:]) and re.search(r"\d", line[at:])):
        match = _LETTERED.match(line) if not at else None
        match = match or _NAMED.match(line, at) or _COUNTED.match(line, at)
        if not match:
            return [], 0
        signs = {
            ord(sign) & 0xFF for sign in re.findall(_S, match["label"] + (match["aside"] or ""))
        }
        if len(signs) != 1:
            return [], 0
        value, at = _value(match), match.end()
        first = first or match.start("label")
        while again := _AGAIN.match(line, at):
            number = float((again["again"] or "nan").replace(",", "."))
            is_other = again["name"] and ord(again["name"]) & 0xFF not in signs
            if is_other or (again["again"] and number not in (value, 100 * value, value / 100)):
                break
            at = again.end()
        found.append((signs.pop(), value))
        after = _NEXT.match(line, at)
        if not after:
            return [], 0
        at = after.end()
    # Numbers after the last answer are of something else, but for "Total: 100".
    is_known = not re.search(r"\d", line[at:]) or _TOTAL.match(line[at:])
    return (found if is_known else []), first


def _columns_as_lines(text: str, named: Labels) -> str:
    """Write a table with a column for each answer as a line for each."""
    written, header, places = list[str](), list[str](), list[int | None]()
    for line in text.split("\n"):
        cells = [
            cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")
        ]
        found = [named.of(cell) for cell in cells]
        if sorted(i for i in found if i is not None) == list(range(len(named.letters))):
            header, places = (cells, found) if "|" in line else (header, places)
            continue
        if not places or len(cells) != len(places) or not re.search(r"\d", line):
            written.append(line)
            continue
        for place, name, cell in zip(places, header, cells, strict=True):
            if place is not None:
                written.append(f"{named.letters[place]}: {cell}")
            elif re.search(r"\w", name) and re.search(r"\d", cell) and not _BESIDES.search(name):
                raise _Unread
    return "\n".join(written)
