"""Structured output: the form of a reply, as servers and vLLM each expect it.

lm-eval passes ``generation_kwargs`` on unchanged: to a server in the request body, to vLLM in this
process as ``SamplingParams``, to transformers as arguments of ``generate``. A task file has
``response_format`` (JSON schema: OpenAI, vLLM and other servers) or ``structured_outputs`` (regular
expression: only vLLM). Here they become arguments of vLLM's engine, and other models are refused.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.keys import quoted
from lm_eval_epidemia.harness.replaced import replaced

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


def refuse_declined(model: Any, request: Any) -> None:
    """Ask a server once for a reply in a form, since lm-eval would retry a declined request.

    Parameters
    ----------
    model : LM
        Without lm-eval's cache around it; nothing is sent unless it is behind a server.
    request : Instance
        A request for a reply in a form.

    Raises
    ------
    EpidemiaError
        If the server understood the request and declined it.
    """
    if "TemplateAPI" not in [kind.__name__ for kind in type(model).__mro__]:
        return
    import requests

    context, arguments = request.args
    payload = model._create_payload(
        model.create_message([context]),
        generate=True,
        gen_kwargs={**copy.deepcopy(dict(arguments)), "max_gen_toks": 16},
        seed=model._seed,
        eos=model.eos_string,
    )
    try:
        reply = requests.post(
            model.base_url,
            json=payload,
            headers=model.header,
            timeout=model.timeout,
            verify=model.verify_certificate,
        )
    except requests.RequestException:
        return  # lm-eval tries again, and says what is wrong
    if reply.status_code in (400, 422):
        words = quoted(reply.text, model.header)
        raise EpidemiaError(
            f"{request.task_name}: {model.base_url} declined a request for structured output "
            f"(HTTP {reply.status_code}): {words}. If it does not support structured output, "
            "leave 'structured' out of --metadata"
        )


@contextmanager
def held(model: Any, structure: str, task: str) -> Iterator[None]:
    """Let a model accept structured-output requests in a block; restore it afterwards.

    Parameters
    ----------
    model : LM
        Without lm-eval's cache around it.
    structure : str
        As `structure_of` returns it; nothing is done if empty.
    task : str
        Of one of the requests, for errors.

    Raises
    ------
    EpidemiaError
        If the model does not support it.
    """
    names = [kind.__name__ for kind in type(model).__mro__]
    if structure and "VLLM" in names:
        with _engine(model):
            yield
        return
    lacks = next((_WITHOUT[name] for name in names if name in _WITHOUT), ())
    served = hasattr(model, "_create_payload") and not any(key in structure for key in lacks)
    if structure and not served and "Baseline" not in names:
        raise EpidemiaError(
            f"{task}: {names[0]} cannot restrict its replies to "
            f"{'a regular expression' if 'regex' in structure else 'a JSON schema'}: use a vLLM "
            "or OpenAI-compatible server (local-chat-completions, local-completions; "
            "openai-chat-completions with structured=json) or vllm, or leave 'structured' out of "
            "--metadata"
        )
    yield


def _engine(model: Any) -> AbstractContextManager[None]:
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

    return replaced(model, modify_gen_kwargs=modify_gen_kwargs, _model_generate=model_generate)
