"""The report on one screen: the best model, a row per model, verdicts, and next commands."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.old.findings.boards import (
    BESIDE,
    MOST_ROWS,
    MOST_SENTENCES,
    Board,
    Verdict,
    board_of,
    share_of,
)
from lm_eval_epidemia.old.findings.leaderboard import TOGETHER, Report, by_benchmark, headline
from lm_eval_epidemia.old.findings.means import shared_tasks, too_low
from lm_eval_epidemia.old.findings.model_rows import TRAINED, ModelRow
from lm_eval_epidemia.old.findings.overview import predictions
from lm_eval_epidemia.old.findings.words import plain_name
from lm_eval_epidemia.results.entry import Entry, leaf
from lm_eval_epidemia.results.models import Model, chips, is_respondent, models_of
from lm_eval_epidemia.results.naming import Weights, without_kind

#: Names of two models, and folders, that stand in a command.
LONGEST = 44


class Summary(NamedTuple):
    """The contents of one screen: sentences, tables, and lines below them."""

    sentences: list[str]
    boards: list[Board]
    lines: list[str]


@held()
def summary(report: Report, results: Sequence[Path] = ()) -> Summary:
    """Return a report on one screen; its commands name the folders of its results."""
    parts = by_benchmark(report.columns)
    models = models_of(report.entries)
    rows = MOST_ROWS if len(parts) == 1 else max(3, 8 // max(1, len(parts)))
    boards = [board_of(report, models, of, columns, rows) for of, columns in parts.items()]
    # Where nothing has a score there is no table.
    boards = [board for board in boards if board.rows]
    return Summary(
        [sentence for board in boards for sentence in sentences_of(board, len(boards) > 1)],
        boards,
        [*_missing(report, models), *_counts(report, models, boards), _next(boards, results)],
    )


def sentences_of(board: Board, many: bool) -> list[str]:
    """State the scores of the best model, or of each of a few, with verdicts between these."""
    ours = [row for row in board.rows if not row.run.reference] or board.rows
    short = len(ours) + board.left_out <= MOST_SENTENCES and not many
    sentences = [_sentence(row, board) for row in (ours if short else ours[:1])]
    if board.verdicts and len(board.rows) <= MOST_SENTENCES:
        sentences.append(f"{'; '.join(map(_verdict, board.verdicts))} ({board.over}).")
    return sentences


def _verdict(verdict: Verdict) -> str:
    """Say which of two is better, or why they are not compared."""
    row, other = verdict.row, verdict.next
    says = f"{row.model.name} {_VERDICTS[verdict.verdict]} {other.model.name}"
    if verdict.verdict != "not compared":
        return says
    ways = [_asked_as(run, by) or "the default" for run, by in ((row, other), (other, row))]
    if ways[0] == ways[1] or not row.run.scores.keys() & other.run.scores.keys():
        return f"{row.model.name} and {other.model.name} were asked no common task"
    return f"{says} ({', not '.join(ways)})"


def _asked_as(row: ModelRow, other: ModelRow) -> str:
    """Name the prompt settings of a run that differ from another's."""
    settings = chips(Entry("", protocol=row.run.protocol))
    return ", ".join(chip for chip in settings if chip not in other.chips)


def _sentence(row: ModelRow, board: Board) -> str:
    name, run = row.model.name, row.run
    if row.silent:
        low = too_low(run, next(iter(row.cells)))
        if "answered" in low:
            share = f"only {low['answered']:.0%}" if low["answered"] else "none"
            return f"{name} does not answer: {share} of its replies can be read."
        return (
            f"{name} does not answer: its answer letters have a total probability of "
            f"{row.choice_mass:.2g}."
        )
    if board.benchmark.predicted:
        predicted = " and ".join(
            f"{_rounded(number.value)} on {group.removeprefix('predicted ')}"
            for group, number in predictions(run).items()
        )
        return f"{name}: predicted to get {predicted} of 100 in full runs."
    asked = [column for column in board.columns if column in row.cells]
    if board.benchmark is not OBSERVATION:
        says, group = board.benchmark.says, asked[0]
        # There may be no room for the table, so what its numbers are held against stands here.
        others = [
            f"; {without_kind(other.model.name)}: {other.cells[group].mean.value:.2f}"
            for other in board.respondents
            if other.model.name in BESIDE and group in other.cells
        ]
        number = f"{row.cells[group].mean.value:.2f}"
        return f"{name}: {says[0].lower()}{says[1:]} {number} ({group}){''.join(others)}."
    asked = headline(asked)
    mute = {column: low for column in asked if (low := too_low(run, column))}
    said = [column for column in asked if column not in mute]
    scores = " and ".join(
        f"{_rounded(row.cells[c].mean.value)}{' of 100' if c == said[0] else ''} on {_plural(c)}"
        f"{share_of(row.cells[c].mean.tasks, c)}"
        for c in said
    )
    scores += _cut(row) + ", after training on these tasks" * (TRAINED in row.chips)
    if any(row.cells[c].doubt.changed for c in said):
        scores += ", which do not match its distances (‡)"
    known = [[row.cells[c].known for c in said], [row.cells[c].guessed for c in said]]
    if not is_respondent(row.run) and not any(math.isnan(value) for of in known for value in of):
        averages, guesses = (" and ".join(dict.fromkeys(map(_rounded, of))) for of in known)
        scores += f"; knowing only averages scores {averages}, guessing {guesses}"
    for column, low in mute.items():
        metric, mean = next(iter(low.items()))
        scores += f"; it does not answer on {_plural(column)} ({metric} {mean:.2g})"
    return f"{name}: {scores}."


def _rounded(score: float) -> str:
    """Write a score for a sentence, as in the table."""
    return f"{score:.1f}".removesuffix(".0")


def _cut(row: ModelRow) -> str:
    """Say which cells a score covers, unless it covers all."""
    for chip in row.chips:
        if chip.startswith("limit "):
            return f", under --{chip}"
        if chip == "incomplete":
            return ", from a part of each task"
    return ""


def _plural(column: str) -> str:
    """Return the plural name of a group's questions."""
    return plain_name(column).replace("single condition", "single conditions")


#: How verdicts read between two models.
_VERDICTS = {
    "better": "is shown better than",
    "better here": "is shown better in these tasks than",
    "not shown": "is not shown better than",
    "worse here": "is shown worse in these tasks than",
    "worse": "is shown worse than",
    "not compared": "was asked in another way than",
}


def _missing(report: Report, models: Sequence[Model]) -> list[str]:
    """Name unreadable files, and models without a score."""
    parts = []
    if report.unread:
        files = [
            f"{path.name} ({shorten(why, 40, placeholder='…')})" for path, why in report.unread
        ]
        parts.append(f"{plural(len(files), 'file')} could not be read: {few(files)}")
    empty = []
    for model in models:
        values = [
            score.value
            for run in model.runs
            for asked, score in run.scores.items()
            if leaf(asked).benchmark.scored
        ]
        if values and all(map(math.isnan, values)):
            empty.append(model.name)
    if empty:
        parts.append(f"without a score (NaN): {few(empty)}")
    return ["; ".join(parts)] if parts else []


def _counts(report: Report, models: Sequence[Model], boards: Sequence[Board]) -> list[str]:
    """Count what is not shown: models, further runs of shown models, notes."""
    counts = []
    if left_out := sum(board.left_out for board in boards):
        counts.append(f"{plural(left_out, 'more model')}: --full")
    shown = {id(row.run) for board in boards for row in (*board.rows, *board.respondents)}
    more = {
        model.name: len(
            [
                run
                for run in model.runs
                if id(run) not in shown and (run.scores or run.others.keys() - model.others)
            ]
        )
        for model in models
        if any(id(run) in shown for run in model.runs)
    }
    if runs := sum(more.values()):
        tested = [model.name for model in models if not is_respondent(model.shown)]
        names = [name for name, number in more.items() if number]
        of = "" if tested == names else f" ({few([without_kind(name) for name in names])})"
        counts.append(f"{plural(runs, 'more run')} with other settings{of}: --full")
    if tuned := len(_beside_bases(report)):
        counts.append(f"{plural(tuned, 'tuned model')} beside the base: --section tuning")
    asked = [leaf(task) for run in report.runs for task in run.scores]
    if unscored := sorted({of.group for of in asked if not of.benchmark.scored}):
        counts.append(f"{few(unscored)} has no score: --year-lived")
    if number := len(report.notes):
        counts.append(f"{plural(number, 'note')}: --section notes")
    return ["; ".join(counts)] if counts else []


def _beside_bases(report: Report) -> set[Weights]:
    """Return the tuned models that were asked the same tasks as their bases, in the same way."""
    return {
        run.entry.weights
        for run in report.tuned
        if run.base
        and any(shared_tasks([run.entry, run.base], column) for column in report.columns)
    }


def _next(boards: Sequence[Board], results: Sequence[Path]) -> str:
    """Suggest the next commands."""
    if not boards:
        return "Next: --section notes"
    rows = [row for board in boards for row in board.rows]
    mute = [
        (row, column, low)
        for row in rows
        if not row.run.reference
        for column in row.cells
        if (low := too_low(row.run, column))
    ]
    if mute:
        row, column, low = mute[0]
        if "answered" in low:
            return f"Next: read {row.model.name}'s replies in its samples (--log_samples)."
        template = "" if row.run.chat else "--apply_chat_template if it is an instruct model, or "
        stated = f" {WAYS['stated'].named(column)}" if column in TOGETHER else " a written group"
        return f"Next: {row.model.name} does not answer with letters: {template}ask{stated}."
    runs = [row for row in rows if not row.run.reference and not is_respondent(row.run)]
    names = list(dict.fromkeys(row.model.name for row in runs))
    surveys = {leaf(asked).entry.facets.get("survey") for row in rows for asked in row.run.scores}
    kind = _SECTIONS[boards[0].benchmark.name]
    # What one survey was asked has no table by survey.
    where = f"--section {kind}" if kind != "survey" or len(surveys) > 1 else "--full"
    if boards[0].benchmark.predicted:
        return "Next: run epidemia_low,epidemia_high; a quick look predicts but does not rank."
    if len(names) > 1:
        pair, folders = shlex.join(names[:2]), shlex.join(map(str, results))
        fits = len(pair) <= LONGEST and not any(name.startswith("-") for name in names[:2])
        pair = pair if fits else "MODEL OTHER"
        folders = folders if folders and len(folders) <= LONGEST else "RESULTS"
        return f"Next: epidemia compare {pair} {folders}; {where}; --html site/"
    more = "" if any(row.run.reference for row in rows) else ", --published (other models)"
    by = " (score by survey)" if where == "--section survey" else ""
    return f"Next: {where}{by}, --html site/ (every task){more}"


#: The part of the report that says where models go wrong, by benchmark.
_SECTIONS = {"observation": "survey", "quick": "", "intervention": "interventions", "prior": "wins"}
