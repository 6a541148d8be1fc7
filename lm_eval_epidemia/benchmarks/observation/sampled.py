"""``sampled``: as letters, but the model writes its answer, many times for each cell."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.observation import letters
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.orderings import LETTERS, SEED
from lm_eval_epidemia.elicit.prompts import ONE_LETTER, prompt
from lm_eval_epidemia.elicit.replies.letters import letter
from lm_eval_epidemia.elicit.responses import ANSWERED, uneven
from lm_eval_epidemia.elicit.variants import MOST_SAMPLES, Variant
from lm_eval_epidemia.elicit.way import Elicited, Metric, Way
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate.store import GroundTruth


class Reply(NamedTuple):
    """One answer that a model wrote to a question.

    Attributes
    ----------
    way, task, truth, cell
        As of every `Answer`.
    order : tuple of int, length K
        Level number at each displayed position.
    sample : int
        Which of the cell's answers this is, from 1.
    n_samples : int
        How many it has.
    position : int or None
        The position whose letter was written; None if none could be read.
    """

    way: str
    task: str
    truth: str
    cell: int
    order: tuple[int, ...]
    sample: int
    n_samples: int
    position: int | None

    @property
    def place(self) -> int:
        return self.sample - 1

    @property
    def value(self) -> float:
        """The level that was said; K if none could be read."""
        return len(self.order) if self.position is None else self.order[self.position]

    @property
    def is_read(self) -> bool:
        return self.position is not None


def rows(truth: GroundTruth, variant: Variant) -> Iterator[dict[str, Any]]:
    """Ask each cell as often as answers are wanted, each time in a random ordering of its own.

    The number of the interview makes every text different: lm-eval stores responses by text, and
    would give all answers to the same text the same response when a run is taken up again.
    """
    levels, number = len(truth.levels), variant.n_samples
    wording, key = Wording(truth, variant.wording), zlib.crc32(truth.task.encode())
    for cell in range(len(truth.given)):
        asked = wording.question(cell)
        rng = np.random.default_rng([SEED, key, cell])
        # Row by row: the first hundred of two hundred are those of a run with one hundred.
        orders = rng.permuted(np.tile(np.arange(levels), (number, 1)), axis=1)
        for sample, order in enumerate(orders.tolist(), start=1):
            answers = [truth.levels[level] for level in order]
            text = prompt(asked, answers, f"(Interview {sample})", ONE_LETTER)
            yield {
                "cell": cell,
                "order": order,
                "sample": sample,
                "n_samples": number,
                "prompt": text,
            }


def read(row: Any, responses: Sequence[Any]) -> Reply:
    """Read the letter that was written."""
    return Reply(
        "sampled",
        row.task,
        row.truth,
        row.cell,
        row.order,
        row.sample,
        row.n_samples,
        letter(str(responses[0]), len(row.order)),
    )


def check(answer: Reply, first: Reply, truth: GroundTruth) -> None:
    """Refuse what is no ordering of the levels, and another number of answers than the first's."""
    if answer.n_samples != first.n_samples:
        raise ValueError("it was asked in another way than the first")
    if sorted(answer.order) != list(range(len(truth.levels))):
        raise ValueError(
            f"the order {list(answer.order)} is not one of {len(truth.levels)} answers"
        )
    if not 1 <= answer.sample <= answer.n_samples <= MOST_SAMPLES:
        raise ValueError(f"answer {answer.sample} of {answer.n_samples}")


def distribution(said: Array, _one: Reply, levels: int) -> Elicited:
    """Count the answers; one that could not be read stands for all levels alike."""
    counts = (said[:, :, None] == np.arange(levels + 1)).sum(axis=1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    return Elicited(shares[:, :-1] + shares[:, -1:] / levels, counts=counts)


def by_position(replies: Sequence[Reply]) -> Array | None:
    """Return the share of each displayed position among the letters written; None without one."""
    written = [reply.position for reply in replies if reply.position is not None]
    if not written:
        return None
    counts = np.bincount(written, minlength=len(replies[0].order)).astype(float)
    shares: Array = counts / counts.sum()
    return shares


def order_bias(replies: Sequence[Reply]) -> float:
    """Position bias: total variation distance of the letters written from uniform, in [0, 1).

    NaN when none could be read. Letters are drawn, so it is above 0 by chance too.
    """
    shares = by_position(replies)
    return float("nan") if shares is None else uneven(shares)


WAY = Way(
    name="sampled",
    suffix="_sampled",
    columns={
        "order": ["int8"],
        "sample": "int32",
        "n_samples": "int32",
        "choices": ["string"],
    },
    rows=rows,
    prompts=lambda _truth, one: one.n_samples,
    prompts_are="answers",
    choices=lambda truth: LETTERS[: len(truth.levels)],
    read=read,
    check=check,
    distribution=distribution,
    diagnostics={"answered": ANSWERED, "order_bias": Metric(order_bias, False, 0, 1)},
    by_position=by_position,
    question=letters.WAY.question,
    answers=letters.WAY.answers,
    request=ONE_LETTER,
    example=letters.example,
    believed=letters.believed,
    temperature=1.0,
    # As many answers as a run wants: only the package makes these.
    exported=False,
    revision=1,
)
