"""Ground truth by gradient boosting: LightGBM, out of fold, fitted on aggregates.

P(Y = 1 | x) is the weighted mean over a cell's records of their out-of-fold predictions. All
records of a cell share their features, so the fit sees each (cell, outcome) once, with the sum of
the weights of its records in the training folds: gradients and Hessians are the same sums, and a
fit takes milliseconds instead of seconds.

What differs from a fit on records are LightGBM's limits on *counts* of rows. They are replaced by
their equal on weights: a leaf needs the Hessian of `MIN_RECORDS` average records (its default asks
for 20 rows), and the limits on counts are set so low that none binds. How well this agrees with a
fit on records is measured in ``benchmarks/aggregation.py``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate.sampling import Codes, divide_totals

if TYPE_CHECKING:
    import lightgbm as lgb

FOLDS = 5
MIN_RECORDS = 20
ROUNDS = 500
PATIENCE = 10

#: Which records are in which fold is chance: an estimate is the mean over so many choices.
SEEDS = 10

#: Sampled units below which that chance matters in every replicate.
SMALL = 10_000

#: LightGBM's own defaults, except for what makes it deterministic.
PARAMETERS: dict[str, Any] = {
    "objective": "binary",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "seed": 0,
    "verbose": -1,
}

#: LightGBM's limits on row counts, switched off: a row is here a whole cell. `min_data_in_leaf`
#: has to be 0. LightGBM estimates the rows of a leaf from its share of the Hessian, so that with a
#: limit of 1 a condition of 2 % of the people counts as no row and is lost where cells are few.
AGGREGATED: dict[str, Any] = {
    "min_data_in_leaf": 0,
    "min_data_in_bin": 1,
    "min_data_per_group": 1,
    "cat_smooth": 1,
    "feature_pre_filter": False,
}


def settings() -> dict[str, Any]:
    """Return all numbers that a fit depends on besides the records, as the registry names them."""
    return {
        **PARAMETERS,
        **AGGREGATED,
        "folds": FOLDS,
        "rounds": ROUNDS,
        "patience": PATIENCE,
        "min_records": MIN_RECORDS,
        "fold_seeds": SEEDS,
    }


def seeds_of_replicate(units: int) -> int:
    """Return over how many choices of folds a joint replicate is averaged.

    Enough that the remaining noise of the folds is small compared with sampling error; this noise
    is larger in smaller surveys (docs/evidence/anchors.md has the measurements).
    """
    return 4 if units < SMALL else 1


def seeds_of_survey(units: int) -> int:
    """Return over how many choices of folds the estimate from a simulated survey is averaged."""
    return 2 if units < SMALL else 1


def assign_folds(units: Codes, rng: np.random.Generator, folds: int = FOLDS) -> Codes:
    """Put each sampled unit, with all its records, into one of the folds of equal size."""
    from sklearn.model_selection import GroupKFold

    deal = GroupKFold(folds, shuffle=True, random_state=int(rng.integers(2**32)))
    fold = np.empty(len(units), dtype=np.int64)
    for number, (_, held_out) in enumerate(deal.split(units, groups=units)):
        fold[held_out] = number
    return fold


def fit_aggregated(
    weight: Array,
    cell: Codes,
    outcome: Codes,
    fold: Codes,
    features: NDArray[Any],
    folds: int = FOLDS,
) -> Array:
    """Estimate P(Y | X) of a binary outcome by cross-validated gradient boosting.

    Parameters
    ----------
    weight : ndarray, shape (n,)
    cell, outcome, fold : ndarray of int, shape (n,)
        `outcome` is 0 or 1, the number of the level.
    features : ndarray, shape (C, d)
        Level numbers of the conditions of each cell.
    folds : int
        How many there are.

    Returns
    -------
    ndarray, shape (C, 2)
        Columns in the order of the levels. A cell without weight gets the mean prediction. Where
        only one outcome has weight, that is the estimate everywhere.
    """
    import lightgbm as lgb

    cells = len(features)
    flat = (cell * 2 + outcome) * folds + fold
    # Weights of mean 1, so that the Hessian of a leaf is on the scale of its records.
    totals = np.bincount(flat, weights=weight, minlength=cells * 2 * folds)
    totals = (totals * (len(weight) / weight.sum())).reshape(cells, 2, folds)
    share = totals[:, 1].sum() / totals.sum()
    if not (answered := totals.any(axis=(0, 2))).all():
        # All answer alike, so a leaf has no Hessian, and LightGBM fails.
        return np.tile(answered.astype(np.float64), (cells, 1))
    limit = {"min_sum_hessian_in_leaf": MIN_RECORDS * share * (1 - share)}
    rows, in_fold = features.astype(np.float64), totals.sum(axis=1)
    train, valid = _binned(rows.tobytes(), rows.shape)
    predicted = np.empty((cells, folds))
    for k in range(folds):
        held_out = totals[:, :, k]
        train.set_weight((totals.sum(axis=2) - held_out).T.ravel())
        valid.set_weight(held_out.T.ravel())
        # Booster.update with our own stopping rule: lgb.train's callbacks cost as much as a tree.
        booster = lgb.Booster({**PARAMETERS, **AGGREGATED, **limit}, train)
        booster.add_valid(valid, "held out")
        best_loss, best_round = np.inf, 0
        for iteration in range(1, ROUNDS + 1):
            stuck = booster.update()
            loss = booster.eval_valid()[0][2]
            if loss < best_loss:
                best_loss, best_round = loss, iteration
            if stuck or iteration - best_round >= PATIENCE:
                break
        predicted[:, k] = booster.predict(rows, num_iteration=best_round, num_threads=1)
    yes = (predicted * divide_totals(in_fold, 1 / folds)).sum(axis=1)
    return np.column_stack([1 - yes, yes])


@lru_cache(maxsize=1)
def _binned(features: bytes, shape: tuple[int, int]) -> tuple[lgb.Dataset, lgb.Dataset]:
    """Return what is fitted on and what tells when to stop, without their weights.

    The rows, one per cell and outcome, are the same in every fold and replicate of a task: binned
    once, a fit takes a quarter less time.
    """
    import lightgbm as lgb

    cells = np.frombuffer(features).reshape(shape)
    rows, answers = np.concatenate([cells, cells]), np.repeat([0.0, 1.0], len(cells))
    names = list(range(shape[1]))
    options: dict[str, Any] = {"free_raw_data": False, "params": {**PARAMETERS, **AGGREGATED}}
    train = lgb.Dataset(rows, answers, categorical_feature=names, **options).construct()
    return train, lgb.Dataset(rows, answers, reference=train, **options).construct()
