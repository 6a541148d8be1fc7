"""Write ground truth: three parquet files per survey and vintage, then the registry.

Until all tasks of a build are estimated, `open_unfinished` keeps those that are, each with a hash
of all its inputs.

At every moment the registry names complete files. New files never overwrite others: if a name is
taken, the hash is added to the name. Then the registry is replaced in one step, and finally files
that it no longer names are removed.
"""

from __future__ import annotations

import json
import platform
import re
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
from lm_eval_epidemia.estimate.estimator import Cells
from lm_eval_epidemia.estimate.registry import REGISTRY, enter, lock_folder, read_registry
from lm_eval_epidemia.estimate.sampling import Scheme


def write_truth(folder: Path, key: str, truth: dict[str, Any], tasks: dict[str, Any]) -> None:
    """Write the files of one survey and vintage and enter them in the folder's registry.

    Parameters
    ----------
    folder : Path
    key : str
        ``<survey>_<vintage>``.
    truth : dict
        The registry entry without `files` and `tasks`.
    tasks : dict
        By task name what `estimate_task` returned.

    Raises
    ------
    EpidemiaError
        If the folder cannot be written to; the old files are then kept.
    """
    import pyarrow as pa

    real, texts, cell = pa.float64(), pa.list_(pa.string()), pa.int32()
    sizes = {"n": pa.int64(), "n_eff_iid": real, "n_eff_design": real}
    columns = {
        "cells": {"cell": cell, "given": texts, "weight": real, **sizes, "p": pa.list_(real)},
        "bootstrap": {"scheme": pa.string(), "replicate": pa.int32(), "distance": real},
        "replicates": {"cell": cell, "steps": pa.list_(pa.int16())},
    }
    rows = {kind: {name: task.get(kind) for name, task in tasks.items()} for kind in columns}
    rows["bootstrap"] = {
        name: [
            {"scheme": scheme, "replicate": number, "distance": distance}
            for scheme, distances in task["distances"].items()
            for number, distance in enumerate(distances)
        ]
        for name, task in tasks.items()
    }
    with lock_folder(folder):
        files = {
            kind: _write_rows(folder, f"{key}.{kind}", columns[kind], content)
            for kind, content in rows.items()
        }
        entries = {name: task["entry"] for name, task in tasks.items()}
        enter(folder, key, {**truth, "files": files, "tasks": entries})
        _tidy(folder, key)


def _write_rows(
    folder: Path, stem: str, columns: dict[str, Any], content: dict[str, Any]
) -> dict[str, Any]:
    """Write a parquet file beside any other of its name; return what the registry says of it."""
    import pyarrow as pa
    import pyarrow.parquet

    schema = pa.schema({"task": pa.string(), **columns})
    with paths.atomic_write(folder / f"{stem}.new") as temporary:
        with pyarrow.parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
            # One row group per task, so that a task is read without the others.
            for name, rows in content.items():
                named = [{"task": name, **row} for row in rows]
                writer.write_table(pa.Table.from_pylist(named, schema=schema))
        sha256 = paths.sha256_of(temporary)
    path = folder / f"{stem}.parquet"
    if path.exists() and paths.sha256_of(path) != sha256:
        path = folder / f"{stem}.{sha256[:12]}.parquet"
    with paths.guard_write(path):
        (folder / f"{stem}.new").replace(path)
    return {"name": path.name, "sha256": sha256, "rows": sum(map(len, content.values()))}


def _tidy(folder: Path, key: str) -> None:
    """Remove files of this survey and vintage that the registry does not name: older ones, and
    what a killed build left; and nothing else."""
    named = {file["name"] for file in read_registry(folder)[key]["files"].values()}
    kinds = "cells|bootstrap|replicates"
    ours = re.compile(
        rf"{re.escape(key)}\.({kinds})(\.[0-9a-f]{{12}})?\.(parquet|new)"
        rf"|\.({re.escape(key)}\.({kinds})\.new|{re.escape(REGISTRY)})\.[^.]+"
    )
    with paths.guard_write(folder):
        for path in list(folder.iterdir()):
            if ours.fullmatch(path.name) and path.name not in named and not path.is_dir():
                path.unlink()


@contextmanager
def open_unfinished(folder: Path, name: str) -> Iterator[Path]:
    """Yield the folder of a build's finished tasks, to one build at a time."""
    import filelock

    kept = folder / f".{name}.unfinished"
    paths.check_writable(kept)
    try:
        with filelock.FileLock(kept / "lock", timeout=0):
            yield kept
            # All of it: a task may since have left the record, or have another name.
            shutil.rmtree(kept, ignore_errors=True)
    except filelock.Timeout:
        raise EpidemiaError(
            f"another build of {name} is running in {folder}: wait, or give another --out"
        ) from None


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


def read_kept(path: Path) -> dict[str, Any]:
    """Return what `keep` kept: ``made``, and the ``key`` of what it was made from."""
    return json.loads(path.read_text(encoding="utf-8"))
