"""Methods of somebody else's object that are ours for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, **methods: Callable[..., Any]) -> Iterator[None]:
    """Give an object methods of its own; afterwards it has those that it had, if any."""
    own = vars(owner)
    before = {name: own[name] for name in methods if name in own}  # of a run around this one
    own.update(methods)
    try:
        yield
    finally:
        for name in methods:
            del own[name]
        own.update(before)
