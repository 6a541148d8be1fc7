"""Models beside Americans who guessed six shares of the population in 2000.

``guesses_2000.csv`` counts, for each outcome and question (``variable``), the people in the General
Social Survey who gave each whole percentage (unweighted; NORC, public-use data).
"""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks.observation.apart import fit_tilt
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.findings.cells import add_known, group_answers
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.surveys.catalogue import find_task

#: The group of these tasks in its plain way.
GROUP = "epidemia_people"

#: Other figures, in per cent, that answer a question as well as the truth does: white and not
#: Hispanic; the most that is estimated; alone or in combination.
ALSO = {"white": 69.1, "jewish": 2.2, "american_indian": 1.5}

#: What the mean guess is called.
AMERICANS = "the average American of 2000"


def people(results: Results) -> Finding:
    """Models beside Americans who guessed six shares of the population: in all, and each."""
    groups, left_out = group_answers(results, lambda asked: asked.task.startswith(f"{GROUP}_"))
    rows: list[dict[str, object]] = []
    for group in add_known(groups, {AMERICANS: _average_american}):
        single: list[dict[str, Any]] = []
        for asked, (part, told) in group.tasks.items():
            outcome = find_task(asked.task).outcome
            truth, answer = 100 * float(part.p[0, 0]), 100 * float(told.q[0, 0])
            row = {"question": outcome.replace("_", " "), "truth": truth, "answer": answer}
            row |= {
                "off": float(measure_error(outcome, truth, answer)),
                "also": ALSO.get(outcome, math.nan),
            }
            single.append(row | {"beaten": count_beaten(outcome, truth, answer)})
        means = {
            name: math.fsum(row[name] for row in single) / len(single) for name in ("off", "beaten")
        }
        line = fit_tilt([*group.tasks.values()])
        rows.append(group.row | means | {"slope": line.slope, "tilt": line.tilt})
        rows += [group.row | {"tasks": 1} | row for row in single]
    return make_finding("people", rows, results.runs, left_out)


@cache
def guesses() -> dict[str, tuple[Array, Array]]:
    """Return by outcome the guessed percentages, and the number of people for each."""
    rows = pd.read_csv(str(files(__package__) / "guesses_2000.csv"))
    return {
        str(outcome): (own["guess_percent"].to_numpy(float), own["people"].to_numpy(float))
        for outcome, own in rows.groupby("outcome", sort=False)
    }


def measure_error(outcome: str, truth: float, answer: Array | float) -> Array:
    """Return how far answers are from the truth, or from another equally right figure; in %."""
    figures = truth, ALSO.get(outcome, truth)
    return np.min([np.abs(np.asarray(answer) - figure) for figure in figures], axis=0)


def count_beaten(outcome: str, truth: float, answer: float) -> float:
    """Return the per cent of people whose guess was further off; equal distances count half."""
    guess, number = guesses()[outcome]
    theirs, own = measure_error(outcome, truth, guess), float(measure_error(outcome, truth, answer))
    further = number[theirs > own + 1e-9].sum() + number[np.abs(theirs - own) <= 1e-9].sum() / 2
    return float(100 * further / number.sum())


def _average_american(part: Part) -> Array:
    guess, number = guesses()[find_task(part.truth.task).outcome]
    share = float(np.average(guess, weights=number)) / 100
    return np.array([[share, 1 - share]])
