"""Write ground truth: three parquet files per survey and vintage, then the registry.

At every moment the registry names complete files. New files never overwrite others: if a name is
taken, the hash is added to the name. Then the registry is replaced in one step, and finally files
that it no longer names are removed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.estimate.registry import REGISTRY, enter, locked, read_registry


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
        By task name what `task.estimate_task` returned.

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
    with locked(folder):
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
    if path.is_dir() or (path.exists() and paths.sha256_of(path) != sha256):
        path = folder / f"{stem}.{sha256[:12]}.parquet"
    with paths.writing(path):
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
    with paths.writing(folder):
        for path in list(folder.iterdir()):
            if ours.fullmatch(path.name) and path.name not in named and not path.is_dir():
                path.unlink()
