"""OpenAI's forms, and vLLM, which also takes the ids of the tokens whose log-probabilities to show.

Every server that is not known for another form is asked this way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_epidemia.models.servers.form import Asked, Form, Server, owner, said


def _common(asked: Asked) -> dict[str, Any]:
    body: dict[str, Any] = {"model": asked.model, asked.limit: 1, "temperature": 0, **asked.more}
    if asked.ids:
        body |= {"logprob_token_ids": list(asked.ids), "return_tokens_as_token_ids": True}
    return body


def plain_body(asked: Asked) -> dict[str, Any]:
    """Return the request of ``/v1/completions``."""
    return _common(asked) | {"prompt": asked.content, "logprobs": asked.top}


def chat_body(asked: Asked) -> dict[str, Any]:
    """Return the request of ``/v1/chat/completions``."""
    body, messages = _common(asked), asked.content
    if messages and messages[-1]["role"] == "assistant":  # begun by the task's gen_prefix
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    return body | {"messages": messages, "logprobs": True, "top_logprobs": asked.top}


PLAIN, CHAT = Form(plain_body), Form(chat_body)
PLAIN_BY_IDS, CHAT_BY_IDS = PLAIN._replace(by_ids=True), CHAT._replace(by_ids=True)


def _vllm(answers: Mapping[str, Any]) -> str | None:
    is_vllm = owner(answers) == "vllm"
    return str(said(answers, "version", "version") or "") if is_vllm else None


#: Servers by what they write as the owner of their models.
OWNERS = {
    "organization_owner": "LM Studio",
    "tabbyAPI": "TabbyAPI",
    "user": "text-generation-webui",
    "vllm-mlx": "vLLM-MLX",
}


def _other(answers: Mapping[str, Any]) -> str:
    name = owner(answers)
    return OWNERS.get(name, name)


VLLM = Server(
    "vLLM",
    _vllm,
    PLAIN,
    CHAT,
    PLAIN_BY_IDS,
    CHAT_BY_IDS,
    "start it with 'vllm serve MODEL', without --max-logprobs",
)

OTHER = Server(
    "OpenAI",
    _other,
    PLAIN,
    CHAT,
    PLAIN_BY_IDS,
    CHAT_BY_IDS,
    "serve the model with llama.cpp or vLLM, or use Ollama (docs/guides/served-models.md has a "
    "table of servers)",
)
