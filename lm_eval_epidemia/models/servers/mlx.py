"""MLX-LM's ``mlx_lm.server``: ten likeliest tokens, in no order, the first not the one it wrote.

``logprobs`` is a boolean today and was a number: ``true`` is both. A request that it does not take
it answers by dropping the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_epidemia.models.first_token import Shown, shown_in
from lm_eval_epidemia.models.servers.form import Asked, Form, Server, owner, said
from lm_eval_epidemia.models.servers.openai import chat_body, plain_body

#: All that it shows.
TOP = 10


def _plain(asked: Asked) -> dict[str, Any]:
    return plain_body(asked) | {"logprobs": True, "top_logprobs": asked.top}


def _read(reply: Any, asked: Asked) -> Shown:
    shown = shown_in(reply)
    # At temperature 0 it writes the likeliest.
    return shown._replace(said=shown.top[0][0])


def _tells(answers: Mapping[str, Any]) -> str | None:
    is_list = said(answers, "v1/models", "object") == "list"
    by_python = str(answers.get("Server", "")).startswith("BaseHTTP")
    return "" if is_list and by_python and not owner(answers) else None


MLX = Server(
    "MLX-LM",
    _tells,
    Form(_plain, read=_read, tops=(TOP,)),
    Form(chat_body, read=_read, tops=(TOP,)),
    way_out="update it ('pip install -U mlx-lm', 0.29 or later) and start it with "
    "'mlx_lm.server --model MODEL'",
)
