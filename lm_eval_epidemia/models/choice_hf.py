"""``--model choice-hf``: lm-eval's `hf` with one forward pass per prompt, last positions only.

lm-eval's backend tokenizes a context once per choice and computes the log-softmax at every position
of every prompt, [batch, position, vocabulary]. Here a context is tokenized once, batches are filled
by tokens, and only the hidden states at the positions that are read reach the output head, so no
tensor of size prompt times vocabulary is made.

Shared beginnings of prompts are computed once: as a tree in one sequence (`prefix_tree`) if the
model supports it and it costs less, otherwise as rows after one common beginning. Everything else,
from loading to generation, is lm-eval's class.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import chain
from typing import Any

from tqdm import tqdm

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import install
from lm_eval_epidemia.models.choices import (
    Batch,
    Encoded,
    Question,
    answer_requests,
    plan,
    remember,
)
from lm_eval_epidemia.models.loading import (
    Given,
    check_adapter,
    check_arguments,
    explain_loading,
    is_batch_given,
)
from lm_eval_epidemia.models.prefix_tree import BLOCK, Costs, Pack, Tree, plan_paths, tree_of

try:
    import torch
    import torch.nn.functional as F
    from lm_eval.models.huggingface import HFLM
    from transformers.cache_utils import DynamicCache, DynamicLayer

    from lm_eval_epidemia.models import tree_attention
except ImportError as error:
    raise EpidemiaError(
        f"--model choice-hf needs PyTorch and Transformers ({error}): {install('hf')}"
    ) from error

#: Tokens of a choice beyond which a request goes to the stock path: a letter has one or two, a
#: number in digits seven.
LONGEST_CHOICE = 8

#: Tokens per forward pass unless a batch size is given, halved when they do not fit into memory.
AUTO_TOKENS = {"cuda": 65_536, "cpu": 4_096}


class ChoiceHF(HFLM):
    """`HFLM` that answers multiple-choice requests in one pass per context.

    Takes the arguments of `HFLM`. Without ``batch_size``, or with ``batch_size=auto``, batches
    start at 65,536 tokens (4,096 without a GPU), halved when memory runs out. With
    ``batch_size=N``, a batch has as many tokens as N of the longest prompts, so it holds more than
    N shorter ones. Encoder-decoder models, requests with longer continuations and rolling
    log-likelihoods use lm-eval's code.
    """

    #: For measurements: "tree" or "rows" instead of what costs less.
    only_path: str | None = None

    # Loading is the stock class's, with errors that say what to mend.

    def __init__(self, *args: Any, **given: Any) -> None:
        check_arguments("choice-hf", given)
        peft = given.get("peft")
        named = given.get("pretrained", args[0] if args else "")
        what = Given(str(named)) if named else "a model without pretrained="
        with explain_loading(f"{what} with peft={peft}" if peft else what):
            super().__init__(*args, **given)
        # Not batch_size="auto" where none is given, as `choice-vllm` has it: the stock paths then
        # try out what fits before each task, which takes longer than one at a time.
        self._fills_batches = self.batch_size == "auto" or not is_batch_given(given)

    def _create_model(self, pretrained: str, **more: Any) -> None:
        super()._create_model(pretrained, **more)
        if peft := more.get("peft"):
            check_adapter(self.model, peft, pretrained)

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Answer requests as `HFLM` does; see there."""
        if self.backend != "causal" or self.enable_thinking:
            return super().loglikelihood(requests, disable_tqdm=disable_tqdm)
        quiet = disable_tqdm or self.rank != 0
        fits = (self.max_length + 1, LONGEST_CHOICE)
        return answer_requests(self, requests, fits, self._answer, super().loglikelihood, quiet)

    def _answer(
        self, questions: list[Question], encoded: list[Encoded], answers: list[Any], quiet: bool
    ) -> list[int]:
        """Fill in the answers of all questions, and write them to the cache."""
        limit, left = self._token_limit(questions), list(questions)
        with tqdm(total=len(left), desc="Prompts", unit="prompt", disable=quiet) as bar:
            while left:
                done = 0
                batches = self._plan(left, limit)
                try:
                    for batch in batches:
                        read = chain.from_iterable(self._read(batch))
                        numbers = [n for question in batch.questions for n in question.requests]
                        for number, answer in zip(numbers, read, strict=True):
                            answers[number] = answer
                        remember(self, ((encoded[n][0], answers[n]) for n in numbers))
                        bar.update(len(batch.questions))
                        done += 1
                except RuntimeError as error:
                    alone = len(batches[done].questions) == 1
                    if "out of memory" not in str(error).lower() or alone:
                        raise
                    limit = max(limit // 2, 1)
                left = list(chain.from_iterable(batch.questions for batch in batches[done:]))
                if left:
                    gc.collect()
                    torch.cuda.empty_cache()
        return []

    def _plan(self, questions: list[Question], limit: int) -> list[Pack | Batch]:
        """Put questions into forward passes, each way where it costs less."""
        longest = 0 if self.only_path == "rows" else self._longest_in_tree
        if not longest:
            return [*plan(questions, limit, self._shares_prefixes)]
        # A pack has no more logits than the feed-forward layer has activations (about 4 widths).
        width = self.model.config.get_text_config().hidden_size
        reads = max(1, limit * 4 * width // self.vocab_size)
        share = self._shares_prefixes
        return plan_paths(questions, limit, reads, share, longest, self._costs, self.only_path)

    def _token_limit(self, questions: Sequence[Question]) -> int:
        """Tokens of a batch, padding included."""
        if self._fills_batches:
            return AUTO_TOKENS.get(self.device.type, AUTO_TOKENS["cpu"])
        return int(self.batch_size) * max((len(q.tokens) for q in questions), default=1)

    def _read(self, batch: Batch | Pack) -> list[list[tuple[float, bool]]]:
        """Answer one batch."""
        with torch.no_grad():
            logits, read = self._tree(batch) if isinstance(batch, Pack) else self._rows(batch)
            return answers_of(batch.questions, logits, read, self.softmax_dtype)

    def _rows(self, batch: Batch) -> tuple[torch.Tensor, list[list[int]]]:
        """Compute one batch as rows behind a common beginning.

        Returns
        -------
        logits : tensor, shape (R, vocabulary)
        read : list of list of int
            Which of these are each question's.
        """
        asked, prefix = batch
        kept = asked[0].shared + 1
        lengths = torch.tensor([len(q.tokens) for q in asked]) - prefix
        # Padded on the right, as stock: a causal model does not look there, and positions count
        # from the first token without a mask.
        ids = torch.zeros(len(asked), int(lengths.max()), dtype=torch.long)
        for row, q in enumerate(asked):
            ids[row, : lengths[row]] = torch.tensor(q.tokens[prefix:])
        where = lengths[:, None] - kept + torch.arange(kept)
        before = self._beginning(asked[0].tokens[:prefix], len(asked)) if prefix else None
        logits = self._logits_at(ids.to(self.device), where.to(self.device), before)
        numbers = torch.arange(len(asked) * kept).view(len(asked), kept)
        return logits.flatten(0, 1), numbers.tolist()

    def _tree(self, pack: Pack) -> tuple[torch.Tensor, list[list[int]]]:
        """Compute one pack, each distinct token once; returns what `_rows` does."""
        tree = tree_of(pack.questions)
        places = sorted({place for places_read in tree.read for place in places_read})
        number = {place: number for number, place in enumerate(places)}
        logits, _ = self._packed(tree, places, BLOCK)
        return logits, [[number[place] for place in places_read] for places_read in tree.read]

    def _packed(self, tree: Tree, places: list[int], block: int) -> tuple[torch.Tensor, list[int]]:
        """Return the logits at some tokens of a tree, and the windows its layers have."""
        ids = torch.from_numpy(tree.tokens)[None].to(self.device)
        positions = torch.from_numpy(tree.position)[None].to(self.device)
        with tree_attention.tree_attention(self.model, tree, block) as windows:
            logits = self._logits_at(ids, torch.tensor([places]), None, position_ids=positions)
        return logits[0], windows

    @cached_property
    def _longest_in_tree(self) -> int:
        """Tokens of the longest prompt that the model reads in a tree; 0 for a model that cannot.

        Not under autocast, where the trial would be of another model than the run, and not behind
        the virtual tokens or keys of an adapter.
        """
        if self._is_changed:
            return 0
        return tree_attention.longest_prompt(
            self.model,
            self.vocab_size,
            lambda ids: self._model_call(ids.to(self.device)),
            lambda tree, block: self._packed(tree, [places[-1] for places in tree.read], block),
        )

    @property
    def _is_changed(self) -> bool:
        """Whether the model runs under autocast, or behind the virtual tokens of an adapter."""
        adapter = getattr(self.model, "active_peft_config", None)
        is_prompt = getattr(adapter, "is_prompt_learning", False)
        return self.mixed_precision_dtype is not None or is_prompt

    @cached_property
    def _costs(self) -> Costs:
        """What the model computes per token and per pair of tokens."""
        config = self.model.config.get_text_config()
        ends = (self.model.get_input_embeddings(), self.model.get_output_embeddings())
        apart = {id(weights) for end in ends if end is not None for weights in end.parameters()}
        own = [weights for weights in self.model.parameters() if id(weights) not in apart]
        # Four bits: two in a byte.
        weights = sum(w.numel() * (2 if w.dtype == torch.uint8 else 1) for w in own)
        return Costs(weights, 2 * config.num_hidden_layers * config.hidden_size)

    @cached_property
    def _shares_prefixes(self) -> bool:
        """Whether the model keeps keys and values of a beginning that rows can share.

        Models with another memory (state space, sliding windows) read every prompt whole, and so do
        those under autocast, with virtual tokens before each prompt (prompt tuning), or whose keys
        depend on how long the prompt is.
        """
        if self._is_changed or tree_attention.count_turning(self.model) < tree_attention.ANY:
            return False
        try:
            with torch.no_grad():
                ids = torch.zeros(1, 2, dtype=torch.long, device=self.device)
                kept = self.model(ids, use_cache=True).past_key_values
        except (AttributeError, TypeError, ValueError):
            return False
        return type(kept) is DynamicCache and {*map(type, kept.layers)} == {DynamicLayer}

    def _beginning(self, tokens: list[int], rows: int) -> DynamicCache:
        """Compute the keys and values of a beginning once, for all rows of a batch."""
        ids = torch.tensor([tokens], device=self.device)
        with cut_before(self.model.get_output_embeddings(), torch.zeros(1, 1).long(), len(tokens)):
            kept: DynamicCache = self.model(ids, use_cache=True).past_key_values
        kept.batch_repeat_interleave(rows)
        return kept

    def _logits_at(
        self, ids: torch.Tensor, positions: torch.Tensor, before: DynamicCache | None, **more: Any
    ) -> torch.Tensor:
        """Return the logits at some positions of each row, computed there only.

        Parameters
        ----------
        ids : tensor of int, shape (B, L)
        positions : tensor of int, shape (B, m)
        before : DynamicCache, optional
            Keys and values of what stands before each row.
        more
            What else the model takes; it then keeps no keys.

        Returns
        -------
        tensor, shape (B, m, vocabulary)
        """
        head = self.model.get_output_embeddings()
        with cut_before(head, positions, ids.shape[1]) as cut:
            if more:
                logits = self.model(ids, use_cache=False, **more).logits
            elif before is None:
                logits = self._model_call(ids)
            else:
                logits = self.model(ids, past_key_values=before, use_cache=True).logits
        if not cut:
            # A model whose head is not called as a module: all positions were computed.
            logits = take_positions(logits, positions, ids.shape[1])
        return logits


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


def take_positions(states: torch.Tensor, positions: torch.Tensor, length: int) -> torch.Tensor:
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
        return (take_positions(states, positions, length), *inputs[1:])

    with ExitStack() as stack:
        if head is not None:
            stack.callback(head.register_forward_pre_hook(take).remove)
        yield cut
