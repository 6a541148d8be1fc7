"""Pauses of Python's garbage collector, which costs a run of lm-eval much time for nothing.

lm-eval makes one request per letter of every prompt: millions of objects that live until the end of
the run, which the collector scans again and again. It is paused while lm-eval indexes, builds and
scores. While the model computes, it runs on new objects only, since the model may rely on it to
free memory.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_rest() -> Iterator[None]:
    """Pause the collector in a block; restore its state afterwards."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def at_work() -> Iterator[None]:
    """Within `at_rest`, let the collector run on objects created from here on."""
    was = gc.isenabled()
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        if not was:
            gc.disable()
        gc.unfreeze()
