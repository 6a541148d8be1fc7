"""``forms.yaml``: what replies look like, how signs and markup are written, where thoughts end."""

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


# The thought before a reply is taken away: an answer is what follows the last end of a thought.
#
# Models mark their thoughts in many ways, but every mark says what it is: a tag in some brackets
# whose name speaks of thinking, or one of a few that are no tags (``forms.yaml``). A thought that
# was opened and not ended is all there is: the reply was cut in it.

_MARK = re.compile(rf"(?P<closes>{form('thought closes')})|{form('thought opens')}", re.IGNORECASE)
_SPECIAL = re.compile(form("special"), re.IGNORECASE)
_WRAP = re.compile(form("wrap"), re.IGNORECASE)


def strip_thought(reply: str) -> tuple[str, bool]:
    """Return what follows the last thought, and whether the reply was cut in a thought.

    Examples
    --------
    >>> without_thought("<think>A? No.</think>B")
    ('B', False)
    >>> without_thought("<think>The answer is B. Wait, but")
    ('', True)
    """
    marks = list(_MARK.finditer(reply))
    if not marks:
        return _SPECIAL.sub("\n", reply), False
    last = marks[-1]
    if not (last["closes"] or last["ends"]):
        return "", True
    return _SPECIAL.sub("\n", reply[last.end() :]), False


def answer_text(reply: str) -> str:
    """Return a reply without its thought; see `strip_thought`."""
    return strip_thought(reply)[0]


def unwrap_answer(reply: str) -> str:
    """Return the content of the answer tags of a reply, if it has any, else all but its thought."""
    text = answer_text(reply)
    _, *pieces = _WRAP.split(text)
    wrapped = [content for end, content in zip(pieces[::2], pieces[1::2], strict=True) if not end]
    return "\n".join(wrapped) if any(map(str.strip, wrapped)) else text


def find_open_thought(prompt: str) -> str:
    """Return the mark of a thought that a prompt opens at its end, empty for none.

    The chat templates of some models end so: the reply then holds the end of the thought alone, or
    no mark at all if it was cut.
    """
    *_, last = (None, *_MARK.finditer(prompt[-200:]))
    is_open = last is not None and not (last["closes"] or last["ends"])
    return last[0] if is_open and last and not prompt[-200:][last.end() :].strip() else ""
