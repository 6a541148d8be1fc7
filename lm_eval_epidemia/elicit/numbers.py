r"""Reading the numbers that a model wrote in its last tag.

Reasoning is cut off first (`replies.answer_text`), then characters become plain ones (Unicode NFKC:
full-width digits, no-break spaces, minus signs). A tag is what follows ``<prior>``, up to the next
``<prior>`` or ``</prior>`` or the end of the reply; the last one counts, whatever is in it. One
that is neither closed nor holds a digit is none: the reply speaks of the tag, or stopped before it.

======================================  ===================================================
in the tag                              read as
======================================  ===================================================
``55, 3``  ``55; 3``  ``55 ± 3``        55 and 3: letters, brackets, ``~`` and currencies are
``mean=55 cm, std=3 cm``  ``N(55, 3)``  passed over
``1,200, 50``  ``1,200,50``             1200 and 50: three digits after a comma, a space or an
``1 200; 50``  ``1'200 50``             apostrophe, without another digit, belong to the number
``100,150``  ``1,200``                  100 and 150, 1 and 200: where that leaves another count
                                        of numbers than is asked for, every comma and space
                                        separates; where neither fits, nothing is read
``1200,50``                             1200 and 50
``1,200,500``                           nothing, where two are asked for: 1200 and 500, or 1 and
                                        200500
``$1.2 million``  ``1.2M``  ``3k``      1 200 000, 1 200 000, 3000: the words hundred, thousand,
                                        million, billion and trillion, and k, K, M, bn, B (not m)
``5 dozen``  ``2 hundred thousand``     nothing, and ``5 lakh`` and other magnitudes
``1.2e5``  ``1.2 x 10^5``               120 000, and ``1.2 \times 10^5``
``5e, 2``  ``<5, 2``                    nothing; ``<5>, <2>`` is 5 and 2
``55%``  ``55 percent``                 as the caller says: .55 of a proportion, 55 of a quantity
                                        measured in per cent, nothing of a parameter
``5%: 40, 25%: 50``  ``q5=40, q25=50``  40 and 50: labels of percentiles are no values
``55-60``  ``55 to 60``  ``1/2``        nothing: ranges and arithmetic are not computed
``ln(50000)``  ``2 * 3``
``mean 55, variance 9``                 nothing: a variance is no standard deviation
``std=3, mean=55``                      nothing: not in the order that was asked for
``beta(2, 5)``  ``alpha=2, beta=5``     nothing, where a mean and an sd are asked for: labels and
                                        names of families that the caller does not expect
``1.200.000``                           nothing; ``1.200, 50`` is 1.2 and 50
``nan, 1, 2``  ``inf``  ``1e999``       nothing
more or fewer numbers than asked for    nothing
======================================  ===================================================

Every pattern is bounded, and so is a tag, so that a reply is read in time linear in its length.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection

from lm_eval_epidemia.elicit.replies import answer_text

__all__ = ["LABELS", "LONGEST", "TAG", "labels", "numbers", "tagged"]

#: The tag that a model is asked to end with, and how many characters it may hold.
TAG, LONGEST = "prior", 500

_EDGE = re.compile(rf"<(/?) ?{TAG} ?>", re.IGNORECASE)

_SIGNS = {
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
    **dict.fromkeys((0x2018, 0x2019), "'"),
    ord("\N{MULTIPLICATION SIGN}"): "x",
    ord("\N{FRACTION SLASH}"): "/",
    ord("_"): " ",
}
#: NFKC would make 105 of ten to the fifth.
_RAISED = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207a\u207b]{1,9}")
_TIMES_SIGN = re.compile(r"\\(?:times|cdot)(?![A-Za-z])")
_POWER = re.compile(r"(?<=\d) ?[x*] ?10 ?(?:\^|\*\*) ?\{?([-+]?\d{1,3})\}?")

_PERCENT = r"%|per ?cent(?![a-z])|percentage points?(?![a-z])"
_LABEL = re.compile(
    rf"(?<![\w.])(?:5|25|50|75|95) ?(?:th|{_PERCENT})[^\d,;|\n:=]{{0,30}}[:=]", re.IGNORECASE
)

#: What numbers may be called. The Greek letters as escapes: they look like others.
_NAMES = {
    "lognormal": r"log[- ]?(?:normal|gaussian)",
    "normal": r"normal|gaussian|n(?=\}? ?\()",
    "mean": r"mean|average|expect(?:ed value|ation)",
    "sd": r"(?:standard |std\.? ?|st\. ?)?(?:deviation|error|dev)|stdev|s\.?d|std|s\.?e|spread"
    "|uncertainty",
    "mu": "mu|\u03bc",
    "sigma": "sigma|\u03c3",
    "alpha": "alpha|\u03b1",
    "beta": "beta|\u03b2",
    "other": r"log[- ]?beta|cauchy|gamma|uniform|student|t(?= ?\()|laplace|exponential|weibull"
    "|poisson|(?:beta[- ]?)?binomial|logistic|triangular|pareto|mode|kappa|precision|tau",
}
_NAMED = re.compile(
    "(?<![a-z])(?:"
    + "|".join(f"(?P<{label}>{_NAMES[label]})" for label in sorted(_NAMES, key="other".__ne__))
    + ")(?![a-z])"
)

#: Every label but ``other``, and those of the first and of the second of two numbers.
LABELS = frozenset(_NAMES) - {"other"}
_FIRST, _SECOND = ("mean", "mu", "alpha"), ("sd", "sigma", "beta")

#: Angle brackets around a number or a word: what is in them counts.
_BRACKETS = re.compile(r"<([-+$\d.,]{1,30}|/?[A-Za-z ]{1,30})>")

_MAGNITUDE = "(?:hundred|thousand|million|billion|trillion)s?"

#: What holds numbers that are no answer as they stand.
_UNCLEAR = re.compile(
    # Ranges, fractions, products
    r"[\d%] ?(?:[-~*/x^]|to) ?[-+]?[$€£]?\.?\d"
    r"|∞|(?<![a-z])(?:nan|inf|infinity)(?![a-z])"
    r"|(?<![a-z])(?:exp|ln|log|log10|sqrt) ?\(|√"
    r"|(?<![a-z])var(?:iance)?(?![a-z])|(?:\u03c3|sigma|sd|std) ?\^ ?\{?2"
    # Bounds, exponents that are missing, magnitudes that are not read
    r"|(?:(?<![-=])>|[<≤≥])=? ?[-+]?[$€£]?\.?\d|\de(?![a-z\d]|[-+]\d)"
    r"|\d ?(?:dozen|score|lakh|lac|crore|mn|mln|mio|mrd|tn)s?(?![a-z])"
    rf"|{_MAGNITUDE} {_MAGNITUDE}|(?<![a-z])in {_MAGNITUDE}",
    re.IGNORECASE,
)

_TIMES = {"hundred": 1e2, "k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "b": 1e9,
          "bn": 1e9, "billion": 1e9, "trillion": 1e12}  # fmt: skip
_AFTER = (
    r"(?!\d|\.\d)"
    rf"(?: ?(?P<times>[kKMB]|bn|(?i:{_MAGNITUDE}))(?![A-Za-z]))?"
    rf"(?: ?(?P<percent>(?i:{_PERCENT})))?"
)
_PLAIN = r"(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,4})?"
_GROUPED = r"\d{1,3}(?P<by>[, '])\d{3}(?:(?P=by)\d{3}){0,9}(?:\.\d{1,9})?"
_BEFORE = r"(?<![\w.^-])(?P<sign>[-+]?)[$€£]?"
#: With separators of thousands, and without.
_NUMBER = [
    re.compile(rf"{_BEFORE}(?P<digits>{digits}){_AFTER}")
    for digits in (rf"{_GROUPED}(?!\d|\.\d)|{_PLAIN}", _PLAIN)
]


def _plain(text: str) -> str:
    """Write digits, signs and powers in one way."""
    text = _RAISED.sub(lambda found: "^" + found[0], text)
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    text = _TIMES_SIGN.sub("x", text.replace("+/-", "±"))
    return _POWER.sub(r"e\1", text)


def labels(text: str | None) -> list[str]:
    """Return what the numbers in a tag are called, of `LABELS` and ``other``, in their order."""
    return [str(found.lastgroup) for found in _NAMED.finditer((text or "").lower())]


def tagged(reply: str) -> str | None:
    """Return what the last tag of a reply holds, in plain characters.

    Parameters
    ----------
    reply : str
        As a model wrote it, reasoning included.

    Returns
    -------
    str or None
        None without a tag, or where it holds more than `LONGEST` characters.
    """
    pieces = _EDGE.split(_plain(answer_text(reply)))
    for place in range(len(pieces) - 2, 0, -2):
        edge, text = pieces[place], pieces[place + 1]
        closed = pieces[place + 2 : place + 3] == ["/"]
        if not edge and (closed or any(map(str.isdecimal, text))):
            return text if len(text) <= LONGEST else None
    return None


def numbers(
    text: str | None,
    count: int,
    percent: float = 1.0,
    unit: str = "",
    allowed: Collection[str] = LABELS,
) -> tuple[float, ...] | None:
    """Read the numbers in a tag.

    Parameters
    ----------
    text : str or None
        As `tagged` returns it.
    count : int
        How many were asked for.
    percent : float
        What a number with a per cent sign is multiplied by: 0.01 of a proportion, 1 of a quantity
        measured in per cent; NaN where a per cent sign has no meaning.
    unit : str
        Of the quantity: a number in it ("per 1,000 people") is none of the answer.
    allowed : collection of str
        Which `labels` may stand in the tag: with another one, its numbers are others than those
        that were asked for.

    Returns
    -------
    tuple of float or None
        Finite, `count` of them; None where so many could not be read.
    """
    if text is None:
        return None
    if any(map(str.isdecimal, unit)):
        text = text.replace(_plain(unit), " ")
    said = labels(text)
    if not set(said) <= set(allowed) or not _in_order(said):
        return None
    text = _BRACKETS.sub(r" \1 ", _LABEL.sub(" ", text))
    if _UNCLEAR.search(text):
        return None
    for pattern in _NUMBER:
        found = [_value(one, percent) for one in pattern.finditer(text)]
        if len(found) == count:
            return tuple(found) if all(map(math.isfinite, found)) else None
    return None


def _in_order(said: list[str]) -> bool:
    """Whether the label of the second number, if there are both, comes after that of the first."""
    first, second = (
        [place for place, label in enumerate(said) if label in one] for one in (_FIRST, _SECOND)
    )
    # "beta" is a family too: "beta: alpha=3, beta=5".
    return not first or not second or first[0] < second[-1]


def _value(found: re.Match[str], percent: float) -> float:
    digits = re.sub("[, ']", "", found["digits"])
    value = float(digits) * _TIMES.get((found["times"] or "").lower().rstrip("s"), 1.0)
    return (-value if found["sign"] == "-" else value) * (percent if found["percent"] else 1.0)
