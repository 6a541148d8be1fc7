"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from lm_eval_epidemia.cli import completing
from lm_eval_epidemia.core.errors import EpidemiaError

Text = str | None
#: Names that are given one by one.
Texts = list[str] | None

#: Tasks and their groups; `core.console.separated` splits them.
Names = Annotated[
    list[str],
    Argument(
        help="Tasks, groups or surveys, separated by commas or spaces.",
        autocompletion=completing.names,
    ),
]

NamesOrAll = Annotated[
    Texts,
    Argument(
        help="Tasks, groups, surveys or patterns, separated by commas or spaces. Default: all.",
        autocompletion=completing.names,
    ),
]
#: Several surveys.
Surveys = Annotated[
    list[str],
    Argument(
        help="Surveys such as nsduh, separated by commas or spaces.",
        autocompletion=completing.surveys,
    ),
]
#: One survey.
Survey = Annotated[str, Argument(help="A survey such as nsduh.", autocompletion=completing.surveys)]

_SEVERAL = "Read this file or folder; repeat the option for several."
Raw = Annotated[list[Path] | None, Option(help=f"{_SEVERAL} Default: the downloaded files.")]
RawOrNone = Annotated[
    list[Path] | None, Option(help=f"{_SEVERAL} Without it, check the record alone.")
]
InVintage = Annotated[
    Text, Option(help="Treat the files as this vintage, if they do not say which they are.")
]
Jobs = Annotated[int, Option(help="Number of processes; -1 uses all cores.")]
Backend = Annotated[
    Text, Option(help="Run on this joblib backend (dask or ray); its cluster must be running.")
]

#: Options of what reads results.
Where = Annotated[
    Texts,
    Option(help="Only runs with these settings, such as limit=none,dtype=bfloat16; repeatable."),
]
Informative = Annotated[bool, Option("--informative", help="Leave out barely informative tasks.")]
Format = Annotated[  # the name of the option
    str, Option("--format", help="Output format: table, csv, json or latex.")
]


def check_format(format: str) -> None:
    if format not in ("table", "csv", "json", "latex"):
        raise EpidemiaError(f"--format {format!r}: expected table, csv, json or latex")
