"""Compare models with Americans who guessed six shares of the population in 2000.

``guesses_2000.csv`` counts, for each question, the people in the General Social Survey who gave
each whole percentage (unweighted; NORC, public-use data). Answers come from the samples of
``epidemia_people``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from lm_eval_epidemia.benchmarks.observation.apart import line_of
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.old.findings.answered import Answered, Respondent, read_groups, with_known
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Row, in_groups
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.surveys.catalogue import task

#: The group of these tasks in its plain way, and by outcome the survey's question.
GROUP = "epidemia_people"
QUESTIONS = {
    "white": "uswht",
    "black": "usblk",
    "jewish": "usjews",
    "hispanic": "ushisp",
    "asian": "usasn",
    "american_indian": "usamind",
}

#: Other figures, in per cent, that answer a question as well as the truth does: white and not
#: Hispanic; the most that is estimated; alone or in combination.
ALSO = {"white": 69.1, "jewish": 2.2, "american_indian": 1.5}

#: What the mean guess is called.
AMERICANS = "the average American of 2000"


@cache
def guesses() -> dict[str, tuple[Array, Array]]:
    """Return by outcome the guessed percentages, and the number of people for each."""
    text = (files(__package__) / "guesses_2000.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    of = {}
    for outcome, variable in QUESTIONS.items():
        own = [row for row in rows if row["variable"] == variable]
        guess, people = ([float(row[name]) for row in own] for name in ("guess_percent", "people"))
        of[outcome] = (np.array(guess), np.array(people))
    return of


def off(outcome: str, truth: float, answer: Array | float) -> Array:
    """Return the distance of answers from the truth, or from another equally right figure.

    Parameters
    ----------
    outcome : str
    truth : float
        In per cent, as are answers.
    answer : ndarray or float
    """
    figures = [truth, *([ALSO[outcome]] if outcome in ALSO else [])]
    return np.min([np.abs(np.asarray(answer) - figure) for figure in figures], axis=0)


def beaten(outcome: str, truth: float, answer: float) -> float:
    """Return the per cent of people whose guess was further off; equal distances count half."""
    guess, people = guesses()[outcome]
    theirs, own = off(outcome, truth, guess), float(off(outcome, truth, answer))
    further = people[theirs > own + 1e-9].sum() + people[np.abs(theirs - own) <= 1e-9].sum() / 2
    return float(100 * further / people.sum())


def mean_guess(outcome: str) -> float:
    """Return people's mean guess, in per cent."""
    guess, people = guesses()[outcome]
    return float(np.average(guess, weights=people))


def _average_american(part: Part) -> Array:
    share = mean_guess(task(part.truth.task).outcome) / 100
    return np.array([[share, 1 - share]])


#: Who is known, and what they answer.
KNOWN = {AMERICANS: _average_american}


def read(report: Report) -> tuple[list[Answered], list[str]]:
    """Read the samples of the six questions; see `read_groups`."""
    return read_groups(
        report,
        lambda part: part.truth.task.startswith(f"{GROUP}_"),
        "compare with people's guesses",
        GROUP,
    )


def _rows(who: Respondent) -> Iterator[Row]:
    line = line_of([*who.tasks.values()])
    # Outcome, truth and answer, in per cent.
    answers = [
        (task(asked.task).outcome, 100 * float(part.p[0, 0]), 100 * float(elicited.q[0, 0]))
        for asked, (part, elicited) in who.tasks.items()
    ]
    cells: dict[str, Cell] = {
        "off": math.fsum(float(off(*answer)) for answer in answers) / len(answers),
        "beaten": math.fsum(beaten(*answer) for answer in answers) / len(answers),
        "tilt": line.tilt,
        "slope": line.slope,
    }
    yield who.row(cells)
    for outcome, truth, answer in answers:
        single: dict[str, Cell] = {
            "question": outcome.replace("_", " "),
            "truth": truth,
            "answer": answer,
            "off": float(off(outcome, truth, answer)),
            "beaten": beaten(outcome, truth, answer),
        }
        yield who.row(single, outcome, {"tasks": 1})


NOTE = (
    "Some 1,300 Americans guessed six shares of the US population in 2000, in per cent. Off: "
    "percentage points from the truth; if the question leaves open which figure it means, from "
    "the nearest one (white and not Hispanic 69.1, Jewish up to 2.2, American Indian in "
    "combination 1.5). Beaten: the people whose guess was further off. Slope and tilt: the line "
    "of the log-odds of the six answers on those of the truths. A slope below 1 means guesses too "
    "close to one half, as people's are. Six questions are too few to rank models."
)


def findings(groups: Sequence[Answered]) -> list[Finding]:
    """Return the table: for each model and for people, a row of means and the six questions."""
    columns = (
        *map(Column, ("model", "group", "question")),
        Column("truth", "truth", 1, unit=" %"),
        Column("answer", "answer", 1, unit=" %"),
        Column("off", "percentage points off", 1),
        Column("beaten", "people whose guess was further off", 0, unit=" %"),
        Column("slope", "slope", 2),
        Column("tilt", "tilt", 2, signed=True),
    )
    rows = [row for who in with_known(groups, KNOWN) for row in _rows(who)]
    shown = ("model", "group", "question", *(column.name for column in columns[3:]))
    title = "Compared with the guesses of Americans"
    return [in_groups(Finding("people", title, columns, rows, NOTE, 3, shown))]
