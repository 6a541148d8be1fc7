"""The static site: pages and data that open from the file system, without a server or a network."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import itables
import jinja2
import pandas as pd
import vl_convert
from markdown_it import MarkdownIt
from markupsafe import Markup

from lm_eval_epidemia.benchmarks import list_groups, list_leaves
from lm_eval_epidemia.core import folders
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import FINDINGS, find, quantities
from lm_eval_epidemia.findings.finding import Finding
from lm_eval_epidemia.findings.headline import make_headline
from lm_eval_epidemia.findings.interventions import examples
from lm_eval_epidemia.findings.leaderboard import leaderboard_table
from lm_eval_epidemia.findings.start import make_start
from lm_eval_epidemia.findings.words import describe_outcome, plain_name
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.cards import render_card
from lm_eval_epidemia.report.figures import CHARTS, SCRIPTED
from lm_eval_epidemia.report.render import for_people
from lm_eval_epidemia.report.site import method, models, tasks
from lm_eval_epidemia.report.site.start import make_start_page
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.surveys.catalogue import records
from lm_eval_epidemia.surveys.record import Declared

#: Lies in sites of version 0.1.0, which has no list of what it wrote.
MARKER = ".epidemia-site"

#: Our own sheets and scripts.
OWN = ("site.css", "site.js", "explorer.js", "model.js", "quantities.js", "replies.js", "task.js")

#: Those of maps, where something was asked about countries.
OF_MAPS = ("map.js", "map.css")

#: The menu, and which findings have which pages, see there.
PAGES: dict[str, Any] = read_yaml(__package__, "pages.yaml")

#: Groups of tasks, as records list them.
KINDS: tuple[Declared, ...] = ("low", "high", "extra")

#: How many models a figure of a page shows; its table has them all.
DRAWN = 24

#: Rows of a finding's page, above which details are left out.
MOST_ROWS = 1_000


def build_site(results: Results, out: Path) -> Path:
    """Write the site.

    Parameters
    ----------
    results : Results
    out : Path
        A folder that does not exist, is empty, or holds a site. Its files are replaced once the new
        ones are complete, and other files are kept; see `folders.rewrite_folder`.

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
    with folders.rewrite_folder(out, MARKER) as temporary:
        _write_pages(temporary, results)
    return out / "index.html"


def _write_pages(folder: Path, results: Results) -> None:
    files, board = models.files_of(results), leaderboard_table(results)
    start = make_start(results, board)
    colours = charts.colour_names(results.runs, [*start.pictured])
    environment = _environment(results, files, colours)
    (folder / "data").mkdir()

    def page(name: str, template: str = "", /, **values: Any) -> None:
        text = environment.get_template(template or name).render(page=name, **values)
        (folder / name).write_text(text, encoding="utf-8")

    def write(file: str, name: str, values: Any) -> None:
        text = f"epidemia.receive({json.dumps(name)},{to_script(values)});\n"
        (folder / "data" / f"{file}.js").write_text(text, encoding="utf-8")

    made = {name: find(name)(results) for name in FINDINGS}
    shown = tasks.make_tasks_page(results, write)
    mapped, can_open = shown["mapped"], shown["files"]
    _assets(folder / "assets", mapped)
    listed = {}
    for name, finding in made.items():
        if len(finding.table) and name not in PAGES["no_page"]:
            says = (find(name).__doc__ or "").splitlines()[0]
            says = "" if says == f"{finding.title}." else says
            listed[name] = f"finding-{name}.html", finding.title, says
    first, kept = make_headline(results, board=board), models.collect_replies(results)
    said, menu = {board.benchmark.name: board.sentences[0] for board in first.boards}, PAGES["menu"]
    beside = {**dict.fromkeys(("surveys", *said), True), "replies": bool(kept)}
    more = {name: of for name, of in PAGES["beside"].items() if beside.get(name)}
    people, kinds = ([listed[of] for of in PAGES[x] if of in listed] for x in ("people", "kinds"))
    kinds += [more[name] for name in said if name in more]
    missing = {"people.html": not people, "hierarchy.html": not kinds}
    environment.globals["menu"] = [of for of in menu.items() if not missing.get(of[0])]
    page("index.html", **make_start_page(results, start, files, first.sentences), listed=listed)
    page("explorer.html", **shown)
    write("scores", "scores", shown["scores"])
    in_task = tasks.specifications(mapped)
    page("task.html", files=can_open, models=files, figures=in_task, mapped=mapped)
    for name, (file, _, says) in listed.items():
        page(file, "finding.html", finding=_cut(made[name]), says=says)
    page("findings.html", title="More tables", listed=[*listed.values(), *more.values()])
    if people:
        page("people.html", "findings.html", title="People and places", listed=people)
    if kinds:
        page("hierarchy.html", said=said, listed=kinds)
    if kept:
        of_models = {name: f"replies-{place}" for place, name in enumerate(kept)}
        for name, file in of_models.items():
            write(file, file, kept[name])
        titles = {name: leaf.entry.title for name, leaf in list_leaves().items()}
        page("replies.html", files=of_models, titles=titles)
    shown_of = [_cut(made[name]) for name in PAGES["of_model"]]
    for model, file in files.items():
        parts = [replace(of, table=of.table[of.table["model"] == model]) for of in shown_of]
        of_model = models.make_model_page(results, model, can_open, made, start, colours)
        of_model |= {"parts": [of for of in parts if len(of.table)], "replies": model in kept}
        page(file, "model.html", **of_model)
    page("method.html", **method.make_method_page(results))
    if "intervention" in said:
        page("interventions.html", **examples(results))
    if "prior" in said:
        stated = quantities.make_page_data(results, write)
        page("quantities.html", **stated, figure=SCRIPTED["stated"])
    page("surveys.html", surveys=_surveys(), kinds=KINDS)
    for name, survey in records().items():
        of_survey = {"title": survey.title, "surveys": list(records())}
        page(f"survey-{name}.html", "survey.html", **of_survey, card=_rendered(render_card(survey)))


def _surveys() -> list[dict[str, Any]]:
    """Return for every survey its people, questions, and number of tasks by state."""
    places, rows = store.list_available(), []
    for name, survey in records().items():
        here = [places[task.name] for task in survey.all_tasks if task.name in places]
        official = survey.vintages[survey.official]
        outcomes = dict.fromkeys(task.outcome for task in survey.all_tasks)
        rows.append(
            {
                "name": name,
                "title": survey.title,
                "publisher": survey.publisher,
                "about": survey.people,
                "questions": [survey.variables[outcome][-1].question for outcome in outcomes],
                "counts": [len(survey.tasks.get(kind, ())) for kind in KINDS],
                "available": len(here),
                "all": len(survey.all_tasks),
                "vintages": ", ".join(dict.fromkeys(place.vintage for place in here)),
                "needs": official.needed if len(here) < len(survey.all_tasks) else "",
            }
        )
    return rows


def _environment(
    results: Results, files: Mapping[str, str], colours: Mapping[str, str]
) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lm_eval_epidemia.report", "web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"drawing": _edges, "outcome": describe_outcome}
    environment.filters["figures"] = lambda of: figures(of, colours)
    environment.globals["colours"] = colours
    environment.filters["table"] = lambda finding, linked=files: render_table(finding, linked)
    environment.policies["json.dumps_function"] = lambda value, **_: to_script(value)
    runs = results.runs[results.runs["kind"] != "published"]
    counted = f"{plural(len(runs), 'run')} of {plural(runs['model'].nunique(), 'model')}"
    environment.globals |= {
        "version": __version__,
        "made_from": f"{counted} ({plural(len(results.files), 'result file')})",
    }
    return environment


def _edges(graph: Any, intervened: str | None, _query: Any) -> str:
    """Write a graph as its edges, with those that an intervention deletes."""
    after = graph if intervened is None else graph.after(intervened)
    kept, gone = (
        ", ".join(f"{u} → {v}" for u, v in graph.edges if ((u, v) in after.edges) == is_kept)
        for is_kept in (True, False)
    )
    return f"{kept or 'no edge'} (deleted: {gone})" if gone else kept or "no edge"


def render_table(finding: Finding, files: Mapping[str, str]) -> Markup:
    """Write a finding as a sortable table; models are links to their pages."""
    whose = finding.table.reindex(columns=["kind", "settings"]).fillna("")
    settings, common = whose["settings"][whose["kind"] != "respondent"], ""
    if len(settings) > 1 and settings.nunique() == 1 and settings.iloc[0]:
        finding = replace(finding, table=finding.table.drop(columns="settings"))
        common = f'<p class="note">All runs: {escape(settings.iloc[0])}.</p>'
    shown = for_people(finding, whole=True)
    places = range(len(shown.titles))
    kinds = ["" if shown.is_text(place) else ' class="number"' for place in places]
    columns = [*zip(shown.titles, kinds, strict=True)]
    head = "".join(
        f'<th scope="col"{kind}>{escape(describe_name(title))}</th>' for title, kind in columns
    )
    rows = ""
    for row in shown.rows:
        cells = zip(row, columns, strict=True)
        texts = (f"<td{kind}>{_cell(text, title, files)}</td>" for text, (title, kind) in cells)
        rows += f"<tr>{''.join(texts)}</tr>\n"
    table = f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody>"
    wide = f'<div class="wide" tabindex="0"><table data-sortable>{table}</table></div>'
    return Markup(common + wide)


def _cell(text: str, title: str, files: Mapping[str, str]) -> str:
    if title == "model" and text in files:
        return f'<a href="{files[text]}">{escape(text)}</a>'
    return escape(describe_name(text) if title in ("group", "task") else text)


def describe_name(text: str) -> str:
    """Name a group or task in plain words, with its name."""
    if text in list_groups():
        return f"{plain_name(text)} ({text})"
    return list_leaves()[text].entry.title if text in list_leaves() else text


def _cut(finding: Finding) -> Finding:
    """Leave the details of a large table, such as the tasks of a hundred models, to csv."""
    if len(finding.table) <= MOST_ROWS:
        return finding
    if finding.details:
        kept = finding.table[finding.table[finding.details].fillna("").eq("")]
        what = f"rows by {finding.details}"
    else:
        kept, what = finding.table[:MOST_ROWS], f"rows after the first {MOST_ROWS:,}"
    left_out = f"{what}: epidemia report --show {finding.name} --format csv"
    return replace(finding, table=kept, left_out=[*finding.left_out, left_out])


def figures(finding: Finding, colours: Mapping[str, str]) -> list[dict[str, Any]]:
    """Draw the figures of a finding that have rows, with the models that were asked most."""
    drawn = []
    for chart in CHARTS.values():
        if chart.finding == finding.name and len(rows := charts.prepare_rows(chart, finding.table)):
            models, says = [*dict.fromkeys(rows["model"])], chart.says
            if len(models) > DRAWN:
                says += f"; only the first {DRAWN} of {len(models)} models, epidemia plot draws all"
            few = finding.table[finding.table["model"].isin(models[:DRAWN])]
            svg = charts.to_page_svg(charts.draw(chart, few, colours), says)
            grey = charts.find_grey(chart, few, colours)
            drawn.append({"says": says, "svg": Markup(svg), "grey": grey})
    return drawn


def to_script(value: Any) -> str:
    """Write a value for the scripts of the site; numbers that are not finite become null."""
    return json.dumps(_finite(value), allow_nan=False, separators=(",", ":"), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, pd.DataFrame):
        return _finite(value.to_dict("records"))
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _rendered(markdown: str) -> Markup:
    """Render a data card, without the note about its generation."""
    text = re.sub(r"<!--.*?-->", "", markdown)
    text = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    wide = text.replace("<table>", '<div class="wide" tabindex="0"><table>')
    return Markup(wide.replace("</table>", "</table></div>"))


@lru_cache(maxsize=1)
def _vega() -> str:
    """Bundle the chart library, which takes seconds and is the same for every site."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _assets(folder: Path, mapped: bool) -> None:
    """Write the files that all pages share: our sheets and scripts, and two libraries."""
    folder.mkdir()
    web = importlib.resources.files("lm_eval_epidemia.report") / "web"
    tables = importlib.resources.files(itables) / "html"
    module = json.dumps((tables / "dt_bundle.js").read_text(encoding="utf-8"))
    files = {name: (web / name).read_bytes() for name in (*OWN, *(OF_MAPS if mapped else ()))}
    files["datatables.css"] = (tables / "dt_bundle.css").read_bytes()
    texts = {"vega.js": _vega(), "datatables.js": f"window.dataTablesModule = {module};"}
    if mapped:
        texts["world.js"] = f"window.epidemia.world = {to_script(charts.shapes())};"
    for name, content in (files | {name: text.encode() for name, text in texts.items()}).items():
        (folder / name).write_bytes(content)
