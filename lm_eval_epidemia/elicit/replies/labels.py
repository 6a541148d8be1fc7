"""How a reply names the answers of a question: by letter, by text, or by both.

A text that is a number itself ("0", "2-3", "18-29") could be the answer's number as well. It is a
label where it stands with its own letter ("A) 0 (11)", "11 would say 0 (A)"), or at the beginning
of a line or after a comma and before a sign that sets it off ("0: 11"), and only if all such texts
stand so in the reply and all others somewhere. If only some do, nobody can tell which they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import partial

from lm_eval_epidemia.elicit.orderings import LETTERS
from lm_eval_epidemia.elicit.replies.rewriting import DASHES_AND_QUOTES, Rewriting

_SIGNS = {
    **DASHES_AND_QUOTES,
    ord("\N{ALMOST EQUAL TO}"): "~",
    ord("\N{LESS-THAN OR EQUAL TO}"): "<",
    ord("\N{GREATER-THAN OR EQUAL TO}"): ">",
    ord("\N{RIGHTWARDS ARROW}"): ":",
    # Footnotes and halves, that NFKC would make digits.
    **dict.fromkeys(map(ord, "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"), ""),
    0xBC: ".25",
    0xBD: ".5",
    0xBE: ".75",
}
#: Markup, the 100 of "30 of 100", and that of "Total: 100".
_without_markup = Rewriting(
    (r"<([A-Za-z][^<>\n]{0,40})>\s{0,3}([^<>]{1,40})</\1>", r" \1: \2 "),
    # An attribute, or no end: "<option id='A'>30"; its ">" is not "more than".
    (r"</?([A-Za-z][^<>\n]{0,80})>", r" \1 "),
    (r"[*`\\\"{}\[\]]|(?<!\w)'|'(?!\w)", " "),
    (
        r"(?i)(?<=[\d% ])(?: ?/ ?| ?(?<![a-z])(?:out of|of|in|per) (?:the |every )?)100"
        r"(?!\d|[.,]\d)",
        " ",
    ),
    (r"(?im)^[^\S\n]*of(?: these| the| such)? 100(?: such)? \w{1,20},?", " "),
    (r"(?i)\b(?:total|sum)[^\S\n]{0,2}[:=][^\S\n]{0,2}100(?!\d|[.,]\d)[^\S\n]?%?", " "),
    (r"±[^\S\n]?\d{1,3}(?:\.\d{1,3})?", " "),
    (r"->|=>", ":"),
    (r"(?m)^[^\S\n]*(?:[-+•#][^\S\n]{0,3}){0,3}(?:\d{1,2}[.)][^\S\n]{1,3}(?=\S))?", ""),
)

#: Stand for the answers' texts while the rest is read, and for what may be a text or a number.
_FIRST = 0xE000
UNSURE = chr(_FIRST + len(LETTERS))
MARKS = f"{chr(_FIRST)}-{UNSURE}"

#: "No answer: 5" is no "No", nor are "No. of people: 5", "No-one: 5" and "No - refused: 5"; "no is
#: 70" and "no to this" are.
_NO = (
    r"(?![^\S\n]{1,3}(?!(?:is|are|was|has|have|gets?|would|about|around|roughly|approximately|at"
    r"|and|or|to|for|in|as|because|since|people|respondents)\b)[^\W\d_]|\.[^\S\n]?of\b|[-/][^\W\d_]"
    r"|[^\S\n]?(?:[-/.,;:(+&]|\b(?:or|and)\b)[^\S\n]?(?:answer(?![^\S\n][a-z]\b)|response|reply|opinion|one|refus|unknown"
    r"|missing|skipped|unsure|blank|declined|not[^\S\n](?:sure|stated|answer|known|applic|ascert|report)"
    r"|(?:do|did)(?:n't|[^\S\n]not)[^\S\n](?:answer|respond|reply|say|know)))"
)
#: Before an answer: then it is another, "slightly liberal", or all others, "would not say yes".
NEGATED = re.compile(
    r"(?:(?<![\w'])(?:not|non|un|never|anti|neither|nor|none|nobody|no one|other than|except"
    r"|except for|without|excluding|(?:all|everyone|everybody|any|anyone) but)|\w'?n't|\bcannot)"
    r"(?:[^\S\n]{1,3}|-)"
    r"(?:(?:really|necessarily|to)[^\S\n])?(?:(?:say|answer|give|choose|pick|select|report|be|respond"
    r"|reply|said)(?:ing|ed)?[^\S\n](?:(?:with|the|option|letter|answer)[^\S\n]){0,2})?"
    r"[\"'(]?[^\S\n]{0,2}\Z",
    re.IGNORECASE,
)
_MODIFIED = re.compile(
    r"(?<![\w'])(?:slightly|very|somewhat|extremely|mostly|mainly|less|more|rather|quite|fairly"
    r"|strongly|weakly|moderately|partly|almost|nearly|leaning|semi|ex|former|formerly)"
    r"(?:[^\S\n]{1,3}|-)[^\S\n]{0,2}\Z",
    re.IGNORECASE,
)
_PER_MILLE = re.compile(
    r"\u2030|\bper ?mille\b|\b(?:out of|per) (?:1[,. ]?000\b|a? ?thousand)", re.I
)
#: "0 visits", "18-29 years old"
_UNIT = r"(?:[^\S\n](?!to\b|and\b|or\b)[a-z]{1,12}){0,2}"


def plain(text: str) -> str:
    """Write digits, dashes and quotes in one way, without markup."""
    return _without_markup(unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS))


def place_of(mark: str) -> int | None:
    """Return the number of the answer that a sign stands for; None if it may be a number."""
    return None if mark == UNSURE else ord(mark) - _FIRST


def _is_number(text: str) -> bool:
    return not re.search(r"[^\W\d_]", re.sub(r"\b(?:to|and|or)\b", "", text))


def _mark(place: int, written: re.Match[str]) -> str:
    """Put a sign in the place of an answer's text, unless a word before makes it another."""
    text, start = written.string, written.start()
    if any(words.search(text, max(start - 40, 0), start) for words in (NEGATED, _MODIFIED)):
        return written[0]
    return f" {chr(_FIRST + place)} "


class Labels:
    """The possible names of a question's answers.

    Parameters
    ----------
    answers : sequence of str
        In displayed order.

    Attributes
    ----------
    letters : tuple of str
    numbers : bool
        Whether a text is a number itself.
    """

    def __init__(self, answers: Sequence[str]) -> None:
        texts = [" ".join(plain(answer).split()).casefold() for answer in answers]
        self.letters = LETTERS[: len(answers)]
        self._texts = texts
        self._exactly = {text: place for place, text in enumerate(texts)}
        self._letters = {letter.casefold(): place for place, letter in enumerate(self.letters)}
        # The longest first: one may begin like another.
        longest = sorted(enumerate(texts), key=lambda numbered: -len(numbered[1]))
        words = [(i, text) for i, text in longest if text and not _is_number(text)]
        numbers = [(i, text) for i, text in longest if text and _is_number(text)]
        self.numbers = bool(numbers)
        self._words = [(self._word(text), i) for i, text in words]
        anyone = f"[{''.join(self.letters)}]"
        self._numbers = [
            (i, self._number(text, self.letters[i]), self._number(text, anyone))
            for i, text in numbers
        ]
        beyond = "".join(LETTERS[len(answers) : len(answers) + 3])
        more = f"[{beyond}]" if beyond else "(?!)"
        self._doubts = [
            _PER_MILLE,
            # "A=10,22" where A is "10" is no 10.22.
            *(
                re.compile(rf"(?<!\w){self.letters[i]}[^\w\n]{{1,4}}{re.escape(text)},\d", re.I)
                for i, text in numbers
            ),
            # Of two answers, "C: 5" and "| A | B | C |" are another list's.
            re.compile(
                rf"(?:^|[,;|]|[\d%][^\S\n])[^\S\n]{{0,3}}(?:(?:option|answer)[^\S\n])?{more}"
                r"(?:[^\S\n]?[.:=|()-]|[^\S\n](?=\d))[^\n\d,;]{0,40}\d"
                rf"|\|[^\S\n]{{0,3}}{self.letters[-1]}[^\S\n]{{0,9}}\|[^\S\n]{{0,3}}{more}[^\S\n]{{0,9}}(?:\||$)"
                rf"|^\d{{1,3}}%?[^\S\n]{more}[^\S\n]{{0,9}}$",
                re.MULTILINE | re.IGNORECASE,
            ),
        ]

    @staticmethod
    def _word(text: str) -> re.Pattern[str]:
        written = re.escape(text).replace(r"\ ", r"[^\S\n]{1,3}")
        no = _NO if text == "no" else ""
        return re.compile(rf"(?<![\w$]){written}(?!\w|-[^\W\d_]){no}", re.IGNORECASE)

    @staticmethod
    def _number(text: str, letter: str) -> re.Pattern[str]:
        """A text that is a number, with its letter or as a label at the beginning."""
        written, blank = re.escape(text).replace(r"\ ", r"[^\S\n]{1,3}"), r"[^\S\n]{0,3}"
        off = rf"{_UNIT}{blank}(?:[:=(]|[^\S\n]-[^\S\n])"
        return re.compile(
            # "A) 0 (11)"; without another number it is the answer's
            rf"(?P<before>(?<![\w']){letter}(?:[.):=(]|[^\S\n](?:-[^\S\n])?){{1,4}}){written}"
            rf"(?=\)?{off}[^\n\d)]{{0,20}}\d)"
            rf"|(?P<first>^{blank}|[,;][^\S\n]{{1,3}}){written}(?={off})"
            rf"|(?<![\w.-]){written}(?={_UNIT}{blank}\({letter}\))",
            re.IGNORECASE | re.MULTILINE,
        )

    def text(self, place: int | None) -> str:
        """Return the text of an answer, plain; nothing for none."""
        return "" if place is None else self._texts[place]

    def leaves_doubt(self, text: str) -> bool:
        """Whether a plain text has an answer too many, another base, or a comma of a list."""
        return any(pattern.search(text) for pattern in self._doubts)

    def marked(self, text: str) -> str:
        """Put a sign in the place of every answer's text, the longest texts first."""
        for pattern, place in self._words:
            text = pattern.sub(partial(_mark, place), text)
        # With the letter of another answer they contradict each other, as the words do.
        if all(pattern.search(text) for _, _, pattern in self._numbers) and all(
            chr(_FIRST + place) in text for _, place in self._words
        ):
            for place, _, pattern in self._numbers:
                text = pattern.sub(rf"\g<before>\g<first> {chr(_FIRST + place)} ", text)
        # One of several may be so by chance: "B: 1 (0-3)".
        elif sum(bool(pattern.search(text)) for _, pattern, _ in self._numbers) > 1:
            for _, pattern, _ in self._numbers:
                text = pattern.sub(rf"\g<before>\g<first> {UNSURE} ", text)
        return text

    def of(self, text: str) -> int | None:
        """Return the answer that a text names, and nothing else: by letter, text, or both."""
        written = " ".join(plain(text).split()).casefold()
        if written in self._exactly:
            return self._exactly[written]
        head, rest = written[:1], written[1:].lstrip(" .):-")
        place = self._letters.get(head)
        return place if not rest or self._exactly.get(rest) == place else None
