"""How commands print tables: for people on a terminal, for programs in a pipe."""

from __future__ import annotations

from typing import Any


def make_table(title: str, *columns: str, right: tuple[str, ...] = (), whole: int = 1) -> Any:
    """Return an empty table; columns in `right` hold numbers, the first `whole` never fold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for number, column in enumerate(columns):
        # The first columns hold names, to be copied whole; a narrow terminal folds the others.
        justify: Any = "right" if column in right else "left"
        table.add_column(
            escape_markup(column), justify=justify, overflow="fold", no_wrap=number < whole
        )
    return table


def _width(in_pipe: int) -> int:
    from rich.console import Console

    return Console().width if Console().is_terminal else in_pipe


def terminal_width() -> int:
    """Return how many columns a line has; in a pipe, more than any table needs."""
    return _width(1000)  # piped output is for other programs: never fold a name


def report_width() -> int:
    """Return how wide a report's tables may be: people read them in a pipe, too."""
    return _width(100)


def print_table(table: Any) -> None:
    """Print a table."""
    from rich.console import Console

    Console(width=terminal_width()).print(table)


def fits(table: Any) -> bool:
    """Return whether a table fits without a fold."""
    from rich.console import Console

    return Console(width=10**6).measure(table).maximum <= terminal_width()


def escape_markup(text: str) -> str:
    """Escape rich's markup in a text."""
    from rich.markup import escape

    return escape(text)
