"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from lm_eval_epidemia.core import paths


def _of_list(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Offer names for the last of a list such as ``A,B``."""

    def offered(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        known = sorted(name for name in names() if name.startswith(last))
        return [f"{before}{comma}{name}" for name in known]

    return offered


def _surveys() -> Iterable[str]:
    from lm_eval_epidemia.surveys.catalogue import records

    return records()


def _list_tasks() -> Iterable[str]:
    """Return shipped and declared tasks, without the benchmarks, which take a second to load."""
    from lm_eval_epidemia.surveys.catalogue import all_tasks, own_surveys
    from lm_eval_epidemia.surveys.fresh import FreshTask

    shipped = (file.stem for file in paths.shipped_task_yamls().rglob("epidemia_*.yaml"))
    tasks = all_tasks()
    fresh = (task.part for task in tasks.values() if isinstance(task, FreshTask))
    return {*shipped, *tasks, *fresh, *(f"epidemia_{name}" for name in own_surveys())}


complete_surveys = _of_list(_surveys)
complete_tasks = _of_list(_list_tasks)
complete_names = _of_list(lambda: [*_list_tasks(), *_surveys()])


Text = str | None
#: Names that are given one by one.
Texts = list[str] | None

#: Tasks and their groups; `core.console.split_names` splits them.
Names = Annotated[
    list[str],
    Argument(
        help="Tasks, groups or surveys, separated by commas or spaces.",
        autocompletion=complete_names,
    ),
]

NamesOrAll = Annotated[
    Texts,
    Argument(
        help="Tasks, groups, surveys or patterns, separated by commas or spaces. Default: all.",
        autocompletion=complete_names,
    ),
]
#: Several surveys.
Surveys = Annotated[
    list[str],
    Argument(
        help="Surveys such as nsduh, separated by commas or spaces.",
        autocompletion=complete_surveys,
    ),
]
#: One survey.
Survey = Annotated[str, Argument(help="A survey such as nsduh.", autocompletion=complete_surveys)]

_SEVERAL = "Read this file or folder; repeat the option for several."
Raw = Annotated[list[Path] | None, Option(help=f"{_SEVERAL} Default: the downloaded files.")]
RawOrNone = Annotated[
    list[Path] | None, Option(help=f"{_SEVERAL} Without it, check the record alone.")
]
InVintage = Annotated[
    Text, Option(help="Treat the files as this vintage, if they do not say which they are.")
]
Jobs = Annotated[int, Option(help="Number of processes; -1 uses all cores.")]

OwnFolder = Annotated[
    Path | None, Option(help="Folder to write. Default: your own, which lm_eval reads.")
]

#: Options of what reads results.
Where = Annotated[
    Texts,
    Option(help="Only runs with these settings, such as limit=none,dtype=bfloat16; repeatable."),
]
Informative = Annotated[bool, Option("--informative", help="Leave out barely informative tasks.")]
Wide = Annotated[bool, Option("--wide", help="Let tables be as wide as they are.")]
Format = Annotated[
    Literal["table", "csv", "json", "latex"], Option("--format", help="Output format.")
]
