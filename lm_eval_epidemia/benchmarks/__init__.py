"""The benchmarks: what is measured, one folder each and one line each in `BENCHMARKS`.

A benchmark combines ways of asking (`ask.way`) with metrics and simulated respondents. Task
files, hooks, samples, export, cost, report and site use only these tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from lm_eval_epidemia.ask.way import Way
from lm_eval_epidemia.benchmarks.benchmark import Benchmark, Leaf
from lm_eval_epidemia.core.errors import EpidemiaError, suggest, words_of
from lm_eval_epidemia.core.lazy import Lazy
from lm_eval_epidemia.core.store import read_disk_once
from lm_eval_epidemia.surveys import fresh

BENCHMARKS: Lazy[Benchmark] = Lazy(
    __name__,
    {
        "observation": "observation:OBSERVATION",
        "quick": "observation.quick:QUICK",
        "undated": "observation.undated:UNDATED",
        "intervention": "intervention:INTERVENTION",
        "prior": "prior:PRIOR",
    },
)


class _EveryWay(Mapping[str, Way]):
    """Every way of asking by its name, in the order of all lists."""

    def __getitem__(self, name: str) -> Way:
        for benchmark in BENCHMARKS.values():
            if name in benchmark.ways:
                return benchmark.ways[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for benchmark in BENCHMARKS.values() for name in benchmark.ways)

    def __len__(self) -> int:
        return sum(1 for _ in self)


WAYS = _EveryWay()


def in_way(name: str, way: str) -> str:
    """Return lm-eval's name of a task or group: ``..._likelihood``; no suffix for a plain way."""
    return WAYS[way].named(name)


@read_disk_once
def list_leaves() -> dict[str, Leaf]:
    """Return every declared task in every way of its benchmark, by lm-eval's name.

    In the order of all lists: by benchmark, way and task.
    """
    known = {}
    for benchmark in BENCHMARKS.values():
        for name, way in benchmark.ways.items():
            parts = benchmark.parts(way)
            for entry in benchmark.entries().values():
                part = way.named(entry.part) if entry.part in parts else ""
                leaf = Leaf(benchmark, entry, name, way.named(entry.group), part)
                known[way.named(entry.name)] = leaf
    return known


@read_disk_once
def list_unions() -> dict[str, frozenset[str]]:
    """Return the groups whose tasks are also in other groups, and these tasks.

    Both by lm-eval's names, in the ways that ask all of these tasks.
    """
    members: dict[str, list[Leaf]] = {}
    for leaf in list_leaves().values():
        for union in leaf.entry.also:
            members.setdefault(in_way(union, leaf.way), []).append(leaf)
    return {
        union: frozenset(in_way(leaf.entry.name, leaf.way) for leaf in of)
        for union, of in members.items()
        if all(WAYS[leaf.way].asks(leaf.entry.declared) for leaf in of)
    }


def find_groups(group: str) -> set[str]:
    """Return the groups that have the tasks of a union; of another group, itself."""
    return {list_leaves()[task].group for task in list_unions().get(group, ())} or {group}


def describe_union(group: str) -> str:
    """Return what a union (lm-eval's name) consists of; empty for other groups."""
    of = list_groups()[group].unions if group in list_unions() else {}
    return next((says for name, says in of.items() if group.startswith(name)), "")


@read_disk_once
def list_groups() -> dict[str, Benchmark]:
    """Return the top-level groups, by lm-eval's names, in their usual order."""
    return {
        in_way(group, way): benchmark
        for benchmark in BENCHMARKS.values()
        for way in benchmark.ways
        for group in (*benchmark.every_group, *benchmark.unions)
        if group not in benchmark.unions or in_way(group, way) in list_unions()
    }


def list_names() -> set[str]:
    """Return every name of a task or group, whether or not its truth is available."""
    surveys = {leaf.entry.facets.get("survey") for leaf in list_leaves().values()}
    return {name for _, alike in _named() for name in alike} - surveys | list_unions().keys()


def _named() -> list[tuple[Leaf, set[str]]]:
    """Pair each task that is asked with what means it: its own name, its groups', its survey's."""
    named = []
    for own, leaf in list_leaves().items():
        way, entry = WAYS[leaf.way], leaf.entry
        if way.asks(entry.declared):
            meant_by = {own, *leaf.groups}
            if entry.part and entry.group != fresh.GROUP and not way.suffix:
                meant_by.add(entry.facets["survey"])
            named.append((leaf, meant_by))
    return named


@read_disk_once
def list_patterns() -> dict[str, str]:
    """Return the patterns that replace groups of surveys, by their names in lm-eval until 0.2."""
    return {
        in_way(part, leaf.way): in_way(f"{part}_*", leaf.way)
        for leaf in list_leaves().values()
        if not leaf.part and (part := leaf.entry.part) not in ("", leaf.entry.group)
        if WAYS[leaf.way].asks(leaf.entry.declared)
    }


def _needs(leaf: Leaf) -> str:
    """Say what a task without truth needs."""
    try:
        WAYS[leaf.way].load(leaf.entry.name)
    except EpidemiaError as error:
        return str(error)
    return ""


def find_leaves(name: str) -> list[Leaf]:
    """Return the declared tasks that a name stands for, whether or not their truth is available.

    Parameters
    ----------
    name : str
        As `find_tasks` takes it.

    Raises
    ------
    EpidemiaError
        If no such name exists; the message suggests the nearest names.
    """
    name = list_patterns().get(name, name)
    # A pattern means no union: its tasks are of other groups.
    if tasks := list_unions().get(name):
        return [leaf for own, leaf in list_leaves().items() if own in tasks]
    named = _named()
    of_name = [leaf for leaf, meant_by in named if any(fnmatchcase(own, name) for own in meant_by)]
    if not of_name:
        known = {meaning for _, meant_by in named for meaning in meant_by} | list_unions().keys()
        hint = suggest(name, known)
        if not (hint.startswith("nearest") and name.startswith("epidemia")):
            hint += f"; 'epidemia search {' '.join(words_of(name))}' also searches the questions"
        raise EpidemiaError(f"no task or group {name!r} ({hint})")
    return of_name


def find_tasks(name: str) -> list[tuple[str, str]]:
    """Return the available tasks that a name stands for, and their way of asking.

    Parameters
    ----------
    name : str
        A task or group as lm-eval names it, a pattern (``epidemia_low_*``), or a survey: the tasks
        that it declares, with letters.

    Returns
    -------
    list of (str, str)
        Name of the task without suffix, and the way; at least one.

    Raises
    ------
    EpidemiaError
        If no such name exists (suggesting the nearest), or none of its truths is available (saying
        what it needs).
    """
    here = {benchmark.name: set(benchmark.available()) for benchmark in BENCHMARKS.values()}
    declared = find_leaves(name)
    asked = [leaf for leaf in declared if leaf.entry.name in here[leaf.benchmark.name]]
    if not asked:
        first_of = {leaf.entry.facets.get("survey"): leaf for leaf in reversed(declared)}
        needs = "; ".join(_needs(leaf) for leaf in reversed(first_of.values()))
        if len(declared) > 1:
            needs = f"no task of {name} has ground truth here: {needs}"
        raise EpidemiaError(needs)
    return [(leaf.entry.name, leaf.way) for leaf in asked]
