"""Build the ground truth of a survey: every task its file allows, with its sampling error.

A build is three things: the jobs (which tasks, with which bootstrap), their estimates (by several
processes, each kept when it is done), and the writer, when all are there.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.estimate import published, write
from lm_eval_epidemia.estimate.estimator import Cells, estimate_task
from lm_eval_epidemia.estimate.estimators import Contradicted
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.estimate.registry import FIELD, meaning_of, read_registry
from lm_eval_epidemia.estimate.sampling import SCHEMES, Scheme
from lm_eval_epidemia.estimate.store import built_groundtruth, folder_of, folders, list_available
from lm_eval_epidemia.surveys.catalogue import find_own_records, find_record
from lm_eval_epidemia.surveys.microdata import Microdata, load_microdata
from lm_eval_epidemia.surveys.raw import raw_files, raw_paths
from lm_eval_epidemia.surveys.record import Record, Task
from lm_eval_epidemia.surveys.tables import tables_vintage


class Built(NamedTuple):
    """The result of a build.

    The key in the registry, the folder, its tasks, those that the files lack columns for, and
    those whose records contradict the estimate, with the reason.
    """

    key: str
    folder: Path
    tasks: list[str]
    left_out: list[str]
    skipped: Mapping[str, str] = {}


class Work(NamedTuple):
    """The bootstrap for every task, and the workers; see `build_survey`."""

    schemes: tuple[Scheme, ...]
    replicates: int
    jobs: int = 1
    progress: bool = True


class _Job(NamedTuple):
    """One task to estimate, and where its estimate is kept."""

    task: Task
    work: Work
    path: Path

    def prepared(self, data: Microdata) -> tuple[Cells, str]:
        """Return the data to estimate from, and the hash of all inputs."""
        ready = prepare(data, self.task)
        return ready, write.key_of(ready, self.work.schemes, self.work.replicates)

    def is_done(self, data: Microdata) -> bool:
        """Whether an earlier, interrupted build has estimated it from the same inputs."""
        return self.path.exists() and write.read_kept(self.path)["key"] == self.prepared(data)[1]

    def do(self, ready: Cells, key: str) -> dict[str, str]:
        """Estimate the task and keep what comes out; if that is contradicted, say why."""
        try:
            estimate = estimate_task(ready, self.work.schemes, self.work.replicates)
        except Contradicted as error:
            return {self.task.name: str(error)}
        write.keep(self.path, key, estimate)
        return {}


def build_survey(
    survey: str,
    raw: Path | Sequence[Path] | None = None,
    *,
    vintage: str | None = None,
    bootstrap: Iterable[Scheme] | None = None,
    replicates: int = 200,
    jobs: int = 1,
    out: Path | None = None,
    only: Collection[str] = (),
    progress: bool = True,
) -> Built:
    """Build the ground truth of every task that a survey's files allow.

    The work is kept task by task: an interrupted build continues where it stopped if started again.
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
        If the files do not fit the survey's record or have too few rows, `out` cannot be written
        to, or another build of the same survey is running there.
    """
    entry = find_record(survey)
    check_options(replicates, jobs)
    folder = Path(out) if out else built_groundtruth()
    raws, vintage = raw_paths(entry, raw, vintage)
    asked = [task for task in entry.all_tasks if not only or task.kind in only]
    if not asked:
        raise EpidemiaError(f"the record of {survey} has no tasks of the kind {' or '.join(only)}")
    paths.check_writable(folder)
    skipped: dict[str, str] = {}
    if (tables := tables_vintage(entry, raws, vintage)) is not None:
        if "design" in (bootstrap or ()):
            raise EpidemiaError(f"{survey} {tables} is a published table: give --bootstrap iid")
        shares = published.load_shares(entry, tables, raws, asked)
        key, tasks = f"{survey}_{tables}", list(shares)
        files = {path.name: paths.sha256_of(path) for path in raw_files(raws, entry.expected_files)}
        rows = max(len(of.weights) for of in shares.values())
        truth = _provenance(entry, tables, files) | {"rows": rows, "weight": ""}
        # It takes no time, so nothing is kept in between.
        estimates = {task: estimate_task(of, of.schemes, replicates) for task, of in shares.items()}
        _write_truths(folder, entry, truth, estimates)
    else:
        data, schemes = find_schemes(load_microdata(entry, raws, vintage), bootstrap)
        key, tasks = data.key, [task for task in asked if data.can_estimate(task)]
        work = Work(schemes, replicates, jobs, progress)
        skipped = build_tasks(data, tasks, folder, work)
    left_out = [task.name for task in asked if task not in tasks]
    made = [task.name for task in tasks if task.name not in skipped]
    return Built(key, folder, made, left_out, skipped)


def check_options(replicates: int, jobs: int) -> None:
    """Refuse invalid options, and builds without the extra ``build``."""
    if replicates < 4:
        raise EpidemiaError(f"--replicates {replicates} is too few for a quantile: give at least 4")
    with needs("build", "building ground truth"):
        import joblib  # noqa: F401
        import lightgbm  # noqa: F401
    if jobs == 0:
        raise EpidemiaError("--jobs 0: expected at least 1, or -1 for all cores")


def find_schemes(
    data: Microdata, bootstrap: Iterable[Scheme] | None = None
) -> tuple[Microdata, tuple[Scheme, ...]]:
    """Find the bootstrap schemes that the design of a survey's records allows.

    Parameters
    ----------
    data : Microdata
    bootstrap : iterable of {"iid", "design", "population"}, optional
        As for `build_survey`.

    Returns
    -------
    data : Microdata
        Without its design, where "design" is not asked for.
    schemes : tuple of str
    """
    official = data.record.vintages[data.vintage].rows
    if official is not None and len(data) != official:
        of = f"{data.record.survey} {data.vintage}"
        rows = f"{data.name} has {len(data):,} rows, but {of} has {official:,}"
        notices.warn("another number of records", f"{rows}: is the file complete?")
    has_design = data.has_strata or data.replicates is not None
    schemes = tuple(bootstrap or (s for s in SCHEMES if s != "design" or has_design))
    if "design" in schemes and not has_design:
        raise EpidemiaError(
            f"{data.record.survey} {data.vintage} has neither strata and PSUs nor replicate "
            "weights: give --bootstrap iid or population"
        )
    if "design" not in schemes:
        data = replace(data, strata=None, psu=None, replicates=None)
    _check_strata(data)
    return data, schemes


def build_tasks(
    data: Microdata, tasks: Sequence[Task], folder: Path, work: Work, **about: Any
) -> dict[str, str]:
    """Estimate tasks and write their truth, continuing where an interrupted build stopped.

    Parameters
    ----------
    data : Microdata
    tasks : sequence of Task
        That `data` can estimate.
    folder : Path
    work : Work
    **about
        Other entries for the registry.

    Returns
    -------
    dict of str to str
        Tasks that have no truth since their records contradict the estimate, and the reason.
    """
    # Absolute: processes that were started for an earlier build may be in another folder.
    with write.open_unfinished(folder.absolute(), data.key) as kept:
        jobs = [_Job(task, work, kept / f"{task.name}.json") for task in tasks]
        skipped = _estimate(data, jobs, work)
        if len(skipped) == len(jobs):
            raise EpidemiaError(next(iter(skipped.values())))
        truth = _provenance(data.record, data.vintage, data.files)
        truth |= {"rows": len(data), "weight": data.weight_column, **about}
        there = [job for job in jobs if job.task.name not in skipped]
        estimates = {job.task: write.read_kept(job.path)["made"] for job in there}
        _write_truths(folder, data.record, truth, estimates)
    return skipped


def _write_truths(
    folder: Path, entry: Record, truth: dict[str, Any], estimates: dict[Task, Any]
) -> None:
    """Write what was estimated of a survey and vintage into the folders where it belongs."""
    places: dict[Path, dict[str, Any]] = defaultdict(dict)
    for task, estimate in estimates.items():
        if entry.survey in find_own_records():  # what ships changes with the package only
            estimate["entry"][FIELD] = meaning_of(entry, task, truth["vintage"])
        places[folder_of(task, folder)][task.name] = estimate
    key = f"{entry.survey}_{truth['vintage']}"
    for place, content in sorted(places.items()):  # the folder itself, then those in it
        if place != folder:
            beside = read_registry(folder).get(key)
            sample = _sample(beside, truth["raw"], content, f"{key}-{place.name}")
            truth = {**truth, "sample": sample}
        write.write_truth(place, key, truth, content)


def _sample(beside: dict[str, Any] | None, raw: Any, content: dict[str, Any], apart: str) -> str:
    """Name the joint replicates of what is written into a folder of a folder of ground truth.

    From the same file, and as many, they are those of the survey's other tasks there (`beside`);
    else they are taken as independent of these, which a name of their own (`apart`) says.
    """
    number = _replicates_of(estimate["entry"] for estimate in content.values())
    if beside and beside["raw"] == raw and _replicates_of(beside["tasks"].values()) == number:
        digest = beside["files"]["replicates"]["sha256"][:12]
        return str(beside.get("sample") or f"{beside['survey']}_{beside['vintage']} {digest}")
    return f"{apart} {hashlib.sha256(json.dumps([raw, number]).encode()).hexdigest()[:12]}"


def _replicates_of(entries: Iterable[dict[str, Any]]) -> int:
    """Return how many joint replicates the tasks of a truth have."""
    return max((int(entry.get("replicates", {}).get("number", 0)) for entry in entries), default=0)


def _check_strata(data: Microdata) -> None:
    """Refuse a design that tells no variance: a stratum of which one PSU is left."""
    if data.strata is None or data.psu is None:
        return
    record_of_psu = np.unique(data.psu, return_index=True)[1]
    sizes = np.unique(data.strata[record_of_psu], return_counts=True)[1]
    if single := int((sizes == 1).sum()):
        design = data.record.design_of(data.vintage)
        raise EpidemiaError(
            f"{data.name}: {single} of {len(sizes)} strata ({design.strata or 'all records'}) have "
            "a single PSU: use the complete file, merge each with a neighbour ('merge'), or take "
            "rows as drawn independently (--bootstrap iid --bootstrap population)"
        )


def _estimate(data: Microdata, jobs: list[_Job], work: Work) -> dict[str, str]:
    """Do the jobs that are not done yet, keep what each gives, and say which gave nothing."""
    import joblib
    from tqdm import tqdm

    todo = [job for job in jobs if not job.is_done(data)]
    # The longest first, so that no process is left alone with a long one at the end.
    todo.sort(key=lambda job: -len(job.task.given))

    def calls() -> Iterator[Any]:
        # One by one, as workers ask for them: the records of all tasks would fill the memory.
        for job in todo:
            yield joblib.delayed(job.do)(*job.prepared(data))

    done, skipped = len(jobs) - len(todo), dict[str, str]()
    bar = tqdm(total=len(jobs), initial=done, desc=data.key, unit="task", disable=not work.progress)
    ends: dict[str, Any] = {"initializer": end_with_parent, "initargs": (os.getpid(),)}
    with bar, joblib.parallel_config("loky", n_jobs=work.jobs, **ends):
        for reason in joblib.Parallel(return_as="generator_unordered")(calls()):
            skipped |= reason
            bar.update()
    return {job.task.name: skipped[job.task.name] for job in jobs if job.task.name in skipped}


def end_with_parent(parent: int) -> None:
    """End this process when its parent does, however that ended: a killed build says nothing."""

    def watch() -> None:
        # Windows gives no orphan another parent, but lets us hold on to the process itself.
        process = multiprocessing.parent_process() if os.name == "nt" else None
        while process.is_alive() if process else os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


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
        "software": write.software(),
    }


def describe_unscored(built: Built) -> str:
    """Say which of the tasks just built are scored by another truth; empty if none is."""
    home = built_groundtruth()
    if built.folder.resolve() != home.resolve():
        return f"scores do not use them: they use {home}, then the shipped truths"
    places, here = list_available(), folders(home)
    used = [places[name] for name in built.tasks if name in places]
    others = [place for place in used if place.folder not in here or place.key != built.key]
    if not others:
        return ""
    survey, vintage = built.key.split("_", 1)
    named = few(sorted({f"{place.key} ({place.state})" for place in others}))
    return (
        f"scores of {len(others)} of them still use {named}, which the record of {survey} lists "
        f"before {vintage}: see 'epidemia anchors {survey} --vintage {vintage}'"
    )
