"""The static site: pages and data that open from the file system, without a server or a network.

Each page has a file in `pages` for its contents, and a template in `web`.
"""

from __future__ import annotations

import importlib.resources
import json
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import itables
import jinja2
import vl_convert
from markdown_it import MarkdownIt
from markupsafe import Markup

from lm_eval_epidemia.benchmarks import groups, leaves
from lm_eval_epidemia.core import folders
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.old.findings import (
    data,
    effects,
    explorer,
    interventions,
    method,
    probe,
    quantities,
    replies,
    scales,
    standardised,
    surveys,
    tilt,
)
from lm_eval_epidemia.old.findings.answered import Samples, by_group, read_samples
from lm_eval_epidemia.old.findings.rows import number
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.model_rows import parts_of, plain_names
from lm_eval_epidemia.old.findings.reference import not_known
from lm_eval_epidemia.old.findings.words import plain_name
from lm_eval_epidemia.old.report import charts
from lm_eval_epidemia.old.report.cards import card
from lm_eval_epidemia.old.report.drawn import drawing
from lm_eval_epidemia.old.report.menu import PAGES, REPLIES, TUNED, Menu, menu_of
from lm_eval_epidemia.old.report.output import printed_of
from lm_eval_epidemia.old.report.pages import figures, hierarchy, models, more, start
from lm_eval_epidemia.old.report.pages.figures import rows_of
from lm_eval_epidemia.old.report.sections import as_script, printed
from lm_eval_epidemia.results.models import is_respondent, models_of
from lm_eval_epidemia.surveys.catalogue import records

#: Lies in sites of version 0.1.0, which has no list of what it wrote.
MARKER = ".epidemia-site"

#: Our own sheets and scripts.
OWN = (
    "site.css",
    "site.js",
    "board.js",
    "calibration.js",
    "explorer.js",
    "quantities.js",
    "replies.js",
    "task.js",
)

#: Those of maps, where something was asked about countries.
OF_MAPS = ("map.js", "map.css")


@held()
def build_site(report: Report, out: Path, cutoffs: Sequence[probe.Cutoff] = ()) -> Path:
    """Write the site.

    Parameters
    ----------
    report : Report
    cutoffs : sequence of Cutoff
        Ends of the models' training, for the probe of vintages.
    out : Path
        A folder that does not exist, is empty, or holds a site. Its files are replaced once the new
        ones are complete, and other files are kept; see `folders.rewritten`.

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
        samples, notes = read_samples(report)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        notes = [*report.notes, *notes, *not_known(report.runs)]
        _write(temporary, report, samples, notes, cutoffs)
    return out / PAGES[0][0]


def _environment(report: Report, menu: Menu) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lm_eval_epidemia.old.report", "web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {
        "drawing": lambda graph, *how: Markup(drawing(graph, *how)),
        "plain_group": plain_name,
        "one_digit": lambda value: number(value, 1),
    }
    environment.policies["json.dumps_function"] = lambda value, **_: as_script(value)
    environment.globals |= {
        "version": __version__,
        "made_from": _made_from(report),
        "menu": menu,
    }
    return environment


def _made_from(report: Report) -> str:
    """Count files, runs and models, as on the first page."""
    models = models_of(report.runs)
    runs = [run for model in models for run in model.runs]
    files = {score.source for run in runs for score in run.scores.values()}
    counted = f"{plural(len(runs), 'run')} of {plural(len(models), 'model')}"
    return f"{counted} ({plural(len(files), 'result file')})"


def _write(
    folder: Path,
    report: Report,
    samples: Samples,
    notes: list[str],
    cutoffs: Sequence[probe.Cutoff],
) -> None:
    _assets(folder / "assets")
    pairs = [run for run in report.tuned if run.base]
    everyone, named = models_of(report.entries), _names(report)
    runs = explorer.answerers(everyone)
    written = {one.name: kept for one in runs if (kept := replies.replies_of(parts_of(one.run)))}
    implied = standardised.implied(report, samples)
    finds = more.found(report)
    listed = [(found.page.file, found.page.name) for found in finds]
    menu = menu_of(report, bool(pairs), bool(written), bool(implied), listed)
    environment = _environment(report, menu)

    def page(name: str, template: str = "", /, **values: Any) -> None:
        text = environment.get_template(template or name).render(page=name, **values)
        (folder / name).write_text(text, encoding="utf-8")

    shown_in = folder / "data"
    shown_in.mkdir()

    def write(file: str, name: str, values: Any) -> None:
        text = f"epidemia.receive({json.dumps(name)},{as_script(values)});\n"
        (shown_in / f"{file}.js").write_text(text, encoding="utf-8")

    files = models.files_of(everyone)
    page("index.html", **start.shown(report, notes, cutoffs, files, named))

    tasks = explorer.shown(report, runs, samples, write)
    # Models first: the first is beside the tasks until another is chosen.
    scored = sorted(
        (one for one in runs if one.run.scores),
        key=lambda one: (is_respondent(one.run), one.run.reference),
    )
    names = [one.name for one in scored]
    scores = {
        "models": names,
        "tasks": {
            task["name"]: [task["scores"].get(name) for name in names]
            for task in tasks["tasks"]
            if task["scores"]
        },
    }
    page("explorer.html", **tasks, names=names, scores=scores)
    in_task = _specifications("distribution", "curve", "cells")
    if mapped := tasks["mapped"]:
        in_task |= _specifications(*charts.ON_MAP)
        _map(folder / "assets")
    page("task.html", files=tasks["files"], models=files, figures=in_task, mapped=mapped)

    if written:
        of_models = {name: f"replies-{place}" for place, name in enumerate(written)}
        for name, kept in written.items():
            write(of_models[name], of_models[name], replies.as_data(kept))
        titles = {one.task: named[one.task] for kept in written.values() for one in kept.shown}
        page(REPLIES[0], files=of_models, titles=titles)

    groups = by_group(report, {key: own for key, own in samples.items() if own.counts is None})
    lines = tilt.finding(groups, of_tasks=False)
    positions = data.rows_of_order_bias(report, samples)
    for model in everyone:
        shown = models.shown(report, model, samples, lines, positions, tasks["files"])
        shown["written"] = model.name in written
        page(files[model.name], "model.html", **shown)

    curves = _specifications("curve", "distribution", "bootstrap")
    beside = dict.fromkeys(("well", "badly"), curves["curve"])
    page("hierarchy.html", **hierarchy.shown(report))
    page("method.html", **method.shown(report, samples, named), figures={**curves, **beside})
    of_effects = printed_of(interventions.findings(report.entries), long=True)
    large = rows_of(printed(effects.by_size(report.runs)), (), named)
    sections = [rows_of(section, figures.published(report), named) for section in of_effects]
    page("interventions.html", **effects.shown(report.runs), large=large, sections=sections)
    page("priors.html", **figures.priors(report, named))
    stated = charts.specification(charts.STATED)
    page("quantities.html", **quantities.shown(report, write), figure=stated)
    page("figures.html", **figures.shown(report, figures.SHOWN, named))
    if pairs:
        page(TUNED[0], **figures.tuned(report, samples, named))
    for found in finds:
        page(found.page.file, "finding.html", **more.shown(found, named))
    page("surveys.html", surveys=surveys.shown(), kinds=surveys.KINDS)
    calibrated = tilt.figure_rows(groups), (lines, scales.finding(groups)), positions
    page("calibration.html", **figures.calibrated(report, samples, *calibrated, named, write))
    page(
        "implied.html",
        models=rows_of(printed(standardised.finding(implied)), (), named) if implied else None,
        surveys=rows_of(printed(standardised.finding(standardised.of_surveys()))),
    )
    for name, survey in records().items():
        page(
            f"survey-{name}.html",
            "survey.html",
            title=survey.title,
            surveys=list(records()),
            card=Markup(_rendered(card(survey))),
        )


def _names(report: Report) -> dict[str, str]:
    """Return the names of models, groups, tasks and respondents on pages, by internal name."""
    return {
        **{name: about.entry.title for name, about in leaves().items()},
        **{group: plain_name(group) for group in groups()},
        **plain_names(report),
    }


def _specifications(*names: str) -> dict[str, Any]:
    return {name: charts.specification(name) for name in names}


def _rendered(markdown: str) -> str:
    """Render a data card, without the note about its generation."""
    text = re.sub(r"<!--.*?-->", "", markdown)
    text = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return text.replace("<table>", '<div class="wide"><table>').replace(
        "</table>", "</table></div>"
    )


@lru_cache(maxsize=1)
def _vega() -> str:
    """Bundle the chart library, which takes seconds and is the same for every site."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _own(folder: Path, names: Sequence[str]) -> None:
    web = importlib.resources.files(__package__) / "web"
    for name in names:
        (folder / name).write_bytes((web / name).read_bytes())


def _map(folder: Path) -> None:
    """Write the script of maps, and the shapes."""
    _own(folder, OF_MAPS)
    shapes = f"window.epidemia.world = {as_script(charts.world.shapes())};"
    (folder / "world.js").write_text(shapes, encoding="utf-8")


def _assets(folder: Path) -> None:
    """Write the files that all pages share: our sheets and scripts, and two libraries."""
    folder.mkdir()
    _own(folder, OWN)
    (folder / "vega.js").write_text(_vega(), encoding="utf-8")
    tables = importlib.resources.files(itables) / "html"
    (folder / "datatables.css").write_bytes((tables / "dt_bundle.css").read_bytes())
    module = json.dumps((tables / "dt_bundle.js").read_text(encoding="utf-8"))
    (folder / "datatables.js").write_text(f"window.dataTablesModule = {module};", encoding="utf-8")
