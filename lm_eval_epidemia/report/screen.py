"""Screens: the first one, of sentences, tables that fit and next commands; and of two models."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import product
from typing import Any

from lm_eval_epidemia.benchmarks import list_groups
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.findings.compare import FEWEST
from lm_eval_epidemia.findings.headline import Board, Headline
from lm_eval_epidemia.findings.versus import Versus
from lm_eval_epidemia.findings.words import WORDS
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


def _wrapped(
    text: str, width: int | None = WIDTH, most: int | None = None, indent: str = ""
) -> list[str]:
    if width is None:
        return [text]
    how: dict[str, Any] = {"subsequent_indent": indent, "break_on_hyphens": False}
    return textwrap.wrap(text, width, max_lines=most, placeholder=" …", **how)


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


#: Lines of a comparison in words.
LINES = 24


def describe_versus(compared: Versus) -> list[str]:
    """Return the comparisons in sentences, at most one screen.

    Groups together come first, other people's tasks last. What does not fit, and the tasks of other
    people's groups, are counted.
    """
    lines = [f"{compared.one.name} against {compared.other.name}"]
    if compared.unlike:
        settings = "; ".join(f"{key} {a} / {b}" for key, (a, b) in compared.unlike.items())
        lines += _wrapped(f"Run differently: {settings}.", indent="  ")
    ours, others = ([*of.table.itertuples()] for of in (compared.ours, compared.documents))
    texts = [_of_group(row, *compared.called) for row in ours]
    texts += [_of_documents(row, *compared.called) for row in others if not row.in_group]
    last = _wrapped(WORDS["compared"]["ours"], indent="  ") if ours else []
    last += _wrapped(WORDS["compared"]["documents"], indent="  ") if others else []
    left = len(ours) + len(others)
    for text in texts:
        block = ["", *_wrapped(text, indent="  ")]
        if len(lines) + len(block) + len(last) + 2 > LINES:
            break
        lines += block
        left -= 1
    more = [f"{plural(left, 'more comparison')}: --format csv"] if left else []
    return [*lines, "", *last, *more]


def _range(low: float, high: float, digits: int, side: int = 1) -> str:
    """Write an interval; with a side of -1, for the reversed difference."""
    ends = sorted((side * low, side * high))
    # On which side of 0 an end is decides the verdict.
    while digits < 9 and any(end and not float(f"{end:.{digits}f}") for end in ends):
        digits += 1
    return " to ".join(f"{end:.{digits}f}" for end in ends)


def _of_group(of: Any, one: str, other: str) -> str:
    """Say which is better in one of our groups, and by how much."""
    benchmark = list_groups()[of.group.split(" + ")[0]]
    digits, side = benchmark.digits, 1
    unit = "points" if benchmark.lead.high == 100 else f"in {benchmark.leading}"
    says = f"no difference is shown: {one} {of.difference:+.{digits}f} {unit}"
    if of.verdict != "not shown":
        side = 1 if of.difference > 0 else -1
        winner = one if of.verdict.startswith("better") else other
        where = ", here and elsewhere," if " " not in of.verdict else " here (elsewhere not shown)"
        says = f"{winner} is better{where} by {abs(of.difference):.{digits}f} {unit}"
    more = []
    if not math.isnan(of.corrected_error):
        more.append(f"here ± {of.corrected_error:.{digits}f}")
    if not math.isnan(of.low):
        more.append(f"elsewhere {_range(of.low, of.high, digits, side)}")
    elif of.outcomes < FEWEST:
        more.append("too few outcomes to generalise")
    if not math.isnan(of.l1_ratio):
        ratios = _range(of.l1_ratio_low, of.l1_ratio_high, 2)
        more.append(f"l1 of {one} is {of.l1_ratio:.2f} times as large, {ratios}")
    inside = f" ({'; '.join(more)})" if more else ""
    how = f" ({of.asked_as})" if of.asked_as else ""
    return (
        f"{of.group}{how}, {plural(of.tasks, 'task')} on {plural(of.outcomes, 'outcome')}: "
        f"{says}{inside}. {_won('Tasks', of)}"
    )


def _won(what: str, of: Any) -> str:
    return f"{what} won: {of.wins:,} against {of.losses:,}, {plural(of.ties, 'tie')}."


def _of_documents(of: Any, one: str, other: str) -> str:
    """Say which is better in other people's task or group, and by how much."""
    side, values = 1, f"{of.first:.3f} against {of.second:.3f}"
    says = f"no difference is shown: {values}, {of.difference:+.3f}"
    if of.verdict != "not shown":
        side = 1 if of.difference > 0 else -1
        word, _, here = of.verdict.partition(" ")
        winner = one if word in ("better", "higher") else other
        word = {"worse": "better", "lower": "higher"}.get(word, word)
        where = " in these tasks (not shown for others)" if here else ""
        says = f"{winner} is {word}{where}: {values}, by {abs(of.difference):.3f}"
    inside = [f"{of.too_few} for an interval"] if of.too_few else []
    if not math.isnan(of.low):
        inside.append(_range(of.low, of.high, 3, side))
    if not math.isnan(of.over_tasks_low):
        inside.append(f"over tasks {_range(of.over_tasks_low, of.over_tasks_high, 3, side)}")
    more = f" ({'; '.join(inside)})" if inside else ""
    tasks = f"{of.tasks} tasks, " if of.tasks > 1 else ""
    plain = of.clustered_by == "document" and of.clusters == of.rows
    counted = plural(of.rows, "document" if plain else "row")
    if of.clustered_by != "document":
        counted += f", {of.clusters:,} by {of.clustered_by}"
    elif not plain:
        counted += f" of {plural(of.clusters, 'document')}"
    p = p_value(of.p)
    tested = f" p {p if p.startswith('<') else f'= {p}'} ({of.test})." if p else ""
    return (
        f"{of.task}, {of.metric}, {tasks}{counted}: {says}{more}. "
        f"{_won('Documents' if plain else 'Rows', of)}{tested}"
    )


def p_value(p: float, level: float = 0.05) -> str:
    """Write a p-value with three digits, or more if these hide its side of a level."""
    if math.isnan(p):
        return ""
    if p < 0.001:
        return "< 0.001"
    digits = (d for d in range(3, 16) if p == level or float(f"{p:.{d}f}") != level)
    return f"{p:.{next(digits, 16)}f}"
