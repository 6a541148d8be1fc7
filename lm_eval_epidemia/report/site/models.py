"""A page per model: what findings say of it, and its answers in its worst and best tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
from markupsafe import Markup

from lm_eval_epidemia.benchmarks import in_way, list_leaves
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.findings.cells import collect_answers
from lm_eval_epidemia.findings.mean import REACH, add_metrics
from lm_eval_epidemia.findings.task import curve
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.figures import CHARTS
from lm_eval_epidemia.results.choose import keep_runs
from lm_eval_epidemia.results.read import Results
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
    scores = scores[scores["way"].isin([*OBSERVATION.ways])]
    scores = scores[scores["run"] == scores["run"].mode().iloc[0]] if len(scores) else scores
    letters = scores[scores["way"] == "letters"]
    scores = letters if len(letters) else scores
    errors = pd.Series(own_errors([*scores["draws"]]), scores.index).fillna(0)
    half = min(SHOWN, len(scores) // 2)
    worst = scores.sort_values(["value", "l1"], ascending=[True, False])[:half]
    best = scores.assign(low=scores["value"] - REACH * errors).drop(worst.index)
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
