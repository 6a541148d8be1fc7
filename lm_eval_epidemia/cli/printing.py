"""How commands print tables: for people on a terminal, for programs in a pipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich.cells import cell_len


def widest(cells: Iterable[str]) -> int:
    """Return how wide a column of such cells is; a cell may have several lines."""
    return max((cell_len(line) for cell in cells for line in cell.split("\n")), default=0)


def taken(widths: Collection[int], gap: int, edges: int = 0) -> int:
    """Return how wide a table is: its columns, what is between any two, and what is around all."""
    return sum(widths) + gap * max(len(widths) - 1, 0) + edges


def table_of(
    title: str,
    *columns: str,
    right: tuple[str, ...] = (),
    whole: int = 1,
    widths: Sequence[int] = (),
) -> Any:
    """Return an empty table; columns in `right` hold numbers, the first `whole` never fold.

    If `widths` are given, each column folds beyond its width.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for number, column in enumerate(columns):
        # The first columns hold names, to be copied whole; a narrow terminal folds the others.
        table.add_column(
            plain(column),
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=number < whole and not widths,
            min_width=widths[number] if widths else None,
            max_width=widths[number] if widths else None,
        )
    return table


#: Piped output is for other programs: never fold a name.
PIPED = 1000


def terminal_width() -> int:
    """Return how many columns a line has; in a pipe, more than any table needs."""
    from rich.console import Console

    return Console().width if Console().is_terminal else PIPED


#: Columns of a report in a pipe, which people read.
REPORT = 100


def show(table: Any, width: int | None = None) -> None:
    """Print a table."""
    from rich.console import Console

    Console(width=width or terminal_width()).print(table)


def report_width() -> int:
    """Return how wide a report's tables may be, the same in a pipe as on a screen."""
    from rich.console import Console

    return Console().width if Console().is_terminal else REPORT


def plain(text: str) -> str:
    """Escape rich's markup in a text."""
    from rich.markup import escape

    return escape(text)


#: Between two columns of `SIMPLE_HEAD`, and around all.
_GAP, _EDGES = 3, 4


def fits(rows: Iterable[Sequence[str]]) -> bool:
    """Return whether a table of such rows fits without a fold."""
    widths = [widest(column) for column in zip(*rows, strict=True)]
    return taken(widths, _GAP, _EDGES) <= terminal_width()
