"""Python's garbage collector, which a run of lm-eval keeps busy for nothing.

lm-eval makes a request of every letter of every prompt, millions of objects that all live until
the end of the run; the collector goes through them again and again. It rests while lm-eval builds
and scores. While the model computes, whose memory may hang on it, it works on what is new since.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_rest() -> Iterator[None]:
    """Stop the collector; what there is at the end is looked at again as ever."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
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
