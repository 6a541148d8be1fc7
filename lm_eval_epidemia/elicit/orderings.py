"""In which orders the answers are displayed."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from math import factorial

import numpy as np

from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.surveys.record import MAX_LEVELS

__all__ = ["LETTERS", "MAX_ORDERINGS", "SEED", "orderings"]

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")

#: All K! orderings are asked up to this many (K <= 5), else this many random ones.
MAX_ORDERINGS = 120

SEED = 20250


@lru_cache(maxsize=MAX_LEVELS)
def orderings(levels: int) -> tuple[tuple[int, ...], ...]:
    """Return the orderings in which K answers are displayed.

    Parameters
    ----------
    levels : int
        K, from 2 to 26.

    Returns
    -------
    tuple of tuple of int
        Each ordering lists level numbers by displayed position: ``(2, 0, 1)`` shows level 2 as A.
        All K! in lexicographic order when that is at most `MAX_ORDERINGS`, else `MAX_ORDERINGS`
        distinct random ones from a fixed seed, the same for every cell of every task with K
        levels.
    """
    if not 2 <= levels <= MAX_LEVELS:
        raise EpidemiaError(f"{levels} levels cannot be asked: expected 2 to {MAX_LEVELS} (A to Z)")
    if factorial(levels) <= MAX_ORDERINGS:
        return tuple(permutations(range(levels)))
    rng = np.random.default_rng([SEED, levels])
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < MAX_ORDERINGS:
        drawn[tuple(int(level) for level in rng.permutation(levels))] = None
    return tuple(drawn)
