"""Written answers: the form of a reply, where a thought begins and ends, and further tries.

lm-eval passes ``generation_kwargs`` on unchanged: to a server in the request body, to vLLM in this
process as ``SamplingParams``, to transformers as arguments of ``generate``. A task file has
``response_format`` (JSON schema: OpenAI, vLLM and other servers) or ``structured_outputs`` (regular
expression: only vLLM). Here they become arguments of vLLM's engine, and other models are refused.

A chat template may open the thought at the end of the prompt: a reply that was cut in it then holds
no mark at all, and its letters are no answer. And most marks are special tokens, which lm-eval's
``hf`` erases from replies, or cuts off (``think_end_token``) so that a cut thought looks like an
answer. While our prompts are answered replies are kept whole, and the mark of the prompt is put
before them; `ask.replies.forms` reads the rest.

Answers that cannot be read are tried again (``"tries": 10``). The task file then uses lm-eval's
``repeats``: every request appears that many times in a run, and all replies are kept in the
samples. Only as many as needed are sent: the first as usual, the next only if no answer can be
read. Greedy decoding would repeat the same text, so further tries sample from the model's own
distribution (temperature 1, or the task's if it has one).
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

from lm_eval_epidemia.ask.replies.forms import find_open_thought
from lm_eval_epidemia.benchmarks import Way
from lm_eval_epidemia.core.errors import EpidemiaError

_KEYS = ("response_format", "structured_outputs")

#: Models of services that support only one of the two, or neither, by class name.
_WITHOUT = {
    "AnthropicChat": _KEYS,
    "OpenAICompletionsAPI": _KEYS,
    "OpenAIChatCompletion": ("structured_outputs",),
}


def structure_of(request: Any) -> str:
    """Return the form that a request asks of its reply, as JSON; empty for none.

    lm-eval batches requests to a server by their arguments, but compares only the keys of a dict:
    requests with other forms must be sent separately.
    """
    asked = {key: request.args[1][key] for key in _KEYS if key in request.args[1]}
    return json.dumps(asked, sort_keys=True) if asked else ""


def refuse_form(model: Any, structure: str, task: str) -> None:
    """Refuse a model that cannot hold its replies to a form, before it is asked.

    Parameters
    ----------
    model : LM
        Without lm-eval's cache around it.
    structure : str
        As `structure_of` returns it.
    task : str
        Of one of the requests, for the error.
    """
    names = [kind.__name__ for kind in type(model).__mro__]
    lacks = next((_WITHOUT[name] for name in names if name in _WITHOUT), ())
    served = hasattr(model, "_create_payload") and not any(key in structure for key in lacks)
    if not served and not {"VLLM", "Baseline"} & set(names):
        form = "a regular expression" if "regex" in structure else "a JSON schema"
        raise EpidemiaError(
            f"{task}: {names[0]} cannot restrict its replies to {form}: use vllm or a server "
            "(local-chat-completions; openai-chat-completions with structured=json), or leave out "
            "'structured'"
        )


def allow_form(model: Any, structure: str) -> AbstractContextManager[Any]:
    """Let vLLM in this process accept requests for a form in a block; others do by themselves.

    Parameters
    ----------
    model : LM
        Without lm-eval's cache around it.
    structure : str
        As `structure_of` returns it; nothing is done if empty.
    """
    is_vllm = any(kind.__name__ == "VLLM" for kind in type(model).__mro__)
    return _engine(model) if structure and is_vllm else nullcontext()


def _engine(model: Any) -> AbstractContextManager[Any]:
    """Turn the arguments of requests into those of vLLM's engine.

    First by name, then by type: in between, lm-eval writes them into its cache as JSON.
    """
    modify, generate = model.modify_gen_kwargs, model._model_generate

    def modify_gen_kwargs(*args: Any, **kwargs: Any) -> Any:
        arguments, *rest = modify(*args, **kwargs)
        arguments = dict(arguments)
        if (form := arguments.pop("response_format", None)) is not None:
            arguments["structured_outputs"] = {"json": form["json_schema"]["schema"]}
        return (arguments, *rest)

    def model_generate(*args: Any, **kwargs: Any) -> Any:
        from vllm.sampling_params import StructuredOutputsParams

        for params in kwargs.get("sampling_params") or []:
            if isinstance(asked := params.structured_outputs, dict):
                params.structured_outputs = StructuredOutputsParams(**asked)
        return generate(*args, **kwargs)

    return mock.patch.multiple(
        model, modify_gen_kwargs=modify_gen_kwargs, _model_generate=model_generate
    )


@contextmanager
def keep_thoughts(model: Any) -> Iterator[Callable[[Any, Any], Any]]:
    """Let a model return whole replies in a block.

    Parameters
    ----------
    model : LM or None
        Without lm-eval's cache around it; None if others' tasks are asked.

    Yields
    ------
    callable
        Takes a prompt and its reply; returns what follows the end of the thought that the model
        knows, or the whole reply behind the mark with which the prompt opens a thought.
    """
    own: dict[str, Any] = {}
    end, decode = getattr(model, "think_end_token", None), getattr(model, "tok_decode", None)
    # Of lm-eval's hf; vllm and sglang keep special tokens themselves.
    if decode and "skip_special_tokens" in inspect.signature(decode).parameters:
        own["tok_decode"] = partial(decode, skip_special_tokens=False)
    if end is not None:
        own["think_end_token"] = None
        end = end if isinstance(end, str) else own["tok_decode"]([end])

    def told(prompt: Any, reply: Any) -> Any:
        if not isinstance(reply, str):
            return reply
        if end and end in reply:
            return reply.rpartition(end)[2].lstrip()
        return f"{find_open_thought(str(prompt))}{reply}"

    with mock.patch.multiple(model, **own) if own else nullcontext():
        yield told


#: Temperature of a further try if the first is greedy.
TEMPERATURE = 1.0

#: Each further try lowers the temperature by this share, since lm-eval's response cache is keyed by
#: the arguments of a request and must keep every try.
STEP = 0.001


class Tried(str):
    """A reply that may have taken several tries.

    Attributes
    ----------
    tries : int
        Replies written up to this one, or the maximum if none could be read.
    """

    tries = 1


def choose_reply(way: Way, doc: Mapping[str, Any], replies: Sequence[str]) -> Tried:
    """Return the first readable reply to a row of a split; the first one if none is readable."""
    row = way.of_row(doc)
    read = (n for n, reply in enumerate(replies, start=1) if _is_read(way, row, reply))
    number = next(read, 0)
    reply = Tried(replies[max(number - 1, 0)])
    reply.tries = number or len(replies)
    return reply


def _is_read(way: Way, row: Any, reply: str) -> bool:
    answer: Any = way.read(row, [reply])
    return bool(answer.is_read)


def ask_until_read(
    requests: Sequence[Any], ways: Mapping[str, Way], ask: Callable[[list[Any], int], list[Any]]
) -> list[Any]:
    """Send requests; repeated ones only until a reply can be read.

    Parameters
    ----------
    requests : sequence of Instance
        As lm-eval makes them: its ``repeats`` are one object.
    ways : mapping of str to Way
        Tasks whose requests are retried until read; others are sent as they are.
    ask : callable
        Takes some of the requests and how often they were tried before; returns a reply to each.

    Returns
    -------
    list
        One reply per request, empty if it was not needed.
    """
    after: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, request in enumerate(requests):
        if request.task_name in ways:
            if id(request) in last:
                after[last[id(request)]] = place
            last[id(request)] = place
    replies: list[Any] = [""] * len(requests)
    later = set(after.values())
    asked = [place for place in range(len(requests)) if place not in later]
    before = 0
    while asked:
        written = ask([_again(requests[place], before) for place in asked], before)
        unread = []
        for place, reply in zip(asked, written, strict=True):
            replies[place] = reply
            if place in after:
                way = ways[requests[place].task_name]
                if not _is_read(way, way.of_row(requests[place].doc), reply):
                    unread.append(after[place])
        asked, before = unread, before + 1
    return replies


def _again(request: Any, before: int) -> Any:
    """Return a request as it is put after some tries."""
    if not before:
        return request
    context, how = request.args
    temperature = (how.get("temperature") or TEMPERATURE) * (1 - STEP * before)
    drawn = {"do_sample": True} if "do_sample" in how else {}
    again = copy.copy(request)
    again.arguments = (context, {**how, "temperature": round(temperature, 6), **drawn})
    return again
