"""Sets of quantities on disk: one record in JSON, one table of what was drawn.

Two files per set, sums over people only, never a person::

    nhanes.json            the quantities, where they come from, the hashes of both files
    nhanes.draws.parquet   quantity, draws, size, draw, mean, variance, count

A set is the task ``epidemia_prior_<set>``. What a user built (in ``paths.home()``) is used before
what the package ships.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from lm_eval_epidemia.benchmarks.prior.quantities.quantity import (
    DRAWS,
    FEWEST,
    SIZES,
    Quantities,
    Quantity,
    Samples,
)
from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.core.errors import EpidemiaError, few, suggest
from lm_eval_epidemia.core.names import ENDINGS, check_name
from lm_eval_epidemia.core.store import (
    State,
    describe_problem,
    list_bases,
    read_disk_once,
    read_once,
    seal_of,
    stamp,
    write_json,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: Task name = prefix and the set's name.
PREFIX = "epidemia_prior_"
#: What makes a task's name that of a group.
GROUPS = ("generated", "own")
SCHEMA = 1


class DeclaredSet(NamedTuple):
    """A set that is here, without its numbers.

    Attributes
    ----------
    name : str
        Of the task.
    survey, vintage, title : str
        As in `Quantities`.
    published : bool
        Whether others published it; else it was generated.
    state : str
        "shipped" or "built here".
    path : Path
        Its record.
    """

    name: str
    survey: str
    vintage: str
    title: str
    published: bool
    state: State
    path: Path


class _DrawnSamples(BaseModel):
    name: str
    sha256: str


class _StoredSet(BaseModel):
    schema_: Literal[1] = Field(alias="schema")
    sha256: str = Field(description="The seal, over all else.")
    task: str
    survey: str
    vintage: str
    title: str
    published: bool
    scored: str
    about: dict[str, str]
    draws: _DrawnSamples
    quantities: tuple[Quantity, ...] = Field(min_length=1)


#: Fields of a set that its record holds as they are, and columns of numbers of its draws.
_KEPT = ("task", "survey", "vintage", "title", "about", "quantities", "scored")
_COLUMNS = ("mean", "variance", "count")


def find_built_folder() -> Path:
    """Return the folder of the sets that the user built (it need not exist)."""
    return paths.home() / "groundtruth" / "quantities"


def _shipped_folder() -> Path:
    return paths.shipped_groundtruth() / "quantities"


def _mend(path: Path) -> str:
    if path.parent == _shipped_folder():
        return "reinstall the package"
    return f"make it again with 'epidemia quantities new', or delete {path}"


@read_once
def _record(path: Path) -> _StoredSet:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        record = _StoredSet.model_validate(raw)
    except (ValueError, OSError) as error:
        raise EpidemiaError(
            f"{path} is not a record of quantities ({describe_problem(error)}): {_mend(path)}"
        ) from error
    if raw.pop("sha256") != seal_of(raw):
        raise EpidemiaError(f"{path} was changed after it was written: {_mend(path)}")
    return record


def check_set(name: str, folder: Path | None = None, option: str = "--name") -> None:
    """Refuse a name that no set of one's own may have.

    Parameters
    ----------
    name : str
        Without the prefix.
    folder : Path, optional
        Where it shall be, by default with the user's own, from which tasks are made: there it may
        not take the place of one that ships.
    option : str
        Where the name was given.

    Raises
    ------
    EpidemiaError
        If it is none for a file and a task, or is taken.
    """
    check_name("set of quantities", name, option)
    own, shipped = find_built_folder().resolve(), _shipped_folder() / f"{name}.json"
    what = ""
    if name in GROUPS or name.split("_")[-1] in ENDINGS:
        what = "the name of a group, or of a set in another way of asking"
    elif (folder or own).resolve() == own and shipped.is_file():
        what = "a set that ships"
    if what:
        raise EpidemiaError(
            f"{option} {name}: {PREFIX}{name} is {what}: give another, for example my_{name}"
        )


def _explain_conflict(path: Path, state: State) -> str:
    """Say why a set of the user's own cannot have its name; what was published keeps its."""
    if state != "shipped" and not _record(path).published:
        try:
            check_set(path.stem, option="the name")
        except EpidemiaError as error:
            return f"{path}: {error}"
    return ""


def _folders() -> list[tuple[Path, State]]:
    return [(base / "quantities", state) for base, state in list_bases()]


@read_disk_once
def list_declared() -> dict[str, DeclaredSet]:
    """Return the sets that are here, by task name: the published first, then by name.

    One whose record cannot be read is left out, with a warning; `load_quantities` says what is
    wrong with it.
    """
    sets: dict[str, DeclaredSet] = {}
    for folder, state in reversed(_folders()):
        for path in sorted(folder.glob("*.json")):
            try:
                record = _record(path)
                if record.task != PREFIX + path.stem:
                    raise EpidemiaError(f"{path} contains the set {record.task}: rename its files")
                if fault := _explain_conflict(path, state):
                    raise EpidemiaError(fault)
            except EpidemiaError as error:
                notices.warn("damaged quantities", f"{PREFIX}{path.stem} is left out: {error}")
            else:
                about = record.model_dump(include={"survey", "vintage", "title", "published"})
                sets[record.task] = DeclaredSet(record.task, **about, state=state, path=path)
    return dict(sorted(sets.items(), key=lambda item: (not item[1].published, item[0])))


@read_disk_once
def list_available() -> dict[str, DeclaredSet]:
    """Return the sets that can be used, by task name.

    One whose draws are missing or damaged is left out, with a warning.
    """
    usable = {}
    for name, entry in list_declared().items():
        try:
            load_quantities(name)
        except EpidemiaError as error:
            notices.warn("damaged quantities", f"{name} is left out: {error}")
        else:
            usable[name] = entry
    return usable


def load_quantities(task: str) -> Quantities:
    """Return a set of quantities.

    Parameters
    ----------
    task : str
        ``epidemia_prior_nhanes``.

    Raises
    ------
    EpidemiaError
        If there is none of that name (with the nearest), or its files are damaged, incomplete or
        do not belong together.
    """
    for folder, state in _folders():
        path = folder / f"{task.removeprefix(PREFIX)}.json"
        if task.startswith(PREFIX) and path.is_file() and not _explain_conflict(path, state):
            return load_set_file(path)
    hint = suggest(task, list_declared())
    raise EpidemiaError(f"no set of quantities {task!r} ({hint}): 'epidemia quantities new --help'")


def _draws_of(path: Path) -> Path:
    return path.with_suffix(".draws.parquet")


def load_set_file(path: Path) -> Quantities:
    """Return the set whose record is at `path`; see `load_quantities`."""
    draws = _draws_of(path)
    if not draws.is_file():
        raise EpidemiaError(f"{draws}, the baselines of {path.name}, is missing: {_mend(path)}")
    return _load_set_file(path, stamp(draws))


@read_once
def _load_set_file(path: Path, _draws_stamp: Any) -> Quantities:
    record, draws = _record(path), _draws_of(path)
    content = draws.read_bytes()
    if record.draws.sha256 != hashlib.sha256(content).hexdigest():
        raise EpidemiaError(
            f"{draws} is not the file that {path.name} was written with: {_mend(path)}"
        )
    quantities = Quantities(
        **{field: getattr(record, field) for field in _KEPT},
        baselines=_baselines(content, record.quantities),
        fingerprint=hashlib.sha256(path.read_bytes() + content).hexdigest()[:12],
    )
    _check_quantities(quantities)
    return quantities


def _baselines(content: bytes, quantities: Sequence[Quantity]) -> dict[str, Samples]:
    """Read the draws, in the order in which `_table` writes them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # `read_table` starts threads, which abort a command that ends while they start.
    table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    kinds = table["draws"].unique().to_pylist()
    shape = (len(kinds), len(quantities), len(SIZES), DRAWS)
    values = [table[column].to_numpy().reshape(shape) for column in _COLUMNS]
    return {kind: Samples(*of_kind) for kind, *of_kind in zip(kinds, *values, strict=True)}


def _check_quantities(truth: Quantities) -> None:
    """Refuse a set that scores could not be computed from.

    Raises
    ------
    EpidemiaError
        Naming the quantity.
    """
    times = Counter(quantity.name for quantity in truth.quantities)
    if repeated := [name for name, number in times.items() if number > 1]:
        raise EpidemiaError(f"{truth.task}: several quantities are named {few(repeated)}")
    if truth.scored not in truth.baselines:
        kinds = ", ".join(truth.baselines) or "none"
        raise EpidemiaError(f"{truth.task}: scores use {truth.scored!r} draws, but it has {kinds}")
    shape = (len(truth.quantities), len(SIZES), DRAWS)
    for kind, drawn in truth.baselines.items():
        if any(values.shape != shape or not np.isfinite(values).all() for values in drawn):
            raise EpidemiaError(f"{truth.task}: {kind} draws must have shape {shape}, no NaN")
    for each in truth.quantities:
        fault, is_share = "", 0 <= each.mean <= 1 and 0 <= each.marginal_mean <= 1
        if each.n < FEWEST:
            fault = f"{each.n} people are in the slice, {FEWEST} are needed"
        elif not each.low < each.high:
            fault = f"the grid goes from {each.low:g} to {each.high:g}"
        elif each.family == "beta" and not is_share:
            fault = f"a beta prior needs a mean between 0 and 1, not {each.mean:g}"
        elif each.family == "lognormal" and each.mean <= 0:
            fault = f"a lognormal prior needs a positive mean, not {each.mean:g}"
        if fault:
            raise EpidemiaError(f"{truth.task} {each.name} ({each.base}): {fault}")


def _table(truth: Quantities) -> pa.Table:
    import pyarrow as pa

    names = [quantity.name for quantity in truth.quantities]
    rows = {"draws": [*truth.baselines], "quantity": names, "size": SIZES, "draw": range(DRAWS)}
    places = np.indices([len(each) for each in rows.values()]).reshape(len(rows), -1)
    order = {n: np.array(each)[at] for (n, each), at in zip(rows.items(), places, strict=True)}
    values = (np.stack(of).ravel() for of in zip(*truth.baselines.values(), strict=True))
    return pa.table(
        {
            **{name: pa.array(order[name]).dictionary_encode() for name in ("quantity", "draws")},
            **{name: pa.array(order[name], pa.int8()) for name in ("size", "draw")},
            **dict(zip(_COLUMNS, values, strict=True)),
        }
    )


def write_quantities(folder: Path, truth: Quantities, published: bool = False) -> Path:
    """Write a set: first its draws, then the record that vouches for them.

    Parameters
    ----------
    folder : Path
    truth : Quantities
        Its `fingerprint` is not looked at: it follows from what is written.
    published : bool
        Whether others published it.

    Returns
    -------
    Path
        Of the record.

    Raises
    ------
    EpidemiaError
        If it is no set that scores could be computed from, or the folder cannot be written to.
    """
    import pyarrow.parquet as pq

    if not truth.task.startswith(PREFIX):
        raise EpidemiaError(f"a set of quantities must be named {PREFIX}..., not {truth.task}")
    _check_quantities(truth)
    name = truth.task.removeprefix(PREFIX)
    if not published:
        check_set(name, folder, "the name")
    path = folder / f"{name}.json"
    draws, content = _draws_of(path), io.BytesIO()
    pq.write_table(_table(truth), content, compression="zstd", compression_level=15)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        **{field: getattr(truth, field) for field in ("task", "survey", "vintage", "title")},
        "published": published,
        "scored": truth.scored,
        "about": dict(truth.about),
        "draws": {"name": draws.name, "sha256": hashlib.sha256(content.getvalue()).hexdigest()},
        "quantities": [
            {
                **{field: of for field, of in quantity._asdict().items() if of is not None},
                "conditions": [each._asdict() for each in quantity.conditions],
            }
            for quantity in truth.quantities
        ],
    }
    record = {"sha256": seal_of(record), **record}
    _StoredSet.model_validate(record)
    with paths.atomic_write(draws) as temporary:
        temporary.write_bytes(content.getvalue())
    write_json(path, record)
    return path
