"""Warnings in small doses: the first few of each kind are shown, the rest are mentioned once."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

SHOWN = 2

_logger = logging.getLogger("lm_eval_epidemia")
_seen: defaultdict[str, set[str]] = defaultdict(set)
_blocks: list[str] = []
_heard: list[list[tuple[str, str]]] = []


def warn(kind: str, message: str, in_lm_eval: str = "", of_table: str = "") -> None:
    """Log a warning once; after `SHOWN` of a kind, say once that there are more.

    A run has up to 169 tasks with several metrics each, and often all have the same problem.

    Parameters
    ----------
    kind, message : str
    in_lm_eval, of_table : str
        Endings of the message: one for a run of lm-eval, the other for scoring a table of answers
        (`block`).
    """
    for said in _heard:
        said.append((kind, message))
    message += of_table if "table" in _blocks else in_lm_eval
    if "muted" in _blocks or message in _seen[kind]:
        return
    _seen[kind].add(message)
    if len(_seen[kind]) <= SHOWN:
        _logger.warning("epidemia: %s", message)
    elif len(_seen[kind]) == SHOWN + 1:
        where = "" if "table" in _blocks else "; see the table of results"
        _logger.warning("epidemia: more tasks have this problem (%s)%s", kind, where)


def forget() -> None:
    """Forget what was shown, as at the start of a run."""
    _seen.clear()


@contextmanager
def collect_warnings() -> Iterator[list[tuple[str, str]]]:
    """Yield the list of the warnings in a block, as `warn` takes them."""
    _heard.append([])
    try:
        yield _heard[-1]
    finally:
        _heard.pop()


@contextmanager
def block(kind: Literal["muted", "table"]) -> Iterator[None]:
    """Suppress warnings in a block that scores incomplete answers on purpose, or word them for
    scoring a table of answers."""
    _blocks.append(kind)
    try:
        yield
    finally:
        _blocks.pop()
