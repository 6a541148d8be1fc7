"""``--model choice-vllm``: lm-eval's `vllm` with one short request per prompt.

lm-eval's backend sends one request per choice and asks for the log-probabilities of the whole
prompt, which also prevents vLLM from using its prefix cache. Here the log-probabilities of the
choices are requested by token ids, only at the position where they are read. Everything else, from
loading to tensor, pipeline and data parallelism, is lm-eval's class.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import chain, islice
from typing import Any

from tqdm import tqdm

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import install
from lm_eval_epidemia.models.choices import Encoded, Question, answer_requests, remember
from lm_eval_epidemia.models.loading import check_arguments, explain_loading, is_batch_given

try:
    from lm_eval.models.vllm_causallms import VLLM
except ImportError as error:
    raise EpidemiaError(f"--model choice-vllm needs vLLM ({error}): {install('vllm')}") from error

#: The first vLLM that returns the log-probabilities of tokens named by their ids, and how many.
BY_ID_SINCE, MOST_IDS = "0.32", 128

#: Tokens of a choice beyond which a request goes to the stock path: each but the last is a request.
LONGEST_CHOICE = 4

#: Prompts submitted at a time: vLLM batches them itself, and between two submissions what was
#: answered is written to lm-eval's cache. Under data parallelism all at once: lm-eval builds every
#: engine anew for each submission.
SUBMISSION = 8192

_logger = logging.getLogger(__name__)


Answer = tuple[float, bool] | None


#: One request to the engine: a prompt, and the tokens to read after it.
_Read = tuple[list[int], tuple[int, ...]]


class ChoiceVLLM(VLLM):
    """`VLLM` that answers multiple-choice requests in one pass per context.

    Takes the arguments of `VLLM`. A vLLM older than 0.32 is asked for the most probable tokens
    instead; questions with a choice that is not among them use lm-eval's code, as do requests with
    longer continuations and rolling log-likelihoods.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        if not is_batch_given(given):  # the engine batches itself
            given["batch_size"] = "auto"
        check_arguments("choice-vllm", given)
        with explain_loading(
            given.get("pretrained", args[0] if args else "a model without pretrained=")
        ):
            super().__init__(*args, **given)

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Answer requests as `VLLM` does; see there."""
        if self.enable_thinking:
            return super().loglikelihood(requests, disable_tqdm=disable_tqdm)
        # vLLM generates a token, which takes a place in the context.
        fits, stock = (self.max_length - 1, LONGEST_CHOICE), super().loglikelihood
        return answer_requests(self, requests, fits, self._answer, stock, disable_tqdm)

    def _answer(
        self, questions: list[Question], encoded: list[Encoded], answers: list[Any], quiet: bool
    ) -> list[int]:
        """Fill in the answers, write them to the cache, and return the requests left over."""
        # Equal beginnings side by side, so that they meet in the prefix cache.
        ordered = sorted(questions, key=lambda question: question.tokens)
        left: list[int] = []
        step = SUBMISSION if self.data_parallel_size <= 1 else max(len(ordered), 1)
        with tqdm(total=len(ordered), desc="Prompts", unit="prompt", disable=quiet) as bar:
            for start in range(0, len(ordered), step):
                batch = ordered[start : start + step]
                done: list[int] = []
                for question, answered in zip(batch, self._asked(batch), strict=True):
                    for number, answer in zip(question.requests, answered, strict=True):
                        answers[number] = answer
                        (left if answer is None else done).append(number)
                remember(self, ((encoded[number][0], answers[number]) for number in done))
                bar.update(len(batch))
        return left

    def _asked(self, questions: list[Question]) -> Iterator[list[Answer]]:
        """Give the engine all reads of some questions at once; yield the answers of each."""
        reads = [_reads(question) for question in questions]
        flat = list(chain.from_iterable(reads))
        outputs = self._model_generate(
            requests=[prompt for prompt, _ in flat],
            generate=True,
            sampling_params=self._sampling([wanted for _, wanted in flat]),
        )
        firsts = (output.outputs[0] for output in outputs)
        for question, own in zip(questions, reads, strict=True):
            yield _join_reads(question, own, list(islice(firsts, len(own))))

    def _sampling(self, wanted: Sequence[tuple[int, ...]]) -> list[Any]:
        """Return vLLM's parameters for each read, one object for equal ones."""
        from vllm import SamplingParams

        by_id = "logprob_token_ids" in SamplingParams.__annotations__
        if not by_id:
            _logger.warning(
                f"choice-vllm: vLLM {version('vllm')} cannot return the log-probabilities of given "
                f"tokens ({BY_ID_SINCE} can): choices that are not among the likeliest are slower"
            )
        # How many tokens the engine returns at most.
        most = int(self.model_args.get("max_logprobs", 20))
        parameters = {}
        for ids in dict.fromkeys(wanted):
            which = {"logprob_token_ids": list(ids)} if by_id else {"logprobs": most}
            parameters[ids] = SamplingParams(max_tokens=1, temperature=0, detokenize=False, **which)
        return [parameters[ids] for ids in wanted]


def _reads(question: Question) -> list[_Read]:
    """Return what to read for a question: each shared token, then the last ones."""
    tokens, last = question.tokens, tuple(dict.fromkeys(question.last))
    places = range(len(tokens) - question.shared, len(tokens))
    reads: list[_Read] = [(tokens[:place], (tokens[place],)) for place in places]
    ends = range(0, len(last), MOST_IDS)
    return reads + [(tokens, last[first : first + MOST_IDS]) for first in ends]


def _join_reads(question: Question, reads: Sequence[_Read], outputs: Sequence[Any]) -> list[Answer]:
    """Put the outputs of a question's reads together; None if a token was not returned."""
    known: list[dict[int, float]] = [
        {token: float(getattr(x, "logprob", x)) for token, x in output.logprobs[0].items()}
        for output in outputs
    ]
    shared, last = question.shared, {}
    for logprobs in known[shared:]:
        last.update(logprobs)
    # At temperature 0 the token generated is the most probable one.
    greedy = [output.token_ids[0] for output in outputs]
    tokens = [wanted[0] for _, wanted in reads[:shared]]
    so_far = greedy[:shared] == tokens
    read = list(zip(known, tokens, strict=False))
    before = sum(of[token] for of, token in read) if all(t in of for of, t in read) else None
    return [
        None
        if before is None or token not in last
        else (before + last[token], so_far and greedy[-1] == token)
        for token in question.last
    ]
