"""The report on one screen: who is best, a row per model, who is shown better, what comes next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import OBSERVATION
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.findings.boards import (
    BESIDE,
    MOST_ROWS,
    MOST_SENTENCES,
    WORDS,
    Board,
    Line,
    board_of,
)
from lm_eval_epidemia.findings.leaderboard import Report, by_benchmark
from lm_eval_epidemia.findings.means import (
    choice_mass,
    group_mean,
    is_silent,
    tasks_in,
)
from lm_eval_epidemia.findings.overview import predictions
from lm_eval_epidemia.findings.reference import known_over
from lm_eval_epidemia.results.entry import leaf
from lm_eval_epidemia.results.models import Model, models_of

#: Names of two models that stand in a command.
LONGEST_PAIR = 44


class Summary(NamedTuple):
    """What one screen shows: sentences, tables, and lines below them."""

    sentences: list[str]
    boards: list[Board]
    lines: list[str]


@held()
def summary(report: Report) -> Summary:
    """Return a report on one screen."""
    parts = by_benchmark(report.columns)
    models = models_of(report.entries)
    rows = MOST_ROWS if len(parts) == 1 else max(3, 8 // len(parts))
    boards = [board_of(report, models, of, columns, rows) for of, columns in parts.items()]
    return Summary(
        [sentence for board in boards for sentence in sentences_of(board, len(boards) > 1)],
        boards,
        [*_counts(report, models, boards), _next(boards)],
    )


def sentences_of(board: Board, many: bool) -> list[str]:
    """Say what the best model comes to, or each of a few; and of these who is shown better."""
    ours = [line for line in board.lines if not line.run.reference] or board.lines
    short = len(ours) + board.left_out <= MOST_SENTENCES and not many
    said = [_sentence(line, board) for line in (ours if short else ours[:1])]
    if board.verdicts and len(board.lines) <= MOST_SENTENCES:
        verdicts = [
            f"{first.model.name} {_VERDICTS[verdict]} {other.model.name}"
            for first, other, verdict in board.verdicts
        ]
        said.append(f"{'; '.join(verdicts)} ({board.over}).")
    return said


def _sentence(line: Line, board: Board) -> str:
    name, run = line.model.name, line.run
    if is_silent(run, board.columns):
        mass = choice_mass(run, run.scores)
        return f"{name} does not answer: the letters have a probability of {mass:.2g} together."
    if board.benchmark.predicted:
        said = " and ".join(
            f"{number.value:.0f} on {group.removeprefix('predicted ')}"
            for group, number in predictions(run).items()
        )
        return f"{name}: predicted to get {said} of 100 in full runs."
    asked = [c for c in board.columns if tasks_in(run, c)]
    if board.benchmark is not OBSERVATION:
        says, number = board.benchmark.says, group_mean(run, asked[0])
        return f"{name}: {says[0].lower()}{says[1:]} {number.value:.2f} ({asked[0]})."
    asked = [c for c in asked if c in WORDS] or asked[:1]
    scores = " and ".join(
        f"{group_mean(run, c).value:.0f}{' of 100' * (c == asked[0])} on {_plural(c)}"
        for c in asked
    )
    known = [[known_over(run, tasks_in(run, c), who)[0] for c in asked] for who in BESIDE.values()]
    if line.respondent or any(math.isnan(value) for values in known for value in values):
        return f"{name}: {scores}."
    averages, guesses = (
        " and ".join(dict.fromkeys(f"{value:.0f}" for value in values)) for values in known
    )
    return f"{name}: {scores}; knowing averages only gets {averages}, guessing {guesses}."


def _plural(column: str) -> str:
    """Return what a group asks, as many."""
    return WORDS.get(column, column).replace("single condition", "single conditions")


#: How verdicts read between two models.
_VERDICTS = {
    "better": "is shown better than",
    "better here": "is shown better in these tasks than",
    "not shown": "is not shown better than",
    "worse here": "is shown worse in these tasks than",
    "worse": "is shown worse than",
    "not compared": "was asked otherwise than",
}


def _counts(report: Report, models: Sequence[Model], boards: Sequence[Board]) -> list[str]:
    """Count what is not shown: models, runs of those that are, notes."""
    said = []
    if left_out := sum(board.left_out for board in boards):
        said.append(f"{left_out} more {'model' if left_out == 1 else 'models'}: --full")
    lines = [line for board in boards for line in (*board.lines, *board.respondents)]
    shown = {id(line.run) for line in lines}
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
        tested = [model for model in models if model.name == model.shown.model]
        of = "this model" if len(tested) == 1 else few([n for n, k in more.items() if k])
        said.append(f"{runs} more {'run' if runs == 1 else 'runs'} of {of}: --full")
    if report.tuned:
        said.append(f"{len(report.tuned)} tuned beside their base: --section tuning")
    if number := len(report.notes):
        said.append(f"{number} {'note' if number == 1 else 'notes'}: --section notes")
    return ["; ".join(said)] if said else []


def _next(boards: Sequence[Board]) -> str:
    """Say what to look at next."""
    lines = [line for board in boards for line in board.lines]
    if silent := [line for line in lines if not line.answered and not line.run.reference]:
        return (
            f"Next: {silent[0].model.name} does not answer with letters: --apply_chat_template, or "
            "ask epidemia_low_stated."
        )
    runs = [line for line in lines if not line.run.reference and not line.respondent]
    names = list(dict.fromkeys(line.model.name for line in runs))
    surveys = {
        leaf(asked).entry.facets.get("survey") for line in lines for asked in line.run.scores
    }
    kind = _SECTIONS[boards[0].benchmark.name]
    # What one survey was asked has no table by survey.
    where = f"--section {kind}" if kind != "survey" or len(surveys) > 1 else "--full"
    if boards[0].benchmark.predicted:
        return "Next: epidemia_low,epidemia_high; a quick look predicts, and ranks nobody."
    if len(names) > 1:
        pair = " ".join(map(shlex.quote, names[:2]))
        pair = pair if len(pair) <= LONGEST_PAIR else "MODEL OTHER"
        return f"Next: epidemia compare {pair} results/; {where}; --html site/"
    more = "" if any(line.run.reference for line in lines) else ", --published"
    return f"Next: {where} (where it goes wrong), --html site/ (every task){more}"


#: The part of the report that says where models go wrong, by benchmark.
_SECTIONS = {"observation": "survey", "quick": "", "intervention": "interventions", "prior": "wins"}
