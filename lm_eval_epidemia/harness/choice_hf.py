"""``--model choice-hf``: lm-eval's `hf` with one forward pass per prompt, last positions only.

The stock backend tokenizes a context once per choice and takes the log-softmax at every position of
every prompt, [batch, position, vocabulary]. Here a context is tokenized once, batches are filled by
tokens, and the hidden states are cut to the positions that are read before they reach the output
head, so that nothing of the size of prompt times vocabulary is ever made. Everything else, from
loading to generation, is the stock class.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

from lm_eval_epidemia.harness.choices import Encoded, Question, encode, group, remember

__all__ = ["ChoiceHF"]

#: Tokens per forward pass with ``batch_size=auto``, halved when they do not fit into memory.
AUTO_TOKENS = {"cuda": 65_536, "cpu": 4_096}


class ChoiceHF(HFLM):
    """`HFLM` that answers multiple-choice requests in one pass per context.

    Takes the arguments of `HFLM`. ``batch_size=N`` is as many tokens as N of the longest prompts
    have; shorter ones share a batch in larger numbers. ``batch_size=auto`` starts at 65,536 tokens
    (4,096 without a GPU) and halves that when memory runs out. Encoder-decoder models, requests
    with longer continuations and rolling log-likelihoods take the stock path.
    """

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Answer requests as the stock class does; see there."""
        pairs = [request.args for request in requests]
        if self.backend != "causal" or self.enable_thinking or any(not c for c, _ in pairs):
            return super().loglikelihood(requests, disable_tqdm=disable_tqdm)
        quiet = disable_tqdm or self.rank != 0
        encoded = encode(self, pairs, quiet)
        questions, others = group(encoded, self.max_length)
        answers: list[Any] = [None] * len(requests)
        self._answer(questions, encoded, answers, quiet)
        if others:
            stock = self._loglikelihood_tokens(
                [encoded[number] for number in others], disable_tqdm=disable_tqdm
            )
            for number, answer in zip(others, stock, strict=True):
                answers[number] = answer
        return answers

    def _answer(
        self, questions: list[Question], encoded: Sequence[Encoded], answers: list[Any],
        quiet: bool,
    ) -> None:  # fmt: skip
        """Fill in the answers of all questions, longest first, and write them to the cache."""
        ordered = sorted(questions, key=lambda one: (one.shared, -len(one.tokens), one.tokens))
        limit = self._token_limit(ordered)
        with tqdm(total=len(ordered), desc="Prompts", unit="prompt", disable=quiet) as bar:
            start = 0
            while start < len(ordered):
                batch = _next_batch(ordered, start, limit)
                try:
                    found = self._read(batch)
                except RuntimeError as error:
                    if "out of memory" not in str(error).lower() or len(batch) == 1:
                        raise
                    limit = max(limit // 2, 1)
                else:
                    numbers = [number for question in batch for number in question.requests]
                    for number, answer in zip(numbers, chain.from_iterable(found), strict=True):
                        answers[number] = answer
                    remember(self, ((encoded[number][0], answers[number]) for number in numbers))
                    start += len(batch)
                    bar.update(len(batch))
                    continue
                gc.collect()
                torch.cuda.empty_cache()

    def _token_limit(self, questions: Sequence[Question]) -> int:
        """Tokens of a batch, padding included."""
        if self.batch_size == "auto":
            return AUTO_TOKENS.get(self.device.type, AUTO_TOKENS["cpu"])
        return int(self.batch_size) * max((len(one.tokens) for one in questions), default=1)

    def _read(self, batch: Sequence[Question]) -> list[list[tuple[float, bool]]]:
        """Answer one batch, all of whose choices have the same number of tokens."""
        kept = batch[0].shared + 1
        lengths = torch.tensor([len(one.tokens) for one in batch])
        # Padded on the right, as stock: a causal model does not look there, and positions count
        # from the first token without a mask.
        ids = torch.zeros(len(batch), int(lengths.max()), dtype=torch.long)
        for row, one in enumerate(batch):
            ids[row, : len(one.tokens)] = torch.tensor(one.tokens)
        read = lengths[:, None] - kept + torch.arange(kept)
        with torch.no_grad():
            logits = self._logits_at(ids.to(self.device), read.to(self.device))
            logprobs = F.log_softmax(logits, dim=-1, dtype=self.softmax_dtype)
            # What is greedy is what the stock class calls so: the largest log-probability.
            greedy = logprobs.argmax(dim=-1).tolist()
            wanted = [[*one.tokens[len(one.tokens) - one.shared :], *one.last] for one in batch]
            widest = max(map(len, wanted))
            columns = torch.tensor([[*row, *[0] * (widest - len(row))] for row in wanted])
            rows = columns.to(logprobs.device)[:, None, :].expand(-1, kept, -1)
            found = torch.gather(logprobs, 2, rows).float().tolist()
        answers = []
        for one, tokens, best, numbers in zip(batch, wanted, greedy, found, strict=True):
            before = sum(numbers[place][place] for place in range(one.shared))
            so_far = all(best[place] == tokens[place] for place in range(one.shared))
            answers.append(
                [
                    (before + numbers[-1][one.shared + number], so_far and best[-1] == token)
                    for number, token in enumerate(one.last)
                ]
            )
        return answers

    def _logits_at(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the logits at some positions of each row, computed there only.

        Parameters
        ----------
        ids : tensor of int, shape (B, L)
        positions : tensor of int, shape (B, m)

        Returns
        -------
        tensor, shape (B, m, vocabulary)
        """
        head = self.model.get_output_embeddings()
        with _cut_before(head, positions, ids.shape[1]) as cut:
            logits = self._model_call(ids)
        if not cut:
            # A model whose head is not called as a module: all positions were computed.
            logits = _at(logits, positions, ids.shape[1])
        return logits


def _at(states: torch.Tensor, positions: torch.Tensor, length: int) -> torch.Tensor:
    """Take some positions of each row; virtual tokens of a prompt-tuned model stand before."""
    offset = states.shape[1] - length
    where = positions.to(states.device) + offset
    return states.gather(1, where[:, :, None].expand(-1, -1, states.shape[2]))


@contextmanager
def _cut_before(
    head: Any, positions: torch.Tensor, length: int
) -> Iterator[list[bool]]:  # fmt: skip
    """Let an output head see only some positions of its input.

    What a model does with its logits afterwards (soft-capping, scaling) is then done to these.
    """
    cut: list[bool] = []

    def take(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        states = inputs[0]
        if states.dim() != 3 or states.shape[0] != len(positions) or states.shape[1] < length:
            return None
        cut.append(True)
        return (_at(states, positions, length), *inputs[1:])

    if head is None:
        yield cut
        return
    handle = head.register_forward_pre_hook(take)
    try:
        yield cut
    finally:
        handle.remove()


def _next_batch(ordered: Sequence[Question], start: int, limit: int) -> list[Question]:
    """Return the questions that a forward pass takes: the first is the longest."""
    rows = max(1, limit // len(ordered[start].tokens))
    batch = ordered[start : start + rows]
    return [one for one in batch if one.shared == ordered[start].shared]
