"""Is the ground truth that is used here what it should be?"""

from __future__ import annotations

import numpy as np

from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.estimate.published import Published
from lm_eval_epidemia.estimate.registry import entry_of
from lm_eval_epidemia.estimate.store import GroundTruth, all_places, load
from lm_eval_epidemia.surveys.catalogue import record
from lm_eval_epidemia.surveys.catalogue import task as declared_task
from lm_eval_epidemia.surveys.record import MAX_LEVELS


def check_all() -> dict[str, list[str]]:
    """Check every task whose truth is here, the vintage of each that scores use.

    Returns
    -------
    dict of str to list of str
        What is wrong by task; an empty list for a task with which all is well.
    """
    return {name: check(name) for name in all_places()}


def check(name: str) -> list[str]:
    """Return what is wrong with the truth of a task; an empty list when all is well.

    Hashes are verified by loading. Checked besides: weights and probabilities are distributions,
    sizes are positive, the levels are the record's, in its order, and can be lettered, and the
    bootstrap distances and replicates are such.
    """
    try:
        truth = load(name)
        replicates = truth.replicates
    except EpidemiaError as error:
        return [str(error)]
    estimator = entry_of(all_places()[name][0], name)[1]["estimator"]
    wrong: list[str] = []
    if not np.isclose(truth.weights.sum(), 1, atol=1e-9) or (truth.weights <= 0).any():
        wrong.append("cell weights are not positive shares that sum to 1")
    if (truth.p < 0).any() or not np.allclose(truth.p.sum(axis=1), 1, atol=1e-9):
        wrong.append("a row of P(Y | X) is not a distribution")
    if truth.p.shape != (len(truth.given), len(truth.levels)):
        wrong.append(f"P(Y | X) has shape {truth.p.shape}")
    if len(truth.levels) > MAX_LEVELS:
        wrong.append(f"{len(truth.levels)} levels cannot be lettered")
    if (truth.n < (estimator != Published.name)).any() or not (truth.n_eff > 0).all():
        wrong.append("a cell has no records or no effective size")
    if len(set(truth.given)) < len(truth.given):
        wrong.append("two cells have the same conditions")
    for scheme, distances in truth.distances.items():
        if not ((distances >= 0) & (distances <= 2)).all() or len(distances) < 2:
            wrong.append(f"bootstrap distances ({scheme}) are not in [0, 2]")
    if replicates is not None and not np.isfinite(replicates).all():
        wrong.append("a replicate of P(Y | X) is no number")
    return wrong + _check_levels(truth)


def _check_levels(truth: GroundTruth) -> list[str]:
    """Compare the levels of a truth with those of the survey's record."""
    declared, survey, wrong = declared_task(truth.task), record(truth.survey), []
    for position, variable in enumerate((declared.outcome, *declared.given)):
        try:
            way = survey.way(variable, truth.columns.get(variable, ""), truth.vintage)
        except EpidemiaError as error:
            wrong.append(str(error))
            continue
        known = [level.label for level in way.levels]
        used = (
            set(truth.levels) if position == 0 else {labels[position - 1] for labels in truth.given}
        )
        if unknown := used - set(known):
            hint = nearest(min(unknown), known)
            wrong.append(f"levels of {variable} unknown to the record: {sorted(unknown)} ({hint})")
        elif position == 0 and list(truth.levels) != known:
            wrong.append(f"levels of {variable} are {list(truth.levels)}, the record's {known}")
    return wrong
