"""The static site: pages and data that open from the file system, without a server or a network."""

from __future__ import annotations

import importlib.resources
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import itables
import jinja2
import vl_convert
from markdown_it import MarkdownIt
from markupsafe import Markup

from lm_eval_epidemia.core import folders
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.findings import (
    calibration,
    data,
    effects,
    explorer,
    interventions,
    method,
    overview,
    probe,
    quantities,
    scales,
    standardised,
    surveys,
    tilt,
    tuning,
    tuning_rows,
    tuning_tables,
)
from lm_eval_epidemia.findings.answered import Samples, by_group, read_samples
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.reference import not_known
from lm_eval_epidemia.report import charts, figures, palette
from lm_eval_epidemia.report.cards import card
from lm_eval_epidemia.report.drawn import drawing
from lm_eval_epidemia.report.output import details, of_priors, printed_of
from lm_eval_epidemia.report.sections import Section, as_script, plain, printed
from lm_eval_epidemia.surveys.catalogue import records

#: Lies in sites of version 0.1.0, which has no list of what it wrote.
MARKER = ".epidemia-site"

PAGES = (
    ("index.html", "Leaderboard"),
    ("method.html", "Method"),
    ("explorer.html", "Explorer"),
    ("interventions.html", "Interventions"),
    ("priors.html", "Priors"),
    ("quantities.html", "Quantities"),
    ("figures.html", "Figures"),
    ("calibration.html", "Calibration"),
    ("implied.html", "Implied effects"),
    ("surveys.html", "Surveys"),
)

#: Stands before the page of figures, where a tuned model and its base are among the results.
TUNED = ("tuning.html", "Fine-tuning")


class _PageRow(NamedTuple):
    cells: list[str]
    kind: str = ""


def build_site(report: Report, out: Path, cutoffs: Sequence[probe.Cutoff] = ()) -> Path:
    """Write the site.

    Parameters
    ----------
    report : Report
    cutoffs : sequence of Cutoff
        When the training of models ended, for the probe of vintages.
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
        samples, notes = read_samples(report)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        notes = [*report.notes, *notes, *not_known(report.runs)]
        _write(temporary, report, samples, notes, cutoffs)
    return out / PAGES[0][0]


def _write(
    folder: Path,
    report: Report,
    samples: Samples,
    notes: list[str],
    cutoffs: Sequence[probe.Cutoff],
) -> None:
    _assets(folder / "assets")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lm_eval_epidemia.report", "web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["sort_key"] = sort_key
    environment.filters["drawing"] = lambda graph, *how: Markup(drawing(graph, *how))
    environment.policies["json.dumps_function"] = lambda value, **_: as_script(value)
    pairs, pages = [run for run in report.tuned if run.base], list(PAGES)
    if pairs:
        pages.insert([name for name, _ in PAGES].index("figures.html"), TUNED)
    environment.globals |= {"version": __version__, "runs": len(report.runs), "pages": pages}

    def page(name: str, template: str = "", **values: Any) -> None:
        text = environment.get_template(template or name).render(page=name, **values)
        (folder / name).write_text(text, encoding="utf-8")

    shown_in = folder / "data"
    shown_in.mkdir()

    def write(file: str, name: str, values: Any) -> None:
        text = f"epidemia.receive({json.dumps(name)},{as_script(values)});\n"
        (shown_in / f"{file}.js").write_text(text, encoding="utf-8")

    page("index.html", **_index(report, notes, cutoffs))
    curves = _specifications("curve", "distribution", "bootstrap")
    beside = dict.fromkeys(("well", "badly"), curves["curve"])
    page("method.html", **method.shown(report, samples), figures={**curves, **beside})
    in_task = _specifications("distribution", "curve", "cells")
    page("explorer.html", **explorer.shown(report, samples, write), figures=in_task)
    of_effects = printed_of(interventions.findings(report.runs), long=True)
    large = _rows_of(printed(effects.by_size(report.runs)))
    sections = list(map(_rows_of, of_effects))
    page("interventions.html", **effects.shown(report.runs), large=large, sections=sections)
    page("priors.html", **_priors(report))
    stated = charts.specification(charts.STATED)
    page("quantities.html", **quantities.shown(report, write), figure=stated)
    page("figures.html", **_figures(report, SHOWN))
    if pairs:
        page(TUNED[0], **_tuning(report, samples))
    page("surveys.html", surveys=surveys.shown(), kinds=surveys.KINDS)
    page("calibration.html", **_calibration(report, samples))
    implied = standardised.implied(report, samples)
    page(
        "implied.html",
        models=printed(standardised.finding(implied)) if implied else None,
        surveys=printed(standardised.finding(standardised.of_surveys())),
    )
    for name, survey in records().items():
        page(
            f"survey-{name}.html",
            "survey.html",
            title=survey.title,
            surveys=list(records()),
            card=Markup(_rendered(card(survey))),
        )


def _rendered(markdown: str) -> str:
    """Render a data card, without the note on how its file is made."""
    text = re.sub(r"<!--.*?-->", "", markdown)
    return MarkdownIt("commonmark", {"html": False}).enable("table").render(text)


@lru_cache(maxsize=1)
def _vega() -> str:
    """Bundle the library of the charts: seconds, and the same for every site."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _assets(folder: Path) -> None:
    """Write what all pages share: our own sheets and scripts, and two libraries."""
    folder.mkdir()
    web = importlib.resources.files(__package__) / "web"
    for name in ("site.css", "site.js", "explorer.js", "calibration.js", "quantities.js"):
        (folder / name).write_bytes((web / name).read_bytes())
    (folder / "vega.js").write_text(_vega(), encoding="utf-8")
    tables = importlib.resources.files(itables) / "html"
    (folder / "datatables.css").write_bytes((tables / "dt_bundle.css").read_bytes())
    module = json.dumps((tables / "dt_bundle.js").read_text(encoding="utf-8"))
    (folder / "datatables.js").write_text(f"window.dataTablesModule = {module};", encoding="utf-8")


def sort_key(text: str) -> str:
    """Return what a displayed number is sorted by: the number itself; blanks come last, as -1e9."""
    number_read = re.match(r"[+-]?\d[\d,]*(\.\d+)?([eE][+-]?\d+)?", text.strip())
    if number_read is None:
        return "-1e9"
    number = float(number_read.group().replace(",", ""))
    unit = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text.strip()[number_read.end() :][:1], 1.0)
    return repr(number * unit)


def _index(report: Report, notes: list[str], cutoffs: Sequence[probe.Cutoff]) -> dict[str, Any]:
    published, rows = _published(report), data.leaderboard_rows(report)
    boards, intro = [], []
    for benchmark, finding in overview.leaderboards(report).items():
        section = printed(overview.with_baselines(report, finding))
        here = [row for row in rows if row["group"] in section.columns]
        caption = "Points are means over the tasks of a group, lines 1.96 standard errors"
        caption += CAPTIONS.get(benchmark.name, ".")
        figure = _drawn(section.title, caption, charts.leaderboard, here)
        shown = _rows_of(section, published)
        boards.append({**shown, "figure": figure})
        intro += [Markup(INTRO[benchmark.name])] if benchmark.name in INTRO else []
    probed = probe.findings(probe.probed(report, cutoffs))
    tables = [*details(report), *map(printed, probed)]
    return {
        "boards": boards,
        "sections": [_rows_of(section, published) for section in tables],
        "notes": notes,
        "intro": intro,
    }


#: What the first page says of a benchmark whose results it has.
INTRO = {
    "observation": "Each score says how close a model's answers come to what a survey found: 0 "
    "is no closer than an answer that knows nothing, 100 as close as another sample of the survey. "
    '<a href="method.html">How it is measured</a>; <a href="explorer.html">every task and '
    "condition</a>.",
    "quick": "A quick look predicts what a model would score in the full groups, from 500 of their "
    "prompts: not to be ranked beside full runs.",
    "intervention": "Each accuracy says how often a model knows what an intervention changes in a "
    "causal graph: 1 is always. "
    '<a href="interventions.html">Every effect, with what it asks and what was answered</a>.',
    "prior": "Each share says on how many quantities what a model expects is nearer to the truth "
    "than what 5 real answers come to: above one half is better than these. "
    '<a href="priors.html">How sure models are, and how often they are right to be</a>; '
    '<a href="quantities.html">every quantity</a>.',
}

#: What goes into the errors of its figure, and what else that shows.
CAPTIONS = {
    "observation": " (the surveys' sampling error and that of the orderings). The green mark is "
    "the respondent that knows how common each answer is, and not how it differs between people, "
    "asked what the model was asked. Diamonds: published scores of a reference implementation.",
    "quick": " (of the prediction).",
    "intervention": ", over the samples of names or graphs.",
    "prior": ", over quantities. Diamonds: published answers, judged here.",
}


#: What the page of figures shows, with what is to be said of each.
SHOWN = {
    "surveys": "Means over the tasks of each survey.",
    "conditions": "Means over the tasks with one condition, with two, and so on. Models need not "
    "have been asked the same tasks: pointing at a mark says how many.",
    "nodes": "Effects of interventions on generated graphs: half of the answers change from yes to "
    "no, a quarter stay yes, a quarter stay no.",
    "paths": "The same effects by how far V is from U before the intervention, of those whose "
    "answer is yes then. Over the graphs of all sizes, which are the clusters of the error.",
    "versions": "Every task of a base model and of its instruct version: above the line, the "
    "instruct version's value is higher. Diamonds are the means.",
    "closed": "Models that only write their answers beside models whose log-probabilities are "
    "known, over the same tasks.",
}


#: What the page of priors shows.
OF_PRIORS = {
    "wins": "The posterior is what the prior and N answers come to, against the same N answers "
    "alone. Bars are 1.96 standard errors over quantities.",
    "quartiles": "Above the dashed line in the first quarter and below it in the last, quantities "
    "are overestimated; high at both ends, priors are too narrow.",
    "uncertainty": "A mark per quantity, both relative to the error of 5 real answers. On the "
    "dashed line, the mean of the prior is as far off as its standard deviation. Below 0.01 and "
    "above 100, marks stand at the edge.",
}


def _figures(report: Report, shown: Mapping[str, str]) -> dict[str, Any]:
    drawings, missing = [], []
    for name, says in shown.items():
        figure = figures.FIGURES[name]
        try:
            rows = figure.rows(report, None)
        except EpidemiaError as error:
            missing.append(f"{figure.says}: {error}")
        else:
            drawn = _drawn(figure.says, says, charts.CHARTS[name], rows)
            drawings.append({"name": name, "title": figure.says, **drawn})
    return {"found": drawings, "missing": missing}


def _drawn(
    title: str, says: str, chart: Callable[[Any], alt.TopLevelMixin], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Draw a figure; one that cannot be drawn costs itself alone, and both page and stderr say so.

    Parameters
    ----------
    title, says : str
        What it is, and what stands below it.
    chart : callable
    rows : list of dict
    """
    try:
        return {"says": says, "svg": Markup(svg(chart(alt.Data(values=plain(rows)))))}
    except Exception as error:  # whatever rows, Altair and Vega may come to
        why = f"not drawn: {title} ({figures.in_short(error)})"
        print(f"note: {why}", file=sys.stderr)
        return {"says": why, "svg": ""}


def _priors(report: Report) -> dict[str, Any]:
    sections = [_rows_of(table, _published(report)) for table in of_priors(report, long=True)]
    return {**_figures(report, OF_PRIORS), "sections": sections}


def _specifications(*names: str) -> dict[str, Any]:
    return {name: charts.specification(name) for name in names}


#: What the page of fine-tuning shows.
OF_TUNING = {
    "tuning": "A line per task, from the hollow mark (before) to the filled one (after).",
    "losses": "The training loss may go on falling when that of the validation rows rises again.",
    "learning": "Over the tasks that all of these models were asked.",
}


def _tuning(report: Report, samples: Samples) -> dict[str, Any]:
    study = tuning.study(report, samples)
    findings = [*tuning_tables.tables(study, long=True), *tuning_rows.learning_table(report)]
    return {
        **_figures(report, OF_TUNING),
        "sections": [_rows_of(printed(finding)) for finding in findings],
        "notes": tuning.lacking(report, samples),
    }


def _published(report: Report) -> set[str]:
    return {entry.name for entry in report.entries if entry.reference}


def _rows_of(section: Section, published: Collection[str] = ()) -> dict[str, Any]:
    """Return a table as pages have it: rows say whether they are the baseline's, or published."""

    def kind(name: str) -> str:
        return (
            "baseline" if name.startswith(overview.BASELINE) else "reference" * (name in published)
        )

    return {**section._asdict(), "rows": [_PageRow(row, kind(row[0])) for row in section.rows]}


#: Stands for the colour of the page's text while a figure is drawn.
_INK = "#010203"


def svg(chart: alt.TopLevelMixin) -> str:
    """Draw a figure whose text takes the colour of the page around it."""
    ink = {"labelColor": _INK, "titleColor": _INK}
    config = {
        "background": "transparent",
        "axis": {**ink, "gridColor": "#88888855", "domainColor": "#888888"},
        "legend": ink,
        "header": ink,
        "view": {"stroke": "#88888855"},
    }
    specification = {**chart.to_dict(), "config": config}
    drawn = str(vl_convert.vegalite_to_svg(json.dumps(specification)))
    # The last colour of the palette would not be seen on a dark page.
    return drawn.replace(_INK, "currentColor").replace(palette.BLACK, "currentColor")


#: What stands below the figure of calibration lines.
TILT = "A mark per model, with 1.96 standard errors. Who knows the population stands where the "
TILT += "dashed lines cross. Below: differences are understated, or not known; above: overstated. "
TILT += "Drawn answers (_sampled) are left out."


def _calibration(report: Report, samples: Samples) -> dict[str, Any]:
    by_model = data.calibrations(report, samples)
    summary = printed(calibration.summary(report.runs, samples, by_model))
    answered = by_group(report, {key: own for key, own in samples.items() if own.counts is None})
    lines = tilt.figure_rows(answered)
    return {
        "tilt": _drawn(figures.FIGURES["tilt"].says, TILT, charts.CHARTS["tilt"], lines)
        if lines
        else None,
        "sections": [
            _rows_of(printed(table))
            for table in (tilt.finding(answered, of_tasks=False), scales.finding(answered))
            if table.rows
        ],
        "models": list(by_model),
        "summary": _rows_of(summary),
        "calibration": {name: data.rows_of_calibration(name, q) for name, q in by_model.items()},
        "order_bias": data.rows_of_order_bias(report, samples),
        "figures": _specifications("calibration", "order_bias"),
    }
