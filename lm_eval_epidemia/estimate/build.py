"""Build the ground truth of a survey: every task its file allows, with its sampling error.

A build is three things: the jobs (which tasks, with which bootstrap), their estimates (by processes
of this machine or a cluster, each kept when it is done), and the writer, when all are there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.extras import install
from lm_eval_epidemia.estimate import published, unfinished
from lm_eval_epidemia.estimate.meaning import FIELD, meaning_of
from lm_eval_epidemia.estimate.prepare import Cells, prepare
from lm_eval_epidemia.estimate.registry import read_registry
from lm_eval_epidemia.estimate.sampling import SCHEMES, Scheme
from lm_eval_epidemia.estimate.store import available, built_groundtruth, folder_of, folders
from lm_eval_epidemia.estimate.task import estimate_task
from lm_eval_epidemia.estimate.workers import check_jobs, workers
from lm_eval_epidemia.estimate.write import write_truth
from lm_eval_epidemia.surveys.catalogue import own, record
from lm_eval_epidemia.surveys.download import raw_paths
from lm_eval_epidemia.surveys.microdata import Microdata, load_microdata
from lm_eval_epidemia.surveys.read import raw_files
from lm_eval_epidemia.surveys.record import Record, Task
from lm_eval_epidemia.surveys.tables import PublishedTable, load_tables, tables_vintage


@dataclass(frozen=True)
class Built:
    """What a build made: the key in the registry, the folder, its tasks, and those left out."""

    key: str
    folder: Path
    tasks: list[str]
    left_out: list[str]


class _Job(NamedTuple):
    """One task to estimate, with which bootstrap, and where its estimate is kept."""

    task: Task
    schemes: tuple[Scheme, ...]
    replicates: int
    path: Path

    def prepared(self, data: Microdata) -> tuple[Cells, str]:
        """Return what it is estimated from, and the hash of all that its estimate is made of."""
        ready = prepare(data, self.task)
        return ready, unfinished.key_of(ready, self.schemes, self.replicates)

    def is_done(self, data: Microdata) -> bool:
        return self.path.exists() and unfinished.finished(self.path, self.prepared(data)[1])


def build(
    survey: str,
    raw: Path | Sequence[Path] | None = None,
    *,
    vintage: str | None = None,
    bootstrap: Iterable[Scheme] | None = None,
    replicates: int = 200,
    jobs: int = 1,
    backend: str | None = None,
    out: Path | None = None,
    only: Collection[str] = (),
    progress: bool = True,
) -> Built:
    """Build the ground truth of every task that a survey's files allow.

    The work is kept task by task: an interrupted build, started again, goes on where it stopped.
    The same inputs give the same bytes for any number of jobs.

    Parameters
    ----------
    survey : str
    raw : Path or sequence of Path, optional
        The survey's files, or a folder that holds them; by default those that were downloaded.
    vintage : str, optional
        Needed where neither the row count nor the file name tells.
    bootstrap : iterable of {"iid", "design", "population"}, optional
        Schemes of D_perfect; by default all that the survey's design columns allow. Without
        "design" these columns are not looked at: all errors are those of independent units.
    replicates : int
        Bootstrap replicates for tasks with one condition; tasks with several get half as many, and
        so many are the joint replicates of the survey.
    jobs : int
        Processes.
    backend : str, optional
        Of joblib: "loky" (its default), "dask" or "ray", the last two with a cluster set up.
    out : Path, optional
        Folder to write to; by default the user's own, where scores look before what ships.
    only : collection of str
        Kinds of tasks with truths in folders of their own (`store.APART`), if not all tasks.
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
    check_options(replicates, backend, jobs)
    folder = Path(out) if out else built_groundtruth()
    entry = record(survey)
    raws, vintage = raw_paths(entry, raw, vintage)
    asked = [task for task in entry.all_tasks if not only or task.kind in only]
    if not asked:
        raise EpidemiaError(f"the record of {survey} has no tasks of the kind {' or '.join(only)}")
    paths.check_writable(folder)
    if (tables := tables_vintage(entry, raws, vintage)) is not None:
        if "design" in (bootstrap or ()):
            raise EpidemiaError(
                f"{survey} {tables} is a published table without a sampling design: only "
                "--bootstrap iid is possible"
            )
        return _build_tables(entry, tables, raws, replicates, folder, asked)
    data, schemes = read(entry, raws, vintage, bootstrap)
    tasks = [task for task in asked if data.can_estimate(task)]
    left_out = [task.name for task in asked if not data.can_estimate(task)]
    build_tasks(
        data, tasks, folder, schemes, replicates, jobs=jobs, backend=backend, progress=progress
    )
    return Built(data.key, folder, [task.name for task in tasks], left_out)


def check_options(replicates: int, backend: str | None, jobs: int) -> None:
    """Refuse what cannot be meant, and what cannot be done without the extra ``build``."""
    if replicates < 4:
        raise EpidemiaError(f"--replicates {replicates} is too few for a quantile: at least 4")
    try:
        import joblib  # noqa: F401
        import lightgbm  # noqa: F401
    except ImportError as error:
        raise EpidemiaError(
            f"building ground truth needs {error.name}: {install('build')}"
        ) from None
    check_jobs(backend, jobs)


def read(
    entry: Record,
    raws: Sequence[Path] | None,
    vintage: str | None,
    bootstrap: Iterable[Scheme] | None = None,
    *,
    every: bool = False,
) -> tuple[Microdata, tuple[Scheme, ...]]:
    """Read the records of a survey, and find the bootstrap schemes that its design allows.

    Parameters
    ----------
    entry : Record
    raws : sequence of Path, optional
        As for `build`.
    vintage : str, optional
    bootstrap : iterable of {"iid", "design", "population"}, optional
        As for `build`.
    every : bool
        As for `load_microdata`.
    """
    data = load_microdata(entry, raws, vintage, every=every)
    _compare_rows(data)
    schemes = _schemes(data, bootstrap)
    if "design" not in schemes:
        data = replace(data, strata=None, psu=None, replicates=None)
    _check_strata(data)
    return data, schemes


def build_tasks(
    data: Microdata,
    tasks: Sequence[Task],
    folder: Path,
    schemes: tuple[Scheme, ...],
    replicates: int,
    *,
    jobs: int = 1,
    backend: str | None = None,
    progress: bool = True,
    about: dict[str, Any] | None = None,
) -> None:
    """Estimate tasks and write their truth, going on where an interrupted build stopped.

    Parameters
    ----------
    data : Microdata
    tasks : sequence of Task
        That `data` can estimate.
    folder : Path
    schemes, replicates, jobs, backend, progress
        As for `build`.
    about : dict, optional
        What else the registry is to say of this truth.
    """
    name = data.key
    # Absolute: processes that were started for an earlier build may be in another folder.
    with unfinished.unfinished(folder.absolute(), name) as kept:
        listed = [_Job(task, schemes, replicates, kept / f"{task.name}.json") for task in tasks]
        _estimate(data, listed, name, backend, jobs, progress)
        truth = {
            **_provenance(data.record, data.vintage, data.files),
            "rows": len(data),
            "weight": data.weight_column,
            **(about or {}),
        }
        made = {job.task: unfinished.kept(job.path) for job in listed}
        _write(folder, data.record, truth, made)


def _write(folder: Path, entry: Record, truth: dict[str, Any], made: dict[Task, Any]) -> None:
    """Write what was estimated of a survey and vintage into the folders where it belongs."""
    places: dict[Path, dict[str, Any]] = {}
    for task, estimate in made.items():
        if entry.survey in own():  # what ships changes with the package only
            estimate["entry"][FIELD] = meaning_of(entry, task, truth["vintage"])
        places.setdefault(folder_of(task, folder), {})[task.name] = estimate
    key = f"{entry.survey}_{truth['vintage']}"
    for place, estimates in sorted(places.items()):  # the folder itself, then those in it
        entries = [one["entry"] for one in estimates.values()]
        sample = (
            {}
            if place == folder
            else {
                "sample": _sample_beside(read_registry(folder).get(key), truth, entries, place.name)
            }
        )
        write_truth(place, key, {**truth, **sample}, estimates)


def _sample_beside(
    beside: dict[str, Any] | None,
    truth: dict[str, Any],
    entries: Sequence[dict[str, Any]],
    where: str,
) -> str:
    """Name the joint replicates of what is written into a folder of a folder of ground truth.

    From the same file, and as many, they are those of the survey's other tasks there; else they are
    taken as independent of these, which a name of their own says.
    """
    key, number = f"{truth['survey']}_{truth['vintage']}", _replicates_of(entries)
    if (
        beside is not None
        and beside["raw"] == truth["raw"]
        and _replicates_of(beside["tasks"].values()) == number
    ):
        return str(beside.get("sample") or f"{key} {beside['files']['replicates']['sha256'][:12]}")
    digest = hashlib.sha256(json.dumps([truth["raw"], number]).encode()).hexdigest()
    return f"{key}-{where} {digest[:12]}"


def _replicates_of(entries: Iterable[dict[str, Any]]) -> int:
    """Return how many joint replicates the tasks of a truth have."""
    return max(
        (int(one["replicates"]["number"]) for one in entries if "replicates" in one), default=0
    )


def _compare_rows(data: Microdata) -> None:
    """Warn where a file does not have the official number of records."""
    survey, official = data.record.survey, data.record.vintages[data.vintage].rows
    if official is not None and len(data) != official:
        notices.warn(
            "another number of records",
            f"{data.name} has {len(data):,} records, {survey} {data.vintage} has {official:,}: is "
            "the file whole?",
        )


def _check_strata(data: Microdata) -> None:
    """Refuse a design that tells no variance: a stratum of which one PSU is left."""
    if not data.has_strata:
        return
    assert data.strata is not None and data.psu is not None
    strata, _ = np.unique(np.column_stack([data.strata, data.psu]), axis=0).T
    names, sizes = np.unique(strata, return_counts=True)
    if (single := names[sizes == 1]).size:
        design = data.record.design_of(data.vintage)
        row = int(np.flatnonzero(data.strata == single[0])[0]) + 1
        raise EpidemiaError(
            f"{data.name}: {single.size} of {len(names)} strata ({design.strata}) have a single "
            f"PSU ({design.psu}), the first in row {row}: their variance cannot be told. Take the "
            "whole file, merge each with a neighbouring stratum as the survey's manual says, or "
            "have errors as if records were drawn independently: --bootstrap iid --bootstrap "
            "population"
        )


def _schemes(data: Microdata, asked: Iterable[Scheme] | None) -> tuple[Scheme, ...]:
    """Return the bootstrap schemes asked for, by default all that the design columns allow."""
    has_design = data.has_strata or data.replicates is not None
    schemes = tuple(asked or (s for s in SCHEMES if s != "design" or has_design))
    if "design" in schemes and not has_design:
        raise EpidemiaError(
            f"{data.record.survey} {data.vintage} has neither strata and PSUs nor replicate "
            "weights: only --bootstrap iid and population are possible"
        )
    return schemes


def _estimate(
    data: Microdata,
    jobs: list[_Job],
    name: str,
    backend: str | None,
    processes: int,
    progress: bool,
) -> None:
    """Do the jobs that are not done yet, and keep what each gives."""
    import joblib
    from tqdm import tqdm

    # The longest first, so that no process is left alone with a long one at the end.
    todo = sorted(
        (job for job in jobs if not job.is_done(data)), key=lambda job: -len(job.task.given)
    )

    def calls() -> Iterator[Any]:
        # One by one, as workers ask for them: the records of all tasks would fill the memory.
        for job in todo:
            ready, key = job.prepared(data)
            yield joblib.delayed(_estimate_and_keep)(ready, job, key)

    done = len(jobs) - len(todo)
    with (
        tqdm(total=len(jobs), initial=done, desc=name, unit="task", disable=not progress) as bar,
        workers(backend, processes),
    ):
        # Clusters do not hand results on as they come.
        streaming = "list" if backend in ("dask", "ray") else "generator_unordered"
        for _ in joblib.Parallel(return_as=streaming)(calls()):
            bar.update()


def _estimate_and_keep(ready: Cells, job: _Job, key: str) -> None:
    unfinished.keep(job.path, key, estimate_task(ready, job.schemes, job.replicates))


def _build_tables(
    entry: Record,
    vintage: str,
    raws: Sequence[Path],
    replicates: int,
    folder: Path,
    asked: Sequence[Task],
) -> Built:
    """Take published tables over; this takes no time, so nothing is kept in between."""
    name, made = f"{entry.survey}_{vintage}", {}
    found: dict[tuple[str, tuple[str, ...]], PublishedTable] = {
        (table.outcome, (table.given,)): table for table in load_tables(entry, raws, vintage)
    }
    for task in asked:
        if (table := found.get((task.outcome, task.given))) is not None:
            columns = {v: entry.ways(v, vintage)[0].column for v in (task.outcome, *task.given)}
            shares = published.take(table, task, columns, name)
            made[task] = estimate_task(shares, shares.schemes, replicates)
    files = {p.name: paths.sha256_of(p) for p in raw_files(raws, entry.expected_files)}
    rows = max(item["entry"]["cells"] for item in made.values())
    truth = {**_provenance(entry, vintage, files), "rows": rows, "weight": ""}
    _write(folder, entry, truth, made)
    left_out = [task.name for task in asked if task not in made]
    return Built(name, folder, [task.name for task in made], left_out)


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
        "software": unfinished.software(),
    }


def not_scored(built: Built) -> str:
    """Say which of the tasks just built are scored by another truth; empty where none is."""
    home = built_groundtruth()
    if built.folder.resolve() != home.resolve():
        return f"scores do not use them: they look in {home}, then at what ships"
    places = available()
    used = [places[name] for name in built.tasks if name in places]
    here = folders(home)
    others = [place for place in used if place.folder not in here or place.key != built.key]
    if not others:
        return ""
    survey, vintage = built.key.split("_", 1)
    named = few(sorted({f"{place.key} ({place.state})" for place in others}))
    return (
        f"scores of {len(others)} of them go on using {named}, which the record of {survey} lists "
        f"before {vintage}; 'epidemia anchors {survey} --compare' shows how they differ"
    )
