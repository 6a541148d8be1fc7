"""``--model choice-hf``: lm-eval's `hf` with one forward pass per prompt, last positions only.

The stock backend tokenizes a context once per choice and takes the log-softmax at every position of
every prompt, [batch, position, vocabulary]. Here a context is tokenized once, batches are filled by
tokens, a beginning that the prompts of a batch share is computed once, and the hidden states are
cut to the positions that are read before they reach the output head, so that nothing of the size of
prompt times vocabulary is ever made. Everything else, from loading to generation, is the stock
class.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain
from typing import Any

from tqdm import tqdm

from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.harness.choices import (
    Batch,
    Encoded,
    Question,
    answer_requests,
    plan,
    remember,
)
from lm_eval_epidemia.harness.loading import (
    Given,
    check_adapter_folder,
    check_adapter_in_place,
    check_folder,
    explaining_adapter,
    explaining_config,
    explaining_tokenizer,
    explaining_weights,
)

try:
    import torch
    import torch.nn.functional as F
    from lm_eval.models.huggingface import HFLM
    from transformers.cache_utils import DynamicCache, DynamicLayer
except ImportError as error:
    raise EpidemiaError(
        f"--model choice-hf needs PyTorch and Transformers ({error}): "
        "pip install 'lm-eval-epidemia[hf]'"
    ) from error

__all__ = ["ChoiceHF"]

#: Tokens of a choice beyond which a request goes to the stock path: a letter has one or two, a
#: number in digits seven.
LONGEST_CHOICE = 8

#: Tokens per forward pass with ``batch_size=auto``, halved when they do not fit into memory.
AUTO_TOKENS = {"cuda": 65_536, "cpu": 4_096}


class ChoiceHF(HFLM):
    """`HFLM` that answers multiple-choice requests in one pass per context.

    Takes the arguments of `HFLM`. ``batch_size=N`` is as many tokens as N of the longest prompts
    have; shorter ones share a batch in larger numbers. ``batch_size=auto`` starts at 65,536 tokens
    (4,096 without a GPU) and halves that when memory runs out. Encoder-decoder models, requests
    with longer continuations and rolling log-likelihoods take the stock path.
    """

    # Loading is the stock class's, with errors that say what to mend.

    def _get_config(self, pretrained: str, **more: Any) -> None:
        self._given = Given(pretrained, more.get("gguf_file"), more.get("subfolder") or "")
        check_folder(self._given)
        with explaining_config(self._given):
            super()._get_config(pretrained, **more)

    def _create_tokenizer(self, pretrained: Any, tokenizer: Any = None, **more: Any) -> None:
        given = self._given if isinstance(pretrained, str) else Given(pretrained.name_or_path)
        named = tokenizer if isinstance(tokenizer, str) else None
        with explaining_tokenizer(given, named):
            super()._create_tokenizer(pretrained, tokenizer, **more)

    def _create_model(self, pretrained: str, **more: Any) -> None:
        peft = more.get("peft")
        if peft:
            check_adapter_folder(peft, pretrained)
        with explaining_weights(self._given), explaining_adapter(peft, pretrained):
            super()._create_model(pretrained, **more)
            if peft:
                check_adapter_in_place(self.model, peft, pretrained)

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Answer requests as the stock class does; see there."""
        empty = any(not request.args[0] for request in requests)
        if self.backend != "causal" or self.enable_thinking or empty:
            return super().loglikelihood(requests, disable_tqdm=disable_tqdm)
        quiet = disable_tqdm or self.rank != 0
        return answer_requests(
            self, requests, self.max_length, LONGEST_CHOICE, partial(self._answer, quiet=quiet),
            quiet,
        )  # fmt: skip

    def _answer(
        self, questions: list[Question], encoded: Sequence[Encoded], answers: list[Any],
        quiet: bool,
    ) -> list[int]:  # fmt: skip
        """Fill in the answers of all questions, and write them to the cache."""
        limit, left = self._token_limit(questions), list(questions)
        with tqdm(total=len(left), desc="Prompts", unit="prompt", disable=quiet) as bar:
            while left:
                done = 0
                batches = plan(left, limit, self._shares_prefixes)
                try:
                    for batch in batches:
                        found = self._read(batch)
                        numbers = [n for one in batch.questions for n in one.requests]
                        for number, answer in zip(numbers, chain.from_iterable(found), strict=True):
                            answers[number] = answer
                        remember(self, ((encoded[n][0], answers[n]) for n in numbers))
                        bar.update(len(batch.questions))
                        done += 1
                except RuntimeError as error:
                    alone = len(batches[done].questions) == 1
                    if "out of memory" not in str(error).lower() or alone:
                        raise
                    limit = max(limit // 2, 1)
                left = [one for batch in batches[done:] for one in batch.questions]
                if left:
                    gc.collect()
                    torch.cuda.empty_cache()
        return []

    def _token_limit(self, questions: Sequence[Question]) -> int:
        """Tokens of a batch, padding included."""
        if self.batch_size == "auto":
            return AUTO_TOKENS.get(self.device.type, AUTO_TOKENS["cpu"])
        return int(self.batch_size) * max((len(one.tokens) for one in questions), default=1)

    def _read(self, batch: Batch) -> list[list[tuple[float, bool]]]:
        """Answer one batch."""
        asked, prefix = batch
        kept = asked[0].shared + 1
        lengths = torch.tensor([len(one.tokens) for one in asked]) - prefix
        # Padded on the right, as stock: a causal model does not look there, and positions count
        # from the first token without a mask.
        ids = torch.zeros(len(asked), int(lengths.max()), dtype=torch.long)
        for row, one in enumerate(asked):
            ids[row, : lengths[row]] = torch.tensor(one.tokens[prefix:])
        read = lengths[:, None] - kept + torch.arange(kept)
        with torch.no_grad():
            before = self._beginning(asked[0].tokens[:prefix], len(asked)) if prefix else None
            logits = self._logits_at(ids.to(self.device), read.to(self.device), before)
            logprobs = F.log_softmax(logits, dim=-1, dtype=self.softmax_dtype)
            # What is greedy is what the stock class calls so: the largest log-probability.
            greedy = logprobs.argmax(dim=-1).tolist()
            wanted = [[*one.tokens[len(one.tokens) - one.shared :], *one.last] for one in asked]
            widest = max(map(len, wanted))
            columns = torch.tensor([[*row, *[0] * (widest - len(row))] for row in wanted])
            rows = columns.to(logprobs.device)[:, None, :].expand(-1, kept, -1)
            found = torch.gather(logprobs, 2, rows).float().tolist()
        answers = []
        for one, tokens, best, numbers in zip(asked, wanted, greedy, found, strict=True):
            shared = sum(numbers[place][place] for place in range(one.shared))
            so_far = all(best[place] == tokens[place] for place in range(one.shared))
            answers.append(
                [
                    (shared + numbers[-1][one.shared + number], so_far and best[-1] == token)
                    for number, token in enumerate(one.last)
                ]
            )
        return answers

    @cached_property
    def _shares_prefixes(self) -> bool:
        """Whether the model keeps keys and values of a beginning that rows can share.

        Models with another memory (state space, sliding windows) read every prompt whole, and so do
        those under autocast or with virtual tokens before each prompt (prompt tuning).
        """
        adapter = getattr(self.model, "active_peft_config", None)
        if self.mixed_precision_dtype is not None or getattr(adapter, "is_prompt_learning", False):
            return False
        try:
            with torch.no_grad():
                ids = torch.zeros(1, 2, dtype=torch.long, device=self.device)
                kept = self.model(ids, use_cache=True).past_key_values
        except (AttributeError, TypeError, ValueError):
            return False
        return type(kept) is DynamicCache and all(type(one) is DynamicLayer for one in kept.layers)

    def _beginning(self, tokens: list[int], rows: int) -> DynamicCache:
        """Compute the keys and values of a beginning once, for all rows of a batch."""
        ids = torch.tensor([tokens], device=self.device)
        with _cut_before(self.model.get_output_embeddings(), torch.zeros(1, 1).long(), len(tokens)):
            kept: DynamicCache = self.model(ids, use_cache=True).past_key_values
        kept.batch_repeat_interleave(rows)
        return kept

    def _logits_at(
        self, ids: torch.Tensor, positions: torch.Tensor, before: DynamicCache | None
    ) -> torch.Tensor:
        """Return the logits at some positions of each row, computed there only.

        Parameters
        ----------
        ids : tensor of int, shape (B, L)
        positions : tensor of int, shape (B, m)
        before : DynamicCache, optional
            Keys and values of what stands before each row.

        Returns
        -------
        tensor, shape (B, m, vocabulary)
        """
        head = self.model.get_output_embeddings()
        with _cut_before(head, positions, ids.shape[1]) as cut:
            if before is None:
                logits = self._model_call(ids)
            else:
                logits = self.model(ids, past_key_values=before, use_cache=True).logits
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
def _cut_before(head: Any, positions: torch.Tensor, length: int) -> Iterator[list[bool]]:
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
