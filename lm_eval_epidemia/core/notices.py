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
_tables: list[bool] = []


def warn(kind: str, message: str, in_lm_eval: str = "", of_table: str = "") -> None:
    """Log a warning, once; of a kind already shown `SHOWN` times, say once that there are more.

    A run has up to 169 tasks, each with several metrics, and what is wrong with one is often wrong
    with all.

    Parameters
    ----------
    kind, message : str
    in_lm_eval, of_table : str
        How the message ends for whoever runs lm-eval, and for whoever scores a table of answers
        that came about in another way.
    """
    message += of_table if _tables else in_lm_eval
    if _muted or message in _seen[kind]:
        return
    _seen[kind].add(message)
    if len(_seen[kind]) <= SHOWN:
        _logger.warning("epidemia: %s", message)
    elif len(_seen[kind]) == SHOWN + 1:
        where = "" if _tables else "; see the table of results"
        _logger.warning("epidemia: more tasks have this (%s)%s", kind, where)


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


@contextmanager
def of_tables() -> Iterator[None]:
    """Advise in its block those who score a table of answers, and start over as a run does."""
    forget()
    _tables.append(True)
    try:
        yield
    finally:
        _tables.pop()
