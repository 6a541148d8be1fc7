"""Is drift seen where there is none, and is it seen where there is some?

    python benchmarks/drift.py --data FOLDER [--samples 1000] [--surveys gss,scf]

FOLDER has the survey files under the names in `redraw.FILES`. Of each survey two samples are drawn
from one population: PSUs with replacement from the shipped sample, ten of its strata taken for one,
since two PSUs of a stratum vary half as much as those that they were drawn from. Each sample has
replicates of its own, as a build makes them. They are compared as `vintages.py` compares
vintages: task by task, all tasks together, and again with the log-odds in the second
sample shifted. Where nothing is shifted, 5 % may show drift (3 to 7, up to Monte Carlo error).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from redraw import FILES, GROUPS, SEED, Redrawable, counted, drawn, factors, redrawable, tilted
from tqdm import tqdm
from vintages import LEVEL, chance, holm, p_value, unsure

from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.estimate.sampling import multiplicities

#: What the log-odds are moved by in the second sample; of several levels, by sd of their number.
SHIFTS = (0.0, 0.1, 0.2)

#: So many strata are one in the population.
MERGED = 10


def resampled(task: Redrawable, rng, number: int, name: str) -> np.ndarray:
    """Draw a survey and its replicates: factors of the weights of units, (1 + B, M), its own first.

    `name` names the random numbers of the replicates.
    """
    strata = task.strata
    of = np.empty(len(strata), dtype=np.int64)
    of[np.argsort(strata // MERGED, kind="stable")] = drawn(strata // MERGED, rng, 1, 0)[0][0]
    survey = np.bincount(of, minlength=len(strata))[None]
    if task.fewer:
        times = [multiplicities(strata, name, b) for b in range(number)]
        replicates = np.array([np.bincount(of, one, len(strata)) for one in times])
    else:
        replicates = factors(strata, rng, number, 0, of)
    return np.concatenate([survey, replicates])


def compared(task: Redrawable, first: np.ndarray, second: np.ndarray, shift: float):
    """Return the distance of two samples, the distances by chance, and their factors.

    To shift the estimates of the second is to weigh its people by their answers: counts of people
    of whom so many more give them.
    """
    flat = SimpleNamespace(p=second.reshape(-1, second.shape[-1]))
    second = tilted(flat, shift).reshape(second.shape)
    weights = task.truth.weights
    apart = float(distance(weights, first[0], second[0]))
    moved = first[1:] - first[0], second[1:] - second[0]
    return apart, chance(weights, *moved), unsure(weights, *moved)


def share(values: np.ndarray) -> str:
    """Write a mean over samples in per cent, with its Monte Carlo error; values (S,)."""
    return f"{100 * values.mean():.1f} ± {100 * values.std(ddof=1) / np.sqrt(len(values)):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the survey files")
    parser.add_argument("--samples", type=int, default=1000, help="pairs of samples of each survey")
    parser.add_argument("--replicates", type=int, default=100, help="of each sample")
    parser.add_argument("--surveys", default=",".join(FILES), help="of these only")
    options = parser.parse_args()
    print("Per cent of pairs of samples (± Monte Carlo error).\n")
    print(
        "| survey | log-odds shifted by | tasks | score below 100, by task | p <= 0.05, by task | "
        "least, most | any task, after Holm | all tasks together |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for survey, tasks in redrawable(options.data, GROUPS[0]).items():
        if survey not in options.surveys.split(","):
            continue
        rng = np.random.default_rng([SEED, 6, list(FILES).index(survey)])
        shape = len(SHIFTS), options.samples
        below, p = np.empty((2, *shape, len(tasks)))
        overall = np.empty(shape)
        for s in tqdm(range(options.samples), survey, leave=False):
            names = f"{survey} {s} 0", f"{survey} {s} 1"
            factor = [resampled(tasks[0], rng, options.replicates, name) for name in names]
            pair = [[counted(task, of) for task in tasks] for of in factor]
            for row, shift in enumerate(SHIFTS):
                both = [compared(*one, shift) for one in zip(tasks, *pair, strict=True)]
                p[row, s] = [p_value(apart, by * factor) for apart, by, factor in both]
                below[row, s] = [
                    apart > task.truth.d_perfect()
                    for task, (apart, *_) in zip(tasks, both, strict=True)
                ]
                ratios = [
                    (apart / by.mean(), by * factor / by.mean()) for apart, by, factor in both
                ]
                ratio, by_chance = (np.mean(of, axis=0) for of in zip(*ratios, strict=True))
                overall[row, s] = p_value(float(ratio), by_chance)
        for row, shift in enumerate(SHIFTS):
            found = p[row] <= LEVEL
            holds = np.array([min(holm(one)) <= LEVEL for one in p[row]])
            by_task = 100 * found.mean(axis=0)
            print(
                f"| {survey} | {shift:g} | {len(tasks)} | {share(below[row].mean(axis=1))} | "
                f"{share(found.mean(axis=1))} | {by_task.min():.1f}, {by_task.max():.1f} | "
                f"{share(holds)} | {share(overall[row] <= LEVEL)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
