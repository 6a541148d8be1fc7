"""How a reply introduces a list of numbers: as final answer, draft, example, or about others."""

from __future__ import annotations

import re

_EXAMPLE = re.compile(
    r"\b(?:e\.g\.|for instance|example|hypothetical|placeholder|made[ -]up|would look like"
    r"|make up|like this|(?:like|such as)[^\S\n]*\Z"
    r"|format (?:is|would|could|might)|format[^\S\n]*\Z)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<!e\.g)[.!?]\s", re.IGNORECASE)
_FINAL = re.compile(
    r"\b(?:final(?:ly)?|answers?|so|therefore|thus|hence|corrected|correction|revis\w+|adjust\w+"
    r"|updated?|reflection|reconsider\w*|actually|rounded|rounding"
    r"|my (?:best )?(?:estimate|guess))\b",
    re.IGNORECASE,
)
_DRAFT = re.compile(
    r"\b(?:drafts?|at first|first (?:guess|try|estimate)|initial(?:ly)?|preliminary|start(?:ing)?"
    r"|before rounding|unrounded)\b",
    re.IGNORECASE,
)
_OTHERS = re.compile(
    r"\b(?:compar\w+|national(?:ly)?|nationwide|overall|general|populations?|countr(?:y|ies)|examples?"
    r"|(?:an)?others?|years?|m[ae]n|wom[ae]n|males?|females?|boys?|girls?|whereas|while|versus|vs"
    r"|average|adults|everyone|all|(?<!this )groups?|contrast|among|aged?|old(?:er)?|young(?:er)?"
    r"|uniform|unknown|states?|u\.s|usa|regions?|urban|rural|(?:19|20)\d\d"
    r"|instead of|rather than|second|same)\b|e\.g\.|\d\d\+",
    re.IGNORECASE,
)


def is_example(before: str) -> bool:
    """Whether the sentence before a list introduces it as an example."""
    return bool(_EXAMPLE.search(_SENTENCE.split(before)[-1]))


def is_final(before: str, around: str, before_last: str) -> bool:
    """Whether a list replaces an earlier one.

    Parameters
    ----------
    before : str
        What stands before the list.
    around : str
        That, and what stands in its lines.
    before_last : str
        What stands before the list that it may replace.
    """
    if _OTHERS.search(around) or re.search(r"\bfinal", before_last, re.IGNORECASE):
        return False
    return bool(_FINAL.search(before)) or bool(_DRAFT.search(before_last))
