"""Data cards: one page per survey, from its record and the registry of shipped truths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.surveys.catalogue import own_surveys
from lm_eval_epidemia.surveys.record import Record, Task, Vintage
from lm_eval_epidemia.surveys.variable import Universe

#: D_perfect of other bootstraps, beside that of scores.
OTHERS: dict[Scheme, str] = {
    "design": "D_perfect, design",
    "population": "D_perfect, another survey",
}


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> list[str]:
    """Write a Markdown table; its last `right` columns hold numbers."""
    left = len(header) - right
    lines = ["| " + " | ".join(header) + " |"]
    lines.append("|" + "---|" * left + "--:|" * right)
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _words(text: str) -> str:
    return " ".join(text.split())


def _plain(text: str) -> str:
    """Escape Markdown syntax, because records may come from any file."""
    return re.sub(r"([\\`*|\[\]]|<(?=[/!?a-zA-Z]))", r"\\\1", _words(text))


def _code(text: str) -> str:
    return f"`{_words(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def _columns(record: Record, column: str, vintages: Sequence[str] = ()) -> str:
    """Return the name of a column in some or all vintages."""
    chosen = [record.vintages[name] for name in vintages or record.vintages]
    return " or ".join(dict.fromkeys(_code(vintage.column(column)) for vintage in chosen))


def _is_address(text: str | None) -> bool:
    return bool(re.fullmatch(r"https?://[^\s<>]+", text or ""))


def _asked(universe: Sequence[Universe]) -> str:
    """Describe a restriction: ``AGEP 18-79 and ESR 1, 2, 4, 5``."""
    parts = []
    for item in universe:
        codes = [f"{low:g}" if low == high else f"{low:g}-{high:g}" for low, high in item.codes]
        parts.append(f"{item.column} {', '.join(codes)}")
    return " and ".join(parts)


def _source(record: Record) -> list[str]:
    design = record.design
    weights = [_columns(record, column) for column in design.weight]
    named = (("strata", design.strata), ("PSU", design.psu))
    units = [f"{what} {_code(column)}" for what, column in named if column]
    sampling = [
        f"weight {' or '.join(weights)}" if weights else "no weight",
        *([", ".join(units)] if units else []),
        *([f"sampled unit {_code(design.unit)}"] if design.unit else []),
        *([f"replicate weights `{design.replicates}` where present"] if design.replicates else []),
    ]
    if any(vintage.tables for vintage in record.vintages.values()) and not design.weight:
        sampling = ["published tables, taken as they are"]
    lines = [
        f"- **Publisher**: {_plain(record.publisher)}"
        + (f", <{record.homepage}>" if _is_address(record.homepage) else ""),
        f"- **Licence**: {_plain(record.licence)}",
        f"- **Cite**: {_plain(record.citation)}",
        f"- **Who is asked about**: {_plain(record.people)}",
        f"- **Design**: {'; '.join(sampling)}",
    ]
    if record.universe:
        lines.append(f"- **Universe**: {_asked(record.universe)}")
    return lines


def _files(vintage: Vintage) -> str:
    names = [(_plain(file.name), file.url) for file in vintage.files]
    files = ", ".join(f"[{name}]({url})" if url else name for name, url in names)
    return f"{files} ([page]({vintage.page}))" if _is_address(vintage.page) else files


def _vintages(record: Record, shipped: dict[str, Any]) -> list[str]:
    official = "" if record.survey in own_surveys() else record.official
    rows = [
        [
            f"`{name}`" + (" (official)" if name == official else ""),
            _files(vintage),
            f"{vintage.rows:,}" if vintage.rows else "",
            str(len(shipped[name]["tasks"])) if name in shipped else "",
        ]
        for name, vintage in record.vintages.items()
    ]
    return _table(["vintage", "files", "records", "tasks that ship"], rows, right=2)


def _number(value: float) -> str:
    return "" if value != value else f"{value:.4f}"


def _truth(record: Record, name: str, truth: dict[str, Any]) -> list[str]:
    """Describe one shipped vintage: input, adjustments, drops, and a line per task."""
    vintage = record.vintages[name]
    weight = f", weight `{truth['weight']}`" if truth["weight"] else ""
    what = "rows" if vintage.tables else "records"
    lines = [f"## Shipped: {name}", "", f"{truth['rows']:,} {what}{weight}."]
    if vintage.note:
        lines[-1] += f" {_words(vintage.note)}"
    for rule in vintage.adjustments:
        concerned = rule.outcomes if rule.method == "rake" else ()
        tasks = f" (tasks on {', '.join(concerned)})" if concerned else ""
        lines += ["", f"**Adjustment**, {rule.method}{tasks}: {_words(rule.reason)}"]
    dropped: dict[str, list[str]] = {}
    rows, absent = [], []
    for task, entry in truth["tasks"].items():
        shipped = store.load(task, name)
        anchors = scoring.Anchors.of(shipped)
        others = [
            shipped.d_perfect(scheme=scheme) if scheme in shipped.distances else float("nan")
            for scheme in OTHERS
        ]
        mean = float(scoring.scale(anchors.mean, anchors.zero, anchors.perfect))
        rows.append(
            [
                f"`{task}`",
                f"{len(shipped.weights):,}",
                f"{entry['records']:,}" if entry["records"] else "",
                *map(_number, (*anchors[:4], *others)),
                f"{mean:.1f}" + (f" ({anchors.said})" if anchors.said else ""),
            ]
        )
        lost = ", ".join(f"{reason}: {count:,}" for reason, count in entry["dropped"].items())
        if lost:
            dropped.setdefault(lost, []).append(task)
        if entry["absent"]:
            absent.append(f"- `{task}`: {', '.join(entry['absent'])}")
    header = ["task", "cells", "n", "D_uniform", "D_zero_one", "D_mean", "D_perfect"]
    header += [*OTHERS.values(), "score of mean"]
    lines += ["", *_table(header, rows, right=9)]
    if dropped:
        lines += ["", f"Left out ({what}, by reason; each counted once, in this order):", ""]
        lines += [
            f"- {lost}: {few([f'`{task}`' for task in tasks])}" for lost, tasks in dropped.items()
        ]
    if absent:
        lines += ["", "Conditions that no record has:", "", *absent]
    return lines


def _variables(record: Record) -> list[str]:
    rows = []
    for name, ways in record.variables.items():
        for way in ways:
            labels = [level.label for level in way.levels]
            if len(labels) > 12:
                labels = [*labels[:5], "...", *labels[-2:]]
            column = _columns(record, way.column, way.vintages)
            column += f" ({', '.join(way.vintages)})" if way.vintages else ""
            levels = _plain("; ".join(labels))
            rows.append([name, column, str(len(way.levels)), levels, _plain(way.question or "")])
    return _table(["variable", "column", "levels", "labels", "asked"], rows)


def _waiting(record: Record, tasks: Sequence[Task]) -> list[str]:
    files = _files(record.vintages[record.official])
    build = f"`epidemia groundtruth build {record.survey} --raw FILE`"
    if record.survey in own_surveys():
        lines = ["## Tasks", "", f"{plural(len(tasks), 'task')}, which {build} makes from {files}:"]
    else:
        wait, them = ("waits", "it") if len(tasks) == 1 else ("wait", "them")
        waiting = (
            f"{plural(len(tasks), 'task')} {wait} for {files}; then {build} makes {them} available:"
        )
        lines = ["## Not shipped", "", waiting]
    return [*lines, "", *(f"- `{task.name}`" for task in tasks)]


def card(record: Record) -> str:
    """Write the data card of a survey.

    Parameters
    ----------
    record : Record

    Returns
    -------
    str
        Markdown: source, design, vintages, drops and adjustments, variables, tasks with their
        anchors; only for shipped truths.
    """
    base, shipped = paths.shipped_groundtruth(), dict[str, dict[str, Any]]()
    for truth in (
        truth
        for folder in store.folders(base)
        for truth in store.read_registry(folder).values()
        # A record in the place of a shipped one need not know the tasks of that one's truth.
        if truth["survey"] == record.survey and record.replaces is None
    ):
        known = shipped.setdefault(truth["vintage"], {**truth, "tasks": {}})
        known["tasks"] |= truth["tasks"]
    available = {task for truth in shipped.values() for task in truth["tasks"]}
    waiting = [task for task in record.all_tasks if task.name not in available]
    lines = [
        f"# {_plain(record.title)}",
        "",
        f"<!-- Generated: epidemia survey card {record.survey} --out docs/surveys -->",
        "",
        *_source(record),
        "",
        *_vintages(record, shipped),
    ]
    for name in record.vintages:
        if name in shipped:
            lines += ["", *_truth(record, name, shipped[name])]
    if waiting:
        lines += ["", *_waiting(record, waiting)]
    lines += ["", "## Variables", "", *_variables(record)]
    return "\n".join(lines) + "\n"
