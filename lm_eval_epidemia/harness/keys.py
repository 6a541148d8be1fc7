"""Keys of servers: read from the environment, and refused where lm-eval would write them down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from lm_eval_epidemia.errors import EpidemiaError

__all__ = ["headers", "refuse_keys"]

#: Arguments that would hold a key, of this model or of others for servers.
SECRET = ("header", "headers", "api_key", "auth_token")


def refuse_keys(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of a model that hold a key, without repeating it.

    Raises
    ------
    EpidemiaError
    """
    held = [name for name in SECRET if arguments.get(name)]
    if "@" in urlsplit(str(arguments.get("base_url") or "")).netloc:
        held.append("base_url")
    if held:
        raise EpidemiaError(
            f"choice-api takes no key in {held[0]}=...: lm-eval writes the arguments of a model "
            "into its log and results. Set OPENAI_API_KEY, or name another variable with "
            "api_key_env=NAME, or one that holds a whole header ('Name: value') with "
            "header_env=NAME"
        )


def headers(api_key_env: str, header_env: str | None) -> dict[str, str]:
    """Read a key and a header from the environment.

    Parameters
    ----------
    api_key_env : str
        Name of the key's variable. OPENAI_API_KEY may be unset: a server of one's own needs none.
    header_env : str, optional
        Name of a variable that holds ``Name: value``.
    """
    found = {}
    if key := os.environ.get(api_key_env, "").strip():
        found["Authorization"] = f"Bearer {key}"
    elif api_key_env != "OPENAI_API_KEY":
        raise EpidemiaError(f"choice-api: api_key_env={api_key_env}: no such variable is set")
    if header_env is not None:
        name, colon, value = os.environ.get(header_env, "").partition(":")
        if not colon:
            raise EpidemiaError(
                f"choice-api: header_env={header_env}: expected a variable with 'Name: value'"
            )
        found[name.strip()] = value.strip()
    return found
