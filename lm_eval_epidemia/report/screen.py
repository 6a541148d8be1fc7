"""The first screen: sentences, tables that fit, and next commands."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import product

from lm_eval_epidemia.findings.headline import Board, Headline
from lm_eval_epidemia.report.render import WIDTH, Shown, draw_table, fit_width, for_people

#: Lines of a screen.
HEIGHT = 25


def screen(headline: Headline, width: int | None = WIDTH) -> str:
    """Write the first layout that fits on a screen: texts take four lines, two, or one.

    Tables without room are named; where rows have no room to fold, names and settings are cut.
    """
    tables = [
        fit_width(for_people(board.finding), width and width - 2) for board in headline.boards
    ]
    several = range(len(tables), 0, -1) or (0,)
    for most, number, folds in product((4, 2, 1), several, (True, False)):
        shown = _laid_out(headline, tables[:number], width, most, folds)
        if width is None or len(shown) <= HEIGHT:
            break
    return "\n".join(shown) + "\n"


def _laid_out(
    headline: Headline,
    tables: Sequence[tuple[Shown, list[str]]],
    width: int | None,
    most: int,
    folds: bool,
) -> list[str]:
    shown = [line for text in headline.sentences for line in _wrapped(text, width, most)]
    for board, table in zip(headline.boards, tables, strict=False):
        shown += [*([""] if shown else []), *_board(board, *table, width, most, folds)]
    names = [board.benchmark.name for board in headline.boards[len(tables) :]]
    more = [f"More tables ({', '.join(names)}): --show leaderboard"] if names else []
    return shown + [x for text in (*more, *headline.lines) for x in _wrapped(text, width, most)]


def _wrapped(text: str, width: int | None, most: int) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, width, max_lines=most, placeholder=" …", break_on_hyphens=False)


def _board(
    board: Board, shown: Shown, missing: Sequence[str], width: int | None, most: int, folds: bool
) -> list[str]:
    listed = ", ".join(name for name in dict.fromkeys(missing) if name.strip())
    left_out = f"No room for {listed}: --wide." if listed else ""
    note = " ".join(filter(None, (left_out, board.finding.note)))
    table = textwrap.indent(draw_table(shown, width and width - 2, folds), "  ")
    return [
        *_wrapped(board.finding.title, width, most),
        *table.splitlines(),
        *(_wrapped(note, width, most) if note else ()),
    ]
