"""What a part of the package needs beyond the base install, said in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lm_eval_epidemia.errors import EpidemiaError

__all__ = ["needs"]


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Import in its block what an extra installs; if that is missing, say how to get it.

    Parameters
    ----------
    extra : str
        As pip knows it, for example ``"report"``.
    what : str
        What needs it, for example ``"plot"``.

    Raises
    ------
    EpidemiaError
        In place of a ModuleNotFoundError of another package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("lm_eval_epidemia"):
            raise
        raise EpidemiaError(
            f"{what} needs {error.name}: pip install 'lm-eval-epidemia[{extra}]'"
        ) from None
