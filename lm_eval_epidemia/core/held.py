"""A cache for declarations read from disk: each is read once for a whole piece of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")

#: The cache of the current block; None outside a block.
_held: ContextVar[dict[Callable[[], Any], Any] | None] = ContextVar("held", default=None)


@contextmanager
def held() -> Iterator[None]:
    """Cache what `looked_up` functions return until the block ends, so that the disk has one state.

    Also a decorator. For work that adds no declarations itself, such as reading results.
    """
    token = _held.set({} if (known := _held.get()) is None else known)
    try:
        yield
    finally:
        _held.reset(token)


def looked_up(look: Callable[[], T]) -> Callable[[], T]:
    """Call a function once per block of `held`, and every time outside a block."""

    @wraps(look)
    def now() -> T:
        known = _held.get()
        if known is None:
            return look()
        if look not in known:
            known[look] = look()
        value: T = known[look]
        return value

    return now
