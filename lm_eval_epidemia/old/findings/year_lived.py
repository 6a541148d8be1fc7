"""The year a model lives in: the years that its answers fit, to questions without a year.

From the samples of `epidemia_years_undated`, with known respondents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import UNDATED
from lm_eval_epidemia.benchmarks.observation import undated
from lm_eval_epidemia.benchmarks.observation.lived import Lived, course_of, lived, log_ratios
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.old.findings.answered import required
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Row
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.protocol import printable
from lm_eval_epidemia.results.samples import answers_in, said_before, sample_file

#: Respondents that are known, by what they answer.
KNOWN = {"truth": "knows the latest year", "mean": "knows the average over the years"}

UNTOLD = "cannot be told"

#: Without how many years fit: the set says so.
SHOWN = ("model", "lives in", "nearest", "misfit")


class Told(NamedTuple):
    """A model's answers.

    Attributes
    ----------
    entry : Entry
    answers : dict of str to ndarray
        By task, shape (C, K).
    """

    entry: Entry
    answers: dict[str, Array]


def read(report: Report) -> tuple[list[Told], list[str]]:
    """Read the samples of questions without a year.

    Returns
    -------
    told : list of Told
    notes : list of str
        What is left out.

    Raises
    ------
    EpidemiaError
        If no run with samples was asked such questions.
    """
    told, notes = [], []
    for entry in report.runs:
        answers, missing = {}, []
        for asked in sorted(asked for asked in entry.scores if leaf(asked).benchmark is UNDATED):
            try:
                q = _answer(entry, asked)
            except EpidemiaError as error:
                notes.append(printable(f"{entry.name}: {error}"))
                continue
            if q is None:
                missing.append(asked.task)
            else:
                answers[asked.task] = q
        if missing:
            notes.append(
                printable(f"{entry.name}: no samples of {few(missing)}, or not for every prompt")
            )
        if answers:
            told.append(Told(entry, answers))
    return required(told, "find a year for", undated.GROUP, notes), notes


def _answer(entry: Entry, asked: Asked) -> Array | None:
    path = sample_file(entry.scores[asked].source, asked)
    answers = answers_in(path, asked) if path else []
    with said_before():
        return undated.elicited(answers) if answers else None


def lived_by(answers: dict[str, Array]) -> Lived:
    """Return the years that answers fit, from answers by task."""
    course = course_of([undated.load(task).series for task in answers])
    return lived(course, np.concatenate([log_ratios(q) for q in answers.values()]))


def _everybody(told: Sequence[Told]) -> Iterator[tuple[Entry | None, str, Lived]]:
    """Yield models, then known respondents on every task that some model was asked."""
    for entry, answers in told:
        yield entry, "", lived_by(answers)
    asked = sorted({task for each in told for task in each.answers})
    for kind, who in KNOWN.items() if asked else ():
        yield None, who, lived_by({t: undated.answers(undated.load(t), kind) for t in asked})


NOTE = (
    "Lives in: the years whose truth the answers fit (95 %), given the survey's sampling error "
    "and the misfit: the standard deviation of the answers' log-probabilities around the truth of "
    "the nearest year. No year is named if more than half of the years fit, or if fewer than "
    "three outcomes changed. Someone who knows only the average over the years seems to live in "
    "the middle. --effects, csv and json have every year."
)


def findings(told: Sequence[Told]) -> list[Finding]:
    """Return the table of models and the longer one of single years."""
    rows, by_year = [], []
    for entry, who, result in _everybody(told):
        named: dict[str, Cell] = {} if entry else {"model": f"{who} (baseline)"}
        facts: dict[str, object] = {} if entry else {"model": who, "reference": True}
        cells: dict[str, Cell] = {
            "lives in": f"{UNTOLD}: {result.untold}" if result.untold else result.stretches,
            "nearest": float(result.best),
            "years": int(result.fits.sum()),
            "misfit": result.misfit,
        }
        facts["told"] = not result.untold
        rows.append(Row(named | cells, entry, undated.GROUP, undated.GROUP, facts))
        apart = result.distances - result.distances.min()
        for year, more, fits in zip(result.course.years, apart, result.fits, strict=True):
            single: dict[str, Cell] = {"year": str(year), "apart": float(more)}
            single["fits"] = "yes" if fits else "no"
            by_year.append(Row(named | single, entry, undated.GROUP, str(year), facts, long=True))
    columns = (
        *map(Column, ("model", "lives in")),
        Column("nearest", "nearest year", 0, form="plain"),
        Column("years", "years that fit"),
        Column("misfit", "misfit", 2, form="plain"),
    )
    of_year = (
        *map(Column, ("model", "year")),
        Column("apart", "further off than the nearest year", 1, form="plain"),
        Column("fits"),
    )
    says = "Further off: the difference in squared distance, in units of its error."
    return [
        Finding("year lived", "The year a model lives in", columns, rows, NOTE, 1, SHOWN),
        Finding("year fits", "Which years fit", of_year, by_year, says, 2),
    ]
