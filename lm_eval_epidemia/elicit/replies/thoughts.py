"""The thought before a reply is taken away: an answer is what follows the last end of a thought.

Models mark their thoughts in many ways, but every mark says what it is: a tag in some brackets
whose name speaks of thinking. So one pattern finds them all, and a table has the marks that are no
tags. A thought that was opened and not ended is all there is: the reply was cut in it.
"""

from __future__ import annotations

import re

#: A tag: ``<think>``, ``</seed:think>``, ``<|END_THINKING|>``, ``[/THINK]``, ``◁think▷``.
_TAG = (
    r"(?:<\|?|\[|◁)(?P<{ends}>/|\|?(?:\w{{1,9}}:)?end_(?:of_)?)?(?:[\w.:|-]{{1,30}}[:|_-])?"
    r"(?:inner_?)?(?:think|thought|reason|scratchpad|monologue|analysis)(?:s|ing)?"
    r"(?:[:|_-][\w:]{{1,20}})?(?:\s[^<>\[\]◁▷\n]{{0,200}})?/?(?:\|?>|\]|▷)"
)
#: Marks that are no tags: of MedGemma, Gemma, Kimi K3, Granite, and gpt-oss with its tokens or not.
_OPENS = (
    _TAG.format(ends="ends"),
    r"(?:<unused94>|<\|channel>)\s{0,9}thought|<unused94>",
    r"<\|open\|>\s{0,9}think\s{0,9}(?:<\|sep\|>)?",
    r"here(?: is|'s|\u2019s) my thought process:",
    r"<\|channel\|>\s{0,9}(?:analysis|commentary)[^<\n]{0,40}(?:<\|message\|>)?",
    r"(?-i:(?:\A\s{0,9}(?:assistant)?|assistant)(?:analysis|commentary))",
    # Marks whose special tokens were dropped: where the thought ends is unknown.
    r"(?-i:\A\s{0,9}(?:thought\n|think(?=[A-Z])))",
)
_CLOSES = (
    r"<unused95>|<channel\|>|<\|close\|>\s{0,9}think\s{0,9}(?:<\|sep\|>)?",
    r"here(?: is|'s|\u2019s) my response:",
    r"<\|channel\|>\s{0,9}final[^<\n]{0,40}(?:<\|message\|>)?",
    r"(?-i:assistantfinal)",
)
_MARK = re.compile(rf"(?P<closes>{'|'.join(_CLOSES)})|{'|'.join(_OPENS)}", re.IGNORECASE)

#: Other special tokens, most of them of the end: ``<|im_end|>``, ``</s>``, ``<end_of_turn>``.
_SPECIAL = re.compile(
    r"<\|open\|>\s{0,9}response\s{0,9}<\|sep\|>|<[|\uff5c][^|\uff5c<>\n]{0,40}[|\uff5c]>|</?s>"
    r"|<(?:eos|bos|pad|(?:end|start)_of_turn)>",
    re.IGNORECASE,
)

#: What some models wrap their answer in; the content is the answer.
_WRAP = re.compile(r"<(/?)(?:final_?)?(?:answer|response|choice|option)>", re.IGNORECASE)


def without_thought(reply: str) -> tuple[str, bool]:
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
    """Return a reply without its thought; see `without_thought`."""
    return without_thought(reply)[0]


def unwrapped(text: str) -> str:
    """Return the content of the answer tags of a reply without thought, if it has any."""
    _, *pieces = _WRAP.split(text)
    wrapped = [content for end, content in zip(pieces[::2], pieces[1::2], strict=True) if not end]
    return "\n".join(wrapped) if any(map(str.strip, wrapped)) else text


def opened_by(prompt: str) -> str:
    """Return the mark of a thought that a prompt opens at its end, empty for none.

    The chat templates of some models end so: the reply then holds the end of the thought alone, or
    no mark at all if it was cut.
    """
    *_, last = (None, *_MARK.finditer(prompt[-200:]))
    is_open = last is not None and not (last["closes"] or last["ends"])
    return last[0] if is_open and last and not prompt[-200:][last.end() :].strip() else ""
