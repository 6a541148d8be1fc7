"""Data cards: one page per survey, from its record and the registry of shipped truths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import jinja2

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.surveys.catalogue import own_surveys
from lm_eval_epidemia.surveys.record import Record, Vintage
from lm_eval_epidemia.surveys.variable import Universe

#: D_perfect of other bootstraps, beside that of scores.
OTHERS: tuple[Scheme, ...] = ("design", "population")


def _join_words(text: str) -> str:
    return " ".join(text.split())


def _escape_markdown(text: str) -> str:
    """Escape Markdown syntax, because records may come from any file."""
    return re.sub(r"([\\`*|\[\]]|<(?=[/!?a-zA-Z]))", r"\\\1", _join_words(text))


def _code(text: str) -> str:
    return f"`{_join_words(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def _columns(record: Record, column: str, vintages: Sequence[str] = ()) -> str:
    """Return the name of a column in some or all vintages."""
    chosen = [record.vintages[name] for name in vintages or record.vintages]
    return " or ".join(dict.fromkeys(_code(vintage.column(column)) for vintage in chosen))


def _is_address(text: str | None) -> bool:
    return bool(re.fullmatch(r"https?://[^\s<>]+", text or ""))


def _describe_universe(universe: Sequence[Universe]) -> str:
    """Describe a restriction: ``AGEP 18-79 and ESR 1, 2, 4, 5``."""
    parts = []
    for item in universe:
        codes = [f"{low:g}" if low == high else f"{low:g}-{high:g}" for low, high in item.codes]
        parts.append(f"{item.column} {', '.join(codes)}")
    return " and ".join(parts)


def _design(record: Record) -> str:
    """Describe how people were sampled."""
    design = record.design
    if any(vintage.tables for vintage in record.vintages.values()) and not design.weight:
        return "published tables, taken as they are"
    weights = [_columns(record, column) for column in design.weight]
    named = (("strata", design.strata), ("PSU", design.psu))
    units = [f"{what} {_code(column)}" for what, column in named if column]
    parts = [f"weight {' or '.join(weights)}" if weights else "no weight", ", ".join(units)]
    parts += [f"sampled unit {_code(design.unit)}"] if design.unit else []
    parts += [f"replicate weights `{design.replicates}` where present"] if design.replicates else []
    return "; ".join(filter(None, parts))


def _files(vintage: Vintage) -> str:
    names = [(_escape_markdown(file.name), file.url) for file in vintage.files]
    files = ", ".join(f"[{name}]({url})" if url else name for name, url in names)
    return f"{files} ([page]({vintage.page}))" if _is_address(vintage.page) else files


def _format_number(value: float) -> str:
    return "" if value != value else f"{value:.4f}"


def _truth(record: Record, name: str, truth: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of one shipped vintage: input, adjustments, drops, a row per task."""
    vintage, entries = record.vintages[name], truth["tasks"]
    dropped: dict[str, list[str]] = {}
    rows = []
    for task, entry in entries.items():
        shipped = store.load_truth(task, name)
        anchors = scoring.Anchors.of(shipped)
        others = [
            shipped.d_perfect(scheme=scheme) if scheme in shipped.distances else float("nan")
            for scheme in OTHERS
        ]
        mean = float(scoring.scale_distance(anchors.mean, anchors.zero, anchors.perfect))
        rows.append(
            [
                *(f"`{task}`", f"{len(shipped.weights):,}"),
                f"{entry['records']:,}" if entry["records"] else "",
                *map(_format_number, (*anchors[:4], *others)),
                f"{mean:.1f}" + (f" ({anchors.said})" if anchors.said else ""),
            ]
        )
        if lost := ", ".join(f"{why}: {count:,}" for why, count in entry["dropped"].items()):
            dropped.setdefault(lost, []).append(f"`{task}`")
    return {
        **{"rows": truth["rows"], "weight": truth["weight"], "tasks": rows},
        "what": "rows" if vintage.tables else "records",
        "note": _join_words(vintage.note or ""),
        "rules": [
            (rule, ", ".join(rule.outcomes if rule.method == "rake" else ()))
            for rule in vintage.adjustments
        ],
        "dropped": {lost: few(tasks) for lost, tasks in dropped.items()},
        "absent": {task: entry["absent"] for task, entry in entries.items() if entry["absent"]},
    }


def _variables(record: Record) -> Iterator[list[str]]:
    for name, ways in record.variables.items():
        for way in ways:
            labels = [level.label for level in way.levels]
            if len(labels) > 12:
                labels = [*labels[:5], "...", *labels[-2:]]
            column = _columns(record, way.column, way.vintages)
            column += f" ({', '.join(way.vintages)})" if way.vintages else ""
            levels = _escape_markdown("; ".join(labels))
            yield [name, column, str(len(way.levels)), levels, _escape_markdown(way.question or "")]


def render_card(record: Record) -> str:
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
    waiting = [task.name for task in record.all_tasks if task.name not in available]
    is_own = record.survey in own_surveys()
    environment = jinja2.Environment(
        trim_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {"plain": _escape_markdown, "words": _join_words, "files": _files}
    environment.filters["address"] = _is_address
    return environment.from_string((files(__package__) / "card.md").read_text("utf-8")).render(
        record=record,
        design=_design(record),
        universe=_describe_universe(record.universe),
        official="" if is_own else record.official,
        shipped={n: _truth(record, n, shipped[n]) for n in record.vintages if n in shipped},
        waiting=waiting,
        is_own=is_own,
        number=plural(len(waiting), "task"),
        build=f"`epidemia groundtruth build {record.survey} --raw FILE`",
        needs=_files(record.vintages[record.official]),
        variables=_variables(record),
    )
