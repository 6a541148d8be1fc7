"""Build the ground truth of a survey: every task its file allows, with its sampling error."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia import __version__, notices, paths
from lm_eval_epidemia.distance import Array, distance
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.estimate import bins, boosted
from lm_eval_epidemia.estimate.adjust import adjust
from lm_eval_epidemia.estimate.published import estimate_table
from lm_eval_epidemia.estimate.sampling import (
    Codes,
    Sample,
    Scheme,
    bootstrap_weights,
    design_effective_size,
    design_variance,
    kish_size,
    replicate_draws,
    unit_count,
)
from lm_eval_epidemia.estimate.store import built_groundtruth, write_truth
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata, load_microdata
from lm_eval_epidemia.surveys.read import raw_files
from lm_eval_epidemia.surveys.record import Record, Task, Variable, record
from lm_eval_epidemia.surveys.tables import PublishedTable, load_tables, tables_vintage

__all__ = ["SEED", "Built", "Prepared", "build", "estimate_task", "prepare"]

#: Every random choice of a build derives from this number, the task's name and the replicate.
SEED = 2022
SCHEMES: tuple[Scheme, ...] = ("iid", "design")


@dataclass(frozen=True)
class Prepared:
    """The records one task is estimated from.

    Attributes
    ----------
    task : Task
    levels : tuple of str, length K
    given : list of tuple of str, length C
        Labels of the conditions of each cell, cells in the order of the levels.
    features : ndarray of int, shape (C, d)
        Level numbers of the conditions of each cell.
    columns : dict of str to str
    sample : Sample
        With n records.
    cell, outcome : ndarray of int, shape (n,)
    weights : ndarray, shape (C,)
        P(X = x).
    dropped : dict of str to int
        Records left out, by reason.
    absent : list of str
        Levels of a single condition that no record has.
    adjustments : list of dict
        What was done to the weights.
    """

    task: Task
    levels: tuple[str, ...]
    given: list[tuple[str, ...]]
    features: NDArray[Any]
    columns: dict[str, str]
    sample: Sample
    cell: Codes
    outcome: Codes
    weights: Array
    dropped: dict[str, int]
    absent: list[str]
    adjustments: list[dict[str, Any]]


@dataclass(frozen=True)
class Built:
    """What a build made: the key in the registry, the folder, its tasks, and those left out."""

    key: str
    folder: Path
    tasks: list[str]
    left_out: list[str]


def prepare(data: Microdata, task: Task) -> Prepared:
    """Select the records of a task and number their cells.

    Records outside the universe, without an answer to the outcome or a condition, or with zero
    weight are dropped and counted. Cells are the combinations that occur.
    """
    keep = np.ones(len(data), dtype=bool)
    dropped: dict[str, int] = {}

    def drop(reason: str, without: NDArray[np.bool_]) -> None:
        nonlocal keep
        if lost := int((keep & without).sum()):
            dropped[reason] = lost
        keep = keep & ~without

    for universe in (*data.record.universe, *task.universe):
        drop(f"{universe.column} missing", np.isnan(data.columns[universe.column]))
        drop(f"outside the universe ({universe.column})", ~data.within(universe))
    for name in (task.outcome, *task.given):
        drop(f"{name} missing", data.levels[name] == MISSING)
    entry = data.record.vintages[data.vintage]
    adjusted = adjust(data, entry.adjustments, task)
    drop("weight zero", (adjusted.weight == 0) | (adjusted.cell_weight == 0))
    if not keep.any():
        raise EpidemiaError(f"{data.name}: no record is left for {task.name} (dropped: {dropped})")

    conditions = np.column_stack([data.levels[name][keep] for name in task.given])
    features, cell = _numbered(conditions)
    ways = [data.variables[name] for name in task.given]
    outcome = data.levels[task.outcome][keep].astype(np.int64)
    levels = data.variables[task.outcome].levels
    totals = np.bincount(cell, weights=adjusted.cell_weight[keep])
    stratum_of_psu = replicate_totals = None
    if data.has_strata:
        assert data.psu is not None and data.strata is not None
        stratum_of_psu = np.empty(int(data.psu.max()) + 1, dtype=np.int64)
        stratum_of_psu[data.psu] = data.strata
    elif data.replicates is not None and len(task.given) == 1:
        flat, size = cell * len(levels) + outcome, len(totals) * len(levels)
        # What adjusted a record's weight adjusts its replicates too.
        weight = data.weight[keep]
        ratio = np.divide(
            adjusted.weight[keep], weight, out=np.zeros(len(weight)), where=weight > 0
        )
        replicate_totals = np.stack(
            [
                np.bincount(flat, weights=column[keep] * ratio, minlength=size)
                .astype(float)
                .reshape(-1, len(levels))
                for column in data.replicates.T
            ]
        )
    return Prepared(
        task=task,
        levels=tuple(level.label for level in levels),
        given=[
            tuple(way.levels[int(number)].label for way, number in zip(ways, row, strict=True))
            for row in features
        ],
        features=features,
        columns={
            name: entry.column(data.variables[name].column) for name in (task.outcome, *task.given)
        },
        sample=Sample(
            weight=adjusted.weight[keep],
            unit=None if data.unit is None else np.unique(data.unit[keep], return_inverse=True)[1],
            psu=None if data.psu is None else data.psu[keep],
            stratum_of_psu=stratum_of_psu,
            replicate_totals=replicate_totals,
            replicate_scale=data.record.design_of(data.vintage).replicate_scale,
        ),
        cell=cell,
        outcome=outcome,
        weights=totals / totals.sum(),
        dropped=dropped,
        absent=_absent(task, ways, features),
        adjustments=adjusted.notes,
    )


def _absent(task: Task, ways: list[Variable], features: NDArray[Any]) -> list[str]:
    """Name the levels of a single condition that no record has and that the universe allows."""
    if len(ways) > 1 or ways[0].column in {universe.column for universe in task.universe}:
        return []
    return [level.label for n, level in enumerate(ways[0].levels) if n not in set(features[:, 0])]


def _numbered(conditions: NDArray[np.int16]) -> tuple[NDArray[Any], Codes]:
    """Number the combinations of levels that occur, in their order: (C, d) and (n,)."""
    sizes = conditions.max(axis=0).astype(np.int64) + 1
    flat = np.ravel_multi_index(tuple(conditions.T.astype(np.int64)), tuple(sizes))
    found, cell = np.unique(flat, return_inverse=True)
    features = np.column_stack(np.unravel_index(found, tuple(sizes)))
    return features.astype(conditions.dtype), cell.ravel()


def _rng(task: Task, *key: int) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(task.name.encode()), *key])


def _estimate(ready: Prepared, weight: Array, rng: np.random.Generator) -> Array:
    """P(Y | X) from given weights: counts for one condition, boosting for several."""
    cells, levels = len(ready.weights), len(ready.levels)
    if len(ready.task.given) == 1:
        return bins.count(weight, ready.cell, ready.outcome, cells, levels)
    if levels != 2:
        raise EpidemiaError(
            f"{ready.task.name} has {len(ready.task.given)} conditions and {levels} levels: "
            "with several conditions the outcome must be binary"
        )
    fold = boosted.assign_folds(ready.sample.units, rng)
    return boosted.fit_aggregated(weight, ready.cell, ready.outcome, fold, ready.features)


def _draws(ready: Prepared, scheme: Scheme, replicates: int, p: Array) -> Array:
    """Estimate P(Y | X) anew from each bootstrap sample; shape (B, C, K)."""
    if scheme == "design" and ready.sample.replicate_totals is not None:
        return replicate_draws(ready.sample, p)
    draws = np.empty((replicates, *p.shape))
    for b in range(replicates):
        rng = _rng(ready.task, 1 + SCHEMES.index(scheme), b)
        draws[b] = _estimate(ready, bootstrap_weights(ready.sample, scheme, rng), rng)
    return draws


def estimate_task(ready: Prepared, schemes: Iterable[Scheme], replicates: int) -> dict[str, Any]:
    """Estimate the truth of a task and its sampling error.

    Parameters
    ----------
    ready : Prepared
    schemes : iterable of {"iid", "design"}
    replicates : int
        Bootstrap replicates per scheme. Each one draws weights anew and, with several conditions,
        folds anew, so that the spread includes that of the estimator.

    Returns
    -------
    dict
        ``cells`` (rows of the cells file), ``distances`` (by scheme) and ``entry`` (for the
        registry), all plain JSON values.
    """
    boosting = len(ready.task.given) > 1
    cells, levels = len(ready.weights), len(ready.levels)
    p = _estimate(ready, ready.sample.weight, _rng(ready.task, 0))
    n = unit_count(ready.sample, ready.cell, cells)
    kish = kish_size(ready.sample, ready.cell, cells)
    # Kish's size of a counted cell needs no bootstrap.
    n_eff: dict[Scheme, Array] = {} if boosting else {"iid": kish}
    distances: dict[str, list[float]] = {}
    for scheme in schemes:
        draws = _draws(ready, scheme, replicates, p)
        distances[scheme] = distance(ready.weights, draws, p).tolist()
        if boosting:
            # A boosted cell borrows strength from its neighbours, so its size comes from the
            # spread of the whole estimator; the records of the task are all there is to borrow.
            everyone = np.full(cells, float(len(np.unique(ready.sample.units))))
            n_eff[scheme] = design_effective_size(p, draws.var(axis=0, ddof=1), kish, everyone)
        elif scheme == "design":
            if ready.sample.stratum_of_psu is None:
                variance = ((draws - p) ** 2).mean(axis=0)
            else:
                variance = design_variance(
                    ready.sample, ready.cell, ready.outcome, p, cells, levels
                )
            n_eff[scheme] = design_effective_size(p, variance, kish, n.astype(float))
    everyone = np.zeros_like(ready.cell)
    marginal = bins.count(ready.sample.weight, everyone, ready.outcome, 1, levels)
    entry: dict[str, Any] = {
        "estimator": "lightgbm" if boosting else "bins",
        "parameters": {
            **boosted.PARAMETERS,
            **boosted.AGGREGATED,
            "folds": boosted.FOLDS,
            "rounds": boosted.ROUNDS,
            "patience": boosted.PATIENCE,
            "min_records": boosted.MIN_RECORDS,
        }
        if boosting
        else {},
        "columns": ready.columns,
        "levels": list(ready.levels),
        "cells": cells,
        "records": len(ready.cell),
        "dropped": ready.dropped,
        "absent": ready.absent,
        "adjustments": ready.adjustments,
        "marginal": marginal[0].tolist(),
        "bootstrap": {
            scheme: {"replicates": len(found), "seed": SEED} for scheme, found in distances.items()
        },
    }
    if ready.sample.stratum_of_psu is not None:
        variance = design_variance(ready.sample, everyone, ready.outcome, marginal, 1, levels)
        entry["marginal_se"] = np.sqrt(variance[0]).tolist()
    rows = [
        {
            "cell": c,
            "given": list(ready.given[c]),
            "weight": float(ready.weights[c]),
            "n": int(n[c]),
            **{
                f"n_eff_{scheme}": float(n_eff[scheme][c]) if scheme in n_eff else None
                for scheme in SCHEMES
            },
            "p": p[c].tolist(),
        }
        for c in range(cells)
    ]
    return {"cells": rows, "distances": distances, "entry": entry}


def _estimate_to_file(
    ready: Prepared, schemes: tuple[Scheme, ...], replicates: int, path: Path, key: str
) -> str:
    made = estimate_task(ready, schemes, replicates)
    with paths.atomic_write(path) as temporary:
        temporary.write_text(json.dumps({"key": key, "made": made}), encoding="utf-8")
    return ready.task.name


def _finished(path: Path, key: str) -> dict[str, Any] | None:
    """Return a task estimated by an earlier, interrupted build of the same inputs."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    return stored["made"] if stored.get("key") == key else None


def _software() -> dict[str, str]:
    names = ("numpy", "lightgbm", "pyarrow")
    return {
        "lm-eval-epidemia": __version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: version(name) for name in names},
    }


@contextmanager
def _workers(backend: str | None, jobs: int) -> Iterator[None]:
    """Let joblib work on this machine's processes or on a dask or ray cluster."""
    import joblib

    if backend in (None, "loky"):
        with joblib.parallel_config("loky", n_jobs=jobs):
            yield
        return
    if backend not in ("dask", "ray"):
        raise EpidemiaError(f"--backend {backend!r} is not known: expected loky, dask or ray")
    try:
        if backend == "dask":
            from distributed import Client

            address = os.environ.get("DASK_SCHEDULER_ADDRESS")
            local = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
            with (
                Client(address) if address else Client(**local),
                joblib.parallel_config("dask"),
            ):
                yield
        else:
            from ray.util.joblib import register_ray

            register_ray()
            with joblib.parallel_config("ray", n_jobs=jobs):
                yield
    except ImportError as error:
        package = {"dask": "dask[distributed]", "ray": "ray"}[backend]
        raise EpidemiaError(
            f"--backend {backend} needs {error.name}: pip install '{package}'"
        ) from None


def build(
    survey: str,
    raw: Path | Sequence[Path],
    *,
    vintage: str | None = None,
    bootstrap: Iterable[Scheme] | None = None,
    replicates: int = 200,
    jobs: int = 1,
    backend: str | None = None,
    out: Path | None = None,
    progress: bool = True,
) -> Built:
    """Build the ground truth of every task that a survey's files allow.

    The work is kept task by task: an interrupted build, started again, goes on where it stopped.
    The same inputs give the same bytes for any number of jobs.

    Parameters
    ----------
    survey : str
    raw : Path or sequence of Path
        The survey's files, or a folder that holds them.
    vintage : str, optional
        Needed where neither the row count nor the file name tells.
    bootstrap : iterable of {"iid", "design"}, optional
        Schemes; by default all that the survey's design columns allow.
    replicates : int
        Bootstrap replicates for tasks with one condition; tasks with several get half as many.
    jobs : int
        Processes.
    backend : str, optional
        Of joblib: "loky" (its default), "dask" or "ray", the last two with a cluster set up.
    out : Path, optional
        Folder to write to; by default the user's own, which is preferred to the shipped one.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Built

    Raises
    ------
    EpidemiaError
        If the files do not fit the survey's record.
    """
    if replicates < 4:
        raise EpidemiaError(f"--replicates {replicates} is too few for a quantile: at least 4")
    try:
        import joblib
        import lightgbm  # noqa: F401
    except ImportError as error:
        raise EpidemiaError(
            f"building ground truth needs {error.name}: pip install 'lm-eval-epidemia[build]'"
        ) from None
    from tqdm import tqdm

    raws = [raw] if isinstance(raw, Path) else [Path(path) for path in raw]
    folder = Path(out) if out else built_groundtruth()
    entry = record(survey)
    if vintage is not None:
        entry.vintage(vintage)
    if (tables := tables_vintage(entry, raws, vintage)) is not None:
        return _build_tables(entry, tables, raws, replicates, folder)
    data = load_microdata(entry, raws, vintage)
    official = entry.vintages[data.vintage].rows
    if official is not None and len(data) != official:
        notices.warn(
            "another number of records",
            f"{data.name} has {len(data):,} records, {survey} {data.vintage} has {official:,}: is "
            "the file whole?",
        )
    has_design = data.has_strata or data.replicates is not None
    schemes = tuple(bootstrap or (SCHEMES if has_design else ("iid",)))
    if "design" in schemes and not has_design:
        raise EpidemiaError(
            f"{survey} {data.vintage} has neither strata and PSUs nor replicate weights: only "
            "--bootstrap iid is possible"
        )
    tasks = [task for task in data.record.all_tasks if data.can_estimate(task)]
    left_out = [task.name for task in data.record.all_tasks if not data.can_estimate(task)]
    name = f"{survey}_{data.vintage}"
    unfinished = folder / f".{name}.unfinished"

    def key(task: Task) -> str:
        ways = [data.variables[v].model_dump_json() for v in (task.outcome, *task.given)]
        universe = [u.model_dump_json() for u in (*data.record.universe, *task.universe)]
        described = entry.vintages[data.vintage].model_dump_json()
        settings = [__version__, _software(), SEED, boosted.PARAMETERS, boosted.AGGREGATED]
        inputs = [data.files, task.name, ways, universe, described, schemes, replicates, settings]
        return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()

    def path(task: Task) -> Path:
        return unfinished / f"{task.name}.json"

    def of(task: Task) -> tuple[Scheme, ...]:
        # Replicate weights serve counted tasks; a boosted one would be fitted to each anew.
        return schemes if data.has_strata or len(task.given) == 1 else ("iid",)

    todo = [task for task in tasks if _finished(path(task), key(task)) is None]
    with (
        tqdm(
            total=len(tasks),
            initial=len(tasks) - len(todo),
            desc=name,
            unit="task",
            disable=not progress,
        ) as bar,
        _workers(backend, jobs),
    ):
        # The longest first, so that no process is left alone with a long one at the end.
        todo.sort(key=lambda task: -len(task.given))
        calls = (
            joblib.delayed(_estimate_to_file)(
                prepare(data, task),
                of(task),
                replicates if len(task.given) == 1 else replicates // 2,
                path(task),
                key(task),
            )
            for task in todo
        )
        # Clusters do not hand results on as they come.
        streaming = "list" if backend in ("dask", "ray") else "generator_unordered"
        for _ in joblib.Parallel(return_as=streaming)(calls):
            bar.update()
    made = {task.name: _finished(path(task), key(task)) for task in tasks}
    truth = {
        **_provenance(entry, data.vintage, data.files),
        "rows": len(data),
        "weight": data.weight_column,
    }
    write_truth(folder, name, truth, made)
    for task in tasks:
        path(task).unlink()
    unfinished.rmdir()
    return Built(name, folder, [task.name for task in tasks], left_out)


def _provenance(entry: Record, vintage: str, files: dict[str, str]) -> dict[str, Any]:
    """Describe where a truth comes from, for the registry."""
    release = entry.vintages[vintage]
    return {
        "survey": entry.survey,
        "vintage": vintage,
        "raw": [{"file": name, "sha256": sha256} for name, sha256 in files.items()],
        "source": {
            "publisher": entry.publisher,
            "official_files": [file.name for file in release.files],
            "page": release.page,
            "licence": " ".join(entry.licence.split()),
            "citation": " ".join(entry.citation.split()),
            "note": " ".join(release.note.split()),
        },
        "software": _software(),
    }


def _build_tables(
    entry: Record, vintage: str, raws: Sequence[Path], replicates: int, folder: Path
) -> Built:
    """Take published tables over; this takes no time, so nothing is kept in between."""
    name, made = f"{entry.survey}_{vintage}", {}
    found: dict[tuple[str, tuple[str, ...]], PublishedTable] = {
        (table.outcome, (table.given,)): table for table in load_tables(entry, raws, vintage)
    }
    left_out = []
    for task in entry.all_tasks:
        table = found.get((task.outcome, task.given))
        if table is None:
            left_out.append(task.name)
            continue
        columns = {v: entry.ways(v, vintage)[0].column for v in (task.outcome, *task.given)}
        made[task.name] = estimate_table(table, columns, replicates, _rng(task, 2), SEED)
    files = {p.name: paths.sha256_of(p) for p in raw_files(raws, entry.expected_files)}
    rows = max(item["entry"]["cells"] for item in made.values())
    truth = {**_provenance(entry, vintage, files), "rows": rows, "weight": ""}
    write_truth(folder, name, truth, made)
    return Built(name, folder, list(made), left_out)
