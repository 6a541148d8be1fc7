"""``direct`` and its variants: the model writes its prior about a quantity.

Four protocols, all with the same tag at the end: the parameters of the quantity's family
(``direct``), of a family that the model chooses (``direct_choice``), mean and standard deviation
(``mean_variance``), or five quantiles (``quantile``). Each quantity is asked about five times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.prior.quantities import families, store
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES, LEVELS
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Quantities, Quantity
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.replies.numbers import PERCENT, TAG, labels, numbers, tagged
from lm_eval_epidemia.elicit.responses import WRITTEN
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import Way

#: How often each quantity is asked about.
REPEATS = 5

#: Family and parameters of a reply in which there are none.
UNREAD = (math.nan, math.nan, math.nan)

Stated = tuple[float, float, float]


class Prior(NamedTuple):
    """A prior that a model wrote.

    Attributes
    ----------
    way, task, truth, cell
        As of every `Answer`.
    sample : int
        Which of the `REPEATS` this is, from 1.
    value : (float, float, float)
        The family's place in `FAMILIES`, and its two parameters; all NaN if none could be read.
    """

    way: str
    task: str
    truth: str
    cell: int
    sample: int
    value: Stated

    @property
    def place(self) -> int:
        return self.sample - 1

    @property
    def is_read(self) -> bool:
        return not math.isnan(self.value[0])


class _PriorProtocol(NamedTuple):
    """How a prior is stated.

    Attributes
    ----------
    name : str
    asked : callable
        From a quantity to the sentence that asks for it, and what the tag holds.
    read : callable
        From the text of a tag and the row to family and parameters, or None.
    written : callable
        From family and parameters, and the row, to the text of a tag.
    """

    name: str
    asked: Callable[[Quantity], tuple[str, str]]
    read: Callable[[str | None, Any], Stated | None]
    written: Callable[[Stated, Any], str]

    def rows(self, truth: Quantities, _variant: Variant) -> Iterator[dict[str, Any]]:
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

    def answer(self, row: Any, responses: Sequence[Any]) -> Prior:
        """Read what a model wrote about a row."""
        stated = self.read(tagged(str(responses[0])), row) or UNREAD
        return Prior(self.name, row.task, row.truth, row.cell, row.sample, stated)

    def writes(self, believed: Array, row: Any) -> str:
        """Write the prior of a row's repeat, shape (REPEATS, 3), as the prompt asks for it."""
        family, a, b = np.asarray(believed, dtype=float)[row.sample - 1]
        return f"<{TAG}>{self.written((float(family), float(a), float(b)), row)}</{TAG}>"


def in_unit(quantity: Quantity) -> str:
    """Say in which unit a number is: "in cm", "as a proportion between 0 and 1", or nothing."""
    if quantity.family == "beta":
        return "as a proportion between 0 and 1"
    return f"in {quantity.unit}" if quantity.unit else ""


def _percent(row: Any) -> float:
    """What a per cent sign after a value means: nothing, of kilograms."""
    if row.family == "beta":
        return 0.01
    return 1.0 if re.search(PERCENT, row.unit) else math.nan


def _checked(family: int, parameters: Sequence[Any] | None) -> Stated | None:
    """Return a prior if its parameters are those of a distribution."""
    if parameters is None or not families.valid(family, *parameters):
        return None
    a, b = parameters
    return float(family), float(a), float(b)


def _as(family: int, stated: Stated) -> Stated:
    """Return a prior as one of a family; by its moments, where it is of another."""
    if family == stated[0]:
        return stated
    a, b = families.of_moments(family, families.mean(*stated), families.sd(*stated))
    return float(family), float(a), float(b)


def _listed(*values: Any) -> str:
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
    return _checked(family, numbers(text, 2, percent, row.unit, _LABELS[FAMILIES[family]]))


def _ask_directly(quantity: Quantity) -> tuple[str, str]:
    unit = f" ({in_unit(quantity)})" if in_unit(quantity) else ""
    how = {
        "normal": f"a normal distribution: give its mean and standard deviation{unit}.",
        "beta": "a beta distribution over proportions between 0 and 1: give its parameters alpha "
        "and beta, both above 0.",
        "lognormal": "a lognormal distribution: give mu and sigma, the mean and the standard "
        f"deviation of the natural logarithm of the number{unit}.",
    }[quantity.family]
    return f"State what you believe about it as {how}", _PARAMETERS[quantity.family]


def _read_directly(text: str | None, row: Any) -> Stated | None:
    return _parameters(FAMILIES.index(row.family), text, row)


def _write_directly(stated: Stated, row: Any) -> str:
    return _listed(*_as(FAMILIES.index(row.family), stated)[1:])


# A family that the model chooses.


def _ask_for_choice(quantity: Quantity) -> tuple[str, str]:
    unit = f" {in_unit(quantity)}" if in_unit(quantity) else ""
    return (
        "State what you believe about it as a distribution of the family that fits best, and give "
        "the family's two parameters: normal (mean, standard deviation), beta (alpha, beta; for a "
        "number between 0 and 1) or lognormal (mu, sigma: the mean and the standard deviation of "
        f"the number's natural logarithm). The number is stated{unit or ' as it is'}.",
        "family: first parameter, second parameter",
    )


def _read_choice(text: str | None, row: Any) -> Stated | None:
    """Read a family, the only one that is named, and its parameters."""
    named = set(labels(text)) & set(FAMILIES)
    return _parameters(FAMILIES.index(named.pop()), text, row) if len(named) == 1 else None


def _write_choice(stated: Stated, _row: Any) -> str:
    return f"{FAMILIES[int(stated[0])]}: {_listed(*stated[1:])}"


# Moments and quantiles.


def _ask_for_moments(quantity: Quantity) -> tuple[str, str]:
    unit = f", {in_unit(quantity)}" if in_unit(quantity) else ""
    return (
        f"State what you believe about it by the mean and the standard deviation of your "
        f"distribution{unit}.",
        "mean, standard deviation",
    )


def _read_moments(text: str | None, row: Any) -> Stated | None:
    # Mu and sigma are the moments of any family but one.
    allowed = {"mean", "sd"} if row.family == "lognormal" else _LABELS["normal"]
    family, moments = FAMILIES.index(row.family), numbers(text, 2, _percent(row), row.unit, allowed)
    return None if moments is None else _checked(family, families.of_moments(family, *moments))


def _write_moments(stated: Stated, _row: Any) -> str:
    return _listed(families.mean(*stated), families.sd(*stated))


def _ask_for_quantiles(quantity: Quantity) -> tuple[str, str]:
    unit = f", {in_unit(quantity)}" if in_unit(quantity) else ""
    return (
        "State what you believe about it by five quantiles of your distribution: the values that "
        f"you think it is below with a probability of 5, 25, 50, 75 and 95 per cent{unit}.",
        "q5, q25, q50, q75, q95",
    )


def _read_quantiles(text: str | None, row: Any) -> Stated | None:
    family = FAMILIES.index(row.family)
    quantiles = numbers(text, len(LEVELS), _percent(row), row.unit, {"quantile"})
    return None if quantiles is None else _checked(family, families.of_quantiles(family, quantiles))


def _write_quantiles(stated: Stated, _row: Any) -> str:
    return _listed(*families.ppf(*stated, LEVELS))


# The ways.

_ABOUT = (
    "The spread of your distribution is how unsure you are of this one number, which describes a "
    "whole population; it is not how much people differ from each other."
)


def _request(inside: str) -> str:
    return (
        "Reason briefly, then end your reply with exactly one tag that holds nothing but this:\n"
        f"<{TAG}>{inside}</{TAG}>"
    )


def check(answer: Prior, _first: Prior, _truth: Quantities) -> None:
    """Refuse a repeat that is not asked."""
    if not 1 <= answer.sample <= REPEATS:
        raise ValueError(f"estimate {answer.sample} of {REPEATS}")


def _way(protocol: _PriorProtocol) -> Way:
    return Way(
        name=protocol.name,
        suffix="" if protocol.name == "direct" else f"_{protocol.name}",
        columns={"sample": "int32", "family": "string", "unit": "string"},
        rows=protocol.rows,
        choices=lambda truth: (),
        read=protocol.answer,
        prompts=lambda truth, answer: REPEATS,
        prompts_are="estimates",
        check=check,
        diagnostics=WRITTEN,
        request=_request("..."),
        writes=protocol.writes,
        system_prompts=True,
        temperature=0.5,
        revision=1,
        unread="the marginal's flat prior",
        load=store.load,
        described=lambda truth: truth.given,
    )


#: All of them, the plain one first.
ALL: tuple[Way, ...] = tuple(
    _way(protocol)
    for protocol in (
        _PriorProtocol("direct", _ask_directly, _read_directly, _write_directly),
        _PriorProtocol("direct_choice", _ask_for_choice, _read_choice, _write_choice),
        _PriorProtocol("mean_variance", _ask_for_moments, _read_moments, _write_moments),
        _PriorProtocol("quantile", _ask_for_quantiles, _read_quantiles, _write_quantiles),
    )
)
