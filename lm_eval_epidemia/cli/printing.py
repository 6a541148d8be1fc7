"""How commands print tables: for people on a terminal, for programs in a pipe."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval_epidemia.core.columns import taken, widest


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


def report_width(wide: bool) -> int:
    """Return how wide a report's tables may be, the same in a pipe as on a screen."""
    from rich.console import Console

    terminal = Console().is_terminal
    return PIPED if wide else Console().width if terminal else REPORT


def plain(text: str) -> str:
    """Escape rich's markup in a text."""
    from rich.markup import escape

    return escape(text)


def show_lines(lines: Iterable[Any]) -> None:
    """Print lines of a screen (`report.screen.Line`); muted ones are grey."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=PIPED)
    for line in lines:
        console.print(Text(line.text, style="dim" if line.muted else ""), soft_wrap=True)


def show_sections(sections: Iterable[Any], width: int | None = None) -> None:
    """Print tables of a report (`report.sections.Section`), each with its note."""
    width = width or terminal_width()
    for section in sections:
        if not section.rows:
            print(f"{section.title}\n")
        widths = _widths(section, width)
        blocks = _blocks(section.named, widths, width) if section.rows else []
        for number, block in enumerate(blocks):
            columns = [section.columns[place] for place in block]
            table = table_of(
                "" if number else section.title,
                *columns,
                right=tuple(columns[1:]),
                widths=[widths[place] for place in block],
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


#: Between two columns of `SIMPLE_HEAD`, and around all.
_GAP, _EDGES = 3, 4


def fits(rows: Iterable[Sequence[str]]) -> bool:
    """Return whether a table of such rows fits without a fold."""
    widths = [widest(column) for column in zip(*rows, strict=True)]
    return taken(widths, _GAP, _EDGES) <= terminal_width()


#: A table has room for a number or two beside what its rows are of, which folds for them. Texts
#: among them fold beyond it.
_NUMBERS = 30

#: No name is folded to fewer columns, and to so few only where it makes room for a number.
_LEAST, _SHORT = 8, 20


def _widths(section: Any, width: int) -> list[int]:
    """Return the widths of columns: their longest text, or as much as there is room for.

    Names fold if one table then suffices, or if a number would have no room otherwise; names with
    spaces fold first.
    """
    texts = list(zip(section.columns, *section.rows, strict=True))
    whole = [widest(column) for column in texts]
    if taken(whole, _GAP, _EDGES) <= width:
        return whole
    names, others = whole[: section.named], [min(n, _NUMBERS) for n in whole[section.named :]]
    spaced = [any(" " in text for text in column) for column in texts[: section.named]]
    every, but_first = [True] * len(names), [names[0] > width // 2, *spaced[1:]]
    most, together = max(others, default=0), taken(others, _GAP)
    # How wide the numbers of a table are, which names fold for them, and how far.
    ways = (
        (together, spaced, _SHORT),
        (min(together, _NUMBERS), but_first, _LEAST),
        (most, but_first, _LEAST),
        (most, every, _LEAST),
    )
    for numbers, may_fold, least in ways:
        for longest in range(width // 2, least - 1, -1):
            pairs = zip(names, may_fold, strict=True)
            folded = [min(name, longest) if may else name for name, may in pairs]
            if taken([*folded, numbers], _GAP, _EDGES) <= width:
                return [*folded, *others]
    return [*(min(name, _LEAST) for name in names), *others]


def _blocks(named: int, widths: Sequence[int], width: int) -> list[list[int]]:
    """Split columns into tables that fit; each repeats the columns that name its rows."""
    names = list(range(named))
    blocks = [list(names)]
    for place in range(named, len(widths)):
        block = [*blocks[-1], place]
        is_wider = taken([widths[column] for column in block], _GAP, _EDGES) > width
        if len(blocks[-1]) > len(names) and is_wider:
            blocks.append([*names, place])
        else:
            blocks[-1] = block
    return blocks
