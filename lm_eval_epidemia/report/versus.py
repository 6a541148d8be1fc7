"""Two models compared, in words: who is better, by how much, and where that holds."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import Any

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.findings.versus import Versus
from lm_eval_epidemia.results.compare import CONFIDENCE, FEWEST

#: Lines and columns of a screen.
LINES, WIDTH = 24, 100

#: How to read the sentences.
HERE = (
    f"Here: in these tasks, ± one standard error. Elsewhere: {100 * CONFIDENCE:.0f} % interval for "
    "other outcomes of this kind."
)
DOCUMENTS = (
    f"Paired by document; {100 * CONFIDENCE:.0f} % intervals over other documents of the same "
    "tasks, and over other tasks."
)

#: What is said of the better one.
SAYS = {
    "better": "is better, here and elsewhere,",
    "better here": "is better here (elsewhere not shown)",
}


def in_words(compared: Versus) -> list[str]:
    """Return the comparisons in sentences, at most one screen.

    Groups together come first, other people's tasks last. What does not fit, and the tasks of other
    people's groups, are counted.
    """
    one, other = compared.called
    lines = [f"{compared.one.name} against {compared.other.name}"]
    if compared.unlike:
        settings = "; ".join(f"{key} {a} / {b}" for key, (a, b) in compared.unlike.items())
        lines += _wrapped(f"Run differently: {settings}.")
    ours = compared.ours.table.to_dict("records")
    others = compared.documents.table.to_dict("records")
    texts = [
        *(_of_group(row, one, other) for row in ours),
        *(_of_documents(row, one, other) for row in others if not row["in_group"]),
    ]
    last = _wrapped(HERE) if ours else []
    last += _wrapped(DOCUMENTS) if others else []
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


def _of_group(of: Mapping[Any, Any], one: str, other: str) -> str:
    """Say which is better in one of our groups, and by how much."""
    benchmark = groups()[of["group"].split(" + ")[0]]
    digits, side = benchmark.digits, 1 if of["difference"] > 0 else -1
    unit = "points" if benchmark.measure.high == 100 else f"in {benchmark.leading}"
    if of["verdict"] == "not shown":
        side = 1
        says = f"no difference is shown: {one} {of['difference']:+.{digits}f} {unit}"
    else:
        winner = one if of["verdict"].startswith("better") else other
        verdict = SAYS[of["verdict"].replace("worse", "better")]
        says = f"{winner} {verdict} by {abs(of['difference']):.{digits}f} {unit}"
    more = []
    if not math.isnan(of["corrected_error"]):
        more.append(f"here ± {of['corrected_error']:.{digits}f}")
    if not math.isnan(of["low"]):
        more.append(f"elsewhere {_range(of['low'], of['high'], digits, side)}")
    elif of["outcomes"] < FEWEST:
        more.append("too few outcomes to generalise")
    if not math.isnan(of["l1_ratio"]):
        ratios = _range(of["l1_ratio_low"], of["l1_ratio_high"], 2)
        more.append(f"l1 of {one} is {of['l1_ratio']:.2f} times as large, {ratios}")
    inside = f" ({'; '.join(more)})" if more else ""
    how = f" ({of['asked_as']})" if of["asked_as"] else ""
    return (
        f"{of['group']}{how}, {plural(of['tasks'], 'task')} on "
        f"{plural(of['outcomes'], 'outcome')}: {says}{inside}. Tasks won: {of['wins']} against "
        f"{of['losses']}, {plural(of['ties'], 'tie')}."
    )


def _of_documents(of: Mapping[Any, Any], one: str, other: str) -> str:
    """Say which is better in other people's task or group, and by how much."""
    side = 1 if of["difference"] > 0 or of["verdict"] == "not shown" else -1
    values = f"{of['first']:.3f} against {of['second']:.3f}"
    if of["verdict"] == "not shown":
        says = f"no difference is shown: {values}, {of['difference']:+.3f}"
    else:
        word, _, here = of["verdict"].partition(" ")
        winner = one if word in ("better", "higher") else other
        word = {"worse": "better", "lower": "higher"}.get(word, word)
        where = " in these tasks (not shown for others)" if here else ""
        says = f"{winner} is {word}{where}: {values}, by {abs(of['difference']):.3f}"
    inside = [f"{of['too_few']} for an interval"] if of["too_few"] else []
    for says_of, name in (("", ""), ("over tasks ", "over_tasks_")):
        if not math.isnan(of[f"{name}low"]):
            inside.append(says_of + _range(of[f"{name}low"], of[f"{name}high"], 3, side))
    more = f" ({'; '.join(inside)})" if inside else ""
    tasks = f"{of['tasks']} tasks, " if of["tasks"] > 1 else ""
    plain = of["clustered_by"] == "document" and of["clusters"] == of["rows"]
    counted = plural(of["rows"], "document" if plain else "row")
    if of["clustered_by"] != "document":
        counted += f", {of['clusters']:,} by {of['clustered_by']}"
    elif not plain:
        counted += f" of {plural(of['clusters'], 'document')}"
    p = p_value(of["p"])
    tested = f" p {p if p.startswith('<') else f'= {p}'} ({of['test']})." if p else ""
    return (
        f"{of['task']}, {of['metric']}, {tasks}{counted}: {says}{more}. "
        f"{'Documents' if plain else 'Rows'} won: {of['wins']:,} against {of['losses']:,}, "
        f"{plural(of['ties'], 'tie')}.{tested}"
    )


def p_value(p: float, level: float = 0.05) -> str:
    """Write a p-value with three digits, or more if these hide its side of a level."""
    if math.isnan(p):
        return ""
    if p < 0.001:
        return "< 0.001"
    digits = (d for d in range(3, 16) if p == level or float(f"{p:.{d}f}") != level)
    return f"{p:.{next(digits, 16)}f}"
