"""The pages of the site, and their names in the menu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lm_eval_epidemia.old.findings.leaderboard import Report, by_benchmark

PAGES = (
    ("index.html", "Scores"),
    ("explorer.html", "Tasks"),
    ("method.html", "Method"),
    ("hierarchy.html", "Kinds of question"),
    ("interventions.html", "Interventions"),
    ("priors.html", "Expectations"),
    ("quantities.html", "Each expectation"),
    ("figures.html", "Figures"),
    ("calibration.html", "Calibration"),
    ("implied.html", "Implied effects"),
    ("surveys.html", "Surveys"),
)

#: Before the page of figures, where a tuned model and its base are among the results.
TUNED = ("tuning.html", "Fine-tuning")

#: After the page of tasks, where models wrote replies that are among the results.
REPLIES = ("replies.html", "Replies")


class Menu(NamedTuple):
    """The pages of a site, as file and name: pages with results, and the others."""

    pages: list[tuple[str, str]]
    empty: list[tuple[str, str]]


def menu_of(
    report: Report,
    tuned: bool,
    written: bool,
    implied: bool,
    more: Sequence[tuple[str, str]] = (),
) -> Menu:
    """Return the menu of a site.

    Parameters
    ----------
    report : Report
    tuned, written, implied : bool
        Whether there are tuned models with their bases, written replies and implied effects.
    more : sequence of (str, str)
        Pages that only some results have, placed before the page of figures.
    """
    pages = list(PAGES)
    at = [name for name, _ in PAGES].index("figures.html")
    pages[at:at] = more
    if tuned:
        pages.insert(at, TUNED)
    if written:
        pages.insert(2, REPLIES)
    asked = {benchmark.name for benchmark in by_benchmark(report.columns)}
    shows = {
        "interventions.html": "intervention" in asked,
        "priors.html": "prior" in asked,
        "quantities.html": "prior" in asked,
        "implied.html": implied,
    }
    return Menu(
        [page for page in pages if shows.get(page[0], True)],
        [page for page in pages if not shows.get(page[0], True)],
    )
