"""Python's garbage collector, which a run of lm-eval keeps busy for nothing.

lm-eval makes a request of every letter of every prompt, millions of objects that all live until
the end of the run, and an entry of every task file; the collector goes through them again and
again. It rests while lm-eval indexes, builds and scores. While the model computes, whose memory may
hang on it, it works on what is new since.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_rest() -> Iterator[None]:
    """Stop the collector; afterwards it is as it was."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def at_work() -> Iterator[None]:
    """Within `at_rest`, let the collector see to what is made from here on."""
    was = gc.isenabled()
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        if not was:
            gc.disable()
        gc.unfreeze()
