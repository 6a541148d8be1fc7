"""The first page: a sentence, a figure and a table of each benchmark, models sorted by score."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from lm_eval_epidemia.benchmarks import Benchmark, groups
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.old.findings import overview, probe
from lm_eval_epidemia.old.findings.boards import share_of
from lm_eval_epidemia.old.findings.leaderboard import Report, by_benchmark
from lm_eval_epidemia.old.findings.means import answers
from lm_eval_epidemia.old.findings.model_rows import Cell, ModelRow, doubts, model_rows
from lm_eval_epidemia.old.findings.overview import as_lm_eval
from lm_eval_epidemia.old.findings.reference import KNOWS_MARGINAL
from lm_eval_epidemia.old.findings.summary import sentences_of, summary
from lm_eval_epidemia.old.findings.words import (
    CHOICE_MASS,
    EXAMPLES,
    error_of,
    plain_name,
    with_example,
)
from lm_eval_epidemia.old.report.marks import Line, Mark, strip
from lm_eval_epidemia.old.report.output import details
from lm_eval_epidemia.old.report.pages.figures import CODE, DRAWN, published, rows_of
from lm_eval_epidemia.old.report.sections import printed, with_error
from lm_eval_epidemia.results.models import is_averages

#: What the ends of a scale mean, by the benchmark whose scale it is.
ENDS = {
    "observation": (Line(0, "0: guesses"), Line(100, "100: like another sample of the survey")),
    "quick": (Line(0, "0: guesses"), Line(100, "100: like another sample of the survey")),
    "intervention": (Line(15 / 22, "ignores the intervention: 0.68"), Line(1, "1: always right")),
    "prior": (Line(0.5, "0.5: as good as 5 real answers"),),
}

#: What models are asked.
ASKS = {
    "observation": "Models are asked how common something is in groups of people, such as "
    "marijuana use at each age. Surveys give the truth.",
}

#: What a value is, with where to read on.
INTRO = {
    "observation": "Each score says how close a model's answers are to a survey: 0 is no closer "
    'than a guess, 100 as close as another sample of the survey. <a href="method.html">How we '
    "measure it</a>.",
    "quick": "A quick look predicts a model's scores in the full groups from 500 of their prompts. "
    "Do not rank it with full runs.",
    "intervention": "Each accuracy says how often a model knows what an intervention changes in a "
    'causal graph: 1 is always. <a href="interventions.html">Every effect, with questions and '
    "answers</a>.",
    "prior": "Each share says for how many quantities a model's expectation is closer to the truth "
    'than 5 real answers: above one half the model is better. <a href="priors.html">How '
    'sure models are, and how often rightly</a>; <a href="quantities.html">every '
    "quantity</a>.",
}

GREEN = "Green bar: the respondent that knows averages only (how common each answer is in the "
GREEN += "survey, not for whom), asked the same questions."

#: What hollow marks are.
HOLLOW = {
    "observation": "Hollow: published scores of a reference implementation.",
    "intervention": "Hollow: accuracies from the study.",
    "prior": "Hollow: published answers, scored here.",
}

MUTE = (
    " Models that do not answer (choice mass or share of readable replies below 0.1) are only "
    "in the table."
)

RANKS = (
    "A rank is a range that paired comparisons cannot narrow further, among runs asked in the "
    "same way."
)

#: Notes are open if they are few and short: a line each.
FEW, SHORT = 3, 200


def shown(
    report: Report,
    notes: Sequence[str],
    cutoffs: Sequence[probe.Cutoff],
    files: Mapping[str, str],
    names: Mapping[str, str],
) -> dict[str, Any]:
    """Return the contents of the first page.

    Parameters
    ----------
    report : Report
    notes : sequence of str
    cutoffs : sequence of Cutoff
    files : mapping of str to str
        The page of each model, by its name.
    names : mapping of str to str
        What models, groups and tasks are called on pages, by their names.
    """
    said = sentences(report)
    boards = [
        {**_board(report, benchmark, columns, files), "verdict": said.get(benchmark.name, "")}
        for benchmark, columns in by_benchmark(report.columns).items()
    ]
    tables = [*details(report), *map(printed, probe.findings(probe.probed(report, cutoffs)))]
    folded = {column for board in boards for column in board["folded"]}
    sections: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for table in tables:
        of_groups = CODE.findall(table.title)
        apart = bool(of_groups) and folded.issuperset(of_groups)
        sections[apart].append(rows_of(table, published(report), names))
    title = f"{_kinds(folded)}: {plural(len(sections[True]), 'table')}"
    return {
        "boards": boards,
        "sections": sections[False],
        "apart": (title[:1].upper() + title[1:], sections[True]),
        "notes": notes,
        "open_notes": len(notes) <= FEW and all(len(note) <= SHORT for note in notes),
    }


def sentences(report: Report) -> dict[str, str]:
    """Return the report's first sentences in a terminal, by benchmark."""
    boards = summary(report).boards
    return {
        board.benchmark.name: " ".join(sentences_of(board, len(boards) > 1)) for board in boards
    }


def _board(
    report: Report, benchmark: Benchmark, columns: Sequence[str], files: Mapping[str, str]
) -> dict[str, Any]:
    rows = model_rows(report, columns)
    others = list(dict.fromkeys(name for row in rows for name in row.others))
    masses = any(not math.isnan(row.choice_mass) for row in rows)
    sizes = any(row.run.parameters for row in rows)
    drawn = {column: here for column in columns if (here := _drawn(column, rows))}
    figure = [_panel(report, column, here, benchmark, files) for column, here in drawn.items()]
    left = sum(row.place == 0 for row in rows) - DRAWN
    shown = [row for row in rows if _stands(row, rows)]
    folded = [column for column in columns if not any(column in row.cells for row in shown)]
    return {
        "name": benchmark.name,
        "title": benchmark.heading,
        "intro": Markup(INTRO.get(benchmark.name, "")),
        "panels": figure,
        "asks": ASKS.get(benchmark.name, ""),
        "caption": _caption(benchmark, [(c, row) for c, here in drawn.items() for row in here])
        + (f" The best {DRAWN} models; {left} more are in the table." if left > 0 else "")
        + MUTE * any(not answers(row.run, column) for row in rows for column in row.cells),
        "words": [
            *_said_of_people(columns),
            *[f"Choice mass: {CHOICE_MASS}"] * masses,
            *doubts(rows, benchmark.digits),
            *[RANKS] * any(_rank(cell) for row in shown for cell in row.cells.values()),
            *_elsewhere(rows, shown, folded),
        ],
        "folded": folded,
        "columns": [(column, _titled(report, column)) for column in columns],
        "sizes": sizes,
        "masses": masses,
        "others": others,
        "settings": list(dict.fromkeys(chip for row in rows for chip in row.chips)),
        "rows": [
            {
                "name": row.model.name,
                "file": files.get(row.model.name, ""),
                "place": row.place or int(row not in shown),
                "more": len(row.model.runs) - 1 if row.place == 0 else 0,
                "chips": row.chips,
                "kind": _kind(row),
                "silent": row.silent,
                "cells": [
                    {
                        "text": " ".join(
                            [
                                with_error(row.cells[column].mean, f".{benchmark.digits}f"),
                                *row.cells[column].doubt.marks,
                            ]
                        )
                        if column in row.cells
                        else "",
                        "rank": _rank(row.cells[column]) if column in row.cells else "",
                        "part": _part(report, row, column),
                    }
                    for column in columns
                ],
                "size": overview.size(row.run.parameters),
                "mass": "" if math.isnan(row.choice_mass) else f"{row.choice_mass:.2f}",
                "others": [
                    as_lm_eval(row.others[name]) if name in row.others else "" for name in others
                ],
            }
            for row in rows
        ],
    }


def _said_of_people(columns: Sequence[str]) -> list[str]:
    """Describe the conditions of groups, with an example."""
    here = [group for group in EXAMPLES if any(column.startswith(group) for column in columns)]
    listed = ", ".join(map(with_example, here))
    return [f"{listed[:1].upper()}{listed[1:]}: what a question tells about the people."] * bool(
        here
    )


def _kind(row: ModelRow) -> str:
    """Return the kind of a row that is not a model which answers."""
    if row.run.reference:
        return "baseline" if row.run.model == KNOWS_MARGINAL else "reference"
    return "baseline" if is_averages(row.run) else "silent" * row.silent


def _rank(cell: Cell) -> str:
    """Return a rank; empty for a run that could have any rank."""
    places, _, of = cell.rank.partition(" of ")
    return "" if places == f"1-{of}" else cell.rank


def _titled(report: Report, column: str) -> str:
    """Name a group, with the largest number of its tasks that any run was asked."""
    return plain_name(column) + share_of(overview.most_tasks(report, column), column)


def _part(report: Report, row: ModelRow, column: str) -> str:
    """Return the number of tasks in a mean, if it differs from the largest number asked."""
    if column not in row.cells:
        return ""
    tasks, most = row.cells[column].mean.tasks, overview.most_tasks(report, column)
    return plural(tasks, "task") if tasks < most else ""


def _stands(row: ModelRow, rows: Sequence[ModelRow]) -> bool:
    """Whether a row is shown at first: a model's, or knowing averages only with the same cut."""
    if row.run.model != KNOWS_MARGINAL:
        return row.place == 0
    return any(
        other.place == 0
        and other.run.model != KNOWS_MARGINAL
        and set(row.chips) <= set(other.chips)
        and row.cells.keys() & other.cells.keys()
        for other in rows
    )


def _kinds(columns: Collection[str]) -> str:
    """Name groups by their distinction: "likelihood"."""
    return " and ".join(dict.fromkeys(plain_name(c).rpartition(", ")[2] for c in sorted(columns)))


def _elsewhere(
    rows: Sequence[ModelRow], shown: Sequence[ModelRow], folded: Sequence[str]
) -> list[str]:
    """Say which scores only hidden runs have."""
    having = [row for row in rows if row.place and any(column in row.cells for column in folded)]
    if not having:
        return []
    usual = {chip for row in shown for chip in row.chips}
    chosen = [chip for chip in having[0].chips if all(chip in row.chips for row in having)]
    where = next((f"choose “{chip}” under Settings" for chip in chosen if chip not in usual), "")
    has = "has" if len(having) == 1 else "have"
    return [
        f"{plural(len(having), 'more run')} {has} {_kinds(folded)} scores: "
        f"{where or 'unfold them in the table'}."
    ]


def _caption(benchmark: Benchmark, drawn: Sequence[tuple[str, ModelRow]]) -> str:
    """Write the caption of a figure, which also explains ± in the table."""
    known = any(not math.isnan(row.cells[column].known) for column, row in drawn)
    hollow = any(row.run.reference for _, row in drawn)
    parts = [
        "Dots: means over the tasks of a group. Bars: 95 % intervals, 1.96 standard errors to "
        f"each side ({error_of(benchmark)}). In the table, ± is one standard error."
    ]
    return " ".join([*parts, *[GREEN] * known, *[HOLLOW.get(benchmark.name, "")] * hollow])


def _drawn(column: str, rows: Sequence[ModelRow]) -> list[ModelRow]:
    """Return the rows of a figure, in the order of the table: those that answer."""
    return [
        row
        for row in rows
        if row.place == 0
        and column in row.cells
        and row.run.model != KNOWS_MARGINAL
        and answers(row.run, column)
    ][:DRAWN]


def _panel(
    report: Report,
    column: str,
    here: Sequence[ModelRow],
    benchmark: Benchmark,
    files: Mapping[str, str],
) -> dict[str, Any]:
    measure = groups()[column].measure
    values = [value for row in here for value in (row.cells[column].low, row.cells[column].high)]
    lines = ENDS.get(benchmark.name, ())
    low = measure.low if math.isfinite(measure.low) else min(values)
    high = measure.high if math.isfinite(measure.high) else max(values)
    marks = [
        Mark(
            linked(row.model.name, files),
            row.cells[column].mean.value,
            row.cells[column].low,
            row.cells[column].high,
            # Beside its own score, who knows averages only has no mark.
            None
            if is_averages(row.run) or math.isnan(row.cells[column].known)
            else row.cells[column].known,
            f"{row.cells[column].mean.value:.{benchmark.digits}f}"
            + (f" ({part})" if (part := _part(report, row, column)) else ""),
            row.run.reference,
            is_averages(row.run),
        )
        for row in here
    ]
    shown_lines = lines if not column.startswith("epidemia_intervention_") else lines[-1:]
    return {
        "name": column,
        "title": _titled(report, column),
        "drawing": strip(marks, shown_lines, low, high, benchmark.digits),
    }


def linked(name: str, files: Mapping[str, str]) -> str | Markup:
    """Return a model's name, as a link to its page if it has one."""
    if name not in files:
        return name
    return Markup('<a href="{}">{}</a>').format(files[name], name)
