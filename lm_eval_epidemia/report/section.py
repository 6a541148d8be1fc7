"""One table of the report, for people."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Section", "number"]


class Section(NamedTuple):
    """One table of the report.

    Attributes
    ----------
    title : str
    columns : tuple of str
        The first names the model (or pair); the rest are texts, most of them numbers.
    rows : list of list of str
    note : str
        How to read it.
    named : int
        How many columns say what a row is of.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    note: str = ""
    named: int = 1


def number(value: float, digits: int) -> str:
    """Write a number; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.{digits}f}"
