"""What is checked and mended between lm-eval and a model while it answers our prompts.

lm-eval shortens a prompt that does not fit into the context, gives every request to a server the
same seed, and stops with NotImplementedError where a chat endpoint is asked for log-probabilities.
For the requests of our tasks, and only for these, the wrapper of ``lm_eval.evaluator.evaluate``
refuses the first, varies the second and explains the third.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval_epidemia.errors import EpidemiaError

__all__ = ["guarded"]

#: The line that makes each sampled prompt a text of its own, see `elicit.splits`.
_INTERVIEW = re.compile(r"\(Interview \d+\)")

_WITHOUT_LOG_PROBABILITIES = (
    "{model} gives no log-probabilities of a prompt, which {task} needs. Ask for a group in which "
    "the model writes its answer: epidemia_low_sampled, epidemia_high_sampled, "
    "epidemia_high_closed or epidemia_high_rag ('epidemia cost GROUP' says what it takes)"
)


def guarded(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``lm_eval.evaluator.evaluate`` so that the model's answers to our prompts are guarded.

    Parameters
    ----------
    evaluate : callable
        Takes the model as its argument `lm` or first.
    """

    @functools.wraps(evaluate)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        lm = kwargs["lm"] if "lm" in kwargs else args[0]
        with _watched(lm):
            return evaluate(*args, **kwargs)

    return wrapper


@contextmanager
def _watched(lm: Any) -> Iterator[None]:
    """Put our checks before the methods of one model, and take them away again."""
    model = getattr(lm, "lm", lm)  # without lm-eval's cache of responses

    def loglikelihood(requests: Sequence[Any], **kwargs: Any) -> Any:
        ours = [request for request in requests if _is_ours(request)]
        _check_lengths(model, ours)
        try:
            return asked["loglikelihood"](requests, **kwargs)
        except (NotImplementedError, AssertionError) as error:
            refused = isinstance(error, NotImplementedError) or "loglikelihoods" in str(error)
            if not ours or not refused:
                raise
            raise EpidemiaError(
                _WITHOUT_LOG_PROBABILITIES.format(
                    model=type(model).__name__, task=ours[0].task_name
                )
            ) from error

    def generate_until(requests: Sequence[Any], **kwargs: Any) -> Any:
        ours = [request for request in requests if _is_ours(request)]
        _check_lengths(model, ours)
        _check_chat(model, ours)
        return asked["generate_until"](requests, **kwargs)

    def create_payload(messages: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        payload: dict[str, Any] = asked["payload"](messages, *args, **kwargs)
        text = str(messages)
        if isinstance(payload.get("seed"), int) and _INTERVIEW.search(text):
            # One seed for all would draw all answers with the same random number.
            payload["seed"] = (payload["seed"] + zlib.crc32(text.encode())) % 2**31
        return payload

    watches = {"loglikelihood": loglikelihood, "generate_until": generate_until}
    asked: dict[str, Any] = {name: getattr(lm, name) for name in watches}
    for name, watch in watches.items():
        setattr(lm, name, watch)
    if hasattr(model, "_create_payload"):
        asked["payload"], model._create_payload = model._create_payload, create_payload
    try:
        yield
    finally:
        for name in watches:
            vars(lm).pop(name, None)
        vars(model).pop("_create_payload", None)


def _is_ours(request: Any) -> bool:
    return str(request.task_name).startswith("epidemia_") and isinstance(request.doc, dict)


def _check_chat(model: Any, requests: Sequence[Any]) -> None:
    """Refuse plain text for a chat endpoint before anything is sent."""
    chat = any(kind.__name__ == "LocalChatCompletion" for kind in type(model).__mro__)
    if requests and chat and isinstance(requests[0].args[0], str):
        raise EpidemiaError(
            f"{requests[0].task_name}: {type(model).__name__} takes messages, not plain text: add "
            "--apply_chat_template"
        )


def _check_lengths(model: Any, requests: Sequence[Any]) -> None:
    """Refuse prompts that lm-eval would shorten to fit the model's context."""
    tokenizer, longest = getattr(model, "tokenizer", None), getattr(model, "max_length", None)
    if tokenizer is None or not isinstance(longest, int):
        return
    tokens = functools.lru_cache(maxsize=1)(lambda text: len(model.tok_encode(text)))
    for request in requests:
        context, answer = request.args[0], request.args[1]
        if not isinstance(context, str):
            return  # messages: the server counts them
        if isinstance(answer, str):
            room, after = f"the answer ({answer!r})", len(answer.encode())
        else:
            after = int(answer.get("max_gen_toks", 0))
            room = f"max_gen_toks={after}"
        # A token is at least a byte: most prompts fit whatever the tokenizer.
        if len(context.encode()) + after + 2 <= longest:
            continue
        needed = tokens(context) + after
        if needed > longest:
            raise EpidemiaError(
                f"{request.task_name}: a prompt of {tokens(context)} tokens and {room} do not fit "
                f"into the model's context of {longest}; nothing is shortened. Give the model a "
                "longer one (--model_args max_length=..., where it can)"
                + ("" if isinstance(answer, str) else " or lower --gen_kwargs max_gen_toks=...")
                + ", or ask with fewer 'fewshot' examples"
            )
