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
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lm_eval_epidemia.benchmarks.prior.quantities.quantity import (
    DIFFICULTIES,
    DRAWS,
    SIZES,
    Baseline,
    Condition,
    Quantities,
    Quantity,
)
from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.core.names import WAYS, check_name
from lm_eval_epidemia.estimate.registry import State, stamp

if TYPE_CHECKING:
    import pyarrow as pa

#: Task name = prefix and the set's name.
PREFIX = "epidemia_prior_"
#: What makes a task's name that of a group.
GROUPS = ("generated", "own")
SCHEMA = 1
#: People in a slice, at least.
FEWEST = 30

Stamp = tuple[int, int, int]
Family = Literal["normal", "beta", "lognormal"]


class Declared(NamedTuple):
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


class _Condition(BaseModel):
    model_config = ConfigDict(extra="forbid")

    variable: str
    level: str
    phrase: str


class _Quantity(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: str
    base: str
    conditions: list[_Condition] = Field(max_length=len(DIFFICULTIES) - 1)
    family: Family
    unit: str
    wording: str
    mean: float
    se: float = Field(ge=0)
    sd: float = Field(ge=0)
    n: int = Field(ge=FEWEST)
    marginal_mean: float
    marginal_sd: float = Field(gt=0)
    low: float
    high: float


class _Draws(BaseModel):
    name: str
    sha256: str


class _Record(BaseModel):
    schema_: Literal[1] = Field(alias="schema")
    sha256: str = Field(description="The seal, over all else.")
    task: str
    survey: str
    vintage: str
    title: str
    published: bool
    scored: str
    about: dict[str, str]
    draws: _Draws
    quantities: list[_Quantity] = Field(min_length=1)


def built() -> Path:
    """Return the folder of the sets that the user built (it need not exist)."""
    return paths.home() / "groundtruth" / "quantities"


def _mend(path: Path) -> str:
    if path.parent == paths.shipped_groundtruth() / "quantities":
        return "reinstall the package"
    return f"make it again with 'epidemia quantities new', or delete {path}"


def _seal(record: Mapping[str, Any]) -> str:
    """Return the hash of a record, whatever the order and layout of its text."""
    kept = {key: value for key, value in record.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=64)
def _record(path: Path, _stamp: Stamp) -> _Record:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        found = _Record.model_validate(raw)
    except (ValueError, OSError) as error:
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            said = f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
        else:
            said = str(error)
        raise EpidemiaError(f"{path} is no record of quantities ({said}): {_mend(path)}") from error
    if found.sha256 != _seal(raw):
        raise EpidemiaError(
            f"{path} was changed after it was written (its hash is another): {_mend(path)}"
        )
    return found


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
    what = ""
    if name in GROUPS or name.split("_")[-1] in WAYS:
        what = "the name of a group, or of a set in another way of asking"
    elif (folder or built()).resolve() == built().resolve() and _shipped(name).is_file():
        what = "a set that ships"
    if what:
        raise EpidemiaError(
            f"{option} {name}: {PREFIX}{name} is {what}: give another, for example my_{name}"
        )


def _shipped(name: str) -> Path:
    return paths.shipped_groundtruth() / "quantities" / f"{name}.json"


def _in_the_way(path: Path, state: State) -> str:
    """Say why a set of the user's own cannot have its name; what was published keeps its."""
    if state == "shipped" or _record(path, stamp(path)).published:
        return ""
    try:
        check_set(path.stem, option="the name")
    except EpidemiaError as error:
        return f"{path}: {error}"
    return ""


def _folders() -> list[tuple[Path, State]]:
    return [(paths.shipped_groundtruth() / "quantities", "shipped"), (built(), "built here")]


def declared() -> dict[str, Declared]:
    """Return the sets that are here, by task name: the published first, then by name.

    One whose record cannot be read is left out, with a warning; `load` says what is wrong with it.
    """
    found: dict[str, Declared] = {}
    for folder, state in _folders():
        for path in sorted(folder.glob("*.json")):
            try:
                record = _record(path, stamp(path))
                if record.task != PREFIX + path.stem:
                    raise EpidemiaError(
                        f"{path} is the set {record.task}: name it "
                        f"{record.task.removeprefix(PREFIX)}.json, with its draws"
                    )
                if fault := _in_the_way(path, state):
                    raise EpidemiaError(fault)
            except EpidemiaError as error:
                notices.warn("damaged quantities", f"{PREFIX}{path.stem} is left out: {error}")
                continue
            found[record.task] = Declared(
                record.task,
                record.survey,
                record.vintage,
                record.title,
                record.published,
                state,
                path,
            )
    return dict(sorted(found.items(), key=lambda one: (not one[1].published, one[0])))


def available() -> dict[str, Declared]:
    """Return the sets that can be used, by task name.

    One whose draws are missing or damaged is left out, with a warning.
    """
    found = {}
    for name, one in declared().items():
        try:
            load(name)
        except EpidemiaError as error:
            notices.warn("damaged quantities", f"{name} is left out: {error}")
        else:
            found[name] = one
    return found


def load(task: str) -> Quantities:
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
    for folder, state in reversed(_folders()):
        path = folder / f"{task.removeprefix(PREFIX)}.json"
        if task.startswith(PREFIX) and path.is_file() and not _in_the_way(path, state):
            return read(path)
    raise EpidemiaError(
        f"no set of quantities {task!r} ({nearest(task, declared())}); 'epidemia quantities new "
        "SURVEY --raw FILE' makes one"
    )


def _draws_of(path: Path) -> Path:
    return path.with_suffix(".draws.parquet")


def read(path: Path) -> Quantities:
    """Return the set whose record is at `path`; see `load`."""
    draws = _draws_of(path)
    if not draws.is_file():
        raise EpidemiaError(
            f"{path} has no {draws.name} beside it, which holds its baselines: {_mend(path)}"
        )
    return _read(path, stamp(path), stamp(draws))


@lru_cache(maxsize=64)
def _read(path: Path, record_stamp: Stamp, _draws_stamp: Stamp) -> Quantities:
    record, content = _record(path, record_stamp), _draws_of(path).read_bytes()
    if record.draws.sha256 != hashlib.sha256(content).hexdigest():
        raise EpidemiaError(
            f"{_draws_of(path)} is not the file that {path.name} was written with (its hash is "
            f"another): {_mend(path)}"
        )
    quantities = tuple(
        Quantity(
            **{
                **one.model_dump(),
                "conditions": tuple(Condition(**each.model_dump()) for each in one.conditions),
            }
        )
        for one in record.quantities
    )
    found = Quantities(
        task=record.task,
        survey=record.survey,
        vintage=record.vintage,
        title=record.title,
        about=record.about,
        quantities=quantities,
        baselines=_baselines(content, quantities, path),
        scored=record.scored,
        fingerprint=hashlib.sha256(path.read_bytes() + content).hexdigest()[:12],
    )
    _check(found)
    return found


def _baselines(content: bytes, quantities: tuple[Quantity, ...], path: Path) -> dict[str, Baseline]:
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    kinds = table["draws"].unique().to_pylist()
    shape = (len(kinds), len(quantities), len(SIZES), DRAWS)
    expected = _order(kinds, [one.name for one in quantities])
    if table.num_rows != math.prod(shape) or any(
        (table[name].to_numpy() != values).any() for name, values in expected.items()
    ):
        raise EpidemiaError(
            f"{_draws_of(path)} does not hold {DRAWS} draws of {', '.join(map(str, SIZES))} for "
            f"each quantity of {path.name}, in their order: {_mend(path)}"
        )
    values = [table[c].to_numpy().reshape(shape) for c in ("mean", "variance", "count")]
    return {kind: Baseline(*(each[k] for each in values)) for k, kind in enumerate(kinds)}


def _check(found: Quantities) -> None:
    """Refuse a set that scores could not be computed from.

    Raises
    ------
    EpidemiaError
        Naming the quantity.
    """
    repeated = [name for name, n in Counter(o.name for o in found.quantities).items() if n > 1]
    if repeated:
        raise EpidemiaError(f"{found.task}: several quantities are named {few(repeated)}")
    if found.scored not in found.baselines:
        raise EpidemiaError(
            f"{found.task}: scores are to be relative to {found.scored!r} draws, but it has "
            f"{', '.join(found.baselines) or 'none'}"
        )
    shape = (len(found.quantities), len(SIZES), DRAWS)
    for kind, baseline in found.baselines.items():
        for each in baseline:
            if each.shape != shape or not np.isfinite(each).all():
                raise EpidemiaError(
                    f"{found.task}: {kind} draws must be {shape} numbers, found {each.shape}"
                    + (" with missing ones" if each.shape == shape else "")
                )
    for one in found.quantities:
        where = f"{found.task} {one.name} ({one.base}):"
        if one.n < FEWEST:
            raise EpidemiaError(f"{where} {one.n} people are in the slice, {FEWEST} are needed")
        if not one.low < one.high:
            raise EpidemiaError(f"{where} the grid goes from {one.low:g} to {one.high:g}")
        if one.family == "beta" and not (0 <= one.mean <= 1 and 0 <= one.marginal_mean <= 1):
            raise EpidemiaError(
                f"{where} a beta prior is about a share, but the mean is {one.mean:g}"
            )
        if one.family == "lognormal" and one.mean <= 0:
            raise EpidemiaError(
                f"{where} a lognormal prior is about a positive number, the mean is {one.mean:g}"
            )


def _table(found: Quantities) -> pa.Table:
    import pyarrow as pa

    def column(field: str) -> Any:
        return np.stack([getattr(one, field) for one in found.baselines.values()]).ravel()

    order = _order(list(found.baselines), [one.name for one in found.quantities])
    return pa.table(
        {
            "quantity": pa.array(order["quantity"]).dictionary_encode(),
            "draws": pa.array(order["draws"]).dictionary_encode(),
            "size": pa.array(order["size"], pa.int8()),
            "draw": pa.array(order["draw"], pa.int8()),
            "mean": column("mean"),
            "variance": column("variance"),
            "count": column("size"),
        }
    )


def _order(kinds: Sequence[str], names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return what the rows of a table of draws are of, column by column."""
    values = {"draws": kinds, "quantity": names, "size": SIZES, "draw": range(DRAWS)}
    index = np.indices([len(each) for each in values.values()]).reshape(len(values), -1)
    return {
        name: np.array(each)[at] for (name, each), at in zip(values.items(), index, strict=True)
    }


def write(folder: Path, found: Quantities, published: bool = False) -> Path:
    """Write a set: first its draws, then the record that vouches for them.

    Parameters
    ----------
    folder : Path
    found : Quantities
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

    if not found.task.startswith(PREFIX):
        raise EpidemiaError(f"a set of quantities is a task {PREFIX}..., not {found.task}")
    _check(found)
    name = found.task.removeprefix(PREFIX)
    if not published:
        check_set(name, folder, "the name")
    path = folder / f"{name}.json"
    content = io.BytesIO()
    pq.write_table(_table(found), content, compression="zstd", compression_level=15)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "task": found.task,
        "survey": found.survey,
        "vintage": found.vintage,
        "title": found.title,
        "published": published,
        "scored": found.scored,
        "about": dict(found.about),
        "draws": {
            "name": _draws_of(path).name,
            "sha256": hashlib.sha256(content.getvalue()).hexdigest(),
        },
        "quantities": [
            {**one._asdict(), "conditions": [each._asdict() for each in one.conditions]}
            for one in found.quantities
        ],
    }
    record = {"sha256": _seal(record), **record}
    with paths.atomic_write(_draws_of(path)) as temporary:
        temporary.write_bytes(content.getvalue())
    with paths.atomic_write(path) as temporary:
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")
    return path
