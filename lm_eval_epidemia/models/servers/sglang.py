"""SGLang: ``/generate`` shows the log-probabilities of exactly the tokens that one names by ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_epidemia.models.first_token import Shown, Without, checked
from lm_eval_epidemia.models.servers.form import Asked, Form, Server, owner, said
from lm_eval_epidemia.models.servers.openai import CHAT, PLAIN


def _body(asked: Asked) -> dict[str, Any]:
    return {
        "text": asked.content,
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "return_logprob": True,
        "token_ids_logprob": list(asked.ids),
    }


def _read(reply: Any, asked: Asked) -> Shown:
    try:
        told = reply["meta_info"]
        named = told["output_token_ids_logprobs"][0]
        top = [(f"token_id:{token}", float(x)) for x, token, *_ in named]
        written = f"token_id:{told['output_token_logprobs'][0][1]}"
    except (LookupError, TypeError, ValueError, OverflowError):
        raise Without("an answer without the log-probabilities of the tokens asked for") from None
    return checked(top, written)


def _tells(answers: Mapping[str, Any]) -> str | None:
    is_sglang = isinstance(said(answers, "get_model_info", "model_path"), str)
    is_sglang = is_sglang or owner(answers) == "sglang"
    return str(said(answers, "get_server_info", "version") or "") if is_sglang else None


SGLANG = Server(
    "SGLang",
    _tells,
    PLAIN,
    CHAT,
    Form(_body, "generate", _read, by_ids=True),
    way_out="update it and start it with 'python -m sglang.launch_server --model-path MODEL', with "
    "its tokenizer (no --skip-tokenizer-init)",
)
