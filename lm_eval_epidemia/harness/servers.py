"""What a server says of itself, asked before the first prompt is sent to it."""

from __future__ import annotations

import json
import re
import ssl
import threading
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener

from lm_eval_epidemia.core.errors import EpidemiaError

#: What ``server=`` may be: found out, or one that sends plain text to the model as it is.
SERVERS = ("auto", "openai")

#: Seconds that the question may take in all, and bytes of its answer that are read.
PATIENCE, MOST_BYTES = 3.0, 1000


class _NoRedirect(HTTPRedirectHandler):
    """Takes a redirect as the answer, and asks nobody else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def beside(url: str, name: str) -> str:
    """Return the address of what a server has beside its OpenAI-compatible ones, without a query.

    ``http://HOST/v1/chat/completions`` and ``http://HOST/completions`` give ``http://HOST/NAME``.
    """
    parts = urlsplit(url)
    root = parts.path.removesuffix("/completions").removesuffix("/chat").removesuffix("/v1")
    return parts._replace(path=f"{root}/{name}", query="", fragment="").geturl()


def refuse_template(url: str, server: str = "auto", verify: bool | ssl.SSLContext = True) -> None:
    """Refuse plain text for an Ollama server, which would put a chat template around it.

    It tells itself by ``GET /api/version``. One short request, without a key; a server that answers
    anything else, or nothing, is another.

    Parameters
    ----------
    url : str
        Where prompts are to be sent. Only ``/v1/completions`` is asked about.
    server : str
        "openai": not asked, since the user knows better.
    verify : bool or ssl.SSLContext
        As of `Endpoint`.

    Raises
    ------
    EpidemiaError
    """
    address = url.partition("?")[0]
    is_asked = address.startswith(("http://", "https://")) and address.endswith("/v1/completions")
    if server == "openai" or not is_asked:
        return
    context = verify if isinstance(verify, ssl.SSLContext) else ssl.create_default_context()
    if verify is False:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    version = _version(beside(address, "api/version"), context)
    if not isinstance(version, str):
        return
    which = f" {version}" if re.fullmatch(r"[\w.+-]{1,40}", version) else ""
    raise EpidemiaError(
        f"{address} is an Ollama server{which}: its /v1/completions puts the model's chat template "
        "around every prompt, and plain text would be measured as a chat. Ask for the chat, with "
        "--apply_chat_template and the address that ends in /v1/chat/completions; or serve the "
        "model with llama.cpp or vLLM, which take plain text as it is. If this is another server "
        "that answers GET /api/version too, add server=openai to --model_args"
    )


def _version(address: str, context: ssl.SSLContext) -> Any:
    """Return what a server says of its version; None where it says none, or not in time."""
    versions: list[Any] = []
    other = (ValueError, LookupError, TypeError, RecursionError)

    def ask() -> None:
        opener = build_opener(_NoRedirect, HTTPSHandler(context=context))
        with (
            suppress(OSError, HTTPException, *other),
            opener.open(address, timeout=PATIENCE) as reply,
        ):
            versions.append(json.loads(reply.read(MOST_BYTES))["version"])

    # A timeout of urllib is one for each piece of an answer: a thread can be left behind.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return versions[0] if versions else None
