"""Tokens of a served model: how its server tokenizes a letter, and how many it counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.servers import beside
from lm_eval_epidemia.models.endpoint import Endpoint
from lm_eval_epidemia.models.faults import BadReply, Declined
from lm_eval_epidemia.models.first_token import spellings

#: What servers call the tokens of a prompt and of its answer.
COUNTS = (
    ("prompt_tokens", "completion_tokens"),
    ("prompt_eval_count", "eval_count"),
    ("tokens_evaluated", "tokens_predicted"),
)


def counted(reply: Any) -> int:
    """Read how many tokens a request took; 0 if that is not said."""
    usage: Mapping[str, Any] = reply if isinstance(reply, dict) else {}
    for name in ("usage", "meta_info"):
        usage = usage[name] if isinstance(usage.get(name), dict) else usage

    def whole(name: str) -> int:
        number: Any = usage.get(name)
        is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
        return int(number) if is_number and 0 <= number < math.inf else 0

    both = (whole(one) + whole(other) for one, other in COUNTS)
    return whole("total_tokens") or next(filter(None, both), 0)


class ServerTokenizer:
    """The tokenizer of a server that has ``/tokenize`` (vLLM, SGLang), each text asked once.

    Parameters
    ----------
    endpoint : Endpoint
    model : str
        As the server knows it.
    """

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._endpoint, self._model = endpoint, model
        self._known: dict[tuple[str, str], tuple[int, ...]] = {}

    def letters(
        self, tail: str, choices: Sequence[str], all_spellings: bool
    ) -> list[tuple[int, ...]] | None:
        """Return the tokens of each letter; None if the server does not tell, or has none.

        Parameters
        ----------
        tail : str
            The last word of the prompt, behind which lm-eval tokenizes a letter; empty in a chat.
        choices : sequence of str
        all_spellings : bool
            Whether "A." and " A" are asked for too.
        """
        by_letter = []
        for choice in choices:
            after = [self._after(tail, text) for text in spellings(choice, all_spellings)]
            if not (single := [ids[0] for ids in after if len(ids) == 1]):
                return None
            by_letter.append(tuple(dict.fromkeys(single)))
        return by_letter

    def _after(self, tail: str, text: str) -> tuple[int, ...]:
        """Tokenize a text behind the last word of a prompt; empty if they grow together."""
        if (tail, text) not in self._known:
            before, both = self.ids(tail), self.ids(tail + text)
            is_apart = both[: len(before)] == before
            self._known[tail, text] = both[len(before) :] if is_apart else ()
        return self._known[tail, text]

    def ids(self, text: str) -> tuple[int, ...]:
        """Tokenize a text as the server does; empty if it does not tell."""

        def read(reply: Any) -> tuple[int, ...]:
            tokens = reply.get("tokens") if isinstance(reply, dict) else None
            if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
                raise BadReply("an answer without tokens")
            return tuple(tokens)

        asked = {"model": self._model, "prompt": text, "add_special_tokens": False}
        url = beside(self._endpoint.url, "tokenize")
        with suppress(Declined, EpidemiaError):
            return self._endpoint.ask(asked, read, url, tries=3) if text else ()
        return ()
