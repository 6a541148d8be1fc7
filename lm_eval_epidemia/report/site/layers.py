"""The page on Pearl's hierarchy: an example of each layer, and the scores of runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from lm_eval_epidemia.benchmarks import INTERVENTION, OBSERVATION
from lm_eval_epidemia.findings.headline import Board

#: How often X equals Z, and Y equals Z.
SAME_X, SAME_Y = 0.9, 0.875


def _joint() -> dict[tuple[int, int, int], float]:
    """Return P(x, z, y), the same in both: one of X and Z is a fair coin, the other follows it."""
    return {
        (x, z, y): 0.5 * (SAME_X if x == z else 1 - SAME_X) * (SAME_Y if y == z else 1 - SAME_Y)
        for x, z, y in product((0, 1), repeat=3)
    }


def effects() -> dict[str, list[float]]:
    """Return P(Y = 1) for X = 0 and X = 1: seen, under do(X) in the fork, and in the chain."""
    joint = _joint()

    def total(**fixed: int) -> float:
        return sum(
            p
            for values, p in joint.items()
            if all(dict(zip("xzy", values, strict=True))[key] == v for key, v in fixed.items())
        )

    seen = [total(x=x, y=1) / total(x=x) for x in (0, 1)]
    return {"seen": seen, "fork": [total(y=1)] * 2, "chain": seen}


#: Of pupils who struggle and of others: how many, the share of them that is tutored, and the shares
#: that pass untutored and tutored.
PUPILS = ((500, 0.8, 0.40, 0.55), (500, 0.2, 0.80, 0.90))


def tutoring() -> dict[str, float]:
    """Return per cent of pupils that pass: seen with and without tutoring, under do(), and who of
    those who struggled, were tutored and passed would have passed anyway, if nobody is harmed.
    """
    everybody = sum(number for number, *_ in PUPILS)
    tutored = sum(number * share for number, share, *_ in PUPILS)
    parts = {
        "seen_with": sum(n * share * well for n, share, _, well in PUPILS) / tutored,
        "seen_without": sum(n * (1 - share) * alone for n, share, alone, _ in PUPILS)
        / (everybody - tutored),
        "do_with": sum(n * well for n, *_, well in PUPILS) / everybody,
        "do_without": sum(n * alone for n, _, alone, _ in PUPILS) / everybody,
        "anyway": PUPILS[0][2] / PUPILS[0][3],
    }
    return {name: 100 * part for name, part in parts.items()}


def shown(boards: Sequence[Board]) -> dict[str, Any]:
    """Return the contents of the page."""
    said = {board.benchmark.name: board.sentences[0] for board in boards}
    return {
        "effects": {name: [f"{p:.2f}" for p in values] for name, values in effects().items()},
        "tutoring": {name: f"{share:.1f}" for name, share in tutoring().items()},
        "layer_1": said.get(OBSERVATION.name, ""),
        "layer_2": said.get(INTERVENTION.name, ""),
    }
