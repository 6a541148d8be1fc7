"""The settings of asking in which scores must agree to be compared.

Also reads and writes texts and numbers of files.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Any


def printable(text: str) -> str:
    """Return a text from a file in one line, with a mark for unprintable characters."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


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


@dataclass(frozen=True)
class Protocol:
    """The settings in which scores must agree to be compared.

    All fields are empty by default. Its text (``str``) is what a reader sees, and the sort key of
    protocols.

    Attributes
    ----------
    variant : tuple of (str, str)
        Settings of the prompts, by key in ``--metadata``.
    num_fewshot : str
        lm-eval's own examples.
    system_prompt : str
        Its SHA-256.
    task_version : str
        If not the one of this package.
    truth, vintage : str
        Fingerprint and vintage of a truth other than the installed one.
    incomplete : bool
        Whether something was cut off.
    limit : str
        The ``--limit`` that caused it.
    drawn : tuple of (str, str)
        Generation settings of a model that writes, if not those of its way of asking.
    published : bool
        Whether these are published scores.
    """

    variant: tuple[tuple[str, str], ...] = ()
    num_fewshot: str = ""
    system_prompt: str = ""
    task_version: str = ""
    truth: str = ""
    vintage: str = ""
    incomplete: bool = False
    limit: str = ""
    drawn: tuple[tuple[str, str], ...] = ()
    published: bool = False

    def __str__(self) -> str:
        cut = f"limit {self.limit}" if self.limit else "incomplete"
        parts = [
            *(f"{key}={value}" for key, value in self.variant),
            self.num_fewshot and f"num_fewshot={self.num_fewshot}",
            self.system_prompt and f"system prompt {self.system_prompt[:8]}",
            self.task_version and f"task version {self.task_version}",
            self.truth and " ".join(["truth", *self.vintage.split(), self.truth]),
            cut * self.incomplete,
            *(f"{key}={value}" for key, value in self.drawn),
            "published" * self.published,
        ]
        return printable(", ".join(filter(None, parts)))

    def __lt__(self, other: Protocol) -> bool:
        # Two may read alike: of a system prompt only the beginning of its hash is shown.
        return (str(self), astuple(self)) < (str(other), astuple(other))
