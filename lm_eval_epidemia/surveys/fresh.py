"""Sets of fresh tasks: drawn from a record's variables, and found in ``$EPIDEMIA_HOME/fresh``.

A set lies in a folder ``<survey>_<seed>``: its tasks and how they were drawn in ``tasks.yaml``,
their truth beside it. `estimate.fresh` makes both.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys.record import Record, Task

#: The group of all fresh tasks, which begins their names.
GROUP = "epidemia_fresh"
#: The file of a set that declares its tasks.
TASKS = "tasks.yaml"


class FreshTask(Task):
    """A task that was drawn; `number` is its place in its set, from 1."""

    kind: Literal["low", "high", "extra", "fresh"] = "fresh"
    number: int = Field(ge=1)
    seed: int = Field(ge=0)

    @property
    def name(self) -> str:
        """For example ``epidemia_fresh_gss_7_03``."""
        return f"{self.part}_{self.number:02d}"

    @property
    def group(self) -> str:
        return GROUP

    @property
    def part(self) -> str:
        """The group of its set: ``epidemia_fresh_gss_7``."""
        return f"{GROUP}_{self.survey}_{self.seed}"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Asked(_Strict):
    """What a set was drawn with, besides survey, vintage and seed."""

    n: int = Field(ge=1)
    dimension: tuple[int, ...] = Field(min_length=1)
    outcomes: tuple[str, ...] = Field((), description="All that have a question, if empty.")
    replicates: int


class Drawn(_Strict):
    """How many draws there were, how many were kept, and why others were not."""

    tried: int
    kept: int
    refused: dict[str, int]


class FreshSet(_Strict):
    """What ``tasks.yaml`` says."""

    survey: str
    seed: int = Field(ge=0)
    vintage: str
    record: str = Field(description="`hash_of` the survey's record.")
    files: dict[str, str] = Field(description="The raw files and their sha256.")
    asked: Asked
    rules: dict[str, float]
    draws: Drawn
    tasks: tuple[FreshTask, ...] = Field(min_length=1)
    #: Of the file itself: the registry of the set's truth says it too.
    sha256: str = ""

    @field_validator("tasks", mode="before")
    @classmethod
    def _numbered(cls, listed: Any, info: Any) -> Any:
        """Tell the tasks where they are."""
        if not isinstance(listed, (list, tuple)):
            return listed
        about = {key: info.data.get(key) for key in ("survey", "seed")}
        return [
            {**entry, **about, "number": place} if isinstance(entry, dict) else entry
            for place, entry in enumerate(listed, 1)
        ]

    @property
    def name(self) -> str:
        return f"{self.survey}_{self.seed}"

    @property
    def group(self) -> str:
        return f"{GROUP}_{self.name}"


def folder_of(survey: str, seed: int) -> Path:
    """Return the folder of a set (it need not exist)."""
    return paths.fresh_tasks() / f"{survey}_{seed}"


def files() -> list[Path]:
    """Return the file that declares each set there is, whether or not it can be used."""
    return sorted(paths.fresh_tasks().glob(f"*/{TASKS}"))


def hash_of(record: Record, vintage: str) -> str:
    """Hash what a set depends on in a record: all but titles, citations and where files lie.

    Returns
    -------
    str
        64 hexadecimal digits. What a schema adds later, and a record does not use, changes nothing.
    """
    said = record.model_dump(
        mode="json",
        exclude_defaults=True,
        include={"survey", "subject", "join", "universe", "variables"},
    )
    asked = {"outcome", "given", "universe", "subject"}
    declared = [
        one.model_dump(mode="json", exclude_defaults=True, include=asked)
        for one in record.all_tasks
    ]
    release = record.vintages[vintage].model_dump(
        mode="json", exclude_defaults=True, include={"year", "period", "select", "adjustments"}
    )
    design = record.design_of(vintage).model_dump(mode="json", exclude_defaults=True)
    text = json.dumps([said, declared, vintage, release, design])
    return hashlib.sha256(text.encode()).hexdigest()


def command(found: FreshSet) -> str:
    """Return the command that makes a set anew, but for the file."""
    asked = found.asked
    given = f" --dimension {','.join(map(str, asked.dimension))}"
    if asked.outcomes:
        given += f" --outcomes {','.join(asked.outcomes)}"
    return (
        f"epidemia tasks fresh {found.survey} --raw FILE --vintage {found.vintage} --n {asked.n} "
        f"--seed {found.seed}{given} --replicates {asked.replicates} --replace"
    )


def write_set(found: FreshSet) -> str:
    """Return the text of the file that declares a set."""
    about = found.model_dump(mode="json", exclude={"sha256", "tasks"})
    known = {"kind", "survey", "seed", "number"}
    listed = [
        one.model_dump(mode="json", exclude_defaults=True, exclude=known) for one in found.tasks
    ]
    head = f"# Drawn, not written: make it anew with\n# {command(found)}\n"
    text = yaml.safe_dump(
        {**about, "tasks": listed}, sort_keys=False, allow_unicode=True, width=100
    )
    return head + text


def read_set(path: Path) -> FreshSet:
    """Read the file that declares a set.

    Raises
    ------
    EpidemiaError
        If it is not what `write_set` returns, or lies in a folder of another name.
    """
    try:
        text = path.read_bytes()
        data = yaml.safe_load(text)
        found = FreshSet.model_validate(data if isinstance(data, dict) else {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise EpidemiaError(f"{path} is damaged ({where}: {first['msg']})") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise EpidemiaError(f"{path} cannot be read ({said})") from None
    if path.parent.name != found.name:
        raise EpidemiaError(f"{path} is of the set {found.name}: its folder must be called so")
    return found.model_copy(update={"sha256": hashlib.sha256(text).hexdigest()})
