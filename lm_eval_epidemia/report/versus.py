"""Two models compared, in words: who is better, by how much, and where that holds."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from lm_eval_epidemia.benchmarks import list_groups
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.findings.compare import FEWEST
from lm_eval_epidemia.findings.versus import Versus
from lm_eval_epidemia.findings.words import WORDS

#: Lines and columns of a screen.
LINES, WIDTH = 24, 100


def describe_versus(compared: Versus) -> list[str]:
    """Return the comparisons in sentences, at most one screen.

    Groups together come first, other people's tasks last. What does not fit, and the tasks of other
    people's groups, are counted.
    """
    lines = [f"{compared.one.name} against {compared.other.name}"]
    if compared.unlike:
        settings = "; ".join(f"{key} {a} / {b}" for key, (a, b) in compared.unlike.items())
        lines += _wrapped(f"Run differently: {settings}.")
    ours, others = ([*of.table.itertuples()] for of in (compared.ours, compared.documents))
    texts = [_of_group(row, *compared.called) for row in ours]
    texts += [_of_documents(row, *compared.called) for row in others if not row.in_group]
    last = _wrapped(WORDS["compared"]["ours"]) if ours else []
    last += _wrapped(WORDS["compared"]["documents"]) if others else []
    left = len(ours) + len(others)
    for text in texts:
        block = ["", *_wrapped(text)]
        if len(lines) + len(block) + len(last) + 2 > LINES:
            break
        lines += block
        left -= 1
    more = [f"{plural(left, 'more comparison')}: --format csv"] if left else []
    return [*lines, "", *last, *more]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


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
