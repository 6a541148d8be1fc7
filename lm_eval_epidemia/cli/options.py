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
        help="Tasks, groups or surveys, with commas or spaces between them.",
        autocompletion=completing.names,
    ),
]

NamesOrAll = Annotated[
    Texts,
    Argument(
        help="Tasks, groups, surveys or patterns, with commas or spaces between them; all if none "
        "is given.",
        autocompletion=completing.names,
    ),
]
#: Several surveys.
Surveys = Annotated[
    list[str],
    Argument(
        help="Surveys such as nsduh, with commas or spaces between them.",
        autocompletion=completing.surveys,
    ),
]
#: One survey.
Survey = Annotated[str, Argument(help="A survey such as nsduh.", autocompletion=completing.surveys)]

_SEVERAL = "Read this file or folder; the option may be given several times."
Raw = Annotated[
    list[Path] | None, Option(help=f"{_SEVERAL} By default the downloaded files are read.")
]
RawOrNone = Annotated[
    list[Path] | None, Option(help=f"{_SEVERAL} Without it only the record is checked.")
]
InVintage = Annotated[
    Text, Option(help="Take the files as this vintage, where they do not tell themselves.")
]
Jobs = Annotated[int, Option(help="Use so many processes; -1 uses all cores.")]
Backend = Annotated[
    Text, Option(help="Use this backend of joblib, dask or ray, on a cluster that is set up.")
]

#: Options of what reads results.
Where = Annotated[
    Texts,
    Option(help="Runs with these settings only: limit=none,dtype=bfloat16; repeatedly."),
]
Informative = Annotated[
    bool, Option("--informative", help="Leave the barely informative tasks out.")
]
Format = Annotated[  # the name of the option
    str, Option("--format", help="Print this format: table, csv, json or latex.")
]


def check_format(format: str) -> None:
    if format not in ("table", "csv", "json", "latex"):
        raise EpidemiaError(f"--format {format!r}: expected table, csv, json or latex")
