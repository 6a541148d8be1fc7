"""``--model epidemia-baseline``: simulated respondents, whose answers are known exactly.

They serve as offline demonstration, as end-to-end calibration of the scale, and as test data for
everything that reads results.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from lm_eval.api.model import LM
from pydantic import BaseModel, Field

from lm_eval_epidemia.ask.responses import LOG_ZERO
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, Way, list_leaves
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.models.loading import read_arguments

#: The kinds of all benchmarks.
KINDS = tuple(dict.fromkeys(kind for benchmark in BENCHMARKS.values() for kind in benchmark.kinds))

#: Those that err, by as much as `noise` says.
ERRING = ("noisy", "calibrated", "overconfident", "vague")

#: Of noise, seed and position bias.
LARGEST = 1e9


class BaselineSettings(BaseModel, extra="forbid"):
    """The arguments of `Baseline`, which says what they are."""

    kind: str = "truth"
    noise: float | None = Field(None, ge=0, le=LARGEST)
    seed: int = Field(0, ge=0, le=LARGEST)
    position_bias: float = Field(0, ge=-LARGEST, le=LARGEST)


class Baseline(LM):
    """A simulated respondent, which answers every prompt of our tasks according to its kind.

    Parameters
    ----------
    kind : str
        One of `KINDS`; each benchmark has its own.
    noise : float
        Of the kinds in `ERRING`; 1 by default.
    seed : int
        Of the noise, and of answers that are drawn.
    position_bias : float
        Added to the log-odds of a letter for each position nearer to the top, whatever is displayed
        there: 0 means no bias, large values always answer A.
    batch_size, max_batch_size, device
        Passed by lm-eval; ignored.
    """

    tokenizer_name = "epidemia-baseline"

    def __init__(self, kind: str = "truth", **arguments: Any) -> None:
        super().__init__()
        given = read_arguments("epidemia-baseline", BaselineSettings, {"kind": kind, **arguments})
        if kind not in KINDS:
            raise EpidemiaError(f"epidemia-baseline has no kind={kind!r} ({suggest(kind, KINDS)})")
        if given.noise is not None and kind not in ERRING:
            raise EpidemiaError(
                f"epidemia-baseline kind={kind} has no noise, only {', '.join(ERRING)}"
            )
        self.kind, self.seed, self.position_bias = kind, given.seed, given.position_bias
        self.noise = 1.0 if given.noise is None else given.noise
        self._believes: dict[str, Any] = {}
        self._leaves = list_leaves()

    def check_tasks(self, tasks: Iterable[Any]) -> None:
        """Refuse tasks that this respondent cannot answer, before any is asked."""
        for task in tasks:
            self._check(str(task.config.task))

    def _check(self, name: str) -> None:
        if name not in self._leaves:
            raise EpidemiaError(
                f"epidemia-baseline answers only the tasks of this package, not {name!r}"
            )
        kinds = self._leaves[name].benchmark.kinds
        if self.kind not in kinds:
            known = ", ".join(kinds) or "none"
            raise EpidemiaError(
                f"epidemia-baseline kind={self.kind} cannot answer {name}: expected one of {known}"
            )

    def _believed(self, request: Any) -> tuple[Way, Any, Array]:
        """Return a prompt's way, its row as that reads it, and what is believed in its cell."""
        doc, name = request.doc, request.task_name
        self._check(name)
        way, answers = WAYS[self._leaves[name].way], self._leaves[name].benchmark.answers
        if name not in self._believes and answers is not None:
            truth = way.load(doc["task"])
            self._believes[name] = answers(truth, self.kind, self.noise, self.seed)
        return way, way.of_row(doc), self._believes[name][doc["cell"]]

    def _letters(self, request: Any) -> list[float]:
        """Log-probabilities of the choices of one prompt."""
        way, row, believed = self._believed(request)
        p = way.believed(believed, row)
        with np.errstate(divide="ignore"):
            logits = np.maximum(np.log(p), LOG_ZERO)
        if self.position_bias:
            logits = logits - self.position_bias * np.arange(len(p))
            logits = np.maximum(logits - np.logaddexp.reduce(logits), LOG_ZERO)
        return [float(value) for value in logits]

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        responses, asked, letters, choices = [], None, [], []
        for request in requests:
            doc = request.doc
            if doc is not asked:  # the letters of a prompt come one after the other
                asked, letters = doc, self._letters(request)
                choices = [choice.strip() for choice in doc["choices"]]
            logprob = letters[choices.index(request.args[1].strip())]
            responses.append((logprob, logprob == max(letters)))
        return responses

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        raise EpidemiaError("epidemia-baseline only answers questions: it cannot score other text")

    def generate_until(self, requests: list[Any]) -> list[str]:
        """Write a choice (the most likely, or a drawn one if sampled), or the way's text."""
        replies = []
        for request in requests:
            way, row, believed = self._believed(request)
            if (text := way.writes(believed, row)) is not None:
                replies.append(text)
                continue
            doc, letters = request.doc, self._letters(request)
            number = np.argmax(letters)
            if way.drawn:
                key = [self.seed, zlib.crc32(doc["task"].encode()), doc["cell"], doc["sample"]]
                drawn = np.random.default_rng(key).random()
                number = np.searchsorted(np.cumsum(np.exp(letters)), drawn, side="right")
            replies.append(doc["choices"][min(int(number), len(letters) - 1)].strip())
        return replies

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Join the messages: the answers do not depend on the text."""
        return "\n".join(message["content"] for message in chat_history)
