"""The catalogue of survey records: those that ship, and the user's own.

The user's records are in ``$EPIDEMIA_HOME/surveys/*.yaml`` and in the files and folders listed in
``EPIDEMIA_RECORDS`` (``epidemia --record PATH`` adds to it). Tasks are those that records declare,
and those of sets drawn from them (`surveys.fresh`). Errors in a record's YAML name file and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.core.names import RESERVED
from lm_eval_epidemia.core.store import read_disk_once
from lm_eval_epidemia.surveys import fresh
from lm_eval_epidemia.surveys.fresh import FreshSet
from lm_eval_epidemia.surveys.record import Record, Task
from lm_eval_epidemia.surveys.variable import expand_levels


class _Catalogue(NamedTuple):
    """What there is.

    Records and tasks by name, the files of own records, faults of records by file, and fresh sets
    by folder.
    """

    records: dict[str, Record]
    tasks: dict[str, Task]
    own: dict[str, Path]
    faults: dict[Path, str]
    fresh: dict[Path, FreshSet]


def own_files() -> list[Path]:
    """Return the files of the user's own records, whether or not they can be read.

    Raises
    ------
    EpidemiaError
        If ``EPIDEMIA_RECORDS`` names a path that does not exist, or a folder without records.
    """
    files: list[Path] = []
    for place in paths.named_records():
        inside = sorted(place.glob("*.yaml")) if place.is_dir() else [place]
        if not inside or not (place.is_file() or place.is_dir()):
            fault = "contains no .yaml file" if place.is_dir() else "does not exist"
            of = f"{place} ({paths.RECORDS} or --record)"
            raise EpidemiaError(f"{of} {fault}: give a survey record or a folder of records")
        files += inside
    # What was named comes first: of two records of one name the first is used.
    files += sorted((paths.home() / "surveys").glob("*.yaml"))
    return list(dict.fromkeys(path.resolve() for path in files))


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Record]:
    records = [load_record(path) for path in sorted(Path(__file__).parent.glob("*.yaml"))]
    return {entry.survey: entry for entry in records}


@read_disk_once
def _load_catalogue() -> _Catalogue:
    known = _Catalogue(dict(_shipped()), {}, {}, {}, {})
    for path in own_files():
        try:
            entry = load_record(path)
            _check_own(entry, path, known.own.get(entry.survey))
        except EpidemiaError as error:
            notices.warn("record left out", f"one of your survey records is left out: {error}")
            known.faults[path] = str(error)
        else:
            known.records[entry.survey] = entry
            known.own[entry.survey] = path
    for entry in known.records.values():
        known.tasks.update((task.name, task) for task in entry.all_tasks)
    for path in sorted(paths.find_fresh_folder().glob(f"*/{fresh.TASKS}")):
        try:
            known.fresh[path.parent] = _usable(path, known.records)
        except EpidemiaError as error:
            notices.warn("fresh tasks left out", f"a set of fresh tasks is left out: {error}")
        else:
            known.tasks.update((task.name, task) for task in known.fresh[path.parent].tasks)
    return known


def _usable(path: Path, known: Mapping[str, Record]) -> FreshSet:
    """Read a set of fresh tasks, and refuse it if it is not of the record that is here."""
    drawn = fresh.read_set(path)
    if (entry := known.get(drawn.survey)) is None:
        raise EpidemiaError(f"{path}: its survey record, {drawn.survey}, is missing")
    if drawn.vintage not in entry.vintages or fresh.hash_of(entry, drawn.vintage) != drawn.record:
        raise EpidemiaError(
            f"{path.parent}: the record of {drawn.survey} has changed since these tasks were "
            f"drawn; draw them again: {fresh.command(drawn)}"
        )
    return drawn


def _check_own(entry: Record, path: Path, other: Path | None) -> None:
    """Refuse a record that would take another's place, or change what a shipped group asks."""
    name, ships = entry.survey, entry.survey in _shipped()
    kinds = " and ".join(kind for kind in entry.tasks if kind != "extra")
    if other is not None:
        fault = f"{other} is a record of {name!r} too, and is used: rename one of them"
    elif name in RESERVED:
        fault = f"epidemia_{name} is the name of another group: choose another name for 'survey'"
    elif entry.replaces not in (None, name) or (entry.replaces and not ships):
        hint = suggest(name, _shipped())
        fault = f"'replaces' must be its own name, {name!r}, and that of a shipped record ({hint})"
    elif ships and entry.replaces is None:
        fault = f"{name!r} is a shipped survey: choose another name, or add 'replaces: {name}'"
    elif kinds and not ships:
        fault = f"put the tasks of your own survey under 'extra', not under {kinds}"
    elif not ships and any(task.stands_for for task in entry.declared):
        fault = "only shipped surveys can have 'stands_for': leave it out"
    else:
        return
    raise EpidemiaError(f"{path}: {fault}")


def records() -> dict[str, Record]:
    """Return the survey records, by survey name: those that ship, then the user's own.

    A user's record with errors is left out with a warning, so that other tasks still work;
    `find_record` raises its error.
    """
    return _load_catalogue().records


def find_own_records() -> dict[str, Path]:
    """Return the files of the user's own records, by survey."""
    return _load_catalogue().own


def own_surveys() -> frozenset[str]:
    """Return the names of the surveys that do not ship."""
    return frozenset(_load_catalogue().own.keys() - _shipped().keys())


def fresh_sets() -> dict[Path, FreshSet]:
    """Return the sets of fresh tasks that can be used, by their folder.

    One that is damaged, or whose survey's record has changed since, is left out with a warning.
    """
    return _load_catalogue().fresh


def find_fresh_set(task: str) -> FreshSet | None:
    """Return the set that a task belongs to; None if a record declares the task."""
    sets = fresh_sets().values()
    return next((drawn for drawn in sets if task.startswith(f"{drawn.group}_")), None)


def find_record(survey: str) -> Record:
    """Return one survey's record; the error for an unknown name suggests the nearest ones."""
    known = _load_catalogue()
    if survey in known.records:
        return known.records[survey]
    for path, fault in known.faults.items():
        if path.stem == survey:
            raise EpidemiaError(fault)
    raise EpidemiaError(f"no survey {survey!r} ({suggest(survey, known.records)})")


def how_to_build(survey: str) -> str:
    """Say which official files the tasks of a survey need, and how to fetch and build them."""
    entry = find_record(survey)
    official = entry.vintages[entry.official]
    how = f"epidemia survey download {survey}, then epidemia groundtruth build {survey}"
    if survey in own_surveys():  # whose page is what its author wrote, if anything
        return f"it needs {official.needed}: epidemia groundtruth build {survey} --raw FILE"
    if any(file.url is None for file in official.files):
        how = f"download it there, then epidemia groundtruth build {survey} --raw FILE"
    return f"it needs {official.needed} ({official.page}): {how}"


def file_of(survey: str) -> Path:
    """Return the file of a survey's record."""
    find_record(survey)
    return _load_catalogue().own.get(survey, Path(__file__).parent / f"{survey}.yaml")


def all_tasks() -> dict[str, Task]:
    """Return every declared task, available or not, by its lm-eval name."""
    return _load_catalogue().tasks


def official_cells(task: Task) -> int:
    """Return how many combinations the official levels of a task's conditions have."""
    survey = find_record(task.survey)
    return prod(len(survey.readings(name, survey.official)[0].levels) for name in task.given)


def find_task(name: str) -> Task:
    """Return one declared task; the error for an unknown name suggests the nearest ones."""
    try:
        return all_tasks()[name]
    except KeyError:
        raise EpidemiaError(f"no task {name!r} ({suggest(name, all_tasks())})") from None


def _list_written(levels: yaml.SequenceNode) -> list[yaml.Node]:
    """Return, for every level the schema sees, the YAML that wrote it: ``each`` writes several."""
    pairs = zip(levels.value, _constructed(levels), strict=True)
    return [node for node, item in pairs for _ in expand_levels([item])]


def _line_of(node: yaml.Node | None, location: tuple[Any, ...]) -> int:
    """Follow a pydantic error location through composed YAML to a line number (1-based)."""
    line, above = node.start_mark.line + 1 if node else 1, None
    for step in location:
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    child, line = value, key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            items = _list_written(node) if above == "levels" else node.value
            if step < len(items):
                child, line = items[step], items[step].start_mark.line + 1
        # A step that the file does not have: a missing field, or a list that the schema adds.
        node, above = child or node, step
    return line


def _repeated(node: yaml.Node | None) -> Iterator[tuple[int, str]]:
    """Find keys that a mapping has twice: YAML would keep the last and lose the others."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if str(key.value) in seen:
                yield key.start_mark.line + 1, str(key.value)
            seen.add(str(key.value))
            yield from _repeated(value)
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            yield from _repeated(child)


def _composed(text: str) -> yaml.Node | None:
    """Return the nodes of a YAML text, which know their lines."""
    # libyaml's parser, where PyYAML was built with it, is ten times as fast; of an error, the one
    # in Python says more.
    if fast := getattr(yaml, "CSafeLoader", None):
        with suppress(yaml.YAMLError):
            return yaml.compose(text, fast)
    return yaml.compose(text, yaml.SafeLoader)


def _constructed(node: yaml.Node) -> Any:
    return yaml.constructor.SafeConstructor().construct_document(node)


def load_record(path: Path) -> Record:
    """Read and check a survey record.

    Parameters
    ----------
    path : Path
        A YAML file.

    Returns
    -------
    Record

    Raises
    ------
    EpidemiaError
        Names file, line and field of every error.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EpidemiaError(f"{path.name} cannot be read as UTF-8 text: {error}") from None
    return read_record(text, path.name)


def read_record(text: str, name: str = "draft.yaml") -> Record:
    """Check the text of a survey record, as `load_record` does; errors call its file `name`."""
    try:
        tree = _composed(text)
        repeated = dict.fromkeys(_repeated(tree))
        data = None if tree is None else _constructed(tree)
    except yaml.YAMLError as error:
        fault = " ".join(str(error).split())
        raise EpidemiaError(f"{name} is not valid YAML: {fault}") from None
    if repeated:
        twice = (f"{name}:{line}: {key} is given twice here" for line, key in repeated)
        raise EpidemiaError("\n".join(f"{fault}: keep one" for fault in twice))
    try:
        return Record.model_validate(data)
    except ValidationError as error:
        lines, problems = [], error.errors()
        for problem in problems:
            place = problem["loc"]
            # Pydantic leaves out wrong levels, and then finds too few of them.
            if problem["type"] == "too_short" and any(
                place == other["loc"][: len(place)] != other["loc"] for other in problems
            ):
                continue
            field = ".".join(str(step) for step in problem["loc"]) or "record"
            message = problem["msg"].removeprefix("Value error, ")
            lines.append(f"{name}:{_line_of(tree, problem['loc'])}: {field}: {message}")
        raise EpidemiaError("\n".join(lines)) from None
