"""The thought before a reply is taken away: an answer is what follows the last end of a thought.

Models mark their thoughts in many ways, but every mark says what it is: a tag in some brackets
whose name speaks of thinking, or one of a few that are no tags (``forms.yaml``). A thought that was
opened and not ended is all there is: the reply was cut in it.
"""

from __future__ import annotations

import re

from lm_eval_epidemia.ask.replies.forms import form

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


def unwrap_answer(text: str) -> str:
    """Return the content of the answer tags of a reply without thought, if it has any."""
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
