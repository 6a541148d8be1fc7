"""One family of errors: what was given, what was expected, how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["EpidemiaError", "nearest"]


class EpidemiaError(ValueError):
    """Bad input, or ground truth that cannot be used; the message says how to mend it."""


def nearest(given: str, known: Iterable[str], n: int = 3) -> str:
    """Return a hint naming the known names closest to a wrong one.

    Parameters
    ----------
    given : str
        What the user wrote.
    known : iterable of str
        The names that exist.
    n : int
        How many names to offer at most.

    Returns
    -------
    str
        ``"nearest: a, b"``, or ``"known: ..."`` when nothing is close.
    """
    names = sorted(set(known))
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(given.casefold(), list(folded), n=n, cutoff=0.6)
    if close:
        return "nearest: " + ", ".join(folded[c] for c in close)
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return f"known: {shown or 'none'}"
