"""Warnings that do not flood: the first few of each kind are shown, the rest is mentioned once."""

from __future__ import annotations

import logging
from collections import Counter

__all__ = ["warn"]

SHOWN = 2

_logger = logging.getLogger("lm_eval_epidemia")
_seen: Counter[str] = Counter()


def warn(kind: str, message: str) -> None:
    """Log a warning of a kind; of a kind already shown `SHOWN` times, say once that there are more.

    A run has up to 169 tasks, and what is wrong with one is often wrong with all.
    """
    _seen[kind] += 1
    if _seen[kind] <= SHOWN:
        _logger.warning("epidemia: %s", message)
    elif _seen[kind] == SHOWN + 1:
        _logger.warning("epidemia: more tasks have this (%s); see the table of results", kind)
