"""``--model choice-api``: letters of a served model, one request per prompt.

lm-eval's API models send the whole prompt once per choice and have it echoed, which chat endpoints
cannot do. Here one token is generated, and the log-probabilities of the letters are read at its
position: by token ids if the server accepts them (vLLM), otherwise among the most likely tokens
that it shows. No tokenizer is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import urlsplit

from lm_eval.models.api_models import JsonChatStr

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.harness.keys import refuse_keys
from lm_eval_epidemia.models.loading import read_arguments
from lm_eval_epidemia.models.served import (
    PromptAnswer,
    ServedLM,
    ServedSettings,
    task_of,
)
from lm_eval_epidemia.models.served_letters import WAY_OUT, ServedLetters, group_prompts


class ChoiceAPISettings(ServedSettings):
    """The arguments of `ChoiceAPI`, which says what they are."""

    variants: Literal["auto", "sum", "one"] = "auto"
    enable_thinking: bool | None = None
    server: Literal["auto", "sglang", "llama.cpp", "vllm", "ollama", "mlx", "openai"] = "auto"


class ChoiceAPI(ServedLM):
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

    name, most_declined = "choice-api", 0.05

    def __init__(self, **arguments: Any) -> None:
        refuse_keys(self.name, arguments)
        given = read_arguments("choice-api", ChoiceAPISettings, arguments)
        url = urlsplit(given.base_url)
        ends = ("/completions", "/api/generate")
        if url.scheme not in ("http", "https") or not url.path.endswith(ends):
            raise EpidemiaError(
                f"choice-api: base_url={given.base_url}: expected a URL that begins with http and "
                "ends in /v1/chat/completions or /v1/completions (for Ollama also /api/generate)"
            )
        super().__init__(given)
        self.chat = url.path.endswith("/chat/completions")
        self.variants, self.enable_thinking = given.variants, str(given.enable_thinking)
        thinks = {"chat_template_kwargs": {"enable_thinking": given.enable_thinking}}
        self.served: ServedLetters = ServedLetters(
            self.endpoint,
            self.model,
            given.max_cost_tokens,
            self.chat,
            given.variants,
            {} if given.enable_thinking is None else thinks,
            given.server,
        )

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
        return self.ask_letters(group_prompts(requests, self.chat), requests, disable_tqdm)

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

    def _unsuited(self, output_type: str, task: str) -> EpidemiaError:
        """Refuse a task that needs something else than letters."""
        kind = "chat-" if self.chat and output_type == "generate_until" else ""
        return EpidemiaError(
            f"choice-api only reads letters, not what {task} needs: run that task separately, with "
            f"--model local-{kind}completions"
        )

    def explain_unseen(self, first: list[PromptAnswer]) -> EpidemiaError:
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
