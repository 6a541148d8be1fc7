"""The ways of asking for priors: what a model expects a number to be, and how sure it is.

``direct`` and its variants: the model writes its prior. Four protocols, all with the same tag at
the end: the parameters of the quantity's family (``direct``), of a family that the model chooses
(``direct_choice``), mean and standard deviation (``mean_variance``), or five quantiles
(``quantile``). Each quantity is asked about five times.

``grid``: the log-probability of each of 41 numbers that a quantity may be; nothing is parsed. The
numbers lie equally spaced between the quantity's ends, which follow from the base variable without
its conditions, never from the truth. All have equally many decimals, at least one, so that none is
the beginning of another."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from lm_eval_epidemia.ask.replies.numbers import PERCENT, TAG, find_tag, labels, read_numbers
from lm_eval_epidemia.ask.responses import WRITTEN, logprobs_of
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import Answer, Way
from lm_eval_epidemia.benchmarks.prior.quantities import families, store
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES, LEVELS
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import STEPS, Quantities, Quantity
from lm_eval_epidemia.core.distance import Array

#: How often each quantity is asked about.
REPEATS = 5

#: Family and parameters of a reply in which there are none.
UNREAD = (math.nan, math.nan, math.nan)

Stated = tuple[float, float, float]


_ABOUT = (
    "The spread of your distribution is how unsure you are of this one number, which describes a "
    "whole population; it is not how much people differ from each other."
)


def _request(inside: str) -> str:
    return (
        "Reason briefly, then end your reply with exactly one tag that holds nothing but this:\n"
        f"<{TAG}>{inside}</{TAG}>"
    )


class AboutQuantities(Way):
    """A way of asking about the quantities of a set."""

    def load(self, task: str) -> Quantities:
        return store.load_quantities(task)

    def described(self, truth: Quantities) -> list[list[str]]:
        return truth.given


class StatedPrior(AboutQuantities):
    """A prior that is written in a tag at the end of a reply; a subclass for each form of it."""

    columns = {"sample": "int32", "family": "string", "unit": "string"}
    prompts_are = "estimates"
    diagnostics = WRITTEN
    system_prompts = True
    request = _request("...")
    temperature = 0.5
    revision = 1
    unread = "the marginal's flat prior"

    @abstractmethod
    def asked(self, quantity: Quantity) -> tuple[str, str]:
        """Return the sentence that asks for the prior, and what the tag holds."""

    @abstractmethod
    def stated(self, text: str | None, row: Any) -> Stated | None:
        """Read family and parameters in the text of a tag."""

    @abstractmethod
    def written(self, prior: Stated, row: Any) -> str:
        """Return the text of a tag for family and parameters."""

    def count_prompts(self, truth: Quantities, first: Answer) -> int:
        return REPEATS

    def rows(self, truth: Quantities, variant: Variant) -> Iterator[dict[str, Any]]:
        """Ask about each quantity `REPEATS` times, in texts that differ by a number.

        lm-eval stores responses by text: see `sampled`.
        """
        for cell, quantity in enumerate(truth.quantities):
            asked, inside = self.asked(quantity)
            kind = {"family": quantity.family, "unit": quantity.unit}
            for sample in range(1, REPEATS + 1):
                prompt = (
                    f"Consider this number: {quantity.wording}.\n{asked}\n{_ABOUT}\n"
                    f"(Estimate {sample})\n{_request(inside)}"
                )
                yield {"cell": cell, "sample": sample, **kind, "prompt": prompt}

    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read what a model wrote about a row."""
        stated = self.stated(find_tag(str(responses[0])), row) or UNREAD
        return self.answer(row, stated, row.sample - 1)

    def check(self, answer: Answer, first: Answer, truth: Quantities) -> None:
        """Refuse a repeat that is not asked."""
        if not 0 <= answer.place < REPEATS:
            raise ValueError(f"estimate {answer.place + 1} of {REPEATS}")

    def writes(self, belief: Array, row: Any) -> str:
        """Write the prior of a row's repeat, shape (REPEATS, 3), as the prompt asks for it."""
        family, a, b = np.asarray(belief, dtype=float)[row.sample - 1]
        return f"<{TAG}>{self.written((float(family), float(a), float(b)), row)}</{TAG}>"


def format_unit(quantity: Quantity) -> str:
    """Say in which unit a number is: "in cm", "as a proportion between 0 and 1", or nothing."""
    if quantity.family == "beta":
        return "as a proportion between 0 and 1"
    return f"in {quantity.unit}" if quantity.unit else ""


def _percent(row: Any) -> float:
    """What a per cent sign after a value means: nothing, of kilograms."""
    if row.family == "beta":
        return 0.01
    return 1.0 if re.search(PERCENT, row.unit) else math.nan


def _accept_prior(family: int, parameters: Sequence[Any] | None) -> Stated | None:
    """Return a prior if its parameters are those of a distribution."""
    if parameters is None or not families.is_valid(family, *parameters):
        return None
    a, b = parameters
    return float(family), float(a), float(b)


def _as(family: int, stated: Stated) -> Stated:
    """Return a prior as one of a family; by its moments, where it is of another."""
    if family == stated[0]:
        return stated
    a, b = families.of_moments(family, families.mean(*stated), families.sd(*stated))
    return float(family), float(a), float(b)


def _join_values(*values: Any) -> str:
    return ", ".join(repr(float(value)) for value in values)


# The parameters of a family.

_PARAMETERS = {
    "normal": "mean, standard deviation",
    "beta": "alpha, beta",
    "lognormal": "mu, sigma",
}

#: What they may be called in a tag.
_LABELS = {
    "normal": {"normal", "mean", "sd", "mu", "sigma", "loc", "scale"},
    "beta": {"beta", "alpha"},
    "lognormal": {"lognormal", "mu", "sigma"},
}


def _parameters(family: int, text: str | None, row: Any) -> Stated | None:
    """Read the two parameters of a family; those of a beta or a logarithm are no percentages."""
    percent = _percent(row) if family == families.NORMAL else math.nan
    return _accept_prior(
        family, read_numbers(text, 2, percent, row.unit, _LABELS[FAMILIES[family]])
    )


class Direct(StatedPrior):
    """The parameters of the family of the quantity."""

    name = "direct"

    def asked(self, quantity: Quantity) -> tuple[str, str]:
        unit = f" ({format_unit(quantity)})" if format_unit(quantity) else ""
        how = {
            "normal": f"a normal distribution: give its mean and standard deviation{unit}.",
            "beta": "a beta distribution over proportions between 0 and 1: give its parameters "
            "alpha and beta, both above 0.",
            "lognormal": "a lognormal distribution: give mu and sigma, the mean and the standard "
            f"deviation of the natural logarithm of the number{unit}.",
        }[quantity.family]
        return f"State what you believe about it as {how}", _PARAMETERS[quantity.family]

    def stated(self, text: str | None, row: Any) -> Stated | None:
        return _parameters(FAMILIES.index(row.family), text, row)

    def written(self, prior: Stated, row: Any) -> str:
        return _join_values(*_as(FAMILIES.index(row.family), prior)[1:])


class DirectChoice(StatedPrior):
    """A family that the model chooses, and its parameters."""

    name = "direct_choice"
    suffix = "_direct_choice"

    def asked(self, quantity: Quantity) -> tuple[str, str]:
        unit = f" {format_unit(quantity)}" if format_unit(quantity) else ""
        return (
            "State what you believe about it as a distribution of the family that fits best, and "
            "give the family's two parameters: normal (mean, standard deviation), beta (alpha, "
            "beta; for a number between 0 and 1) or lognormal (mu, sigma: the mean and the "
            "standard deviation of the number's natural logarithm). The number is stated"
            f"{unit or ' as it is'}.",
            "family: first parameter, second parameter",
        )

    def stated(self, text: str | None, row: Any) -> Stated | None:
        """Read a family, the only one that is named, and its parameters."""
        named = set(labels(text)) & set(FAMILIES)
        return _parameters(FAMILIES.index(named.pop()), text, row) if len(named) == 1 else None

    def written(self, prior: Stated, row: Any) -> str:
        return f"{FAMILIES[int(prior[0])]}: {_join_values(*prior[1:])}"


class MeanVariance(StatedPrior):
    """Mean and standard deviation."""

    name = "mean_variance"
    suffix = "_mean_variance"

    def asked(self, quantity: Quantity) -> tuple[str, str]:
        unit = f", {format_unit(quantity)}" if format_unit(quantity) else ""
        return (
            f"State what you believe about it by the mean and the standard deviation of your "
            f"distribution{unit}.",
            "mean, standard deviation",
        )

    def stated(self, text: str | None, row: Any) -> Stated | None:
        # Mu and sigma are the moments of any family but one.
        allowed = {"mean", "sd"} if row.family == "lognormal" else _LABELS["normal"]
        moments = read_numbers(text, 2, _percent(row), row.unit, allowed)
        family = FAMILIES.index(row.family)
        return _accept_prior(family, moments and families.of_moments(family, *moments))

    def written(self, prior: Stated, row: Any) -> str:
        return _join_values(families.mean(*prior), families.sd(*prior))


class Quantile(StatedPrior):
    """Five quantiles."""

    name = "quantile"
    suffix = "_quantile"

    def asked(self, quantity: Quantity) -> tuple[str, str]:
        unit = f", {format_unit(quantity)}" if format_unit(quantity) else ""
        return (
            "State what you believe about it by five quantiles of your distribution: the values "
            "that you think it is below with a probability of 5, 25, 50, 75 and 95 per cent"
            f"{unit}.",
            "q5, q25, q50, q75, q95",
        )

    def stated(self, text: str | None, row: Any) -> Stated | None:
        family = FAMILIES.index(row.family)
        quantiles = read_numbers(text, len(LEVELS), _percent(row), row.unit, {"quantile"})
        return _accept_prior(family, quantiles and families.of_quantiles(family, quantiles))

    def written(self, prior: Stated, row: Any) -> str:
        return _join_values(*families.ppf(*prior, LEVELS))


def format_grid(quantity: Quantity) -> list[str]:
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
    return np.array(format_grid(quantity), dtype=float)


class Grid(AboutQuantities):
    """The probability of each number of a quantity's grid."""

    name = "grid"
    suffix = "_grid"
    request = "Answer:"

    def rows(self, truth: Quantities, variant: Variant) -> Iterator[dict[str, Any]]:
        """Ask once for each quantity; the prompt ends where the number begins."""
        for cell, quantity in enumerate(truth.quantities):
            unit, choices = format_unit(quantity), format_grid(quantity)
            decimals = len(choices[0].partition(".")[2])
            how = f"a number with {decimals} decimal{'s' if decimals > 1 else ''}"
            yield {
                "cell": cell,
                "choices": choices,
                "prompt": f"What is {quantity.wording}?\n"
                f"Give {how}{f', {unit}' if unit else ''}.\nAnswer:",
            }

    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read the log-probabilities of the numbers."""
        return self.answer(row, logprobs_of(responses, row))

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


WAYS: dict[str, Way] = {
    way.name: way for way in (Direct(), DirectChoice(), MeanVariance(), Quantile(), Grid())
}
