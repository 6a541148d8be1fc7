"""One family of errors: what was given, what was expected, how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

__all__ = ["EpidemiaError", "few", "nearest"]


class EpidemiaError(ValueError):
    """Bad input, or ground truth that cannot be used; the message says how to mend it."""


def few(names: Sequence[str]) -> str:
    """Name the first three and count the others: ``"a, b, c and 4 more"``."""
    listed = ", ".join(names[:3])
    return listed if len(names) <= 3 else f"{listed} and {len(names) - 3} more"


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
    close = difflib.get_close_matches(str(given).casefold(), list(folded), n=n, cutoff=0.6)
    if close:
        return "nearest: " + ", ".join(folded[c] for c in close)
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return f"known: {shown or 'none'}"
