"""How far two right computations of one network may lie apart, on any processor.

Kernels sum in an order that depends on the processor (its vector width, its number of threads) and
on the batch. A sum of n products, in whatever order, is within ``n eps`` of the exact one relative
to the size of its terms (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 3.5:
gamma_n), and a network is a chain of such sums. The tiny models of these tests have two layers of
at most 64 channels and read at most a few hundred positions: per layer three projections of 64, the
attention over the positions, its output and the two of the feed-forward part, 64, 64 and 128; then
the head, 64: `ROUNDINGS` in a row at most.

That is a bound, not an estimate: what is seen is less than a hundredth of it. A wrong mask, token
or position changes the log-probabilities of a random network by more than twenty times as much
(`test_real_model.py` looks).

For the real model of `real_model.py`, of 30 layers, that bound would hide a shifted position. Its
sums are long enough for the probabilistic one (Higham and Mary, A New Approach to Probabilistic
Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4): roundings are of either
sign, and n of them come to ``c sqrt(n)`` units, exceeded with a probability below
``2 exp(-c**2 / 2)``; c is 6, 3 in 100 million. A unit is half of `EPS`; two computations lie apart
by twice what each is off.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

#: Roundings from the prompt to a log-probability of a tiny model.
ROUNDINGS = 2 * (3 * 64 + 400 + 64 + 64 + 128) + 64

#: The same of the real model: 30 layers of 576 channels, 1,536 in between, prompts of up to 400.
REAL_ROUNDINGS = 30 * (3 * 576 + 400 + 576 + 576 + 1536) + 576

#: Distance from 1 to the next number, float32.
EPS = 2.0**-23

#: How far log-probabilities may lie apart, relative to their size.
TINY = ROUNDINGS * EPS
REAL = 6 * REAL_ROUNDINGS**0.5 * EPS


def log_probability(values: Iterable[float], relative: float = TINY) -> float:
    """Return how far log-probabilities may lie apart whose sizes are those of `values`."""
    return relative * max(1.0, *(abs(value) for value in values))


def metric(name: str, apart: float, width: float = 1.0) -> float:
    """Return how far a metric may lie apart when each log-probability lies `apart`.

    A probability normalised over the letters then changes by a factor within exp(+-2 apart), so
    that a distribution moves by at most ``exp(2 apart) - 1`` in L1, and with it the distance and
    twice the order bias; the mass of all letters, at most 1, by half as much. A score is 100 times
    the distance over the width of its scale, ``D_zero - D_perfect``; its standard error, the spread
    of such scores, moves by no more.

    Parameters
    ----------
    name : str
        Of the metric.
    apart : float
        As `log_probability` returns it.
    width : float
        ``D_zero - D_perfect``.
    """
    moved = float(np.expm1(2 * apart))
    return 100 * moved / width if name.startswith("score") else moved


def assert_same(ours, theirs, greedy=True, relative=TINY):
    """Check answers, each a list of (log-probability, whether greedy), against others."""
    for one, other in zip(ours, theirs, strict=True):
        found, expected = ([x for x, _ in answer] for answer in (one, other))
        apart = max(abs(a - b) for a, b in zip(found, expected, strict=True))
        assert apart <= log_probability(expected, relative), (apart, expected)
        if greedy:
            assert [flag for _, flag in one] == [flag for _, flag in other]
