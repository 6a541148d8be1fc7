"""One table of the report, for people; and how numbers are written, for them and for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple


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


def plain(value: Any) -> Any:
    """Return a value as JSON has it, at any depth: a number that is not finite is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def as_script(value: Any) -> str:
    """Write a value as the scripts of the site read it."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
