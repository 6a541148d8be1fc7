"""Temporary replacement of methods and attributes on somebody else's object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, **methods: Any) -> Iterator[None]:
    """Replace an object's methods in a block; restore the old ones afterwards."""
    own = vars(owner)
    before = {name: own[name] for name in methods if name in own}  # of a run around this one
    own.update(methods)
    try:
        yield
    finally:
        for name in methods:
            del own[name]
        own.update(before)
