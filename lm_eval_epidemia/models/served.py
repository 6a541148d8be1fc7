"""How a served model is asked for letters: the best way that its server takes, found by asking.

What server it is says which forms it has (`servers`). Where it takes token ids (vLLM, SGLang) the
log-probabilities of exactly the letters come back; else the likeliest tokens, as text.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.servers import beside
from lm_eval_epidemia.models.endpoint import BadReply, Declined, Endpoint
from lm_eval_epidemia.models.first_token import Shown, Without, by_id, by_text, spellings
from lm_eval_epidemia.models.servers import known
from lm_eval_epidemia.models.servers.form import TOPS, Asked, Form

#: A word whose tokens no prompt of ours makes likely: a server that returns them heeds ids.
UNLIKELY = " zyzzyva"

#: A server that gives no log-probabilities of the first prompt so many times gives none.
SLIPS = 3

#: What servers call the tokens of a prompt and of its answer.
COUNTS = (
    ("prompt_tokens", "completion_tokens"),
    ("prompt_eval_count", "eval_count"),
    ("tokens_evaluated", "tokens_predicted"),
)

WAY_OUT = (
    "Ask for a group in which the model writes its answer: epidemia_low_stated, "
    "epidemia_high_stated, epidemia_low_sampled, epidemia_high_sampled or epidemia_high_closed "
    "('epidemia cost GROUP' says what it takes)"
)

T = TypeVar("T")

_logger = logging.getLogger("lm_eval_epidemia")


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
    form : Form
    ids : bool
        Whether letters are named by their token ids.
    top : int
        Likeliest tokens that are asked for.
    limit : str
        What the server calls the largest number of tokens.
    """

    form: Form
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
        "auto", or a name of `known.BY_NAME`.
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
        self._more, self._given = more, server
        #: Known before the first prompt is asked.
        self.found: known.Found | None = None
        #: How far two answers to one prompt were apart, once that is known.
        self.apart: float | None = None
        #: Characters of the longest prompt.
        self.longest_text = 0
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

    @property
    def server(self) -> str:
        """What the server is called; empty if it is not known."""
        return self.found.named if self.found else ""

    @property
    def checked(self) -> dict[str, Any]:
        """What is kept of the server: its name and version, and whether it repeats its answers."""
        repeats = {} if self.apart is None else {"repeatable": self.apart <= known.REPEATS}
        return {"server": self.server or "not known", **repeats}

    def answer(self, prompt: Prompt) -> Answered:
        """Ask a prompt; the first one also finds out how.

        Raises
        ------
        EpidemiaError
            If the server gives no log-probabilities or cannot be asked.
        """
        try:
            if self.how is None:
                try:
                    return self._first(prompt)
                except BaseException:
                    self.how = None
                    raise
            try:
                return self._asked(prompt, self.how)
            except Declined as error:
                text = f"{self.endpoint.url} does not take a prompt: {error}"
                raise EpidemiaError(text) from None
        except EpidemiaError as error:
            if not self.found or not self.server or self.server in str(error):
                raise
            raise EpidemiaError(
                f"{error}. The server is {self.server}: {self.found.server.way_out}"
            ) from None

    def _first(self, prompt: Prompt) -> Answered:
        """Ask in one way after the other until the server takes one, and check what it shows.

        Whether it heeds token ids is seen from whether it returns tokens that are not likely, not
        from its version.
        """
        url = self.endpoint.url
        found = self.found = known.find(url, self._given, self.endpoint.verify)
        known.refuse_address(url, self.chat, found)
        server = found.server
        form = server.chat if self.chat else server.plain
        by_ids = server.chat_by_ids if self.chat else server.plain_by_ids
        words, ways = "", [How(form, False, top) for top in form.tops]
        if by_ids and self._tokens_of(prompt):
            ways.insert(0, How(by_ids, True, TOPS[0]))
        for way in ways:
            for limit in ("max_tokens", "max_completion_tokens"):
                self.how = way._replace(limit=limit)
                try:
                    answered = self._asked(prompt, self.how, trial=True)
                except Declined as error:
                    words = str(error)
                else:
                    self._check(self.how)
                    return answered
                if "max_completion_tokens" not in words:
                    break
        # Models that take no temperature reason first, and say less than these.
        if "logprob" in words.lower() or "temperature" in words.lower():
            raise self._without(words)
        raise EpidemiaError(f"{url} does not take the first prompt: {words}")

    def _check(self, how: How) -> None:
        """Ask a prompt whose answer is certain: twice, and once more in the other form."""
        assert self.found
        shown = [self._shown(how, self.chat) for _ in range(2)]
        for one in shown:
            known.refuse_ids(one)
        self.apart = known.unlike(*shown)
        told = f"letters are read by {self.read_by}"
        if self.apart > known.REPEATS:
            told += (
                f"; not repeatable: one prompt, asked twice, got probabilities {self.apart:.2f} "
                "apart"
            )
        log = _logger.warning if self.apart > known.REPEATS else _logger.info
        log("epidemia: %s is %s; %s", self.endpoint.url, self.server or "a server", told)
        server = self.found.server
        other = server.plain if self.chat else server.chat
        ids = how.form in (server.plain_by_ids, server.chat_by_ids) and how.form is other
        another = None
        # Addresses that are not there, and models without a template, say nothing.
        with suppress(Declined, EpidemiaError):
            another = self._shown(How(other, ids, how.top, how.limit), not self.chat, tries=1)
        if another is None or not known.same(shown[0], another):
            return
        words = (
            f"{self.endpoint.url} gives the same answer after plain text and in a chat: a chat "
            "template is put around both, or around neither"
        )
        if not self.found.is_given:
            raise EpidemiaError(
                f"{words}. Serve the model with llama.cpp or vLLM; or, if you know that this form "
                "is right, add server=openai to --model_args"
            )
        _logger.warning("epidemia: %s", words)

    def _shown(self, how: How, chat: bool, tries: int | None = None) -> Shown:
        """Return what is shown after the prompt whose answer is certain."""
        content: Any = [{"role": "user", "content": known.PROBE}] if chat else known.PROBE
        ids: set[int] = set()
        if how.ids:
            choices = tuple(letter if self.chat else f" {letter}" for letter in known.PROBED)
            context = json.dumps(content) if chat else content
            wanted = self._tokens_of(Prompt(context, choices, []))
            ids = set(chain.from_iterable(wanted or ()))
        asked = self._question(content, how, sorted(ids))

        def read(reply: Any) -> Shown:
            self._count(reply)
            return how.form.read(reply, asked)

        url = None
        if not how.form.path and chat != self.chat:
            url = beside(self.endpoint.url, "v1/chat/completions" if chat else "v1/completions")
        return self._post(asked, how, read, url, tries)

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

        content = json.loads(prompt.context.prompt) if self.chat else prompt.context
        question = self._question(content, how, sorted(asked))

        def read(reply: Any) -> Answered:
            tokens = self._count(reply)
            try:
                shown = how.form.read(reply, question)
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

        return self._post(question, how, read)

    def _question(self, content: Any, how: How, ids: list[int]) -> Asked:
        # A token of letters is seldom less than two characters of a prompt.
        room = 4096
        while room < self.longest_text / 2:
            room *= 2
        return Asked(self.model, content, how.top, ids, how.limit, room, self._more)

    def _post(
        self,
        asked: Asked,
        how: How,
        read: Callable[[Any], T],
        url: str | None = None,
        tries: int | None = None,
    ) -> T:
        if how.form.path:
            url = beside(self.endpoint.url, how.form.path)
        return self.endpoint.ask(how.form.body(asked), read, url, tries)

    def _count(self, reply: Any) -> int:
        """Count the tokens of a reply, also of one that cannot be used."""
        usage = reply if isinstance(reply, dict) else {}
        for name in ("usage", "meta_info"):
            usage = usage[name] if isinstance(usage.get(name), dict) else usage
        total = _tokens(usage)
        with self._lock:
            self.tokens += total
            self.longest = max(self.longest, total)
        return total

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

    both = (whole(one) + whole(other) for one, other in COUNTS)
    return whole("total_tokens") or next(filter(None, both), 0)
