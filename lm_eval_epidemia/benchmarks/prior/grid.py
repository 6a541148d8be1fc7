"""``grid``: the log-probability of each of 41 numbers that a quantity may be; nothing is parsed.

The numbers lie equally spaced between the quantity's ends, which follow from the base variable
without its conditions, never from the truth. All have equally many decimals, at least one, so that
none is the beginning of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.prior.protocols import in_unit
from lm_eval_epidemia.benchmarks.prior.quantities import families, store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import STEPS, Quantities, Quantity
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.responses import SingleAnswer, logprobs_of
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import Way


class Scored(SingleAnswer):
    """What a model gives to each number of a quantity's grid.

    Attributes
    ----------
    value : tuple of float, length G
        Natural logarithms, not normalised over the numbers.
    """


def written(quantity: Quantity) -> list[str]:
    """Return the numbers of a quantity's grid as a model reads them, in rising order.

    With as few decimals as move none by a twentieth of a step.
    """
    low, high = (0.0, 1.0) if quantity.family == "beta" else (quantity.low, quantity.high)
    exact, most = np.linspace(low, high, STEPS + 1), (high - low) / STEPS / 20
    decimals = next(d for d in count(1) if (np.abs(exact.round(d) - exact) < most).all())
    # Adding nothing makes 0 of -0.
    return [f"{x + 0.0:.{decimals}f}" for x in exact.round(decimals)]


def points(quantity: Quantity) -> Array:
    """Return the numbers of a quantity's grid, shape (G,)."""
    return np.array(written(quantity), dtype=float)


class Grid(Way):
    """The probability of each number of a quantity's grid."""

    name = "grid"
    suffix = "_grid"
    request = "Answer:"

    def load(self, task: str) -> Quantities:
        return store.load(task)

    def described(self, truth: Quantities) -> list[list[str]]:
        return truth.given

    def rows(self, truth: Quantities, variant: Variant) -> Iterator[dict[str, Any]]:
        """Ask once for each quantity; the prompt ends where the number begins."""
        for cell, quantity in enumerate(truth.quantities):
            unit, choices = in_unit(quantity), written(quantity)
            decimals = len(choices[0].partition(".")[2])
            how = f"a number with {decimals} decimal{'s' if decimals > 1 else ''}"
            yield {
                "cell": cell,
                "choices": choices,
                "prompt": f"What is {quantity.wording}?\n"
                f"Give {how}{f', {unit}' if unit else ''}.\nAnswer:",
            }

    def read(self, row: Any, responses: Sequence[Any]) -> Scored:
        """Read the log-probabilities of the numbers."""
        return Scored(self.name, row.task, row.truth, row.cell, logprobs_of(responses, row))

    def believed(self, belief: Array, row: Any) -> Array:
        """Return the probability of each number: of all that is nearer to it than to another.

        Parameters
        ----------
        belief : ndarray, shape (REPEATS, 3)
            Family and parameters; the first is what the respondent believes.
        row : struct

        Returns
        -------
        ndarray, shape (G,)
        """
        at = np.array(row.choices, dtype=float)
        edges = np.concatenate([[-np.inf], (at[1:] + at[:-1]) / 2, [np.inf]])
        family, a, b = np.asarray(belief, dtype=float)[0]
        return np.diff(families.cdf(family, a, b, edges))
