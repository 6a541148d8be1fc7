"""Between which ends the candidate values of a quantity lie: numbers with few digits."""

from __future__ import annotations

import math

#: A grid has one point more.
STEPS = 40

_MANTISSAS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


def span(mean: float, sd: float, least: float | None = None) -> tuple[float, float]:
    """Return ends that hold the marginal's mean and two standard deviations on each side.

    Equally spaced points between them, `STEPS` steps apart, have few digits.

    Parameters
    ----------
    mean, sd : float
        Of the base variable among all people. Nothing else: what is asked for must not show.
    least : float, optional
        Below which no value can be.

    Returns
    -------
    low, high : float
    """
    low, high = mean - 2 * sd, mean + 2 * sd
    if least is not None:
        low = max(low, least)
    exponent = math.floor(math.log10((high - low) / STEPS))
    for power in (exponent, exponent + 1):
        for mantissa in _MANTISSAS:
            digits = max(0, 1 - power)
            step = round(mantissa * 10.0**power, digits)
            first = math.floor(low / step + 1e-9) * step
            if first + STEPS * step >= high - 1e-9 * step:
                return round(first, digits), round(first + STEPS * step, digits)
    raise AssertionError("a step of ten times the size is always large enough")
