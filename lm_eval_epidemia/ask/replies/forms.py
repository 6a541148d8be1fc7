"""``forms.yaml``: what replies look like, and how signs and markup are written in one way."""

from __future__ import annotations

import re
from typing import Any

from lm_eval_epidemia.core.paths import read_yaml

#: Latin letters, digits and apostrophes: scripts written without spaces may touch an answer.
WORD = r"[A-Za-z0-9_\u00c0-\u024f'°]"

FORMS: dict[str, Any] = read_yaml(__package__, "forms.yaml")


def form(kind: str) -> str:
    """Return the pattern of any form of a kind."""
    return "|".join(FORMS[kind].splitlines())


def words(*kinds: str) -> str:
    """Return the pattern of any word of some kinds."""
    whole = "|".join(map(form, kinds))
    anywhere = [form(f"{kind}*") for kind in kinds if f"{kind}*" in FORMS]
    return "|".join([rf"(?<!{WORD})(?:{whole})(?!{WORD})", *anywhere])


def any_of(*kinds: str) -> re.Pattern[str]:
    """Compile the pattern of `words`, whatever their case."""
    return re.compile(words(*kinds), re.IGNORECASE)


def table(begin: str) -> dict[str, str]:
    """Return the patterns of the kinds that begin so, by the rest of their names."""
    return {kind.removeprefix(begin): form(kind) for kind in FORMS if kind.startswith(begin)}


def signs(*kinds: str) -> dict[int, str]:
    """Return what is written in place of each sign, as `str.translate` takes it."""
    rows = [row for kind in kinds for row in FORMS[f"signs {kind}"].items()]
    return {ord(sign): instead for several, instead in rows for sign in several}


class Rewriting:
    """The markup of a kind, and what stands in its place, one rule after another."""

    def __init__(self, kind: str) -> None:
        self.rules = [(re.compile(pattern), by) for pattern, by in FORMS[f"markup of {kind}"]]

    def __call__(self, text: str) -> str:
        for pattern, instead in self.rules:
            text = pattern.sub(instead, text)
        return text
