"""Kinds of servers: how to recognise, ask and read them."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import Any, NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.server_facts import Unavailable, ask_server
from lm_eval_epidemia.models.server_replies import (
    Failed,
    NoLogprobs,
    ShownTokens,
    check_shown,
    read_content,
    read_shown,
)

#: Likeliest tokens that are asked for; a server that shows fewer is asked for fewer.
TOPS = (20, 10, 5, 1)

#: What a server is asked of itself.
PATHS = ("api/version", "props", "get_model_info", "get_server_info", "version", "v1/models")

#: A prompt whose answer is certain, and the letters that are read after it.
PROBE, PROBED = "Repeat the letter B. Answer:", tuple("ABCDEFGH")

#: How far probabilities of the same prompt may be apart, and log-probabilities of two prompts at
#: the least: fewer tokens than these say nothing.
REPEATS, APART, FEWEST = 0.01, 0.01, 5


class TokenRequest(NamedTuple):
    """What a request asks, whatever the server calls it.

    Attributes
    ----------
    model : str
    content : str or list of dict
        Plain text, or messages.
    top : int
        Likeliest tokens.
    ids : sequence of int
        Tokens whose log-probabilities are asked for, where letters are named by ids.
    limit : str
        What OpenAI-like servers call the largest number of tokens.
    room : int
        Tokens that surely hold the prompt and its answer.
    more : mapping
        What else is sent.
    """

    model: str
    content: Any
    top: int
    ids: Sequence[int]
    limit: str
    room: int
    more: Mapping[str, Any]


class Form(NamedTuple):
    """One way to ask a server for the first token of an answer.

    Attributes
    ----------
    body : callable
        From `TokenRequest` to the JSON of the request.
    path : str
        Where it is posted, beside the OpenAI-like addresses; empty: to ``base_url``.
    read : callable
        From the JSON of the reply, and `TokenRequest`, to what it shows.
    tops : tuple of int
        Numbers of likeliest tokens to ask for, the best first.
    by_ids : bool
        Whether letters are named by their token ids.
    """

    body: Callable[[TokenRequest], dict[str, Any]]
    path: str = ""
    read: Callable[[Any, TokenRequest], ShownTokens] = lambda reply, asked: read_shown(reply)
    tops: tuple[int, ...] = TOPS
    by_ids: bool = False


class Server(NamedTuple):
    """A kind of server.

    Attributes
    ----------
    name : str
    tells : callable
        From what it says of itself, by path, to its version ("" if it names none); None if it is
        another kind.
    plain, chat : Form
    plain_by_ids, chat_by_ids : Form, optional
        Where it takes token ids.
    way_out : str
        What to do where it shows no log-probabilities, or wrong ones.
    """

    name: str
    tells: Callable[[Mapping[str, Any]], str | None]
    plain: Form
    chat: Form
    plain_by_ids: Form | None = None
    chat_by_ids: Form | None = None
    way_out: str = ""

    def form(self, chat: bool, by_ids: bool = False) -> Any:
        """Return how it is asked for plain text or a chat; by token ids None if it takes none."""
        if by_ids:
            return self.chat_by_ids if chat else self.plain_by_ids
        return self.chat if chat else self.plain


def _read_key(answers: Mapping[str, Any], path: str, key: str) -> Any:
    """Return one thing that a server says of itself; None if it does not."""
    answer = answers.get(path)
    return answer.get(key) if isinstance(answer, dict) else None


def _owner(answers: Mapping[str, Any]) -> str:
    """Return who owns its models, by ``/v1/models``: most servers give their own name."""
    models = _read_key(answers, "v1/models", "data")
    first = models[0] if isinstance(models, list) and models else None
    name = first.get("owned_by") if isinstance(first, dict) else None
    return name if isinstance(name, str) else ""


# OpenAI's forms: every server that is not known for another one is asked this way. vLLM also takes
# the ids of the tokens whose log-probabilities to show.


def _openai_body(asked: TokenRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"model": asked.model, asked.limit: 1, "temperature": 0, **asked.more}
    if asked.ids:
        body |= {"logprob_token_ids": list(asked.ids), "return_tokens_as_token_ids": True}
    return body


def _plain_body(asked: TokenRequest) -> dict[str, Any]:
    """Return the request of ``/v1/completions``."""
    return _openai_body(asked) | {"prompt": asked.content, "logprobs": asked.top}


def _chat_body(asked: TokenRequest) -> dict[str, Any]:
    """Return the request of ``/v1/chat/completions``."""
    body, messages = _openai_body(asked), asked.content
    if messages and messages[-1]["role"] == "assistant":  # begun by the task's gen_prefix
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    return body | {"messages": messages, "logprobs": True, "top_logprobs": asked.top}


def _is_vllm(answers: Mapping[str, Any]) -> str | None:
    is_vllm = _owner(answers) == "vllm"
    return str(_read_key(answers, "version", "version") or "") if is_vllm else None


#: Servers by what they write as the owner of their models.
_OWNERS = {
    "organization_owner": "LM Studio",
    "tabbyAPI": "TabbyAPI",
    "user": "text-generation-webui",
    "vllm-mlx": "vLLM-MLX",
}


def _other_server(answers: Mapping[str, Any]) -> str:
    name = _owner(answers)
    return _OWNERS.get(name, name)


VLLM = Server(
    "vLLM",
    _is_vllm,
    Form(_plain_body),
    Form(_chat_body),
    Form(_plain_body, by_ids=True),
    Form(_chat_body, by_ids=True),
    "start it with 'vllm serve MODEL', without --max-logprobs",
)

OTHER = VLLM._replace(
    name="OpenAI",
    tells=_other_server,
    way_out="serve the model with llama.cpp or vLLM, or use Ollama (docs/guides/served-models.md)",
)


# llama.cpp's ``llama-server``: ``/completion`` returns any number of most likely tokens. It ignores
# unknown fields, and answers with the one model it serves, whatever name is given.


def _llama_cpp_body(asked: TokenRequest) -> dict[str, Any]:
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


def _read_llama_cpp(reply: Any, asked: TokenRequest) -> ShownTokens:
    shown = read_content(_read_key({"": reply}, "", "completion_probabilities"))
    if reply.get("truncated"):
        raise EpidemiaError("a prompt was cut: start the server with a larger -c")
    return shown


def _is_llama_cpp(answers: Mapping[str, Any]) -> str | None:
    build = _read_key(answers, "props", "build_info")
    # With --api-key it tells its models only.
    return build if isinstance(build, str) else "" if _owner(answers) == "llamacpp" else None


LLAMA_CPP = Server(
    "llama.cpp",
    _is_llama_cpp,
    Form(_llama_cpp_body, "completion", _read_llama_cpp, (300, 20)),
    Form(_chat_body, tops=(300, *TOPS)),
    way_out="use a llama-server of this year, start it with 'llama-server -m MODEL.gguf -c 16384', "
    "and give base_url=http://HOST:8080/v1/completions",
)


# MLX-LM's ``mlx_lm.server``: ten likeliest tokens, in no order, the first not the one it wrote.
# ``logprobs`` is a boolean today and was a number: ``true`` is both. A request that it does not
# take it answers by dropping the connection.


def _mlx_body(asked: TokenRequest) -> dict[str, Any]:
    return _plain_body(asked) | {"logprobs": True, "top_logprobs": asked.top}


def _read_mlx(reply: Any, asked: TokenRequest) -> ShownTokens:
    shown = read_shown(reply)
    # At temperature 0 it writes the likeliest.
    return shown._replace(said=shown.top[0][0])


def _is_mlx(answers: Mapping[str, Any]) -> str | None:
    is_list = _read_key(answers, "v1/models", "object") == "list"
    by_python = str(answers.get("Server", "")).startswith("BaseHTTP")
    return "" if is_list and by_python and not _owner(answers) else None


MLX = Server(
    "MLX-LM",
    _is_mlx,
    Form(_mlx_body, read=_read_mlx, tops=(10,)),
    Form(_chat_body, read=_read_mlx, tops=(10,)),
    way_out="update it ('pip install -U mlx-lm', 0.29 or later) and start it with "
    "'mlx_lm.server --model MODEL'",
)


# Ollama (0.12.11 or later): ``/api/generate`` with ``raw`` takes plain text as it is. Its
# ``/v1/completions`` wraps every prompt in the model's chat template. Prompts longer than its
# context (``num_ctx``, 4,096 by default) are silently cut, in chat too. So we use its own forms,
# which accept the size of the context. ``truncate: false`` forbids cutting in versions that know
# it; in others, the reported number of tokens reveals it.


def _ollama_body(asked: TokenRequest) -> dict[str, Any]:
    return {
        "model": asked.model,
        "stream": False,
        "logprobs": True,
        "top_logprobs": asked.top,
        "truncate": False,
        "shift": False,
        "options": {"num_predict": 1, "temperature": 0, "num_ctx": asked.room},
    }


def _ollama_plain_body(asked: TokenRequest) -> dict[str, Any]:
    return _ollama_body(asked) | {"prompt": asked.content, "raw": True}


def _ollama_chat_body(asked: TokenRequest) -> dict[str, Any]:
    # Older versions silently drop the first turns of a chat that is too long.
    turns = sum(message["role"] == "user" for message in asked.content)
    if turns > 1:
        raise EpidemiaError(
            f"Ollama silently drops the first of {turns} questions of a chat that is too long: "
            "leave out --fewshot_as_multiturn, so that all examples are in one message"
        )
    thinks = asked.more.get("chat_template_kwargs", {}).get("enable_thinking")
    more = {} if thinks is None else {"think": thinks}
    return _ollama_body(asked) | {"messages": asked.content, **more}


def _read_ollama(reply: Any, asked: TokenRequest) -> ShownTokens:
    shown = read_content(_read_key({"": reply}, "", "logprobs"))
    tokens = reply.get("prompt_eval_count")
    if isinstance(tokens, int) and tokens >= asked.room - 1:
        raise EpidemiaError(
            f"a prompt fills the whole context of {tokens:,} tokens (num_ctx): lower --num_fewshot"
        )
    return shown


def _is_ollama(answers: Mapping[str, Any]) -> str | None:
    version = _read_key(answers, "api/version", "version")
    return version if isinstance(version, str) else None


OLLAMA = Server(
    "Ollama",
    _is_ollama,
    Form(_ollama_plain_body, "api/generate", _read_ollama, (20,)),
    Form(_ollama_chat_body, "api/chat", _read_ollama, (20,)),
    way_out="Ollama returns log-probabilities since 0.12.11, of plain text at "
    "http://HOST:11434/api/generate, of a chat at http://HOST:11434/v1/chat/completions",
)


# SGLang: ``/generate`` shows the log-probabilities of exactly the tokens that one names by ids.


def _sglang_body(asked: TokenRequest) -> dict[str, Any]:
    return {
        "text": asked.content,
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "return_logprob": True,
        "token_ids_logprob": list(asked.ids),
    }


def _read_sglang(reply: Any, asked: TokenRequest) -> ShownTokens:
    try:
        told = reply["meta_info"]
        named = told["output_token_ids_logprobs"][0]
        top = [(f"token_id:{token}", float(x)) for x, token, *_ in named]
        written = f"token_id:{told['output_token_logprobs'][0][1]}"
    except (LookupError, TypeError, ValueError, OverflowError):
        raise NoLogprobs("an answer without the log-probabilities asked for") from None
    return check_shown(top, written)


def _is_sglang(answers: Mapping[str, Any]) -> str | None:
    is_sglang = isinstance(_read_key(answers, "get_model_info", "model_path"), str)
    is_sglang = is_sglang or _owner(answers) == "sglang"
    return str(_read_key(answers, "get_server_info", "version") or "") if is_sglang else None


SGLANG = Server(
    "SGLang",
    _is_sglang,
    Form(_plain_body),
    Form(_chat_body),
    Form(_sglang_body, "generate", _read_sglang, by_ids=True),
    way_out="update it and start it with 'python -m sglang.launch_server --model-path MODEL', with "
    "its tokenizer (no --skip-tokenizer-init)",
)


#: In the order in which they are believed: others imitate Ollama's ``/api/version``.
KNOWN = {"sglang": SGLANG, "llama.cpp": LLAMA_CPP, "vllm": VLLM, "ollama": OLLAMA, "mlx": MLX}

#: What ``server=`` may be.
BY_NAME = {**KNOWN, "openai": OTHER}


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
        name = "" if self.server is OTHER else self.server.name
        version = self.version if re.fullmatch(r"[\w.+ -]{1,60}", self.version) else ""
        return f"{name} {version}".strip()


def find_server(url: str, given: str, verify: bool | ssl.SSLContext) -> Found:
    """Detect the server at an address, by requests that generate nothing and carry no key.

    Parameters
    ----------
    url : str
    given : str
        "auto", or a name of `BY_NAME`.
    verify : bool or ssl.SSLContext

    Raises
    ------
    Failed
        If it is still loading its model (llama.cpp), and does not tell itself as long.
    """
    if given != "auto":
        return Found(BY_NAME[given], "", True)
    answers = ask_server(url, PATHS, verify)
    if isinstance(answers.get("props"), Unavailable):
        raise Failed("HTTP 503 at /props", "llama-server says so while it loads its model")
    # Only Ollama has this address.
    for server in (OLLAMA,) if is_ollamas(url) else KNOWN.values():
        if (version := server.tells(answers)) is not None:
            return Found(server, version, False)
    other = OLLAMA if is_ollamas(url) else OTHER
    return Found(other, OTHER.tells(answers) or "", False)


def is_ollamas(url: str) -> bool:
    """Whether an address is that of Ollama's own form for plain text."""
    return url.partition("?")[0].endswith("/api/generate")


def _pair_logprobs(one: ShownTokens, other: ShownTokens) -> list[tuple[float, float]]:
    """Return the log-probabilities of the tokens that two answers show."""
    first, second = dict(one.top), dict(other.top)
    return [(first[token], second[token]) for token in first.keys() & second.keys()]


def measure_difference(one: ShownTokens, other: ShownTokens) -> float:
    """Return how far two answers to the same prompt are apart: the most of any probability."""
    return max((abs(exp(a) - exp(b)) for a, b in _pair_logprobs(one, other)), default=1.0)


def is_same_answer(one: ShownTokens, other: ShownTokens) -> bool | None:
    """Whether two prompts got the very same answer; None if too little is shown to tell."""
    pairs = _pair_logprobs(one, other)
    return all(abs(a - b) < APART for a, b in pairs) if len(pairs) >= FEWEST else None
