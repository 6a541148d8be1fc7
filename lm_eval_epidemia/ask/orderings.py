"""The orders in which answers are displayed.

A *design* selects them: ``all`` K! orderings, ``random:N`` distinct ones, ``balanced`` (K cyclic
shifts, so that each answer is once in each position) or ``1`` (as listed). By default all are used
if they are at most `MAX_ORDERINGS`, otherwise ``random:120``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import permutations
from math import factorial

import numpy as np

from lm_eval_epidemia.core.errors import EpidemiaError

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")

#: Without a design, all K! orderings are asked up to this many (K <= 5), else this many random
#: ones.
MAX_ORDERINGS = 120

#: ``all`` is refused beyond this (K = 7): nobody wants the 40,320 of K = 8 per cell by mistake.
MAX_ALL = 5_040

SEED = 20250


def design_of(levels: int, asked: str | int | None = None) -> str:
    """Return the full name of the design for K answers.

    Parameters
    ----------
    levels : int
        K, from 2 to 26.
    asked : str or int, optional
        ``all``, ``random:N``, ``balanced`` or ``1``.

    Returns
    -------
    str
        One of these; ``random:N`` with N >= K! is ``all``.

    Raises
    ------
    EpidemiaError
        If there is no such design, or it has too many orderings.
    """
    every = factorial(levels)
    design = f"random:{MAX_ORDERINGS}" if asked is None else str(asked)
    if design == "all" and every > MAX_ALL:
        raise EpidemiaError(
            f"{levels} answers have {every:,} orderings: give random:{MAX_ORDERINGS} or balanced"
        )
    if design in ("all", "balanced", "1"):
        return design
    if (match := re.fullmatch(r"random:(\d+)", design)) and int(match[1]) >= 2:
        return "all" if int(match[1]) >= every else design
    expected = "expected 'all', 'random:N' (N >= 2), 'balanced' or 1"
    raise EpidemiaError(f"orderings {design!r} is not known: {expected}")


@lru_cache(maxsize=256)
def orderings(levels: int, asked: str | int | None = None) -> tuple[tuple[int, ...], ...]:
    """Return the orderings in which K answers are displayed.

    Parameters
    ----------
    levels : int
        K, from 2 to 26.
    asked : str or int, optional
        The design, see `design_of`.

    Returns
    -------
    tuple of tuple of int
        Each ordering lists level numbers by displayed position: ``(2, 0, 1)`` shows level 2 as A.
        All K! in lexicographic order; or distinct random ones from a fixed seed, the same for every
        cell of every task with K levels; or the K cyclic shifts; or the one as listed.
    """
    design = design_of(levels, asked)
    if design == "all":
        return tuple(permutations(range(levels)))
    if design == "1":
        return (tuple(range(levels)),)
    if design == "balanced":
        return tuple(
            tuple((shift + place) % levels for place in range(levels)) for shift in range(levels)
        )
    rng = np.random.default_rng([SEED, levels])
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < int(design.removeprefix("random:")):
        drawn[tuple(int(level) for level in rng.permutation(levels))] = None
    return tuple(drawn)


def mirrored(levels: int) -> tuple[tuple[int, ...], ...]:
    """Return two orderings, as listed and reversed: all answers have the same mean position."""
    listed = tuple(range(levels))
    return listed, listed[::-1]
