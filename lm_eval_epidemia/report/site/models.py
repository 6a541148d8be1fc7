"""A page per model: findings, its worst and best tasks; and how its replies were read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from markupsafe import Markup

from lm_eval_epidemia.benchmarks import WAYS, in_way, list_leaves
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.findings.cells import collect_answers, curve
from lm_eval_epidemia.findings.mean import REACH, add_metrics
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.figures import CHARTS
from lm_eval_epidemia.results.choose import keep_runs
from lm_eval_epidemia.results.decode import LeafKey, leaves_of, to_printable
from lm_eval_epidemia.results.documents import decode_line
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import NOT_A_SAMPLE, sample_file
from lm_eval_epidemia.score.joint import own_errors

#: How many tasks are drawn at either end.
SHOWN = 4


def files_of(results: Results) -> dict[str, str]:
    """Return the page of every model, by its name; file names are short and plain."""
    files: dict[str, str] = {}
    for model in dict.fromkeys(results.runs["model"]):
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-.")[:60] or "model"
        taken, number = {name.lower() for name in files.values()}, 1
        while (name := f"model-{plain}{f'-{number}' if number > 1 else ''}.html").lower() in taken:
            number += 1
        files[model] = name
    return files


def make_model_page(results: Results, model: str, can_open: Mapping[str, str]) -> dict[str, Any]:
    """Return the contents of a model's page, apart from its findings."""
    own = keep_runs(results, results.runs.index[results.runs["model"] == model])
    return {
        "name": model,
        "settings": [*own.runs["settings"]],
        "published": bool((own.runs["kind"] == "published").all()),
        "ends": _ends(own, can_open),
    }


def _ends(own: Results, can_open: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a model's worst and best tasks, with their curves.

    The best tasks have the highest lower ends of their intervals, to exclude noise. Tasks asked by
    letter come first; others appear only without them.
    """
    scores = add_metrics(own.scores[own.scores["value"].notna()], ("l1",))
    scores = scores[np.array([of.benchmark.of_surveys for of in leaves_of(scores)], bool)]
    scores = scores[scores["run"] == scores["run"].mode().iloc[0]] if len(scores) else scores
    letters = scores[scores["way"] == "letters"]
    scores = letters if len(letters) else scores
    errors = pd.Series(own_errors([*scores["draws"]]), scores.index).fillna(0)
    half = min(SHOWN, len(scores) // 2)
    worst = scores.sort_values(["value", "l1"], ascending=[True, False])[:half]
    best = scores.assign(low=(scores["value"] - REACH * errors).clip(lower=0)).drop(worst.index)
    best = best.sort_values(["low", "value"], ascending=False)[:half]
    return [
        {"title": title, "tasks": [_make_task(own, row, can_open) for row in of.to_dict("records")]}
        for title, of in (("Worst tasks", worst), ("Best tasks", best))
        if len(of)
    ]


def _make_task(own: Results, row: Mapping[Any, Any], can_open: Mapping[str, str]) -> dict[str, Any]:
    """Return a task with the truth and the model's answer over its conditions."""
    name, svg = in_way(row["task"], row["way"]), ""
    entry, run = list_leaves()[name].entry, keep_runs(own, [row["run"]])
    made, _ = collect_answers(run, lambda asked: asked == (row["task"], row["way"]))
    if made and len(entry.declared.given) == 1:
        table = curve(run, name).table
        kept = table[table["kind"] != "respondent"].sort_values("rank", kind="stable")
        svg = charts.to_page_svg(charts.draw(CHARTS["curve"], kept), entry.title)
    error = f" ± {own_errors([row['draws']])[0]:.1f}" if row["draws"] else ""
    return {
        "name": name,
        "title": entry.title,
        "score": f"{row['value']:.1f}{error}",
        "svg": Markup(svg),
        "opens": name in can_open,
    }


#: How many replies of a run are kept: as many as could not be read, and of those that could be.
UNREAD, READ = 60, 30

#: Longer texts are cut, in characters.
LONGEST = 900


class _SampleLine(msgspec.Struct):
    doc: dict[str, Any]
    filtered_resps: list[Any]


def describe_answer(answer: Any, doc: dict[str, Any]) -> str:
    """Return the answer read from a reply, in words; empty if unreadable."""
    if not answer.is_read:
        return ""
    value, choices = answer.value, [str(choice) for choice in doc.get("choices", ())]
    if "family" in doc:
        family, a, b = value
        return f"{FAMILIES[int(family)]} {a:.4g}, {b:.4g}"
    if isinstance(value, tuple):
        order = answer.order or range(len(value))
        return "; ".join(
            f"{choice} {100 * value[level]:.1f} %"
            for choice, level in zip(choices, order, strict=False)
        )
    if answer.way.startswith("intervention"):
        return "yes" if value > 0 else "no"
    if answer.order:
        place = list(answer.order).index(value)
        return choices[place] if place < len(choices) else str(value)
    return f"{100 * value:.1f} %" if 0 <= value <= 1 else f"{value:g}"


def _read_replies(path: Path, asked: LeafKey) -> Iterator[dict[str, str]]:
    way = WAYS[asked.way]
    decoder = msgspec.json.Decoder(_SampleLine)
    with path.open("rb") as file:
        for text in file:
            try:
                line = decode_line(decoder, text, _SampleLine)
                answer: Any = way.read(way.of_row(line.doc), line.filtered_resps)
                value = describe_answer(answer, line.doc)
            except (*NOT_A_SAMPLE, KeyError, AttributeError, OverflowError):
                continue  # a line that lm-eval did not write
            reply = {"task": in_way(*asked), "prompt": str(line.doc.get("prompt", ""))}
            reply["reply"] = str(line.filtered_resps[0]) if line.filtered_resps else ""
            for name in ("prompt", "reply"):
                if len(reply[name]) > LONGEST:
                    reply[name] = reply[name][: LONGEST - 1] + "…"
            yield reply | {"value": to_printable(value)}


def collect_replies(results: Results) -> dict[str, dict[str, Any]]:
    """Return by model the number of its replies, of unread ones, and some: unread ones first."""
    kept: dict[str, dict[str, Any]] = {}
    scores = results.scores.assign(model=results.scores["run"].map(results.runs["model"]))
    written = scores[np.array([WAYS[way].generated for way in scores["way"]], bool)]
    for model, rows in written.groupby("model", sort=False):
        tasks = [LeafKey(*of) for of in zip(rows["task"], rows["way"], strict=True)]
        files = map(sample_file, rows["file"], tasks)
        paths = [(asked, path) for asked, path in zip(tasks, files, strict=True) if path]
        unread: list[dict[str, str]] = []
        read: list[dict[str, str]] = []
        number, lost, few = 0, 0, max(2, READ // max(1, len(paths)))
        for asked, path in paths:
            most = min(READ, len(read) + few)
            for reply in _read_replies(path, asked):
                number += 1
                lost += not reply["value"]
                of, end = (read, most) if reply["value"] else (unread, UNREAD)
                if len(of) < end:
                    of.append(reply)
        if number:
            kept[str(model)] = {"number": number, "unread": lost, "shown": [*unread, *read]}
    return kept
