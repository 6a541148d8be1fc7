"""The description of a kind of server: how to recognise it, ask for one token, read the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from lm_eval_epidemia.models.first_token import Shown, shown_in

#: Likeliest tokens that are asked for; a server that shows fewer is asked for fewer.
TOPS = (20, 10, 5, 1)


class Asked(NamedTuple):
    """What a request asks, whatever the server calls it.

    Attributes
    ----------
    model : str
    content : str or list of dict
        Plain text, or messages.
    top : int
        Likeliest tokens.
    ids : sequence of int
        Tokens whose log-probabilities are asked for, where letters are named by ids.
    limit : str
        What OpenAI-like servers call the largest number of tokens.
    room : int
        Tokens that surely hold the prompt and its answer.
    more : mapping
        What else is sent.
    """

    model: str
    content: Any
    top: int
    ids: Sequence[int] = ()
    limit: str = "max_tokens"
    room: int = 4096
    more: Mapping[str, Any] = MappingProxyType({})


class Form(NamedTuple):
    """One way to ask a server for the first token of an answer.

    Attributes
    ----------
    body : callable
        From `Asked` to the JSON of the request.
    path : str
        Where it is posted, beside the OpenAI-like addresses; empty: to ``base_url``.
    read : callable
        From the JSON of the reply, and `Asked`, to what it shows.
    tops : tuple of int
        Numbers of likeliest tokens to ask for, the best first.
    by_ids : bool
        Whether letters are named by their token ids.
    """

    body: Callable[[Asked], dict[str, Any]]
    path: str = ""
    read: Callable[[Any, Asked], Shown] = lambda reply, asked: shown_in(reply)
    tops: tuple[int, ...] = TOPS
    by_ids: bool = False


class Server(NamedTuple):
    """A kind of server.

    Attributes
    ----------
    name : str
    tells : callable
        From what it says of itself, by path, to its version ("" if it names none); None if it is
        another kind.
    plain, chat : Form
    plain_by_ids, chat_by_ids : Form, optional
        Where it takes token ids.
    way_out : str
        What to do where it shows no log-probabilities, or wrong ones.
    """

    name: str
    tells: Callable[[Mapping[str, Any]], str | None]
    plain: Form
    chat: Form
    plain_by_ids: Form | None = None
    chat_by_ids: Form | None = None
    way_out: str = ""

    def form(self, chat: bool) -> Form:
        """Return how it is asked for plain text or a chat."""
        return self.chat if chat else self.plain

    def form_by_ids(self, chat: bool) -> Form | None:
        """Return the same by token ids; None if it takes none."""
        return self.chat_by_ids if chat else self.plain_by_ids


def said(answers: Mapping[str, Any], path: str, key: str) -> Any:
    """Return one thing that a server says of itself; None if it does not."""
    answer = answers.get(path)
    return answer.get(key) if isinstance(answer, dict) else None


def owner(answers: Mapping[str, Any]) -> str:
    """Return who owns its models, by ``/v1/models``: most servers give their own name."""
    models = said(answers, "v1/models", "data")
    first = models[0] if isinstance(models, list) and models else None
    name = first.get("owned_by") if isinstance(first, dict) else None
    return name if isinstance(name, str) else ""
