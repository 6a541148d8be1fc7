"""Ollama (0.12.11 or later): ``/api/generate`` with ``raw`` takes plain text as it is.

Its ``/v1/completions`` wraps every prompt in the model's chat template. Prompts longer than its
context (``num_ctx``, 4,096 by default) are silently cut, in chat too. So we use its own forms,
which accept the size of the context. ``truncate: false`` forbids cutting in versions that know it;
in others, the reported number of tokens reveals it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.models.first_token import Shown, read_content
from lm_eval_epidemia.models.servers.form import Asked, Form, Server, said


def _common(asked: Asked) -> dict[str, Any]:
    return {
        "model": asked.model,
        "stream": False,
        "logprobs": True,
        "top_logprobs": asked.top,
        "truncate": False,
        "shift": False,
        "options": {"num_predict": 1, "temperature": 0, "num_ctx": asked.room},
    }


def _plain(asked: Asked) -> dict[str, Any]:
    return _common(asked) | {"prompt": asked.content, "raw": True}


def _chat(asked: Asked) -> dict[str, Any]:
    # Older versions silently drop the first turns of a chat that is too long.
    turns = sum(message["role"] == "user" for message in asked.content)
    if turns > 1:
        raise EpidemiaError(
            f"a chat of {turns} questions: Ollama silently drops the first ones if the chat "
            "exceeds the context. Leave out --fewshot_as_multiturn, so that all examples are in "
            "one message"
        )
    thinks = asked.more.get("chat_template_kwargs", {}).get("enable_thinking")
    more = {} if thinks is None else {"think": thinks}
    return _common(asked) | {"messages": asked.content, **more}


def _read(reply: Any, asked: Asked) -> Shown:
    shown = read_content(reply.get("logprobs") if isinstance(reply, dict) else None)
    tokens = reply.get("prompt_eval_count")
    if isinstance(tokens, int) and tokens >= asked.room - 1:
        raise EpidemiaError(
            f"a prompt fills the model's whole context of {tokens:,} tokens (num_ctx), so it may "
            "have been cut. Use shorter prompts (fewer examples, --num_fewshot)"
        )
    return shown


def _tells(answers: Mapping[str, Any]) -> str | None:
    version = said(answers, "api/version", "version")
    return version if isinstance(version, str) else None


OLLAMA = Server(
    "Ollama",
    _tells,
    Form(_plain, "api/generate", _read, (20,)),
    Form(_chat, "api/chat", _read, (20,)),
    way_out="Ollama returns log-probabilities since 0.12.11: for plain text at "
    "base_url=http://HOST:11434/api/generate, for chat at "
    "http://HOST:11434/v1/chat/completions with --apply_chat_template",
)
