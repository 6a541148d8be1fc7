"""Texts and numbers of files: read as they may be, and written in one form."""

from __future__ import annotations

import hashlib
import math
from typing import Any


def printable(text: str) -> str:
    """Return a text from a file in one line, with a mark for unprintable characters."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def encodable(text: str) -> str:
    """Return a text from a file with what cannot be printed, or held by a table, spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def number_in(value: Any) -> float:
    """Read a number that may be missing or "N/A"."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def as_given(value: Any) -> str:
    """Write a setting as it was given: lm-eval keeps a ``--limit`` of 4 as 4.0."""
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def plainly(value: Any) -> str:
    """Write a setting in one form: 0.50, "0.5" and 0.5 are equal."""
    if isinstance(value, bool):
        return str(value)
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)


def sha_of(known: str | None, text: Any) -> str:
    """Return the hash of a text that older files lack; empty without a text."""
    return known or (
        hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest() if text else ""
    )
