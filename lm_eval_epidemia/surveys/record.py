"""The schema of a survey record.

A record is one YAML file: where the survey comes from, its weights and design, its variables
(official column, code -> level) and its tasks. Adding a survey or a task is writing YAML; `load`
reads the file, `catalogue` knows which there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.core.names import WAYS, fault_of
from lm_eval_epidemia.surveys.variable import (
    Fault,
    Strict,
    Universe,
    Variable,
    listed,
    refuse,
    with_joint,
)

#: Answers are lettered A to Z.
MAX_LEVELS = 26
#: What the record declares; of every outcome it follows a task of the kind `marginal`.
Declared = Literal["low", "high", "extra", "joint"]
Kind = Literal[Declared, "marginal"]
Domain = Literal["health", "economic", "social", "other"]


class File(Strict):
    """An official file."""

    name: str
    url: str | None = Field(None, description="None where a site wants a browser or a key.")
    sha256: str | None = None
    members: tuple[str, ...] = Field(
        (), description="Data files of an archive; all are needed, if several."
    )
    aliases: tuple[str, ...] = Field((), description="Other names the data file has had.")

    @field_validator("url")
    @classmethod
    def _https(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith("https://"):
            raise ValueError(f"must begin with https://, got {url!r}")
        return url


class Design(Strict):
    """The columns that carry the sampling design."""

    weight: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        (), description="Best first; the first that the file has is used. None: all count alike."
    )
    strata: str | None = None
    psu: str | None = None
    unit: str | None = Field(
        None,
        description="Column of the sampled unit when it has several records (SCF: the family).",
    )
    replicates: str | None = Field(
        None, description="Replicate weights, 'PWGTP1..80', used where the file has them."
    )
    replicate_scale: float = Field(
        0.0, description="Variance = this times the sum of squared deviations of the replicates."
    )

    @property
    def replicate_columns(self) -> list[str]:
        if self.replicates is None:
            return []
        first, last = self.replicates.split("..")
        stem = first.rstrip("0123456789")
        return [f"{stem}{n}" for n in range(int(first[len(stem) :]), int(last) + 1)]


class Margin(Strict):
    """A known distribution of one or several variables of the record."""

    variables: tuple[str, ...] = Field(min_length=1)
    shares: Any = Field(
        None,
        description="Nested lists in the order of the levels; None: those of the file's records.",
    )


class Rake(Strict):
    """Rake the weights of the records at hand to known margins of the population they stand for."""

    method: Literal["rake"] = "rake"
    reason: str
    margins: tuple[Margin, ...] = Field(min_length=1)
    among: tuple[Universe, ...] = Field((), description="The population; all records if empty.")
    known: str | None = Field(
        None, description="Only records with a value in this column stand for the population."
    )
    outcomes: tuple[str, ...] = Field((), description="Only tasks with these outcomes; else all.")
    cells_only: bool = Field(
        False, description="The raked weight gives P(X); P(Y | X) keeps the file's own weight."
    )


class Rescale(Strict):
    """Scale the weights to a known total; shares do not change."""

    method: Literal["rescale"]
    reason: str
    total: float = Field(gt=0)


Adjustment = Annotated[Rake | Rescale, Field(discriminator="method")]


class Table(Strict):
    """A published table: a distribution of `outcome` in each row of `given`."""

    outcome: str
    given: str
    file: str = Field("", description="A word in the name of its file, where there are several.")
    rows: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        description="Header of the column of row names (other spellings may follow)."
    )
    size: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        (), description="Header of the column that weighs the rows; none: all alike."
    )
    shares: dict[str, str] = Field(
        default={},
        description="Level of the outcome -> header of its column, 'remainder' for what is left; "
        "by default the first of the level's names.",
    )
    unit: Literal["percent", "count"]
    where: dict[str, str] = Field(
        default={}, description="Only rows with these texts in these columns."
    )
    total: str | None = Field(
        None, description="The row of the grand total; it weighs what the other rows leave."
    )
    interval: tuple[str, str] | None = Field(
        None, description="Headers of the limits of a 95 % confidence interval of the first share."
    )
    leave_out: tuple[str, ...] = Field(
        (), description="Patterns of rows left out on purpose: headings, totals."
    )


class Vintage(Strict):
    """One release of a survey: its year, the official files, and what is special about it."""

    year: int
    period: str = Field("", description="How the year is said; the year if empty.")
    files: tuple[File, ...] = Field(min_length=1)
    page: str = Field(description="Where a person finds the files.")
    rows: int | None = Field(None, description="Records in the official file, where known.")
    select: tuple[Universe, ...] = Field(
        (), description="Which records are of this vintage, in a file that holds several."
    )
    design: Design | None = Field(None, description="If it differs from the record's.")
    may_lack: tuple[str, ...] = Field(
        (), description="Variables a known file of this vintage lacks; tasks on them are left out."
    )
    adjustments: tuple[Adjustment, ...] = ()
    tables: tuple[Table, ...] = Field((), description="Published tables, instead of microdata.")
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


#: What is left out of a subject where nothing is said of a person: " who {conditions}".
_CLAUSE = re.compile(r",? (who|that|which|whose [^,{}]+) \{conditions\}")


def _without_clause(*subjects: str | None) -> str:
    """Return the first subject of which nothing is left to fill in but the year; empty if none."""
    said = [_CLAUSE.sub("", subject) for subject in subjects if subject]
    return next((subject for subject in said if "{conditions}" not in subject), "")


def _anyone(text: str | None) -> str | None:
    if text is not None:
        try:
            text.format(year=2000)
        except (KeyError, IndexError, ValueError):
            raise ValueError("may contain {year} and no other braces") from None
    return text


def _subject(subject: str) -> str:
    try:
        subject.format(year=2000, conditions="")
    except (KeyError, IndexError, ValueError):
        raise ValueError("may contain {year} and {conditions} and no other braces") from None
    if "{conditions}" not in subject:
        raise ValueError("must say where the {conditions} go: 'a person who {conditions}'")
    return subject


class Task(Strict):
    """One question about a survey: the distribution of `outcome` given `given`."""

    title: str
    outcome: str
    given: tuple[str, ...] = Field(description="Conditions; none asks for P(Y).")
    number: int | None = Field(None, description="Position in the published list.")
    universe: tuple[Universe, ...] = ()
    subject: str | None = Field(None, description="Who is asked about, if not the record's.")
    anyone: str | None = Field(
        None, description="The same where nothing is said of them, if that is no part of it."
    )
    retrieval: bool = Field(False, description="In the published subset for retrieval.")
    # Filled in by the record.
    kind: Kind | Literal["fresh"] = "low"
    survey: str = ""

    @field_validator("subject")
    @classmethod
    def _subject_takes_conditions(cls, subject: str | None) -> str | None:
        return None if subject is None else _subject(subject)

    @field_validator("anyone")
    @classmethod
    def _anyone_takes_none(cls, anyone: str | None) -> str | None:
        return _anyone(anyone)

    @property
    def name(self) -> str:
        """The lm-eval task name, for example ``epidemia_low_nsduh_heroin_ever_by_age``."""
        name = f"epidemia_{self.kind}_{self.survey}_{self.outcome}"
        return f"{name}_by_{'_'.join(self.given)}" if self.given else name

    @property
    def group(self) -> str:
        return f"epidemia_{self.kind}"


class Record(Strict):
    """A survey: source, design, variables and tasks."""

    survey: str = Field(pattern=r"^[a-z][a-z0-9]*$")
    domain: Domain = Field(description="What reports put it under.")
    replaces: str | None = Field(
        None, description="A record of your own in place of the shipped one: its name, the same."
    )
    title: str
    publisher: str
    homepage: str
    licence: str
    citation: str
    subject: str = Field(
        description="Who is asked about: {year} is the vintage's, {conditions} the cell's phrases."
    )
    anyone: str | None = Field(
        None,
        description="The same where nothing is said of them, if leaving ' who {conditions}' out of "
        "`subject` does not say it.",
    )
    design: Design
    vintages: dict[str, Vintage] = Field(min_length=1)
    join: str | None = Field(None, description="Column that several files of a vintage share.")
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
            data["tasks"] = {
                kind: [
                    {**entry, "kind": kind, "survey": data.get("survey", "")}
                    if isinstance(entry, dict)
                    else entry
                    for entry in entries or []
                ]
                for kind, entries in tasks.items()
            }
        return data

    @field_validator("variables", mode="wrap")
    @classmethod
    def _joint_are_of_others(
        cls, variables: Any, read: ValidatorFunctionWrapHandler
    ) -> dict[str, tuple[Variable, ...]]:
        return with_joint(variables, read)

    @field_validator("subject")
    @classmethod
    def _subject_takes_conditions(cls, subject: str) -> str:
        return _subject(subject)

    @field_validator("anyone")
    @classmethod
    def _anyone_takes_none(cls, anyone: str | None) -> str | None:
        return _anyone(anyone)

    @model_validator(mode="after")
    def _parts_fit(self) -> Record:
        refuse(self._name_faults())
        refuse([*self._task_faults(), *self._way_faults(), *self._vintage_faults()])
        return self

    def _name_faults(self) -> Iterator[Fault]:
        named = [("variable", name) for name in self.variables]
        for kind, name in [*named, *(("vintage", name) for name in self.vintages)]:
            if said := fault_of(kind, name):
                yield (f"{kind}s", name), said

    def _task_faults(self) -> Iterator[Fault]:
        names = set()
        for kind, entries in self.tasks.items():
            for n, entry in enumerate(entries):
                for said in self._faults_of(entry):
                    yield ("tasks", kind, n), f"task {entry.title!r}: {said}"
                if entry.name in names:
                    yield ("tasks", kind, n), f"two tasks are called {entry.name}"
                names.add(entry.name)
        for name in names:
            plain, _, way = name.rpartition("_")
            if way in WAYS and plain in names:
                yield (
                    ("tasks",),
                    f"{name} would be {plain} in another way of asking: rename its last variable",
                )

    def _faults_of(self, entry: Task) -> Iterator[str]:
        for variable in (entry.outcome, *entry.given):
            if variable not in self.variables:
                hint = nearest(variable, self.variables)
                yield f"the record does not define its variable {variable!r} ({hint})"
        for variable in entry.given:
            if self.is_joint(variable):
                yield f"{variable!r} is a joint outcome, no condition: give {self.parts(variable)}"
        if self.is_joint(entry.outcome):
            for variable in {*self.parts(entry.outcome)} & {*entry.given}:
                yield f"{variable!r} is a part of its outcome {entry.outcome!r}, and a condition"
        if entry.kind == "joint" and not self.is_joint(entry.outcome):
            yield f"its outcome {entry.outcome!r} is no joint one ('both'), as the others here are"
        tables = self.vintages[self.official].tables
        if not tables and not self.about(entry.model_copy(update={"given": ()})):
            yield (
                "of its subject, nothing can be said without {conditions}: say in 'anyone' who is "
                "asked about then"
            )
        ways = self.variables.get(entry.outcome, ())
        if any(way.question is None for way in ways):
            yield f"its outcome {entry.outcome!r} has no 'question'"
        if (most := max((len(way.levels) for way in ways), default=0)) > MAX_LEVELS:
            yield (
                f"its outcome {entry.outcome!r} has {most} levels, at most {MAX_LEVELS} can be "
                "answers: they are lettered A to Z"
            )

    def _way_faults(self) -> Iterator[Fault]:
        for variable, ways in self.variables.items():
            for n, way in enumerate(ways):
                for vintage in way.vintages:
                    if vintage not in self.vintages:
                        yield (
                            ("variables", variable, n, "vintages"),
                            f"no vintage is called {vintage!r} ({nearest(vintage, self.vintages)})",
                        )
            for vintage in self.vintages:
                if not self.ways(variable, vintage):
                    yield (
                        ("variables", variable),
                        f"the variable is not recorded in any way in vintage {vintage!r}",
                    )

    def _vintage_faults(self) -> Iterator[Fault]:
        for name, vintage in self.vintages.items():
            named = {
                "may_lack": vintage.may_lack,
                "adjustments": self.margin_variables(name),
                "tables": [v for table in vintage.tables for v in (table.outcome, table.given)],
            }
            for field, variables in named.items():
                for variable in variables:
                    if variable not in self.variables:
                        yield (
                            ("vintages", name, field),
                            f"{field} names no variable: {variable!r} "
                            f"({nearest(variable, self.variables)})",
                        )
            for n, table in enumerate(vintage.tables):
                ways = self.ways(table.outcome, name)
                labels = [level.label for level in ways[0].levels] if ways else []
                if table.shares and labels and list(table.shares) != labels:
                    yield (
                        ("vintages", name, "tables", n),
                        f"the table of {table.outcome} by {table.given} has shares of "
                        f"{list(table.shares)}, the variable the levels {labels}",
                    )

    def margin_variables(self, vintage: str) -> list[str]:
        """Return the variables by which the adjustments of a vintage weigh."""
        return [
            variable
            for adjustment in self.vintages[vintage].adjustments
            if isinstance(adjustment, Rake)
            for margin in adjustment.margins
            for variable in margin.variables
        ]

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

        None where the truth is a published table: the rows that a record takes need not be all.
        """
        if self.vintages[self.official].tables:
            return
        firsts: dict[str, Task] = {}
        for one in self.declared:
            firsts.setdefault(one.outcome, one)
        for outcome, first in firsts.items():
            yield Task(
                title=f"{first.title.split(':')[0]}: {outcome.replace('_', ' ').capitalize()}",
                outcome=outcome,
                given=(),
                number=None,
                retrieval=False,
                universe=first.universe,
                subject=first.subject,
                anyone=first.anyone,
                kind="marginal",
                survey=self.survey,
            )

    def about(self, task: Task) -> str:
        """Say whom a task is about; of P(Y), without a place for conditions."""
        if task.given:
            return task.subject or self.subject
        return _without_clause(task.anyone, task.subject, self.anyone, self.subject)

    @property
    def people(self) -> str:
        """Say who is asked about, in every year that there is: "a person in 2022 or 2023"."""
        years = sorted({vintage.said for vintage in self.vintages.values()})
        named = {name for one in self.declared if not one.subject for name in one.given}
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
        """Tell whether a variable is the joint outcome of two others."""
        return any(way.both for way in self.variables.get(variable, ()))

    def parts(self, variable: str) -> tuple[str, ...]:
        """Return the two variables of a joint outcome; any other variable itself."""
        both = next((way.both for way in self.variables.get(variable, ())), None)
        return both or (variable,)

    def design_of(self, vintage: str) -> Design:
        return self.vintages[vintage].design or self.design

    @property
    def expected_files(self) -> set[str]:
        """Names of all official files and members, lower case, without suffix."""
        files = [file for vintage in self.vintages.values() for file in vintage.files]
        names = [name for file in files for name in (file.name, *file.members, *file.aliases)]
        return {Path(name.strip()).stem.casefold() for name in names}

    @property
    def official(self) -> str:
        """The vintage that gives every task: the first listed."""
        return next(iter(self.vintages))

    def vintage(self, name: str) -> Vintage:
        try:
            return self.vintages[name]
        except KeyError:
            raise EpidemiaError(
                f"{self.survey} has no vintage {name!r} ({nearest(name, self.vintages)})"
            ) from None

    def ways(self, variable: str, vintage: str) -> tuple[Variable, ...]:
        """Return how `variable` may be recorded in `vintage`, best first."""
        ways = self.variables.get(variable, ())
        return tuple(way for way in ways if not way.vintages or vintage in way.vintages)

    def way(self, variable: str, column: str, vintage: str) -> Variable:
        """Return the recording of `variable` that reads `column` in `vintage`."""
        entry = self.vintage(vintage)
        for way in self.ways(variable, vintage):
            if entry.column(way.column) == column:
                return way
        raise EpidemiaError(
            f"{self.survey}: variable {variable!r} is not read from column {column!r} in this "
            f"version of the record; rebuild with 'epidemia groundtruth build {self.survey}'"
        )
