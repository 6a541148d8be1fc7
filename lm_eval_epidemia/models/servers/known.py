"""Detect the server at an address, and check whether its probabilities are plausible."""

from __future__ import annotations

import logging
import re
import ssl
from math import exp
from typing import NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.servers import Unavailable, refuse_template, what_it_says
from lm_eval_epidemia.models.faults import BadReply
from lm_eval_epidemia.models.first_token import Shown
from lm_eval_epidemia.models.servers.form import Server
from lm_eval_epidemia.models.servers.llama_cpp import LLAMA_CPP
from lm_eval_epidemia.models.servers.mlx import MLX
from lm_eval_epidemia.models.servers.ollama import OLLAMA
from lm_eval_epidemia.models.servers.openai import OTHER, VLLM
from lm_eval_epidemia.models.servers.sglang import SGLANG

#: In the order in which they are believed: others imitate Ollama's ``/api/version``.
KNOWN = (SGLANG, LLAMA_CPP, VLLM, OLLAMA, MLX)

#: What ``server=`` may be.
BY_NAME = {
    "ollama": OLLAMA,
    "llama.cpp": LLAMA_CPP,
    "mlx": MLX,
    "sglang": SGLANG,
    "vllm": VLLM,
    "openai": OTHER,
}

#: What a server is asked of itself.
PATHS = ("api/version", "props", "get_model_info", "get_server_info", "version", "v1/models")

#: A prompt whose answer is certain, and the letters that are read after it.
PROBE, PROBED = "Repeat the letter B. Answer:", tuple("ABCDEFGH")

#: How far probabilities of the same prompt may be apart, and log-probabilities of two prompts at
#: the least: fewer tokens than these say nothing.
REPEATS, APART, FEWEST = 0.01, 0.01, 5


_logger = logging.getLogger("lm_eval_epidemia")


class Found(NamedTuple):
    """A detected server and its description.

    Attributes
    ----------
    server : Server
    version : str
    is_given : bool
        Whether the user named it.
    """

    server: Server
    version: str
    is_given: bool

    @property
    def named(self) -> str:
        """Its name and version; empty if it is not known."""
        if self.server is OTHER and self.is_given:
            return ""
        words = [] if self.server is OTHER else [self.server.name]
        return " ".join(
            words + [self.version] * bool(re.fullmatch(r"[\w.+ -]{1,60}", self.version))
        )


def find(url: str, given: str, verify: bool | ssl.SSLContext) -> Found:
    """Detect the server at an address, by requests that generate nothing and carry no key.

    Parameters
    ----------
    url : str
    given : str
        "auto", or a name of `BY_NAME`.
    verify : bool or ssl.SSLContext

    Raises
    ------
    BadReply
        If it is still loading its model (llama.cpp), and does not tell itself as long.
    """
    if given != "auto":
        return Found(BY_NAME[given], "", True)
    answers = what_it_says(url, PATHS, verify)
    if isinstance(answers.get("props"), Unavailable):
        raise BadReply("HTTP 503 at /props", "llama-server says so while it loads its model")
    # Only Ollama has this address.
    for server in (OLLAMA,) if is_ollamas(url) else KNOWN:
        if (version := server.tells(answers)) is not None:
            return Found(server, version, False)
    other = OLLAMA if is_ollamas(url) else OTHER
    return Found(other, OTHER.tells(answers) or "", False)


def is_ollamas(url: str) -> bool:
    """Whether an address is that of Ollama's own form for plain text."""
    return url.partition("?")[0].endswith("/api/generate")


def refuse_address(url: str, chat: bool, found: Found) -> None:
    """Refuse an address at which this server would not measure what is asked.

    Raises
    ------
    EpidemiaError
    """
    if found.server is OLLAMA and not chat and not is_ollamas(url):
        refuse_template(url, found.version)


def refuse_ids(shown: Shown) -> None:
    """Refuse tokens that are shown by their numbers, of which no letter can be read."""
    if len(shown.top) > 2 and all(token.isdigit() for token, _ in shown.top):
        raise EpidemiaError("it returns the most likely tokens as numbers, not as text")


def unlike(one: Shown, other: Shown) -> float:
    """Return how far two answers to the same prompt are apart: the most of any probability."""
    first, second = dict(one.top), dict(other.top)
    both = first.keys() & second.keys()
    if not both:
        return 1.0
    return max(abs(exp(first[token]) - exp(second[token])) for token in both)


def same(one: Shown, other: Shown) -> bool | None:
    """Whether two prompts got the very same answer; None if too little is shown to tell."""
    first, second = dict(one.top), dict(other.top)
    both = first.keys() & second.keys()
    if len(both) < FEWEST:
        return None
    return all(abs(first[token] - second[token]) < APART for token in both)


def refuse_alike(url: str, found: Found) -> None:
    """Refuse a server that gives the same answer in a chat, unless the user knows its form.

    Raises
    ------
    EpidemiaError
    """
    words = (
        f"{url} gives the same answer after plain text and in a chat: it applies a chat template "
        "to both, or to neither"
    )
    if not found.is_given:
        raise EpidemiaError(
            f"{words}. Serve the model with llama.cpp or vLLM; or, if you know that this is "
            "right, add server=openai to --model_args"
        )
    _logger.warning("epidemia: %s", words)
