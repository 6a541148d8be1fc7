"""How the commands print tables: for people on a terminal, for programs in a pipe."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any


def table_of(title: str, *columns: str, right: tuple[str, ...] = (), whole: int = 1) -> Any:
    """Return an empty table; columns in `right` hold numbers, the first `whole` never fold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for number, column in enumerate(columns):
        # The first columns hold names, to be copied whole; a narrow terminal folds the others.
        table.add_column(
            plain(column),
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=number < whole,
        )
    return table


#: Piped output is for other programs: never fold a name.
PIPED = 1000


def _width() -> int:
    from rich.console import Console

    return Console().width if Console().is_terminal else PIPED


def show(table: Any) -> None:
    """Print a table."""
    from rich.console import Console

    Console(width=_width()).print(table)


def plain(text: str) -> str:
    """Return a text in which rich finds no markup."""
    from rich.markup import escape

    return escape(text)


def show_sections(sections: Iterable[Any]) -> None:
    """Print tables of a report (`report.sections.Section`), each with how to read it."""
    width = _width()
    for section in sections:
        if not section.rows:
            print(f"{section.title}\n")
        blocks = _blocks(section, width) if section.rows else []
        for number, block in enumerate(blocks):
            columns = [section.columns[place] for place in block]
            title = "" if number else section.title
            table = table_of(title, *columns, right=tuple(columns[1:]), whole=_whole(section))
            for row in section.rows:
                # A part of a table has no rows that are filled in another part.
                if len(blocks) == 1 or any(row[place] for place in block[section.named :]):
                    table.add_row(*(plain(row[place]) for place in block))
            show(table)
        if section.note:
            for line in textwrap.wrap(section.note, width - 2):
                print(f"  {line}")
            print()


def _whole(section: Any) -> int:
    """Count the first columns that are names: without spaces where they could be folded."""
    more = range(1, section.named)
    spaced = (place for place in more if any(" " in row[place] for row in section.rows))
    return next(spaced, section.named)


def _blocks(section: Any, width: int) -> list[list[int]]:
    """Share out columns over tables that fit, each with the columns that name its rows."""
    widest = [
        max(map(len, cells)) + 2 for cells in zip(section.columns, *section.rows, strict=True)
    ]
    names = list(range(section.named))
    blocks = [list(names)]
    for place in range(section.named, len(section.columns)):
        block = [*blocks[-1], place]
        if len(blocks[-1]) > len(names) and sum(widest[column] for column in block) + 2 > width:
            blocks.append([*names, place])
        else:
            blocks[-1] = block
    return blocks
