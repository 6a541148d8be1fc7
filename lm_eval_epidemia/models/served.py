"""How a served model is asked for letters: the best way that its server takes, found by asking.

With `logprob_token_ids` (vLLM) the log-probabilities of exactly the letters come back; else the
likeliest tokens, as text.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.servers import beside, refuse_template
from lm_eval_epidemia.models.endpoint import BadReply, Declined, Endpoint
from lm_eval_epidemia.models.first_token import Without, by_id, by_text, shown_in, spellings

#: Likeliest tokens that are asked for; a server that shows fewer is asked for fewer.
TOPS = (20, 10, 5, 1)

#: A word whose tokens no prompt of ours makes likely: a server that returns them heeds ids.
UNLIKELY = " zyzzyva"

#: A server that gives no log-probabilities of the first prompt so many times gives none.
SLIPS = 3

WAY_OUT = (
    "Ask for a group in which the model writes its answer: epidemia_low_stated, "
    "epidemia_high_stated, epidemia_low_sampled, epidemia_high_sampled or epidemia_high_closed "
    "('epidemia cost GROUP' says what it takes)"
)


class Prompt(NamedTuple):
    """One prompt and the letters that are read after it.

    Attributes
    ----------
    context : str or JsonChatStr
        Messages are JSON, as lm-eval hands them on.
    choices : tuple of str
        Distinct, as lm-eval asks for them.
    requests : list of (int, int)
        Numbers of the requests answered, and of the choice of each.
    """

    context: Any
    choices: tuple[str, ...]
    requests: list[tuple[int, int]]


class Answered(NamedTuple):
    """What came back for a prompt.

    Attributes
    ----------
    letters : list of (float, bool)
        By choice, as lm-eval takes them.
    began : str
        The token that the model generated.
    """

    letters: list[tuple[float, bool]]
    began: str


class How(NamedTuple):
    """How a server is asked.

    Attributes
    ----------
    ids : bool
        Whether letters are named by their token ids.
    top : int
        Likeliest tokens that are asked for.
    limit : str
        What the server calls the largest number of tokens.
    """

    ids: bool
    top: int
    limit: str = "max_tokens"


class Served:
    """A model behind a server.

    Parameters
    ----------
    endpoint : Endpoint
    model : str
        As the server knows it.
    chat : bool
        Whether it takes messages.
    variants : {"auto", "sum", "one"}
        See `ChoiceAPI`.
    more : mapping
        What else is sent with each prompt.
    server : str
        Of `SERVERS`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        chat: bool,
        variants: str,
        more: Mapping[str, Any] = MappingProxyType({}),
        server: str = "auto",
    ) -> None:
        self.endpoint, self.model, self.chat, self.variants = endpoint, model, chat, variants
        self._more, self._server = more, server
        #: Known once the first prompt is answered.
        self.how: How | None = None
        #: Tokens that the server counted, the most of one request, and whether it counts.
        self.tokens, self.longest, self.counts = 0, 0, True
        self._ids: dict[tuple[str, str], tuple[int, ...]] = {}
        self._lock = threading.Lock()
        #: Replies to the first prompt without log-probabilities.
        self._slips = 0

    @property
    def adds(self) -> bool:
        """Whether the spellings of a letter are added up."""
        if self.variants == "auto":
            return self.how is None or not self.how.ids
        return self.variants == "sum"

    @property
    def read_by(self) -> str:
        """What letters are read by; empty before the first prompt is answered."""
        if self.how is None:
            return ""
        return "token ids" if self.how.ids else f"top {self.how.top}"

    @property
    def variant(self) -> str:
        """Which way of `variants` letters are read in; as it was given before the first prompt."""
        if self.how is None:
            return self.variants
        return "sum" if self.adds else "one"

    def answer(self, prompt: Prompt) -> Answered:
        """Ask a prompt; the first one also finds out how.

        Raises
        ------
        EpidemiaError
            If the server gives no log-probabilities or cannot be asked.
        """
        if self.how is None:
            try:
                return self._first(prompt)
            except BaseException:
                self.how = None
                raise
        try:
            return self._asked(prompt, self.how)
        except Declined as error:
            raise EpidemiaError(f"{self.endpoint.url} does not take a prompt: {error}") from None

    def _first(self, prompt: Prompt) -> Answered:
        """Ask in one way after the other until the server takes one.

        Whether it heeds token ids is seen from whether it returns tokens that are not likely, not
        from its version.
        """
        refuse_template(self.endpoint.url, self._server, self.endpoint.verify)
        words, ways = "", [How(False, top) for top in TOPS]
        if self._tokens_of(prompt):
            ways.insert(0, How(True, TOPS[0]))
        for way in ways:
            for limit in ("max_tokens", "max_completion_tokens"):
                self.how = way._replace(limit=limit)
                try:
                    return self._asked(prompt, self.how, trial=True)
                except Declined as error:
                    words = str(error)
                if "max_completion_tokens" not in words:
                    break
        # Models that take no temperature reason first, and say less than these.
        if "logprob" in words.lower() or "temperature" in words.lower():
            raise self._without(words)
        raise EpidemiaError(f"{self.endpoint.url} does not take the first prompt: {words}")

    def _without(self, why: str) -> EpidemiaError:
        return EpidemiaError(
            f"{self.model} at {self.endpoint.url} gives no log-probabilities of its first token "
            f"at temperature 0 ({why}): reasoning models do not, and some servers pass over "
            f"'logprobs'. {WAY_OUT}"
        )

    def _asked(self, prompt: Prompt, how: How, trial: bool = False) -> Answered:
        wanted = self._tokens_of(prompt) if how.ids else None
        if wanted is None:  # or a letter that is not one token
            how = how._replace(ids=False)
        asked = set(chain.from_iterable(wanted or ()))
        if trial and asked:
            asked |= set(self._token_ids(UNLIKELY))

        def read(reply: Any) -> Answered:
            tokens = self._count(reply)
            try:
                shown = shown_in(reply)
            except Without as error:
                self._slips += trial
                if trial and self._slips == min(SLIPS, self.endpoint.tries):
                    raise self._without(str(error)) from None
                raise
            self.counts &= tokens > 0
            if wanted is None:
                return Answered(by_text(shown, prompt.choices, self.adds), shown.said)
            if trial:
                try:
                    by_id(shown, [sorted(asked)])
                except BadReply as error:
                    raise Declined(str(error)) from None
            return Answered(by_id(shown, wanted), shown.said)

        return self.endpoint.ask(self._payload(prompt.context, how, sorted(asked)), read)

    def _count(self, reply: Any) -> int:
        """Count the tokens of a reply, also of one that cannot be used."""
        usage = reply.get("usage") if isinstance(reply, dict) else None
        total = _tokens(usage) if isinstance(usage, dict) else 0
        with self._lock:
            self.tokens += total
            self.longest = max(self.longest, total)
        return total

    def _payload(self, context: Any, how: How, ids: Sequence[int]) -> dict[str, Any]:
        payload: dict[str, Any] = {"model": self.model, how.limit: 1, "temperature": 0}
        payload |= self._more
        if ids:
            payload |= {"logprob_token_ids": list(ids), "return_tokens_as_token_ids": True}
        if not self.chat:
            return payload | {"prompt": context, "logprobs": how.top}
        messages = json.loads(context.prompt)
        if messages and messages[-1]["role"] == "assistant":  # begun by the task's gen_prefix
            payload |= {"add_generation_prompt": False, "continue_final_message": True}
        return payload | {"messages": messages, "logprobs": True, "top_logprobs": how.top}

    def _tokens_of(self, prompt: Prompt) -> list[tuple[int, ...]] | None:
        """Return the tokens of each letter by the server's tokenizer; None if it does not tell.

        A letter is tokenized behind the last word of the prompt, as lm-eval tokenizes it behind all
        of it; in a chat, alone.
        """
        tail = "" if self.chat else prompt.context.split()[-1]
        by_letter = []
        for choice in prompt.choices:
            ways = spellings(choice, self.variants == "sum")
            after = [self._after(tail, text) for text in ways]
            if not (single := [ids[0] for ids in after if len(ids) == 1]):
                return None
            by_letter.append(tuple(dict.fromkeys(single)))
        return by_letter

    def _after(self, tail: str, text: str) -> tuple[int, ...]:
        """Tokenize a text behind the last word of a prompt, once; empty if they grow together."""
        if (tail, text) not in self._ids:
            before, both = self._token_ids(tail), self._token_ids(tail + text)
            is_apart = both[: len(before)] == before
            self._ids[tail, text] = both[len(before) :] if is_apart else ()
        return self._ids[tail, text]

    def _token_ids(self, text: str) -> tuple[int, ...]:
        """Tokenize a text as the server does (vLLM's /tokenize); empty if it does not tell."""

        def read(reply: Any) -> tuple[int, ...]:
            tokens = reply.get("tokens") if isinstance(reply, dict) else None
            if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
                raise BadReply("an answer without tokens")
            return tuple(tokens)

        url = beside(self.endpoint.url, "tokenize")
        asked = {"model": self.model, "prompt": text, "add_special_tokens": False}
        with suppress(Declined, EpidemiaError):
            return self.endpoint.ask(asked, read, url, tries=3) if text else ()
        return ()


def _tokens(usage: Mapping[str, Any]) -> int:
    """Read how many tokens a request took; 0 if that is not said."""

    def whole(name: str) -> int:
        number: Any = usage.get(name)
        is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
        return int(number) if is_number and 0 <= number < math.inf else 0

    return whole("total_tokens") or whole("prompt_tokens") + whole("completion_tokens")
