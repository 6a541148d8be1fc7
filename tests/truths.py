"""A small ground truth to write: for tests, and for the processes that they kill while they write.

It imports little, so that such a process starts fast.
"""

import random
import sys
from pathlib import Path

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.estimate.write import write_truth

HEROIN = "epidemia_low_nsduh_heroin_ever_by_age"
AGES = ("12-13", "14-15", "16-17", "18-20", "21-23", "24-25", "26-29", "30-34", "35-49", "50-64")
AGES += ("65 or older",)


def enter(share, key="nsduh_2023", folder=None):
    """Write a truth of one task, in which everybody says yes with the same probability."""
    rows = [
        {
            "cell": c,
            "given": [age],
            "weight": 1 / len(AGES),
            "n": 9,
            "n_eff_iid": 9.0,
            "n_eff_design": None,
            "p": [share, 1 - share],
        }
        for c, age in enumerate(AGES)
    ]
    rng = random.Random(share)
    made = {
        "cells": rows,
        "replicates": [
            {"cell": c, "steps": [rng.randrange(-99, 99) for _ in range(100)]}
            for c in range(len(AGES))
        ],
        "distances": {"iid": [rng.random() for _ in range(200)]},
        "entry": {
            "estimator": "bins",
            "columns": {"heroin_ever": "herever", "age": "AGE3"},
            "levels": ["Yes", "No"],
            "bootstrap": {"iid": {"replicates": 200, "seed": 1}},
            "replicates": {"number": 100, "step": 1e-6},
        },
    }
    survey, vintage = key.split("_")
    about = {"survey": survey, "vintage": vintage}
    write_truth(folder or paths.home() / "groundtruth", key, about, {HEROIN: made})


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "killed":
        # For every number that it is told, a child that kills itself before the n-th change of the
        # folder; says how that one ended.
        import os
        import signal

        import filelock  # noqa: F401 (once, not in every child)
        import pandas  # noqa: F401
        import pyarrow.parquet  # noqa: F401

        left = 0

        def at(change):
            def counted(*arguments, **options):
                global left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return change(*arguments, **options)

            return counted

        for name in ("replace", "rename", "unlink", "chmod"):
            setattr(Path, name, at(getattr(Path, name)))
        for line in sys.stdin:
            left = int(line)
            if not (child := os.fork()):
                enter(0.5)
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    elif what == "slow":
        # Stops between reading a registry and writing it, until it is told to go on.
        from lm_eval_epidemia.estimate import registry

        read = registry.read_registry

        def slow(folder):
            found = read(folder)
            print("read", flush=True)
            sys.stdin.readline()
            return found

        registry.read_registry = slow
        enter(0.5, "nsduh_2023")
