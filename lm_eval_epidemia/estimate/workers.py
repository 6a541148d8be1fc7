"""The workers of a build: processes of this machine, or a cluster."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError

#: More processes of this machine are a slip, and can take all its memory.
MOST_PER_CORE = 8


def _end_with(parent: int) -> None:
    """End this process when its parent does, however that ended: a killed build says nothing."""

    def watch() -> None:
        while _lives(parent):
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _lives(parent: int) -> bool:
    """Tell whether the process that started this one still runs."""
    if os.name == "nt":
        # Windows gives no orphan another parent, but lets us hold on to the process itself.
        process = multiprocessing.parent_process()
        return process is None or process.is_alive()
    return os.getppid() == parent


def check_jobs(backend: str | None, jobs: int) -> None:
    """Refuse an invalid backend or number of processes, before long work starts."""
    import joblib

    if backend not in (None, "loky", "dask", "ray"):
        raise EpidemiaError(f"--backend {backend!r} is not known: expected loky, dask or ray")
    if jobs == 0:
        raise EpidemiaError("--jobs 0: expected at least 1, or -1 for all cores")
    cores = joblib.cpu_count()
    if backend in (None, "loky") and jobs > MOST_PER_CORE * cores:
        raise EpidemiaError(
            f"--jobs {jobs} on {cores} cores: each process holds a copy of the survey, and more "
            f"than {MOST_PER_CORE} per core only wait for each other: give {cores}, or -1"
        )


@contextmanager
def workers(backend: str | None, jobs: int) -> Iterator[None]:
    """Let joblib work on this machine's processes or on a dask or ray cluster."""
    import joblib

    options: dict[str, Any] = {"n_jobs": jobs}
    with ExitStack() as cluster:
        try:
            if backend == "dask":
                from distributed import Client

                address = os.environ.get("DASK_SCHEDULER_ADDRESS")
                local = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
                cluster.enter_context(Client(address) if address else Client(**local))
                options = {}
            elif backend == "ray":
                from ray.util.joblib import register_ray

                register_ray()
            else:
                options |= {"initializer": _end_with, "initargs": (os.getpid(),)}
        except ImportError as error:
            install = "pip install 'dask[distributed]', or ray"
            raise EpidemiaError(f"--backend {backend}: {error} ({install})") from None
        with joblib.parallel_config(backend or "loky", **options):
            yield
