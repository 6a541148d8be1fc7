"""Check the available ground truth."""

from __future__ import annotations

import numpy as np

from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.estimate.published import Published
from lm_eval_epidemia.estimate.registry import entry_of
from lm_eval_epidemia.estimate.store import GroundTruth, all_places, load_truth
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task
from lm_eval_epidemia.surveys.record import MAX_LEVELS


def find_all_faults() -> dict[str, list[str]]:
    """Check every task with an available truth, in the vintage that scores use.

    Returns
    -------
    dict of str to list of str
        The faults by task; an empty list for a correct one.
    """
    return {name: find_faults(name) for name in all_places()}


def find_faults(name: str) -> list[str]:
    """Return the faults of a task's truth; an empty list if it is correct.

    Hashes are verified by loading. Checked besides: weights and
    probabilities are distributions, sizes are positive, the levels are the record's, in its order,
    and can be lettered, and the bootstrap distances and replicates are such.
    """
    try:
        truth = load_truth(name)
        replicates = truth.replicates
    except EpidemiaError as error:
        return [str(error)]
    estimator = entry_of(all_places()[name][0], name)[1]["estimator"]
    weights, p, n = truth.weights, truth.p, truth.n
    shares = (weights > 0).all() and np.isclose(weights.sum(), 1, atol=1e-9)
    distributions = (p >= 0).all() and np.allclose(p.sum(axis=1), 1, atol=1e-9)
    sized = (n >= (estimator != Published.name)).all() and (truth.n_eff > 0).all()
    is_so = {
        "cell weights are not positive shares that sum to 1": shares,
        "a row of P(Y | X) is not a distribution": distributions,
        f"P(Y | X) has shape {p.shape}": p.shape == (len(truth.given), len(truth.levels)),
        f"{len(truth.levels)} levels cannot be lettered": len(truth.levels) <= MAX_LEVELS,
        "a cell has no records or no effective size": sized,
        "two cells have the same conditions": len(set(truth.given)) == len(truth.given),
    }
    wrong = [text for text, well in is_so.items() if not well]
    for scheme, distances in truth.distances.items():
        if not ((distances >= 0) & (distances <= 2)).all() or len(distances) < 2:
            wrong.append(f"bootstrap distances ({scheme}) are not in [0, 2]")
    if not np.isfinite(replicates).all():
        wrong.append("a replicate of P(Y | X) is not a number")
    return wrong + _check_levels(truth)


def _check_levels(truth: GroundTruth) -> list[str]:
    """Compare the levels of a truth with those of the survey's record."""
    declared, survey, wrong = declared_task(truth.task), find_record(truth.survey), []
    labels = [truth.levels, *(dict.fromkeys(column) for column in zip(*truth.given, strict=True))]
    for variable, used in zip((declared.outcome, *declared.given), labels, strict=False):
        try:
            way = survey.reading(variable, truth.columns.get(variable, ""), truth.vintage)
        except EpidemiaError as error:
            wrong.append(str(error))
            continue
        known = [level.label for level in way.levels]
        if unknown := set(used) - set(known):
            hint = suggest(min(unknown), known)
            wrong.append(f"levels of {variable} unknown to the record: {sorted(unknown)} ({hint})")
        elif variable == declared.outcome and list(used) != known:
            wrong.append(f"levels of {variable} are {list(used)}, the record's {known}")
    return wrong
