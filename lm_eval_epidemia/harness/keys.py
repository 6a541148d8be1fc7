"""API keys: read from the environment, and refused in arguments that lm-eval would log."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from html import escape
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from lm_eval_epidemia.core.errors import EpidemiaError

#: Arguments that may contain a key (of this or other models for servers), and parts of the names of
#: URL query fields that may.
SECRET = ("header", "headers", "api_key", "auth_token")
SECRET_IN_QUERY = re.compile("key|token|secret|sig|pass|auth|cred", re.IGNORECASE)

#: Variables of the environment that contain a key, and texts that look like one.
_VARIABLE = re.compile("(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_LOOKS = re.compile(r"(\b(?:Bearer |Basic |sk-))(?=[\w.~+/=-]*\d)[\w.~+/=-]{8,}", re.IGNORECASE)

#: Words of a header that are not keys.
SCHEMES = {"bearer", "basic", "token", "apikey", "api-key", "digest"}

#: The most characters quoted from a server's reply.
QUOTED = 200

#: Shorter keys are not masked: that would hide ordinary words.
SHORTEST = 4


def refuse_keys(model: str, arguments: Mapping[str, Any]) -> None:
    """Refuse model arguments that contain a key, without repeating the key.

    Parameters
    ----------
    model : str
        After ``--model``.
    arguments : mapping

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
            f"{model}: base_url is not a URL: expected http://HOST:PORT/v1/... "
            "(an IPv6 host in square brackets)"
        ) from None
    if "@" in url.netloc or any(SECRET_IN_QUERY.search(name) for name in names):
        held.append("base_url")
    if held:
        raise EpidemiaError(
            f"{model} accepts no key in {held[0]}=..., because lm-eval logs arguments: set the "
            "variable OPENAI_API_KEY, or name another with api_key_env=NAME, or with "
            "header_env=NAME one that contains a whole header ('Name: value')"
        )
    for name in ("api_key_env", "header_env"):
        given = arguments.get(name)
        if given is not None and given != "OPENAI_API_KEY" and not os.environ.get(str(given)):
            # The name is not shown, in case it is a key.
            raise EpidemiaError(f"{model}: the variable named by {name} is not set: export it")


def headers(model: str, api_key_env: str, header_env: str | None) -> dict[str, str]:
    """Read a key and a header from the environment.

    Parameters
    ----------
    model : str
        After ``--model``.
    api_key_env : str
        Name of the key's variable. OPENAI_API_KEY may be unset, since local servers need no key.
    header_env : str, optional
        Name of a variable that contains ``Name: value``.

    Raises
    ------
    EpidemiaError
        If a variable's value cannot be sent in a header. Unset variables: see `refuse_keys`.
    """
    sent = {}
    if key := os.environ.get(api_key_env, "").strip():
        sent["Authorization"] = f"Bearer {_sendable(model, key, api_key_env)}"
    if header_env is not None:
        name, colon, value = os.environ.get(header_env, "").partition(":")
        if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name.strip()):
            raise EpidemiaError(f"{model}: {header_env} is not set to a header, 'Name: value'")
        sent[name.strip()] = _sendable(model, value.strip(), header_env)
    return sent


def _sendable(model: str, value: str, variable: str) -> str:
    """Refuse what no header can hold, without repeating it."""
    if not (value.isascii() and value.isprintable()):
        raise EpidemiaError(
            f"{model}: {variable} contains a line break or non-ASCII characters: set it to a key"
        )
    return value


def mask_keys(text: str, headers: Mapping[Any, str]) -> str:
    """Return a text with the keys of headers masked, even where they are escaped.

    Parameters
    ----------
    text : str
    headers : mapping
        The headers that are sent.
    """
    words = {word for value in headers.values() for word in value.split()}
    keys = [word for word in words if word.lower() not in SCHEMES and len(word) >= SHORTEST]
    for key in sorted(keys, key=len, reverse=True):
        for written in {key, json.dumps(key)[1:-1], quote(key), quote(key, ""), escape(key)}:
            text = text.replace(written, "***")
    return text


def quote_server(text: str, headers: Mapping[str, str]) -> str:
    """Return a server's words in one short line, with the keys of headers masked."""
    line = " ".join(mask_keys(text, headers).split())
    return line if len(line) <= QUOTED else f"{line[:QUOTED]}..."


@contextmanager
def mask_logs(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Mask keys in whatever anybody logs in a run, or after it failed.

    lm-eval and asyncio log the headers of failed requests.

    Parameters
    ----------
    arguments : mapping
        The model's, which may contain keys or name variables with keys.
    """
    held = [value for name, value in os.environ.items() if _VARIABLE.search(name)]
    held += [os.environ.get(str(arguments.get(x)), "") for x in ("api_key_env", "header_env")]
    for given in map(arguments.get, SECRET):
        held += map(str, given.values() if isinstance(given, Mapping) else [given or ""])
    usual = logging.getLogRecordFactory()

    def hide(text: str) -> str:
        return _LOOKS.sub(r"\1***", mask_keys(text, dict(enumerate(held))))

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = usual(*args, **kwargs)
        with suppress(Exception):  # a wrong format, which the handler reports
            if (hidden := hide(text := record.getMessage())) != text:
                record.msg, record.args = hidden, ()
            if record.exc_info:
                record.exc_text = hide(logging.Formatter().formatException(record.exc_info))
        return record

    logging.setLogRecordFactory(factory)
    yield
    # Only here: after an error asyncio tells of failed requests, whenever they are collected.
    logging.setLogRecordFactory(usual)
