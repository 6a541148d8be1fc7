"""Pages that a site has only if their tasks were asked: countries, years, people, wordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks import UNDATED
from lm_eval_epidemia.benchmarks.observation.years import YEAR
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.old.findings import people, places, wordings, world_rows, year_lived, years
from lm_eval_epidemia.old.findings.rows import Finding
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.report.figures import FIGURES
from lm_eval_epidemia.old.report.output import printed_of
from lm_eval_epidemia.old.report.pages.figures import drawn, first, rows_of
from lm_eval_epidemia.results.entry import Asked, leaf
from lm_eval_epidemia.surveys.catalogue import all_tasks

Rows = list[dict[str, Any]]


class Page(NamedTuple):
    """A page of a finding.

    Attributes
    ----------
    file, name : str
        File, and name in the menu.
    title, intro : str
    is_of : callable
        Whether the page uses a task.
    read, findings : callable
        From a report to the results from its samples, with notes; from these to tables.
    figure : str
        A key of `figures.FIGURES`; empty without a figure.
    rows : callable
        From the results and tables to the rows of the figure.
    caption : str
    """

    file: str
    name: str
    title: str
    intro: str
    is_of: Callable[[Asked], bool]
    read: Callable[[Report], tuple[Any, list[str]]]
    findings: Callable[[Any], Sequence[Finding]]
    figure: str = ""
    rows: Callable[[Any, Sequence[Finding]], Rows] = lambda made, tables: []
    caption: str = ""


def _given(asked: Asked) -> Sequence[str]:
    task = all_tasks().get(asked.task)
    return task.given if task else ()


#: In the order of the menu.
PAGES = (
    Page(
        "countries.html",
        "Countries",
        "How evenly do models know countries?",
        "The same questions about 125 countries, scored by region of the world and by income. "
        "The page of a task has its map.",
        lambda asked: "country" in _given(asked),
        places.read,
        places.findings,
        "regions",
        world_rows.of_regions,
        "Share of the probability given to wrong answers; further left is better. Means over "
        "countries and tasks, with 1.96 standard errors over countries.",
    ),
    Page(
        "years.html",
        "Years",
        "Do answers follow the years?",
        "The same question about every survey year: a model that knows change answers "
        "differently for 1985 and for 2020.",
        lambda asked: YEAR in _given(asked),
        years.read,
        years.findings,
        "years",
        lambda groups, tables: world_rows.of_years(groups),
        "For each outcome, the answer whose share changed most. Bars are 95 % intervals of "
        "the survey. By state: the mean over states.",
    ),
    Page(
        "year-lived.html",
        "Year lived",
        "In which year does a model live?",
        "These questions name no year. In which years were the answers true of the United States?",
        lambda asked: leaf(asked).benchmark is UNDATED,
        year_lived.read,
        year_lived.findings,
    ),
    Page(
        "people.html",
        "People",
        "Does a model know a country better than its people?",
        "Six shares of the US population: guesses of Americans in 2000, and answers of models.",
        lambda asked: leaf(asked).entry.group == people.GROUP,
        people.read,
        people.findings,
        "people",
        lambda groups, tables: world_rows.of_people(tables),
        "Bars: the truth. If the question leaves open which figure it means, a line leads to "
        "the second one.",
    ),
    Page(
        "wordings.html",
        "Wordings",
        "What does the wording change?",
        "The same model was asked the same questions in several wordings.",
        lambda asked: True,
        wordings.read,
        list,
    ),
)


class Shown(NamedTuple):
    """The contents of a page: its tables, and the rows of its figure."""

    page: Page
    tables: Sequence[Finding]
    rows: Rows


def found(report: Report) -> list[Shown]:
    """Return the pages that have contents."""
    pages = []
    for page in PAGES:
        part = _part(report, page.is_of)
        if not part.entries:
            continue
        try:
            made, _ = page.read(part)
        except EpidemiaError:
            continue  # no samples, which the first page says
        tables = page.findings(made)
        pages.append(Shown(page, tables, page.rows(made, tables)))
    return pages


def _part(report: Report, is_of: Callable[[Asked], bool]) -> Report:
    """Leave out tasks that the page does not use, and runs without any that it uses."""
    entries = []
    for entry in report.runs:
        if scores := {asked: score for asked, score in entry.scores.items() if is_of(asked)}:
            entries.append(replace(entry, scores=scores))
    return report._replace(entries=entries)


def shown(of: Shown, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a page's template.

    Parameters
    ----------
    of : Shown
    names : mapping of str to str
        What models, groups and tasks are called on pages, by their names.
    """
    page, rows = of.page, _named(of.rows, names)
    figure = None
    if rows:
        rows, says = first(rows, page.caption)
        title = FIGURES[page.figure].says
        figure = {"name": page.figure, "title": title, **drawn(page.figure, says, rows)}
    sections = [rows_of(table, (), names) for table in printed_of(of.tables, long=True)]
    return {"title": page.title, "intro": page.intro, "figure": figure, "sections": sections}


def _named(rows: Iterable[dict[str, Any]], names: Mapping[str, str]) -> Rows:
    of_models = ("model", "group", "who")
    return [
        {key: names.get(text, text) if key in of_models else text for key, text in row.items()}
        for row in rows
    ]
