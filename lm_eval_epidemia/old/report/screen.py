"""A summary as lines of a screen: a sentence, tables that fit, and next commands."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from io import StringIO
from itertools import product, takewhile
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lm_eval_epidemia.core.columns import taken, widest
from lm_eval_epidemia.old.findings.boards import Board
from lm_eval_epidemia.old.findings.summary import Summary
from lm_eval_epidemia.old.report.sections import Section, printed
from lm_eval_epidemia.results.naming import without_kind

#: Columns and lines of a screen.
WIDTH, HEIGHT = 100, 25

#: How narrow settings and names may be.
SETTINGS, SHORT_NAME = 14, 20

#: Columns before a table, and between two of its columns.
INDENT, GAP = 2, 2

#: Columns of texts; the others hold numbers.
TEXTS = ("model", "settings")

#: Heads longer than this stand in two lines.
LONGEST_HEAD = 14


class Line(NamedTuple):
    """A line of text, and whether it is grey."""

    text: str
    muted: bool = False


def lines(summary: Summary, width: int | None = WIDTH) -> list[Line]:
    """Return the first layout that fits on a screen.

    Long settings are folded while there are lines for it, then cut. Tables without room are named.
    A text takes four lines, two, or one.

    Parameters
    ----------
    summary : Summary
    width : int or None
        Columns of the screen; None: as many as it takes.
    """
    several = range(len(summary.boards), 0, -1) or (0,)
    for most, number, folds in product((4, 2, 1), several, (True, False)):
        shown = _laid_out(summary, width, number, folds, most)
        if len(shown) <= HEIGHT or width is None:
            break
    return shown


def _laid_out(
    summary: Summary, width: int | None, number: int, folds: bool, most: int
) -> list[Line]:
    """Lay out this many tables, with at most `most` lines per text."""
    shown = [line for text in summary.sentences for line in _wrapped(text, width, most)]
    for board in summary.boards[:number]:
        shown += [*[Line("")] * bool(shown), *_board(board, width, folds, most)]
    left_out = [board.benchmark.name for board in summary.boards[number:]]
    more = [f"More tables ({', '.join(left_out)}): --section leaderboard"] if left_out else []
    return shown + [x for text in (*more, *summary.lines) for x in _wrapped(text, width, most)]


def _wrapped(text: str, width: int | None, most: int) -> list[Line]:
    if width is None:
        return [Line(text)]
    parts = textwrap.wrap(text, width, max_lines=most, placeholder=" …", break_on_hyphens=False)
    return [Line(part) for part in parts]


def _board(board: Board, width: int | None, folds: bool, most: int) -> list[Line]:
    section, missing = _fitting(board, width, folds)
    left_out = f"No room for {', '.join(missing)} (see --wide)." if missing else ""
    note = " ".join(filter(None, (left_out, section.note)))
    return [
        *_wrapped(section.title, width, most),
        *_table(section, width, folds),
        *(_wrapped(note, width, most) if note else ()),
    ]


def _table(section: Section, width: int | None, folds: bool) -> list[Line]:
    """Set a table, greyed rows in grey."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    widths = _widths(section)
    if width is not None and "settings" in widths:
        left = width - _taken({**widths, "settings": 0})
        widths["settings"] = min(widths["settings"], left)
    for (title, wide), head in zip(widths.items(), _heads(section), strict=True):
        table.add_column(
            Text("\n".join(head)),
            justify="left" if title in TEXTS else "right",
            width=wide,
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
        )
    numbers = [place for place, title in enumerate(section.columns) if title not in TEXTS]
    for number, row in enumerate(section.rows):
        # Who was asked only what there is no room for has no row.
        if any(row[place] for place in numbers):
            table.add_row(*map(Text, row), style="dim" if number in section.muted else None)
    console = Console(width=_taken(widths), file=StringIO(), color_system=None)
    return [
        Line(
            (" " * INDENT + "".join(part.text for part in line)).rstrip(),
            any(part.style and part.style.dim for part in line),
        )
        for line in console.render_lines(table, pad=False)
    ]


def _widths(section: Section) -> dict[str, int]:
    """Return the width that each column needs."""
    columns = zip(section.columns, _heads(section), zip(*section.rows, strict=True), strict=True)
    return {title: widest((*head, *cells)) for title, head, cells in columns}


def _taken(widths: dict[str, int]) -> int:
    """Return the width of a table with these columns."""
    return taken(widths.values(), GAP, INDENT)


def _head(title: str) -> list[str]:
    """Split a long heading in two, between words or parts of a name."""
    if len(title) <= LONGEST_HEAD:
        return [title]
    breaks = [at for at, letter in enumerate(title) if letter in "_ " and at > 2]
    if not breaks:
        return [title]
    at = min(breaks, key=lambda at: max(at, len(title) - at))
    return [title[:at], title[at:].strip()]


def _heads(section: Section) -> list[list[str]]:
    """Return headings with equal numbers of lines; short ones end right above their numbers."""
    heads = [_head(title) for title in section.columns]
    depth = max(map(len, heads))
    return [[""] * (depth - len(head)) + head for head in heads]


def _fitting(board: Board, width: int | None, folds: bool) -> tuple[Section, list[str]]:
    """Fold numbers, leave columns out, then cut names, until a table fits.

    Returns
    -------
    section : Section
    missing : list of str
        Columns left out.
    """
    finding, missing = board.finding, list[str]()
    optional = [name for name in board.optional if name in [c.name for c in finding.columns]]
    section = printed(finding)
    if width is None:
        return section, missing
    least = min(_widths(section)["model"], max(SHORT_NAME, width // 3))
    if folds and _room(section, width) < least:
        section = _folded(section)
    while _room(section, width) < least and optional:
        missing.insert(0, optional.pop())
        left = [column for column in finding.columns if column.name not in missing]
        section = printed(finding._replace(columns=left))
        section = _folded(section) if folds else section
    place = section.columns.index("model")
    names = cut_names([row[place] for row in section.rows], max(_room(section, width), SHORT_NAME))
    rows = [[name, *row[1:]] for name, row in zip(names, section.rows, strict=True)]
    return section._replace(rows=rows), missing


def _folded(section: Section) -> Section:
    """Put text after a number on the line below."""
    rows = [
        [
            cell if title in TEXTS else cell.replace(" (", "\n(")
            for title, cell in zip(section.columns, row, strict=True)
        ]
        for row in section.rows
    ]
    return section._replace(rows=rows)


def _room(section: Section, width: int) -> int:
    """Return the columns of the screen left for names, with settings as narrow as possible."""
    widths = {**_widths(section), "model": 0}
    if "settings" in widths:
        widths["settings"] = min(widths["settings"], SETTINGS)
    return width - _taken(widths)


def cut_names(names: Sequence[str], width: int) -> list[str]:
    """Shorten long names but keep them distinct: shared parts go first."""
    names = [name if cell_len(name) <= width else without_kind(name) for name in names]
    cut = []
    for name in names:
        others = [other for other in names if other != name]
        # Where it stops being like another name, back to the beginning of a word.
        unlike = max((_alike(name, other) for other in others), default=0)
        start = max((m.end() for m in re.finditer(r"[-_/ +.]", name[:unlike])), default=0)
        cut.append(_cut_name(name, start, width))
    return cut


def _alike(name: str, other: str) -> int:
    """Count the letters at which both start alike."""
    pairs = zip(name, other, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _cut_name(name: str, start: int, width: int) -> str:
    """Shorten a name, in the middle if its second half distinguishes it."""
    if cell_len(name) <= width:
        return name
    if start <= width // 2:
        return set_cell_size(name, width - 1).rstrip() + "…"
    tail = name[start:]
    head = set_cell_size(name, max(width - 1 - cell_len(tail), width // 3)).rstrip()
    return head + "…" + _cut_name(tail, 0, width - 1 - cell_len(head))
