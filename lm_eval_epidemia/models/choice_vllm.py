"""``--model choice-vllm``: lm-eval's `vllm` with one short request per prompt.

The stock backend sends one request per choice and asks for the log-probabilities of the whole
prompt, which also keeps vLLM from using its prefix cache. Here the log-probabilities of the choices
are asked for by their token ids, at the one position where they are read. Everything else, from
loading to tensor, pipeline and data parallelism, is the stock class.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

from tqdm import tqdm

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import install
from lm_eval_epidemia.models.choices import Encoded, Question, answer_requests, remember
from lm_eval_epidemia.models.loading import explaining_arguments

try:
    from lm_eval.models.vllm_causallms import VLLM
except ImportError as error:
    raise EpidemiaError(f"--model choice-vllm needs vLLM ({error}): {install('vllm')}") from error

#: The first vLLM that returns the log-probabilities of tokens named by their ids, and how many.
BY_ID_SINCE, MOST_IDS = "0.32", 128

#: Tokens of a choice beyond which a request goes to the stock path: each but the last is a request.
LONGEST_CHOICE = 4

#: Prompts submitted at a time: vLLM batches them itself, and between two submissions what was
#: answered is written to lm-eval's cache.
SUBMISSION = 8192

_logger = logging.getLogger(__name__)


class _Read(NamedTuple):
    """One request to the engine: the tokens to read after a prompt."""

    prompt: list[int]
    wanted: tuple[int, ...]


class ChoiceVLLM(VLLM):
    """`VLLM` that answers multiple-choice requests in one pass per context.

    Takes the arguments of `VLLM`. With a vLLM older than 0.32, the most probable tokens are asked
    for instead, and questions with a choice that is not among them take the stock path, as do
    requests with longer continuations and rolling log-likelihoods.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        with explaining_arguments("choice-vllm", VLLM, args, given):
            super().__init__(*args, **given)

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Answer requests as the stock class does; see there."""
        if self.enable_thinking:
            return super().loglikelihood(requests, disable_tqdm=disable_tqdm)
        # vLLM generates a token, which takes a place in the context.
        return answer_requests(
            self,
            requests,
            self.max_length - 1,
            LONGEST_CHOICE,
            partial(self._answer, quiet=disable_tqdm),
            super().loglikelihood,
            disable_tqdm,
        )

    def _answer(
        self,
        questions: list[Question],
        encoded: Sequence[Encoded],
        answers: list[Any],
        quiet: bool,
    ) -> list[int]:
        """Fill in the answers, write them to the cache, and return the requests left over."""
        # Equal beginnings side by side, so that they meet in the prefix cache.
        ordered, left = sorted(questions, key=lambda one: one.tokens), []
        with tqdm(total=len(ordered), desc="Prompts", unit="prompt", disable=quiet) as bar:
            for start in range(0, len(ordered), SUBMISSION):
                batch = ordered[start : start + SUBMISSION]
                asked = [_reads(question) for question in batch]
                flat = [read for reads in asked for read in reads]
                outputs = iter(
                    self._model_generate(
                        requests=[read.prompt for read in flat],
                        generate=True,
                        sampling_params=self._sampling([read.wanted for read in flat]),
                    )
                )
                done = []
                for question, reads in zip(batch, asked, strict=True):
                    found = _answers(question, reads, [next(outputs).outputs[0] for _ in reads])
                    for number, answer in zip(question.requests, found, strict=True):
                        if answer is None:
                            left.append(number)
                        else:
                            answers[number] = answer
                            done.append(number)
                remember(self, ((encoded[number][0], answers[number]) for number in done))
                bar.update(len(batch))
        return left

    def _sampling(self, wanted: Sequence[tuple[int, ...]]) -> list[Any]:
        """Return vLLM's parameters for each read, one object for equal ones."""
        from vllm import SamplingParams

        by_id = "logprob_token_ids" in SamplingParams.__annotations__
        if not by_id:
            _logger.warning(
                f"choice-vllm: vLLM {version('vllm')} does not return the log-probabilities of "
                f"given tokens ({BY_ID_SINCE} does); asking for the most probable ones, and the "
                "stock path for choices that are not among them"
            )
        made = {}
        for ids in dict.fromkeys(wanted):
            which = {"logprob_token_ids": list(ids)} if by_id else {"logprobs": self._most_probable}
            made[ids] = SamplingParams(max_tokens=1, temperature=0, detokenize=False, **which)
        return [made[ids] for ids in wanted]

    @property
    def _most_probable(self) -> int:
        """How many tokens the engine returns at most."""
        return int(self.model_args.get("max_logprobs", 20))


def _reads(question: Question) -> list[_Read]:
    """Return what to read for a question: each shared token, then the last ones."""
    start = len(question.tokens) - question.shared
    reads = [
        _Read(question.tokens[:place], (question.tokens[place],))
        for place in range(start, len(question.tokens))
    ]
    last = tuple(dict.fromkeys(question.last))
    for first in range(0, len(last), MOST_IDS):
        reads.append(_Read(question.tokens, last[first : first + MOST_IDS]))
    return reads


def _answers(
    question: Question, reads: Sequence[_Read], outputs: Sequence[Any]
) -> list[tuple[float, bool] | None]:
    """Put the outputs of a question's reads together; None where a token was not returned."""
    known: list[dict[int, float]] = [
        {token: float(getattr(found, "logprob", found)) for token, found in one.logprobs[0].items()}
        for one in outputs
    ]
    # At temperature 0 the token generated is the most probable one.
    greedy = [one.token_ids[0] for one in outputs]
    shared, last = question.shared, {}
    for found in known[shared:]:
        last.update(found)
    before: float | None = 0.0
    for read, found in zip(reads[:shared], known[:shared], strict=True):
        (token,) = read.wanted
        before = None if before is None or token not in found else before + found[token]
    so_far = all(
        best == read.wanted[0] for best, read in zip(greedy[:shared], reads[:shared], strict=True)
    )
    return [
        None
        if before is None or token not in last
        else (before + last[token], so_far and greedy[-1] == token)
        for token in question.last
    ]
