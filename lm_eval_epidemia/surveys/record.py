"""The schema of a survey record.

A record is one YAML file: the survey's source, its weights and design, its variables (official
column, code -> level) and its tasks. A survey or a task is added by writing YAML; `catalogue`
reads the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.core.names import ENDINGS, fault_of
from lm_eval_epidemia.surveys.variable import (
    Adjustment,
    Fault,
    Listed,
    Rake,
    Strict,
    TableLayout,
    Universe,
    Variable,
    add_joint_outcomes,
    raise_faults,
)

#: Answers are lettered A to Z.
MAX_LEVELS = 26
#: What the record declares; of every outcome it follows a task of the kind `marginal`.
Declared = Literal["low", "high", "extra", "joint", "world", "years", "people"]
Kind = Literal[Declared, "marginal"]
Domain = Literal["health", "economic", "social", "world", "other"]


#: A place in a task's subject for one of its conditions, by name.
PLACE = re.compile(r"\{(?!year\}|conditions\})([A-Za-z0-9_]+)\}")


#: Braces of a subject.
_BRACES = re.compile(r"\{[^{}]*\}|[{}]")


def _anyone(text: str | None) -> str | None:
    if {*_BRACES.findall(text or "")} - {"{year}"}:
        raise ValueError("may contain {year} and no other braces")
    return text


def _subject(text: str) -> str:
    if {*_BRACES.findall(text)} - {"{year}", "{conditions}"}:
        raise ValueError("may contain {year} and {conditions} and no other braces")
    if "{conditions}" not in text:
        raise ValueError("must contain {conditions}, as in 'a person who {conditions}'")
    return text


def _of_task(text: str | None) -> str | None:
    """Check a subject that may have a place for each condition: the record checks their names."""
    known = {"{year}", *(f"{{{name}}}" for name in PLACE.findall(text or ""))}
    has_places = len(known) > 1 and {*_BRACES.findall(text or "")} <= known
    return text if text is None or has_places else _subject(text)


class File(Strict):
    """An official file.

    Attributes
    ----------
    url : str, optional
        None if the site requires a browser or a key.
    members : tuple of str
        Data files of an archive; all are needed, if several.
    aliases : tuple of str
        Other names the data file has had.
    year : int, optional
        Of published tables that have a file per year: their rows get it as a column 'Year'.
    """

    name: str
    url: str | None = Field(None, pattern="^https://")
    sha256: str | None = None
    members: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    year: int | None = None

    @property
    def stems(self) -> set[str]:
        """All its names, lower case, without suffix."""
        names = (self.name, *self.members, *self.aliases)
        return {Path(name.strip()).stem.casefold() for name in names}


class Design(Strict):
    """The columns that carry the sampling design; what is declared is used, or is an error.

    Attributes
    ----------
    weight : tuple of str
        Best first; the first that the file has is used. None: all count equally.
    strata, psu : str, optional
        PSUs without strata are of one stratum; strata without PSUs are of units drawn one by one.
    merge : dict of int to int
        Strata with a single PSU, whose variance cannot be estimated, and the stratum that each is
        merged with.
    unit : str, optional
        Column of the sampled unit when it has several records (SCF: the family).
    replicates : str, optional
        Replicate weights: 'PWGTP1..80', 'REPWT001..160'.
    replicate_scale : float
        Variance = this times the sum of squared deviations of the replicates.
    """

    weight: Listed = ()
    strata: str | None = None
    psu: str | None = None
    merge: dict[int, int] = Field({})
    unit: str | None = None
    replicates: str | None = Field(None, pattern=r"^.*\d\.\.\d+$")
    replicate_scale: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _is_used(self) -> Design:
        one = "errors come from one of the two: leave the other out"
        faults = {
            ("replicates",): self.replicates and (self.strata or self.psu) and f"and PSUs: {one}",
            ("merge",): self.merge and not self.strata and "needs 'strata'",
            ("replicate_scale",): bool(self.replicates) != (self.replicate_scale > 0)
            and "is needed with 'replicates', and only there: 4 / R (successive differences), 1 / R"
            " (BRR), (R - 1) / R (jackknife) for R replicates",
        }
        raise_faults((field, f"{field[0]!r} {fault}") for field, fault in faults.items() if fault)
        return self

    @property
    def replicate_columns(self) -> list[str]:
        if self.replicates is None:
            return []
        first, last = self.replicates.split("..")
        stem = first.rstrip("0123456789")
        start = first[len(stem) :]
        return [f"{stem}{n:0{len(start)}d}" for n in range(int(start), int(last) + 1)]


class Vintage(Strict):
    """One release of a survey: its year, the official files, and what is special about it.

    Attributes
    ----------
    period : str
        The wording of the year; the year itself if empty.
    page : str
        Where a person finds the files.
    rows : int, optional
        Records in the official file, where known.
    select : tuple of Universe
        Which records are of this vintage, in a file that holds several.
    design : Design, optional
        If it differs from the record's.
    may_lack : tuple of str
        Variables a known file of this vintage lacks; tasks on them are left out.
    only_given : set of str
        For a file that covers only part of the people: variables that explain who is missing. Only
        tasks with one of these as condition can be estimated; others are left out.
    same_people : tuple of str
        Other vintages whose files include some of the same people, so that the samples are not
        independent.
    tables : tuple of TableLayout
        Published tables, instead of microdata.
    """

    year: int
    period: str = ""
    files: tuple[File, ...] = Field(min_length=1)
    page: str
    rows: int | None = None
    select: tuple[Universe, ...] = ()
    design: Design | None = None
    may_lack: tuple[str, ...] = ()
    only_given: frozenset[str] = frozenset()
    same_people: tuple[str, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()
    tables: tuple[TableLayout, ...] = ()
    note: str = ""

    @property
    def said(self) -> str:
        return self.period or str(self.year)

    def column(self, column: str) -> str:
        """Return a column's name in this vintage: ``PERWT{yy}F`` is PERWT22F in 2022."""
        return column.replace("{yy}", f"{self.year % 100:02d}")

    @property
    def needed(self) -> str:
        """Name the official files, for a message."""
        return ", ".join(file.name for file in self.files)


#: The part of a subject that is dropped in questions without conditions: " who {conditions}".
_CLAUSE = re.compile(r",? (who|that|which|whose [^,{}]+) \{conditions\}")


def _without_clause(*subjects: str | None) -> str:
    """Return the first subject of which nothing is left to fill in but the year; empty if none."""
    bare = (_CLAUSE.sub("", subject) for subject in subjects if subject)
    return next((subject for subject in bare if "{conditions}" not in subject), "")


class Task(Strict):
    """One question about a survey: the distribution of `outcome` given `given`.

    Attributes
    ----------
    given : tuple of str
        Conditions; without any, the task is about P(Y).
    number : int, optional
        Position in the published list.
    subject : str, optional
        The people that the question is about, if other than the record's; it may have one place per
        condition, by name, instead of one for all: 'a person living in {country} who {sex}'.
    anyone : str, optional
        The subject of questions without conditions, if it differs.
    equal : str, optional
        A condition whose levels have equal weights in P(X), such as years, which are not a random
        sample. Such a task is never boosted, and its outcome has no task without conditions.
    retrieval : bool
        In the published subset for retrieval.
    stands_for : int, optional
        For a stand-in: position in the published list of `high` of the task that it replaces, whose
        truth does not ship.
    """

    title: str
    outcome: str
    given: tuple[str, ...]
    number: int | None = None
    universe: tuple[Universe, ...] = ()
    subject: Annotated[str | None, AfterValidator(_of_task)] = None
    anyone: Annotated[str | None, AfterValidator(_anyone)] = None
    equal: str | None = None
    retrieval: bool = False
    stands_for: int | None = None
    # Filled in by the record.
    kind: Kind | Literal["fresh"] = "low"
    survey: str = ""

    @property
    def name(self) -> str:
        """The lm-eval task name, for example ``epidemia_low_nsduh_heroin_ever_by_age``."""
        name = f"epidemia_{self.kind}_{self.survey}_{self.outcome}"
        return f"{name}_by_{'_'.join(self.given)}" if self.given else name

    @property
    def group(self) -> str:
        return f"epidemia_{self.kind}"


class Record(Strict):
    """A survey: source, design, variables and tasks.

    Attributes
    ----------
    domain : Domain
        The domain in reports.
    replaces : str, optional
        For a user's record that replaces a shipped one: the name of both.
    subject : str
        The people that questions are about: {year} is the vintage's, {conditions} the cell's
        phrases.
    anyone : str, optional
        The subject of questions without conditions, if dropping ' who {conditions}' from `subject`
        does not give it.
    join : str, optional
        Column that several files of a vintage share.
    """

    survey: str = Field(pattern=r"^[a-z][a-z0-9]*$")
    domain: Domain
    replaces: str | None = None
    title: str
    publisher: str
    homepage: str
    licence: str
    citation: str
    subject: Annotated[str, AfterValidator(_subject)]
    anyone: Annotated[str | None, AfterValidator(_anyone)] = None
    design: Design
    vintages: dict[str, Vintage] = Field(min_length=1)
    join: str | None = None
    universe: tuple[Universe, ...] = ()
    variables: dict[str, tuple[Variable, ...]]
    tasks: dict[Declared, tuple[Task, ...]]

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, data: Any) -> Any:
        """Write a variable recorded in one way as a list of one, and tell tasks where they are."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        if isinstance(variables := data.get("variables"), dict):
            data["variables"] = {
                name: [ways] if isinstance(ways, dict) else ways for name, ways in variables.items()
            }
        if isinstance(tasks := data.get("tasks"), dict):
            survey = {"survey": data.get("survey", "")}
            data["tasks"] = {
                kind: [
                    {**task, "kind": kind, **survey} if isinstance(task, dict) else task
                    for task in listed or []
                ]
                for kind, listed in tasks.items()
            }
        return data

    @field_validator("variables", mode="wrap")
    @classmethod
    def _joint_are_of_others(
        cls, variables: Any, read: ValidatorFunctionWrapHandler
    ) -> dict[str, tuple[Variable, ...]]:
        return add_joint_outcomes(variables, read)

    @model_validator(mode="after")
    def _parts_fit(self) -> Record:
        raise_faults(self._name_faults())
        raise_faults([*self._task_faults(), *self._way_faults(), *self._vintage_faults()])
        return self

    def _name_faults(self) -> Iterator[Fault]:
        for kind, names in (("variable", self.variables), ("vintage", self.vintages)):
            for name in names:
                if fault := fault_of(kind, name):
                    yield (f"{kind}s", name), fault

    def _task_faults(self) -> Iterator[Fault]:
        names = set()
        for kind, tasks in self.tasks.items():
            for n, task in enumerate(tasks):
                for fault in self._faults_of(task):
                    yield ("tasks", kind, n), f"task {task.title!r}: {fault}"
                if task.name in names:
                    yield ("tasks", kind, n), f"two tasks are called {task.name}"
                names.add(task.name)
        for name in names:
            plain, _, way = name.rpartition("_")
            if way in ENDINGS and plain in names:
                fault = f"{name} would also be {plain} in another way of asking"
                yield ("tasks",), f"{fault}: rename its last variable"

    def _faults_of(self, entry: Task) -> Iterator[str]:
        for variable in (entry.outcome, *entry.given):
            if variable not in self.variables:
                hint = suggest(variable, self.variables)
                yield f"the record does not define its variable {variable!r} ({hint})"
        parts = self.parts(entry.outcome) if self.is_joint(entry.outcome) else ()
        for variable in entry.given:
            if self.is_joint(variable):
                fault = "is a joint outcome and cannot be a condition: give"
                yield f"{variable!r} {fault} {self.parts(variable)}"
            if variable in parts:
                fault = f"is both a condition and a part of the outcome {entry.outcome!r}"
                yield f"{variable!r} {fault}: remove one"
        if entry.equal and entry.equal not in entry.given:
            yield f"'equal' must be one of the conditions {list(entry.given)}, got {entry.equal!r}"
        places = set(PLACE.findall(entry.subject or ""))
        if places and "year" in entry.given and "{year}" in str(entry.subject):
            places.add("year")
        if places and places != {*entry.given}:
            given = list(entry.given)
            yield f"its subject has places for {sorted(places)}: expected {given} or {{conditions}}"
        has_marginal = not entry.equal and not self.vintages[self.official].tables
        if has_marginal and not self.about(entry.model_copy(update={"given": ()})):
            yield "its subject makes no sense without {conditions}: say in 'anyone' who is meant"
        ways = self.variables.get(entry.outcome, ())
        if any(way.question is None for way in ways):
            yield f"its outcome {entry.outcome!r} has no 'question'"
        if (most := max((len(way.levels) for way in ways), default=0)) > MAX_LEVELS:
            fault = f"has {most} levels, but at most {MAX_LEVELS} can have a letter (A to Z)"
            yield f"its outcome {entry.outcome!r} {fault}"

    def _way_faults(self) -> Iterator[Fault]:
        for variable, ways in self.variables.items():
            place = ("variables", variable)
            for n, way in enumerate(ways):
                for name in (v for v in way.vintages if v not in self.vintages):
                    hint = suggest(name, self.vintages)
                    yield (*place, n, "vintages"), f"there is no vintage {name!r} ({hint})"
            for name in self.vintages:
                if not self.readings(variable, name):
                    yield place, f"the variable is not recorded in any way in vintage {name!r}"

    def _vintage_faults(self) -> Iterator[Fault]:
        for name, vintage in self.vintages.items():
            place = ("vintages", name)
            named = {
                "may_lack": vintage.may_lack,
                "only_given": sorted(vintage.only_given),
                "adjustments": self.margin_variables(name),
                "tables": [v for table in vintage.tables for v in (table.outcome, *table.given)],
            }
            for field, variables in named.items():
                for variable in (v for v in variables if v not in self.variables):
                    hint = suggest(variable, self.variables)
                    yield (*place, field), f"{field}: {variable!r} is not a variable ({hint})"
            if len({file.year is None for file in vintage.files}) > 1:
                yield (*place, "files"), "only some files have a year: give every file its year"
            for n, table in enumerate(vintage.tables):
                for way in self.readings(table.outcome, name)[:1] if table.shares else ():
                    labels = [level.label for level in way.levels]
                    if labels != list(table.shares):
                        fault = f"has shares of {list(table.shares)}, its outcome levels {labels}"
                        yield (*place, "tables", n), f"the table of {table.said} {fault}"

    def margin_variables(self, vintage: str) -> list[str]:
        """Return the variables by which the adjustments of a vintage weigh."""
        rakes = [rule for rule in self.vintages[vintage].adjustments if isinstance(rule, Rake)]
        return [name for rake in rakes for margin in rake.margins for name in margin.variables]

    @property
    def all_tasks(self) -> tuple[Task, ...]:
        """The declared tasks, then P(Y) of every outcome."""
        return *self.declared, *self._marginals

    @property
    def declared(self) -> tuple[Task, ...]:
        return tuple(entry for entries in self.tasks.values() for entry in entries)

    @property
    def _marginals(self) -> Iterator[Task]:
        """P(Y) of every outcome, of those whom its first task is about.

        None if the truth is a published table: the rows that a record takes need not be all.
        """
        if self.vintages[self.official].tables:
            return
        firsts: dict[str, Task] = {}
        for task in self.declared:
            if not task.equal:
                firsts.setdefault(task.outcome, task)
        for outcome, first in firsts.items():
            title = f"{first.title.split(':')[0]}: {outcome.replace('_', ' ').capitalize()}"
            about = first.model_dump(include={"universe", "subject", "anyone", "survey", "outcome"})
            yield Task(title=title, given=(), kind="marginal", **about)

    def about(self, task: Task) -> str:
        """Say whom a task is about; of P(Y), without a place for conditions."""
        if task.given:
            return task.subject or self.subject
        return _without_clause(task.anyone, task.subject, self.anyone, self.subject)

    @property
    def people(self) -> str:
        """Say who is asked about, in every year that there is: "a person in 2022 or 2023"."""
        years = sorted({vintage.said for vintage in self.vintages.values()})
        tasks = [task for task in self.declared if not task.subject] or self.declared[:1]
        named = {name for task in tasks for name in task.given}
        subject = _without_clause(self.anyone, self.subject) or self.subject
        return subject.format(
            year=" or ".join(filter(None, [", ".join(years[:-1]), years[-1]])),
            conditions=f"({' or '.join(sorted(named)).replace('_', ' ')})",
        )

    def used_variables(self, vintage: str) -> set[str]:
        """Names of the variables that some task or an adjustment of the vintage uses."""
        asked = {name for entry in self.all_tasks for name in (entry.outcome, *entry.given)}
        asked |= set(self.margin_variables(vintage))
        return asked | {part for name in asked for part in self.parts(name)}

    def is_joint(self, variable: str) -> bool:
        """Tell whether a variable is the joint outcome of others."""
        return any(way.both for way in self.variables.get(variable, ()))

    def parts(self, variable: str) -> tuple[str, ...]:
        """Return the variables of a joint outcome; any other variable itself."""
        both = next((way.both for way in self.variables.get(variable, ())), None)
        return both or (variable,)

    def design_of(self, vintage: str) -> Design:
        return self.vintages[vintage].design or self.design

    @property
    def expected_files(self) -> set[str]:
        """Names of all official files and members, lower case, without suffix."""
        files = [file for vintage in self.vintages.values() for file in vintage.files]
        return {stem for file in files for stem in file.stems}

    @property
    def official(self) -> str:
        """The vintage that has every task: the first listed."""
        return next(iter(self.vintages))

    def vintage(self, name: str) -> Vintage:
        if name not in self.vintages:
            hint = suggest(name, self.vintages)
            raise EpidemiaError(f"{self.survey} has no vintage {name!r} ({hint})")
        return self.vintages[name]

    def readings(self, variable: str, vintage: str) -> tuple[Variable, ...]:
        """Return the possible recordings of `variable` in `vintage`, best first."""
        ways = self.variables.get(variable, ())
        return tuple(way for way in ways if not way.vintages or vintage in way.vintages)

    def reading(self, variable: str, column: str, vintage: str) -> Variable:
        """Return the recording of `variable` that reads `column` in `vintage`."""
        entry = self.vintage(vintage)
        for way in self.readings(variable, vintage):
            if entry.column(way.column) == column:
                return way
        raise EpidemiaError(
            f"{self.survey}: this version of the record does not read variable {variable!r} from "
            f"column {column!r}; rebuild with 'epidemia groundtruth build {self.survey}'"
        )
