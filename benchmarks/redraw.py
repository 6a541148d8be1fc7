"""Surveys drawn again, and respondents whose error is known: of `coverage.py` and its neighbours.

Code of its own: plain random draws of PSUs within strata (Rao and Wu, JASA 1988) or of sampled
units, not the package's balanced replicates, and other random numbers.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import joblib
import numpy as np
from scipy import sparse
from tqdm import tqdm

from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.respondents import simulate_answers
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.estimate import boosted, store
from lm_eval_epidemia.estimate.estimator import Prepared
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.score.score import scale_distance, zero_distance
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task
from lm_eval_epidemia.surveys.microdata import load_microdata

#: ACS is left out: with 3.4 million records its error is a tenth of the smallest of the others.
FILES = {
    "gss": "gss/GSS_2018_2021_2022_2024.parquet",
    "meps": "meps/HC243_panel27_subset.parquet",
    "nhanes": "nhanes",
    "nsduh": "nsduh/nsduh_2022.parquet",
    "scf": "scf/scfp2022.parquet",
}
GROUPS = ("epidemia_low", "epidemia_high")
SEED = 9090


# -- respondents ------------------------------------------------------------------------------


def tilted(truth, strength):
    """Move everybody's log-odds of the first level, or the level number's expectation if K > 2."""
    levels = truth.p.shape[1]
    if levels == 2:
        z = np.array([1.0, 0.0])
    else:
        z = np.arange(levels) - (levels - 1) / 2
        z /= z.std()
    moved = truth.p * np.exp(strength * z)
    return moved / moved.sum(axis=1, keepdims=True)


def sharpened(truth, power):
    """Raise probabilities to a power: below 1 flattened towards 1 / K, above it overstated."""
    raised = truth.p**power
    return raised / raised.sum(axis=1, keepdims=True)


RESPONDENTS = {
    "up": tilted,
    "down": lambda truth, strength: tilted(truth, -strength),
    "noisy": lambda truth, strength: simulate_answers(truth, "noisy", strength, seed=0),
    "noisy, other seed": lambda truth, strength: simulate_answers(truth, "noisy", strength, seed=1),
    "mean": lambda truth, strength: simulate_answers(truth, "mean"),
}
STRENGTH = 0.3


# -- surveys drawn again ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Redrawable:
    """A task whose survey can be drawn again.

    `psu` (n,) is the PSU, or the sampled unit without a design, of each record, an index into
    `strata` (M,), the same for all tasks of a survey.
    """

    truth: store.GroundTruth
    ready: Prepared
    psu: np.ndarray
    strata: np.ndarray

    @property
    def fewer(self) -> int:
        """Units drawn per stratum are fewer than it has by: 1 of PSUs (Rao and Wu), else none."""
        return int(self.strata.any())


@lru_cache(maxsize=2)
def redrawable(folder: Path, group: str) -> dict[str, list[Redrawable]]:
    """Prepare the tasks of a group whose microdata are here, by survey."""
    found = {}
    names = [name for name, _way in find_tasks(group)]
    for survey, file in FILES.items():
        truths = [store.load_truth(n) for n in names if declared_task(n).survey == survey]
        if not truths:
            continue
        data = load_microdata(find_record(survey), folder / file, truths[0].vintage)
        found[survey] = []
        for truth in truths:
            ready = prepare(data, declared_task(truth.task))
            sample = ready.sample
            if sample.stratum_of_psu is not None:
                psu, strata = sample.psu, sample.stratum_of_psu
            else:
                psu, strata = sample.numbers, np.zeros(sample.size, dtype=np.int64)
            found[survey].append(Redrawable(truth, ready, psu, strata))
    return found


def drawn(strata, rng, number, fewer, of=None):
    """Draw units within strata, with replacement, as many as there are less `fewer`.

    Parameters
    ----------
    strata : ndarray of int, shape (M,)
    of : ndarray of int, shape (M,), optional
        The unit that stands in each place of a stratum: a survey that was itself drawn.

    Returns
    -------
    ndarray of int, shape (number, D)
        Units.
    ndarray, shape (D,)
        What each counts for: n_h / (n_h - fewer).
    """
    order = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata)
    first = np.cumsum(sizes) - sizes
    times = sizes - fewer
    place = rng.integers(0, np.repeat(sizes, times), (number, times.sum()))
    place = order[place + np.repeat(first, times)]
    counts = np.repeat(sizes / np.maximum(times, 1), times)
    return (place if of is None else of[place]), counts


def factors(strata, rng, number, fewer, of=None):
    """Return what each unit's weight is multiplied by in each redrawn survey; (number, M)."""
    units, counts = drawn(strata, rng, number, fewer, of)
    flat = (np.arange(number)[:, None] * len(strata) + units).ravel()
    found = np.bincount(flat, np.tile(counts, number), minlength=number * len(strata))
    return found.reshape(number, len(strata))


def with_replicates(tasks, rng, number, replicates):
    """Draw all counted tasks of a survey again and again, each time with replicates of its own.

    A survey draws as many PSUs of a stratum as there are, with replacement; its replicates are Rao
    and Wu's of what it drew.

    Yields
    ------
    list of ndarray, shape (1 + B, C, K)
        P(Y | X) of each task: of the survey, then of its replicates.
    """
    strata = tasks[0].strata
    order = np.argsort(strata, kind="stable")
    for units in drawn(strata, rng, number, 0)[0]:
        of = np.empty(len(strata), dtype=np.int64)
        of[order] = units
        survey = np.bincount(of, minlength=len(strata))[None]
        again = factors(strata, rng, replicates, tasks[0].fewer, of)
        yield [counted(task, np.concatenate([survey, again])) for task in tasks]


@lru_cache(maxsize=128)
def _totals(task: Redrawable):
    """Weighted totals of each unit by cell and level, (M, C K), of a counted task."""
    cells, levels = task.truth.p.shape
    flat = task.ready.cell * levels + task.ready.outcome
    shape = len(task.strata), cells * levels
    return sparse.csr_matrix((task.ready.sample.weight, (task.psu, flat)), shape=shape)


def counted(task: Redrawable, factor):
    """Estimate P(Y | X) of a counted task in redrawn surveys; (R, C, K)."""
    totals = np.asarray((_totals(task).T @ factor.T).T).reshape(len(factor), *task.truth.p.shape)
    in_cell = totals.sum(axis=2, keepdims=True)
    everyone = totals.sum(axis=1, keepdims=True) / totals.sum(axis=(1, 2), keepdims=True)
    return np.where(in_cell > 0, totals / np.where(in_cell > 0, in_cell, 1.0), everyone)


def fitted(ready, weights, seeds, key):
    """Estimate P(Y | X) of a boosted task from given weights, averaged over fold seeds."""
    fits = [
        ready.estimator.fit(ready, weights, np.random.default_rng([*key, seed]))
        for seed in range(seeds)
    ]
    return np.mean(fits, axis=0)


def _boosted(task: Redrawable, factor):
    seeds = boosted.seeds_of_survey(task.ready.units)
    weight = task.ready.sample.weight
    # Folds of its own for each task, as in the package: their noise is not shared.
    own = zlib.crc32(task.truth.task.encode())
    return np.stack(
        [
            fitted(task.ready, weight * f[task.psu], seeds, (SEED, own, r))
            for r, f in enumerate(factor)
        ]
    )


#: Surveys of a group once redrawn, for the two parts that look at them.
_redrawn: dict[str, dict] = {}


def redrawn(options, group):
    """Draw all surveys of a group anew: by survey, truths and their P(Y | X), (R, C, K)."""
    if group in _redrawn:
        return _redrawn[group]
    estimate = counted if group == "epidemia_low" else _boosted
    names, truths, calls = [], [], []
    for position, (survey, tasks) in enumerate(redrawable(options.data, group).items()):
        rng = np.random.default_rng([SEED, 0, position])
        factor = factors(tasks[0].strata, rng, options.redraws, tasks[0].fewer)
        for task in tasks:
            names.append(survey)
            truths.append(task.truth)
            calls.append(joblib.delayed(estimate)(task, factor))
    jobs = options.jobs if estimate is _boosted else 1
    made = joblib.Parallel(jobs, return_as="generator")(calls)
    found: dict = {}
    for survey, truth, p in zip(names, truths, tqdm(made, group, len(calls)), strict=True):
        found.setdefault(survey, []).append((truth, p))
    _redrawn[group] = found
    return found


@dataclass(frozen=True, eq=False)
class DrawnPart(Part):
    """A task in a drawn survey, whose replicates are not read: P(Y | X) at each, (B, C, K)."""

    again: np.ndarray

    @property
    def replicates(self):
        return self.again


# -- scores -----------------------------------------------------------------------------------


def scores(truth, q, p):
    """Scores of q against truths p (..., C, K), D_perfect kept; (...)."""
    return scale_distance(
        distance(truth.weights, p, q), zero_distance(truth.weights, p), truth.d_perfect()
    )


# -- parts of a script ------------------------------------------------------------------------


def met(holds: bool) -> str:
    return "bound met" if holds else "bound NOT met"


def run(parser: argparse.ArgumentParser, parts: dict[str, Callable]) -> None:
    """Read what was typed, and run the part that it names, or all."""
    parser.add_argument("--part", choices=parts, help="one of the parts; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    for name in [options.part] if options.part else parts:
        print(f"\n## {name}: {parts[name].__doc__.splitlines()[0]}\n", flush=True)
        parts[name](options)
