"""Signs and patterns that are written in one way before a reply is read, and tables of words."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

#: Dashes and quotes that Unicode's NFKC leaves as they are.
DASHES_AND_QUOTES = {
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
    **dict.fromkeys((0x2018, 0x2019), "'"),
    **dict.fromkeys((0x201C, 0x201D), '"'),
}

#: Latin letters, digits and apostrophes: scripts written without spaces may touch an answer.
WORD = r"[A-Za-z0-9_\u00c0-\u024f'°]"


@cache
def _table() -> dict[str, list[str]]:
    """Read ``words.txt``: the patterns of each kind."""
    table: dict[str, list[str]] = {}
    for line in (files(__package__) / "words.txt").read_text("utf-8").splitlines():
        kind, _, patterns = line.partition(": ")
        if patterns and not line.startswith("#"):
            table.setdefault(kind, []).append(patterns)
    return table


def words(*kinds: str) -> str:
    """Return the pattern of any word of some kinds in ``words.txt``."""
    whole = "|".join(patterns for kind in kinds for patterns in _table()[kind])
    anywhere = [patterns for kind in kinds for patterns in _table().get(f"{kind}*", [])]
    return "|".join([rf"(?<!{WORD})(?:{whole})(?!{WORD})", *anywhere])


def table(kind: str) -> dict[str, str]:
    """Return the patterns whose kinds in ``words.txt`` begin so, by the rest of their name."""
    found = _table().items()
    return {name.removeprefix(kind): "|".join(one) for name, one in found if name.startswith(kind)}


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
