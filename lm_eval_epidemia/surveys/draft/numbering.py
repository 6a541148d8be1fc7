"""Whether whole numbers that differ for everybody number the people, or measure something."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: From this share of equal distances between neighbours on, numbers were counted up. Of what is
#: measured, people hardly ever all differ unless values lie far apart, and then no distance is
#: common (at most 0.05 of them in simulated salaries).
EQUAL = 0.2

#: Codes of random digits lie evenly: the Kolmogorov-Smirnov distance from a uniform distribution,
#: times the root of their number, is below this in 19 of 20 files. Salaries are above 2.
EVEN = 1.36

#: So many digits, as many for everybody, are a code: a telephone number, a date of birth.
DIGITS = 7


def numbers_people(values: NDArray[np.float64]) -> bool:
    """Tell whether numbers look like those of people: counted up, dealt out, or codes.

    Parameters
    ----------
    values : ndarray, shape (V,)
        Whole, in order, each once.
    """
    if len(values) < 2 or values[0] < 0:
        return False
    lowest, highest = float(values[0]), float(values[-1])
    steps = np.unique(np.diff(values), return_counts=True)[1]
    counted_up = steps.max() >= EQUAL * steps.sum()
    places = (values - lowest) / (highest - lowest)
    apart = np.abs(places - np.linspace(0, 1, len(values))).max()
    digits = len(f"{lowest:.0f}")
    of_one_width = digits >= DIGITS and digits == len(f"{highest:.0f}")
    return bool(counted_up or apart * np.sqrt(len(values)) < EVEN or of_one_width)
