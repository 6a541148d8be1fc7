"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

Text = str | None
#: Names that are given one by one.
Texts = list[str] | None

#: Tasks and their groups; `core.console.separated` splits them.
Names = Annotated[
    list[str], Argument(help="Tasks, groups or surveys, with commas or spaces between them.")
]

_SEVERAL = "File or folder; may be given several times."
Raw = Annotated[list[Path] | None, Option(help=f"{_SEVERAL} Default: the downloaded.")]
RawOrNone = Annotated[list[Path] | None, Option(help=f"{_SEVERAL} Without: only the record.")]
InVintage = Annotated[Text, Option(help="Where the file does not tell.")]
Jobs = Annotated[int, Option(help="Processes.")]
Backend = Annotated[Text, Option(help="Of joblib: dask or ray, on a cluster that is set up.")]
