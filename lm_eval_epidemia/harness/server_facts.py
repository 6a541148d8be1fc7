"""What a server reports about itself, asked before the first prompt is sent."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NoReturn
from urllib.parse import urlsplit

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import needs

#: The most seconds that the question may take.
PATIENCE = 3.0


class Unavailable(str):
    """The reply of a server that is not ready to answer (HTTP 503)."""


def join_url(url: str, name: str) -> str:
    """Return the address of another path on an OpenAI-compatible server, without a query.

    ``http://HOST/v1/chat/completions`` and ``http://HOST/completions`` give ``http://HOST/NAME``.
    """
    parts = urlsplit(url)
    root = parts.path
    for end in ("/completions", "/chat", "/systemone", "/decisions", "/v1", "/api/generate"):
        root = root.removesuffix(end)
    return parts._replace(path=f"{root}/{name}", query="", fragment="").geturl()


def check_template(url: str, server: str = "auto", verify: bool | ssl.SSLContext = True) -> None:
    """Refuse plain text for an Ollama server, which would wrap it in a chat template.

    Ollama answers ``GET /api/version``: one short request, without a key. A server with any other
    answer, or none, is not Ollama.

    Parameters
    ----------
    url : str
        The address for prompts. Only ``/v1/completions`` is checked.
    server : str
        "openai" skips the check: the user knows better.
    verify : bool or ssl.SSLContext
        See `Endpoint`.

    Raises
    ------
    EpidemiaError
    """
    address = url.partition("?")[0]
    is_asked = address.startswith(("http://", "https://")) and address.endswith("/v1/completions")
    if server == "openai" or not is_asked:
        return
    answer = ask_server(address, ["api/version"], verify).get("api/version")
    version = answer.get("version") if isinstance(answer, dict) else None
    if isinstance(version, str):
        refuse_template(address, version)


def refuse_template(url: str, version: str) -> NoReturn:
    """Refuse plain text for an Ollama server of this version (empty if unknown).

    Raises
    ------
    EpidemiaError
    """
    which = f" {version}" if re.fullmatch(r"[\w.+-]{1,40}", version) else ""
    raise EpidemiaError(
        f"{url} is an Ollama server{which}: it wraps plain text in a chat template, so give "
        "--model choice-api and base_url=http://HOST:11434/api/generate (for a chat "
        "--apply_chat_template and /v1/chat/completions; if it is another one, server=openai)"
    )


def ask_server(
    url: str, paths: Iterable[str], verify: bool | ssl.SSLContext = True
) -> dict[str, Any]:
    """Ask a server what it is: one short GET per path, all at once, without a key.

    Parameters
    ----------
    url : str
        One of its OpenAI-compatible addresses.
    paths : iterable of str
        Other paths on that server.
    verify : bool or ssl.SSLContext
        See `Endpoint`.

    Returns
    -------
    dict
        By path, the JSON of the answer or `Unavailable`; under "Server", that header of the last
        answer. Paths without a usable answer are missing.
    """
    with needs("api", "asking a server"):
        import httpx
    answers: dict[str, Any] = {}

    def ask(path: str) -> None:
        with suppress(httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
            reply = httpx.get(join_url(url, path), timeout=PATIENCE, verify=verify)
            if reply.status_code == 503:
                answers[path] = Unavailable(reply.text)
            elif reply.is_success:
                answers[path] = reply.json()
                answers["Server"] = reply.headers.get("Server", "")

    # A timeout of httpx is one for each piece of an answer: a thread can be left behind.
    asking = [threading.Thread(target=ask, args=(path,), daemon=True) for path in paths]
    ends = time.monotonic() + PATIENCE
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(max(ends - time.monotonic(), 0))
    return dict(answers)
