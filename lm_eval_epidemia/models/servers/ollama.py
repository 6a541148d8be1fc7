"""Ollama (0.12.11 or later): ``/api/generate`` with ``raw`` takes plain text as it is.

Its ``/v1/completions`` puts the chat template of the model around every prompt, and prompts longer
than its context (``num_ctx``, 4,096 by default) are cut without a word: ``truncate: false`` forbids
that where the version knows it, and the number of tokens that it read tells it everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.models.first_token import Shown, read_content, shown_in
from lm_eval_epidemia.models.servers.form import Asked, Form, Server, said
from lm_eval_epidemia.models.servers.openai import chat_body

#: Its contexts are multiples of this; a prompt that fills one to the last token was cut.
STEP, LEAST_CONTEXT = 1024, 2048


def _body(asked: Asked) -> dict[str, Any]:
    return {
        "model": asked.model,
        "prompt": asked.content,
        "raw": True,
        "stream": False,
        "logprobs": True,
        "top_logprobs": asked.top,
        "truncate": False,
        "shift": False,
        "options": {"num_predict": 1, "temperature": 0, "num_ctx": asked.room},
    }


def _refuse_cut(tokens: Any, context: int | None) -> None:
    """Refuse an answer to a prompt that fills the context."""
    if not isinstance(tokens, int) or tokens < LEAST_CONTEXT - 1:
        return
    if tokens >= context - 1 if context else (tokens + 1) % STEP <= 1:
        raise EpidemiaError(
            f"a prompt fills the context of the model to the last of {tokens:,} tokens (num_ctx): "
            "it was cut. Set OLLAMA_CONTEXT_LENGTH=16384 and start the server again"
        )


def _read(reply: Any, asked: Asked) -> Shown:
    shown = read_content(reply.get("logprobs") if isinstance(reply, dict) else None)
    _refuse_cut(reply.get("prompt_eval_count"), asked.room)
    return shown


def _chat_body(asked: Asked) -> dict[str, Any]:
    # Of a chat that is too long it drops the first turns, and what is left shows nothing of it.
    turns = sum(message["role"] == "user" for message in asked.content)
    if turns > 1:
        raise EpidemiaError(
            f"a chat of {turns} questions: of one that does not fit, Ollama drops the first "
            "without a word. Ask without --fewshot_as_multiturn: examples then stand in one message"
        )
    return chat_body(asked)


def _read_chat(reply: Any, asked: Asked) -> Shown:
    shown = shown_in(reply)
    _refuse_cut(said(reply, "usage", "prompt_tokens"), None)
    return shown


def _tells(answers: Mapping[str, Any]) -> str | None:
    version = said(answers, "api/version", "version")
    return version if isinstance(version, str) else None


OLLAMA = Server(
    "Ollama",
    _tells,
    Form(_body, "api/generate", _read, (20,)),
    Form(_chat_body, read=_read_chat),
    way_out="Ollama shows log-probabilities since 0.12.11, of plain text at "
    "base_url=http://HOST:11434/api/generate and of a chat at "
    "http://HOST:11434/v1/chat/completions, with --apply_chat_template",
)
