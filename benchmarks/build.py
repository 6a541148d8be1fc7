"""How long a whole build takes, on one process and on two.

    python benchmarks/build.py --raw nsduh_2022.parquet [--survey nsduh] [--replicates 200]

Prints what drawing all strata of a design at once saves, the time on two processes at the given
number of replicates, the ratio of one process to two at a tenth of them, and how the time grows
with the replicates.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import timeit
from pathlib import Path

import numpy as np

from lm_eval_epidemia.estimate.build import build_survey
from lm_eval_epidemia.estimate.sampling import multiplicities


def timed(options: argparse.Namespace, jobs: int, replicates: int) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        built = build_survey(
            options.survey, options.raw, jobs=jobs, replicates=replicates, out=Path(folder)
        )
        return time.perf_counter() - start, len(built.tasks)


def strata_at_once(strata: int = 1900, psus: int = 4) -> float:
    """Return a replicate's time with a pass over all PSUs for each stratum, over ours."""
    rng = np.random.default_rng(0)
    stratum_of_psu = np.arange(strata * psus) // psus

    def one_by_one() -> None:
        factor = np.ones(len(stratum_of_psu))
        for stratum in np.unique(stratum_of_psu):
            own = np.flatnonzero(stratum_of_psu == stratum)
            drawn = rng.integers(0, len(own), len(own) - 1)
            factor[own] = np.bincount(drawn, minlength=len(own)) * len(own) / (len(own) - 1)

    slow = min(timeit.repeat(one_by_one, number=3, repeat=5))
    fast = min(timeit.repeat(lambda: multiplicities(stratum_of_psu, "toy", 7), number=3, repeat=5))
    return slow / fast


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--survey", default="nsduh")
    parser.add_argument("--replicates", type=int, default=200)
    options = parser.parse_args()
    print(f"1,900 strata: stratum by stratum / at once = {strata_at_once():.0f}")
    seconds, tasks = timed(options, 2, options.replicates)
    print(
        f"{tasks} tasks, {options.replicates} replicates (half with several conditions), all "
        f"schemes, 2 processes: {seconds / 60:.1f} minutes"
    )
    tenth = max(options.replicates // 10, 8)
    (one, _), (two, _) = timed(options, 1, tenth), timed(options, 2, tenth)
    print(f"{tenth} replicates: one process / two processes = {one / two:.2f}")
    half, _ = timed(options, 2, options.replicates // 2)
    print(f"{options.replicates} replicates / {options.replicates // 2} = {seconds / half:.2f}")


if __name__ == "__main__":
    main()
