"""How long a whole build takes, on one process and on two.

    python benchmarks/build.py --raw nsduh_2022.parquet [--survey nsduh] [--replicates 200]

Prints the time on two processes at the given number of replicates, the ratio of one process to two
at a tenth of them, and how the time grows with the replicates.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from lm_eval_epidemia.estimate.build import build


def timed(options: argparse.Namespace, jobs: int, replicates: int) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        built = build(
            options.survey, options.raw, jobs=jobs, replicates=replicates, out=Path(folder)
        )
        return time.perf_counter() - start, len(built.tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--survey", default="nsduh")
    parser.add_argument("--replicates", type=int, default=200)
    options = parser.parse_args()
    seconds, tasks = timed(options, 2, options.replicates)
    print(
        f"{tasks} tasks, {options.replicates} replicates (half with several conditions), both "
        f"schemes, 2 processes: {seconds / 60:.1f} minutes"
    )
    tenth = max(options.replicates // 10, 8)
    (one, _), (two, _) = timed(options, 1, tenth), timed(options, 2, tenth)
    print(f"{tenth} replicates: one process / two processes = {one / two:.2f}")
    half, _ = timed(options, 2, options.replicates // 2)
    print(f"{options.replicates} replicates / {options.replicates // 2} = {seconds / half:.2f}")


if __name__ == "__main__":
    main()
