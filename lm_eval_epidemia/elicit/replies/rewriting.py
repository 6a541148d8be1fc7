"""Signs and patterns that are written in one way before a reply is read."""

from __future__ import annotations

import re

#: Dashes and quotes that Unicode's NFKC leaves as they are.
DASHES_AND_QUOTES = {
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
    **dict.fromkeys((0x2018, 0x2019), "'"),
    **dict.fromkeys((0x201C, 0x201D), '"'),
}


class Rewriting:
    """Patterns and what stands in their place, one after another.

    Parameters
    ----------
    *rules : (str, str)
        A pattern and what takes the place of each of its matches, which may name its groups.
    flags : int
        Of all patterns, as `re` has them.
    """

    def __init__(self, *rules: tuple[str, str], flags: int = 0) -> None:
        self.rules = [(re.compile(pattern, flags), instead) for pattern, instead in rules]

    def __call__(self, text: str) -> str:
        for pattern, instead in self.rules:
            text = pattern.sub(instead, text)
        return text
