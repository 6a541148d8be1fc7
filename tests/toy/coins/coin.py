"""``coin``: how probable is it that a coin falls heads at least k times in n tosses?"""

import hashlib
import math
from typing import NamedTuple

from lm_eval_epidemia.elicit.intervals import BIN_LETTERS, BINS
from lm_eval_epidemia.elicit.prompts import prompt
from lm_eval_epidemia.elicit.responses import CHOICE_MASS, logprobs_of
from lm_eval_epidemia.elicit.way import Way


class Coin(NamedTuple):
    task: str
    tosses: int

    @property
    def fingerprint(self):
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]

    def p(self, least):
        return (
            sum(math.comb(self.tosses, k) for k in range(least, self.tosses + 1)) / 2**self.tosses
        )


class Said(NamedTuple):
    way: str
    task: str
    truth: str
    cell: int
    value: tuple[float, ...]
    place: int = 0


TASKS = {f"epidemia_coin_{n}_tosses": Coin(f"epidemia_coin_{n}_tosses", n) for n in (3, 5, 8)}


def rows(coin, variant):
    for cell in range(coin.tosses):
        question = (
            f"A fair coin is tossed {coin.tosses} times. How probable are {cell + 1} or more heads?"
        )
        yield {"cell": cell, "prompt": prompt(question, BINS)}


WAY = Way(
    name="coin",
    suffix="",
    columns={"choices": ["string"]},
    rows=rows,
    choices=lambda coin: BIN_LETTERS,
    read=lambda row, said: Said("coin", row.task, row.truth, row.cell, logprobs_of(said, row)),
    prompts=lambda coin, one: 1,
    diagnostics={"choice_mass": CHOICE_MASS},
    load=TASKS.__getitem__,
    described=lambda coin: [[f"heads: {k + 1} or more"] for k in range(coin.tosses)],
)
