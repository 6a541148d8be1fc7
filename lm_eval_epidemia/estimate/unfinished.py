"""Finished tasks of an interrupted build, each with a hash of all its inputs."""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.estimate import sampling
from lm_eval_epidemia.estimate.cells import Cells
from lm_eval_epidemia.estimate.sampling import Scheme


@contextmanager
def unfinished(folder: Path, name: str) -> Iterator[Path]:
    """Yield the folder of a build's finished tasks, to one build at a time."""
    import filelock

    kept = folder / f".{name}.unfinished"
    with paths.writing(kept):
        kept.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(kept / "lock")
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            raise EpidemiaError(
                f"another build of {name} is running in {folder}: wait until it ends, or write to "
                "another folder with --out"
            ) from None
    try:
        yield kept
        # All of it: a task may since have left the record, or have another name.
        shutil.rmtree(kept, ignore_errors=True)
    finally:
        lock.release()


def software() -> dict[str, str]:
    """Return the versions that the bytes of a truth depend on."""
    names = ("numpy", "scikit-learn", "lightgbm", "pyarrow")
    return {
        "lm-eval-epidemia": __version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: version(name) for name in names},
    }


def key_of(ready: Cells, schemes: tuple[Scheme, ...], replicates: int) -> str:
    """Hash the inputs of an estimate: the prepared records, and the options.

    The records are the outcome of file, survey record, design and adjustments, whatever these are.
    """
    import joblib

    code = [paths.sha256_of(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
    parameters = ready.estimator.parameters
    settings = (sampling.SEED, schemes, replicates, parameters, software(), code)
    return joblib.hash((ready, settings), hash_name="sha1")


def keep(path: Path, key: str, task: dict[str, Any]) -> None:
    """Keep what `estimate_task` returned, whole or not at all."""
    with paths.atomic_write(path) as temporary:
        temporary.write_text(json.dumps({"key": key, "made": task}), encoding="utf-8")


def kept(path: Path) -> dict[str, Any]:
    """Return the kept result of a task."""
    return _read(path)["made"]


def finished(path: Path, key: str) -> bool:
    """Tell whether an earlier, interrupted build has estimated a task from the same inputs."""
    try:
        return _read(path)["key"] == key
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
