"""Asking a served model for letters, in the best form that its server supports.

The kind of server determines the possible forms (`server_kinds`). If it accepts token ids (vLLM,
SGLang), it returns the log-probabilities of exactly the letters; otherwise the most likely tokens,
as text. Here too: the requests that each prompt answers, and what a server tokenizes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.server_facts import join_url, refuse_template
from lm_eval_epidemia.models import server_kinds
from lm_eval_epidemia.models.choices import move_spaces
from lm_eval_epidemia.models.endpoint import Endpoint
from lm_eval_epidemia.models.served import Prompt, PromptAnswer, Served, task_of
from lm_eval_epidemia.models.server_kinds import TOPS, Form, Server, TokenRequest
from lm_eval_epidemia.models.server_replies import (
    BadReply,
    Declined,
    NoLogprobs,
    ShownTokens,
    is_cut,
    read_by_id,
    read_by_text,
    spellings,
)

#: A word whose tokens no prompt of ours makes likely: a server that returns them heeds ids.
UNLIKELY = " zyzzyva"

#: A server that gives no log-probabilities of the first prompt so many times gives none.
SLIPS = 3

WAY_OUT = (
    "use a group in which the model writes its answer: epidemia_low_stated, epidemia_low_sampled "
    "or epidemia_high_closed ('epidemia cost GROUP' shows its cost)"
)

T = TypeVar("T")

_logger = logging.getLogger("lm_eval_epidemia")


class How(NamedTuple):
    """How a server is asked.

    Attributes
    ----------
    form : Form
    top : int
        Likeliest tokens that are asked for.
    limit : str
        What the server calls the largest number of tokens.
    """

    form: Form
    top: int
    limit: str = "max_tokens"


class ServedLetters(Served):
    """A served model that answers with letters.

    Parameters
    ----------
    endpoint, model, most
        See `Served`.
    chat : bool
        Whether it takes messages.
    variants : {"auto", "sum", "one"}
        See `ChoiceAPI`.
    more : mapping
        What else is sent with each prompt.
    server : str
        "auto", or a name of `server_kinds.BY_NAME`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        most: int | None,
        chat: bool,
        variants: str,
        more: Mapping[str, Any],
        server: str,
    ) -> None:
        super().__init__(endpoint, model, most)
        self.chat, self.variants = chat, variants
        self._more, self._given = more, server
        #: Known once the first prompt is answered.
        self.how: How | None = None
        self._tokenizer = ServerTokenizer(endpoint, model, chat, variants == "sum")
        #: Replies to the first prompt without log-probabilities.
        self._slips = 0

    @property
    def is_ready(self) -> bool:
        return self.how is not None

    @property
    def adds(self) -> bool:
        """Whether the spellings of a letter are added up."""
        if self.variants == "auto":
            return self.how is None or not self.how.form.by_ids
        return self.variants == "sum"

    @property
    def read_by(self) -> str:
        """What letters are read by; empty before the first prompt is answered."""
        if self.how is None:
            return ""
        return "token ids" if self.how.form.by_ids else f"top {self.how.top}"

    @property
    def variant(self) -> dict[str, str]:
        """Which way of `variants` letters are read in; as it was given before the first prompt."""
        if self.how is None:
            return {"variants": self.variants}
        return {"variants": "sum" if self.adds else "one"}

    @property
    def way_out(self) -> str:
        return self.found.server.way_out if self.found else ""

    def ask(self, prompt: Prompt) -> PromptAnswer:
        if self.how is not None:
            return self._asked(prompt, self.how)
        try:
            return self._first(prompt)
        except BaseException:
            self.how = None
            raise

    def _first(self, prompt: Prompt) -> PromptAnswer:
        """Ask in one way after the other until the server takes one, and check what it shows.

        Whether it heeds token ids is seen from whether it returns tokens that are not likely, not
        from its version.
        """
        url, words = self.endpoint.url, ""
        found = self.found = self.endpoint.until(
            lambda: server_kinds.find_server(url, self._given, self.endpoint.verify), url
        )
        if (
            found.server is server_kinds.OLLAMA
            and not self.chat
            and not server_kinds.is_ollamas(url)
        ):
            refuse_template(url, found.version)
        for way in self._ways(found.server, prompt):
            for limit in ("max_tokens", "max_completion_tokens"):
                self.how = way._replace(limit=limit)
                try:
                    answered = self._asked(prompt, self.how, trial=True)
                except Declined as error:
                    words = str(error)
                else:
                    self._check(self.how, answered.is_cut)
                    return answered
                if "max_completion_tokens" not in words:
                    break
        # Models that take no temperature reason first, and say less than these.
        if "logprob" in words.lower() or "temperature" in words.lower():
            raise self._without(words)
        raise EpidemiaError(f"{url} rejects the first prompt: {words}")

    def _ways(self, server: Server, prompt: Prompt) -> Iterator[How]:
        """List the ways to ask a server, the best first."""
        by_ids = server.form(self.chat, by_ids=True)
        if by_ids and self._tokenizer.letters(prompt.context, prompt.choices):
            yield How(by_ids, TOPS[0])
        form = server.form(self.chat)
        yield from (How(form, top) for top in form.tops)

    def _check(self, how: How, is_first_cut: bool) -> None:
        """Ask a prompt whose answer is certain: twice, and once more in the other form."""
        assert self.found
        shown = [self._probed(how, self.chat) for _ in range(2)]
        for one in shown:
            if len(one.top) > 2 and all(token.isdigit() for token, _ in one.top):
                raise EpidemiaError("it returns the most likely tokens as numbers, not as text")
        if is_first_cut and all(is_cut(one, how.top, how.form.by_ids) for one in shown):
            raise EpidemiaError(self.after_sampling)
        self.apart = server_kinds.measure_difference(*shown)
        other = self.found.server.form(not self.chat, how.form.by_ids)
        another = None
        # Addresses that are not there, and models without a template, say nothing.
        with suppress(Declined, EpidemiaError):
            another = other and self._probed(how._replace(form=other), not self.chat, once=True)
        alike = another and server_kinds.is_same_answer(shown[0], another)
        told = [f"letters are read by {self.read_by}"]
        if self.apart > server_kinds.REPEATS:
            apart = f"{self.apart:.2f} apart"
            told.append(f"not repeatable: the same prompt, sent twice, got probabilities {apart}")
        if alike is None:
            told.append(
                "plain text and chat could not be compared, so a chat template would go unnoticed"
            )
        log = _logger.warning if self.apart > server_kinds.REPEATS else _logger.info
        log("epidemia: %s is %s; %s", self.endpoint.url, self.server or "a server", "; ".join(told))
        if alike:
            words = (
                f"{self.endpoint.url} gives the same answer after plain text and in a chat: it "
                "applies a chat template to both, or to neither"
            )
            if not self.found.is_given:
                raise EpidemiaError(
                    f"{words}; serve the model with llama.cpp or vLLM or, if you know that this "
                    "is right, add server=openai to --model_args"
                )
            _logger.warning("epidemia: %s", words)

    def _probed(self, how: How, chat: bool, once: bool = False) -> ShownTokens:
        """Return what is shown after the prompt whose answer is certain."""
        content: Any = (
            [{"role": "user", "content": server_kinds.PROBE}] if chat else server_kinds.PROBE
        )
        ids: set[int] = set()
        if how.form.by_ids:
            choices = tuple(letter if self.chat else f" {letter}" for letter in server_kinds.PROBED)
            # The same tokens in either form, or there would be nothing to compare.
            wanted = self._tokenizer.letters(server_kinds.PROBE, choices)
            ids = set(chain.from_iterable(wanted or ()))
        asked = self._question(content, how, sorted(ids))

        def read(reply: Any) -> ShownTokens:
            self.count(reply)
            return how.form.read(reply, asked)

        url = None
        if chat != self.chat:
            url = join_url(self.endpoint.url, "v1/chat/completions" if chat else "v1/completions")
        return self._post(asked, how, read, url, once)

    @property
    def after_sampling(self) -> str:
        """Why nothing is scored if all answers are what a sampler leaves."""
        return (
            f"{self.endpoint.url} shows probabilities after sampling, not those of {self.model}: "
            f"let it show those before (vLLM: --logprobs-mode raw_logprobs), or {WAY_OUT}"
        )

    def _without(self, why: str) -> EpidemiaError:
        return EpidemiaError(
            f"{self.model} at {self.endpoint.url} gives no log-probabilities of its first token "
            f"at temperature 0 ({why}), and reasoning models give none: {WAY_OUT}"
        )

    def _asked(self, prompt: Prompt, how: How, trial: bool = False) -> PromptAnswer:
        wanted, by_ids = None, how.form.by_ids
        if by_ids and not (wanted := self._tokenizer.letters(prompt.context, prompt.choices)):
            assert self.found  # a letter is not one token
            how = how._replace(form=self.found.server.form(self.chat))
        asked = set(chain.from_iterable(wanted or ()))
        if trial and asked:
            asked |= set(self._tokenizer.ids(UNLIKELY))

        content = json.loads(prompt.context.prompt) if self.chat else prompt.context
        question = self._question(content, how, sorted(asked))

        def read(reply: Any) -> PromptAnswer:
            tokens = self.count(reply)
            try:
                shown = how.form.read(reply, question)
            except NoLogprobs as error:
                self._slips += trial
                if trial and self._slips == min(SLIPS, self.endpoint.tries):
                    raise self._without(str(error)) from None
                raise
            self.counts &= tokens > 0
            cut = is_cut(shown, how.top, how.form.by_ids)
            if wanted is None:
                return PromptAnswer(read_by_text(shown, prompt.choices, self.adds), shown.said, cut)
            if trial:
                try:
                    read_by_id(shown, [sorted(asked)])
                except BadReply as error:
                    raise Declined(str(error)) from None
            return PromptAnswer(read_by_id(shown, wanted), shown.said, cut)

        return self._post(question, how, read)

    def _question(self, content: Any, how: How, ids: list[int]) -> TokenRequest:
        # A token of letters is seldom less than two characters of a prompt.
        room = 4096
        while room < self.longest_text / 2:
            room *= 2
        return TokenRequest(self.model, content, how.top, ids, how.limit, room, self._more)

    def _post(
        self,
        asked: TokenRequest,
        how: How,
        read: Callable[[Any], T],
        url: str | None = None,
        once: bool = False,
    ) -> T:
        # A token is at least a byte; once one prompt is counted, the others are about as long.
        expected = len(content := str(asked.content).encode()) + 1
        if self.longest and server_kinds.PROBE.encode() not in content:
            expected = self.longest
        if how.form.path:
            url = join_url(self.endpoint.url, how.form.path)
        # Whether a second form is there is tried once, and its lack is no fault.
        return self.post(how.form.body(asked), read, expected, url, once)


def group_prompts(requests: Sequence[Any], chat: bool) -> list[Prompt]:
    """Group the requests that one prompt answers.

    Raises
    ------
    EpidemiaError
        If a choice is not a letter, or the address does not accept the context.
    """
    by_context: dict[Any, tuple[dict[str, int], list[tuple[int, int]]]] = {}
    for number, request in enumerate(requests):
        context, choice = request.args
        letter = choice.strip()
        if not (len(letter) == 1 and letter.isascii() and letter.isalpha()):
            raise EpidemiaError(
                f"choice-api only reads single letters, but {task_of([request])} has the choice "
                f"{choice!r}: run it with local-completions, choice-vllm or choice-hf"
            )
        if not context:
            raise EpidemiaError(
                f"{task_of([request])} has a letter without a prompt: leave out acc_mutual_info"
            )
        if chat == isinstance(context, str):
            wrong = "plain text, not chat messages: give the address that ends in /chat/completions"
            if chat:
                wrong = "chat messages, not plain text: add --apply_chat_template"
            raise EpidemiaError(f"{task_of([request])}: base_url accepts {wrong}")
        if not chat:
            context, choice = move_spaces(context, choice)
        choices, numbers = by_context.setdefault(context, ({}, []))
        numbers.append((number, choices.setdefault(choice, len(choices))))
    return [Prompt(context, tuple(of), numbers) for context, (of, numbers) in by_context.items()]


class ServerTokenizer:
    """The tokenizer of a server that has ``/tokenize`` (vLLM, SGLang), each text asked once.

    Parameters
    ----------
    endpoint : Endpoint
    model : str
        As the server knows it.
    chat : bool
        Whether letters are tokenized alone; else behind the last word of the prompt, as by lm-eval.
    all_spellings : bool
        Whether "A." and " A" are asked for too.
    """

    def __init__(self, endpoint: Endpoint, model: str, chat: bool, all_spellings: bool) -> None:
        self._endpoint, self._model = endpoint, model
        self._chat, self._all_spellings = chat, all_spellings
        self.ids = cache(self._ask_ids)

    def letters(self, context: Any, choices: Sequence[str]) -> list[tuple[int, ...]] | None:
        """Return the tokens of each letter; None if the server does not tell, or has none."""
        tail = "" if self._chat else context.split()[-1]
        by_letter = []
        for choice in choices:
            after = [self._after(tail, text) for text in spellings(choice, self._all_spellings)]
            if not (single := [ids[0] for ids in after if len(ids) == 1]):
                return None
            by_letter.append(tuple(dict.fromkeys(single)))
        return by_letter

    def _after(self, tail: str, text: str) -> tuple[int, ...]:
        """Tokenize a text behind the last word of a prompt; empty if they grow together."""
        before, both = self.ids(tail), self.ids(tail + text)
        return both[len(before) :] if both[: len(before)] == before else ()

    def _ask_ids(self, text: str) -> tuple[int, ...]:
        """Tokenize a text as the server does; empty if it does not tell."""

        def read(reply: Any) -> tuple[int, ...]:
            tokens = reply.get("tokens") if isinstance(reply, dict) else None
            if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
                raise BadReply("an answer without tokens")
            return tuple(tokens)

        asked = {"model": self._model, "prompt": text, "add_special_tokens": False}
        url = join_url(self._endpoint.url, "tokenize")
        with suppress(Declined, EpidemiaError):
            return self._endpoint.ask(asked, read, url, tries=3) if text else ()
        return ()
