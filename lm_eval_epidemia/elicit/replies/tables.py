"""Tables in a model's reply, written again as lines "A: 30".

A row may be an answer (its letter, its text, or both in one cell or two, then its number), or a
column (a header that has every answer once, then a row of numbers). A table in which an answer
stands twice, or which lacks one, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from lm_eval_epidemia.elicit.replies.labels import Labels

_RULE = re.compile(r"[\s|:=+-]*")

#: A cell "(20)" is no aside to the cell before.
_IN_BRACKETS = re.compile(r"\A\(([^()]{0,40}\d[^()]{0,40})\)\Z")

_Row = list[str]


def as_lines(text: str, named: Labels) -> str:
    """Write every table of a plain text that names all answers as a line for each of them.

    All cells are kept, as "A: 30 | 30%": they may contradict each other.
    """
    written: list[str] = []
    for is_table, block in groupby(text.split("\n"), lambda line: "|" in line):
        lines = list(block)
        if is_table:
            rows = [_cells(line) for line in lines if not _RULE.fullmatch(line)]
            if answers := _by_rows(rows, named) or _by_columns(rows, named):
                pairs = zip(named.letters, answers, strict=True)
                lines = [f"{letter}: {' | '.join(cells)}" for letter, cells in pairs]
        written += lines
    return "\n".join(written)


def _cells(line: str) -> _Row:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [_IN_BRACKETS.sub(r"\1", cell.strip()) for cell in inner.split("|")]


def _by_rows(rows: Sequence[_Row], named: Labels) -> list[_Row] | None:
    """Return what stands beside every answer, where each is named at the beginning of one row."""
    labelled = [(place, row[1:]) for row in rows if (place := named.of(row[0])) is not None]
    if sorted(place for place, _ in labelled) != list(range(len(named.letters))):
        return None
    # Letter and text in two cells, whose text may be a number: "| A | 0 | 11 |"
    if all(len(row) > 1 and named.of(row[0]) == place for place, row in labelled):
        labelled = [(place, row[1:]) for place, row in labelled]
    return [row for _, row in sorted(labelled)]


def _by_columns(rows: Sequence[_Row], named: Labels) -> list[_Row] | None:
    """Return what stands below every answer, where a row has each of them once."""
    for at, header in enumerate(rows):
        places = [named.of(cell) for cell in header]
        if sorted(place for place in places if place is not None) != list(
            range(len(named.letters))
        ):
            continue
        below: list[_Row] = [[] for _ in named.letters]
        for row in rows[at + 1 :]:
            if len(row) != len(header):
                return None
            cells = [(i, cell) for i, cell in zip(places, row, strict=True) if i is not None]
            # The texts below their letters
            if not all(named.of(cell) == place for place, cell in cells):
                for place, cell in cells:
                    below[place].append(cell)
        return below if all(below) else None
    return None
