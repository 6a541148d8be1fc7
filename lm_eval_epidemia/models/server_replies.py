"""Replies of a server: its failures and refusals, and the letters in what it shows.

Letters are read from the log-probabilities of an answer's first token. A letter may appear alone,
with a space before it, or with a full stop after it ("A", " A", "A."): these are added up. For a
letter that is not among the tokens shown, only bounds are known (`ask.bounds`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from lm_eval_epidemia.ask.bounds import Within


class BadReply(ValueError):
    """A reply that cannot be used, and why; the server may do better when asked again.

    Parameters
    ----------
    what : str
        Counted: without what differs from one reply to the next.
    words : str
        The server's own, or a hint.
    seconds : float
        After which the server wants to be asked again.
    limits : bool
        Whether it limits how often.
    """

    def __init__(
        self, what: str, words: str = "", seconds: float = 0.0, limits: bool = False
    ) -> None:
        super().__init__(what)
        self.words, self.seconds, self.limits = words, seconds, limits


#: How servers say that their filter of contents declines a prompt: codes and words.
_FILTERED = re.compile(
    "content.?(filter|policy|management)|responsible.?ai|moderation|flagged", re.IGNORECASE
)


class Declined(Exception):
    """The server understood the request and declined it (400, 422): its words."""


class Filtered(Exception):
    """The server's filter of contents declined a prompt, and would again: its words."""


def refuse_filtered(words: str) -> None:
    """Raise `Filtered` if a server's words say so."""
    if _FILTERED.search(words):
        raise Filtered(words)


class Stopped(Exception):
    """The run is ending, so no further request is sent."""


class Unreached(BadReply):
    """Nothing answers at the address."""


class Failed(BadReply):
    """The server failed, was slow or limits requests: it may do better later."""


def words_of(body: bytes) -> str:
    """Return what a server says of an error: its message and code, or the beginning of the body."""
    text = body[:2000].decode(errors="replace")
    try:
        error = json.loads(body).get("error", text)
    except (ValueError, AttributeError, RecursionError):
        page = "<html" in text.lower() or "<!doctype" in text.lower()
        return f"{'a web page (is base_url correct?):  ' if page else ''}{text}"
    if isinstance(error, dict):
        return " ".join(str(error[key]) for key in ("message", "code") if error.get(key))
    return str(error)


def quote_words(words: str) -> str:
    return f"the server said: {words}" if words else ""


#: Probabilities that sum to more than 1 by this much are no model's, even in bfloat16, where 20
#: tokens may come to 20 ** (3 / 256), see `most_mass`.
MOST_MASS = 20 ** (3 / 2**8)

#: What is left beside the tokens shown is known up to the rounding of their sum: 20 float32, or as
#: many as are shown.
LEAST_LEFT = 20 * 2.0**-24

#: No model gives a token so little, but a sampler that excludes it.
EXCLUDED = -1000

#: Tokens that begin a word, as tokenizers write them that are not decoded.
_SPACES = ("▁", "Ġ")


class NoLogprobs(BadReply):
    """A reply without log-probabilities: a slip, or a server that gives none."""


class ShownTokens(NamedTuple):
    """The tokens that a server shows for the first position.

    Attributes
    ----------
    top : list of (str, float)
        Tokens and their log-probabilities, likeliest first.
    said : str
        The token that it generated.
    """

    top: list[tuple[str, float]]
    said: str


def spellings(choice: str, add: bool) -> tuple[str, ...]:
    """Return how a letter may be written: as it is asked for, or in all ways that are added up."""
    letter = choice.strip()
    return (letter, f" {letter}", f"{letter}.") if add else (choice,)


def read_shown(reply: Any) -> ShownTokens:
    """Read the reply of a server, of chat completions or of completions.

    Raises
    ------
    BadReply
        If it does not say what it should.
    """
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise BadReply("an answer without choices")
    refuse_filtered(str(choices[0].get("finish_reason")))
    if not (told := choices[0].get("logprobs")):
        raise NoLogprobs("an answer without log-probabilities")
    if isinstance(told, dict) and "content" in told:
        return read_content(told["content"])
    try:
        written, pairs = told["tokens"][0], list(told["top_logprobs"][0].items())
        top = [(token, float(x)) for token, x in pairs]
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        raise NoLogprobs("log-probabilities in no known form") from None
    return check_shown(top, written)


def read_content(tokens: Any) -> ShownTokens:
    """Read the first of a list of tokens, each with its likeliest ones, as most servers write it.

    Raises
    ------
    BadReply
        If it does not say what it should.
    """
    if not tokens:
        raise NoLogprobs("an answer without log-probabilities")
    try:
        first = tokens[0]
        top = [(x["token"], float(x["logprob"])) for x in first["top_logprobs"]]
        written = first["token"]
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        raise NoLogprobs("log-probabilities in no known form") from None
    return check_shown(top, written)


def check_shown(top: list[tuple[str, float]], written: str) -> ShownTokens:
    """Return the tokens shown, in order, if their probabilities are possible.

    Parameters
    ----------
    top : list of (str, float)
        Tokens and their log-probabilities, in any order.
    written : str
        The token generated.

    Raises
    ------
    BadReply
        If it cannot.
    """
    if not all(isinstance(token, str) and math.isfinite(x) for token, x in top):
        raise BadReply("log-probabilities that are not numbers")
    # The same token twice is a slip; two tokens that read alike have probabilities of their own.
    top = sorted(dict.fromkeys(top), key=lambda pair: -pair[1])
    if not top:
        raise NoLogprobs("an answer without its likeliest tokens")
    if top[0][1] > math.log(MOST_MASS) or _sum(x for _, x in top) > math.log(MOST_MASS):
        raise BadReply("probabilities that sum to more than 1")
    return ShownTokens(top, written)


def is_cut(shown: ShownTokens, asked: int, by_ids: bool) -> bool:
    """Whether a server shows what its sampler leaves, not what the model predicts.

    A model leaves every token some probability. After sampling (temperature 0, top-p), fewer tokens
    than were asked for have any, and these sum to 1, unless tokens were named by their ids.
    """
    left = [x for _, x in shown.top if x > EXCLUDED]
    if by_ids:
        return len(left) < len(shown.top)
    return len(left) < asked and _sum(left) > -max(LEAST_LEFT, len(left) * 2.0**-24)


def _sum(logprobs: Iterable[float]) -> float:
    """Add up probabilities given by their logarithms."""
    known = list(logprobs)
    most = max(known, default=-math.inf)
    return most + math.log(math.fsum(math.exp(x - most) for x in known)) if known else most


def read_by_id(shown: ShownTokens, wanted: Sequence[Sequence[int]]) -> list[tuple[float, bool]]:
    """Read letters whose tokens were named by their ids.

    Parameters
    ----------
    shown : Shown
        Of tokens written as ``token_id:N``.
    wanted : sequence of sequence of int
        The tokens of each letter.

    Raises
    ------
    BadReply
        If one of them is missing.
    """
    known = dict(shown.top)
    written = [[f"token_id:{token}" for token in ids] for ids in wanted]
    if not known.keys() >= set(chain.from_iterable(written)):
        raise BadReply("an answer without the tokens that were asked for")
    return [(_sum(known[token] for token in ids), shown.said in ids) for ids in written]


def read_by_text(shown: ShownTokens, choices: Sequence[str], add: bool) -> list[tuple[float, bool]]:
    """Read letters among the likeliest tokens.

    Letters that are not shown share the remaining probability, each at most that of the last token
    shown. Of a letter's spellings that are not shown each may have as much.

    Parameters
    ----------
    shown : Shown
    choices : sequence of str
        As lm-eval asks for them.
    add : bool
        Whether spellings are added up; else a letter is one token, as it is asked for.

    Returns
    -------
    list of (float, bool)
        As lm-eval takes them; what is not shown is `Within`.
    """
    least = shown.top[-1][1]
    rounding = max(LEAST_LEFT, len(shown.top) * 2.0**-24)
    left = math.log(max(-math.expm1(min(_sum(x for _, x in shown.top), 0.0)), rounding))
    top = [(_spaced(token), x) for token, x in shown.top]
    ways = [spellings(choice, add) for choice in choices]
    seen = [[x for token, x in top if token in way] for way in ways]
    absent, letters = seen.count([]), []
    for way, some in zip(ways, seen, strict=True):
        lacking = len(set(way) - {token for token, _ in top})
        at_most = min(left, least + math.log(lacking)) if lacking else -math.inf
        logprob = _sum(some)
        if not some:
            logprob = Within(min(left - math.log(absent), least), -math.inf, at_most, False)
        elif lacking:
            logprob = Within(logprob, logprob, _sum([logprob, at_most]), True)
        letters.append((logprob, _spaced(shown.said) in way))
    return letters


def _spaced(token: str) -> str:
    return f" {token[1:]}" if token.startswith(_SPACES) else token
