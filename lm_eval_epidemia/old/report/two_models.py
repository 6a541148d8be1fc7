"""Two models compared, in words: who is better, by how much, and where that holds."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.old.findings import documents, head_to_head
from lm_eval_epidemia.old.findings.comparison import (
    CONFIDENCE,
    FEWEST,
    TOO_FEW,
    Comparison,
    benchmark_of,
)
from lm_eval_epidemia.old.findings.documents import OverDocuments
from lm_eval_epidemia.old.findings.rows import Finding, p_value
from lm_eval_epidemia.old.findings.two_models import TwoModels
from lm_eval_epidemia.old.report.sections import Section, printed, tidy

#: Lines and columns of a screen.
LINES, WIDTH = 24, 100


def findings(compared: TwoModels) -> list[Finding]:
    """Return the comparisons as tidy tables: over our tasks, and over documents."""
    of_ours = []
    if compared.one.run and compared.other.run:
        of_ours = head_to_head.of_pairs([compared.one.run], compared.comparisons)
    title = f"{compared.one.name} / {compared.other.name}: tasks of others, document by document"
    return [
        *of_ours,
        *([documents.finding(compared.documents, title)] if compared.documents else []),
    ]


def as_rows(compared: TwoModels) -> list[dict[str, Any]]:
    """Return the comparisons as rows of one tidy table, like those of a report."""
    return [row for finding in findings(compared) for row in tidy(finding)]


def as_sections(compared: TwoModels) -> list[Section]:
    """Return the comparisons as tables."""
    return [printed(finding, long=True) for finding in findings(compared)]


def in_words(compared: TwoModels) -> list[str]:
    """Return the comparisons in sentences, at most one screen.

    Combined groups come first, other people's tasks last. What does not fit, and the tasks of other
    people's groups, are counted.
    """
    one, other = compared.called
    lines = [f"{compared.one.name} against {compared.other.name}"]
    if compared.unlike:
        settings = "; ".join(f"{key} {a} / {b}" for key, (a, b) in compared.unlike.items())
        lines += _wrapped(f"Run differently: {settings}.")
    texts = [
        *(_of_group(of, compared.asked_as[of.column], one, other) for of in compared.comparisons),
        *(_of_documents(of, one, other) for of in compared.documents if not of.in_group),
    ]
    last = _wrapped(_HERE) if compared.comparisons else []
    last += _wrapped(_DOCUMENTS) if compared.documents else []
    left = len(compared.comparisons) + len(compared.documents)
    for text in texts:
        block = ["", *_wrapped(text)]
        if len(lines) + len(block) + len(last) + 2 > LINES:
            break
        lines += block
        left -= 1
    more = [f"{plural(left, 'more comparison')}: --format csv"] if left else []
    return [*lines, "", *last, *more]


#: How to read the sentences.
_HERE = (
    f"Here: in these tasks, ± one standard error. Elsewhere: {CONFIDENCE:.0%} interval for "
    "other outcomes of this kind.".replace("%", " %")
)
_DOCUMENTS = (
    f"Paired by document; {CONFIDENCE:.0%} intervals over other documents of the same tasks, and "
    "over other tasks.".replace("%", " %")
)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _range(low: float, high: float, digits: int, side: int = 1) -> str:
    """Write an interval; with a side of -1, for the reversed difference."""
    ends = sorted((side * low, side * high))
    # On which side of 0 an end is decides the verdict.
    while digits < 9 and any(end and not float(f"{end:.{digits}f}") for end in ends):
        digits += 1
    return " to ".join(f"{end:.{digits}f}" for end in ends)


#: What is said of the better one.
_SAYS = {
    "better": "is better, here and elsewhere,",
    "better here": "is better here (elsewhere not shown)",
}


def _of_group(of: Comparison, asked_as: str, one: str, other: str) -> str:
    """Say which is better in one of our groups, and by how much."""
    benchmark, across = benchmark_of(of.column), of.across
    digits, side = benchmark.digits, 1 if across.difference > 0 else -1
    unit = "points" if benchmark.measure.high == 100 else f"in {benchmark.leading}"
    if of.verdict == "not shown":
        side = 1
        says = f"no difference is shown: {one} {across.difference:+.{digits}f} {unit}"
    else:
        winner = one if of.verdict.startswith("better") else other
        verdict = _SAYS[of.verdict.replace("worse", "better")]
        says = f"{winner} {verdict} by {abs(across.difference):.{digits}f} {unit}"
    more = []
    if not math.isnan(of.here):
        more.append(f"here ± {of.here:.{digits}f}")
    if not math.isnan(across.low):
        more.append(f"elsewhere {_range(across.low, across.high, digits, side)}")
    elif across.clusters < FEWEST:
        more.append(TOO_FEW)
    if not math.isnan(across.ratio):
        ratios = _range(across.ratio_low, across.ratio_high, 2)
        more.append(f"l1 of {one} is {across.ratio:.2f} times as large, {ratios}")
    inside = f" ({'; '.join(more)})" if more else ""
    how = f" ({asked_as})" if asked_as else ""
    return (
        f"{of.column}{how}, {plural(of.tasks, 'task')} on {plural(across.clusters, 'outcome')}: "
        f"{says}{inside}. Tasks won: {of.wins} against {of.losses}, {plural(of.ties, 'tie')}."
    )


def _of_documents(of: OverDocuments, one: str, other: str) -> str:
    """Say which is better in other people's task or group, and by how much."""
    result = of.paired
    side = 1 if result.of.mean > 0 or of.verdict == "not shown" else -1
    values = f"{result.first:.3f} against {result.second:.3f}"
    if of.verdict == "not shown":
        says = f"no difference is shown: {values}, {result.of.mean:+.3f}"
    else:
        word, _, here = of.verdict.partition(" ")
        winner = one if word in ("better", "higher") else other
        word = {"worse": "better", "lower": "higher"}.get(word, word)
        where = " in these tasks (not shown for others)" if here else ""
        says = f"{winner} is {word}{where}: {values}, by {abs(result.of.mean):.3f}"
    intervals = [
        f"{of_what}{_range(*interval, 3, side)}"
        for of_what, interval in (("", of.interval), ("over tasks ", of.over_tasks))
        if not math.isnan(interval[0])
    ]
    intervals = [*filter(None, [of.too_few]), *intervals]
    inside = f" ({'; '.join(intervals)})" if intervals else ""
    wins, losses = of.wins_and_losses
    tasks = f"{of.tasks} tasks, " if of.tasks > 1 else ""
    won = "Documents" if of.rows_are_documents else "Rows"
    p = p_value(result.p) if of.tested else ""
    tested = f" p {p if p.startswith('<') else f'= {p}'} ({result.test})." if p else ""
    return (
        f"{of.task}, {of.metric}, {tasks}{of.counted}: {says}{inside}. "
        f"{won} won: {wins:,} against {losses:,}, {plural(of.rows - wins - losses, 'tie')}."
        f"{tested}"
    )
