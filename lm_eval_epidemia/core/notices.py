"""Warnings that do not flood: the first few of each kind are shown, the rest is mentioned once."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

SHOWN = 2

_logger = logging.getLogger("lm_eval_epidemia")
_seen: defaultdict[str, set[str]] = defaultdict(set)
_muted: list[bool] = []


def warn(kind: str, message: str) -> None:
    """Log a warning, once; of a kind already shown `SHOWN` times, say once that there are more.

    A run has up to 169 tasks, each with several metrics, and what is wrong with one is often wrong
    with all.
    """
    if _muted or message in _seen[kind]:
        return
    _seen[kind].add(message)
    if len(_seen[kind]) <= SHOWN:
        _logger.warning("epidemia: %s", message)
    elif len(_seen[kind]) == SHOWN + 1:
        _logger.warning("epidemia: more tasks have this (%s); see the table of results", kind)


def forget() -> None:
    """Start over, as at the beginning of a run."""
    _seen.clear()


@contextmanager
def muted() -> Iterator[None]:
    """Warn of nothing in its block: numbers are worked out from answers that are not all there."""
    _muted.append(True)
    try:
        yield
    finally:
        _muted.pop()
