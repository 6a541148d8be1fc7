"""The definition of a benchmark: its groups, ways of asking, metrics and tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from lm_eval_epidemia.ask.way import HEEDED, Metric, Way
from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.score.joint import Draws


class TaskEntry(NamedTuple):
    """A benchmark's description of one of its tasks.

    Attributes
    ----------
    name : str
    group : str
        One of the benchmark's.
    part : str
        The tasks of its survey in that group: ``epidemia_low_nsduh``; empty if it has no parts.
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


#: The numbers that each benchmark measures, in any of its ways.
METRICS: dict[str, dict[str, Metric]] = {
    benchmark: {name: Metric(**metric) for name, metric in metrics.items()}
    for benchmark, metrics in read_yaml(__package__, "metrics.yaml").items()
}


class Measurement(NamedTuple):
    """What a benchmark measures of the answers to a task, all at once.

    Attributes
    ----------
    numbers : mapping of str to float
        By metric; NaN, or missing, if unknown.
    draws : mapping of str to Draws or None
        Of those that have an error for groups: their values in other samples; None if unknown.
    kept : str
        A line with the answers, which results keep for the report; empty if there is none.
    """

    numbers: Mapping[str, float]
    draws: Mapping[str, Draws | None] = MappingProxyType({})
    kept: str = ""


class Kept(NamedTuple):
    """What the line that results keep of a task says.

    Attributes
    ----------
    answers : object
    numbers : mapping of str to float
        The metrics that these answers give, the primary one among them.
    draws : Draws or None
        Of the headline metric, if that is not the primary one.
    """

    answers: Any
    numbers: Mapping[str, float]
    draws: Draws | None = None


class Benchmark(ABC):
    """A benchmark: what is measured, in which ways of asking.

    Attributes
    ----------
    name : str
    base : str
        Prefix of the names of the files that its task files include.
    groups : tuple of str
        In their usual order, as named in the plain way.
    ways : mapping of str to Way
        Its ways of asking, the plain one first.
    primary : str
        The first metric in lm-eval's table. Its standard error, if there is one, is the metric
        ``{primary}_stderr``, right after it.
    says : str
        Description of the headline metric, for headings: "Score, 0 to 100".
    digits : int
        Decimals to show.
    groups_version : int
        The version of its groups.
    unions : mapping of str to str
        Groups whose tasks are also in other groups, and what each consists of.
    headline : str
        The metric that findings lead with and rank models by; the primary one if empty.
    kinds : tuple of str
        Reference respondents with known answers.
    predicts : bool
        Whether its metrics predict those of another benchmark. If so, models are neither compared
        nor ranked on it.
    scored : bool
        Whether its tasks have a score. If not, results only describe how a model answered, and
        nothing is averaged or ranked.
    has_samples : bool
        Whether a task is a sample of outcomes by itself: its questions.
    of_surveys : bool
        Whether a truth is what a survey says in each cell: then errors come from the survey's
        samples, and answers are distributions that can be put beside it.
    read_kept : callable, optional
        From a line, the truth and the way to `Kept`; ValueError, with the reason, if `measure`
        does not keep such a line. None if lines are read when a finding asks for them.
    without_anchors : str
        If the benchmark has no anchors: the message after a group's name, with ``{task}`` and
        ``{way}``. Empty if it has anchors.
    """

    name: str
    base: str
    groups: tuple[str, ...]
    ways: Mapping[str, Way]
    primary: str
    says: str
    digits: int
    groups_version: int = 1
    unions: Mapping[str, str] = MappingProxyType({})
    headline: str = ""
    kinds: tuple[str, ...] = ()
    predicts: bool = False
    scored: bool = True
    has_samples: bool = False
    of_surveys: bool = False
    read_kept: Callable[[str, Any, Any], Kept] | None = None
    without_anchors: str = "has no anchors"

    @abstractmethod
    def entries(self) -> Mapping[str, TaskEntry]:
        """Return every declared task, by name."""

    @abstractmethod
    def available(self) -> Collection[str]:
        """Return the names of the tasks whose truth is available."""

    def metrics(self, way: Any) -> Mapping[str, Metric]:
        """Return the metrics of a way of asking, by name: those in `metrics.yaml`, and its own.

        A metric's error comes right after it: lm-eval then shows it in the column Stderr.
        """
        return {**METRICS.get(self.name, {}), **way.diagnostics}

    @abstractmethod
    def measure(self, answers: Sequence[Any]) -> Measurement:
        """Measure the answers to a task, in any order; warn of what they lack.

        Raises
        ------
        EpidemiaError
            If the questions were made from a truth other than the installed one.
        """

    @abstractmethod
    def metadata(self, truth: Any) -> Mapping[str, str]:
        """Return what a task file says of a truth, including ``truth`` (its fingerprint)."""

    def version(self, truth: Any) -> int:
        """Return the version of a truth's questions; a way's revision is added."""
        return 1

    def answers(self, truth: Any, kind: str, noise: float = 1.0, seed: int = 0) -> Any:
        """Return what a reference respondent believes in every cell: see `Way.believed`.

        Parameters
        ----------
        truth : object
        kind : str
            One of `kinds`.
        noise : float
            Standard deviation of its noise.
        seed : int
            Of the noise.
        """
        raise NotImplementedError(f"the benchmark {self.name!r} has no reference respondents")

    def cells(self, truth: Any) -> Mapping[str, Sequence[Any]]:
        """Return the true values in a truth's cells, for scoring elsewhere: by column, per cell.

        Including ``levels`` if the way's rows have an ``order`` of these.
        """
        return {}

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
    def lead(self) -> Metric:
        """The headline, the same in every way."""
        return self.metrics(self.plain)[self.leading]

    @property
    def heading(self) -> str:
        """Description of the headline metric, and its direction if unusual."""
        return self.says + ("" if self.lead.higher_is_better else "; lower is better")

    @property
    def has_error(self) -> bool:
        """Whether the primary metric has a standard error."""
        return f"{self.primary}_stderr" in self.metrics(self.plain)

    def parts(self, way: Any) -> Collection[str]:
        """Return the parts of groups that are groups of lm-eval in a way of asking."""
        return ()

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
    group, part : str
        As lm-eval knows them; `part` is empty if the tasks of its survey are no group.
    """

    benchmark: Benchmark
    entry: TaskEntry
    way: str
    group: str
    part: str = ""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return self.benchmark.metrics(self.benchmark.ways[self.way])

    @property
    def groups(self) -> list[str]:
        """All groups that include it, as lm-eval knows them, the largest first."""
        return [self.group, self.part] if self.part else [self.group]

    def heeds(self, key: str) -> bool:
        """Tell whether a key of ``--metadata`` changes what the model is asked."""
        return HEEDED[key](self.benchmark.ways[self.way], self.entry.declared)
