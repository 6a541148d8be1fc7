"""Keys of servers: read from the environment, and refused where lm-eval would write them down."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from lm_eval_epidemia.core.errors import EpidemiaError

#: Arguments that would hold a key, of this model or of others for servers, and parts of the names
#: of what holds one in the query of an address.
SECRET = ("header", "headers", "api_key", "auth_token")
SECRET_IN_QUERY = re.compile("key|token|secret|sig|pass|auth|cred", re.IGNORECASE)

#: Words of a header that are no key.
SCHEMES = {"bearer", "basic", "token", "apikey", "api-key", "digest"}

#: Characters of a server's own words that are quoted.
QUOTED = 200

#: A key of fewer characters would hide words that are none.
SHORTEST = 4


def refuse_keys(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of a model that hold a key, without repeating it.

    Raises
    ------
    EpidemiaError
    """
    held = [name for name in SECRET if arguments.get(name)]
    try:
        url = urlsplit(str(arguments.get("base_url") or ""))
        names = dict(parse_qsl(url.query, keep_blank_values=True))
    except ValueError:
        raise EpidemiaError(
            "choice-api: base_url is not an address: expected http://HOST:PORT/v1/chat/completions "
            "(an IPv6 host in square brackets)"
        ) from None
    if "@" in url.netloc or any(SECRET_IN_QUERY.search(name) for name in names):
        held.append("base_url")
    if held:
        raise EpidemiaError(
            f"choice-api takes no key in {held[0]}=...: lm-eval writes the arguments of a model "
            "into its log and results. Set OPENAI_API_KEY, or name another variable with "
            "api_key_env=NAME, or one that holds a whole header ('Name: value') with "
            "header_env=NAME"
        )
    for name in ("api_key_env", "header_env"):
        given = arguments.get(name)
        if given is not None and given != "OPENAI_API_KEY" and not os.environ.get(str(given)):
            raise EpidemiaError(
                f"choice-api: no variable is set by the name that {name} gives (which is not "
                "repeated here, lest it be a key): export it, or name another"
            )


def headers(api_key_env: str, header_env: str | None) -> dict[str, str]:
    """Read a key and a header from the environment.

    Parameters
    ----------
    api_key_env : str
        Name of the key's variable. OPENAI_API_KEY may be unset: a server of one's own needs none.
    header_env : str, optional
        Name of a variable that holds ``Name: value``.

    Raises
    ------
    EpidemiaError
        If a variable holds what no header can; of those that are not set see `refuse_keys`.
    """
    sent = {}
    if key := os.environ.get(api_key_env, "").strip():
        sent["Authorization"] = f"Bearer {_sendable(key, api_key_env)}"
    if header_env is not None:
        name, colon, value = os.environ.get(header_env, "").partition(":")
        if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name.strip()):
            raise EpidemiaError(
                f"choice-api: header_env={header_env}: expected a variable with 'Name: value'"
            )
        sent[name.strip()] = _sendable(value.strip(), header_env)
    return sent


def _sendable(value: str, variable: str) -> str:
    """Refuse what no header can hold, without repeating it."""
    if not (value.isascii() and value.isprintable()):
        raise EpidemiaError(
            f"choice-api: {variable} holds a line break or characters beyond ASCII, which no "
            "header can: set it to the key alone"
        )
    return value


def masked(text: str, headers: Mapping[str, str]) -> str:
    """Return a text without the keys that headers hold, also where they are escaped.

    Parameters
    ----------
    text : str
    headers : mapping
        As they are sent.
    """
    words = {word for value in headers.values() for word in value.split()}
    keys = [word for word in words if word.lower() not in SCHEMES and len(word) >= SHORTEST]
    for key in sorted(keys, key=len, reverse=True):
        for written in {key, json.dumps(key)[1:-1], quote(key), quote(key, ""), escape(key)}:
            text = text.replace(written, "***")
    return text


def quoted(text: str, headers: Mapping[str, str]) -> str:
    """Return a server's words in a line, not too long, without the keys that headers hold."""
    line = " ".join(masked(text, headers).split())
    return line if len(line) <= QUOTED else f"{line[:QUOTED]}..."
