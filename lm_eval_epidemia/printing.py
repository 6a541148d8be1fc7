"""How the commands print tables: for people on a terminal, for programs in a pipe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["plain", "show", "show_sections", "table_of"]


def table_of(title: str, *columns: str, right: tuple[str, ...] = ()) -> Any:
    """Return an empty table; the columns named in `right` hold numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for number, column in enumerate(columns):
        # The first column holds names, to be copied whole; a narrow terminal folds the others.
        table.add_column(
            plain(column),
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=number == 0,
        )
    return table


def show(table: Any) -> None:
    """Print a table."""
    from rich.console import Console

    # Piped output is for other programs: never fold a name.
    Console(width=None if Console().is_terminal else 1000).print(table)


def plain(text: str) -> str:
    """Return a text in which rich finds no markup."""
    from rich.markup import escape

    return escape(text)


def show_sections(sections: Iterable[Any]) -> None:
    """Print tables of a report (`report.output.Section`), each with how to read it."""
    for section in sections:
        table = table_of(section.title, *section.columns, right=section.columns[1:])
        for row in section.rows:
            table.add_row(*(plain(cell) for cell in row))
        show(table)
        if section.note:
            print(f"  {section.note}\n")
