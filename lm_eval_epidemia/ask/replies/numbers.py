r"""Reading the numbers that a model wrote in its last tag.

Reasoning is cut off first (`replies.answer_text`), then characters become plain ones (Unicode NFKC:
full-width digits, no-break spaces, minus signs). A tag is what follows ``<prior>``, up to the next
tag; the last one counts, whatever is in it. One that is neither closed nor holds a digit is none:
the reply speaks of the tag, or stopped before it. One that holds a digit and is never closed was
cut off, perhaps within a number: nothing is read.

**Everything in a tag has to be known**: numbers, what they may be called (`LABELS`), the unit of
the quantity, and a few words such as "about" and "with". A word that is none of these may change
what a number means ("at least 5", "5 or 6", "5 lakh"), so nothing is read.

======================================  ===================================================
in the tag                              read as
======================================  ===================================================
``55, 3``  ``55; 3``  ``55 ± 3``        55 and 3: brackets and ``~`` are passed over
``mean=55 cm, std=3 cm``  ``N(55, 3)``
``55 (mean), 3 (sd)``  ``m=55, s=3``
``1,200, 50``  ``1,200,50``             1200 and 50: three digits after a comma, a space or an
``1 200; 50``  ``1'200 50``             apostrophe, without another digit, belong to the number
``100,150``  ``1,200``                  100 and 150, 1 and 200: where that leaves another count
                                        of numbers than is asked for, every comma and space
                                        separates; where neither fits, nothing is read
``1200,50``                             1200 and 50
``1,200,500``                           nothing, where two are asked for: 1200 and 500, or 1 and
                                        200500
``$1.2 million``  ``1.2M``  ``3k``      1 200 000, 1 200 000, 3000: the words hundred, thousand,
                                        million, billion and trillion, and k, K, M, bn, B
``$1.2m``                               1 200 000: of money also m and b
``1.2m``                                1.2 where the unit is m; else nothing
``55, 3 thousand``  ``500k, 100``       nothing: is it 55 or 55 000, 100 or 100 000? Before a
``120 ± 30 x 10^3``                     magnitude, a number is one in full from 1000 on
                                        (``50000, 3k``); after it, where it has more than the
                                        other's figure (``500k, 600``), and from 100 on or with
                                        its unit after a word
``0.5, 0.3%``                           nothing, of a proportion: is it .5 or .5 %?
                                        ``0.55, 3%`` and ``55%, 0.03`` are .55 and .03
``5 dozen``  ``2 hundred thousand``     nothing, and ``5 lakh``, ``5 mil`` and other magnitudes
``1.2e5``  ``1.2 x 10^5``               120 000, and ``1.2 \times 10^5``
``5e, 2``  ``5 e3, 2``  ``<5, 2``       nothing; ``<5>, <2>`` is 5 and 2
``55%``  ``55 percent``                 as the caller says: .55 of a proportion, 55 of a quantity
                                        measured in per cent, nothing of any other
``55 kg`` of a length in cm             nothing
``5%: 40, 25%: 50``  ``q5=40, q25=50``  40 and 50: labels of percentiles are no values
``55-60``  ``55 to 60``  ``1/2``        nothing: ranges and arithmetic are not computed
``ln(50000)``  ``2 * 3``  ``5 times 3``
``170 cm - 180 cm``  ``(170) - (180)``  nothing, and ``70 kg = 80 kg``, ``70 kg ~ 80 kg``: a sign
                                        between two numbers has to stand beside a label, as in
                                        ``mean 170 cm - sd 5 cm``
``3 of 5``  ``5 a 6``                   nothing: a word parts no numbers
``1 hour 30``  ``2 thousand and 50``    nothing: is it one number?
``5'10"``  ``170.5(3)``  ``1,20,000``
``0.3 (30%)``  ``50k (50,000)``
``mean is - 5, sd 3``  ``(5), 3``     nothing: is it minus 5? ``mean - 55, sd - 3`` is 55 and 3
``① 170, 3``                            nothing: figures other than digits
``mean 55, variance 9``  ``55, IQR 3``  nothing: a variance is no standard deviation
``std=3, mean=55``  ``b=5, a=2``        nothing: not in the order that was asked for
``beta(2, 5)``  ``alpha=2, beta=5``     nothing, where a mean and an sd are asked for: labels and
                                        names of families that the caller does not expect
``1.200.000``  ``0,05``                 nothing; ``1.200, 50`` is 1.2 and 50
``nan, 1, 2``  ``inf``  ``1e999``       nothing
more or fewer numbers than asked for    nothing
======================================  ===================================================

Every pattern is bounded, and so is a tag, so that a reply is read in time linear in its length.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import pairwise, zip_longest

from lm_eval_epidemia.ask.replies.forms import FORMS, Rewriting, answer_text, form, signs, table
from lm_eval_epidemia.ask.replies.letters import before_next_question

#: The tag that a model is asked to end with, and how many characters it may hold.
TAG, LONGEST = "prior", 500

_EDGE = re.compile(rf"<(/?) ?{TAG} ?>", re.IGNORECASE)
#: What ends a tag, if no more of it was written.
_CUT = re.compile(r"<(?:/ ?[prio]{0,5} ?)?\Z", re.IGNORECASE)

_SIGNS = signs("everywhere", "of numbers")
#: NFKC would make 105 of ten to the fifth, and 1170 of a circled 1 before 170.
_RAISED = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207a\u207b]{1,9}")
_FIGURE = re.compile(r"(?<![^\W\d_])[^\x00-\x7f]")
_TIMES_SIGN = re.compile(r"\\(?:times|cdot)(?![A-Za-z])")
_POWER = re.compile(r"(?<=\d) ?[x*] ?10 ?(?:\^|\*\*) ?\{?([-+]?\d{1,9})\}?(?!\d)")

#: Markup, and what is left of it.
_without_markup = Rewriting("numbers")
_BULLET = re.compile(r"(?m)^ {0,9}[-*\u2022] {1,9}")

PERCENT = r"%|per ?cent(?![a-z])|percentage points?(?![a-z])"

#: What numbers may be called.
_NAMES = table("called ")
#: A percentile by its level: "q5", "5th percentile:", "0.05 quantile".
_QUANTILE = (
    r"median(?![a-z])|(?:[qp] ?|(?=[\d.]{1,4} ?(?:th|%|per ?cent|quantile)[^\d,;|\n:=]{0,30}[:=]))"
    r"(?P<level>0?\.(?:05|25|50?|75|95)|0?5|25|50|75|95)(?!\d|\.\d)"
    rf" ?(?:th|{PERCENT})?(?: (?:percentile|quantile))?(?: ?[:=])?"
)
_LABEL = (
    rf"(?P<quantile>(?<![\w.])(?:{_QUANTILE}))|(?<![a-z])(?:"
    + "|".join(f"(?P<{label}>{pattern})" for label, pattern in _NAMES.items())
    + ")(?![a-z])"
)
_NAMED = re.compile(_LABEL, re.IGNORECASE)

#: Every label, and the levels of percentiles.
LABELS = frozenset({*_NAMES, "quantile"})
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

#: Units as people write them; of others the record's own spelling is known.
_MONEY, _METRE = table("money "), r"m|met(?:er|re)s?"
_UNITS = (*_MONEY.values(), _METRE, *table("unit ").values(), PERCENT)
#: What may be counted.
_COUNTED = r"(?:people|persons?|adults?|households?|families|visits?|times(?! ?[(\d]))"

_PUNCTUATION = r"[\s{}\[\]`]|(?<![\d ])\.(?![\d.])|\.(?! ?[\d.$(])"
#: A dash beside a word: "mean - 55", "55 - sd 3".
_DASH = r"(?<=[a-z)] )-(?= )|-(?= ?[^\W\d_])"

_WORDS = "(?:hundred|thousand|million|billion|trillion)s?"
#: "millions USD": numbers count so many of it, and "27 million USD" is 27 of them.
_IN_WORDS = re.compile(rf"(?P<times>{_WORDS}) (?:of )?(?=\S)", re.IGNORECASE)

#: Without separators of thousands, and with them. "0,05" is no 0 and 05.
# Nor is "170.5(3)" or "5. 3" two numbers, nor "1,20,000".
_PLAIN = (
    r"(?:(?!(?<=\d,)0\d)\d{1,400}(?:\.\d{1,400}(?!\(\d{1,9}\))|\.(?! ?\d))?|\.\d{1,400})"
    r"(?:[e_][-+]?\d{1,9})?"
)
_GROUPED = (
    r"(?!0)(?!(?:(?<=\b\d,)|(?<=\b\d\d,))\d\d,)"
    r"\d{1,3}(?P<by>[, '])\d{3}(?:(?P=by)\d{3}){0,9}(?:\.\d{1,9})?(?!\d|\.\d)"
)


def _normalise_text(text: str) -> str:
    """Write digits, signs and powers in one way."""
    text = _RAISED.sub(lambda raised: "^" + unicodedata.normalize("NFKC", raised[0]), text)
    # "?" is known nowhere. "q\u2085" is a label: no number begins within a word.
    text = _FIGURE.sub(
        lambda sign: ("?" if unicodedata.category(sign[0]) in ("No", "Nl") else "") + sign[0], text
    )
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    text = _TIMES_SIGN.sub("x", text.replace("+/-", "±").replace("+-", "±"))
    # "e5" is of this number alone, "x 10^5" perhaps not; no other "_" is left.
    return _POWER.sub(r"_\1", text)


def labels(text: str | None) -> list[str]:
    """Return what the numbers in a tag are called, of `LABELS`, in their order."""
    return [str(match.lastgroup) for match in _NAMED.finditer(text or "")]


def find_tag(reply: str) -> str | None:
    """Return the content of a reply's last tag, in plain characters.

    Tags after a question that the model then asks itself are not looked at.

    Parameters
    ----------
    reply : str
        As a model wrote it, reasoning included.

    Returns
    -------
    str or None
        None without a tag, or if it was cut off or is longer than `LONGEST` characters.
    """
    text = answer_text(reply)
    # Which it looks for after a line, not after an empty one.
    before = before_next_question(re.sub(r"\n\s+", "\n", text))
    pieces = _EDGE.split(_normalise_text(before if _EDGE.search(before) else text))
    for place in range(len(pieces) - 2, 0, -2):
        edge, text, *after = pieces[place : place + 3]
        if not edge and (after == ["/"] or any(map(str.isdecimal, text))):
            text, ends = (text, 1) if after else _CUT.subn("", text)
            return text if ends and len(text) <= LONGEST else None
    return None


def read_numbers(
    text: str | None,
    count: int,
    percent: float = 1.0,
    unit: str | None = None,
    allowed: Collection[str] = LABELS,
) -> tuple[float, ...] | None:
    """Read the numbers in a tag.

    Parameters
    ----------
    text : str or None
        As `find_tag` returns it.
    count : int
        How many were asked for, 5 at most.
    percent : float
        Factor for a number with a per cent sign: 0.01 for a proportion, 1 for a quantity measured
        in per cent; NaN if a per cent sign makes no sense.
    unit : str, optional
        Unit of the quantity, empty for a count or a share: the tag may contain no other. Without
        it, any known unit may appear. Of "millions USD" a number with its magnitude ("$27 million")
        is 27 too.
    allowed : collection of str
        The `labels` that may appear in the tag: any other means that its numbers are not the
        requested ones.

    Returns
    -------
    tuple of float or None
        `count` finite numbers; None if they could not be read.
    """
    if text is None or not {*labels(text)} <= {*allowed, "first", "second"}:
        return None
    text = _without_markup(text)
    if len(_BULLET.findall(text)) > 1:
        text = _BULLET.sub("\n", text)
    counted = _IN_WORDS.match(unit or "")
    each = _times(counted) if counted else 1.0
    for pattern in _token(unit[counted.end() :] if unit and counted else unit):
        tokens = _tokens(text, pattern)
        if _form(count).fullmatch(_kinds(tokens)):
            return _values(tokens, percent, each)
    return None


def _spelt(piece: str) -> str:
    """Return the pattern of how a part of a unit is written."""
    if piece in ("/", "per"):
        return "/|per"
    alike = (unit for unit in _UNITS if re.fullmatch(unit, piece, re.IGNORECASE))
    return next(alike, re.escape(piece.removesuffix("s")) + "s?")


@lru_cache(maxsize=100)
def _token(unit: str | None) -> list[re.Pattern[str]]:
    """Return the pattern of what may stand in a tag: with separators of thousands, and without."""
    pieces = [_spelt(piece) for piece in re.findall("/|[^/ ]+", _normalise_text(unit or ""))]
    phrase = " ?".join(f"(?:{piece})" for piece in pieces) or f"{_COUNTED}(?: per {_COUNTED})?"
    if unit is None:
        phrase = "|".join(other for other in _UNITS if other != _METRE)
        phrase = f"(?:{phrase})(?: ?(?:/|per) ?(?:{phrase}))?|{_COUNTED}"
    signs = [sign for sign, spelt in _MONEY.items() if unit is None or spelt in pieces]
    money = f"[{''.join(signs)}]" if signs else "(?!)"
    magnitude = "[kKmMbB]|bn" if unit and signs else "(?(money)[kKmMbB]|[kKMB])|bn"
    return [
        re.compile(
            rf"{_LABEL}|(?P<number>(?<![\w.^])(?P<sign>(?<![\w%.^-])(?<![\d%] )[-+])?"
            rf"(?P<money>(?:us ?)?{money}-?)?(?P<digits>{digits})(?!\d|\.\d)"
            rf"(?: ?(?P<times>(?-i:{magnitude})|{_WORDS})(?![a-z]))?"
            rf"(?: ?(?P<percent>{PERCENT}))?)"
            rf"|(?P<unit> ?(?:in )?(?:{phrase})(?![a-z\d]))"
            rf"|(?P<separator>[,;|\n&±]|(?:plus or minus|give or take)(?![a-z]))"
            rf"|(?:(?P<also>and)|(?P<of>of)|(?P<word>{form('word')})|{form('about')})(?![a-z])"
            rf"|(?P<open>\()|(?P<close>\))|(?P<joint>[-=]>|[:=~\u2192\u2248\u223c])"
            rf"|(?P<dash>{_DASH})|{_PUNCTUATION}",
            re.IGNORECASE,
        )
        for digits in (f"{_GROUPED}|{_PLAIN}", _PLAIN)
    ]


def _tokens(text: str, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    """Divide a tag into what it consists of; nothing, if a part of it is unknown."""
    tokens = list(pattern.finditer(text))
    return tokens if "".join(token[0] for token in tokens) == text else []


#: How `_kinds` writes what is no number: labels of the first one and of the second, and others.
_CODES = {
    **dict.fromkeys(("mean", "loc", "mu", "alpha", "first"), "a"),
    **dict.fromkeys(("sd", "scale", "sigma", "beta", "second"), "b"),
    "separator": ",",
    "also": "&",
    "word": "w",
    "of": "o",
    "joint": "=",
    "dash": "-",
    "open": "(",
    "close": ")",
}

#: Two numbers that may be a range, a part, one number, or below zero.
_UNCLEAR = re.compile(
    # "70 kg ~ 80 kg", "3 of 5", "50 a 60", but "70 kg (~3 kg)"
    r"n[^a-e,n]*(?:(?<![(&])=|[wo])[^a-e,n]*n"
    r"|,\(?o"  # "55, of 100"
    r"|nu+&?(?:n(?!\(?u)|<)"  # "1 hour 30", "2 thousand and 50", "5 million 200 thousand"
    r"|[n)]u*\+n"  # "70 kg -80 kg"
    r"|\(u*nu*\)(?:[^n]*[^n(u])?u*n"  # "($5,000), $300"
)


def _figure(token: re.Match[str]) -> tuple[float, float]:
    """Return a number as it is written, and the power of ten or the magnitude after it."""
    written, _, power = re.sub("[, ']", "", token["digits"]).partition("_")
    return float(written), float(f"1e{power or 0}") * _times(token)


def _times(match: re.Match[str]) -> float:
    """Return the magnitude that a word says."""
    return FORMS["times"].get((match["times"] or "").lower().rstrip("s"), 1.0)


def _kinds(tokens: Sequence[re.Match[str]]) -> str:
    """Write what a tag consists of: "n" a number, "a" a label of the first one, "," between."""
    names = [str(token.lastgroup) for token in tokens if token.lastgroup in LABELS]
    # "beta" is a family too: "beta: alpha=3, beta=5", not "beta, alpha: 5, 3" and "beta=5".
    family = names[:1] == ["beta"] and ("alpha" in names) == ("beta" in names[1:])
    units = [token[0].lower().strip(" s") for token in tokens if token.lastgroup == "unit"]
    kinds, former = "", 0.0
    for token in tokens:
        name = token.lastgroup
        if name == "number":
            magnitude = _figure(token)[1]
            kinds += "<" if 1 < magnitude < former else ""
            kinds += "+" if token["sign"] or "-" in (token["money"] or "") else ""
            kinds += "nu" if token["money"] or magnitude != 1 else "n"
            former = magnitude
        elif name == "unit":
            kinds += "u" if token[0].lower().strip(" s") == units[0] else ""
        elif name == "quantile":
            level = float(token["level"] or 0.5)
            kinds += "abcde"[_LEVELS.index(level if level < 1 else level / 100)]
        elif name == "beta" and family and not token.string.startswith(("=", " ="), token.end()):
            family = False
        else:
            kinds += _CODES.get(str(name), "")
    if _UNCLEAR.search(kinds):
        return ""
    kinds = re.sub(r"[=wou()<+]", "", kinds).rstrip("-")
    # "55 - sd 3", "55 (mean) - 3 (sd)", "mean - 55, sd - 3"; "mean - 55, sd 3" may be minus 55.
    kinds = re.sub("(?<![a-e])-(?=[a-e])|(?<=n[a-e])-(?=n[a-e])", "", kinds)
    if kinds.count("-") == kinds.count("n"):
        kinds = re.sub("(?<=[a-e])-(?=n)", "", kinds)
    return re.sub("[,&]+", ",", kinds).strip(",")


@lru_cache
def _form(count: int) -> re.Pattern[str]:
    """Return the pattern of the `_kinds` in which each label is of its own number."""
    slots, values = "abcde"[:count], ",?".join("n" * count)
    forms = (
        ",".join(f"{slot}*n{slot}*" for slot in slots),  # mean 55, 3 sd
        ",?".join(f"{slot}*n" for slot in slots),  # mean 55 sd 3
        ",?".join(f"n{slot}+" for slot in slots),  # 55 (mean) 3 (sd)
        ",?".join(f"{slot}+" for slot in slots) + f",?{values}",  # mean, sd: 55, 3
        f"{values},?" + ",?".join(f"{slot}+" for slot in slots),  # 55, 3 (mean, sd)
    )
    return re.compile("|".join(forms))


def _values(
    tokens: Sequence[re.Match[str]], percent: float, each: float
) -> tuple[float, ...] | None:
    """Return the numbers of a tag; None if one is not finite or its magnitude is not clear.

    Those with a magnitude are divided by `each`, that of the unit.
    """
    values, scales, scaled, bare = [], [], [], []
    for place, (token, after) in enumerate(zip_longest(tokens, tokens[1:])):
        if token.lastgroup != "number":
            continue
        figure, scale = _figure(token)
        scale *= percent if token["percent"] else 1
        negative = "-" in (token["sign"] or "") + (token["money"] or "")
        value = figure * scale / (each if token["times"] else 1)
        values.append(-value if negative else value)
        scales.append((scale, bool(token["percent"])))
        if scale != 1:
            scaled.append((place, figure, scale, bool(token["times"])))
        elif figure:
            own_unit = bool(token["money"] or (after and after.lastgroup == "unit"))
            bare.append((place, figure, own_unit))
    # "0.3 (30%)", "50k (50,000)": one number, written twice.
    neighbours = pairwise(zip(values, scales, strict=True))
    twice = any(a == b and scale != other for (a, scale), (b, other) in neighbours)
    if twice or any(_is_shared(number, other) for number in bare for other in scaled):
        return None
    return tuple(values) if all(map(math.isfinite, values)) else None


def _is_shared(bare: tuple[int, float, bool], scaled: tuple[int, float, float, bool]) -> bool:
    """Say whether the magnitude of one number may be meant for another one too."""
    place, figure, own_unit = bare
    after, other, scale, is_word = scaled
    if scale < 1:  # "0.5, 0.3%", but "0.55, 3%"; "20%, 0.3", but "55%, 0.03"
        return figure >= other if place < after else figure >= other * scale
    if place < after:  # "55, 3 thousand", but "50000, 3k"
        return figure < 1000 or other >= 1000
    # "500k, 100", but "500k, 600"
    return figure <= other or (is_word and figure < 100 and not own_unit)
