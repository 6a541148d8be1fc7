"""Confidence intervals of the probabilities that a survey estimates."""

from __future__ import annotations

import numpy as np

from lm_eval_epidemia.core.distance import Array


def interval(p: Array, n_eff: Array) -> tuple[Array, Array]:
    """Return 95 % intervals of true probabilities: Jeffreys', with effective sample sizes.

    Quantiles of ``Beta(p n + 1/2, (1 - p) n + 1/2)``, widened to include p if p lies outside, as
    for 0 or 1 (Brown, Cai and DasGupta 2001).

    Parameters
    ----------
    p : ndarray, shape (C, K)
    n_eff : ndarray, shape (C,)
        Infinite without sampling error: the interval is then p itself.

    Returns
    -------
    low, high : ndarray, shape (C, K)
    """
    from scipy import stats  # half of what importing the API would take

    exact = ~np.isfinite(n_eff)[:, None]
    n = np.where(exact, 1.0, n_eff[:, None])
    low, high = (stats.beta.ppf(level, p * n + 0.5, (1 - p) * n + 0.5) for level in (0.025, 0.975))
    return np.where(exact, p, np.minimum(low, p)), np.where(exact, p, np.maximum(high, p))
