"""A summary as lines of a screen: a sentence, one table that fits, and what to look at next."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lm_eval_epidemia.findings.boards import Board
from lm_eval_epidemia.findings.summary import Summary
from lm_eval_epidemia.report.sections import Section, printed

#: Columns of a screen, and how many lines a verdict may take on it.
WIDTH, MOST_LINES = 100, 2

#: Settings and names are cut to these before a column is left out, and names to the last after.
SETTINGS, NAME, SHORT_NAME = 14, 36, 20

#: Columns of texts; the others hold numbers.
TEXTS = ("model", "settings")

#: Heads longer than this stand in two lines.
LONGEST_HEAD = 14


class Line(NamedTuple):
    """A line of text, and whether it is greyed."""

    text: str
    muted: bool = False


def lines(summary: Summary, width: int | None = WIDTH) -> list[Line]:
    """Return what a screen shows.

    Parameters
    ----------
    summary : Summary
    width : int or None
        Columns of the screen; None: as many as it takes.
    """
    shown = [line for text in summary.sentences for line in _wrapped(text, width)]
    for board in summary.boards:
        shown += [*[Line("")] * bool(shown), *_board(board, width)]
    for text in summary.lines:
        shown += _wrapped(text, width)[:MOST_LINES]
    return shown


def _wrapped(text: str, width: int | None) -> list[Line]:
    if width is None:
        return [Line(text)]
    parts = textwrap.wrap(text, width, break_long_words=True, break_on_hyphens=False)
    if len(parts) > MOST_LINES:
        parts[MOST_LINES - 1] = _cut(f"{parts[MOST_LINES - 1]} {parts[MOST_LINES]}", width)
    return [Line(part) for part in parts[:MOST_LINES]]


def _board(board: Board, width: int | None) -> Iterator[Line]:
    section, missing = _fitting(board, width)
    yield from _wrapped(section.title, width)
    heads = _heads(section)
    widths = [
        max(map(len, (*head, *column)))
        for head, column in zip(heads, _columns(section), strict=True)
    ]
    for number in range(len(heads[0])):
        yield Line(_row(section, [head[number] for head in heads], widths))
    yield Line("  " + "─" * (sum(widths) + 2 * len(widths) - 2))
    numbers = [place for place, title in enumerate(section.columns) if title not in TEXTS]
    # Who was asked only what there is no room for has no row.
    rows = [(n, row) for n, row in enumerate(section.rows) if any(row[p] for p in numbers)]
    for number, row in rows:
        yield Line(_row(section, row, widths), number in section.muted)
    left_out = f"Without room: {', '.join(missing)} (--wide)." if missing else ""
    if note := " ".join(filter(None, (left_out, section.note))):
        yield from _wrapped(note, width)


def _columns(section: Section) -> list[tuple[str, ...]]:
    return [tuple(row[place] for row in section.rows) for place in range(len(section.columns))]


def _head(title: str) -> list[str]:
    """Part a long head in two, where its name or its words do."""
    if len(title) <= LONGEST_HEAD:
        return [title]
    breaks = [at for at, letter in enumerate(title) if letter in "_ " and at > 2]
    if not breaks:
        return [title]
    at = min(breaks, key=lambda at: max(at, len(title) - at))
    return [title[:at], title[at:].strip()]


def _heads(section: Section) -> list[list[str]]:
    """Return heads in as many lines each; what is short stands right above its numbers."""
    heads = [_head(title) for title in section.columns]
    depth = max(map(len, heads))
    return [[""] * (depth - len(head)) + head for head in heads]


def _row(section: Section, cells: Sequence[str], widths: Sequence[int]) -> str:
    """Set texts to the left, numbers to the right."""
    texts = [
        cell.ljust(width) if title in TEXTS else cell.rjust(width)
        for title, cell, width in zip(section.columns, cells, widths, strict=True)
    ]
    return ("  " + "  ".join(texts)).rstrip()


def _fitting(board: Board, width: int | None) -> tuple[Section, list[str]]:
    """Cut settings and long names, leave columns out, then cut names, until a table fits.

    Returns
    -------
    section : Section
    missing : list of str
        Columns that are left out.
    """
    finding, missing, optional = board.finding, list[str](), list(board.optional)
    section = printed(finding)
    if width is None:
        return section, missing
    section = _cut_to(section, width, NAME)
    while _width(section) > width and optional:
        missing.insert(0, optional.pop())
        left = [c for c in finding.columns if c.name not in missing]
        section = _cut_to(printed(finding._replace(columns=left)), width, NAME)
    return _cut_to(section, width, SHORT_NAME), missing


def _cut_to(section: Section, width: int, name: int) -> Section:
    """Cut settings first, then names, by as much as a table is too wide."""
    for title, least, cut in (("settings", SETTINGS, _cut), ("model", name, _cut_inside)):
        over = _width(section) - width
        if over > 0 and title in section.columns:
            place = section.columns.index(title)
            longest = max(map(len, _columns(section)[place]))
            section = _cut_column(section, place, max(least, longest - over), cut)
    return section


def _width(section: Section) -> int:
    texts = zip(_heads(section), _columns(section), strict=True)
    return sum(max(map(len, (*head, *column))) + 2 for head, column in texts)


def _cut_column(
    section: Section, place: int, width: int, cut: Callable[[str, int], str]
) -> Section:
    rows = [
        [cut(cell, width) if at == place else cell for at, cell in enumerate(row)]
        for row in section.rows
    ]
    return section._replace(rows=rows)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _cut_inside(text: str, width: int) -> str:
    """Keep the end, by which adapters and sizes of one model differ."""
    # A reference respondent is known without its kind.
    text = text if len(text) <= width else re.sub(r" \(kind=\w+\)|kind=\w+, ", "", text)
    head = width // 3
    return text if len(text) <= width else f"{text[:head]}…{text[head + 1 - width :]}"
