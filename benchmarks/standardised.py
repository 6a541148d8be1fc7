"""Standardised effects by counts and by trees: which are near the population, and are errors true?

    python benchmarks/standardised.py --data FOLDER [--samples 400]

FOLDER has the survey files under the names in `redraw.FILES`. The population is the shipped sample,
ten of its strata taken for one; samples of it are drawn and counted as a build counts them. Beside
their mean and spread stands what the shipped boosted truth, which is an estimate from that very
population, makes of the same effect.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from drift import resampled
from redraw import GROUPS, SEED, Redrawable, _totals, redrawable
from tqdm import tqdm

from lm_eval_epidemia.benchmarks.observation.standardised import crude, standardised
from lm_eval_epidemia.estimate.sampling import shares
from lm_eval_epidemia.findings.standardised import CONTRASTS, strata


def effects(p: np.ndarray, joint: np.ndarray, everybody: np.ndarray) -> np.ndarray:
    """Return the crude and the standardised effect in points, (..., 2); p (..., 2, S)."""
    both = np.stack([crude(p, joint), standardised(p, everybody)], axis=-2)
    return 100 * (both[..., 1] - both[..., 0])


def estimated(task: Redrawable, laid, factor: np.ndarray) -> np.ndarray:
    """Return the effects in a sample and its replicates, (1 + B, 2); factor (1 + B, M).

    Where the sample has nobody of a level, a stratum is left out, as in a truth built of it.
    """
    flat = np.asarray((_totals(task).T @ factor.T).T)
    totals = flat.reshape(len(factor), *task.truth.p.shape)
    p = shares(totals, totals.sum(axis=1, keepdims=True) / totals.sum(axis=(1, 2), keepdims=True))
    here = (totals[0].sum(axis=-1)[laid.cells] > 0).all(axis=0)
    joint = totals[0].sum(axis=-1)[laid.cells[:, here]]
    return effects(p[:, laid.cells[:, here], 0], joint, laid.everybody[here])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the survey files")
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=100, help="of each sample")
    options = parser.parse_args()
    prepared = redrawable(options.data, GROUPS[1])
    tasks = {task.truth.task: task for of in prepared.values() for task in of}
    print(
        "| effect | trees | counts | mean over samples | sd | stated | sd / stated |\n"
        "|---|--:|--:|--:|--:|--:|--:|"
    )
    for contrast in CONTRASTS:
        if (task := tasks.get(contrast.task)) is None:
            continue
        laid = strata(contrast)
        assert laid is not None
        rng = np.random.default_rng([SEED, 7, CONTRASTS.index(contrast)])
        trees = effects(task.truth.p[laid.cells, 0], laid.joint, laid.everybody)
        (population,) = estimated(task, laid, np.ones((1, len(task.strata))))
        at = np.array(
            [
                estimated(
                    task, laid, resampled(task, rng, options.replicates, f"{contrast.task} {s}")
                )
                for s in tqdm(range(options.samples), contrast.task, leave=False)
            ]
        )
        mean, sd = at[:, 0].mean(axis=0), at[:, 0].std(axis=0, ddof=1)
        stated = at[:, 1:].std(axis=1, ddof=1).mean(axis=0)
        name = contrast.task.removeprefix("epidemia_high_")
        for place, kind in enumerate(("crude", "standardised")):
            print(
                f"| {name}, {kind} | {trees[place]:+.1f} | {population[place]:+.1f} | "
                f"{mean[place]:+.1f} ± {sd[place] / np.sqrt(len(at)):.1f} | {sd[place]:.2f} | "
                f"{stated[place]:.2f} | {sd[place] / stated[place]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
