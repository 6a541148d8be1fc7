"""The benchmarks: what they are called, which groups they have, what they measure, and their tasks.

A benchmark joins ways of asking (`elicit.ways`) to metrics (`score`). lm-eval's side (`harness`)
and `report` go through the table below, and know nothing else of any benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.elicit.heeded import HEEDED
from lm_eval_epidemia.elicit.ways import WAYS, Way, grid, in_way, intervention, priors
from lm_eval_epidemia.elicit.ways.way import Metric
from lm_eval_epidemia.elicit.ways.written import CLOSED
from lm_eval_epidemia.elicit.wording import ways_of
from lm_eval_epidemia.errors import EpidemiaError, nearest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.registry import stamp
from lm_eval_epidemia.graphs import questions
from lm_eval_epidemia.quantities import store as quantities
from lm_eval_epidemia.score import answerers, forecasters, interventions, respondents
from lm_eval_epidemia.score import priors as stated
from lm_eval_epidemia.score.metrics import metrics_of
from lm_eval_epidemia.surveys import fresh
from lm_eval_epidemia.surveys.catalogue import all_tasks, drawn, own_surveys, record, state
from lm_eval_epidemia.surveys.catalogue import task as task_of
from lm_eval_epidemia.surveys.record import Task

__all__ = ["BENCHMARKS", "INTERVENTION", "OBSERVATION", "PRIOR", "TASK_VERSION", "Benchmark",
           "Entry", "Leaf", "groups", "leaves", "members", "names"]  # fmt: skip


class Entry(NamedTuple):
    """What a benchmark says of a task that it declares.

    Attributes
    ----------
    name : str
    group : str
        One of the benchmark's.
    part : str
        A group in that group: ``epidemia_low_nsduh``; empty where a group has no parts.
    title : str
    facets : mapping of str to str
        By what the report cuts groups: survey, domain, dimension.
    outcome : hashable
        Tasks of the same are alike: one observation of how two models differ.
    declared : object
        Itself, as a way's `asks` takes it.
    """

    name: str
    group: str
    part: str
    title: str
    facets: Mapping[str, str]
    outcome: Hashable
    declared: Any = None

    @property
    def groups(self) -> tuple[str, ...]:
        """All groups that it is in, the largest first."""
        return (self.group, self.part) if self.part else (self.group,)


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A benchmark.

    Attributes
    ----------
    name : str
    base : str
        Begins the names of the files that its task files include.
    groups : tuple of str
        In their usual order, as named in the plain way.
    ways : tuple of str
        In which it is asked, keys of `WAYS`.
    metrics : callable
        From a way to its metrics, by name.
    primary : str
        The metric that ranks models. Its standard error, where there is one, is the metric
        ``{primary}_stderr``, right after it.
    says : str
        What the primary metric is, for headings: "Score, 0 to 100".
    digits : int
        After the point, where it is shown.
    entries : callable
        Returns every declared task, by name.
    available : callable
        Returns the names of the tasks whose truth is here.
    metadata : callable
        From a truth to what a task file records of it, ``truth`` (its fingerprint) among it.
    version : callable
        From a truth to the version of its questions; a way's revision is added.
    groups_version : int
        The version of its groups.
    kinds : tuple of str
        Respondents without weights whose answers are known.
    answers : callable, optional
        From a truth, one of them, its noise and its seed to what it answers in every cell, as the
        way's `believed` takes it.
    """

    name: str
    base: str
    groups: tuple[str, ...]
    ways: tuple[str, ...]
    metrics: Callable[[Way], Mapping[str, Metric]]
    primary: str
    says: str
    digits: int
    entries: Callable[[], Mapping[str, Entry]]
    available: Callable[[], Collection[str]]
    metadata: Callable[[Any], Mapping[str, str]]
    version: Callable[[Any], int]
    groups_version: int
    kinds: tuple[str, ...] = ()
    answers: Callable[[Any, str, float, int], Any] | None = None

    @property
    def measure(self) -> Metric:
        """The primary metric, the same in every way."""
        return self.metrics(WAYS[self.ways[0]])[self.primary]

    @property
    def heading(self) -> str:
        """What the primary metric is, and its direction where that is not the usual one."""
        return self.says + ("" if self.measure.higher_is_better else "; lower is better")

    @property
    def has_error(self) -> bool:
        """Whether the primary metric has a standard error."""
        return f"{self.primary}_stderr" in self.metrics(WAYS[self.ways[0]])

    def asked(self, way: str) -> list[Entry]:
        """Return the available tasks that are asked in a way."""
        here = self.available()
        return [
            entry
            for entry in self.entries().values()
            if entry.name in here and WAYS[way].asks(entry.declared)
        ]


class Leaf(NamedTuple):
    """A task in a way of asking: what lm-eval calls a task.

    Attributes
    ----------
    benchmark : Benchmark
    entry : Entry
    way : str
    group : str
        As lm-eval knows it.
    """

    benchmark: Benchmark
    entry: Entry
    way: str
    group: str

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return self.benchmark.metrics(WAYS[self.way])

    def heeds(self, key: str) -> bool:
        """Tell whether a key of ``--metadata`` changes what the model is asked."""
        return HEEDED[key](WAYS[self.way], self.entry.declared)


# What surveys say: P(Y | X).

#: Changes when all scores stop being comparable; CHANGELOG.md says why.
TASK_VERSION = 2


def _entry(task: Task) -> Entry:
    facets = {
        "survey": task.survey,
        "domain": record(task.survey).domain,
        "dimension": f"d = {len(task.given)}",
    }
    if CLOSED.asks(task):
        facets["subset"] = "closed"
    part = f"{task.group}_{task.survey}"
    if isinstance(task, fresh.FreshTask):
        part = task.part
    elif task.survey in own_surveys() and task.kind == "extra":
        part = f"epidemia_{task.survey}"
    return Entry(task.name, task.group, part, task.title, facets,
                 (task.survey, task.outcome), task)  # fmt: skip


def _metadata(truth: store.GroundTruth) -> dict[str, str]:
    found = {"survey": truth.survey, "vintage": truth.vintage, "truth": truth.fingerprint}
    if made := drawn(truth.task):
        found |= {"seed": str(made.seed), "record": made.record[:12]}
    return found


OBSERVATION = Benchmark(
    name="observation",
    base="_epidemia",
    groups=("epidemia_low", "epidemia_high", "epidemia_extra", fresh.GROUP, "epidemia_marginal",
            "epidemia_joint"),
    ways=("letters", "likelihood", "sampled", "stated", "closed", "rag"),
    metrics=metrics_of,
    primary="score",
    says="Score, 0 to 100",
    digits=1,
    entries=lambda: {name: _entry(task) for name, task in all_tasks().items()},
    available=store.available,
    metadata=_metadata,
    version=lambda truth: TASK_VERSION + ways_of(truth)[task_of(truth.task).outcome].revision,
    groups_version=TASK_VERSION,
    kinds=respondents.KINDS,
    answers=respondents.answers,
)  # fmt: skip


# What an intervention changes in a causal graph.

INTERVENTION = Benchmark(
    name="intervention",
    base="_epidemia_intervention",
    groups=("epidemia_intervention", "epidemia_intervention_large"),
    ways=tuple(way.name for way in intervention.ALL),
    metrics=interventions.metrics_of,
    primary="accuracy",
    says="Accuracy on causal graphs",
    digits=3,
    entries=lambda: {
        name: Entry(
            name,
            "epidemia_intervention" + ("_large" if one.nodes else ""),
            "",
            f"Interventions, {one.nodes} variables"
            if one.nodes
            else f"Interventions, {one.names} names",
            {"nodes": f"n = {one.nodes:02}"} if one.nodes else {"names": one.names},
            name,
            one,
        )
        for name, one in questions.TASKS.items()
    },
    available=lambda: questions.TASKS,
    metadata=lambda truth: {"truth": truth.fingerprint},
    version=lambda truth: 1,
    groups_version=1,
    kinds=answerers.KINDS,
    answers=answerers.answers,
)


# What a model expects of a number, and how sure it is.


def _group_of(one: quantities.Declared) -> str:
    if one.published:
        return "epidemia_prior"
    return "epidemia_prior_generated" if one.state == "shipped" else "epidemia_prior_own"


PRIOR = Benchmark(
    name="prior",
    base="_epidemia_prior",
    groups=("epidemia_prior", "epidemia_prior_generated", "epidemia_prior_own"),
    ways=(*(way.name for way in priors.ALL), grid.WAY.name),
    metrics=stated.metrics_of,
    primary="error_ratio",
    says="Error of stated priors, relative to that of five real answers",
    digits=3,
    entries=lambda: {
        name: Entry(name, _group_of(one), "", one.title, {"survey": one.survey}, name, one)
        for name, one in quantities.declared().items()
    },
    available=quantities.available,
    metadata=lambda truth: {
        "survey": truth.survey, "vintage": truth.vintage, "truth": truth.fingerprint,
    },
    version=lambda truth: 1,
    groups_version=1,
    kinds=forecasters.KINDS,
    answers=forecasters.answers,
)  # fmt: skip

BENCHMARKS: tuple[Benchmark, ...] = (OBSERVATION, INTERVENTION, PRIOR)


def leaves() -> dict[str, Leaf]:
    """Return every declared task in every way of its benchmark, by the name lm-eval has for it.

    In the order in which they are listed everywhere: by benchmark, way, and task.
    """
    built = quantities.built()
    return _leaves(built, stamp(built) if built.is_dir() else None, state())


@lru_cache(maxsize=1)
def _leaves(_built: Path, _stamp: Hashable, _records: Hashable) -> dict[str, Leaf]:
    """Renewed when a user's quantities or records change: the names of other tasks are fixed."""
    return {
        in_way(entry.name, way): Leaf(benchmark, entry, way, in_way(entry.group, way))
        for benchmark in BENCHMARKS
        for way in benchmark.ways
        for entry in benchmark.entries().values()
    }


def groups() -> dict[str, Benchmark]:
    """Return the groups without parts, as lm-eval knows them, in their usual order."""
    return {
        in_way(group, way): benchmark
        for benchmark in BENCHMARKS
        for way in benchmark.ways
        for group in benchmark.groups
    }


def names() -> set[str]:
    """Return every name of a task or group that is asked, whether its truth is here or not."""
    surveys = {leaf.entry.facets.get("survey") for leaf in leaves().values()}
    return {name for _, alike in _named() for name in alike} - surveys


def _named() -> list[tuple[Leaf, set[str]]]:
    """Pair each task that is asked with what means it: its own name, its groups', its survey's."""
    return [
        (leaf, {own, *(in_way(group, leaf.way) for group in leaf.entry.groups),
                *([leaf.entry.facets["survey"]]
                  if leaf.entry.part and leaf.entry.group != fresh.GROUP
                  and not WAYS[leaf.way].suffix else [])})
        for own, leaf in leaves().items()
        if WAYS[leaf.way].asks(leaf.entry.declared)
    ]  # fmt: skip


def _needs(leaf: Leaf) -> str:
    """Say what a task without truth needs."""
    try:
        WAYS[leaf.way].load(leaf.entry.name)
    except EpidemiaError as error:
        return str(error)
    return ""


def members(name: str) -> list[tuple[str, str]]:
    """Spell out a name as the available tasks it means, and their way of asking.

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
        If nothing is named so (with the nearest names), or no truth of it is here (with what it
        needs).
    """
    here = {benchmark.name: set(benchmark.available()) for benchmark in BENCHMARKS}
    named = _named()
    meant = [leaf for leaf, names in named if any(fnmatchcase(one, name) for one in names)]
    found = [
        (leaf.entry.name, leaf.way)
        for leaf in meant
        if leaf.entry.name in here[leaf.benchmark.name]
    ]
    if found:
        return found
    if meant:
        one_of = {leaf.entry.facets.get("survey"): leaf for leaf in reversed(meant)}
        needs = "; ".join(_needs(one) for one in reversed(one_of.values()))
        if len(meant) > 1:
            needs = f"no task of {name} has its ground truth here: {needs}"
        raise EpidemiaError(needs)
    known = {one for _, names in named for one in names}
    raise EpidemiaError(f"no task or group {name!r} ({nearest(name, known)})")
