"""The schema of a survey record, and the catalogue of the records that ship.

A record is one YAML file: where the survey comes from, its weights and design, its variables
(official column, code -> level) and its tasks. Adding a survey or a task is writing YAML.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from lm_eval_epidemia.errors import EpidemiaError, nearest

__all__ = [
    "MAX_LEVELS",
    "Design",
    "Level",
    "Record",
    "Task",
    "Universe",
    "Variable",
    "Vintage",
    "all_tasks",
    "load_record",
    "record",
    "records",
    "task",
]

#: Answers are lettered A to Z.
MAX_LEVELS = 26

Kind = Literal["low", "high", "extra"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _intervals(value: Any) -> tuple[tuple[float, float], ...]:
    """Read ``[1, "3-5"]`` as closed intervals: ((1, 1), (3, 5))."""
    intervals = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(item, (int, float)) and not isinstance(item, bool):
            intervals.append((float(item), float(item)))
        elif isinstance(item, str) and (match := re.fullmatch(r"(-?\d+)-(-?\d+)", item.strip())):
            low, high = map(float, match.groups())
            if low > high:
                raise ValueError(f"code range {item!r} runs backwards")
            intervals.append((low, high))
        elif isinstance(item, (list, tuple)) and len(item) == 2:
            intervals.append((float(item[0]), float(item[1])))
        else:
            raise ValueError(f"expected a number or a range such as '3-5', got {item!r}")
    return tuple(intervals)


#: Codes as closed intervals, written as numbers and ranges: ``[1, 2, "5-7"]``.
Codes = Annotated[tuple[tuple[float, float], ...], BeforeValidator(_intervals)]


class Vintage(_Strict):
    """One release of a survey: its year and the official file."""

    year: int
    file: str
    url: str
    rows: int | None = Field(None, description="Records in the official file, where known.")
    sha256: str | None = None
    may_lack: tuple[str, ...] = Field(
        (), description="Variables a known file of this vintage lacks; tasks on them are left out."
    )
    note: str = ""


class Design(_Strict):
    """The columns that carry the sampling design."""

    weight: str
    strata: str | None = None
    psu: str | None = None
    unit: str | None = Field(
        None,
        description="Column of the sampled unit when it has several records (SCF: the family).",
    )

    @property
    def columns(self) -> list[str]:
        return [c for c in (self.weight, self.strata, self.psu, self.unit) if c is not None]


class Universe(_Strict):
    """A restriction: only records whose `column` has one of `codes` are asked."""

    column: str
    codes: Codes


class Level(_Strict):
    """One answer: how it is shown, how it is said, and which codes mean it."""

    label: str = Field(description="As a displayed answer: 'Yes', '30-34'.")
    phrase: str = Field(description="As a predicate: 'has ever used heroin', 'is 30 years old'.")
    codes: Codes = ()
    at_least: float | None = None
    below: float | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Level:
        cut = self.at_least is not None or self.below is not None
        if cut == bool(self.codes):
            raise ValueError(
                f"level {self.label!r} needs either 'codes' or 'at_least'/'below', not both"
            )
        return self


class Variable(_Strict):
    """One way of recording a variable: an official column and the levels made of its codes."""

    column: str
    levels: tuple[Level, ...] = Field(min_length=2)
    missing: Codes = Field((), description="Codes that drop the record; blanks always do.")
    question: str | None = Field(None, description="Asked when the variable is an outcome.")

    @model_validator(mode="after")
    def _levels_fit(self) -> Variable:
        labels = [level.label for level in self.levels]
        if len(set(labels)) < len(labels):
            raise ValueError(f"two levels share a label: {labels}")
        return self


class Task(_Strict):
    """One question about a survey: the distribution of `outcome` given `given`."""

    title: str
    outcome: str
    given: tuple[str, ...] = Field(min_length=1)
    number: int | None = Field(None, description="Position in the published list.")
    universe: tuple[Universe, ...] = ()
    # Filled in by the record.
    kind: Kind = "low"
    survey: str = ""

    @property
    def name(self) -> str:
        """The lm-eval task name, for example ``epidemia_low_nsduh_heroin_ever_by_age``."""
        return f"epidemia_{self.kind}_{self.survey}_{self.outcome}_by_{'_'.join(self.given)}"

    @property
    def group(self) -> str:
        return f"epidemia_{self.kind}"


class Record(_Strict):
    """A survey: source, design, variables and tasks."""

    survey: str = Field(pattern=r"^[a-z][a-z0-9]*$")
    title: str
    publisher: str
    homepage: str
    licence: str
    citation: str
    subject: str = Field(
        description="Who is asked about: {year} is the vintage's, {conditions} the cell's phrases."
    )
    design: Design
    vintages: dict[str, Vintage] = Field(min_length=1)
    universe: tuple[Universe, ...] = ()
    variables: dict[str, tuple[Variable, ...]]
    tasks: dict[Kind, tuple[Task, ...]]

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

    @field_validator("subject")
    @classmethod
    def _subject_takes_conditions(cls, subject: str) -> str:
        try:
            subject.format(year=2000, conditions="")
        except (KeyError, IndexError, ValueError):
            raise ValueError("may contain {year} and {conditions} and no other braces") from None
        if "{conditions}" not in subject:
            raise ValueError("must say where the {conditions} go: 'a person who {conditions}'")
        return subject

    @model_validator(mode="after")
    def _tasks_hold_together(self) -> Record:
        names = set()
        for entry in self.all_tasks:
            for variable in (entry.outcome, *entry.given):
                if variable not in self.variables:
                    raise ValueError(
                        f"task {entry.title!r} uses the variable {variable!r}, which the record "
                        f"does not define ({nearest(variable, self.variables)})"
                    )
            if any(way.question is None for way in self.variables[entry.outcome]):
                raise ValueError(
                    f"task {entry.title!r}: its outcome {entry.outcome!r} has no 'question'"
                )
            if (most := max(len(way.levels) for way in self.variables[entry.outcome])) > MAX_LEVELS:
                raise ValueError(
                    f"task {entry.title!r}: its outcome {entry.outcome!r} has {most} levels, but "
                    f"answers are lettered A to Z: at most {MAX_LEVELS}"
                )
            if entry.name in names:
                raise ValueError(f"two tasks are called {entry.name}")
            names.add(entry.name)
        for name, vintage in self.vintages.items():
            for variable in vintage.may_lack:
                if variable not in self.variables:
                    raise ValueError(f"vintage {name}: may_lack names no variable: {variable!r}")
        return self

    @property
    def all_tasks(self) -> tuple[Task, ...]:
        return tuple(entry for entries in self.tasks.values() for entry in entries)

    @property
    def asked_variables(self) -> set[str]:
        """Names of the variables that some task uses."""
        return {name for entry in self.all_tasks for name in (entry.outcome, *entry.given)}

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

    def way(self, variable: str, column: str) -> Variable:
        """Return the recording of `variable` that reads `column`."""
        for way in self.variables[variable]:
            if way.column == column:
                return way
        raise EpidemiaError(
            f"{self.survey}: variable {variable!r} is not read from column {column!r} in this "
            f"version of the record; rebuild with 'epidemia groundtruth build {self.survey}'"
        )


def _line_of(node: yaml.Node | None, location: tuple[Any, ...]) -> int | None:
    """Follow a pydantic error location through composed YAML to a line number (1-based)."""
    line = None
    for step in location:
        if node is None:
            break
        line = node.start_mark.line + 1
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    child, line = value, key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            child = node.value[step] if step < len(node.value) else None
            line = child.start_mark.line + 1 if child is not None else line
        if child is None and isinstance(step, int):
            continue  # a variable written without the list that the schema adds
        node = child
    return line


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
        Naming file, line and field of everything that is wrong.
    """
    text = path.read_text(encoding="utf-8")
    try:
        data, tree = yaml.safe_load(text), yaml.compose(text)
    except yaml.YAMLError as error:
        raise EpidemiaError(f"{path.name} is not valid YAML: {error}") from None
    try:
        return Record.model_validate(data)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            line = _line_of(tree, problem["loc"])
            field = ".".join(str(step) for step in problem["loc"]) or "record"
            message = problem["msg"].removeprefix("Value error, ")
            lines.append(f"{path.name}:{line or 1}: {field}: {message}")
        raise EpidemiaError("\n".join(lines)) from None


@lru_cache(maxsize=1)
def records() -> dict[str, Record]:
    """Return the survey records that ship, by survey name."""
    found = [load_record(path) for path in sorted(Path(__file__).parent.glob("*.yaml"))]
    return {entry.survey: entry for entry in found}


def record(survey: str) -> Record:
    """Return one survey's record; an unknown name is answered with the nearest ones."""
    try:
        return records()[survey]
    except KeyError:
        raise EpidemiaError(f"no survey {survey!r} ({nearest(survey, records())})") from None


@lru_cache(maxsize=1)
def all_tasks() -> dict[str, Task]:
    """Return every declared task, available or not, by its lm-eval name."""
    return {entry.name: entry for item in records().values() for entry in item.all_tasks}


def task(name: str) -> Task:
    """Return one declared task; an unknown name is answered with the nearest ones."""
    try:
        return all_tasks()[name]
    except KeyError:
        raise EpidemiaError(f"no task {name!r} ({nearest(name, all_tasks())})") from None
