"""Ground truth on disk: parquet files, the registry that vouches for them, and how they are read.

Two parquet files per survey and vintage, aggregates only, one row group per task::

    nsduh_2022.cells.parquet       task, cell, given, weight, n, n_eff_iid, n_eff_design, p
    nsduh_2022.bootstrap.parquet   task, scheme, replicate, distance
    registry.json                  where they come from, how they were made, their hashes

What a user built (in ``paths.home()``) is preferred to what the package ships; among vintages, the
one listed first in the survey record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia import paths
from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.errors import EpidemiaError, nearest
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.surveys.record import MAX_LEVELS, all_tasks, record
from lm_eval_epidemia.surveys.record import task as declared_task

if TYPE_CHECKING:
    import pyarrow.parquet

__all__ = [
    "QUANTILE",
    "REGISTRY",
    "GroundTruth",
    "Place",
    "all_places",
    "available",
    "built_groundtruth",
    "check",
    "load",
    "read_registry",
    "write_truth",
]

REGISTRY = "registry.json"
SCHEMA = 2

#: The quantile of the bootstrap distances that counts as "cannot be told from the truth".
QUANTILE = 0.95

State = Literal["shipped", "built here"]


@dataclass(frozen=True)
class GroundTruth:
    """The truth of one task.

    Attributes
    ----------
    task : str
        lm-eval name.
    survey, vintage : str
    levels : tuple of str, length K
        Labels of the answers.
    given : tuple of tuple of str, length C
        Labels of the conditions of each cell, in the order of the task's `given`.
    columns : dict of str to str
        The official column each variable was read from.
    weights : ndarray, shape (C,)
        P(X = x), summing to 1.
    n : ndarray of int, shape (C,)
        Sampled units in each cell; 0 for a published table.
    n_eff : ndarray, shape (C,)
        Effective sample size: design-based where the survey has strata and PSUs, else Kish's (bin
        counts) or from the bootstrap spread (LightGBM). Infinite for a published table.
    p : ndarray, shape (C, K)
        P(Y = y | X = x).
    distances : dict of str to ndarray
        Bootstrap distances D(P, P^(b)) by scheme.
    fingerprint : str
        First 12 hexadecimal digits of the hash of the cells file.
    state : str
        ``"shipped"`` or ``"built here"``.
    """

    task: str
    survey: str
    vintage: str
    levels: tuple[str, ...]
    given: tuple[tuple[str, ...], ...]
    columns: dict[str, str]
    weights: Array
    n: NDArray[np.int64]
    n_eff: Array
    p: Array
    distances: dict[str, Array]
    fingerprint: str
    state: State

    @property
    def scheme(self) -> Scheme:
        """The bootstrap that scores use: ``iid``, the published protocol, wherever it was built."""
        return "iid" if "iid" in self.distances else "design"

    def d_perfect(self, quantile: float = QUANTILE, scheme: Scheme | None = None) -> float:
        """Distance below which a respondent cannot be told from the truth; in [0, 2].

        Parameters
        ----------
        quantile : float
            Of the bootstrap distances; 0.95 unless told otherwise.
        scheme : {"iid", "design"}, optional
            By default the one that scores use.

        Returns
        -------
        float
            0 for a published table without sampling error.
        """
        if not self.distances:
            return 0.0
        scheme = scheme or self.scheme
        if scheme not in self.distances:
            raise EpidemiaError(
                f"{self.task} has no {scheme!r} bootstrap (it has {', '.join(self.distances)}): "
                f"rebuild with 'epidemia groundtruth build {self.survey} --bootstrap {scheme}'"
            )
        return float(np.quantile(self.distances[scheme], quantile))


class Place(NamedTuple):
    """Where the truth of a task is found."""

    folder: Path
    key: str
    state: State

    @property
    def vintage(self) -> str:
        return self.key.split("_", 1)[1]


def built_groundtruth() -> Path:
    """Return the folder of ground truth that the user built (it need not exist)."""
    return paths.home() / "groundtruth"


def read_registry(folder: Path) -> dict[str, Any]:
    """Return the truths of a folder by key ``<survey>_<vintage>``; empty without a registry."""
    path = folder / REGISTRY
    if not path.is_file():
        return {}
    return _parse_registry(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _parse_registry(path: Path, _mtime: int) -> dict[str, Any]:
    try:
        registry = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise EpidemiaError(f"{path} is damaged ({error}): rebuild the ground truth") from None
    if registry.get("schema") != SCHEMA:
        raise EpidemiaError(
            f"{path} has schema {registry.get('schema')!r}, this version reads {SCHEMA}: rebuild "
            "with 'epidemia groundtruth build'"
        )
    return registry["truths"]


def available() -> dict[str, Place]:
    """Return where the truth of every available task is, by task name."""
    return {name: places[0] for name, places in all_places().items()}


def all_places() -> dict[str, list[Place]]:
    """Return every vintage of every available task, by task name; the one that is used first."""
    places: dict[str, list[Place]] = {}
    folders: list[tuple[Path, State]] = [
        (built_groundtruth(), "built here"),
        (paths.shipped_groundtruth(), "shipped"),
    ]
    for folder, state in folders:
        truths = read_registry(folder)

        def preference(key: str, truths: dict[str, Any] = truths) -> tuple[str, int]:
            vintages = list(record(truths[key]["survey"]).vintages)
            vintage = truths[key]["vintage"]
            return truths[key]["survey"], vintages.index(vintage) if vintage in vintages else 99

        for key in sorted(truths, key=preference):
            for name in truths[key]["tasks"]:
                if name in all_tasks():
                    places.setdefault(name, []).append(Place(folder, key, state))
    return places


def load(name: str, vintage: str | None = None, state: State | None = None) -> GroundTruth:
    """Return the truth of a task, refusing files whose hash is not the registered one.

    Parameters
    ----------
    name : str
    vintage : str, optional
        By default the one that is used for scores.
    state : str, optional
        Only what was built here, or only what the package ships.

    Raises
    ------
    EpidemiaError
        If there is no such task, no truth for it, or a file was altered.
    """
    declared = declared_task(name)
    survey = record(declared.survey)
    places = [
        place for place in all_places().get(name, []) if state is None or place.state == state
    ]
    if vintage is not None:
        survey.vintage(vintage)
        here = [place.vintage for place in places]
        places = [place for place in places if place.vintage == vintage]
        if not places:
            raise EpidemiaError(
                f"{name} has no ground truth of {vintage} here, only of {', '.join(here) or 'none'}"
                f": epidemia groundtruth build {declared.survey} --vintage {vintage} --raw FILE"
            )
    if not places:
        official = survey.vintages[survey.official]
        raise EpidemiaError(
            f"{name} has no ground truth here: it needs {official.needed} ({official.page}). "
            f"Then: epidemia groundtruth build {declared.survey} --raw FILE"
        )
    place = places[0]
    return _load(name, place, (place.folder / REGISTRY).stat().st_mtime_ns)


@lru_cache(maxsize=512)
def _load(name: str, place: Place, _mtime: int) -> GroundTruth:
    truth = read_registry(place.folder)[place.key]
    entry = truth["tasks"][name]
    number = list(truth["tasks"]).index(name)
    rows = _read(place.folder, truth["files"]["cells"], number, name)
    distances = _read(place.folder, truth["files"]["bootstrap"], number, name)
    n_eff = rows["n_eff_design"] if "design" in entry["bootstrap"] else rows["n_eff_iid"]
    scheme = np.asarray(distances["scheme"].to_pylist())
    return GroundTruth(
        task=name,
        survey=truth["survey"],
        vintage=truth["vintage"],
        levels=tuple(entry["levels"]),
        given=tuple(map(tuple, rows["given"].to_pylist())),
        columns=entry["columns"],
        weights=rows["weight"].to_numpy(),
        n=rows["n"].to_numpy(),
        n_eff=n_eff.to_numpy(),
        p=rows["p"].combine_chunks().flatten().to_numpy().reshape(len(rows["p"]), -1),
        distances={
            name_: distances["distance"].to_numpy()[scheme == name_] for name_ in entry["bootstrap"]
        },
        fingerprint=truth["files"]["cells"]["sha256"][:12],
        state=place.state,
    )


def _read(folder: Path, file: dict[str, str], number: int, task: str) -> pyarrow.Table:
    """Read the rows of a task: its row group of a file whose hash is the registered one."""
    path = folder / file["name"]
    if not path.is_file():
        raise EpidemiaError(f"{path} is missing, though the registry lists it: rebuild it")
    rows = _verified(path, file["sha256"], path.stat().st_mtime_ns).read_row_group(number)
    # Bootstrap rows of an exact table: none, and so nothing to compare.
    if rows.num_rows and rows["task"].unique().to_pylist() != [task]:
        raise EpidemiaError(f"{path} has no rows of {task} where the registry puts them: rebuild")
    return rows


@lru_cache(maxsize=64)
def _verified(path: Path, sha256: str, _mtime: int) -> pyarrow.parquet.ParquetFile:
    """Open a parquet file after checking its hash."""
    if (found := paths.sha256_of(path)) != sha256:
        raise EpidemiaError(
            f"{path} was altered: its sha256 is {found[:12]}..., the registry says "
            f"{sha256[:12]}.... Reinstall the package, or rebuild with "
            f"'epidemia groundtruth build {path.name.split('_')[0]} --raw FILE'"
        )
    import pyarrow.parquet

    # In memory, so that no file stays open; the largest has a megabyte.
    return pyarrow.parquet.ParquetFile(pyarrow.BufferReader(path.read_bytes()))


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
        By task name what `build.estimate_task` returned.
    """
    import pyarrow as pa
    import pyarrow.parquet

    cells = pa.schema(
        [
            ("task", pa.string()),
            ("cell", pa.int32()),
            ("given", pa.list_(pa.string())),
            ("weight", pa.float64()),
            ("n", pa.int64()),
            ("n_eff_iid", pa.float64()),
            ("n_eff_design", pa.float64()),
            ("p", pa.list_(pa.float64())),
        ]
    )
    bootstrap = pa.schema(
        [
            ("task", pa.string()),
            ("scheme", pa.string()),
            ("replicate", pa.int32()),
            ("distance", pa.float64()),
        ]
    )
    rows = {
        "cells": (cells, {name: made["cells"] for name, made in tasks.items()}),
        "bootstrap": (
            bootstrap,
            {
                name: [
                    {"scheme": scheme, "replicate": number, "distance": distance}
                    for scheme, distances in made["distances"].items()
                    for number, distance in enumerate(distances)
                ]
                for name, made in tasks.items()
            },
        ),
    }
    files = {}
    for kind, (schema, content) in rows.items():
        path = folder / f"{key}.{kind}.parquet"
        with (
            paths.atomic_write(path) as temporary,
            pyarrow.parquet.ParquetWriter(temporary, schema, compression="zstd") as writer,
        ):
            # One row group per task, so that a task is read without the others.
            for name, found in content.items():
                listed = [{"task": name, **row} for row in found]
                writer.write_table(pa.Table.from_pylist(listed, schema=schema))
        total = sum(map(len, content.values()))
        files[kind] = {"name": path.name, "sha256": paths.sha256_of(path), "rows": total}
    entry = {
        **truth,
        "files": files,
        "tasks": {name: made["entry"] for name, made in tasks.items()},
    }
    truths = dict(sorted({**read_registry(folder), key: entry}.items()))
    with paths.atomic_write(folder / REGISTRY) as temporary:
        text = json.dumps({"schema": SCHEMA, "truths": truths}, indent=1, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def check(name: str) -> list[str]:
    """Return what is wrong with the truth of a task; an empty list when all is well.

    Hashes are verified by loading. Checked besides: weights and probabilities are distributions,
    sizes are positive, the levels are known to the record and can be lettered, and the bootstrap
    distances are distances.
    """
    try:
        truth = load(name)
    except EpidemiaError as error:
        return [str(error)]
    declared, survey = declared_task(name), record(truth.survey)
    place = available()[name]
    estimator = read_registry(place.folder)[place.key]["tasks"][name]["estimator"]
    wrong = []
    if not np.isclose(truth.weights.sum(), 1, atol=1e-9) or (truth.weights <= 0).any():
        wrong.append("cell weights are not positive shares that sum to 1")
    if (truth.p < 0).any() or not np.allclose(truth.p.sum(axis=1), 1, atol=1e-9):
        wrong.append("a row of P(Y | X) is not a distribution")
    if truth.p.shape != (len(truth.given), len(truth.levels)):
        wrong.append(f"P(Y | X) has shape {truth.p.shape}")
    if len(truth.levels) > MAX_LEVELS:
        wrong.append(f"{len(truth.levels)} levels cannot be lettered")
    if (truth.n < (estimator != "published table")).any() or not (truth.n_eff > 0).all():
        wrong.append("a cell has no records or no effective size")
    if len(set(truth.given)) < len(truth.given):
        wrong.append("two cells have the same conditions")
    for scheme, distances in truth.distances.items():
        if not ((distances >= 0) & (distances <= 2)).all() or len(distances) < 2:
            wrong.append(f"bootstrap distances ({scheme}) are not in [0, 2]")
    for position, variable in enumerate((declared.outcome, *declared.given)):
        try:
            known = {
                level.label
                for level in survey.way(variable, truth.columns[variable], truth.vintage).levels
            }
        except EpidemiaError as error:
            wrong.append(str(error))
            continue
        used = (
            set(truth.levels) if position == 0 else {labels[position - 1] for labels in truth.given}
        )
        if unknown := used - known:
            hint = nearest(min(unknown), known)
            wrong.append(f"levels of {variable} unknown to the record: {sorted(unknown)} ({hint})")
    return wrong
