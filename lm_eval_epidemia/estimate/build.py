"""Build the ground truth of a survey: every task its file allows, with its sampling error."""

from __future__ import annotations

import json
import platform
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lm_eval_epidemia import __version__, notices, paths
from lm_eval_epidemia.distance import Array, distance
from lm_eval_epidemia.errors import EpidemiaError, few
from lm_eval_epidemia.estimate import bins, boosted
from lm_eval_epidemia.estimate.prepare import Prepared, prepare
from lm_eval_epidemia.estimate.published import estimate_table
from lm_eval_epidemia.estimate.sampling import (
    Scheme,
    bootstrap_weights,
    design_effective_size,
    design_variance,
    kish_size,
    replicate_draws,
    unit_count,
)
from lm_eval_epidemia.estimate.store import available, built_groundtruth
from lm_eval_epidemia.estimate.workers import check_jobs, workers
from lm_eval_epidemia.estimate.write import write_truth
from lm_eval_epidemia.surveys.microdata import load_microdata
from lm_eval_epidemia.surveys.read import raw_files
from lm_eval_epidemia.surveys.record import Record, Task, record
from lm_eval_epidemia.surveys.tables import PublishedTable, load_tables, tables_vintage

__all__ = ["SEED", "Built", "Prepared", "build", "estimate_task", "not_scored", "prepare"]

#: Every random choice of a build derives from this number, the task's name and the replicate.
SEED = 2022
SCHEMES: tuple[Scheme, ...] = ("iid", "design")


@dataclass(frozen=True)
class Built:
    """What a build made: the key in the registry, the folder, its tasks, and those left out."""

    key: str
    folder: Path
    tasks: list[str]
    left_out: list[str]


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
    import lightgbm

    fold = boosted.assign_folds(ready.sample.units, rng)
    try:
        return boosted.fit_aggregated(weight, ready.cell, ready.outcome, fold, ready.features)
    except lightgbm.basic.LightGBMError as error:
        raise EpidemiaError(
            f"{ready.task.name}: LightGBM cannot fit its {len(weight)} records "
            f"({' '.join(str(error).split())}): is the file whole, and are the weights sound?"
        ) from None


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
        "parameters": boosted.settings() if boosting else {},
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


def _finished(path: Path, key: str) -> bool:
    """Tell whether an earlier, interrupted build has estimated a task from the same."""
    try:
        return _stored(path)["key"] == key
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _stored(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _key(ready: Prepared, schemes: tuple[Scheme, ...], replicates: int) -> str:
    """Hash what an estimate is made of: the prepared records themselves, and what is done to them.

    The records are the outcome of file, survey record, design and adjustments, whatever these are.
    """
    import joblib

    code = [paths.sha256_of(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
    settings = (SEED, schemes, replicates, boosted.settings(), _software(), code)
    return joblib.hash((ready, settings), hash_name="sha1")


@contextmanager
def _unfinished(folder: Path, name: str) -> Iterator[Path]:
    """Give the folder where finished tasks of a build are kept, to one build at a time."""
    import filelock

    kept = folder / f".{name}.unfinished"
    with paths.writing(kept):
        kept.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(kept / "lock")
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            raise EpidemiaError(
                f"another build of {name} is at work in {folder}: wait for its end, or write to "
                "another folder with --out"
            ) from None
    try:
        yield kept
        # All of it: a task may since have left the record, or have another name.
        shutil.rmtree(kept, ignore_errors=True)
    finally:
        lock.release()


def _software() -> dict[str, str]:
    names = ("numpy", "lightgbm", "pyarrow")
    return {
        "lm-eval-epidemia": __version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: version(name) for name in names},
    }


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
        Folder to write to; by default the user's own, where scores look before what ships.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Built

    Raises
    ------
    EpidemiaError
        If the files do not fit the survey's record, hold too few records, `out` cannot be written
        to, or another build of the same is at work there.
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
    check_jobs(backend, jobs)
    from tqdm import tqdm

    raws = [raw] if isinstance(raw, Path) else [Path(path) for path in raw]
    folder = Path(out) if out else built_groundtruth()
    entry = record(survey)
    if vintage is not None:
        entry.vintage(vintage)
    paths.check_writable(folder)
    if (tables := tables_vintage(entry, raws, vintage)) is not None:
        if "design" in (bootstrap or ()):
            raise EpidemiaError(
                f"{survey} {tables} is a published table without a sampling design: only "
                "--bootstrap iid is possible"
            )
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

    def settings(task: Task) -> tuple[tuple[Scheme, ...], int]:
        counted = len(task.given) == 1
        # Replicate weights serve counted tasks; a boosted one would be fitted to each anew.
        chosen: tuple[Scheme, ...] = schemes if data.has_strata or counted else ("iid",)
        return chosen, replicates if counted else replicates // 2

    with _unfinished(folder, name) as kept:
        path = {task.name: kept / f"{task.name}.json" for task in tasks}
        # The longest first, so that no process is left alone with a long one at the end.
        todo = sorted(
            (
                task
                for task in tasks
                if not path[task.name].exists()
                or not _finished(path[task.name], _key(prepare(data, task), *settings(task)))
            ),
            key=lambda task: -len(task.given),
        )

        def calls() -> Iterator[Any]:
            for task in todo:
                ready, (chosen, count) = prepare(data, task), settings(task)
                key = _key(ready, chosen, count)
                yield joblib.delayed(_estimate_to_file)(ready, chosen, count, path[task.name], key)

        done = len(tasks) - len(todo)
        with (
            tqdm(
                total=len(tasks), initial=done, desc=name, unit="task", disable=not progress
            ) as bar,
            workers(backend, jobs),
        ):
            # Clusters do not hand results on as they come.
            streaming = "list" if backend in ("dask", "ray") else "generator_unordered"
            for _ in joblib.Parallel(return_as=streaming)(calls()):
                bar.update()
        truth = {
            **_provenance(entry, data.vintage, data.files),
            "rows": len(data),
            "weight": data.weight_column,
        }
        made = {task.name: _stored(path[task.name])["made"] for task in tasks}
        write_truth(folder, name, truth, made)
    return Built(name, folder, [task.name for task in tasks], left_out)


def not_scored(built: Built) -> str:
    """Say which of the tasks just built are scored by another truth; empty where none is."""
    home = built_groundtruth()
    if built.folder.resolve() != home.resolve():
        return f"scores do not use them: they look in {home}, then at what ships"
    places = available()
    used = [places[name] for name in built.tasks if name in places]
    if not (others := [place for place in used if (place.folder, place.key) != (home, built.key)]):
        return ""
    survey, vintage = built.key.split("_", 1)
    named = few(sorted({f"{place.key} ({place.state})" for place in others}))
    return (
        f"scores of {len(others)} of them go on using {named}, which the record of {survey} lists "
        f"before {vintage}; 'epidemia anchors {survey} --compare' shows how they differ"
    )


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
