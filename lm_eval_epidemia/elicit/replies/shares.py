r"""Reading how many of 100 people a model says give each answer.

Reasoning is cut off (`replies.answer_text`), and the next question of a model that goes on to ask
itself one. What is left is read as JSON if an object in it names every answer, else line by line,
tables first made lines (`tables`); what an answer is called is in `labels`:

==========================================  ==============================================
in the reply                                read as
==========================================  ==============================================
``A: 30``  ``A. Yes: 30``  ``Yes - 30 %``   30 for the answer, called by its letter, by its
``| A | Yes | 30 |``  ``A = 30, B = 70``    text, or by both; several may stand in a line; so
``<A>30</A>``  ``A) 2-3 (30)``              too where the text is "2-3"
``30 would say Yes (A)``                    30: the number may come first, if it always does
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
an answer twice, or missing                 nothing, unless another list in the reply is complete
two whole lists that differ                 nothing, unless the last is said to be final and of no
                                            others (`announced`); "for example A: 50" is no list
``A. No: 30`` where A is "Yes"              nothing
``A: 30, other: 5``  ``| A | ~30 | 45 |``   nothing: two numbers of A
``No answer: 5``  ``No-one: 5``             passed over in a line of its own; it is not "No"
``not A: 30``  ``slightly liberal: 30``     nothing: another answer; nor is "C: 5" of two answers
``30 of 1000``  ``30 million``  ``age 30``  nothing
``A is 30 less than B``  ``3 times B``      nothing: by how much answers differ is no number of one
``A: 18-24``, if every answer's text is so  nothing: the question once more
``-5``  ``1e2``  ``thirty``                 nothing
==========================================  ==============================================

Numbers that sum to 90 to 110 are divided by their sum; others are no answer (`normalised`). Every
pattern is bounded, so that a reply is read in time linear in its length.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from lm_eval_epidemia.elicit.orderings import LETTERS
from lm_eval_epidemia.elicit.replies.announced import is_example, is_final
from lm_eval_epidemia.elicit.replies.labels import MARKS, NEGATED, Labels, place_of, plain
from lm_eval_epidemia.elicit.replies.letters import answer_text, before_next_question
from lm_eval_epidemia.elicit.replies.tables import as_lines

#: Between which a sum counts as 100.
LEAST, MOST = 90.0, 110.0

#: Numbers have three digits at most.
LARGEST = 1000

#: A bound counts where it leaves so much, by the middle: "<5" and ">90", not "at least 30".
WIDEST = 10.0

_N = r"(?:\d{1,3}(?:\.\d{1,6}|,\d{1,2})?|\.\d{1,6})"
_PERCENT = r"[^\S\n]?(?:%|per ?cent)?"
_BELOW = (
    r"<|\b(?:(?:less|fewer|(?:no|not) more) than|under|below|at most|up to|max(?:imum)?(?: of)?)\b"
)
_ABOVE = (
    r">|\b(?:(?:more|(?:no|not) (?:less|fewer)) than|over|above|at least|min(?:imum)?(?: of)?)\b"
)
#: "30+", "30 or more", "30 at most"
_OPEN = (
    r"[^\S\n]?(?:\+(?![^\S\n]?\d)|\b(?:or|and) (?:more|less|fewer|over|above|under|below|higher"
    r"|lower|up|older|younger)\b|\bat (?:most|least)\b(?! \d)|\b(?:max|min)(?:imum)?\b(?! \d))"
)
_VALUE = (
    rf"(?:(?:(?P<below>{_BELOW})|(?P<above>{_ABOVE}))[^\S\n]?)?"
    r"(?P<negative>(?<=[:=|(])[^\S\n]?-)?(?<![\w.$€£^])(?<!\d,)"
    rf"(?P<low>{_N}){_PERCENT}(?:[^\S\n]?(?:-|\bto\b|(?P<and>\band\b))[^\S\n]?(?P<high>{_N}){_PERCENT})?"
    rf"(?P<open>{_OPEN})?(?![\w$€£^]|[.,]\d)"
)
#: "A person" begins a sentence, "A is 30" and "A about 30" are answers.
_LETTER = (
    r"(?<![\w'])(?P<letter>[A-Z])(?![\w'])"
    r"(?! (?!(?:is|are|was|has|have|gets?|would|about|around|roughly|approximately|at|and|or)\b)"
    r"(?-i:[a-z]))"
)
_TOKEN = re.compile(rf"(?P<text>[{MARKS}])|{_VALUE}|{_LETTER}", re.IGNORECASE)
_LOWER_LETTER = re.compile(r"(?<![\w'])([a-z])(?= ?[).:=|])")
_BETWEEN = re.compile(r"\bbetween[^\S\n]{1,3}\Z", re.IGNORECASE)
#: "A (5) nationally: 20" is no aside.
_ASIDE = re.compile(
    r"(?!\([^\S\n]?~?\d{1,3}%?[^\S\n]?\)[^\S\n]?(?:[:=]|[^\W\d_]{2}))\([^()\n]{0,80}\d[^()\n]{0,80}\)"
)
_PERCENT_ASIDE = re.compile(r"(?<=\d)[^\S\n]?\([^()\n]{0,80}%\)")
_SET_OFF = re.compile(r"[:=][^\S\n]*\Z")
#: "100 - 70 = "
_COMPUTED = re.compile(r"(?=[^=]{0,80}[+/x\xd7\xf7-])[\d\s.()%+/x\xd7\xf7-]{1,80}=\s*")
#: "A about 5, all: 20", "A: 5 | 20": the first number is none of the answer's text.
_HEDGED = re.compile(
    r"(?:[~|(:=]|\b(?:about|around|roughly|approx\w*|ca|circa|est\w*)\.?)[^\S\n]{0,3}\Z",
    re.IGNORECASE,
)
_APART = re.compile(r"[,;][^\S\n]|[A-Z|%~(]|\b(?:people|vs|versus|about)\b")
#: No numbers of people, or not of 100: "age 30", "not 30", "30 of 1000", "30 million".
_NO_COUNT = re.compile(
    # Not "of age: 30" and "some confidence: 30": so end the texts of answers.
    r"(?:(?:n't|\b(?:not|age[ds]?|confidence|certainty|year|rank|rating|score))(?:[^\S\n](?:is|of))?"
    r"|[:=(|,;][^\S\n]?(?:my[^\S\n])?(?:confidence|certainty|rank|rating|score)[^\S\n]?[:=]"
    r"|\b(?:confidence|certainty)\)[^\S\n]?[:=])[^\S\n]?\Z",
    re.IGNORECASE,
)
_OTHER_BASE = re.compile(
    r"[^\S\n]?(?:(?:people|persons?|cases?)[^\S\n])?"
    r"(?:(?:/|(?:out[^\S\n])?of\b|in\b|per\b|from\b)[^\S\n]?(?:(?:the|every|a|an|each)[^\S\n])?"
    r"(?:\d|hundred|thousand|million|billion)|-?(?:thousand|million|billion|hundred|mn|bn|years?)\b"
    r"|(?:confiden|certain|sure\b|refus|declined|unknown))",
    re.IGNORECASE,
)
#: By how much an answer differs from another: "30 less than B", "3 times B", "ahead by 30".
_MORE = "more|less|fewer|higher|lower|larger|smaller|greater|bigger"
_OTHER = rf"[^\S\n]{{1,3}}(?:[A-Z]\b|[{MARKS}]|(?:that|the|as|{_MORE})\b)"
_DIFFERS = re.compile(
    r"[^\S\n]?(?:(?:people|persons?|per ?cent|percentage|points?|pts?|pp)[^\S\n]){0,2}(?:"
    rf"(?:{_MORE})\b(?:[^\S\n]?(?:[.,;)]|\Z)|[^.;:\d\n]{{0,40}}\bthan\b(?![^\S\n]?\d))"
    rf"|(?:above|below|over|under|ahead of|behind|short of|times|-?fold){_OTHER})",
    re.IGNORECASE,
)
_BY = re.compile(
    rf"\b(?:leads?|trails?|differs?|exceeds?|ahead|behind|beats?|{_MORE})[^\S\n]{{1,3}}"
    rf"(?:[\w{MARKS}][^\S\n]{{1,3}})?by[^\S\n](?:about[^\S\n])?\Z",
    re.IGNORECASE,
)
#: A number without a label, and what may stand around it.
_BARE = re.compile(r"(?<![\w.-])(?:\d{1,3}(?:\.\d{1,6})?|\.\d{1,6})(?![\w.]\d|\w)")
_SEPARATORS = re.compile(r"[\s,;|/().:%-]*")
_LISTED = re.compile(r"(?m)^\d{1,2}[.)]\s")

#: With either of these a number is of 100, and 1 is not everybody.
_PERCENTS = re.compile(r"%|\d[^\S\n]?per ?cent", re.IGNORECASE)
_COUNTS = re.compile(
    r"per ?cent|100|\b(?:people|persons?|individuals?|respondents?|adults?|child(?:ren)?|m[ae]n"
    r"|wom[ae]n|households?|famil(?:y|ies)|students?|workers?|patients?|cases?)\b",
    re.IGNORECASE,
)

_OPENING = re.compile(r"[{\[]")
#: So much before and after a number may say what it is of.
AROUND = 300
#: A reply of nothing but brackets is not tried at each of them.
MOST_TRIES = 100


class _Share(NamedTuple):
    """An answer's number among those displayed, how many of 100 give it, and what is around it."""

    label: int
    value: float
    before: str = ""
    after: str = ""


class _Token(NamedTuple):
    """A label (the number of an answer) or a value, NaN if it is none, and where it begins."""

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
        In displayed order, at least 0, per 100 but not necessarily summing to 100; None if they
        cannot be read.
    """
    lines = (line.strip() for line in answer_text(reply).splitlines())
    text = before_next_question(
        "\n".join(line for line in lines if line), "Q" in LETTERS[: len(answers)]
    )
    named = Labels(answers)
    if named.leaves_doubt(plain(text)):
        return None
    written = named.marked(as_lines(plain(_json_as_lines(text, named)), named))
    # "1. 30" could be the answer "1"
    numbers = _from_lines(written, named, not (named.numbers and _LISTED.search(text)))
    # "A. 18-24", "B. 25-34": the question once more
    if numbers is None or numbers == tuple(_number_in(answer) for answer in answers):
        return None
    return _of_100(numbers, text)


def normalised(numbers: Sequence[float]) -> tuple[float, ...] | None:
    """Return numbers per 100 as shares that sum to 1; None if their sum is too far from 100."""
    total = math.fsum(numbers)
    # A little more than the bounds, which sums of decimals miss by rounding alone.
    if not LEAST - 1e-9 <= total <= MOST + 1e-9:
        return None
    return tuple(number / total for number in numbers)


def _of_100(numbers: tuple[float, ...], text: str) -> tuple[float, ...]:
    """Turn proportions into numbers of 100."""
    # "0.3 (30%)" is a proportion.
    text = _PERCENT_ASIDE.sub("", text)
    if max(numbers) > 1 or _PERCENTS.search(text):
        return numbers
    scaled = tuple(100 * number for number in numbers)
    if any(number % 1 for number in numbers):
        return scaled if normalised(scaled) else numbers
    # 1 and 0: not of a mere list, and not "1 person"
    is_labelled = re.search(r"[^\W\d_]", text) and not _COUNTS.search(text)
    return scaled if is_labelled and sum(numbers) == 1 else numbers


def _json_as_lines(text: str, named: Labels) -> str:
    """Write JSON that has every answer as lines "A: 30"; all other text stays as it is."""
    decoder = json.JSONDecoder(object_pairs_hook=_Pairs)
    written: list[str] = []
    done = start = tries = 0
    while (opening := _OPENING.search(text, start)) and tries < MOST_TRIES:
        start, tries = opening.start() + 1, tries + 1
        try:
            data, start = decoder.raw_decode(text, opening.start())
            entries: list[_Share] = []
            _gather(data, None, named, entries)
        except ValueError:
            continue
        except RecursionError:
            # Nested so deep it is no answer, at the next bracket neither.
            break
        if len({entry.label for entry in entries}) == len(named.letters):
            # A number and its per cent say the same; -1 is no number of people.
            lines = [
                f"{named.letters[label]}: {-1 if math.isnan(value) else value:.6f}"
                for (label, value, *_), _ in groupby(entries)
            ]
            written += [text[done : opening.start()], *lines, ""]
            done = start
    return "\n".join([*written, text[done:]])


class _Pairs(list[tuple[str, Any]]):
    """A JSON object, in which a key may be there twice."""


def _gather(data: Any, label: int | None, named: Labels, entries: list[_Share]) -> None:
    """Go through decoded JSON; what stands under an answer's name is its number."""
    if isinstance(data, _Pairs):
        texts = [value for _, value in data if isinstance(value, str)]
        answers = {*map(named.of, texts)} - {None}
        # {"answer": "A", "people": 30}
        inside = answers.pop() if len(answers) == 1 else label
        # {"A": {"answer": "B", "people": 30}}
        if label is not None and inside != label:
            entries.append(_Share(label, math.nan))
            return
        for key, value in data:
            if (place := named.of(key)) is not None:
                _gather(value, place, named, entries)
            elif not (isinstance(value, str) and named.of(value) is not None):
                _gather(value, inside, named, entries)
    elif isinstance(data, list):
        for item in data:
            if label is not None and item in named.letters and item != named.letters[label]:
                entries.append(_Share(label, math.nan))
            _gather(item, label, named, entries)
    elif label is not None and isinstance(data, str):
        # {"A": "B: 30"}
        other = re.match(r"\s{0,3}([A-Z])\s{0,3}[:=.)]", data)
        if other and other[1] != named.letters[label]:
            entries.append(_Share(label, math.nan))
        elif (number := _number_in(data)) is not None:
            entries.append(_Share(label, number))
    elif label is not None and isinstance(data, (int, float)) and not isinstance(data, bool):
        entries.append(_Share(label, float(data) if 0 <= data < LARGEST else math.nan))


def _number_in(text: str) -> float | None:
    """Return the number in a text without labels, NaN for several; None without one."""
    line = plain(f": {text}")
    tokens = [token for token in _tokens(line) if token.label is None]
    return _one_value(tokens, line) if tokens else None


def _complete(blocks: Sequence[Sequence[_Share]], levels: int) -> tuple[float, ...] | None:
    """Return the numbers of the list that has every answer once.

    Of several that differ, the last one if it is said to be final: it may as well be of others,
    for comparison.

    Parameters
    ----------
    blocks : sequence of sequence of _Share
        Entries that stand together; a list may be repeated in a block.
    levels : int
    """
    complete: list[tuple[tuple[float, ...], Sequence[_Share]]] = []
    for block in blocks:
        lists = [block[at : at + levels] for at in range(0, len(block), levels)]
        if all(len({entry.label for entry in entries}) == levels for entries in lists):
            complete += [
                (tuple(entry.value for entry in sorted(entries)), entries)
                for entries in lists
                if not is_example(entries[0].before)
            ]
    if not complete or any(map(math.isnan, complete[-1][0])):
        return None
    last, entries = complete[-1]
    if any(numbers != last for numbers, _ in complete):
        around = " ".join(entry.before + entry.after for entry in entries)
        if not is_final(entries[0].before, around, complete[-2][1][0].before):
            return None
    return last


def _from_lines(text: str, named: Labels, unlabelled: bool) -> tuple[float, ...] | None:
    """Read labels and numbers line by line, or as many numbers as there are answers."""
    levels = len(named.letters)
    blocks: list[list[_Share]] = [[]]
    before = ""
    for line in text.splitlines():
        if entries := _line(line, named):
            first = entries[0]
            entries[0] = first._replace(before=f"{before}\n{first.before}")
            blocks[-1] += entries
            before = ""
        elif line.strip(" |:-+=_"):
            blocks.append([])
            before = line[-AROUND:]
    everything = [entry for block in blocks for entry in block]
    # Explained one by one, or listed and then said again.
    if len(everything) == levels:
        blocks = [everything]
    if everything:
        return _complete(blocks, levels)
    return _unlabelled(text, levels) if unlabelled else None


def _unlabelled(text: str, levels: int) -> tuple[float, ...] | None:
    """Read a reply that is nothing but numbers."""
    numbers = _BARE.findall(text)
    if len(numbers) != levels or not _SEPARATORS.fullmatch(_BARE.sub("", text)):
        return None
    return tuple(map(float, numbers))


def _line(line: str, named: Labels) -> list[_Share]:
    """Return what a line says: labels and numbers by turns, whichever comes first."""
    levels = len(named.letters)
    tokens = _tokens(line, levels)
    # "30 (25-35)": the number outside counts, if there is one.
    bare = _ASIDE.sub(" ", line)
    outside = _tokens(bare, levels)
    if {token.label is None for token in outside} == {True, False}:
        line, tokens = bare, outside
    turns = _turns(tokens, line, named)
    if len(turns) % 2:
        return []
    entries, end = [], 0
    for first, second in zip(turns[::2], turns[1::2], strict=True):
        label, number = (second, first) if first.label is None else (first, second)
        before = line[max(end, first.start - AROUND) : first.start]
        after = line[first.start : first.start + AROUND]
        entries.append(_Share(int(label.label or 0), number.value, before, after))
        end = second.start
    return entries


def _tokens(line: str, levels: int = 0) -> list[_Token]:
    """Find the labels and values of a line."""
    tokens = []
    for match in _TOKEN.finditer(line):
        if match["text"]:
            tokens.append(_Token(place_of(match["text"]), math.nan, match.start()))
        elif match["letter"]:
            letter = match["letter"]
            place = LETTERS.index(letter.upper())
            small = letter.islower() and not _LOWER_LETTER.match(line, match.start())
            negated = NEGATED.search(line, max(match.start() - 40, 0), match.start())
            if place < levels and not small and not negated:
                tokens.append(_Token(place, 0.0, match.start()))
        else:
            tokens.append(_Token(None, _value(match, line), match.start()))
    return tokens


def _value(match: re.Match[str], line: str) -> float:
    """Return a number, or the middle of a range; NaN if it is no number of 100."""
    low = float(match["low"].replace(",", "."))
    before, end = line[max(match.start() - 20, 0) : match.start()], match.end()
    # Of the pattern's own words, "not more than" is no "not".
    is_other = _NO_COUNT.search(before) or _OTHER_BASE.match(line, end)
    if is_other or _BY.search(before) or _DIFFERS.match(line, end):
        return math.nan
    if match["negative"] or match["open"]:
        return math.nan
    if match["below"] or match["above"]:
        first, last = (0, low) if match["below"] else (low, 100)
        leaves_little = not match["high"] and 0 <= last - first <= WIDEST
        return (first + last) / 2 if leaves_little else math.nan
    if match["high"]:
        high = float(match["high"].replace(",", "."))
        is_range = not match["and"] or _BETWEEN.search(before)
        return (low + high) / 2 if is_range and low <= high else math.nan
    return low


def _turns(tokens: Sequence[_Token], line: str, named: Labels) -> list[_Token]:
    """Put together what belongs together: "A. Yes", "30 (30 %)", and "A: 30 (Yes)"."""
    runs: list[list[_Token]] = []
    for token in tokens:
        before = runs[-1][0] if runs else None
        if len(runs) > 1 and token.label is not None and token.label == runs[-2][0].label:
            continue
        if before is None or (before.label is None) != (token.label is None):
            runs.append([token])
        elif token.label != before.label:
            return []
        else:
            runs[-1].append(token)
    own = ["", *(named.text(run[0].label) for run in runs)]
    return [
        run[0]._replace(value=_one_value(run, line, text))
        for text, run in zip(own, runs, strict=False)
    ]


def _one_value(tokens: Sequence[_Token], line: str, own: str = "") -> float:
    """Return the value of several that say the same, or of which the last is meant; else NaN.

    Parameters
    ----------
    tokens : sequence of _Token
    line : str
    own : str
        The text of their answer: its numbers may stand before the one that is meant.
    """
    most, last = max(token.value for token in tokens), tokens[-1]
    if all(token.value == most or math.isclose(100 * token.value, most) for token in tokens):
        return most
    start = tokens[0].start
    between = line[start : last.start]
    if _COMPUTED.fullmatch(between):
        return last.value
    # "A. 5-10 yrs: 30" where A is "5 to 10 years", not "A about 5, all: 30".
    set_off = [t for t in tokens if _SET_OFF.search(line, max(t.start - 8, 0), t.start)]
    known = set(re.findall(r"\d+", between)) <= set(re.findall(r"\d+", own))
    apart = _APART.search(between) or _HEDGED.search(line[max(start - 12, 0) : start])
    return last.value if set_off == [last] and known and not apart else math.nan
