"""Data cards: one page per survey, from its record and the registry of what ships."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lm_eval_epidemia import paths
from lm_eval_epidemia.errors import few
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.surveys.record import Record, Task, Universe, Vintage

__all__ = ["card"]


#: D_perfect of other bootstraps, beside that of scores.
OTHERS: dict[Scheme, str] = {
    "design": "D_perfect, design", "population": "D_perfect, another survey"
}  # fmt: skip


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> list[str]:
    """Write a Markdown table; its last `right` columns hold numbers."""
    left = len(header) - right
    lines = ["| " + " | ".join(header) + " |"]
    lines.append("|" + "---|" * left + "--:|" * right)
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _words(text: str) -> str:
    return " ".join(text.split())


def _asked(universe: Sequence[Universe]) -> str:
    """Say a restriction: ``AGEP 18-79 and ESR 1, 2, 4, 5``."""
    said = []
    for item in universe:
        codes = [f"{low:g}" if low == high else f"{low:g}-{high:g}" for low, high in item.codes]
        said.append(f"{item.column} {', '.join(codes)}")
    return " and ".join(said)


def _source(record: Record) -> list[str]:
    design = record.design
    sampling = [
        f"weight {' or '.join(f'`{c}`' for c in design.weight)}" if design.weight else "no weight",
        *([f"strata `{design.strata}`, PSU `{design.psu}`"] if design.strata else []),
        *([f"sampled unit `{design.unit}`"] if design.unit else []),
        *([f"replicate weights `{design.replicates}` where present"] if design.replicates else []),
    ]
    if any(vintage.tables for vintage in record.vintages.values()) and not design.weight:
        sampling = ["published tables, taken as they are"]
    lines = [
        f"- **Publisher**: {record.publisher}, <{record.homepage}>",
        f"- **Licence**: {_words(record.licence)}",
        f"- **Cite**: {_words(record.citation)}",
        f"- **Who is asked about**: {record.subject}",
        f"- **Design**: {'; '.join(sampling)}",
    ]
    if record.universe:
        lines.append(f"- **Universe**: {_asked(record.universe)}")
    return lines


def _files(vintage: Vintage) -> str:
    files = [f"[{file.name}]({file.url})" if file.url else file.name for file in vintage.files]
    return f"{', '.join(files)} ([page]({vintage.page}))"


def _vintages(record: Record, shipped: dict[str, Any]) -> list[str]:
    rows = [
        [
            f"`{name}`" + (" (official)" if name == record.official else ""),
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
        found = store.load(task, name)
        anchors = scoring.Anchors.of(found)
        others = [
            found.d_perfect(scheme=scheme) if scheme in found.distances else float("nan")
            for scheme in OTHERS
        ]
        mean = float(scoring.scale(anchors.mean, anchors.zero, anchors.perfect))
        rows.append(
            [
                f"`{task}`",
                f"{len(found.weights):,}",
                f"{entry['records']:,}" if entry["records"] else "",
                *map(_number, (*anchors, *others)),
                f"{mean:.1f}" + (f" ({said})" if (said := anchors.said) else ""),
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
            column = f"`{way.column}`" + (f" ({', '.join(way.vintages)})" if way.vintages else "")
            rows.append([name, column, str(len(way.levels)), "; ".join(labels), way.question or ""])
    return _table(["variable", "column", "levels", "labels", "asked"], rows)


def _waiting(record: Record, tasks: Sequence[Task]) -> list[str]:
    official = record.vintages[record.official]
    return [
        "## Not shipped",
        "",
        f"{len(tasks)} tasks wait for {_files(official)}; then `epidemia groundtruth build "
        f"{record.survey} --raw FILE` makes them available:",
        "",
        *(f"- `{task.name}`" for task in tasks),
    ]


def card(record: Record) -> str:
    """Write the data card of a survey.

    Parameters
    ----------
    record : Record

    Returns
    -------
    str
        Markdown: source, design, vintages, what was dropped and adjusted, variables, tasks with
        their anchors; only about the truth that ships.
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
        f"# {record.title}",
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
