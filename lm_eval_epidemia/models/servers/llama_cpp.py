"""llama.cpp's ``llama-server``: ``/completion`` returns any number of most likely tokens.

It ignores unknown fields, and answers with the one model it serves, whatever name is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.models.first_token import Shown, read_content
from lm_eval_epidemia.models.servers.form import Asked, Form, Server, owner, said
from lm_eval_epidemia.models.servers.openai import chat_body

#: Likeliest tokens asked for.
TOP = 300


def _body(asked: Asked) -> dict[str, Any]:
    return {
        "model": asked.model,
        "prompt": asked.content,
        "n_predict": 1,
        "temperature": 0,
        "n_probs": asked.top,
        "post_sampling_probs": False,
        "cache_prompt": True,
        "stream": False,
    }


def _read(reply: Any, asked: Asked) -> Shown:
    shown = read_content(said({"": reply}, "", "completion_probabilities"))
    if reply.get("truncated"):
        raise EpidemiaError(
            "a prompt exceeded the context and was cut: start the server with a larger -c"
        )
    return shown


def _tells(answers: Mapping[str, Any]) -> str | None:
    build = said(answers, "props", "build_info")
    # With --api-key it tells its models only.
    return build if isinstance(build, str) else "" if owner(answers) == "llamacpp" else None


LLAMA_CPP = Server(
    "llama.cpp",
    _tells,
    Form(_body, "completion", _read, (TOP, 20)),
    Form(chat_body, tops=(TOP, 20, 10, 5, 1)),
    way_out="use a llama-server of this year, start it with 'llama-server -m MODEL.gguf -c 16384', "
    "and give base_url=http://HOST:8080/v1/completions, or /v1/chat/completions with "
    "--apply_chat_template",
)
