"""The definition of a benchmark: its groups, ways of asking, metrics and tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lm_eval_epidemia.elicit.heeded import HEEDED
from lm_eval_epidemia.elicit.way import Metric, Way


class TaskEntry(NamedTuple):
    """A benchmark's description of one of its tasks.

    Attributes
    ----------
    name : str
    group : str
        One of the benchmark's.
    part : str
        A group within that group: ``epidemia_low_nsduh``; empty if the group has no parts.
    title : str
    facets : mapping of str to str
        Properties by which the report splits groups: survey, domain, dimension.
    outcome : hashable
        Tasks with the same outcome form one cluster when two models are compared.
    declared : object
        The task itself, as a way's `asks` takes it.
    also : tuple of str
        The benchmark's unions that include it.
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
        """All groups that include it, the largest first."""
        return tuple(dict.fromkeys(filter(None, (self.group, self.part))))


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A benchmark.

    Attributes
    ----------
    name : str
    base : str
        Prefix of the names of the files that its task files include.
    groups : tuple of str
        In their usual order, as named in the plain way.
    ways : mapping of str to Way
        Its ways of asking, the plain one first.
    metrics : callable
        From a way to its metrics, by name.
    primary : str
        The first metric in lm-eval's table. Its standard error, if there is one, is the metric
        ``{primary}_stderr``, right after it.
    says : str
        Description of the headline metric, for headings: "Score, 0 to 100".
    digits : int
        Decimals to show.
    entries : callable
        Returns every declared task, by name.
    available : callable
        Returns the names of the tasks whose truth is available.
    metadata : callable
        Maps a truth to the metadata in its task file, including ``truth`` (its fingerprint).
    version : callable
        Maps a truth to the version of its questions; a way's revision is added.
    groups_version : int
        The version of its groups.
    unions : mapping of str to str
        Groups whose tasks are also in other groups, and what each consists of.
    headline : str
        The metric that findings lead with and rank models by; the primary one if empty.
    kinds : tuple of str
        Simulated respondents with known answers.
    predicted : bool
        Whether its metrics predict those of another benchmark. If so, models are neither compared
        nor ranked on it.
    scored : bool
        Whether its tasks have a score. If not, results only describe how a model answered, and
        nothing is averaged or ranked.
    without_anchors : str
        If the benchmark has no anchors: the message after a group's name, with ``{task}`` and
        ``{way}``. Empty if it has anchors.
    answers : callable, optional
        Maps a truth, a kind, its noise and its seed to the answers in every cell, as the way's
        `believed` takes them.
    cells : callable
        Maps a truth to the true values in its cells, for scoring elsewhere: columns by name, a
        value per cell; includes ``levels`` if the way's rows have an ``order`` of these.
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
    def every_group(self) -> tuple[str, ...]:
        """Its groups, then those of the user's own surveys."""
        declared = (entry.group for entry in self.entries().values())
        return tuple(dict.fromkeys((*self.groups, *declared)))

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
        """Description of the headline metric, and its direction if unusual."""
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
    """A task in one way of asking, which is a task of lm-eval.

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
