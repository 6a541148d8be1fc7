"""The first page: pictures of six questions, who knows them best, and where models are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import pandas as pd
from markupsafe import Markup

from lm_eval_epidemia.benchmarks import list_groups
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.findings.start import Panel, Question, make_start
from lm_eval_epidemia.findings.words import describe_condition, describe_outcome
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.render import cut_text
from lm_eval_epidemia.results.naming import without_kind
from lm_eval_epidemia.results.read import Results

#: Errors of so many points and more have the darkest shade.
DARKEST = 45

#: Shapes of dots.
SHAPES = {"trained on these questions": "trained", "reference": "known"}


def make_start_page(results: Results, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the contents of the page; `files` are the pages of models."""
    start = make_start(results)
    drawn = {run for of in start.questions for run in of.answers}
    order = [run for run in start.compared if run in drawn] or sorted(drawn)
    best, middle = order[:1], order[len(order) // 2 : len(order) // 2 + 1] if len(order) > 2 else []
    names = {run: without_kind(results.runs["model"][run]) for run in {*order, *start.compared}}
    who = dict.fromkeys(middle, "middle") | dict.fromkeys(best, "best")
    return {
        "sentences": start.sentences,
        "missing": start.missing,
        "names": names,
        "best": best[0] if best else None,
        "middle": middle[0] if middle else None,
        "order": order,
        "tiles": [_make_tile(of, who, names, results.runs["name"]) for of in start.questions],
        "panels": [_make_board(panel, files, {*best}, {*middle}) for panel in start.panels],
        "topics": [
            {"name": outcome, "title": describe_outcome(outcome), "cells": [*map(_shade, row)]}
            for outcome, row in zip(start.topics.index, start.topics.to_numpy(), strict=True)
        ],
        "compared": [names[run] for run in start.compared],
        "compared_runs": start.compared,
    }


def _shade(error: float) -> dict[str, Any]:
    """Return how a cell of the heat strip looks: its number, and how strong its colour is."""
    if pd.isna(error):
        return {"text": "", "strength": 0}
    return {"text": f"{error:.0f}", "strength": round(8 + 72 * min(error / DARKEST, 1))}


def _make_tile(
    of: Question, who: Mapping[int, str], names: Mapping[int, str], run_names: pd.Series
) -> dict[str, Any]:
    """Draw a question, and say of each model where it is most wrong."""
    cells, runs = of.cells, [run for run in names if run in of.answers]
    runs = [run for run in runs if run not in who] + [run for run in who if run in of.answers]
    shown = [run for run in who if run in of.answers]
    said = {"survey": cells["truth"], **{names[run]: of.answers[run] for run in reversed(shown)}}
    told = pd.DataFrame(said | {"average": cells["average"]}).map("{:.0%}".format)
    given = [_name(of.condition, value) for value in cells["given"]]
    says = [
        f"{charts.SAID}{where}: " + ", ".join(f"{name} {p}" for name, p in row.items())
        for where, row in zip(given, told.to_dict("records"), strict=True)
    ]
    answers = pd.concat(
        pd.DataFrame({"given": cells["given"], "run": run, "who": who.get(run, ""), "value": q})
        for run, q in of.answers.items()
    )
    worst = {run: int(abs(q - cells["truth"]).argmax()) for run, q in of.answers.items()}
    lines = {
        run: [
            f"{given[at]}: survey {cells['truth'][at]:.0%}, ",
            f"{cut_text(names[run], 30)} {of.answers[run][at]:.0%}",
        ]
        for run, at in worst.items()
    }
    best = next((run for run, how in who.items() if how == "best" and run in worst), runs[0])
    address = {"task": of.task, "model": run_names[best], "cell": worst[best]}
    title = f"{of.title}: {''.join(lines[best])}"
    return {
        "title": of.title,
        "answer": of.answer,
        "href": f"task.html#{urlencode(address)}",
        "svg": Markup(
            charts.to_page_svg(charts.draw_small(cells.assign(says=says), answers), title)
        ),
        "runs": [*of.answers],
        "lines": {"": lines[best], **lines},
        "first": lines[best],
    }


def _name(condition: str, level: str) -> str:
    """Name a level of a condition: "Aged 65 or older"."""
    says = f"aged {level}" if describe_condition(condition) == "age" else level
    return says[0].upper() + says[1:]


def _make_board(
    panel: Panel, files: Mapping[str, str], best: set[int], middle: set[int]
) -> dict[str, Any]:
    """Return a panel as rows whose dots, intervals and ticks are in percent of the scale."""
    low, high = panel.ends
    digits = list_groups()[panel.group].digits

    def place(value: float) -> float | None:
        return None if pd.isna(value) else round(100 * (value - low) / (high - low), 2)

    rows = []
    for row in panel.rows.itertuples():
        is_ranked = row.why == "" and isinstance(row.rank, str)
        shape = SHAPES.get(row.why, "published" if row.why.startswith("published") else "")
        ends = [place(row.low), place(row.high)]
        rows.append(
            {
                "model": without_kind(row.model),
                "file": files.get(row.model, ""),
                "rank": row.rank.partition(" of ")[0] if is_ranked else "",
                "says": f"rank {row.rank}" if is_ranked and row.rank else row.why,
                "why": row.why,
                "own": row.own,
                "classes": " ".join(
                    [shape, "best" * (row.run in best), "middle" * (row.run in middle)]
                ).strip(),
                "at": place(row.value),
                "interval": ends if pd.notna(row.error) and None not in ends else None,
                "tick": place(row.averages),
                "value": f"{row.value:.{digits}f}",
                "error": "" if pd.isna(row.error) else f"± {row.error:.{digits}f}",
            }
        )
    ticks = panel.rows["averages"].dropna()
    first = rows[0]
    return {
        "title": panel.title,
        "ends": [f"{low:g}", f"{high:g}"],
        "of_surveys": list_groups()[panel.group].of_surveys,
        "averages": place(ticks.median()) if len(ticks) else None,
        "rows": rows,
        "says": f"{plural(len(rows), 'run')}; {first['model']} {first['value']}",
        "common": panel.common,
        "folded": panel.folded,
    }
