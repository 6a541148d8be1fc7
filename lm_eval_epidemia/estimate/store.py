"""Ground truth on disk: parquet files, their registry with hashes, and reading them.

Three parquet files per survey and vintage, aggregates only, one row group per task::

    nsduh_2022.cells.parquet        task, cell, given, weight, n, n_eff_iid, n_eff_design, p
    nsduh_2022.bootstrap.parquet    task, scheme, replicate, distance
    nsduh_2022.replicates.parquet   task, cell, steps
    registry.json                   where they come from, how they were made, their hashes

The truths of tasks without conditions and of joint outcomes are in folders of the same kind,
``marginal`` and ``joint``; those of more than two yes/no questions in ``marginal_wide`` and
``joint_wide``. A truth's fingerprint is that of its file, so additions to these folders do not
change the fingerprints of other tasks.

The third holds P(Y | X) at each joint replicate of the survey, as whole steps from P(Y | X): it is
read only when an error is asked for. A set of fresh tasks has such files of its own.

Scores use the first vintage in the survey record that is available here; for the same vintage, the
user's build (in ``paths.home()``) takes precedence over the shipped truth.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import (
    State,
    list_bases,
    read_disk_once,
    read_once,
    sha256_of,
    stamp,
)
from lm_eval_epidemia.estimate import registry
from lm_eval_epidemia.estimate.registry import Place, entry_of, find_damaged, read_registry
from lm_eval_epidemia.estimate.sampling import SCHEMES, Scheme
from lm_eval_epidemia.surveys import catalogue, fresh

if TYPE_CHECKING:
    import pyarrow.parquet

    from lm_eval_epidemia.surveys.record import Record, Task

#: The quantile of the bootstrap distances that counts as "cannot be distinguished from the truth".
QUANTILE = 0.95


@dataclass(frozen=True, eq=False)
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
        First 12 hexadecimal digits of the hash of the cells file; for a fresh task, also of the
        file that declares its set, and so of the record's wording.
    place : Place
        Where it was read from.
    sample : str
        Name of the survey's joint replicates: truths with the same sample share them. Empty for an
        exact table.
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
    place: Place
    sample: str

    @property
    def state(self) -> State:
        """``"shipped"`` or ``"built here"``."""
        return self.place.state

    @property
    def replicates(self) -> Array:
        """P(Y | X) at each joint replicate, shape (B, C, K).

        Replicate b of two truths of equal `sample` is one other sample of the survey. B is 0 for
        an exact table.
        """
        if not self.sample:
            return np.empty((0, *self.p.shape))
        return _replicates(self.task, self.place, stamp(self.place.registry))

    @property
    def scheme(self) -> Scheme:
        """The bootstrap that scores use: ``iid``, the published protocol, wherever it was built.

        An exact table has none, and no distances.
        """
        return next((scheme for scheme in SCHEMES if scheme in self.distances), "iid")

    def d_perfect(self, quantile: float = QUANTILE, scheme: Scheme | None = None) -> float:
        """Distance below which answers are indistinguishable from the truth; in [0, 2].

        Parameters
        ----------
        quantile : float
            Of the bootstrap distances; 0.95 unless told otherwise.
        scheme : {"iid", "design", "population"}, optional
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
        return d_perfect(self.distances[scheme], quantile)


def d_perfect(distances: Array, quantile: float = QUANTILE) -> float:
    """Return the distance below which answers are indistinguishable from the truth.

    Parameters
    ----------
    distances : ndarray, shape (B,)
        Of the truth from bootstrap samples of the survey: D(P, P^(b)).
    quantile : float
    """
    return float(np.quantile(distances, quantile))


#: Kinds of tasks whose truths lie in a folder of their own, of that name.
APART = ("marginal", "joint")

#: What follows these where the outcome is joint and of more answers than two yes/no questions have.
WIDE = "_wide"


def folder_of(task: Task, base: Path) -> Path:
    """Return where the truth of a task lies in a folder of ground truth."""
    if task.kind not in APART:
        return base
    survey = catalogue.find_record(task.survey)
    levels = survey.variables[task.outcome][0].levels
    is_wide = survey.is_joint(task.outcome) and len(levels) > 4
    return base / f"{task.kind}{WIDE if is_wide else ''}"


def folders(base: Path) -> list[Path]:
    """Return a folder of ground truth and those in it."""
    return [base, *(base / f"{name}{wide}" for wide in ("", WIDE) for name in APART)]


def built_groundtruth() -> Path:
    """Return the folder of ground truth that the user built (it need not exist)."""
    return paths.home() / "groundtruth"


@read_disk_once
def list_available() -> dict[str, Place]:
    """Return where the truth of every available task is, by task name.

    A task whose truth is damaged is left out, with a warning; nothing takes its place. `load_truth`
    raises its error.
    """
    return {name: place for name, (place, *_) in all_places().items() if _is_sound(name, place)}


def is_available(name: str) -> bool:
    """Tell whether the truth of one task is available."""
    return any(_is_sound(name, place) for place in all_places().get(name, [])[:1])


def _is_sound(name: str, place: Place) -> bool:
    """Tell whether a truth is as registered; a warning says what is wrong with it."""
    try:
        for file in entry_of(place, name)[0]["files"].values():
            _check_hash(place, file)
        registry.check_meaning(place, name)
    except EpidemiaError as error:
        notices.warn("damaged ground truth", f"{name} is left out: {error}")
        return False
    return True


@read_disk_once
def all_places() -> dict[str, list[Place]]:
    """Return every available vintage of every task, by task name; the one in use comes first."""
    usable, known, declared = _of_sets(), catalogue.records(), catalogue.all_tasks()
    bases = [(folder, state) for base, state in list_bases() for folder in folders(base)]
    for folder, state in bases:
        wrong = find_damaged(folder)
        for place in (Place(folder, key, state) for key in read_registry(folder)):
            if place.key in wrong:
                notices.warn(
                    "damaged ground truth",
                    f"{place.registry}: the entry {place.key} is left out ({wrong[place.key]}): "
                    f"{place.mend}",
                )
            elif place.survey in known:
                usable.append(place)
            else:
                notices.warn(
                    "record not here",
                    f"the truth of {place.key} is left out: the survey record of {place.survey} "
                    f"is missing: put it into {paths.home() / 'surveys'}, or name it in "
                    f"{paths.RECORDS} or with --record",
                )
    usable.sort(key=lambda place: _preference(place, known[place.survey]))
    places: dict[str, list[Place]] = {}
    for place in usable:
        for name in read_registry(place.folder)[place.key]["tasks"]:
            # What was built of a record of the user's own may have left it since.
            if name in declared:
                places.setdefault(name, []).append(place)
    return places


def vintages(name: str, state: State | None = None) -> list[str]:
    """Return the available vintages of a task's truth; the one in use comes first.

    Parameters
    ----------
    name : str
    state : str, optional
        Only truths that were built here, or only shipped ones.
    """
    places = all_places().get(name, [])
    return list(dict.fromkeys(place.vintage for place in places if state in (None, place.state)))


def _of_sets() -> list[Place]:
    """Return where the truths of fresh tasks are."""
    places = []
    for folder, drawn_set in catalogue.fresh_sets().items():
        key = f"{drawn_set.survey}_{drawn_set.vintage}"
        try:
            wrong = find_damaged(folder).get(key, "")
            of = read_registry(folder).get(key, {}).get("fresh") if not wrong else None
            if not wrong and not (isinstance(of, dict) and of.get("declared") == drawn_set.sha256):
                wrong = f"its truth does not belong to the tasks in {fresh.TASKS}"
        except EpidemiaError as error:
            wrong = str(error)
        if wrong:
            notices.warn(
                "fresh tasks left out",
                f"a set of fresh tasks is left out: {folder}: {wrong}; draw it again: "
                f"{fresh.command(drawn_set)}",
            )
        else:
            places.append(Place(folder, key, "built here"))
    return places


def _preference(place: Place, known: Record) -> tuple[str, int, str, bool]:
    """Sort the survey record's first vintage first, and what was built before what ships."""
    listed = list(known.vintages)
    number = listed.index(place.vintage) if place.vintage in listed else len(listed)
    return place.survey, number, place.vintage, place.state == "shipped"


def load_truth(name: str, vintage: str | None = None, state: State | None = None) -> GroundTruth:
    """Return the truth of a task; files with a different hash than registered are refused.

    Parameters
    ----------
    name : str
    vintage : str, optional
        By default the one that scores use.
    state : str, optional
        Only what was built here, or only what the package ships.

    Raises
    ------
    EpidemiaError
        If there is no such task, no truth for it, or a file was changed.
    """
    declared = catalogue.find_task(name)
    places = [place for place in all_places().get(name, []) if state in (None, place.state)]
    if vintage is not None:
        catalogue.find_record(declared.survey).vintage(vintage)
        here = vintages(name, state)
        places = [place for place in places if place.vintage == vintage]
        if not places:
            raise EpidemiaError(
                f"{name} has no ground truth for {vintage} here, only for "
                f"{', '.join(here) or 'none'}: epidemia groundtruth build {declared.survey} "
                f"--vintage {vintage} --raw FILE"
            )
    if not places:
        drawn_set = catalogue.find_fresh_set(name)
        how = fresh.command(drawn_set) if drawn_set else catalogue.how_to_build(declared.survey)
        raise EpidemiaError(f"{name} has no ground truth here: {how}")
    place = places[0]
    before = stamp(place.registry)
    registry.check_meaning(place, name)
    try:
        return _load_truth(name, place, before)
    except EpidemiaError:
        if stamp(place.registry) == before:
            raise
        return load_truth(name, vintage, state)  # a build has just replaced what was being read


@lru_cache(maxsize=512)
def _load_truth(name: str, place: Place, _stamp: tuple[int, int, int]) -> GroundTruth:
    truth, entry = entry_of(place, name)
    rows = _read_rows(place, truth["files"]["cells"], name)
    distances = _read_rows(place, truth["files"]["bootstrap"], name, none=not entry["bootstrap"])
    n_eff = "n_eff_design" if "design" in entry["bootstrap"] else "n_eff_iid"
    schemes = np.asarray(distances["scheme"].to_pylist())
    return GroundTruth(
        task=name,
        survey=truth["survey"],
        vintage=truth["vintage"],
        levels=tuple(entry["levels"]),
        given=tuple(map(tuple, rows["given"].to_pylist())),
        columns=entry["columns"],
        weights=rows["weight"].to_numpy(),
        n=rows["n"].to_numpy(),
        n_eff=rows[n_eff].to_numpy(),
        p=rows["p"].combine_chunks().flatten().to_numpy().reshape(len(rows["p"]), -1),
        distances={
            scheme: _fixed(distances["distance"].to_numpy()[schemes == scheme])
            for scheme in entry["bootstrap"]
        },
        fingerprint=_fingerprint(truth),
        place=place,
        sample=_sample(place, truth, entry),
    )


def _fingerprint(truth: dict[str, Any]) -> str:
    """Name the numbers of a survey's truth and, where the registry says so, their wording."""
    sha256: str = truth["files"]["cells"]["sha256"]
    if "fresh" in truth:
        sha256 = hashlib.sha256(f"{sha256} {truth['fresh']['declared']}".encode()).hexdigest()
    return sha256[:12]


def _sample(place: Place, truth: dict[str, Any], entry: dict[str, Any]) -> str:
    """Name the joint replicates of a task."""
    if not entry["bootstrap"]:
        return ""
    if "sample" in truth:
        return str(truth["sample"])
    return f"{place.key} {truth['files']['replicates']['sha256'][:12]}"


@lru_cache(maxsize=512)
def _replicates(name: str, place: Place, _stamp: tuple[int, int, int]) -> Array:
    truth, entry = entry_of(place, name)
    rows = _read_rows(place, truth["files"]["replicates"], name)
    p = _load_truth(name, place, _stamp).p
    number, step = entry["replicates"]["number"], entry["replicates"]["step"]
    cells, levels = p.shape
    steps = rows["steps"].combine_chunks().flatten().to_numpy()
    moved = steps.reshape(cells, levels - 1, number) * step
    replicates = np.empty((number, cells, levels))
    replicates[..., :-1] = p[:, :-1] + moved.transpose(2, 0, 1)
    replicates[..., -1] = 1 - replicates[..., :-1].sum(axis=2)
    return _fixed(replicates)


def _fixed(values: Array) -> Array:
    """Return an array that nobody can change, as those that Arrow gives: it is kept for all."""
    values.flags.writeable = False
    return values


def _read_rows(place: Place, file: dict[str, str], task: str, none: bool = False) -> pyarrow.Table:
    """Read the rows of a task: its row group of a file whose hash is the registered one.

    An exact table has `none` in the bootstrap file.
    """
    path = _check_hash(place, file)
    parquet, groups = _open_parquet(path)
    if none:
        return parquet.schema_arrow.empty_table()
    if task not in groups:
        raise EpidemiaError(f"{path} has no rows of {task}, against its registry: {place.mend}")
    # Arrow's threads abort a command that ends while they start, and a group is small.
    return parquet.read_row_group(groups[task], use_threads=False)


def _check_hash(place: Place, file: dict[str, str]) -> Path:
    """Refuse a file that is not the registered one; return its path."""
    path = place.folder / file["name"]
    if not path.is_file():
        raise EpidemiaError(f"{path} is missing, though the registry lists it: {place.mend}")
    if (sha256 := sha256_of(path)) != file["sha256"]:
        raise EpidemiaError(
            f"{path} was changed (sha256 {sha256[:12]}, not {file['sha256'][:12]}): {place.mend}"
        )
    return path


@read_once
def _open_parquet(path: Path) -> tuple[pyarrow.parquet.ParquetFile, dict[str, int]]:
    """Open a parquet file and tell which row group each task has."""
    import pyarrow.parquet

    # In memory, so that no file stays open; the largest has a megabyte.
    parquet = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(path.read_bytes()))
    columns = [parquet.metadata.row_group(n).column(0) for n in range(parquet.num_row_groups)]
    return parquet, {c.statistics.min: n for n, c in enumerate(columns) if c.num_values}
