"""Sets of fresh tasks: drawn from a record's variables, and found in ``$EPIDEMIA_HOME/fresh``.

A set is a folder ``<survey>_<seed>`` with its tasks and the options of the draw in ``tasks.yaml``,
and their truth. `benchmarks.observation.fresh` makes both.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import describe_problem
from lm_eval_epidemia.surveys.record import Record, Task
from lm_eval_epidemia.surveys.variable import Strict

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


class FreshOptions(Strict):
    """The options of a draw besides survey, vintage and seed.

    Attributes
    ----------
    outcomes : tuple of str
        All that have a question, if empty.
    """

    n: int = Field(ge=1)
    dimension: tuple[int, ...] = Field(min_length=1)
    outcomes: tuple[str, ...] = ()
    replicates: int


class FreshDraws(Strict):
    """Numbers of draws, of those kept, and of those refused by reason."""

    tried: int
    kept: int
    refused: dict[str, int]


class FreshSet(Strict):
    """The content of ``tasks.yaml``.

    Attributes
    ----------
    record : str
        `hash_of` the survey's record.
    files : dict of str to str
        The raw files and their sha256.
    """

    survey: str
    seed: int = Field(ge=0)
    vintage: str
    record: str
    files: dict[str, str]
    asked: FreshOptions
    rules: dict[str, float]
    draws: FreshDraws
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


def hash_of(record: Record, vintage: str) -> str:
    """Hash what a set depends on in a record: all but titles, citations and where files lie.

    Returns
    -------
    str
        64 hexadecimal digits. What a schema adds later, and a record does not use, changes nothing;
        nor does whether levels are `ordered`, on which neither questions nor truth depend.
    """
    unused: Any = {"variables": {"__all__": {"__all__": {"ordered"}}}}

    def dumped(model: Strict, *fields: str) -> dict[str, Any]:
        chosen = set(fields) or None
        return model.model_dump(mode="json", exclude_defaults=True, include=chosen, exclude=unused)

    parts = [
        dumped(record, "survey", "subject", "join", "universe", "variables"),
        [dumped(task, "outcome", "given", "universe", "subject") for task in record.all_tasks],
        vintage,
        dumped(record.vintages[vintage], "year", "period", "select", "adjustments"),
        dumped(record.design_of(vintage)),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def command(drawn: FreshSet) -> str:
    """Return the command that draws a set again, without the survey file."""
    asked = drawn.asked
    given = f" --dimension {','.join(map(str, asked.dimension))}"
    if asked.outcomes:
        given += f" --outcomes {','.join(asked.outcomes)}"
    return (
        f"epidemia tasks fresh {drawn.survey} --raw FILE --vintage {drawn.vintage} --n {asked.n} "
        f"--seed {drawn.seed}{given} --replicates {asked.replicates} --replace"
    )


def format_set(drawn: FreshSet) -> str:
    """Return the text of the file that declares a set."""
    known = {"kind", "survey", "seed", "number"}
    about = drawn.model_dump(mode="json", exclude={"sha256", "tasks"})
    about["tasks"] = [
        task.model_dump(mode="json", exclude_defaults=True, exclude=known) for task in drawn.tasks
    ]
    head = f"# Drawn, not written: make it anew with\n# {command(drawn)}\n"
    return head + yaml.safe_dump(about, sort_keys=False, allow_unicode=True, width=100)


def read_set(path: Path) -> FreshSet:
    """Read the file that declares a set.

    Raises
    ------
    EpidemiaError
        If it is not what `format_set` returns, or lies in a folder of another name.
    """
    try:
        text = path.read_bytes()
        data = yaml.safe_load(text)
        drawn = FreshSet.model_validate(data if isinstance(data, dict) else {})
    except ValidationError as error:
        raise EpidemiaError(f"{path} is damaged ({describe_problem(error)})") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise EpidemiaError(f"{path} cannot be read ({' '.join(str(error).split())})") from None
    if path.parent.name != drawn.name:
        raise EpidemiaError(f"{path} belongs to the set {drawn.name}: rename its folder to that")
    return drawn.model_copy(update={"sha256": hashlib.sha256(text).hexdigest()})
