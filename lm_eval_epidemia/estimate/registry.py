"""The registry of a folder of ground truth: its content, how it was made, and its hashes.

It lists the parquet files with their sha256. The metadata of the numbers (levels, columns,
estimator, source) is in the registry itself, so every task's entry has a hash too: its *seal*, over
the entry and the metadata of its survey and vintage. Users draft a record, build it, and then
improve its wording: of an own record an entry also keeps a hash of what is counted (`meaning_of`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from lm_eval_epidemia.core import notices, paths, store
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.surveys import catalogue
from lm_eval_epidemia.surveys.record import Record, Task

REGISTRY = "registry.json"


class Place(NamedTuple):
    """Where the truth of a task is found."""

    folder: Path
    key: str
    state: store.State

    @property
    def registry(self) -> Path:
        return self.folder / REGISTRY

    @property
    def survey(self) -> str:
        return self.key.split("_", 1)[0]

    @property
    def vintage(self) -> str:
        return self.key.split("_", 1)[1]

    @property
    def mend(self) -> str:
        """How to fix a truth that cannot be used."""
        if self.folder.parent == paths.find_fresh_folder():
            seed = self.folder.name.rpartition("_")[2]
            return (
                f"draw the set again with 'epidemia tasks fresh {self.survey} --raw FILE "
                f"--vintage {self.vintage} --seed {seed} --replace' and its other options, or "
                f"delete {self.folder}"
            )
        build = f"rebuild with 'epidemia groundtruth build {self.survey} --vintage {self.vintage}"
        if self.state == "shipped":
            return f"reinstall the package, or {build} --raw FILE'"
        return f"{build} --raw FILE', or delete {self.folder} to use what ships"


class _Registry(BaseModel):
    version: Literal[3] = Field(alias="schema")
    truths: dict[str, Any]


class _StoredFile(BaseModel):
    name: str
    sha256: str


class _StoredTruth(BaseModel):
    survey: str
    vintage: str
    files: dict[Literal["cells", "bootstrap", "replicates"], _StoredFile] = Field(min_length=3)
    tasks: dict[str, Any]


class _Replicates(BaseModel):
    number: int = Field(ge=2)
    step: float = Field(gt=0, allow_inf_nan=False)


class _StoredTask(BaseModel):
    estimator: str
    columns: dict[str, str]
    levels: list[str] = Field(min_length=2)
    bootstrap: dict[Scheme, dict[str, Any]]
    replicates: _Replicates | None = None
    sha256: str


def read_registry(folder: Path) -> dict[str, Any]:
    """Return the truths of a folder by key ``<survey>_<vintage>``; empty without a registry.

    Raises
    ------
    EpidemiaError
        If the file as a whole cannot be read. A damaged entry is found when it is used.
    """
    path = folder / REGISTRY
    return _parse(path) if path.is_file() else {}


@store.read_once
def _parse(path: Path) -> dict[str, Any]:
    mend = (
        "'epidemia groundtruth build SURVEY' sets it aside and starts a new one; or delete it to "
        "use the shipped one"
    )
    try:
        return _Registry.model_validate(json.loads(path.read_text(encoding="utf-8"))).truths
    except (ValueError, RecursionError) as error:
        fault = store.describe_problem(error)
        raise EpidemiaError(f"{path} is damaged ({fault}): {mend}") from None


def find_damaged(folder: Path) -> dict[str, str]:
    """Return what is wrong with truths of a folder whose outline cannot be read, by key."""
    wrong = {}
    for key, outline in read_registry(folder).items():
        try:
            truth = _StoredTruth.model_validate(outline)
        except ValidationError as error:
            wrong[key] = store.describe_problem(error)
        else:
            if key != f"{truth.survey}_{truth.vintage}":
                wrong[key] = f"it is of {truth.survey} {truth.vintage}"
    return wrong


def entry_of(place: Place, task: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the registry's entries for a survey's truth, and for one of its tasks.

    Raises
    ------
    EpidemiaError
        If the entry was changed after registration; other tasks can still be used.
    """
    return _entry_of(place.registry, place, task)


@store.read_once
def _entry_of(path: Path, place: Place, task: str) -> tuple[dict[str, Any], dict[str, Any]]:
    truth = _parse(path)[place.key]
    entry = truth["tasks"][task]
    where = f"{path}: the entry of {task} in {place.key}"
    try:
        checked = _StoredTask.model_validate(entry)
    except ValidationError as error:
        fault = f"is damaged ({store.describe_problem(error)})"
        raise EpidemiaError(f"{where} {fault}: {place.mend}") from None
    if checked.sha256 != seal(truth, task):
        raise EpidemiaError(f"{where} was changed (its hash does not match): {place.mend}")
    return truth, entry


def seal(truth: dict[str, Any], task: str) -> str:
    """Hash a task's entry with the metadata of its survey and vintage."""
    about = {name: value for name, value in truth.items() if name != "tasks"}
    entry = {name: value for name, value in truth["tasks"][task].items() if name != "sha256"}
    return store.seal_of([about, task, entry])


def add_seals(truth: dict[str, Any]) -> dict[str, Any]:
    """Return a truth whose tasks carry their seals."""
    entries = truth["tasks"].items()
    return {**truth, "tasks": {n: {**entry, "sha256": seal(truth, n)} for n, entry in entries}}


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time write to a folder; others wait, for as long as writing takes."""
    import filelock

    with paths.guard_write(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock"):
            yield


def enter(folder: Path, key: str, truth: dict[str, Any]) -> None:
    """Enter a truth in a folder's registry; the folder is `lock_folder`.

    A registry that cannot be read is renamed, with a message.
    """
    try:
        truths = read_registry(folder)
    except EpidemiaError as error:
        names = (folder / f"{REGISTRY}.set-aside-{number}" for number in itertools.count(1))
        aside = next(name for name in names if not name.exists())
        with paths.guard_write(aside):
            (folder / REGISTRY).rename(aside)
        notices.warn("a registry set aside", f"{error}; it is now {aside.name}")
        truths = {}
    write_registry(folder, {**truths, key: add_seals(truth)})


def write_registry(folder: Path, truths: dict[str, Any]) -> None:
    """Write the registry of a folder, truths in the order of their keys."""
    store.write_json(folder / REGISTRY, {"schema": 3, "truths": dict(sorted(truths.items()))})


# -- The part of a record that determines the numbers of a task -----------------------------------

#: Where an entry has the hash of what is counted: the wording may change without a new build.
FIELD = "record"
#: What of a variable is counted, and what of that is words.
COUNTED = {"column", "missing", "missing_texts", "both", "levels"}
WORDS: Any = {"levels": {"__all__": {"phrase": True, "within": True}}}


def meaning_of(survey: Record, task: Task, vintage: str) -> str:
    """Hash the part of a record that determines a task's numbers.

    Parameters
    ----------
    survey : Record
    task : Task
    vintage : str

    Returns
    -------
    str
        64 hexadecimal digits. Labels are included; phrases, questions and titles are not.
    """
    asked = [part for name in (task.outcome, *task.given) for part in (name, *survey.parts(name))]
    variables = {
        name: [
            way.model_dump(mode="json", exclude_defaults=True, include=COUNTED, exclude=WORDS)
            for way in survey.readings(name, vintage)
        ]
        for name in sorted({*asked, *survey.margin_variables(vintage)})
    }
    rules: list[Any] = [
        survey.design_of(vintage).model_dump(mode="json", exclude_defaults=True),
        survey.model_dump(mode="json", include={"join", "universe"}),
        survey.vintages[vintage].model_dump(mode="json", include={"year", "select", "adjustments"}),
        task.model_dump(mode="json", include={"outcome", "given", "universe"})
        | ({"equal": task.equal} if task.equal else {}),
    ]
    return hashlib.sha256(json.dumps([variables, rules]).encode()).hexdigest()


def check_meaning(place: Place, task: str) -> None:
    """Refuse the truth of a task whose record has since changed in what is counted.

    Raises
    ------
    EpidemiaError
        If it does.
    """
    recorded = entry_of(place, task)[1].get(FIELD)
    if recorded is not None and recorded != _hash_current(task, place.vintage):
        raise EpidemiaError(
            f"the record of {task} has changed since its truth was built, in what is counted "
            f"(levels, codes, weights or population): 'epidemia groundtruth build {place.survey} "
            f"--vintage {place.vintage} --raw FILE' rebuilds it"
        )


@store.read_disk_once
def _hash_current(task: str, vintage: str) -> str:
    declared = catalogue.find_task(task)
    survey = catalogue.find_record(declared.survey)
    return meaning_of(survey, declared, vintage) if vintage in survey.vintages else ""
