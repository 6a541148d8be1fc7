"""Reading the letter out of what a model wrote."""

from __future__ import annotations

import re

from lm_eval_epidemia.elicit.orderings import LETTERS

__all__ = ["answer_text", "letter"]

#: What reasoning models write before their answer, as (opening, closing) pairs.
_REASONING = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<analysis>", "</analysis>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)

#: Latin letters, digits and apostrophes: scripts written without spaces may touch an answer.
_WORD = r"[A-Za-z0-9_\u00c0-\u024f'\u2019]"

#: A letter with none of these and no hyphenated word around it, and not in "U.S." or "e.g.".
_ALONE = re.compile(rf"(?<!{_WORD})(?<!-)(?<!{_WORD}\.)([A-Za-z])(?!{_WORD})(?!-\w)(?!\.{_WORD})")

#: After it, "a" and "I" are words, and so are lower-case letters of other languages ("y", "e");
#: "A because ..." and "A or B" are answers.
_RUNS_ON = re.compile(r"\s+(?!(?:or|and|because|since|is|as)\b)[^\W\d_A-Z]")


def answer_text(reply: str) -> str:
    """Return what a model wrote without its reasoning.

    A block that was opened and never closed is all reasoning: the model ran out of tokens. One
    that is closed only was opened in the prompt.
    """
    for opening, closing in _REASONING:
        start, end = (re.escape(tag) for tag in (opening, closing))
        reply = re.sub(rf"{start}.*?{end}", " ", reply, flags=re.DOTALL | re.IGNORECASE)
        reply = re.split(end, reply, flags=re.IGNORECASE)[-1]
        reply = re.split(start, reply, flags=re.IGNORECASE)[0]
    return reply


def letter(reply: str, letters: int) -> int | None:
    """Return the number of the first letter that stands alone in a reply.

    Parameters
    ----------
    reply : str
        For example "B", "b)", "**B.** No", "The answer is (B)".
    letters : int
        How many answers there were; letters beyond them are not looked at.

    Returns
    -------
    int or None
        None for a refusal, an empty reply or anything else without such a letter.
    """
    text = answer_text(reply)
    for found in _ALONE.finditer(text):
        said = found[1]
        number = LETTERS.index(said.upper())
        is_word = said in "AI" or said.islower()
        if number < letters and not (is_word and _RUNS_ON.match(text, found.end())):
            return number
    return None
