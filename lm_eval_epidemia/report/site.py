"""The static site: pages and data that open from the file system, without a server or a network."""

from __future__ import annotations

import importlib.resources
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import itables
import jinja2
import numpy as np
import vl_convert
from markdown_it import MarkdownIt
from markupsafe import Markup
from rich.console import Console
from rich.progress import track

from lm_eval_epidemia import __version__, folders
from lm_eval_epidemia.benchmarks import leaves
from lm_eval_epidemia.elicit.orderings import MAX_ORDERINGS
from lm_eval_epidemia.elicit.prompts import prompt
from lm_eval_epidemia.elicit.ways import WAYS, in_way
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.report import charts, data
from lm_eval_epidemia.report.cards import card
from lm_eval_epidemia.report.leaderboard import Report
from lm_eval_epidemia.report.normalise import normalise
from lm_eval_epidemia.report.output import Section, details, leaderboards
from lm_eval_epidemia.report.results import Asked, Protocol, leaf
from lm_eval_epidemia.score import respondents
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.record import all_tasks, records

__all__ = ["MARKER", "build_site"]

#: Lies in sites of version 0.1.0, which has no list of what it wrote.
MARKER = ".epidemia-site"

#: The running example of the method page.
EXAMPLE, EXAMPLE_CONDITION = "epidemia_extra_nsduh_cigarettes_ever_by_age", "30-34"

PAGES = (
    ("index.html", "Leaderboard"), ("method.html", "Method"), ("explorer.html", "Explorer"),
    ("calibration.html", "Calibration"), ("survey-nsduh.html", "Data"),
)  # fmt: skip


class _Row(NamedTuple):
    cells: list[str]
    kind: str = ""


def build_site(report: Report, out: Path) -> Path:
    """Write the site.

    Parameters
    ----------
    report : Report
    out : Path
        A folder that does not exist, is empty, or holds a site: its files are replaced when the new
        ones are whole, and what is not ours is kept; see `folders.rewritten`.

    Returns
    -------
    Path
        The first page.

    Raises
    ------
    EpidemiaError
        If the folder holds other files or cannot be written.
    """
    out = out.resolve()
    with folders.rewritten(out, MARKER) as temporary:
        samples, notes = data.read_samples(report)
        _write(temporary, report, samples, [*report.notes, *notes])
    return out / PAGES[0][0]


def _write(folder: Path, report: Report, samples: data.Samples, notes: list[str]) -> None:
    _assets(folder / "assets")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lm_eval_epidemia.report", "web"),
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
    )  # fmt: skip
    environment.filters["sort_key"] = sort_key
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.globals |= {"version": __version__, "runs": len(report.runs), "pages": PAGES}

    def page(name: str, template: str = "", **values: Any) -> None:
        made = environment.get_template(template or name).render(page=name, **values)
        (folder / name).write_text(made, encoding="utf-8")

    page("index.html", **_index(report, notes))
    page("method.html", **_method(report, samples))
    page("explorer.html", **_explorer(folder / "data", report, samples))
    page("calibration.html", **_calibration(report, samples))
    for name, survey in records().items():
        page(f"survey-{name}.html", "survey.html", title=survey.title, surveys=list(records()),
             card=Markup(_rendered(card(survey))))  # fmt: skip


def _rendered(markdown: str) -> str:
    """Render a data card, without the note on how its file is made."""
    text = re.sub(r"<!--.*?-->", "", markdown)
    return MarkdownIt("commonmark", {"html": False}).enable("table").render(text)


def _assets(folder: Path) -> None:
    """Write what all pages share: our own sheets and scripts, and two libraries."""
    folder.mkdir()
    web = importlib.resources.files(__package__) / "web"
    for name in ("site.css", "site.js", "explorer.js", "calibration.js"):
        (folder / name).write_bytes((web / name).read_bytes())
    (folder / "vega.js").write_text(
        vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"), encoding="utf-8"
    )
    tables = importlib.resources.files(itables) / "html"
    (folder / "datatables.css").write_bytes((tables / "dt_bundle.css").read_bytes())
    module = json.dumps((tables / "dt_bundle.js").read_text(encoding="utf-8"))
    (folder / "datatables.js").write_text(f"window.dataTablesModule = {module};", encoding="utf-8")


def sort_key(text: str) -> str:
    """Return what a displayed number is sorted by: the number itself; blanks come last, as -1e9."""
    found = re.match(r"[+-]?\d[\d,]*(\.\d+)?([eE][+-]?\d+)?", text.strip())
    if found is None:
        return "-1e9"
    number = float(found.group().replace(",", ""))
    unit = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text.strip()[found.end() :][:1], 1.0)
    return repr(number * unit)


def _index(report: Report, notes: list[str]) -> dict[str, Any]:
    boards = [_with_baseline(section, report) for section in leaderboards(report).values()]
    shown = [*boards, *details(report)]
    references = {entry.name for entry in report.entries if entry.reference}
    rows = data.leaderboard_rows(report)
    chart = charts.leaderboard(alt.Data(values=rows))
    return {
        "sections": [
            {
                **section._asdict(),
                "rows": [_kind(row, references) for row in section.rows],
            }
            for section in shown
        ],
        "notes": notes,
        "leaderboard": Markup(svg(chart)),
    }


#: What the baseline is called where it stands among models.
BASELINE = f"{data.KNOWS_MARGINAL} (baseline)"


def _with_baseline(section: Section, report: Report) -> Section:
    """Add the respondent that knows P(Y) alone, over the tasks that somebody was asked."""
    cells = [BASELINE, ""]
    asked = {one for entry in report.runs for one in entry.scores}
    for column in (column for column in report.columns if column in section.columns):
        tasks = [one for one in sorted(asked) if leaf(one).group == column]
        cells += [number(data.mean_respondent(report, tasks), 1), ""]
    return section._replace(rows=[*section.rows, cells]) if any(cells[2:]) else section


def _kind(row: list[str], references: set[str]) -> _Row:
    kind = "baseline" if row[0] == BASELINE else "reference" if row[0] in references else ""
    return _Row(row, kind)


def number(value: float, digits: int) -> str:
    """Write a number; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.{digits}f}"


#: Stands for the colour of the page's text while a figure is drawn.
_INK = "#010203"


def svg(chart: alt.TopLevelMixin) -> str:
    """Draw a figure whose text takes the colour of the page around it."""
    ink = {"labelColor": _INK, "titleColor": _INK}
    config = {
        "background": "transparent",
        "axis": {**ink, "gridColor": "#88888855", "domainColor": "#888888"},
        "legend": ink, "header": ink, "view": {"stroke": "#88888855"},
    }  # fmt: skip
    specification = {**chart.to_dict(), "config": config}
    return str(vl_convert.vegalite_to_svg(json.dumps(specification))).replace(_INK, "currentColor")


def _method(report: Report, samples: data.Samples) -> dict[str, Any]:
    truth = store.load(EXAMPLE)
    anchors = Anchors.of(truth)
    cell = next(i for i, (label,) in enumerate(truth.given) if label == EXAMPLE_CONDITION)
    low, high = interval(truth.p, truth.n_eff)
    asked = Asked(EXAMPLE, "letters")
    # The model that stands highest and was asked it in every cell.
    best = next(
        (e for e in report.runs if e.protocol == Protocol() and (e.name, asked) in samples
         and len(samples[e.name, asked].cells) == len(truth.given)), None,
    )  # fmt: skip
    models = {best.name: samples[best.name, asked]} if best is not None else {}
    return {
        "example": {
            "condition": EXAMPLE_CONDITION,
            "truth": f"{100 * truth.p[cell, 0]:.1f} %",
            "interval": f"{100 * low[cell, 0]:.1f} % to {100 * high[cell, 0]:.1f} %",
            "n": f"{truth.n[cell]:,}",
            "question": prompt(Wording(truth).question(cell), truth.levels),
            "most": MAX_ORDERINGS,
            "replicates": len(truth.distances[truth.scheme]),
            "zero": f"{anchors.zero:.4f}",
            "perfect": f"{anchors.perfect:.4f}",
            "model": best.name if best else "",
            "distance": f"{best.scores[asked].l1:.4f}" if best else "",
            "score": f"{best.scores[asked].value:.1f}" if best else "",
        },
        "figures": {
            name: charts.specification(name) for name in ("curve", "distribution", "bootstrap")
        },
        "rows": {
            "curve": data.rows_of_curve(truth, models),
            "distribution": data.rows_of_distribution(truth, cell, models),
            "bootstrap": data.bootstrap_rows(None, EXAMPLE),
        },
    }


def _explorer(folder: Path, report: Report, samples: data.Samples) -> dict[str, Any]:
    folder.mkdir()
    places, order = store.available(), list(leaves())
    asked = sorted(
        {one for entry in report.entries for one in entry.scores},
        key=lambda one: order.index(in_way(*one)),
    )
    tasks, files = [], {}
    for one in track(asked, "Tasks", console=Console(stderr=True), transient=True):
        name, entry = in_way(*one), leaf(one).entry
        here = one.task in places
        if here:
            files[name] = name
            text = json.dumps(task_data(one, report, samples), allow_nan=False,
                              separators=(",", ":"))  # fmt: skip
            (folder / f"{name}.js").write_text(
                f"epidemia.receive({json.dumps(name)},{text});\n", encoding="utf-8"
            )
        anchors, digits = report.anchors.get(one.task), leaf(one).benchmark.digits
        scores = [(model.name, model.scores.get(one)) for model in report.entries]
        tasks.append(
            {
                "name": name, "title": entry.title, "way": one.way,
                **{kind: entry.facets.get(kind, "") for kind in ("survey", "domain", "dimension")},
                "file": here,
                "mean": number(normalise(anchors.mean, anchors, "score"), 1) if anchors else "",
                "cells": [
                    {"model": model, "text": number(score.value, digits) if score else ""}
                    for model, score in scores
                ],
            }
        )  # fmt: skip
    filters = {
        kind: sorted({str(task[kind]) for task in tasks})
        for kind in ("survey", "domain", "dimension", "way")
    }
    return {
        "tasks": tasks, "entries": report.entries, "files": files, "filters": filters,
        "figures": {n: charts.specification(n) for n in ("distribution", "curve", "cells")},
    }  # fmt: skip


def task_data(asked: Asked, report: Report, samples: data.Samples) -> dict[str, Any]:
    """Return what the explorer shows of a task: truth, questions, and every model's answers."""
    truth, task = store.load(asked.task), all_tasks()[asked.task]
    anchors = report.anchors[asked.task]
    low, high = interval(truth.p, truth.n_eff)
    way, wording, cells = WAYS[asked.way], Wording(truth), range(len(truth.given))
    heading = "The question"
    assert way.question is not None and way.answers is not None
    if way.prompts_are == "levels" and len(truth.levels) > 2:
        heading += ", asked for each answer, here for the first"
    questions = [way.question(wording, cell, 0) for cell in cells]
    # What follows the question is the same for every cell; answers stand in their natural order.
    tail = prompt("", way.answers(truth), request=way.request)
    models = []
    for entry in report.entries:
        if (score := entry.scores.get(asked)) is None:
            continue
        one = samples.get((entry.name, asked))
        everywhere = one is not None and len(one.cells) == len(truth.given)
        models.append(
            {
                "name": entry.name, "reference": entry.reference,
                **{key: _known(value) for key, value in
                   (("score", score.value), ("error", score.error), ("l1", score.l1))},
                "diagnostics": {
                    k: _known(v) for k, v in score.metrics.items() if k not in ("l1", "seen")
                },
                "cells": None if one is None or everywhere else one.cells,
                "q": None if one is None else _rounded(one.q),
            }
        )  # fmt: skip
    return {
        "name": in_way(*asked), "title": task.title, "survey": task.survey,
        "vintage": truth.vintage, "variables": task.given, "levels": truth.levels,
        "given": truth.given, "weight": _rounded(truth.weights, 7), "n": truth.n.tolist(),
        "p": _rounded(truth.p), "low": _rounded(low), "high": _rounded(high),
        "mean": _rounded(respondents.mean(truth.weights, truth.p)[0]),
        "anchors": {"D zero": anchors.zero, "D mean": anchors.mean, "D perfect": anchors.perfect},
        "heading": heading, "questions": questions, "tail": "\n" + tail, "models": models,
    }  # fmt: skip


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _rounded(values: Any, digits: int = 5) -> Any:
    return np.round(values, digits).tolist()


def _calibration(report: Report, samples: data.Samples) -> dict[str, Any]:
    found = data.calibrations(report, samples)
    summary = []
    for entry in report.runs:
        if (one := found.get(entry.name)) is None:
            continue
        gaps, weight = np.abs(one.q - one.p), one.share.sum(axis=1)
        scores = [score for asked, score in entry.scores.items() if asked.way == "letters"]
        summary.append(
            _Row(
                [entry.name, number(float(np.nansum(gaps * weight)), 4),
                 *(number(_mean(score.metrics.get(name, math.nan) for score in scores), 4)
                   for name in ("order_bias", "choice_mass")),
                 str(sum((entry.name, asked) in samples for asked in entry.scores
                         if asked.way == "letters"))]
            )
        )  # fmt: skip
    return {
        "models": list(found),
        "summary": summary,
        "calibration": {name: data.rows_of_calibration(name, one) for name, one in found.items()},
        "order_bias": data.rows_of_order_bias(report, samples),
        "figures": {n: charts.specification(n) for n in ("calibration", "order_bias")},
    }


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
