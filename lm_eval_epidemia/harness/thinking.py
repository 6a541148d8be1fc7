"""Where a thought begins and ends, as prompts and models tell it.

A chat template may open the thought at the end of the prompt: a reply that was cut in it then holds
no mark at all, and its letters are no answer. And most marks are special tokens, which lm-eval's
``hf`` erases from replies, or cuts off (``think_end_token``) so that a cut thought looks like an
answer. While our prompts are answered replies are kept whole, and the mark of the prompt is put
before them; `elicit.replies.thoughts` reads the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from lm_eval_epidemia.elicit.replies.thoughts import opened_by
from lm_eval_epidemia.harness.replaced import replaced


@contextmanager
def kept(model: Any) -> Iterator[Callable[[Any, Any], Any]]:
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
        return f"{opened_by(str(prompt))}{reply}"

    with replaced(model, **own) if own else nullcontext():
        yield told
