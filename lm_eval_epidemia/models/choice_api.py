"""``--model choice-api``: letters of a served model, one request per prompt.

lm-eval's API models send the whole prompt once per choice and have it echoed, which chat endpoints
cannot do. Here one token is generated, and the log-probabilities of the letters are read at its
position: by token ids if the server accepts them (vLLM), otherwise among the most likely tokens
that it shows. No tokenizer is loaded.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from lm_eval.api.model import LM
from lm_eval.models.api_models import JsonChatStr
from pydantic import BaseModel, Field
from tqdm import tqdm

from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.harness.answer_cache import KEPT, LOST, explain_write, record_of, write_note
from lm_eval_epidemia.harness.keys import headers, refuse_keys
from lm_eval_epidemia.models.choices import remember
from lm_eval_epidemia.models.endpoint import Endpoint
from lm_eval_epidemia.models.loading import read_arguments
from lm_eval_epidemia.models.served_letters import (
    WAY_OUT,
    Prompt,
    PromptAnswer,
    Served,
    group_prompts,
    is_seen,
    task_of,
)


class ChoiceAPISettings(BaseModel, extra="forbid", coerce_numbers_to_str=True):
    """The arguments of `ChoiceAPI`, which says what they are."""

    base_url: str = ""
    model: str | None = None
    num_concurrent: int = Field(8, ge=1)
    variants: Literal["auto", "sum", "one"] = "auto"
    max_cost_tokens: int | None = Field(None, ge=1)
    # Larger numbers must be typing errors.
    timeout: float = Field(120, ge=0.001, le=threading.TIMEOUT_MAX)
    max_retries: int = Field(9, ge=0)
    pause: float = Field(1, ge=0, le=threading.TIMEOUT_MAX)
    api_key_env: str = "OPENAI_API_KEY"
    header_env: str | None = None
    verify_certificate: bool = True
    ca_cert_path: Path | None = None
    enable_thinking: bool | None = None
    server: Literal["auto", "sglang", "llama.cpp", "vllm", "ollama", "mlx", "openai"] = "auto"


def certificates(path: Path | None) -> bool | ssl.SSLContext:
    """Return the authorities to check certificates against: the usual ones, or those of a file."""
    if path is None:
        return True
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:  # also an SSLError: not a file of certificates
        raise EpidemiaError(
            f"choice-api: ca_cert_path={path} is not a file of certificates (PEM): {error}"
        ) from None


#: Prompts after which a model that never began with a letter is given up.
ENOUGH = 30

_logger = logging.getLogger("lm_eval_epidemia")

#: The share of a run that a server's filter of contents may decline.
MOST_DECLINED = 0.05

#: From a prompt and its answer to what lm-eval's cache keeps of it.
_Take = Callable[[Prompt, PromptAnswer], Iterable[tuple[Any, Any]]]


class ChoiceAPI(LM):
    """A served model that answers multiple-choice requests with letters.

    Parameters
    ----------
    base_url : str
        Ends in ``/chat/completions`` or ``/completions``; for plain text with Ollama, in
        ``/api/generate``.
    model : str
        As the server knows it.
    num_concurrent : int
        Prompts sent at the same time.
    variants : {"auto", "sum", "one"}
        Whether " A" and "A." count as "A" ("sum"), or only the exact token that lm-eval asks for
        ("one"), as in `choice-hf`. By default "sum" if tokens are read as text, and "one" if the
        server accepts token ids.
    max_cost_tokens : int, optional
        Stop before a prompt would exceed this many tokens.
    timeout : float
        Timeout of a request, in seconds.
    max_retries : int
        The most times that a prompt is retried.
    pause : float
        Seconds before the first retry; doubled each time.
    api_key_env, header_env : str
        Names of environment variables: of the key, and of a whole header, ``Name: value``.
    verify_certificate : bool
    ca_cert_path : str, optional
        A file of certificates that are trusted.
    enable_thinking : bool, optional
        Passed to the server's chat template (vLLM, SGLang, Ollama); give False for models that
        think first.
    server : {"auto", "ollama", "llama.cpp", "mlx", "sglang", "vllm", "openai"}
        The kind of server, which sets the form of requests; by default it is detected. "openai" for
        OpenAI's forms.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        refuse_keys(arguments)
        given = read_arguments("choice-api", ChoiceAPISettings, arguments)
        url = urlsplit(given.base_url)
        ends = ("/completions", "/api/generate")
        if url.scheme not in ("http", "https") or not url.path.endswith(ends):
            raise EpidemiaError(
                f"choice-api: base_url={given.base_url}: expected a URL that begins with http and "
                "ends in /v1/chat/completions or /v1/completions (for Ollama also /api/generate)"
            )
        if not given.model:
            raise EpidemiaError("choice-api: give model=NAME, the server's name for the model")
        self.model, self.base_url = given.model, given.base_url
        self.chat = url.path.endswith("/chat/completions")
        self.concurrent = given.num_concurrent
        self.endpoint = Endpoint(
            self.base_url,
            headers(given.api_key_env, given.header_env),
            self.concurrent,
            given.timeout,
            given.max_retries + 1,
            given.pause,
            given.verify_certificate and certificates(given.ca_cert_path),
        )
        self.variants, self.enable_thinking = given.variants, str(given.enable_thinking)
        thinks = {"chat_template_kwargs": {"enable_thinking": given.enable_thinking}}
        more = {} if given.enable_thinking is None else thinks
        self.served = Served(
            self.endpoint,
            self.model,
            self.chat,
            given.variants,
            more,
            given.server,
            given.max_cost_tokens,
        )
        #: Prompts of a run that the server's filter of contents declined.
        self.declined = 0

    # What lm-eval asks of a model.

    def check_tasks(self, tasks: Iterable[Any]) -> None:
        """Refuse tasks that need anything other than letters, before anything is asked.

        Parameters
        ----------
        tasks : iterable of lm_eval.api.task.Task
        """
        for task in tasks:
            if task.OUTPUT_TYPE in ("generate_until", "loglikelihood_rolling"):
                raise self._unsuited(task.OUTPUT_TYPE, task.task_name)

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Answer requests, one prompt at a time for all its letters."""
        prompts, answers = group_prompts(requests, self.chat), [None] * len(requests)

        def take(prompt: Prompt, answered: PromptAnswer) -> Iterable[tuple[Any, Any]]:
            for number, choice in prompt.requests:
                answers[number] = answered.letters[choice]  # type: ignore[call-overload]
                if not answered.declined:  # those are asked again by a run that goes on
                    yield requests[number].args, answers[number]
                elif not (task := task_of([requests[number]])).startswith("epidemia_"):
                    # Only our tasks say, by `seen`, what was left out.
                    raise self._declined(f"a prompt of {task}", answered)

        self._ask_all(prompts, take, disable_tqdm)
        return answers  # type: ignore[return-value]

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        raise self._unsuited("generate_until", task_of(requests))

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        raise self._unsuited("loglikelihood_rolling", task_of(requests))

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> Any:
        """Pass messages on unchanged: the server applies the template."""
        if not self.chat:
            raise EpidemiaError(
                f"{self.base_url} accepts plain text, not chat messages: with "
                "--apply_chat_template give the address that ends in /chat/completions"
            )
        return JsonChatStr(json.dumps(chat_history, ensure_ascii=False))

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Name the server's template, so that results distinguish chat from plain text."""
        return "that of the server"

    @property
    def tokenizer_name(self) -> str:
        """Name of the tokenizer; part of the key of lm-eval's request cache."""
        return f"choice-api__{self.model}".replace("/", "__")

    def get_model_info(self) -> dict[str, Any]:
        """Record in the results how letters were read, and the tokens used."""
        # The file of --use_cache says it where all answers came from there.
        kept = record_of(self.cache_hook.dbdict)
        told = {
            "letters_read_by": self.served.read_by or "nothing asked",
            "variants": kept.get("letters", {}).get("variants", self.served.variant),
            **self.served.checked,
            **kept.get("told", {}),
            "tokens": self.served.tokens,
            "declined": self.declined,
            "asked_again": dict(self.endpoint.faults),
        }
        return {"choice_api": told}

    # Asking.

    def _ask_all(self, prompts: list[Prompt], take: _Take, quiet: bool) -> None:
        """Ask prompts, each once, and write what they got to lm-eval's cache as it comes.

        No more prompts are asked at a time than there are connections, those counted whose answer
        is not yet written: these a run that is killed asks again, and no others.
        """
        texts = (getattr(prompt.context, "prompt", prompt.context) for prompt in prompts)
        self.served.longest_text = max(map(len, texts), default=0)
        # Equal beginnings side by side, so that they meet in the server's prefix cache.
        left = iter(sorted(prompts, key=lambda prompt: str(prompt.context)))
        under_way: dict[Future[PromptAnswer], Prompt] = {}
        began: list[PromptAnswer] = []
        declined: list[PromptAnswer] = []
        # Of all: a run that goes on may have little left but what is declined.
        letters = sum(len(prompt.requests) for prompt in prompts) or 1
        in_all = len(prompts) * (1 + len(self.cache_hook.dbdict or ()) / letters)
        seen, answered, written = False, 0, 0
        #: Not yet written: a model that never begins with a letter leaves nothing in the cache.
        held: list[tuple[Any, Any]] = []

        def begin(most: int) -> None:
            for prompt in islice(left, most):
                under_way[pool.submit(self.served.answer, prompt)] = prompt

        def keep() -> list[BaseException]:
            """Write what has come; return what went wrong."""
            nonlocal seen, answered, written
            ready = [future for future in under_way if future.done() and not future.cancelled()]
            good = [(under_way[each], each.result()) for each in ready if not each.exception()]
            declined.extend(reply for _, reply in good if reply.declined)
            held.extend(pair for prompt, reply in good for pair in take(prompt, reply))
            seen = seen or any(is_seen(reply) for _, reply in good)
            if seen and held:
                if not written:
                    self._note()
                with explain_write(self.cache_hook.dbdict):
                    remember(self, held)
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
            self._explained(lambda: (answered, written, len(prompts))),
            ThreadPoolExecutor(self.concurrent) as pool,
        ):
            try:
                begin(1)  # finds out how the server is asked
                while under_way:
                    wait(under_way, return_when=FIRST_COMPLETED)
                    for error in keep():
                        raise error
                    if len(declined) > MOST_DECLINED * in_all:
                        said = f"{plural(len(declined), 'prompt')}, more than {MOST_DECLINED:.0%}"
                        raise self._declined(said, declined[-1])
                    is_over = len(began) >= ENOUGH or answered == len(prompts)
                    if not seen and began and is_over:
                        raise self._without_letters(began[:ENOUGH])
                    most = self._affordable(len(under_way))
                    begin(most if self.served.how else min(most, 1))
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

    def _note(self) -> None:
        """Write down how letters are read, and what the server reported, before any answer."""
        file, read_by = self.cache_hook.dbdict, self.served.read_by
        before = record_of(file).get("told", {}).get("letters_read_by", read_by)
        ways = " and ".join(sorted({*before.split(" and "), read_by}))
        told = {"letters_read_by": ways, **self.served.checked}
        write_note(file, {"variants": self.served.variant}, "letters", told)

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
                _logger.warning("epidemia: choice-api retried after: %s", told)

    def _unsuited(self, output_type: str, task: str) -> EpidemiaError:
        """Refuse a task that needs something else than letters."""
        kind = "chat-" if self.chat and output_type == "generate_until" else ""
        return EpidemiaError(
            f"choice-api only reads letters, not what {task} needs: run that task separately, with "
            f"--model local-{kind}completions"
        )

    def _declined(self, what: str, answered: PromptAnswer) -> EpidemiaError:
        """Refuse to leave out what a server's content filter declines."""
        return EpidemiaError(
            f"{self.base_url}: the content filter declines {what} ({answered.declined}): ask "
            "another server, or leave these tasks out"
        )

    def _without_letters(self, first: list[PromptAnswer]) -> EpidemiaError:
        """Refuse a model that begins its answers with something else than letters."""
        began = [each.began for each in first]
        if all(each.is_cut for each in first):
            return EpidemiaError(self.served.after_sampling)
        shown = few([repr(text) for text in dict.fromkeys(began)])
        if not self.served.adds and any(len(text.strip(" .")) == 1 for text in began):
            return EpidemiaError(
                f"no answer of {self.model} begins with a letter in the one spelling that "
                f"variants=one reads, but with {shown}: give variants=sum"
            )
        return EpidemiaError(
            f"none of the first {len(began)} answers of {self.model} begins with a letter, but "
            f"with {shown}: turn thinking off (enable_thinking=False), try --apply_chat_template "
            f"and the address /v1/chat/completions, or {WAY_OUT}"
        )
