"""Respondents whose answers are known: they anchor the scale, and stand beside models.

Shapes as in `distance`: ``weights`` (C,), distributions (..., C, K).
"""

from __future__ import annotations

import numpy as np

from lm_eval_epidemia.distance import Array

__all__ = ["mean", "uniform", "zero_one"]


def uniform(p: Array) -> Array:
    """Return the respondent that knows nothing: 1/K for every level of every cell."""
    return np.full_like(p, 1.0 / p.shape[-1])


def mean(weights: Array, p: Array) -> Array:
    """Return the respondent that knows P(Y) and not how it depends on X."""
    marginal = np.einsum("c,...ck->...k", weights, p)
    return np.broadcast_to(marginal[..., None, :], p.shape).copy()


def zero_one(weights: Array, p: Array) -> Array:
    """Return the respondent that gives everyone the commoner answer (the first, if several tie)."""
    marginal = np.einsum("c,...ck->...k", weights, p)
    commonest = np.eye(p.shape[-1])[marginal.argmax(axis=-1)]
    return np.broadcast_to(commonest[..., None, :], p.shape).copy()
