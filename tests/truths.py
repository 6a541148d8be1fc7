"""A small ground truth to write: for tests, and for the processes that they kill while they write.

It imports little, so that such a process starts fast.
"""

import random
import sys
from pathlib import Path

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.estimate.write import write_truth

HEROIN = "epidemia_low_nsduh_heroin_ever_by_age"
AGES = (
    "12-13",
    "14-15",
    "16-17",
    "18-20",
    "21-23",
    "24-25",
    "26-29",
    "30-34",
    "35-49",
    "50-64",
    "65 or older",
)


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
    from lm_eval_epidemia.core.errors import EpidemiaError

    what, *given = sys.argv[1:]
    if what == "killed":
        # By itself, before the n-th change of the folder.
        import os
        import signal

        left = int(given[0])

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
        enter(0.5)
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
    elif what == "limited":
        # The kernel refuses to write more than so many bytes to a file, as on a full disk.
        import resource

        sys.dont_write_bytecode = True
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(given[0]), int(given[0])))
        try:
            enter(0.5)
        except EpidemiaError as error:
            sys.exit(f"error: {error}")
    elif what == "enter":
        enter(float(given[0]), given[1])
    elif what == "at work":
        # Holds the place of a build until it is told to end.
        from lm_eval_epidemia.estimate.unfinished import unfinished

        with unfinished(Path(given[0]), "nsduh_2023"):
            print("at work", flush=True)
            sys.stdin.readline()
