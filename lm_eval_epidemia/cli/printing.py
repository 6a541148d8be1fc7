"""How the commands print tables: for people on a terminal, for programs in a pipe."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any


def table_of(
    title: str,
    *columns: str,
    right: tuple[str, ...] = (),
    whole: int = 1,
    longest: int | None = None,
) -> Any:
    """Return an empty table; columns in `right` hold numbers, the first `whole` never fold.

    Where `longest` is given, they fold beyond it.
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
            no_wrap=number < whole and longest is None,
            min_width=longest if number < whole else None,
            max_width=longest if number < whole else None,
        )
    return table


#: Piped output is for other programs: never fold a name.
PIPED = 1000


def _width() -> int:
    from rich.console import Console

    return Console().width if Console().is_terminal else PIPED


#: Columns of a report in a pipe, which people read.
REPORT = 100


def show(table: Any, width: int | None = None) -> None:
    """Print a table."""
    from rich.console import Console

    Console(width=width or _width()).print(table)


def report_width(wide: bool) -> int:
    """Return how wide a report's tables may be: in a pipe as on a screen."""
    from rich.console import Console

    terminal = Console().is_terminal
    return PIPED if wide else Console().width if terminal else REPORT


def plain(text: str) -> str:
    """Return a text in which rich finds no markup."""
    from rich.markup import escape

    return escape(text)


def show_lines(lines: Iterable[Any]) -> None:
    """Print lines of a screen (`report.screen.Line`), those that are muted in grey."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=PIPED)
    for line in lines:
        console.print(Text(line.text, style="dim" if line.muted else ""), soft_wrap=True)


def show_sections(sections: Iterable[Any], width: int | None = None) -> None:
    """Print tables of a report (`report.sections.Section`), each with how to read it."""
    width = width or _width()
    for section in sections:
        if not section.rows:
            print(f"{section.title}\n")
        blocks = _blocks(section, width) if section.rows else []
        for number, block in enumerate(blocks):
            columns = [section.columns[place] for place in block]
            title = "" if number else section.title
            longest = max(len(row[0]) for row in section.rows)
            table = table_of(
                title,
                *columns,
                right=tuple(columns[1:]),
                whole=1 if longest > width // 2 else _whole(section),
                longest=width // 2 if longest > width // 2 else None,
            )
            for number_of_row, row in enumerate(section.rows):
                # A part of a table has no rows that are filled in another part.
                if len(blocks) == 1 or any(row[place] for place in block[section.named :]):
                    style = "dim" if number_of_row in section.muted else None
                    table.add_row(*(plain(row[place]) for place in block), style=style)
            show(table, width)
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
    widest[0] = min(widest[0], width // 2 + 2)
    names = list(range(section.named))
    blocks = [list(names)]
    for place in range(section.named, len(section.columns)):
        block = [*blocks[-1], place]
        if len(blocks[-1]) > len(names) and sum(widest[column] for column in block) + 2 > width:
            blocks.append([*names, place])
        else:
            blocks[-1] = block
    return blocks
