"""Logits of a Hugging Face model, only at the positions that are read, and answers from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F

from lm_eval_epidemia.models.choices import Question

#: Positions whose log-probabilities are in memory at a time.
ROWS = 64


def answers_of(
    asked: Sequence[Question], logits: torch.Tensor, read: list[list[int]], dtype: Any
) -> list[list[tuple[float, bool]]]:
    """Turn the logits of some positions into answers.

    Parameters
    ----------
    asked : sequence of Question
    logits : tensor, shape (R, vocabulary)
    read : list of list of int
        For each question, which of these are after its context and its choices' shared tokens.
    dtype : torch.dtype, optional
        Of the softmax.
    """
    #: The tokens whose log-probability is wanted at each position; several prompts may share one.
    wanted: list[list[int]] = [[] for _ in range(len(logits))]
    #: By question, the positions of the choices' shared tokens, and these.
    before = [
        list(zip(rows, question.tokens[len(question.tokens) - question.shared :], strict=False))
        for question, rows in zip(asked, read, strict=True)
    ]
    for question, rows, shared in zip(asked, read, before, strict=True):
        for row, token in shared:
            wanted[row].append(token)
        wanted[rows[-1]].extend(question.last)
    widest = max(map(len, wanted))
    columns = torch.tensor([[*row, *[0] * (widest - len(row))] for row in wanted])
    known: list[dict[int, float]] = []
    greedy: list[int] = []
    for start in range(0, len(logits), ROWS):
        # What is greedy is what the stock class calls so: the largest log-probability.
        logprobs = F.log_softmax(logits[start : start + ROWS], dim=-1, dtype=dtype)
        greedy += logprobs.argmax(dim=-1).tolist()
        tokens = columns[start : start + ROWS].to(logprobs.device)
        values = torch.gather(logprobs, 1, tokens).float().tolist()
        known += [dict(zip(*row, strict=True)) for row in zip(tokens.tolist(), values, strict=True)]
    answers = []
    for question, rows, shared in zip(asked, read, before, strict=True):
        sum_before = sum(known[row][token] for row, token in shared)
        so_far, last = all(greedy[row] == token for row, token in shared), rows[-1]
        answers.append(
            [
                (sum_before + known[last][token], so_far and greedy[last] == token)
                for token in question.last
            ]
        )
    return answers


def at(states: torch.Tensor, positions: torch.Tensor, length: int) -> torch.Tensor:
    """Take some positions of each row; virtual tokens of a prompt-tuned model stand before."""
    offset = states.shape[1] - length
    where = positions.to(states.device) + offset
    return states.gather(1, where[:, :, None].expand(-1, -1, states.shape[2]))


@contextmanager
def cut_before(head: Any, positions: torch.Tensor, length: int) -> Iterator[list[bool]]:
    """Let an output head see only some positions of its input.

    What a model does with its logits afterwards (soft-capping, scaling) is then done to these.
    """
    cut: list[bool] = []

    def take(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        states = inputs[0]
        if states.dim() != 3 or states.shape[0] != len(positions) or states.shape[1] < length:
            return None
        cut.append(True)
        return (at(states, positions, length), *inputs[1:])

    with ExitStack() as stack:
        if head is not None:
            stack.callback(head.register_forward_pre_hook(take).remove)
        yield cut
