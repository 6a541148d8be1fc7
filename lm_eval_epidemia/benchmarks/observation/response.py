"""The answer to one prompt about P(Y | X), for every way of asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Response(NamedTuple):
    """A model's answer to one prompt.

    Attributes
    ----------
    way, task, truth, cell, place
        As of every `Answer`.
    value : float or tuple of float, or None or tuple of None
        Log-probabilities of the choices, not normalised; or what was written, a number or one for
        each level, None if it could not be read: lm-eval writes answers into sample files, and
        NaN is no JSON.
    order : tuple of int, length K
        Level number at each displayed position; empty if the levels are not displayed.
    design : str or int
        Which prompts the cell has, the same in all answers to a task: a design of orderings (see
        `elicit.orderings`) or how many answers are drawn.
    numbers : tuple of float, length K, or None
        Of 100, by displayed position, of any sum, as they were written; None if there are none.
    """

    way: str
    task: str
    truth: str
    cell: int
    place: int
    value: Any
    order: tuple[int, ...] = ()
    design: str | int = ""
    numbers: tuple[float, ...] | None = None

    @property
    def is_read(self) -> bool:
        """Whether what was written could be read."""
        return None not in (self.value if isinstance(self.value, tuple) else (self.value,))


def response_to(way: str, row: Any, place: int, value: Any, **more: Any) -> Response:
    """Return the answer to a row of a split; see `Response`."""
    return Response(way, row.task, row.truth, row.cell, place, value, **more)


def place_of(order: Sequence[int], orders: Sequence[Sequence[int]], lacks: str) -> int:
    """Return which of some orderings one is.

    Raises
    ------
    ValueError
        If it is none of them: it `lacks` what they have.
    """
    if order not in orders:
        raise ValueError(f"the order {list(order)} is {lacks}")
    return orders.index(order)
