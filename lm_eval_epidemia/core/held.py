"""What the disk declares, looked up once for a whole piece of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")

#: What was looked up in the block that is under way; None outside of one.
_held: ContextVar[dict[Callable[[], Any], Any] | None] = ContextVar("held", default=None)


@contextmanager
def held() -> Iterator[None]:
    """Hold what `looked_up` functions return until the block ends: it sees one state of the disk.

    Also a decorator. For work that declares nothing itself, such as reading results.
    """
    token = _held.set({} if (known := _held.get()) is None else known)
    try:
        yield
    finally:
        _held.reset(token)


def looked_up(look: Callable[[], T]) -> Callable[[], T]:
    """Call a function once in a block of `held`, and each time outside of one."""

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
