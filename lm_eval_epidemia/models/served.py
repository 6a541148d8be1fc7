"""A model behind a server: asked prompt by prompt, several at a time, within a budget of tokens.

`ServedLM` is the loop that lm-eval's requests go through: one request per prompt, answers written
to lm-eval's cache as they come. What it asks is a `Served`, which knows the form of requests.
"""

from __future__ import annotations

import logging
import math
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lm_eval.api.model import LM
from pydantic import BaseModel, Field
from tqdm import tqdm

from lm_eval_epidemia.ask.bounds import Withheld
from lm_eval_epidemia.core.errors import EpidemiaError, plural
from lm_eval_epidemia.harness.answer_cache import KEPT, LOST, explain_write, record_of, write_note
from lm_eval_epidemia.harness.keys import headers
from lm_eval_epidemia.models import server_kinds
from lm_eval_epidemia.models.choices import remember
from lm_eval_epidemia.models.endpoint import Endpoint
from lm_eval_epidemia.models.server_replies import Declined, Filtered

#: Prompts after which a model that never gave any choice a probability is given up.
ENOUGH = 30

#: The probability of all choices below which they say nothing of what a model would answer: one
#: that thinks first leaves them less.
LEAST_MASS = 1e-3

_logger = logging.getLogger("lm_eval_epidemia")

T = TypeVar("T")


class Prompt(NamedTuple):
    """One prompt and the choices that are read after it.

    Attributes
    ----------
    context : str, JsonChatStr or TypedQuestion
        What is asked. Messages are JSON, as lm-eval hands them on.
    choices : tuple of str
        Distinct.
    requests : list of (int, int)
        Numbers of the requests answered, and of the choice of each.
    """

    context: Any
    choices: tuple[str, ...]
    requests: list[tuple[int, int]]


class PromptAnswer(NamedTuple):
    """The answer to a prompt.

    Attributes
    ----------
    letters : list of (float, bool)
        By choice, as lm-eval takes them.
    began : str
        What the model chose: the token that it generated.
    is_cut : bool
        Whether it may show what a sampler leaves, see `server_replies.is_cut`.
    declined : str
        The server's words, if it declined the prompt.
    """

    letters: list[tuple[float, bool]]
    began: str
    is_cut: bool = False
    declined: str = ""


def is_seen(answered: PromptAnswer) -> bool:
    """Whether any choice was generated, or is likely enough to say something of the model."""
    if answered.is_cut or answered.declined:
        return False
    shown = [math.exp(x) for x, _ in answered.letters if getattr(x, "shown", True)]
    return math.fsum(shown) >= LEAST_MASS or any(is_greedy for _, is_greedy in answered.letters)


def task_of(requests: Sequence[Any]) -> str:
    """Name the task of some requests, as far as lm-eval says it."""
    return str(getattr(requests[0], "task_name", None) or "this task") if requests else "this task"


#: What servers call the tokens of a prompt and of its answer.
COUNTS = (
    *("prompt_tokens", "completion_tokens"),
    *("input_tokens", "output_tokens"),
    *("prompt_eval_count", "eval_count"),
    *("tokens_evaluated", "tokens_predicted"),
)


def count_tokens(reply: Any) -> int:
    """Read how many tokens a request took; 0 if that is not said."""
    said: Mapping[str, Any] = reply if isinstance(reply, dict) else {}
    usage = said.get("usage") or said.get("meta_info") or said
    parts = sum(usage.get(name) or 0 for name in COUNTS)
    return int(usage.get("total_tokens") or parts)


class Served(ABC):
    """A model behind a server, and what is known of both.

    Parameters
    ----------
    endpoint : Endpoint
    model : str
        The server's name for the model.
    most : int, optional
        Tokens that may be used.

    Attributes
    ----------
    found : Found, optional
        The server; known before the first prompt is asked.
    apart : float, optional
        How far two answers to one prompt were apart, once that is known.
    longest_text : int
        Characters of the longest prompt.
    tokens, longest : int
        Tokens that the server counted, and the most of one request.
    counts : bool
        Whether it counts.
    """

    def __init__(self, endpoint: Endpoint, model: str, most: int | None) -> None:
        self.endpoint, self.model, self.most = endpoint, model, most
        self.found: server_kinds.Found | None = None
        self.apart: float | None = None
        self.longest_text = self.tokens = self.longest = 0
        self.counts = True
        self._lock = threading.Lock()

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it is known how the server is asked: the first prompt finds out."""

    @property
    @abstractmethod
    def read_by(self) -> str:
        """What answers are read by; empty before the first prompt is answered."""

    @property
    def variant(self) -> dict[str, str]:
        """What must be the same of all answers in one file of ``--use_cache``."""
        return {}

    @abstractmethod
    def ask(self, prompt: Prompt) -> PromptAnswer:
        """Send a prompt; see `answer`."""

    @property
    @abstractmethod
    def way_out(self) -> str:
        """What to do where the server gives no probabilities; empty if nobody knows."""

    @property
    def server(self) -> str:
        """What the server is called; empty if it is not known."""
        return self.found.named if self.found else ""

    @property
    def checked(self) -> dict[str, Any]:
        """What is kept of the server: its name and version, and whether it repeats its answers."""
        repeats = {} if self.apart is None else {"repeatable": self.apart <= server_kinds.REPEATS}
        return {"server": self.server or "not known", **repeats}

    @property
    def over_limit(self) -> str:
        """Why no further prompt is sent."""
        return f"stopped at max_cost_tokens={self.most}: {self.tokens:,} tokens were used"

    def answer(self, prompt: Prompt) -> PromptAnswer:
        """Send a prompt; the first one also determines the form.

        Raises
        ------
        EpidemiaError
            If the server gives no probabilities or cannot be reached.
        """
        try:
            try:
                return self.ask(prompt)
            except Declined as error:
                raise EpidemiaError(f"{self.endpoint.url} rejects a prompt: {error}") from None
        except Filtered as error:
            said, none = self.endpoint.scrubbed(str(error)), (Withheld("nan"), False)
            return PromptAnswer([none] * len(prompt.choices), "", declined=said)
        except EpidemiaError as error:
            if not self.server or self.server in str(error):
                raise
            raise EpidemiaError(
                f"{error} (the server is {self.server}{self.way_out and f': {self.way_out}'})"
            ) from None

    def post(
        self,
        body: Mapping[str, Any],
        read: Callable[[Any], T],
        expected: int,
        url: str | None = None,
        once: bool = False,
    ) -> T:
        """Send a request within the budget of tokens.

        Parameters
        ----------
        body : mapping
        read : callable
            As `Endpoint.ask` takes it.
        expected : int
            Tokens that it will take at most.
        url : str, optional
            Another address of the server.
        once : bool
            Whether it is tried once, and its failure is no fault.
        """
        if self.most and self.tokens + expected > self.most:
            raise EpidemiaError(self.over_limit)
        return self.endpoint.ask(body, read, url, tries=1 if once else None, noted=not once)

    def count(self, reply: Any) -> int:
        """Count the tokens of a reply, also of one that cannot be used."""
        total = count_tokens(reply)
        with self._lock:
            self.tokens += total
            self.longest = max(self.longest, total)
        return total


class ServedSettings(BaseModel, extra="forbid", coerce_numbers_to_str=True):
    """The arguments of every `ServedLM`: `ChoiceAPI` says what they are."""

    base_url: str = ""
    model: str | None = None
    num_concurrent: int = Field(8, ge=1)
    max_cost_tokens: int | None = Field(None, ge=1)
    # Larger numbers must be typing errors.
    timeout: float = Field(120, ge=0.001, le=threading.TIMEOUT_MAX)
    max_retries: int = Field(9, ge=0)
    pause: float = Field(1, ge=0, le=threading.TIMEOUT_MAX)
    api_key_env: str = "OPENAI_API_KEY"
    header_env: str | None = None
    verify_certificate: bool = True
    ca_cert_path: Path | None = None

    def connect(self, name: str) -> Endpoint:
        """Return the address that is asked, for a model of this name (after ``--model``)."""
        if not self.model:
            raise EpidemiaError(f"{name}: give model=NAME, the server's name for the model")
        return Endpoint(
            self.base_url,
            headers(name, self.api_key_env, self.header_env),
            self.num_concurrent,
            self.timeout,
            self.max_retries + 1,
            self.pause,
            self.verify_certificate and _certificates(name, self.ca_cert_path),
        )


def _certificates(name: str, path: Path | None) -> bool | ssl.SSLContext:
    """Return the authorities to check certificates against: the usual ones, or those of a file."""
    if path is None:
        return True
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:  # also an SSLError: not a file of certificates
        raise EpidemiaError(
            f"{name}: ca_cert_path={path} is not a file of certificates (PEM): {error}"
        ) from None


#: From a prompt and its answer to what lm-eval's cache keeps of it.
Take = Callable[[Prompt, PromptAnswer], Iterable[tuple[Any, Any]]]


class ServedLM(LM):
    """A served model, of which lm-eval asks what `Served` can answer.

    Attributes
    ----------
    name : str
        After ``--model``.
    most_declined : float
        The share of a run's prompts that the server may decline; above it, the run stops.
    served : Served
    declined : int
        Prompts of a run that the server declined.
    """

    name: str
    most_declined: float
    served: Served

    def __init__(self, given: ServedSettings) -> None:
        super().__init__()
        self.endpoint = given.connect(self.name)
        self.model, self.base_url = str(given.model), given.base_url
        self.concurrent = given.num_concurrent
        self.declined = 0

    def explain_unseen(self, first: list[PromptAnswer]) -> EpidemiaError:
        """Refuse a model whose first answers give no choice any probability."""
        return EpidemiaError(
            f"{self.model} at {self.base_url} gives no choice any probability in {len(first)} "
            "answers: ask another model"
        )

    @property
    def tokenizer_name(self) -> str:
        """Name of the tokenizer; part of the key of lm-eval's request cache."""
        return f"{self.name}__{self.model}".replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Name the server's template, so that results distinguish chat from plain text."""
        return "that of the server"

    def get_model_info(self) -> dict[str, Any]:
        """Record in the results how answers were read, and the tokens used."""
        # The file of --use_cache says it where all answers came from there.
        kept = record_of(self.cache_hook.dbdict)
        told = {
            "letters_read_by": self.served.read_by or "nothing asked",
            **{
                name: kept.get("letters", {}).get(name, x)
                for name, x in self.served.variant.items()
            },
            **self.served.checked,
            **kept.get("told", {}),
            "tokens": self.served.tokens,
            "declined": self.declined,
            "asked_again": dict(self.endpoint.faults),
        }
        return {self.name.replace("-", "_"): told}

    def ask_letters(
        self, prompts: list[Prompt], requests: Sequence[Any], quiet: bool
    ) -> list[tuple[float, bool]]:
        """Answer requests for choices, one prompt at a time for all of them."""
        answers: list[Any] = [None] * len(requests)

        def take(prompt: Prompt, answered: PromptAnswer) -> Iterator[tuple[Any, Any]]:
            for number, choice in prompt.requests:
                answers[number] = answered.letters[choice]
                if not answered.declined:  # those are asked again by a run that goes on
                    yield requests[number].args, answers[number]
                elif not (task := task_of([requests[number]])).startswith("epidemia_"):
                    # Only our tasks say, by `seen`, what was left out.
                    raise self._refuse_declined(f"a prompt of {task}", answered)

        self.ask_all(prompts, take, quiet)
        return answers

    def ask_all(
        self, prompts: list[Prompt], take: Take, quiet: bool, kind: str = "loglikelihood"
    ) -> None:
        """Ask prompts, each once, and write what they got to lm-eval's cache as it comes.

        No more prompts are asked at a time than there are connections, those counted whose answer
        is not yet written: these a run that is killed asks again, and no others.

        Parameters
        ----------
        prompts : list of Prompt
        take : callable
            Keeps an answer; returns requests and their answers for the cache.
        quiet : bool
        kind : str
            Of the requests, as lm-eval's cache calls it.
        """
        texts = (getattr(prompt.context, "prompt", prompt.context) for prompt in prompts)
        self.served.longest_text = max((len(str(text)) for text in texts), default=0)
        # Equal beginnings side by side, so that they meet in the server's prefix cache.
        left = iter(sorted(prompts, key=lambda prompt: str(prompt.context)))
        under_way: dict[Future[PromptAnswer], Prompt] = {}
        began: list[PromptAnswer] = []
        declined: list[PromptAnswer] = []
        # Of all: a run that goes on may have little left but what is declined.
        requests = sum(len(prompt.requests) for prompt in prompts) or 1
        in_all = len(prompts) * (1 + len(self.cache_hook.dbdict or ()) / requests)
        seen, answered, written, noted = False, 0, 0, ""
        #: Not yet written: a model that never begins with a choice leaves nothing in the cache.
        held: list[tuple[Any, Any]] = []

        def begin(most: int) -> None:
            for prompt in islice(left, most):
                under_way[pool.submit(self.served.answer, prompt)] = prompt

        def keep() -> list[BaseException]:
            """Write what has come; return what went wrong."""
            nonlocal seen, answered, written, noted
            ready = [future for future in under_way if future.done() and not future.cancelled()]
            good = [(under_way[each], each.result()) for each in ready if not each.exception()]
            declined.extend(reply for _, reply in good if reply.declined)
            held.extend(pair for prompt, reply in good for pair in take(prompt, reply))
            seen = seen or any(is_seen(reply) for _, reply in good)
            if seen and held:
                by = self.served.checked.get("answered_by", "")
                if not written or by != noted:
                    self._note()
                    noted = by
                with explain_write(self.cache_hook.dbdict):
                    remember(self, held, kind)
                held.clear()
            answered += len(good)
            written = answered if seen else 0
            began.extend(reply for _, reply in good if not reply.declined)
            if self.served.counts:
                bar.set_postfix_str(f"{self.served.tokens:,} tokens", refresh=False)
            bar.update(len(good))
            # Last, so that an interrupt loses nothing that has come.
            for future in ready:
                del under_way[future]
            return [error for future in ready if (error := future.exception())]

        self.endpoint.stopped.clear()
        with (
            tqdm(total=len(prompts), desc="Prompts", unit="prompt", disable=quiet) as bar,
            self._explained(lambda: (answered - len(declined), written, len(prompts))),
            ThreadPoolExecutor(self.concurrent) as pool,
        ):
            try:
                begin(1)  # finds out how the server is asked
                while under_way:
                    wait(under_way, return_when=FIRST_COMPLETED)
                    for error in keep():
                        raise error
                    if len(declined) > self.most_declined * in_all or len(declined) == in_all:
                        most = f"more than {self.most_declined:.0%}"
                        which = most if self.most_declined < 1 else "all that were asked"
                        said = f"{plural(len(declined), 'prompt')}, {which}"
                        raise self._refuse_declined(said, declined[-1])
                    is_over = len(began) >= ENOUGH or answered == len(prompts)
                    if not seen and began and is_over:
                        raise self.explain_unseen(began[:ENOUGH])
                    room = self._affordable(len(under_way))
                    begin(room if self.served.is_ready else min(room, 1))
            except KeyboardInterrupt:
                _logger.warning("epidemia: waiting for %d unfinished requests", len(under_way))
                raise
            finally:
                # Nothing more is begun; what is under way is waited for and kept.
                self.endpoint.stopped.set()
                pool.shutdown(cancel_futures=True)
                keep()
            if answered < len(prompts):
                raise EpidemiaError(self.served.over_limit)

    def _refuse_declined(self, what: str, answered: PromptAnswer) -> EpidemiaError:
        """Refuse to leave out what a server declines."""
        return EpidemiaError(
            f"{self.base_url} declines {what} ({answered.declined}): ask "
            "another server, or leave these tasks out"
        )

    def _note(self) -> None:
        """Write down how answers are read, and what the server reported, before any answer."""
        file = self.cache_hook.dbdict
        told = {"letters_read_by": self.served.read_by, **self.served.checked}
        before = {**told, **record_of(file).get("told", {})}
        for name in {"letters_read_by", "answered_by"} & told.keys():
            held, now = (of[name].split(" and ") for of in (before, told))
            if name == "answered_by" and now[0] not in held:
                raise EpidemiaError(
                    f"{file.filename} holds answers of {before[name]}, but {now[0]} answers now: "
                    "give another path for --use_cache"
                )
            told[name] = " and ".join(sorted({*held, *now}))
        write_note(file, self.served.variant, "letters", told)

    def _affordable(self, running: int) -> int:
        """Return how many more prompts may be asked now, if each takes what the longest took."""
        room = self.concurrent - running
        if self.served.most is None:
            return room
        if not self.served.counts:
            raise EpidemiaError(
                f"{self.base_url} does not report the tokens of requests: leave out max_cost_tokens"
            )
        left = self.served.most - self.served.tokens
        return max(min(room, left // max(self.served.longest, 1) - running), 0)

    @contextmanager
    def _explained(self, how_many: Callable[[], tuple[int, int, int]]) -> Iterator[None]:
        """Add to an error what became of the answers before it; say what was asked again."""

        def became() -> str:
            answered, written, prompts = how_many()
            is_kept = self.cache_hook.dbdict is not None
            if not answered or (is_kept and not written):
                return ""
            what = KEPT if is_kept else LOST
            return f". {answered:,} of {prompts:,} prompts were answered; the answers are {what}"

        try:
            yield
        except EpidemiaError as error:
            raise EpidemiaError(f"{error}{became()}") from None
        except KeyboardInterrupt:
            _logger.warning("epidemia: interrupted%s", became())
            raise
        finally:
            if faults := self.endpoint.faults:
                told = ", ".join(f"{n:,} x {what}" for what, n in faults.most_common())
                _logger.warning("epidemia: %s retried after: %s", self.name, told)
