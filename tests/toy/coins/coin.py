"""``coin``: how probable is it that a coin falls heads at least k times in n tosses?"""

import hashlib
import math
from typing import NamedTuple

from lm_eval_epidemia.ask.prompts import prompt
from lm_eval_epidemia.ask.responses import CHOICE_MASS, logprobs_of
from lm_eval_epidemia.ask.way import Way
from lm_eval_epidemia.benchmarks.observation.likelihood import BIN_LETTERS, BINS


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


TASKS = {f"epidemia_coin_{n}_tosses": Coin(f"epidemia_coin_{n}_tosses", n) for n in (3, 5, 8)}


class CoinWay(Way):
    name = "coin"
    diagnostics = {"choice_mass": CHOICE_MASS}

    def load(self, task):
        return TASKS[task]

    def described(self, truth):
        return [[f"heads: {k + 1} or more"] for k in range(truth.tosses)]

    def rows(self, truth, variant):
        for cell in range(truth.tosses):
            question = (
                f"A fair coin is tossed {truth.tosses} times. How probable are {cell + 1} or more "
                "heads?"
            )
            yield {"cell": cell, "prompt": prompt(question, BINS)}

    def choices(self, truth):
        return BIN_LETTERS

    def read(self, row, responses):
        return self.answer(row, logprobs_of(responses, row))


WAY = CoinWay()
