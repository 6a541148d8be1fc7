"""Prompts for a served model: the requests that each answers, and its answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.within import Within
from lm_eval_epidemia.models.choices import spaces_moved

#: The probability of all letters below which they say nothing of what a model would answer: one
#: that thinks first leaves them less.
LEAST_MASS = 1e-3


class Prompt(NamedTuple):
    """One prompt and the letters that are read after it.

    Attributes
    ----------
    context : str or JsonChatStr
        Messages are JSON, as lm-eval hands them on.
    choices : tuple of str
        Distinct, as lm-eval asks for them.
    requests : list of (int, int)
        Numbers of the requests answered, and of the choice of each.
    """

    context: Any
    choices: tuple[str, ...]
    requests: list[tuple[int, int]]


class Answered(NamedTuple):
    """The answer to a prompt.

    Attributes
    ----------
    letters : list of (float, bool)
        By choice, as lm-eval takes them.
    began : str
        The token that the model generated.
    is_cut : bool
        Whether it may show what a sampler leaves, see `first_token.is_cut`.
    declined : str
        The server's words, if its filter of contents declined the prompt.
    """

    letters: list[tuple[float, bool]]
    began: str
    is_cut: bool = False
    declined: str = ""


def is_seen(answered: Answered) -> bool:
    """Whether any letter was generated, or is likely enough to say something of the model."""
    if answered.is_cut or answered.declined:
        return False
    shown = [x for x, _ in answered.letters if not isinstance(x, Within) or x.shown]
    written = any(is_greedy for _, is_greedy in answered.letters)
    return written or math.fsum(math.exp(x) for x in shown) >= LEAST_MASS


def task_of(requests: Sequence[Any]) -> str:
    """Name the task of some requests, as far as lm-eval says it."""
    return str(getattr(requests[0], "task_name", None) or "this task") if requests else "this task"


def prompts_of(requests: Sequence[Any], chat: bool) -> list[Prompt]:
    """Group the requests that one prompt answers.

    Raises
    ------
    EpidemiaError
        If a choice is not a letter, or the address does not accept the context.
    """
    by_context: dict[Any, tuple[dict[str, int], list[tuple[int, int]]]] = {}
    for number, request in enumerate(requests):
        context, choice = request.args
        letter = choice.strip()
        if not (len(letter) == 1 and letter.isascii() and letter.isalpha()):
            raise EpidemiaError(
                "choice-api only reads single letters, because a server shows only the first "
                f"token of an answer, but {task_of([request])} has the choice {choice!r}. Run "
                "such tasks with --model local-completions, or load the model with choice-vllm "
                "or choice-hf"
            )
        if not context:
            raise EpidemiaError(
                f"{task_of([request])} asks for a letter without a prompt (acc_mutual_info), "
                "which no server can answer: leave that metric out"
            )
        if chat == isinstance(context, str):
            wrong = "plain text, not chat messages: give the address that ends in /chat/completions"
            if chat:
                wrong = "chat messages, not plain text: add --apply_chat_template"
            raise EpidemiaError(f"{task_of([request])}: base_url accepts {wrong}")
        if not chat:
            context, choice = spaces_moved(context, choice)
        choices, numbers = by_context.setdefault(context, ({}, []))
        numbers.append((number, choices.setdefault(choice, len(choices))))
    return [Prompt(context, tuple(of), numbers) for context, (of, numbers) in by_context.items()]
