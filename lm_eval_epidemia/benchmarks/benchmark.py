"""What a benchmark is: its groups, ways of asking, metrics and tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lm_eval_epidemia.elicit.heeded import HEEDED
from lm_eval_epidemia.elicit.way import Metric, Way


class TaskEntry(NamedTuple):
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
    also : tuple of str
        Of the benchmark's unions, those that it is in.
    """

    name: str
    group: str
    part: str
    title: str
    facets: Mapping[str, str]
    outcome: Hashable
    declared: Any = None
    also: tuple[str, ...] = ()

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
    ways : mapping of str to Way
        In which it is asked, the plain one first.
    metrics : callable
        From a way to its metrics, by name.
    primary : str
        The metric that comes first in lm-eval's table. Its standard error, where there is one, is
        the metric ``{primary}_stderr``, right after it.
    says : str
        What the headline is, for headings: "Score, 0 to 100".
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
    unions : mapping of str to str
        Groups of tasks that are in other groups already, in the ways that ask all of them, and of
        what each is made.
    headline : str
        The metric that findings lead with, and rank models by; the primary one if empty.
    kinds : tuple of str
        Respondents without weights whose answers are known.
    predicted : bool
        Whether its metrics predict those of another benchmark, so that it says nothing of models
        side by side: they are neither compared nor ranked.
    scored : bool
        Whether its tasks have a score. Where they have none, results keep what tells how a model
        answered, and nothing averages or ranks it.
    without_anchors : str
        What is said after the name of a group to whoever asks for its anchors, with ``{task}`` and
        ``{way}`` of a task; empty where it has them.
    answers : callable, optional
        From a truth, one of them, its noise and its seed to what it answers in every cell, as the
        way's `believed` takes it.
    cells : callable
        From a truth to what is true in each of its cells, for whoever scores elsewhere: columns by
        name, a value per cell; ``levels``, where the way's rows have an ``order`` of these.
    """

    name: str
    base: str
    groups: tuple[str, ...]
    ways: Mapping[str, Way]
    metrics: Callable[[Way], Mapping[str, Metric]]
    primary: str
    says: str
    digits: int
    entries: Callable[[], Mapping[str, TaskEntry]]
    available: Callable[[], Collection[str]]
    metadata: Callable[[Any], Mapping[str, str]]
    version: Callable[[Any], int] = lambda truth: 1
    groups_version: int = 1
    unions: Mapping[str, str] = field(default_factory=dict)
    headline: str = ""
    kinds: tuple[str, ...] = ()
    predicted: bool = False
    scored: bool = True
    without_anchors: str = "has no anchors"
    answers: Callable[[Any, str, float, int], Any] | None = None
    cells: Callable[[Any], Mapping[str, Sequence[Any]]] = lambda truth: {}

    @property
    def plain(self) -> Way:
        """Its first way of asking."""
        return next(iter(self.ways.values()))

    @property
    def leading(self) -> str:
        """The name of the headline."""
        return self.headline or self.primary

    @property
    def measure(self) -> Metric:
        """The headline, the same in every way."""
        return self.metrics(self.plain)[self.leading]

    @property
    def heading(self) -> str:
        """What the headline is, and its direction where that is not the usual one."""
        return self.says + ("" if self.measure.higher_is_better else "; lower is better")

    @property
    def has_error(self) -> bool:
        """Whether the primary metric has a standard error."""
        return f"{self.primary}_stderr" in self.metrics(self.plain)

    def asked(self, way: str) -> list[TaskEntry]:
        """Return the available tasks that are asked in a way."""
        here = self.available()
        return [
            entry
            for entry in self.entries().values()
            if entry.name in here and self.ways[way].asks(entry.declared)
        ]


class Leaf(NamedTuple):
    """A task in a way of asking: what lm-eval calls a task.

    Attributes
    ----------
    benchmark : Benchmark
    entry : TaskEntry
    way : str
    group : str
        As lm-eval knows it.
    """

    benchmark: Benchmark
    entry: TaskEntry
    way: str
    group: str

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return self.benchmark.metrics(self.benchmark.ways[self.way])

    def heeds(self, key: str) -> bool:
        """Tell whether a key of ``--metadata`` changes what the model is asked."""
        return HEEDED[key](self.benchmark.ways[self.way], self.entry.declared)
